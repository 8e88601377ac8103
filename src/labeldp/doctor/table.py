"""`look`: the table doctor. Features are looked at; labels only if the label column is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.doctor.column import Facts, decoded, describe, named_like_an_id
from labeldp.doctor.label import describe_label
from labeldp.errors import InputError
from labeldp.source import Source, scan
from labeldp.source.delimited import DelimitedReader
from labeldp.source.kinds import is_number, is_text, plain
from labeldp.source.labels import to_labels
from labeldp.source.spelling import SOFT_BLANKS, Reading, number_pattern
from labeldp.source.table import open_table
from labeldp.source.values import NULL_WORDS, to_float

_MOST_ROWS = 1_000_000
_MOST_STRAYS = 12
_MOST_PAIRS = 500
_BATCH = 1 << 16


def look(
    data: Any,
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    **reading: Any,
) -> dict[str, Any]:
    """What a table holds, and the options that suit it.

    Args:
      data: what `scan` takes, but for a Spark data frame; of many rows the first million.
      label: the private column. Only if it is named are labels read, and then what is said
        of them (under "label") is for the curator only. Without it every column is taken for
        a public feature.
      drop, categorical, numeric: as for `scan`: what you know already.
      reading: keywords of `scan` that say how text is spelt.

    Returns:
      Plain values. "columns" has a dictionary for each feature, "options" the words to append
      to `labeldp release`, "needed" what only you can choose.
    """
    known: dict[str, Any] = {
        "drop": tuple(drop),
        "categorical": tuple(categorical),
        "numeric": tuple(numeric),
    }
    strays, words = _strays(data, label, known, reading)
    known["categorical"] += words
    source = scan(data, label=label, **known, **_with_strays(reading, strays))
    if source.reader.engine is not None:
        raise InputError("look reads a table here; pass some rows of it, such as limit(100_000)")
    table = _rows(source)
    columns = [describe(column, table[column.name]) for column in source.columns]
    kinds = {facts["name"]: facts["kind"] for facts in columns}
    _add_blanks(columns, _open(data, reading), strays)
    answer = {
        "table": str(data) if isinstance(data, str | Path) else source.reader.format,
        "rows": source.total_rows or table.num_rows,
        "rows_read": table.num_rows,
        "columns": columns,
        "duplicates": _duplicates(table),
        "persons": list(_persons(table, kinds)),
        "twins": list(_twins(table, kinds)),
        "notes": list(source.notes),
        "label": None if label is None else _label(source, table, kinds),
    }
    answer["findings"] = list(_findings(answer))
    return answer | _options(answer, known, reading, strays)


def _open(data: Any, reading: Mapping[str, Any]) -> Any:
    said = {name: value for name, value in reading.items() if value}
    return open_table(
        data, Reading(**{n: v for n, v in said.items() if n != "date_parts"} | _na(said))
    )


def _na(said: Mapping[str, Any]) -> dict[str, Any]:
    return {"na": tuple(said["na"])} if said.get("na") else {}


def _rows(source: Source) -> pa.Table:
    batches, rows = [], 0
    for batch in source.feature_batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _MOST_ROWS:
            break
    columns = [
        pa.chunked_array(
            [decoded(pa.chunked_array([batch.column(k)])).chunk(0) for batch in batches]
        )
        for k in range(len(source.names))
    ]
    return pa.table(columns, names=list(source.names))


def _decoded(values: pa.Array) -> pa.Array:
    return decoded(pa.chunked_array([values])).chunk(0)


def _strays(
    data: Any, label: str | None, known: Mapping[str, Sequence[str]], reading: Mapping[str, Any]
) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Texts among numbers, which `scan` would refuse: blanks if they are few, else words."""
    reader = _open(data, reading)
    if not isinstance(reader, DelimitedReader):
        return {}, ()
    taken = (label, *known["drop"], *known["categorical"])
    names = [name for name in reader.schema.names if name not in taken]
    reader, types = reader.looked(names)
    strays: dict[str, list[str]] = {}
    words: list[str] = []
    for name, looks in types.looks.items():
        if looks.misspelt(name in known["numeric"], False):
            found = _stray_words(reader, name)
            if len(found) <= _MOST_STRAYS and not any("," in word for word in found):
                strays[name] = found
            else:
                words.append(name)
    return strays, tuple(words)


