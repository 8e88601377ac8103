"""`look`: what a table holds. Features are looked at; labels only if their column is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.columns import is_usable, value_type
from labeldp.data.frames import as_rereadable
from labeldp.data.options import TextOptions
from labeldp.data.source import Source, open_table, scan
from labeldp.errors import InputError, to_str_tuple
from labeldp.features.columns import check_size
from labeldp.profile.advice import findings, release_options
from labeldp.profile.columns import compact_date_format, describe_columns
from labeldp.profile.label import describe_label
from labeldp.profile.relations import count_duplicates, find_persons, find_sums, find_twins

_MOST_ROWS = 1_000_000


def look(
    data: Any,
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    skip_lines: int | None = None,
    skip_footer: int | None = None,
    decimal: str | None = None,
    na: Sequence[str] | None = None,
    date_format: str | None = None,
) -> dict[str, Any]:
    """Return what a table holds, and the options that suit it.

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
    delimiter, encoding, skip_lines, skip_footer, decimal, na, date_format
        as for `scan`: how text is read.

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
    drop = to_str_tuple("drop", drop)
    data = as_rereadable(data, label)
    options = TextOptions(
        delimiter=delimiter,
        encoding=encoding,
        skip_lines=skip_lines,
        skip_footer=skip_footer,
        decimal=decimal,
        na=None if na is None else to_str_tuple("na", na),
        date_format=date_format,
    )
    reader = open_table(data, options, label=label, named=() if label is None else (label,))
    unusable = _unusable(reader.stored_schema, (label, *drop))
    said: dict[str, Any] = {
        "drop": (*drop, *unusable),
        "categorical": categorical,
        "numeric": numeric,
    }
    spelling = options.said
    source = scan(data, label=label, **said, **spelling)
    table = _read(source)
    form = next(filter(None, map(compact_date_format, table.columns)), None)
    if form is not None and date_format is None:
        spelling["date_format"] = form
        source = scan(data, label=label, **said, **spelling)
        table = _read(source)
    columns = describe_columns(source, table)
    kinds = {facts["name"]: facts["kind"] for facts in columns}
    answer: dict[str, Any] = {
        "table": str(data) if isinstance(data, str | Path) else source.reader.format,
        "rows": source.total_rows or table.num_rows,
        "rows_read": table.num_rows,
        "columns": columns,
        "duplicates": count_duplicates(table),
        "persons": find_persons(table, kinds),
        "twins": list(find_twins(table, kinds)),
        "dependent": list(find_sums(table, kinds)),
        "notes": [*source.notes, *unusable.values()],
        "label": None if label is None else describe_label(source, table, columns),
    }
    answer["findings"] = list(findings(answer))
    return answer | release_options(answer, said, spelling)


def _unusable(schema: pa.Schema, taken: Sequence[str | None]) -> Mapping[str, str]:
    """Return columns of types that no model here can use, and what is said of them."""
    why = "neither a number nor a category, left out"
    return {
        each.name: f"{each.name}: {each.type}, {why}"
        for each in schema
        if each.name not in taken and not is_usable(each.type)
    }


def _read(source: Source) -> pa.Table:
    """Return the features, or a million rows of them, with categories as the texts they are."""
    if source.reader.on_cluster:
        raise InputError("look reads a table here; pass some rows of it, such as limit(100_000)")
    batches, rows = [], 0
    for batch in source.feature_batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _MOST_ROWS:
            break
    columns = []
    for place, name in enumerate(source.names):
        column = pa.chunked_array([_plain(batch.column(place)) for batch in batches])
        if pa.types.is_floating(column.type):
            ends = pc.min_max(column)
            check_size(ends["min"].as_py() or 0.0, ends["max"].as_py() or 0.0, name)
        columns.append(column)
    return pa.table(columns, names=list(source.names))


def _plain(values: pa.Array) -> pa.Array:
    """Return an array of a type that Arrow has all functions for."""
    if pa.types.is_null(values.type):
        return values.cast(pa.string())
    if pa.types.is_float16(values.type):
        return values.cast(pa.float32())
    return values.cast(value_type(values.type)) if pa.types.is_dictionary(values.type) else values
