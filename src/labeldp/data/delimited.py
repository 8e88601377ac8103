"""CSV and TSV files: one pass infers each column's type, later passes read it.

Types never depend on the first block of a file. The first pass reads the feature columns as text
and counts what their values look like. The label column is not looked at, and is delivered as text
for `labels` to parse: a type inferred from labels would be a public fact that depends on them.
Encoding, delimiter and header are inferred from the first lines down to the header.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from labeldp.data.batches import sliced
from labeldp.data.columns import NULL_WORDS, NUMBER
from labeldp.data.csv_stream import BatchStream, LabelSafeCsvStream, Layout, open_text, read_header
from labeldp.data.files import DELIMITERS, check_unique_names, reading_file, same_schema
from labeldp.data.options import TextOptions
from labeldp.data.readers import ReadRequest, TableReader
from labeldp.errors import DataError, InputError

_BLOCK = 1 << 20  # Arrow reads about 32 blocks ahead, so this bounds the memory of a pass
_FALLBACK = "cp1252"
"""What a file is read as whose text is not UTF-8: Latin-1 as Windows writes it."""
_START = 1 << 20
"""Bytes at the start of a file in which its header is looked for."""
_MOST_TITLES = 20
_FEWEST_NAMES = 3
"""Fields of a header that makes what stands above it a title."""
_CANDIDATES = ",;\t|"
_SIGN_NAMES = {"\t": "tab", " ": "space"}


class _EncodingError(DataError):
    """A feature is not text of the supposed encoding."""


@dataclass(frozen=True, kw_only=True)
class DelimitedReader(TableReader):
    """One table in one or more CSV or TSV files, each with a header line.

    It is one stream, since Arrow itself parses on all cores.
    """

    delimiter: str
    encoding: str
    label: str | None = None
    """The column whose bytes may not decide how the others are read."""
    options: TextOptions = field(default_factory=TextOptions, repr=False)
    null_words: tuple[str, ...] = NULL_WORDS
    repeated: tuple[str, ...] = ()
    """Names that several columns have; all but the first of them are numbered."""
    skip_lines: Mapping[Path, int] = field(default_factory=dict, repr=False)
    """Lines above the header, by file."""
    lines_below: dict[Path, int] = field(default_factory=dict, repr=False, compare=False)
    """Lines below the last row that a pass left out, by file: the first pass records them."""
    all_text: bool = False
    """Cells come as texts, whatever their bytes, and lines of another length are left out."""

    @classmethod
    def open(
        cls,
        paths: tuple[Path, ...],
        form: str,
        options: TextOptions | None = None,
        *,
        label: str | None = None,
        named: Sequence[str] = (),
    ) -> DelimitedReader:
        """Read the header lines; refuse files that do not belong together.

        `named` are columns that the table must have: they tell the header from titles.
        """
        options = options or TextOptions()
        reader: DelimitedReader | None = None
        for path in paths:
            with reading_file(path, form):
                start = _find_header(path, options, named)
            if reader is None:
                delimiter = options.delimiter or infer_delimiter(start.line, DELIMITERS[form])
                reader = cls(
                    stored_schema=pa.schema([]), format=form, paths=paths, delimiter=delimiter,
                    encoding=start.encoding, label=label, options=options,
                )  # fmt: skip
            with reader._parsing(path):
                header = read_header(path, reader.encoding, start.skip_lines)
                convert = arrow_csv.ConvertOptions(check_utf8=False)
                parsed = reader._open_csv(pa.BufferReader(header), [], convert)
            names = numbered_names(parsed.schema.names)
            check_unique_names(names, path)
            again = {a for a, b in zip(parsed.schema.names, names, strict=True) if a != b}
            schema = pa.schema([(name, pa.string()) for name in names])
            same_schema(
                reader.stored_schema if reader.skip_lines else schema, schema, (paths[0], path)
            )
            reader = replace(
                reader,
                stored_schema=schema,
                repeated=tuple(sorted({*reader.repeated, *again})),
                skip_lines={**reader.skip_lines, path: start.skip_lines},
            )
        assert reader is not None, "a path means at least one file"
        return reader

    @property
    def delimited(self) -> bool:
        return True

    def prepared(self, request: ReadRequest, /) -> DelimitedReader:
        """Infer the types of all feature columns in one pass over them as text.

        That pass also shows whether features are in the encoding that the header is in, and how
        many lines stand below the table.
        """
        names = self.stored_schema.names
        nulls = request.options.null_words(names, delimited=True)
        reader = replace(self, options=request.options, null_words=nulls)
        try:
            ready = TableReader.prepared(reader, request)
        except _EncodingError:
            if request.options.encoding is not None or self.encoding == _FALLBACK:
                raise
            reader = replace(reader, encoding=_FALLBACK)
            ready = TableReader.prepared(reader, request)
        return replace(ready, notes=(*ready._file_notes(), *ready.notes))

    def stored(self) -> DelimitedReader:
        """Return a reader of every cell as its text, whatever `na` or `skip_footer` say."""
        options = replace(self.options, na=(), skip_footer=None)
        return replace(self, parsers={}, options=options, null_words=("",), all_text=True)

    def stored_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns as text, or with the types that Arrow reads in the same way."""
        direct = {name: p.type for name, p in self.parsers.items() if p.direct}
        types = {name: direct.get(name, pa.string()) for name in columns}
        doubtful = [n for n in columns if self.all_text or n == self.label]
        types.update(dict.fromkeys(doubtful, pa.binary()))  # they may be no text at all
        convert = arrow_csv.ConvertOptions(
            include_columns=list(columns),
            column_types=types,
            null_values=list(self.null_words),
            strings_can_be_null=True,
        )
        names = self.stored_schema.names
        label = names.index(self.label) if self.label in names else None
        for path in self.paths:
            above, below = self.skip_lines[path], self.options.skip_footer
            layout = Layout(path, self.delimiter, len(names), label, above, below, self.all_text)
            with self._parsing(path):
                file = LabelSafeCsvStream(open_text(path, self.encoding), layout)
                parse = partial(self._open_csv, names=names, convert=convert)
                with BatchStream(file, parse) as stream:
                    for batch in stream:
                        for name in doubtful:
                            batch = _decoded(batch, name)
                        yield from sliced(batch, batch_rows)
            self.lines_below[path] = file.lines_below

    def _open_csv(
        self, file: Any, names: Sequence[str], convert: arrow_csv.ConvertOptions
    ) -> arrow_csv.CSVStreamingReader:
        """Names replace those of the header, once they are known: some may repeat there."""
        return arrow_csv.open_csv(
            file,
            read_options=arrow_csv.ReadOptions(
                block_size=_BLOCK,
                column_names=list(names),
                skip_rows_after_names=1 if names else 0,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                invalid_row_handler=(lambda _: "skip") if self.all_text else None,
            ),
            convert_options=convert,
        )

    def _file_notes(self) -> Iterator[str]:
        if self.delimiter not in (self.options.delimiter, DELIMITERS[self.format]):
            sign = _SIGN_NAMES.get(self.delimiter, self.delimiter)
            yield f"fields are divided by {sign!r}; `delimiter` to change"
        if self.encoding not in (self.options.encoding, "utf-8"):
            yield f"the text is read as {self.encoding}; `encoding` to change"
        above = sum(self.skip_lines.values()) if self.options.skip_lines is None else 0
        below = sum(self.lines_below.values()) if self.options.skip_footer is None else 0
        if above:
            yield f"lines above the header, left out: {above}; `skip_lines=0` to change"
        if below:
            yield f"lines below the last row, left out: {below}; `skip_footer=0` to change"
        for name in filter(None, self.repeated):
            yield f"several columns are named {name!r}: the later ones are '{name} (2)' and so on"

    @contextmanager
    def _parsing(self, path: Path) -> Iterator[None]:
        """Explain what is wrong with the text of a file, without quoting any of it."""
        with reading_file(path, self.format):
            try:
                yield
            except pa.ArrowInvalid as error:
                raise _explained(path, self.format, str(error)) from None
            except (UnicodeError, LookupError):
                raise _EncodingError(
                    f"{path} is not {self.encoding} text; name its `encoding`"
                ) from None


