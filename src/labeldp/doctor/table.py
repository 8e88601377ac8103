"""`look`: the table doctor. Features are looked at; labels only if the label column is named.

    the schema            columns that no model can use        are dropped
    texts, as they stand  a few strays among numbers or dates  count as missing
    the table             numbers that stand for no answer     count as missing
    the same again        digits that are days                 are read as dates
    the same again        texts made of numbers and words      are taken into pieces

What is found changes how the table reads, so it is read again before the next is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from labeldp.common.arguments import checked
from labeldp.data.columns import is_usable
from labeldp.data.frames import lasting
from labeldp.data.opening import open_table
from labeldp.data.reading import Text
from labeldp.data.spelling import ANY_TEXT
from labeldp.doctor.advice import findings, options
from labeldp.doctor.between import dependent, duplicates, persons, twins
from labeldp.doctor.codes import as_missing, find_codes
from labeldp.doctor.column import Traits
from labeldp.doctor.columns import describe_all, find_pieces
from labeldp.doctor.compact import compact_dates
from labeldp.doctor.label import describe_label
from labeldp.doctor.strays import count_blanks, find_strays
from labeldp.doctor.view import Known, View


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
    said = Known(label, tuple(drop), tuple(categorical), tuple(numeric), text)
    reader = open_table(data, said.reading)
    useless = _useless(reader.schema, (label, *said.drop))
    known = replace(said, drop=(*said.drop, *useless))
    reader, strays = find_strays(reader, known)
    view = View.of(data, strays.told(known))
    codes = find_codes(view, reader)
    view = view.reread(view.known.with_missing(as_missing(codes)))
    view = view.reread(_dated(view))
    columns = describe_all(view)
    parts = find_pieces(view, columns, said)
    apart = _in_pieces(view.known, parts, strays.numbers)
    if apart != view.known:
        view = view.reread(apart)
        columns = describe_all(view)
    for facts in columns:
        facts["codes"] = list(codes.get(facts["name"], ()))
    count_blanks(columns, reader, strays)
    notes = [*view.source.notes, *map(_pieces_note, parts, parts.values()), *useless.values()]
    return _answer(view, columns, notes)


def _useless(schema: pa.Schema, taken: Sequence[str | None]) -> dict[str, str]:
    """Columns of types that no model here can use, and what is said of them."""
    names = [each.name for each in schema if each.name not in taken and not is_usable(each.type)]
    why = "neither a number nor a category, left out"
    return {name: f"{name}: {schema.field(name).type}, {why}" for name in names}


def _dated(view: View) -> Known:
    """What is known with the format of days such as 20210305, unless one was said."""
    form = next(filter(None, map(compact_dates, view.table.columns)), None)
    if form is None or view.known.text.get("date_format") is not None:
        return view.known
    return replace(view.known, text={**view.known.text, "date_format": form})


def _in_pieces(known: Known, parts: Mapping[str, Sequence[str]], numbers: Sequence[str]) -> Known:
    """What is known with these pieces of texts.

    Other columns that are `numbers` for the most part are that, and their texts count as missing.
    """
    mostly = [name for name in numbers if name not in parts]
    if not (parts or mostly):
        return known
    names = tuple(name for name in known.categorical if name not in (*parts, *mostly))
    more = [part for found in parts.values() for part in found]
    text = {**known.text, "text_parts": (*(known.text.get("text_parts") or ()), *more)}
    apart = replace(known, categorical=names, text=text)
    return apart.with_missing(f"{name}={ANY_TEXT}" for name in mostly)


def _pieces_note(name: str, parts: Sequence[str]) -> str:
    return f"{name}: in the place of its texts {', '.join(parts)}; `text_parts` says so"


def _answer(view: View, columns: Sequence[Traits], notes: Sequence[str]) -> dict[str, Any]:
    """All that was found, in plain values."""
    table, reader, data = view.table, view.source.reader, view.data
    kinds = {facts["name"]: facts["kind"] for facts in columns}
    answer = {
        "table": str(data) if isinstance(data, str | Path) else reader.format,
        "rows": view.source.total_rows or table.num_rows,
        "rows_read": table.num_rows,
        "columns": columns,
        "duplicates": duplicates(table),
        "persons": list(persons(table, kinds)),
        "twins": list(twins(table, kinds)),
        "dependent": list(dependent(table, kinds)),
        "notes": notes,
        "label": None if view.known.label is None else describe_label(view, columns),
    }
    answer["findings"] = list(findings(answer))
    return answer | options(answer, view.known.kinds, view.known.text)