def _stray_words(reader: DelimitedReader, name: str) -> list[str]:
    reading, found = reader.reading, set[str]()
    for batch in reader.batches([name], _BATCH):
        texts = pc.utf8_trim_whitespace(batch.column(0).drop_null().unique())
        for sign in reading.decimals():
            fits = pc.match_substring_regex(texts, number_pattern(sign, reading.thousands))
            texts = texts.filter(pc.invert(fits))
        found.update(texts.to_pylist())
    return sorted(found - set(SOFT_BLANKS))


def _with_strays(reading: Mapping[str, Any], strays: Mapping[str, list[str]]) -> dict[str, Any]:
    words = [word for found in strays.values() for word in found]
    if not words:
        return dict(reading)
    return {**reading, "na": tuple(dict.fromkeys((*(reading.get("na") or ()), *words)))}


def _add_blanks(columns: list[Facts], reader: Any, strays: Mapping[str, list[str]]) -> None:
    """How missing values are spelt, where that is text."""
    if isinstance(reader, DelimitedReader):
        reader = replace(reader, reading=replace(reader.reading, na=()), encoding=reader.encoding)
    texts = [c["name"] for c in columns if _is_text(reader.schema, c["name"])]
    if not texts:
        return
    by_name = {facts["name"]: facts for facts in columns}
    rows = 0
    for batch in reader.batches(texts, _BATCH):
        for name, column in zip(texts, batch.columns, strict=True):
            _count_blanks(by_name[name], column, strays.get(name, []))
        rows += batch.num_rows
        if rows >= _MOST_ROWS:
            break


def _is_text(schema: pa.Schema, name: str) -> bool:
    return name in schema.names and is_text(plain(schema.field(name).type))


def _count_blanks(facts: Facts, column: pa.Array, strays: Sequence[str]) -> None:
    words = {*NULL_WORDS, *strays} | (set() if facts["kind"] == "category" else {*SOFT_BLANKS})
    counted = _decoded(column).value_counts().to_pylist()
    for entry in counted:
        text = entry["values"]
        if text is None or text.strip() in words:
            shown = "" if text is None else text
            facts["blanks"][shown] = facts["blanks"].get(shown, 0) + entry["counts"]


def _duplicates(table: pa.Table) -> int:
    """Rows that repeat another in every feature."""
    names = table.column_names
    groups = table.group_by(names, use_threads=False).aggregate([([], "count_all")])
    return int(table.num_rows - groups.num_rows)


def _persons(table: pa.Table, kinds: Mapping[str, str]) -> Iterator[Facts]:
    """Columns named like ids that repeat: whose rows these are."""
    for name in table.column_names:
        if not named_like_an_id(name) or kinds[name] not in ("id", "category"):
            continue
        counts = table[name].drop_null().value_counts().field("counts").to_numpy()
        if len(counts) > 12 and counts.mean() > 1.2:
            yield {"column": name, "mean": float(counts.mean()), "most": int(counts.max())}


def _twins(table: pa.Table, kinds: Mapping[str, str]) -> Iterator[Facts]:
    """Columns of which one follows from the other."""
    used = [n for n in table.column_names if kinds[n] in ("number", "date", "category")]
    numbers = {n: _standard(table[n]) for n in used if is_number(table[n].type)}
    pairs = list(combinations(used, 2))[:_MOST_PAIRS]
    for one, other in pairs:
        x, y = numbers.get(one), numbers.get(other)
        if x is not None and y is not None:
            if abs(float(np.nanmean(x * y))) > 1 - 1e-9:
                yield {"columns": [one, other], "why": "each is a multiple of the other"}
        elif kinds[one] == kinds[other] == "category" and _one_to_one(table, one, other):
            yield {"columns": [one, other], "why": "their levels are the same under other names"}


