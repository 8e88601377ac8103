"""`look`: what a table holds. Features are looked at; labels only if their column is named."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
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
from labeldp.profile.columns import compact_date_format, describe_columns, find_persons
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
    spelling = options.keywords
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
        "duplicates": _count_duplicates(table),
        "persons": find_persons(table, kinds),
        "notes": [*source.notes, *unusable.values()],
        "label": None if label is None else describe_label(source, table, columns),
    }
    answer["findings"] = list(_findings(answer))
    return answer | _release_options(answer, said, spelling)


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
        return values.cast(pa.float64())
    if pa.types.is_float16(values.type):
        return values.cast(pa.float32())
    return values.cast(value_type(values.type)) if pa.types.is_dictionary(values.type) else values


def _count_duplicates(table: pa.Table) -> int:
    """Return how many rows repeat another in every feature."""
    groups = table.group_by(table.column_names, use_threads=False).aggregate([([], "count_all")])
    return int(table.num_rows - groups.num_rows)


def _findings(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what somebody should know before a release, a sentence each, the gravest first."""
    if answer["label"] is not None:
        yield from _about_label(answer["label"])
    for each in answer["persons"]:
        name = each["column"]
        rows = f"{name}: {each['mean']:.1f} rows each on average, at most {each['most']:,}"
        if each["advised"]:
            yield f"{rows}; `person={name}` protects all rows of one together, not single rows"
        else:
            yield f"{rows}; if all rows of one are to be protected together, add `person={name}`"
    columns = answer["columns"]
    for facts in columns:
        if facts["advice"] is not None or facts["kind"] == "constant":
            yield f"{facts['name']}: {facts['kind']}, {facts['why']}"
    for facts in columns:
        if facts["mend"] is not None:
            lines = "\n".join(facts["mend"]["lines"])
            yield (
                f"{facts['name']}: {facts['kind']} of texts that look like "
                f"{facts['mend']['kind']}; if they are that and no codes, in pandas:\n{lines}"
            )
    for facts in columns:
        codes = facts["no_answer"]
        if codes:
            words = join_list(f"{facts['name']}={code}" for code in codes)
            yield (
                f"{facts['name']}: {', '.join(map(str, codes))} far from all other numbers; if "
                f"that means missing, add `na={words}`"
            )
    for facts in columns:
        outlier = facts["outlier"]
        if outlier is not None:
            yield (
                f"{facts['name']}: {outlier['value']:g} is far from the usual "
                f"{outlier['typical']:g}: its row has leverage {outlier['leverage']:.2g}, "
                f"winsorised {outlier['leverage_winsorised']:.2g}"
            )
    for facts in columns:
        yield from facts["levels"]
    if answer["duplicates"]:
        yield f"{answer['duplicates']:,} rows repeat another row in every feature"


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
        such = f" such as {', '.join(label['texts'])}" if label["texts"] else ""
        yield (
            f"{label['unreadable']:,} labels are texts{such} or no finite numbers (for the curator "
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
    lists = {
        kind: [*names, *(c["name"] for c in answer["columns"] if c["advice"] == kind)]
        for kind, names in columns.items()
    }
    if label is not None:
        lists["drop"] += [*label["copies"], *label["parts"]]
    gone = {*persons, *lists["drop"]}
    winsor = {c["name"]: c["winsor"] for c in answer["columns"] if c.get("winsor")}
    lists = {
        kind: [n for n in names if n not in (persons if kind == "drop" else gone)]
        for kind, names in lists.items()
    }
    lists["winsor"] = [f"{n}={share:g}" for n, share in winsor.items() if n not in gone]
    words = [] if label is None else ["--label", label["name"]]
    for name, value in {"person": persons, **lists, **text}.items():
        if value:
            words += ["--" + name.replace("_", "-"), join_list(value)]
    if label is not None and label["missing"]:
        words.append("--drop-missing-labels")
    needed = ["--label-range LO HI", "--out DIR"]
    if label is None:
        return {"options": words, "needed": ["--label COLUMN", *needed]}
    return {"options": [*words, "--clip"], "needed": needed}


def join_list(value: Any) -> str:
    """Return the value of an option as the command line takes it; names with commas in quotes."""
    if isinstance(value, str | int):
        return str(value)
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(dict.fromkeys(value))
    return text.getvalue()
