"""`look`: what a table holds. Features are looked at; labels only if their column is named."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.columns import is_usable, value_type
from labeldp.data.options import TextOptions
from labeldp.data.source import Source, open_table, scan
from labeldp.errors import InputError, to_str_tuple
from labeldp.features.columns import check_size
from labeldp.profile.columns import describe_columns, find_persons, join_list
from labeldp.profile.label import describe_label

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
    unusable = {
        each.name: f"{each.name}: {each.type}, neither a number nor a category, left out"
        for each in reader.stored_schema
        if each.name not in (label, *drop) and not is_usable(each.type)
    }
    named: dict[str, Any] = {
        "drop": (*drop, *unusable),
        "categorical": categorical,
        "numeric": numeric,
    }
    text = options.keywords
    source = scan(reader, label=label, **named, **text)
    table = _read(source)
    columns = describe_columns(source, table)
    kinds = {facts["name"]: facts["kind"] for facts in columns}
    answer: dict[str, Any] = {
        "table": str(data) if isinstance(data, str | Path) else source.reader.format,
        "rows": source.total_rows or table.num_rows,
        "rows_read": table.num_rows,
        "columns": columns,
        "persons": find_persons(table, kinds),
        "notes": [*source.notes, *unusable.values()],
        "label": None if label is None else describe_label(source, table, columns),
    }
    answer["findings"] = list(_findings(answer))
    return answer | _release_options(answer, named, text)


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
        chunks = [batch.column(place) for batch in batches]
        kind = value_type(chunks[0].type)
        if pa.types.is_null(kind) or pa.types.is_float16(kind):  # Arrow lacks functions for them
            kind = pa.float32()
        column = pa.chunked_array(
            [each if each.type == kind else each.cast(kind) for each in chunks]
        )
        if pa.types.is_floating(kind):
            ends = pc.min_max(column)
            check_size(ends["min"].as_py() or 0.0, ends["max"].as_py() or 0.0, name)
        columns.append(column)
    return pa.table(columns, names=list(source.names))


def _findings(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what somebody should know before a release: of labels, of persons, of columns."""
    if answer["label"] is not None:
        yield from _about_label(answer["label"])
    for each in answer["persons"]:
        name, rest = each["column"], "" if each["advised"] else "; add it if that is wanted"
        yield (
            f"{name}: {each['mean']:.1f} rows each on average, at most {each['most']:,}; "
            f"`person={name}` protects all rows of one together, not single rows{rest}"
        )
    for facts in answer["columns"]:
        yield from facts["findings"]


def _about_label(label: Mapping[str, Any]) -> Iterator[str]:
    """Yield what only the curator may know."""
    public = "(for the curator only): features are published, and labels would be with them"
    for name, why in label["copies"].items():
        yield f"{name} {why} {public}; `drop={shlex.quote(join_list([name]))}`"
    if label["parts"]:
        names = join_list(label["parts"])
        yield f"the label follows from {names} and others {public}; `drop={shlex.quote(names)}`"
    for name in label["close"]:
        yield f"{name} follows the label closely (for the curator only): is it public? Features are"
    if label["missing"]:
        share = label["missing"] / label["rows"]
        yield (
            f"{label['missing']:,} of {label['rows']:,} rows ({share:.1%}) have no label (for the "
            "curator only): `drop_missing_labels` leaves them out, and who lacks one shows"
        )
    if label["unreadable"]:
        yield (
            f"{label['unreadable']:,} labels are texts or no finite numbers (for the curator "
            "only), and a release refuses them: give each answer a number, or name those that "
            "mean missing (`na`); to leave an answer out shows who gave it"
        )


def _release_options(
    answer: Mapping[str, Any], columns: Mapping[str, Sequence[str]], text: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the words to append to `labeldp release`, and what only the curator can choose.

    `columns` and `text` are what was said of the columns and of the text.
    """
    label, persons = answer["label"], [p["column"] for p in answer["persons"] if p["advised"]]
    drop = [*columns["drop"], *(c["name"] for c in answer["columns"] if c["kind"] == "id")]
    words, needed = list[str](), ["--label-range LO HI", "--out DIR"]
    if label is None:
        needed.insert(0, "--label COLUMN")
    else:
        words += ["--label", label["name"]]
        drop += [*label["copies"], *label["parts"]]
    lists = {"person": persons, "drop": [name for name in drop if name not in persons]}
    for kind in ("categorical", "numeric"):
        lists[kind] = [name for name in columns[kind] if name not in (*persons, *drop)]
    for name, value in {**lists, **text}.items():
        if value:
            words += ["--" + name.replace("_", "-"), join_list(value)]
    if label is not None:
        words += ["--drop-missing-labels", "--clip"][not label["missing"] :]
    return {"options": words, "needed": needed}


def summary(answer: Mapping[str, Any]) -> str:
    """Return one line about the table."""
    read, rows = answer["rows_read"], answer["rows"]
    part = "" if read == rows else f" (the first {read:,} read)"
    return f"{rows:,} rows{part}, {len(answer['columns'])} features"


def command(answer: Mapping[str, Any]) -> str:
    """Return the command to copy; what only the curator can choose stands in capitals.

    Copies of the label are found only once it is named, so until then that is the next step.
    """
    if answer["label"] is None:
        return f"{shlex.join(['labeldp', 'look', answer['table']])} --label COLUMN"
    words = ["labeldp", "release", answer["table"], *answer["options"]]
    return " ".join([shlex.join(words), *answer["needed"]])


def cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a column's facts: name, kind, why, distinct and missing values, range."""
    ends = f"{facts['low']:g} to {facts['high']:g}" if "low" in facts else ""
    counts = (f"{facts['distinct']:,}", f"{facts['missing']:,}")
    return (facts["name"], facts["kind"], facts["why"], *counts, ends)
