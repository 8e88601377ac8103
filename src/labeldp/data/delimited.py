"""CSV and TSV files: one pass decides each column's type, later passes read it.

Types never depend on the first block of a file. The first pass reads the feature columns as
text and counts which values look like what; the label column is not looked at, and is
delivered as text for `labels` to parse, because a type inferred from labels would be a public
fact that depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from labeldp.data.decision import Decision, retyped, stray_texts, without_strays
from labeldp.data.files import (
    DELIMITERS,
    reading as reading_file,
    same_schema,
    sliced,
    unique_names,
)
from labeldp.data.guard import Guard, Layout, first_rows, header, inner_margins, opened
from labeldp.data.header import FALLBACK, delimiter_of, start_of, told_apart
from labeldp.data.looks import TextTypes
from labeldp.data.margins import NO_MARGINS, Margins, left_out, lines_below
from labeldp.data.protocol import TableReader, Wanted
from labeldp.data.reading import Reading
from labeldp.data.rownames import rows_are_named
from labeldp.data.spelling import Wording
from labeldp.data.streams import Stream
from labeldp.errors import DataError

_BLOCK = 1 << 20  # Arrow reads about 32 blocks ahead, so this bounds the memory of a pass
_SPELT = {"\t": "tab", " ": "space"}


class _EncodingError(DataError):
    """A feature is not text of the encoding that was supposed."""


@dataclass(frozen=True, kw_only=True)
class DelimitedReader(TableReader):
    """One table in one or more CSV or TSV files, each with a header line.

    It is one stream, since Arrow itself parses on all cores.
    """

    delimiter: str
    encoding: str
    reading: Reading = field(repr=False)
    text: bool = True
    repeated: tuple[str, ...] = ()
    """Names that several columns have; all but the first of them are numbered."""
    named_rows: bool = False
    """Whether rows begin with a name for which the header has none (`rownames`)."""
    margins: Mapping[Path, Margins] = field(default_factory=dict, repr=False)
    """What stands above and below the table, by file."""
    as_stored: bool = False
    """Cells come as texts, whatever their bytes, and lines of another length are left out."""

    @classmethod
    def open(
        cls, paths: tuple[Path, ...], format: str, said: Reading | None = None
    ) -> DelimitedReader:
        """Read the header lines; refuse files that do not belong together."""
        said = said or Reading()
        with reading_file(paths[0], format):
            start = start_of(paths[0], said, said.delimiter)
        delimiter = said.delimiter or delimiter_of(start.line, DELIMITERS[format])
        found = cls(
            schema=pa.schema([]),
            format=format,
            paths=paths,
            delimiter=delimiter,
            encoding=start.encoding,
            reading=said,
        )
        schemas = []
        for path in paths:
            with found._parsing(path):
                found = found._above(path)
                written = found._names(path)
                named = found._rows_are_named(path, written)
            found = replace(found, named_rows=named)
            names = told_apart([*[""] * named, *written])
            unique_names(names, path)
            again = {old for old, new in zip(written, names[named:], strict=True) if old != new}
            found = replace(found, repeated=tuple(sorted({*found.repeated, *again})))
            schemas.append(pa.schema([(name, pa.string()) for name in names]))
            same_schema(schemas[0], schemas[-1], (paths[0], path))
        return replace(found, schema=schemas[0])._with_ends()

    def prepared(self, request: Wanted, /) -> DelimitedReader:
        """Decide the type of every feature column in one pass over the values as text.

        That pass also shows whether features are in the encoding that the header is in.
        """
        asked, types = replace(self, reading=request.reading).looked(request.features)

        def find(name: str, dates: bool) -> set[str]:
            return stray_texts(asked, name, request.reading, dates)

        settled, strays = without_strays(request, types.looks, find)
        if settled.reading != request.reading:
            again = [name for name in request.features if name in settled.reading.codes]
            _, changed = replace(asked, reading=settled.reading).looked(again)
            types = replace(types, looks=types.looks | changed.looks)
        wording = Decision(settled, settled.reading.nulls(True)).worded(types.looks)
        wording = replace(wording, notes=(*asked._notes(), *strays, *wording.notes))
        schema = retyped(self.schema, wording)
        return replace(asked, schema=schema, rows=types.rows, wording=wording)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns with the types of the schema."""
        types = {name: self.schema.field(name).type for name in columns}
        raw = {name: self.wording.raw(name, type_) for name, type_ in types.items()}
        doubtful = {name for name in raw if self.as_stored or name == self.reading.private}
        raw.update(dict.fromkeys(doubtful, pa.binary()))  # which may be no text at all
        convert = csv.ConvertOptions(
            include_columns=list(columns),
            column_types=raw,
            null_values=list(self.reading.nulls(True)),
            strings_can_be_null=True,
        )
        for path in self.paths:
            with self._parsing(path), self._open(path, convert) as stream:
                for batch in stream:
                    for name in doubtful:
                        batch = with_text(batch, name)
                    yield from sliced(self.wording.read(batch), batch_rows)

    def stored(self) -> DelimitedReader:
        """Every cell as its text: not what `na`, `skip_footer` or a type make of it."""
        reading = replace(self.reading, na=(), skip_footer=None)
        schema = pa.schema([(name, pa.string()) for name in self.schema.names])
        whole = replace(self, schema=schema, wording=Wording(), reading=reading, as_stored=True)
        return whole if self.reading.skip_footer is None else whole._with_ends()

    def looked(self, features: Sequence[str]) -> tuple[DelimitedReader, TextTypes]:
        """What the features look like, read in the encoding that fits them."""
        try:
            return self, TextTypes.of(self, features, self.reading)
        except _EncodingError:
            if self.reading.encoding is not None or self.encoding == FALLBACK:
                raise
        return replace(self, encoding=FALLBACK).looked(features)

    def _open(self, path: Path, convert: csv.ConvertOptions) -> Stream:
        """The label's bytes are kept from deciding where rows end."""
        names, private = self.schema.names, self.reading.private
        margins = self.margins.get(path, NO_MARGINS)
        file: Any = path
        if private in names:
            layout = Layout(path, self.delimiter, len(names), names.index(private))
            file = Guard(opened(path, self.encoding, margins), layout)
        elif margins:
            file = opened(path, self.encoding, margins)
        encoding = self.encoding if file is path else "utf-8"
        return Stream(file, lambda given: self._parsed(given, encoding, convert))

    def _above(self, path: Path) -> DelimitedReader:
        """The reader that knows where a file's header is."""
        start = start_of(path, self.reading, self.delimiter)
        return replace(self, margins={**self.margins, path: Margins(start.above)})

    def _with_ends(self) -> DelimitedReader:
        """The reader that knows where the rows of its files end, and what is none amid them."""
        names, said = self.schema.names, self.reading
        private = names.index(said.private) if said.private in names else None
        found = {}
        for path, margins in self.margins.items():
            below = said.skip_footer
            with reading_file(path, self.format):
                if below is None:
                    below = lines_below(path, self.encoding, self.delimiter, len(names), private)
                inside = margins
                if not self.named_rows:
                    inside = inner_margins(
                        path, self.encoding, margins.above, self.delimiter, private
                    )
            found[path] = replace(inside, below=below)
        return replace(self, margins=found)

    def _names(self, path: Path) -> list[str]:
        """By the header alone: no row is looked at, since labels are in them."""
        convert, alone = (
            csv.ConvertOptions(check_utf8=False),
            header(path, self.encoding, self.margins[path].above),
        )
        names: list[str] = self._parsed(pa.BufferReader(alone), "utf-8", convert).schema.names
        return names

    def _rows_are_named(self, path: Path, names: Sequence[str]) -> bool:
        """By fields that no label can have."""
        private = self.reading.private
        before = names.index(private) if private in names else len(names)
        rows = first_rows(path, self.encoding, self.margins[path].above)
        return rows_are_named(rows, self.delimiter, before)

    def _parsed(
        self, file: Any, encoding: str, convert: csv.ConvertOptions
    ) -> csv.CSVStreamingReader:
        """Names that repeat, or are not all there, are replaced, once they are known."""
        names = self.schema.names if self.repeated or self.named_rows else []
        short = bool(names) and self.named_rows
        return csv.open_csv(
            file,
            read_options=csv.ReadOptions(
                block_size=_BLOCK,
                encoding=encoding,
                column_names=names,
                skip_rows=1 if short else 0,
                skip_rows_after_names=1 if names and not short else 0,
            ),
            parse_options=csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                invalid_row_handler=(lambda _: "skip") if self.as_stored else None,
            ),
            convert_options=convert,
        )

    def _notes(self) -> Iterator[str]:
        """What was found out about the file as a whole."""
        if self.delimiter not in (self.reading.delimiter, DELIMITERS[self.format]):
            sign = _SPELT.get(self.delimiter, self.delimiter)
            yield f"fields are divided by {sign!r}; `delimiter` to change"
        if self.encoding not in (self.reading.encoding, "utf-8"):
            yield f"the text is read as {self.encoding}; `encoding` to change"
        if self.named_rows:
            yield "rows begin with names that the header does not have (R's row names): left out"
        yield from left_out([*self.margins.values()], self.reading)
        for name in filter(None, self.repeated):
            yield f"several columns are named {name!r}: the later ones are '{name} (2)' and so on"

    @contextmanager
    def _parsing(self, path: Path) -> Iterator[None]:
        """Explain what is wrong with the text of a file, without quoting any of it."""
        with reading_file(path, self.format):
            try:
                yield
            except pa.ArrowInvalid as error:
                raise _explain(path, self.format, str(error)) from None
            except (UnicodeError, LookupError):
                raise _EncodingError(
                    f"{path} is not {self.encoding} text; name its `encoding`"
                ) from None


def with_text(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """The batch whose column is text; bytes that are none become signs of no number."""
    place = batch.schema.get_field_index(name)
    raw = batch.column(place)
    try:
        text = raw.cast(pa.string())
    except pa.ArrowInvalid:
        words = (
            None if each is None else each.decode(errors="replace") for each in raw.to_pylist()
        )
        text = pa.array(words, pa.string(), size=len(raw))
    return batch.set_column(place, name, text)


def _explain(path: Path, format: str, message: str) -> DataError:
    if "Empty CSV" in message:
        return DataError(f"{path} is empty; a {format} file needs a header line and rows")
    if "UTF8" in message:
        return _EncodingError(f"{path} is not UTF-8 text; name its `encoding`, for example cp1252")
    widths = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if widths:
        want, got = widths.groups()
        return DataError(
            f"{path}: a line has {got} fields where the header has {want}; correct the quoting, "
            f"name the `delimiter`, or leave lines above or below the table out (`skip_lines`, "
            f"`skip_footer`)"
        )
    return DataError(f"{path} cannot be parsed as {format}; check quoting and delimiter")
