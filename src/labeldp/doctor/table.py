"""`look`: the table doctor. Features are looked at; labels only if the label column is named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.common import checked
from labeldp.doctor.advice import findings, options
from labeldp.doctor.between import dependent, duplicates, persons, twins
from labeldp.doctor.codes import compact_dates, stand_ins
from labeldp.doctor.column import COSTLY, MANY_ROWS, Facts, decoded, describe, dummies
from labeldp.doctor.label import describe_label
from labeldp.doctor.pieces import pieces
from labeldp.doctor.strays import (
    MOST_ROWS,
    add_blanks,
    find_strays,
    stray_words,
    with_strays,
    written,
)
from labeldp.errors import InputError
from labeldp.features import LevelsAndRanges, Said, Verdict, check_size, judge, merge_levels
from labeldp.source import (
    ANY_TEXT,
    Column,
    Reading,
    Source,
    Text,
    lasting,
    open_table,
    scan,
    split_part,
    to_labels,
    usable,
)

_MOST_WORDS = 3


@checked
def look(
    data: Any,
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    **text: Unpack[Text],
) -> dict[str, Any]:
    """What a table holds, and the options that suit it.

    Parameters
    ----------
    data
        what `scan` takes, but for a Spark data frame; of many rows the first million.
    label
        the private column. Only if it is named are labels read, and then what is said of them
        (under "label") is for the curator only. Without it every column is taken for a public
        feature.
    drop, categorical, numeric
        as for `scan`: what you know already.
    delimiter, encoding, skip_lines, skip_footer, decimal, thousands, na, date_format
        as for `scan`: how text is spelt.
    date_parts, text_parts
        as for `scan`: what becomes columns of its own.

    Returns
    -------
    dict[str, Any]
        Plain values. "columns" has a dictionary for each feature, "options" the words to append to
        `labeldp release`, "needed" what only you can choose.

    Raises
    ------
    DataError
        the table cannot be read.
    InputError
        an argument is wrong.

    Examples
    --------
    >>> import labeldp
    >>> found = labeldp.look({"age": [30.5, 40.25, 50.75], "town": ["A", "B", "A"]})
    >>> found["rows"], [column["kind"] for column in found["columns"]]
    (3, ['number', 'category'])
    """
    data = lasting(data)
    known: dict[str, Any] = {
        "drop": tuple(drop),
        "categorical": tuple(categorical),
        "numeric": tuple(numeric),
    }
    said = Reading.of(text, named=() if label is None else (label,))
    reader = open_table(data, said)
    useless = _useless(reader.schema, (label, *drop))
    known["drop"] += tuple(useless)
    taken = (label, *known["drop"], *(split_part(part)[0] for part in said.text_parts))
    reader, strays, words, numbers = find_strays(reader, taken, known, said)
    known["categorical"] += (*words, *numbers)
    reading = with_strays(text, strays)
    source = scan(data, label=label, **known, **reading)
    if source.reader.engine is not None:
        raise InputError("look reads a table here; pass some rows of it, such as limit(100_000)")
    table = _rows(source)
    codes = _codes(source, table, reader, (*known["numeric"], *known["categorical"]))
    if codes:
        reading["na"] = (*(reading.get("na") or ()), *_said_of(codes))
        source = scan(data, label=label, **known, **reading)
        table = _rows(source)
    compact = next(filter(None, map(compact_dates, table.columns)), None)
    if said.date_format is None and compact is not None:
        reading["date_format"] = compact
        source = scan(data, label=label, **known, **reading)
        table = _rows(source)
    columns, found = _described(source, table, (*categorical, *numeric))
    mostly = [name for name in numbers if name not in found]
    if found or mostly:
        known["categorical"] = tuple(n for n in known["categorical"] if n not in (*found, *mostly))
        more = [part for parts in found.values() for part in parts]
        reading["text_parts"] = (*said.text_parts, *more)
        reading["na"] = (*(reading.get("na") or ()), *(f"{name}={ANY_TEXT}" for name in mostly))
        source = scan(data, label=label, **known, **reading)
        table = _rows(source)
        columns, _ = _described(source, table, (*categorical, *numeric))
    for facts in columns:
        facts["codes"] = list(codes.get(facts["name"], ()))
    kinds = {facts["name"]: facts["kind"] for facts in columns}
    add_blanks(columns, reader, strays)
    answer = {
        "table": str(data) if isinstance(data, str | Path) else source.reader.format,
        "rows": source.total_rows or table.num_rows,
        "rows_read": table.num_rows,
        "columns": columns,
        "duplicates": duplicates(table),
        "persons": list(persons(table, kinds)),
        "twins": list(twins(table, kinds)),
        "dependent": list(dependent(table, kinds)),
        "notes": [*source.notes, *map(_pieces_note, found, found.values()), *useless.values()],
        "label": None if label is None else _label(source, table, columns, known),
    }
    answer["findings"] = list(findings(answer))
    return answer | options(answer, known, reading)


def _described(
    source: Source, table: pa.Table, said: Sequence[str]
) -> tuple[list[Facts], dict[str, list[str]]]:
    """Facts about all columns, and the pieces that some would better be taken into."""
    tally = _tallied(source, table)
    many = MANY_ROWS + COSTLY * _scales(table)
    columns = [describe(c, table[c.name], _verdict(c, tally), many) for c in source.columns]
    parts = dict[str, list[str]]()
    for facts, column in zip(columns, source.columns, strict=True):
        facts["levels"] = _levels(facts, tally)
        if not (column.name in said or split_part(column.name)[1]):
            parts[column.name] = pieces(facts, table[column.name])
    return columns, {name: found for name, found in parts.items() if found}


def _pieces_note(name: str, parts: Sequence[str]) -> str:
    return f"{name}: in the place of its texts {', '.join(parts)}; `text_parts` says so"


def _useless(schema: pa.Schema, taken: Sequence[str | None]) -> dict[str, str]:
    """Columns of types that no model here can use, and what is said of them."""
    names = [each.name for each in schema if each.name not in taken and not usable(each.type)]
    why = "neither a number nor a category, left out"
    return {name: f"{name}: {schema.field(name).type}, {why}" for name in names}


def _rows(source: Source) -> pa.Table:
    batches, rows = [], 0
    for batch in source.feature_batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    columns = [
        pa.chunked_array(
            [decoded(pa.chunked_array([batch.column(k)])).chunk(0) for batch in batches]
        )
        for k in range(len(source.names))
    ]
    for name, column in zip(source.names, columns, strict=True):
        if pa.types.is_floating(column.type):
            ends = pc.min_max(column)
            check_size(ends["min"].as_py() or 0.0, ends["max"].as_py() or 0.0, name)
    return pa.table(columns, names=list(source.names))


def _codes(
    source: Source, table: pa.Table, reader: Any, said: Sequence[str]
) -> dict[str, dict[int | float, list[str]]]:
    """Numbers that stand for missing ones and how they are written, by column.

    Where somebody said what a column is, none.
    """
    open_ = [name for name in table.column_names if name not in said]
    found = {name: stand_ins(table[name]) for name in open_}
    spelt = {name: way for name, way in source.wording.spellings.items() if way.way == "numbers"}
    return {
        name: written(reader, name, spelt[name], codes)
        if name in spelt
        else {code: [str(code)] for code in codes}
        for name, codes in found.items()
        if codes
    }


def _said_of(codes: Mapping[str, Mapping[int | float, Sequence[str]]]) -> list[str]:
    """As `na` has it."""
    return [
        f"{name}={text}"
        for name, found in codes.items()
        for texts in found.values()
        for text in texts
    ]


def _tallied(source: Source, table: pa.Table) -> LevelsAndRanges:
    """What a plan of these rows would look at first."""
    tally = LevelsAndRanges(source.columns, table.num_rows, source.reader.format)
    for batch in table.to_batches():
        tally.add(batch, None, 0)
    for levels in tally.levels.values():
        levels.flush()
    return tally


def _scales(table: pa.Table) -> int:
    """Design columns that whole numbers in a row would have if they were categories."""
    return sum(dummies(name, table[name]) for name in table.column_names)


def _verdict(column: Column, tally: LevelsAndRanges) -> Verdict:
    """What it would take a column for."""
    name, least = column.name, math.isqrt(tally.rows)
    return judge(column, tally.extremes.get(name), tally.levels.get(name), least)


def _levels(facts: Facts, tally: LevelsAndRanges) -> list[str]:
    """What would be said of the levels of a category that are spelt in several ways or rare."""
    levels, notes = tally.levels.get(facts["name"]), list[Said]()
    if facts["kind"] == "category" and levels is not None and not levels.too_many:
        merge_levels(facts["name"], levels.counts, math.isqrt(tally.rows), notes)
    return [str(note) for note in notes]


def _label(
    source: Source, table: pa.Table, columns: Sequence[Facts], known: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """From raw labels: nothing of it reaches the options but that some are missing."""
    label = str(source.label)
    read = [
        to_labels(batch.column(0), source.wording)
        for batch in source.reader.batches([label], source.batch_rows)
    ]
    labels = np.concatenate([values for values, _ in read])[: table.num_rows]
    unreadable = any("text" in found for _, found in read)
    strange = stray_words(source.reader, label, False, Reading()) if unreadable else []
    said = {
        kind: [*known[kind], *(c["name"] for c in columns if c["advice"] == kind)]
        for kind in ("numeric", "categorical")
    }
    told = describe_label(label, labels, unreadable, table, columns, said)
    return told | {"words": strange[:_MOST_WORDS]}