def _decoded(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return the batch whose bytes in a column are text; other bytes become signs of no number."""
    place = batch.schema.get_field_index(name)
    raw = batch.column(place)
    try:
        text = raw.cast(pa.string())
    except pa.ArrowInvalid:
        words = (
            None if word is None else word.decode(errors="replace") for word in raw.to_pylist()
        )
        text = pa.array(words, pa.string(), size=len(raw))
    return batch.set_column(place, name, text)


def _explained(path: Path, form: str, message: str) -> DataError:
    if "Empty CSV" in message:
        return DataError(f"{path} is empty; a {form} file needs a header line and rows")
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
    return DataError(f"{path} cannot be parsed as {form}; check quoting and delimiter")


@dataclass(frozen=True)
class _Start:
    """The header line of a file as text, the encoding that it shows, and the lines above it."""

    line: str
    encoding: str
    skip_lines: int


def _find_header(path: Path, options: TextOptions, named: Sequence[str]) -> _Start:
    """Find the header by what is said of a file, else by its first lines."""
    with pa.input_stream(str(path)) as file:
        raw = bytes(file.read(_START))
    most = (options.skip_lines or 0) + _MOST_TITLES
    encoding = options.encoding or _infer_encoding(re.split(rb"[\r\n]", raw, maxsplit=1)[0])
    if encoding.startswith("utf-16"):
        lines = [line.encode() for line in _lines(_decode(raw[: len(raw) & ~1], encoding, path))]
    else:
        lines = re.split(rb"\r\n|\n|\r", raw, maxsplit=most)
    kind = "utf-8" if encoding.startswith("utf-16") else encoding
    texts = [_decode(line, kind, path).lstrip("\ufeff") for line in lines[:most]]
    above = options.skip_lines
    if above is None:
        above = _count_titles(texts, options.delimiter, named)
    header = lines[above] if above < len(lines) else b""
    if options.encoding is not None:
        _decode(header, kind, path, strict=True)
    elif encoding == "utf-8":  # lines above and the header itself are public
        encoding = _infer_encoding(b"\n".join(lines[: above + 1]))
        texts[above : above + 1] = [_decode(header, encoding, path).lstrip("\ufeff")]
    return _Start(texts[above] if above < len(texts) else "", encoding, above)


def _lines(text: str) -> list[str]:
    return re.split(r"\r\n|\n|\r", text)


def _decode(line: bytes, encoding: str, path: Path, *, strict: bool = False) -> str:
    try:
        return line.decode(encoding, errors="strict" if strict else "ignore")
    except UnicodeError:
        raise DataError(f"{path} is not {encoding} text; name another `encoding`") from None
    except (LookupError, ValueError):  # ValueError: a zero byte in the name
        raise InputError(
            f"`encoding` {encoding!r} is unknown; try utf-8, cp1252 or utf-16"
        ) from None


def _infer_encoding(start: bytes) -> str:
    """Infer the encoding of the first lines: UTF-16 by its mark or zero bytes, UTF-8, or cp1252."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start[:64]:
        return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
    try:
        start.decode()
    except UnicodeDecodeError:
        return _FALLBACK
    return "utf-8"


def infer_delimiter(line: str, usual: str) -> str:
    """Return the sign that divides a header most often; in doubt the one usual for the format."""
    bare = re.sub(r'"[^"]*"', "", line)
    counts = {sign: bare.count(sign) for sign in _CANDIDATES}
    best = max(counts, key=counts.__getitem__)
    if not counts[best] and re.search(r"\S \S", line.strip()):
        return " "  # as R has it, and nothing else divides the names
    return best if counts[best] > counts[usual] else usual


def _count_titles(lines: Sequence[str], delimiter: str | None, named: Sequence[str]) -> int:
    """Return how many of the first lines are above the header.

    The header is the first line with a column that was `named`. Else lines with at most one filled
    field are titles, if a line with three follows. Rows are looked at only if the first line names
    fewer than two columns, which no label and feature could have, or none that was named.
    """
    widths = list[int]()
    for line in lines:
        if line.count('"') % 2 == 1:  # a name goes on in the next line
            break
        cells = _cells(line, delimiter or max(_CANDIDATES, key=line.count))
        by_space = _cells(line, delimiter or infer_delimiter(line, ","))
        if not {*named}.isdisjoint((*cells, *by_space)):
            return len(widths)
        widths.append(sum(bool(cell.strip()) for cell in cells))
    if not widths or widths[0] > 1:
        return 0
    return next((k for k, filled in enumerate(widths) if filled >= _FEWEST_NAMES), 0)


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a field that is longer than any name
        return line.split(delimiter)


def numbered_names(names: Sequence[str]) -> list[str]:
    """Return the names of a header, the later ones of several that are the same numbered.

    Numbers are no names: where those repeat, the first row was taken for a header, and stays.
    """
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        again = seen[name] > 1 and not re.fullmatch(NUMBER, name)
        numbered.append(f"{name} ({seen[name]})" if again else name)
    return numbered
