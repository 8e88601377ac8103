"""`look`: what a table holds before a release. Features are looked at; labels only if named.

look               reads the table, puts the answer together for programs and people, and names the
                   options of a release
describe_columns   kind, range and strange values of every column
find_persons       ids that repeat
describe_label     from raw labels, for the curator only: missing labels, and above all features
                   that repeat the label: they are published as they are, so a copy of the label in
                   other units, its logarithm, rank, threshold or bins would publish labels
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.stats import rankdata

from labeldp.data.columns import (
    Column,
    column_floats,
    is_moment,
    is_number_type,
    is_text_type,
    is_usable,
    value_type,
)
from labeldp.data.source import Source, open_table, scan
from labeldp.data.text_types import TextOptions
from labeldp.display import ReprMixin
from labeldp.errors import DataError, InputError, to_str_tuple
from labeldp.features.categories import merge_levels
from labeldp.features.column_stats import (
    FEW,
    FEWEST,
    UNIQUE,
    ColumnStatistics,
    ColumnType,
    infer_column_type,
    name_hints,
    type_statistics,
)
from labeldp.features.columns import check_size

Array = NDArray[np.float64]
Facts = dict[str, Any]

_NO_ANSWER = re.compile(r"9+|9*[78]|9+6|(6|7|8)\1+|9{2,}\.9{1,3}")
"""What people write for "does not know" and the like: 99, 999, 98, 97, 88, 77, 99.9."""

_DAY = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"
_PLAIN_NUMBER = r"^[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$"
_DATE = (
    r"^\w{0,4}[ .,]*(\d{1,2}(st|nd|rd|th)?[ ./-]+([A-Za-zé]{3,10}\.?|\d{1,2})[ ,./-]+\d{2,4}"
    r"|[A-Za-zé]{3,10}\.? +\d{1,2}(st|nd|rd|th)?,? +\d{4}|\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?)\b"
)
_UNIT = r"^\W{0,2}\d[\d.,' ]*( ?[$€£¥%°]| ?[a-zµ]{2,8}\.?| [A-Za-zµ][\w/²³]{0,7}\.?)$"
_MENDS: tuple[tuple[str, str, str], ...] = (
    ("days", _DAY, 'pandas.to_datetime({0}.astype("string").str[:8], format="%Y%m%d")'),
    ("numbers", _PLAIN_NUMBER, "pandas.to_numeric({0})"),
    ("dates", _DATE, 'pandas.to_datetime({0}, format="mixed")'),
    ("times", r"^\d+:\d\d$", 'pandas.to_timedelta({0} + ":00").dt.total_seconds() / 3600'),
    ("times", r"^\d+:\d\d:\d\d(\.\d+)?$", "pandas.to_timedelta({0}).dt.total_seconds() / 3600"),
    ("numbers with units", _UNIT, '{0}.str.extract(r"([\\d.]+)")[0].astype(float)'),
)
"""What texts may be, how they look, and what pandas makes of them."""
_MOSTLY = 0.8
_SAMPLE = 2_000

LEAK = "THE LABEL LEAKS"
"""How a finding begins if public columns tell the label."""
_BARS = 16
"""Of a histogram: equal parts of the range of a number, or the most frequent levels."""
_MANY_IDS, _MANY_NUMBERS = 12, 100
"""Different values from which a column can hold ids, and from which numbers can be some."""
_REPEATED = 1.2  # rows per id from which ids repeat
_GROUP = 20.0
"""Rows per id from which an id that does not name a person is a place or a thing, not one."""

CURATOR_WARNING = (
    "FOR THE CURATOR ONLY: these facts about the label come from raw labels and are NOT private. "
    "Do not publish them; choose the range from what everybody knows about the label."
)
_SAME = 0.999  # a correlation or an R² above this: the label stands among the features
_CLOSE = 0.95  # a rank correlation above this asks whether a column is public
_FEWEST_ROWS, _FEWEST_BESIDE = 50, 5
"""Rows of a table, and on each side of a threshold, from which agreement is no chance."""
_CHANCE = math.log(1e-6)
_ATOM = 0.05
"""Share of rows from which one value of the label that a column tells exactly is reported."""
_MOST_ROWS, _MOST_NUMBERS = 50_000, 60
_LARGEST = 1e290  # labels beyond are no numbers to reckon with

_MOST_READ = 1_000_000


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
) -> Look:
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
    Look
        A dictionary of plain values, which shows itself as a table: "columns" has a dictionary for
        each feature, "findings" are sentences by weight, "options" the words to append to
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
    table = _read_features(source)
    columns = describe_columns(source, table)
    kinds = {facts["name"]: facts["kind"] for facts in columns}
    answer: Facts = {
        "table": str(data) if isinstance(data, str | Path) else source.reader.format,
        "rows": source.total_rows or table.num_rows,
        "rows_read": table.num_rows,
        "columns": columns,
        "persons": find_persons(table, kinds),
        "notes": [*source.notes, *unusable.values()],
        "label": None if label is None else describe_label(source, table, columns),
    }
    answer["findings"] = list(_findings(answer))
    return Look(answer | _release_options(answer, named, text))


class Look(ReprMixin, dict[str, Any]):
    """The answer of `look`."""

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        columns = [(each["name"], f"{each['kind']}, {each['why']}") for each in self["columns"]]
        findings = [("finding", text) for text in self["findings"]]
        return f"{self['table']}: {summary(self)}", [*findings, *columns]

    def to_frame(self) -> Any:
        """Return the columns as a pandas data frame, one row each."""
        import pandas

        return pandas.DataFrame(self["columns"]).set_index("name")


def _read_features(source: Source) -> pa.Table:
    """Return the features, or a million rows of them, with categories as the texts they are."""
    if source.reader.on_cluster:
        raise InputError("look reads a table here; pass some rows of it, such as limit(100_000)")
    batches, rows = [], 0
    for batch in source.feature_batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _MOST_READ:
            break
    if not batches:
        raise DataError("the data have no rows; name a table that has some")
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
    """Yield what only the curator may know, leaks first."""
    public = "(for the curator only). Features are published, and labels would be with them"
    for name, why in label["copies"].items():
        drop = f"`drop={shlex.quote(join_list([name]))}`"
        yield f"{LEAK}: {name} {why} {public}: leave it out, {drop}"
    if label["parts"]:
        names = join_list(label["parts"])
        drop = f"leave them out, `drop={shlex.quote(names)}`"
        yield f"{LEAK}: the label follows from {names} and others {public}: {drop}"
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
            "only), and a release refuses them: give each answer a number, name the two that "
            "there are (`classes`), or those that mean missing (`na`); to leave an answer out "
            "shows who gave it"
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
        is_text = 0 < label["unreadable"] == label["rows"] - label["missing"]
        words += ["--drop-missing-labels"] if label["missing"] else []
        if is_text:
            needed[0] = "--classes NO,YES"
        else:
            words.append("--clip")
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


def describe_columns(source: Source, table: pa.Table) -> list[Facts]:
    """Return facts about every feature, as a plan of these rows would see it."""
    statistics = type_statistics(source.columns)
    for batch in table.to_batches():
        statistics.add(batch, None, 0)
    return [_describe(column, table[column.name], statistics) for column in source.columns]


def _describe(column: Column, values: pa.ChunkedArray, statistics: ColumnStatistics) -> Facts:
    name, min_count = column.name, math.isqrt(statistics.rows)
    levels, findings = statistics.levels.get(name), list[str]()
    inferred = infer_column_type(column, statistics.extremes.get(name), levels, min_count)
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    kind, why = _kind(column, values, distinct, inferred)
    if kind in ("id", "constant"):
        findings.append(f"{name}: {kind}, {why}")
    if distinct > FEW[-1] and (mend := _mend(name, values)) is not None:
        findings.append(f"{name}: {kind} of {mend}")
    facts: Facts = {"name": name, "type": column.type, "kind": kind, "why": why}
    facts |= {"distinct": distinct, "missing": values.null_count}
    if is_number_type(values.type):
        # Integers beyond 2**53 are ids, of which no last digit matters here.
        numbers = values.drop_null().cast(pa.float64(), safe=False).to_numpy()
        numbers = numbers[np.isfinite(numbers)]
        findings += _no_answer(name, numbers)
        if kind == "number":
            facts |= {"low": float(numbers.min()), "high": float(numbers.max())}
            facts["why"] = f"{facts['low']:g} to {facts['high']:g}"
            facts["histogram"] = np.histogram(numbers, _BARS)[0].tolist()
    if kind == "category":
        counts = values.drop_null().value_counts().field("counts").to_numpy()
        facts["histogram"] = np.sort(counts)[::-1][:_BARS].tolist()
    if kind == "category" and levels is not None and not levels.too_many:
        merge_levels(name, levels.counts, min_count, findings)
    return facts | {"findings": findings}


def _kind(
    column: Column, values: pa.ChunkedArray, distinct: int, inferred: ColumnType
) -> tuple[str, str]:
    """Return the kind of a column, and why; ids and constants are no features."""
    rows, filled = len(values), len(values) - values.null_count
    if distinct == 0 or (distinct == 1 and filled == rows):
        return "constant", "one value" if distinct else "every value is missing"
    if inferred.kind != "number":
        return inferred.kind, inferred.why
    if is_moment(values.type):
        return "date", "dates: days since 1970-01-01"
    if column.undecided and filled >= FEWEST:
        numbers = column_floats(values.drop_null().combine_chunks(), column.name)
        if np.mean(np.diff(numbers) == 1) > UNIQUE:
            return "id", "rises by one from row to row"
    return "number", "numbers"


def _no_answer(name: str, values: NDArray[np.float64]) -> Iterator[str]:
    """Yield the ends of a column that custom has for "no answer" and that lie far from the rest.

    99 beside 1 to 5, −999 beside amounts. They may be numbers all the same: they are only named.
    """
    numbers, often = np.unique(values, return_counts=True)
    for end, others in ((0, numbers[1:]), (-1, numbers[:-1])):
        if len(others) < 2 or often[end] < 2:
            continue
        code, low, high = float(numbers[end]), others.min(), others.max()
        away = min(abs(code - low), abs(code - high))
        is_far = away > 2 * (high - low) and abs(code) > 2 * max(abs(low), abs(high))
        is_custom = _NO_ANSWER.fullmatch(f"{abs(code):.10g}") and not 0 <= code < 10
        if is_custom and (is_far or code < 0 <= low):
            text = f"{code:.10g}"
            yield (
                f"{name}: {text} is far from all other numbers; if it means missing, add "
                f"`na={join_list([f'{name}={text}'])}`"
            )


def _mend(name: str, values: pa.ChunkedArray) -> str | None:
    """Return what texts, or digits such as 20210305, may be, and lines of pandas that mend them.

    Plain numbers are named only if every text is one: otherwise they are codes, and to make
    numbers of codes loses the others.
    """
    texts = values.drop_null().unique()[:_SAMPLE]
    patterns = _MENDS
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        patterns = _MENDS[:1]
        texts = texts.cast(pa.int64(), safe=False).cast(pa.string())
    elif not is_text_type(values.type):
        return None
    texts = pc.utf8_trim_whitespace(texts)
    for kind, pattern, code in patterns:
        share = pc.mean(pc.match_substring_regex(texts, pattern).cast(pa.float64())).as_py()
        if share == 1.0 or (share >= _MOSTLY and kind not in ("days", "numbers")):
            column = f"table[{json.dumps(name, ensure_ascii=False)}]"
            return (
                f"values that look like {kind}; if they are that and no codes, in pandas:\n"
                f'{column} = {code.format(column)}\ntable.to_parquet("mended.parquet")'
            )
    return None


def find_persons(table: pa.Table, kinds: Mapping[str, str]) -> list[Facts]:
    """Return columns named like ids that repeat, those first that name a person.

    An id with many rows that does not name a person is rather a shop's or a ward's. The first is
    `advised`: the command protects all rows of one together.
    """
    persons = list[Facts]()
    for name in table.column_names:
        kind, hints = kinds[name], name_hints(name)
        if "like an id" not in hints or kind in ("date", "constant"):
            continue
        if kind == "number" and not pa.types.is_integer(table[name].type):
            continue
        counts = table[name].drop_null().value_counts().field("counts").to_numpy()
        mean, person = float(counts.mean()) if len(counts) else 0.0, "person" in hints
        fewest = _MANY_IDS if person or kind != "number" else _MANY_NUMBERS
        if len(counts) > fewest and mean >= _REPEATED and (person or mean <= _GROUP):
            facts = {"column": name, "mean": mean, "most": int(counts.max()), "person": person}
            persons.append(facts)
    persons.sort(key=lambda each: not each["person"])
    return [each | {"advised": place == 0} for place, each in enumerate(persons)]


def join_list(value: Any) -> str:
    """Return the value of an option as the command line takes it; names with commas in quotes."""
    if isinstance(value, str | int):
        return str(value)
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(dict.fromkeys(value))
    return text.getvalue()


def describe_label(
    source: Source, table: pa.Table, columns: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return facts about the labels of the first rows, and about columns that repeat them.

    Of these only the columns to drop, and that labels are missing, reach the options.
    """
    labels, unreadable, missing = _read_labels(source, table.num_rows)
    known = np.flatnonzero(~np.isnan(labels))
    known = known[:: max(1, len(known) // _MOST_ROWS)]
    used = [each["name"] for each in columns if each["kind"] not in ("id", "constant")]
    some, own = table.select(used).take(pa.array(known)), labels[known]
    copies, close, numbers = {}, [], {}
    for name in used if len(known) else ():
        ordered = not is_text_type(some[name].type)
        values = some[name].combine_chunks()
        x = column_floats(values, name) if ordered else _levels(values, own)
        why = _copy(x, own, ordered=ordered)
        if why is not None:
            copies[name] = why
        elif ordered:
            numbers[name] = x
            filled = ~np.isnan(x)
            if _correlation(rankdata(x[filled]), rankdata(own[filled])) > _CLOSE:
                close.append(name)
    return {
        "name": str(source.label),
        "warning": CURATOR_WARNING,
        "rows": table.num_rows,
        "missing": missing,
        "unreadable": unreadable,
        "copies": copies,
        "close": close,
        "parts": _parts(numbers, own),
    }


def _read_labels(source: Source, rows: int) -> tuple[Array, int, int]:
    """Return the labels of the first rows, how many are no numbers, and how many are missing."""
    labels, unreadable, missing, seen = [], 0, 0, 0
    for batch in source.reader.batches([str(source.label)], source.batch_rows):
        raw = batch.column(0)[: rows - seen]
        values, _ = source.label_parser.parse(raw)
        there = source.label_parser.has_label(raw).to_numpy(zero_copy_only=False)
        unread = there & ~(np.abs(values) <= _LARGEST)
        labels.append(np.where(unread, np.nan, values))
        missing += int((~there).sum())
        unreadable += int(unread.sum())
        seen += len(raw)
        if seen >= rows:
            break
    return np.concatenate(labels), unreadable, missing


def _copy(x: Array, labels: Array, *, ordered: bool) -> str | None:
    """Return how a column tells the labels, in words; None if it does not."""
    filled = ~np.isnan(x)
    groups, own = x[filled], labels[filled]
    ranks = _correlation(rankdata(groups), rankdata(own))
    if ordered and max(_correlation(groups, own), ranks) > _SAME:
        return "is the label in other units or ranks"
    # A gap can tell of a label as much as a value can.
    if _told(groups, own, by_chance=not ordered) or _told((~filled).astype(float), labels):
        return "tells between which values labels lie"
    return None


def _levels(texts: pa.Array, labels: Array) -> Array:
    """Return levels as numbers in the order of their mean labels, NaN for missing."""
    coded = texts.dictionary_encode().indices
    codes = np.array(coded.cast(pa.float64()).to_numpy(zero_copy_only=False))
    filled = ~np.isnan(codes)
    if filled.any():
        index = codes[filled].astype(np.int64)
        means = np.bincount(index, labels[filled]) / np.bincount(index)
        codes[filled] = rankdata(means, "ordinal")[index]
    return codes


def _correlation(x: Array, y: Array) -> float:
    """Return the absolute correlation; 0 where there is none."""
    if len(x) < _FEWEST_BESIDE * 2 or not (x.std() > 0 and y.std() > 0):
        return 0.0
    return abs(float(np.corrcoef(x, y)[0, 1]))


def _told(groups: Array, labels: Array, *, by_chance: bool = False) -> bool:
    """Return whether groups separate the labels, or one is just those of one value.

    They separate them if the label ranges of successive groups do not overlap: bins, thresholds,
    ranks. One boundary at least must be strict, with a few rows on both sides. Where the groups
    were ordered by their labels, small groups of equal labels may do so by chance. The one value
    is a frequent one, such as 0.
    """
    rows = len(groups)
    if rows < _FEWEST_ROWS:
        return False
    order = np.argsort(groups, kind="stable")
    ordered, own = groups[order], labels[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    low, high = np.minimum.reduceat(own, starts), np.maximum.reduceat(own, starts)
    has_rows_beside = np.minimum(starts[1:], rows - starts[1:]) >= _FEWEST_BESIDE
    rises = np.all(high[:-1] <= low[1:]) and np.any((high[:-1] < low[1:]) & has_rows_beside)
    falls = np.all(low[:-1] >= high[1:]) and np.any((low[:-1] > high[1:]) & has_rows_beside)
    commonest = np.unique(labels, return_counts=True)[1].max() / rows
    is_chance = by_chance and (rows - len(starts)) * math.log(commonest) >= _CHANCE
    sizes = np.diff(np.r_[starts, rows])
    likely = (low == high) & (sizes >= _ATOM * rows) & (sizes <= (1 - _ATOM) * rows)
    one_value = any(np.sum(labels == low[k]) == sizes[k] for k in np.flatnonzero(likely))
    return bool((rises or falls) and not is_chance) or one_value


def _parts(numbers: Mapping[str, Array], labels: Array) -> list[str]:
    """Return columns of which the label is made: as a sum, a difference, a product or a ratio."""
    filled = {name: np.nan_to_num(x) for name, x in [*numbers.items()][:_MOST_NUMBERS]}
    parts, positive = _summands(filled, labels), labels > 0
    logs = {
        name: np.log(x[positive])
        for name, x in filled.items()
        if name not in parts and np.all(x[positive] > 0)
    }
    return [*parts, *_summands(logs, np.log(labels[positive]))]


def _summands(numbers: Mapping[str, Array], labels: Array) -> list[str]:
    """Return columns without which a linear fit of the labels is not exact, the largest first."""
    columns = {name: x - x.mean() for name, x in numbers.items() if len(x) and x.std() > 0}
    if len(labels) < _FEWEST_ROWS or not labels.std() > 0:
        return []
    parts = list[str]()
    while columns:
        matrix = np.column_stack([x / x.std() for x in columns.values()])
        slopes = np.linalg.lstsq(matrix, labels - labels.mean(), rcond=1e-6)[0]
        if _correlation(matrix @ slopes, labels) ** 2 <= _SAME:
            break
        parts.append([*columns][int(np.argmax(np.abs(slopes)))])
        del columns[parts[-1]]
    return parts