def _standard(values: pa.ChunkedArray) -> Any:
    numbers = to_float(values.combine_chunks(), "")
    spread = np.nanstd(numbers) if not np.isnan(numbers).all() else 0.0
    return (numbers - np.nanmean(numbers)) / spread if spread > 0 else np.zeros(len(numbers))


def _one_to_one(table: pa.Table, one: str, other: str) -> bool:
    sizes = [pc.count_distinct(table[name], mode="all").as_py() for name in (one, other)]
    if sizes[0] != sizes[1] or sizes[0] < 2:
        return False
    both = table.select([one, other]).group_by([one, other]).aggregate([])
    return bool(both.num_rows == sizes[0])


def _label(source: Source, table: pa.Table, kinds: dict[str, str]) -> dict[str, Any]:
    """From raw labels: nothing of it reaches the options but that some are missing."""
    label = str(source.label)
    read = [
        to_labels(batch.column(0), source.wording)
        for batch in source.reader.batches([label], source.batch_rows)
    ]
    labels = np.concatenate([values for values, _ in read])[: table.num_rows]
    return describe_label(label, labels, any(bad for _, bad in read), table, kinds)


def _findings(answer: Mapping[str, Any]) -> Iterator[str]:
    """What somebody should know before a release, a sentence each."""
    for facts in answer["columns"]:
        yield from _about(facts)
    if answer["duplicates"]:
        yield f"{answer['duplicates']:,} rows repeat another row in every feature"
    for person in answer["persons"]:
        yield (
            f"{person['column']}: {person['mean']:.1f} rows each on average, at most "
            f"{person['most']:,}; `person={person['column']}` protects a person's rows together"
        )
    for pair in answer["twins"]:
        yield f"{' and '.join(pair['columns'])}: {pair['why']}; one of them would do"
    label = answer["label"]
    if label is not None:
        yield from _about_label(label)


def _about(facts: Facts) -> Iterator[str]:
    name = facts["name"]
    if facts["advice"] is not None or facts["kind"] == "constant":
        yield f"{name}: {facts['kind']}, {facts['why']}"
    outlier = facts["outlier"]
    if outlier is not None:
        after = outlier["leverage_winsorised"]
        yield (
            f"{name}: {outlier['value']:g} is far from the usual {outlier['typical']:g}: its row "
            f"has leverage {outlier['leverage']:.2g}, winsorised {after:.2g}"
        )


def _about_label(label: Mapping[str, Any]) -> Iterator[str]:
    for name in label["alike"]:
        yield f"{name} is the label in other units (for the curator only): is it a feature?"
    if (label["r_squared"] or 0.0) > 0.999:
        yield "R² is near 1 (for the curator only): is the label among the features?"
    if label["unreadable"]:
        yield "some labels are text that is no number: `na` says which texts mean missing"


def _options(
    answer: Mapping[str, Any],
    known: Mapping[str, tuple[str, ...]],
    reading: Mapping[str, Any],
    strays: Mapping[str, list[str]],
) -> dict[str, Any]:
    """The words to append to `labeldp release`, and what only the curator can choose."""
    advised = {
        kind: [c["name"] for c in answer["columns"] if c["advice"] == kind] for kind in known
    }
    asked = {kind: (*known[kind], *advised[kind]) for kind in known}
    told = asked | _with_strays(reading, strays)
    label = answer["label"]
    words = [] if label is None else ["--label", label["name"]]
    for name, value in told.items():
        if value:
            text = value if isinstance(value, str) else ",".join(dict.fromkeys(value))
            words += ["--" + name.replace("_", "-"), text]
    if label is not None and label["missing"]:
        words.append("--drop-missing-labels")
    needed = ["--label-range LO HI", "--out DIR"]
    if label is None:
        return {"options": words, "needed": ["--label COLUMN", *needed]}
    return {"options": [*words, "--clip"], "needed": needed}
