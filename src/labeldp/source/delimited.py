"""CSV and TSV files: one pass decides each column's type, later passes read it.

Types never depend on the first block of a file. The first pass reads the feature columns as
text and counts which values look like what; the label column is not looked at, and is
delivered as text for `labels` to parse, because a type inferred from labels would be a public
fact that depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from labeldp.errors import DataError
from labeldp.source.files import (
    FileState,
    reading,
    same_schema,
    sliced,
    state_of,
    unique_names,
)
from labeldp.source.values import NULL_WORDS, NUMBER, not_a_number

_DELIMITERS = {"CSV": ",", "TSV": "\t"}
_BLOCK = 1 << 20  # Arrow reads about 32 blocks ahead, so this bounds the memory of a pass
_ALMOST = 0.9
"""A column with this share of numbers is a numeric column with typing errors."""

_INTEGER = r"^[ \t]*-?(0|[1-9]\d{0,17})[ \t]*$"
_LOOKS = {
    # Leading zeros and very long digit strings are identifiers: 007 is not 7.
    "padded": r"^[ \t]*-?(0\d+|\d{19,})[ \t]*$",
    "decimal": NUMBER,
    "boolean": r"^(true|True|TRUE|false|False|FALSE)$",
    "moment": r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$",
}


@dataclass(frozen=True)
class DelimitedReader:
    """One table in one or more CSV or TSV files, each with a header line."""

    paths: tuple[Path, ...]
    format: str
    schema: pa.Schema = field(repr=False)
    rows: int | None = None
    text: bool = True
    engine: None = None

    @classmethod
    def open(cls, paths: tuple[Path, ...], format: str) -> DelimitedReader:
        """Read the header lines; refuse files that do not belong together."""
        schemas = []
        for path in paths:
            with _parsing(path, format):
                names = csv.open_csv(path, parse_options=_parse_options(format)).schema.names
            unique_names(names, path)
            schemas.append(pa.schema([(name, pa.string()) for name in names]))
            same_schema(schemas[0], schemas[-1], (paths[0], path))
        return cls(paths, format, schemas[0])

    @property
    def files(self) -> tuple[str, ...]:
        """The files read, in order."""
        return tuple(map(str, self.paths))

    def prepared(
        self, features: Sequence[str], numeric: Sequence[str], categorical: Sequence[str]
    ) -> DelimitedReader:
        """Decide the type of every feature column in one pass over the values as text."""
        tallies = {name: _Tally() for name in features}
        rows = 0
        for batch in self.batches(features, 1 << 20):
            rows += batch.num_rows
            for name, column in zip(features, batch.columns, strict=True):
                tallies[name].add(column)
        schema = self.schema
        for name, tally in tallies.items():
            if tally.misspelt(name in numeric, name in categorical):
                raise self._refusal(name)
            index = schema.get_field_index(name)
            schema = schema.set(index, pa.field(name, tally.type(name in numeric)))
        return replace(self, schema=schema, rows=rows)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns with the types of the schema."""
        convert = csv.ConvertOptions(
            include_columns=list(columns),
            column_types={name: self.schema.field(name).type for name in columns},
            null_values=list(NULL_WORDS),
            strings_can_be_null=True,
        )
        for path in self.paths:
            with _parsing(path, self.format):
                reader = csv.open_csv(
                    path,
                    read_options=csv.ReadOptions(block_size=_BLOCK),
                    parse_options=_parse_options(self.format),
                    convert_options=convert,
                )
                for batch in reader:
                    yield from sliced(batch, batch_rows)

    def units(self) -> tuple[DelimitedReader, ...]:
        """One stream: Arrow itself parses on all cores."""
        return (self,)

    def state(self) -> tuple[FileState, ...]:
        """Sizes and times of the files."""
        return state_of(self.paths)

    def _refusal(self, name: str) -> DataError:
        """Find the first text among the numbers; reads one column once more."""
        for path in self.paths:
            row = 0
            for batch in replace(self, paths=(path,)).batches([name], 1 << 20):
                values = batch.column(0)
                wrong = pc.invert(pc.match_substring_regex(values, NUMBER))
                first = pc.index(pc.fill_null(wrong, False), True).as_py()
                if first >= 0:
                    return not_a_number(
                        name, values[first].as_py(), f"row {row + first + 1} of {path}"
                    )
                row += batch.num_rows
        return DataError(f"column {name!r} changed while it was read; leave the files alone")


@dataclass
class _Tally:
    """How many values of a column look like what; sums, so blocks cannot matter."""

    integer: int = 0
    padded: int = 0
    decimal: int = 0
    boolean: int = 0
    moment: int = 0
    text: int = 0

    def add(self, values: pa.Array) -> None:
        """Count one batch; only what is not an integer is looked at more closely."""
        values = values.drop_null()
        matches = pc.match_substring_regex(values, _INTEGER)
        integers = matches.true_count
        self.integer += integers
        if integers == len(values):
            return
        counted = values.filter(pc.invert(matches)).value_counts()
        rest, counts = counted.field(0), counted.field(1)
        for look, pattern in _LOOKS.items():
            matches = pc.match_substring_regex(rest, pattern)
            found = pc.sum(counts.filter(matches)).as_py() or 0
            setattr(self, look, getattr(self, look) + found)
            others = pc.invert(matches)
            rest, counts = rest.filter(others), counts.filter(others)
        self.text += pc.sum(counts).as_py() or 0

    @property
    def numbers(self) -> int:
        return self.integer + self.padded + self.decimal

    @property
    def values(self) -> int:
        return self.numbers + self.boolean + self.moment + self.text

    def misspelt(self, numeric: bool, categorical: bool) -> bool:
        """Whether the column should be numbers, by declaration or by majority, and is not."""
        if categorical or self.numbers == self.values:
            return False
        if numeric:
            return self.values not in (self.boolean, self.moment)
        return self.numbers >= _ALMOST * self.values

    def type(self, numeric: bool) -> pa.DataType:
        """The narrowest of int64, float64, boolean, timestamp, string that holds everything."""
        if self.numbers == self.values:
            if self.padded and not numeric:
                return pa.string()
            return pa.float64() if self.decimal or self.padded or not self.values else pa.int64()
        if self.boolean == self.values:
            return pa.bool_()
        return pa.timestamp("us") if self.moment == self.values else pa.string()


def _parse_options(format: str) -> csv.ParseOptions:
    return csv.ParseOptions(delimiter=_DELIMITERS[format], newlines_in_values=True)


@contextmanager
def _parsing(path: Path, format: str) -> Iterator[None]:
    """Explain what is wrong with the text of a file, without quoting any of it."""
    with reading(path, format):
        try:
            yield
        except pa.ArrowInvalid as error:
            raise _explain(path, format, str(error)) from None


def _explain(path: Path, format: str, message: str) -> DataError:
    if "Empty CSV" in message:
        return DataError(f"{path} is empty; a {format} file needs a header line and rows")
    if "UTF8" in message:
        return DataError(f"{path} is not UTF-8 text; convert it, for example with iconv")
    widths = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if widths:
        want, got = widths.groups()
        return DataError(
            f"{path}: a line has {got} fields where the header has {want}; correct the quoting or "
            f"the delimiter"
        )
    return DataError(f"{path} cannot be parsed as {format}; check quoting and delimiter")
