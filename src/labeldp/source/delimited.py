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
from pyarrow import csv

from labeldp.errors import DataError
from labeldp.source.files import (
    DELIMITERS,
    reading,
    same_schema,
    sliced,
    unique_names,
)
from labeldp.source.text import TextTypes, text_among_numbers
from labeldp.source.values import NULL_WORDS

_BLOCK = 1 << 20  # Arrow reads about 32 blocks ahead, so this bounds the memory of a pass


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

    def prepared(
        self, features: Sequence[str], numeric: Sequence[str], categorical: Sequence[str]
    ) -> DelimitedReader:
        """Decide the type of every feature column in one pass over the values as text."""
        types = TextTypes.of(self, features)
        wrong = types.misspelt(numeric, categorical)
        if wrong is not None:
            raise self._refusal(wrong)
        return replace(self, schema=types.applied(self.schema, numeric), rows=types.rows)

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

    def _refusal(self, name: str) -> DataError:
        """Find the first text among the numbers; reads one column once more."""
        for path in self.paths:
            found = text_among_numbers(replace(self, paths=(path,)), name, str(path))
            if found is not None:
                return found
        return DataError(f"column {name!r} changed while it was read; leave the files alone")


def _parse_options(format: str) -> csv.ParseOptions:
    return csv.ParseOptions(delimiter=DELIMITERS[format], newlines_in_values=True)


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
