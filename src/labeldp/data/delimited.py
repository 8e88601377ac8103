"""CSV and TSV text: one pass infers each column's type, later passes read it.

Types never depend on the first block of a file. The first pass reads the feature columns as text
and counts what their values look like. The label column is not looked at, and is delivered as text
for `labels` to parse: a type inferred from labels would be a public fact that depends on them.
Encoding, delimiter and header are inferred from the first lines down to the header.

An Excel sheet becomes CSV text, so that the rules for text hold: headers, totals, types and labels.
Its label column decides nothing: neither which rows there are nor the type of anything.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from labeldp.data.csv_stream import LONGEST_ROW, LabelSafeRows, open_text, read_header
from labeldp.data.files import DELIMITERS, common_schema, reading_file
from labeldp.data.labels import label_texts
from labeldp.data.readers import TableReader
from labeldp.data.text_types import TextOptions
from labeldp.errors import DataError

_FALLBACK = "cp1252"
"""What a file is read as whose text is not UTF-8: Latin-1 as Windows writes it."""
_START = 1 << 20
"""Bytes at the start of a file in which its header is looked for."""
_MOST_TITLES = 20
_FEWEST_NAMES = 3
"""Fields of a header that makes what stands above it a title."""
_DELIMITERS = ",;\t|"


class _EncodingError(DataError):
    """A feature is not text of the supposed encoding."""

    def __init__(self, path: Path, encoding: str) -> None:
        super().__init__(f"{path} is not {encoding} text; name its `encoding`, such as cp1252")


@dataclass(frozen=True, kw_only=True)
class DelimitedReader(TableReader):
    """One table in one or more CSV or TSV files, each with a header line.

    It is one stream, since Arrow itself parses on all cores.
    """

    delimited: bool = True
    delimiter: str
    encoding: str
    label: str | None = None
    """The column whose bytes may not decide how the others are read."""
    texts: Mapping[Path, pa.Buffer] = field(default_factory=dict, repr=False, compare=False)
    """What stands for files that are no text themselves."""
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
        options: TextOptions,
        *,
        label: str | None = None,
        named: Sequence[str] = (),
        texts: Mapping[Path, pa.Buffer] = MappingProxyType({}),
    ) -> DelimitedReader:
        """Read the header lines; refuse files that do not belong together.

        `named` are columns that the table must have: they tell the header from titles.
        """
        encoding, delimiter = "", options.delimiter or ""
        schemas, skip_lines = [], dict[Path, int]()
        for path in paths:
            content = texts.get(path, path)
            with _parsing(path, form, options.encoding or encoding):
                own_encoding, skip_lines[path] = _find_header(content, options, named)
                encoding = encoding or own_encoding
                with open_text(content, encoding) as file:
                    raw, _ = read_header(file, path, skip_lines[path])
                header = raw.decode().lstrip("\ufeff")
                if "\ufffd" in header and encoding != "utf-8":
                    raise _EncodingError(path, encoding)
            if not header.strip():
                raise DataError(f"{path} is empty; a {form} file needs a header line and rows")
            delimiter = delimiter or _infer_delimiter(header, DELIMITERS[form])
            names = _cells(header, delimiter)
            for place, name in enumerate(names):
                if not name and "" in names[:place]:  # all without a name are left out
                    names[place] = f" ({place})"
            schemas.append(pa.schema([(name, pa.string()) for name in names]))
        return cls(
            stored_schema=common_schema(paths, schemas),
            format=form,
            paths=paths,
            delimiter=delimiter,
            encoding=encoding,
            label=label,
            options=options,
            skip_lines=skip_lines,
            texts=texts,
        )

    def prepared(
        self,
        features: Sequence[str],
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
    ) -> DelimitedReader:
        """Infer the types of all feature columns in one pass over them as text.

        That pass also shows whether features are in the encoding that the header is in, and how
        many lines stand below the table.
        """
        options, notes = self.options, list(self.notes)
        try:
            ready = super().prepared(features, numeric, categorical)
        except _EncodingError:
            if options.encoding is not None or self.encoding == _FALLBACK:
                raise
            return replace(self, encoding=_FALLBACK).prepared(features, numeric, categorical)
        if ready.delimiter not in (options.delimiter, DELIMITERS.get(ready.format, ",")):
            notes.append(f"fields are divided by {ready.delimiter!r}; `delimiter` to change")
        if ready.encoding not in (options.encoding, "utf-8"):
            notes.append(f"the text is read as {ready.encoding}; `encoding` to change")
        above = sum(ready.skip_lines.values()) if options.skip_lines is None else 0
        below = sum(ready.lines_below.values()) if options.skip_footer is None else 0
        if above:
            notes.append(f"lines above the header, left out: {above}; `skip_lines=0` to change")
        if below:
            notes.append(f"lines below the last row, left out: {below}; `skip_footer=0` to change")
        return replace(ready, notes=(*notes, *ready.notes[len(self.notes) :]))

    def stored(self) -> DelimitedReader:
        """Return a reader of every cell as its text, whatever `na` or `skip_footer` say."""
        options = replace(self.options, na=(), skip_footer=None)
        return replace(self, parsers={}, options=options, all_text=True)

    def read(self, columns: list[str], _batch_rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the columns as text, or with the types that Arrow reads in the same way."""
        names, types = self.stored_schema.names, {name: pa.string() for name in columns}
        types |= {name: p.type for name, p in self.parsers.items() if p.direct and name in types}
        # Labels may be no text at all, and bytes of them that are not may not be told.
        doubtful = [name for name in columns if self.all_text or name == self.label]
        types.update(dict.fromkeys(doubtful, pa.binary()))
        convert = arrow_csv.ConvertOptions(
            include_columns=columns,
            column_types=types,
            null_values=self.null_words,
            strings_can_be_null=True,
        )
        read = arrow_csv.ReadOptions(block_size=LONGEST_ROW, column_names=names)
        parse = arrow_csv.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=True,
            invalid_row_handler=(lambda _: "skip") if self.all_text else None,
        )
        label = names.index(self.label) if self.label in names else None
        for path in self.paths:
            rows = LabelSafeRows(
                path,
                self.texts.get(path, path),
                self.encoding,
                self.delimiter.encode(),
                len(names),
                label,
                self.skip_lines[path],
                self.options.skip_footer,
                leave_out_odd=self.all_text,
            )
            with _parsing(path, self.format, self.encoding):
                for block in rows:
                    table = arrow_csv.read_csv(pa.BufferReader(block), read, parse, convert)
                    for batch in table.to_batches():
                        for name in doubtful:
                            place = columns.index(name)
                            batch = batch.set_column(place, name, _texts_of(batch.column(place)))
                        yield batch
            self.lines_below[path] = rows.lines_below


@contextmanager
def _parsing(path: Path, form: str, encoding: str) -> Iterator[None]:
    """Explain what is wrong with the text of a file, without quoting any of it."""
    with reading_file(path, form):
        try:
            yield
        except (pa.ArrowInvalid, UnicodeError) as error:
            if isinstance(error, UnicodeError) or "UTF8" in str(error):
                raise _EncodingError(path, encoding or "utf-8") from None
            raise DataError(
                f"{path} cannot be parsed as {form}; check quoting and delimiter"
            ) from None


def _texts_of(raw: pa.Array) -> pa.Array:
    """Return bytes as texts; those that are no text have signs of no number in them."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        words = (word and word.decode(errors="replace") for word in raw.to_pylist())
        return pa.array(words, pa.string(), size=len(raw))


def _find_header(
    content: Path | pa.Buffer, options: TextOptions, named: Sequence[str]
) -> tuple[str, int]:
    """Return the encoding of a file, and the lines above its header.

    The encoding is inferred from the lines down to the header, which are public, and never from
    rows: a label is among their bytes.
    """
    with open_text(content, "utf-8") as file:
        raw = bytes(file.read(_START))
    lines = raw.split(b"\n")
    encoding = options.encoding or _infer_encoding(lines[0])
    above = options.skip_lines
    if above is None:
        text = raw.decode(encoding, errors="ignore").lstrip("\ufeff")
        texts = [line.rstrip("\r") for line in text.split("\n", _MOST_TITLES)[:_MOST_TITLES]]
        above = _count_titles(_first_rows(texts, options.delimiter), named)
    if options.encoding is None and encoding == "utf-8":
        encoding = _infer_encoding(b"\n".join(lines[: above + 1]))
    return encoding, above


def _infer_encoding(start: bytes) -> str:
    """Infer the encoding of the first lines: UTF-16 by its mark, UTF-8, or cp1252."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        start.decode()
    except UnicodeDecodeError:
        return _FALLBACK
    return "utf-8"


def _infer_delimiter(line: str, usual: str) -> str:
    """Return the sign that divides a header most often; in doubt the one usual for the format."""
    bare = re.sub(r'"[^"]*"', "", line)
    counts = {sign: bare.count(sign) for sign in _DELIMITERS}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] > counts[usual] else usual


def _count_titles(rows: Iterable[Sequence[str]], named: Sequence[str]) -> int:
    """Return how many of the first rows of cells are above the header.

    The header is the first with a column that was `named`. Else rows with at most one filled cell
    are titles, if one with three follows. Rows of the table are looked at only if the first names
    fewer than two columns, which no label and feature could have, or none that was named.
    """
    widths = list[int]()
    for cells in rows:
        if not {*named}.isdisjoint(cells):
            return len(widths)
        widths.append(sum(bool(cell.strip()) for cell in cells))
    if not widths or widths[0] > 1:
        return 0
    return next((k for k, filled in enumerate(widths) if filled >= _FEWEST_NAMES), 0)


def _first_rows(lines: Sequence[str], delimiter: str | None) -> Iterator[list[str]]:
    """Yield the cells of lines, up to one in which a name goes on in the next line."""
    for line in lines:
        if line.count('"') % 2 == 1:
            return
        yield _cells(line, delimiter or _infer_delimiter(line, ","))


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter), [])
    except csv.Error:  # a field that is longer than any name
        return line.split(delimiter)


def open_excel(
    paths: tuple[Path, ...], options: TextOptions, *, label: str | None, named: Sequence[str]
) -> DelimitedReader:
    """Return the reader of one table in one or more workbooks, which are held as text."""
    texts, notes = dict[Path, pa.Buffer](), dict[str, None]()
    for path in paths:
        with reading_file(path, "Excel", Exception, extra="tables"):
            text, remarks = _sheet_text(path, options, label, named)
        texts[path] = pa.py_buffer(text.encode(errors="replace"))
        notes |= dict.fromkeys(remarks)
    options = replace(options, delimiter=",", encoding="utf-8")
    reader = DelimitedReader.open(paths, "Excel", options, label=label, named=named, texts=texts)
    return replace(reader, notes=tuple(notes))


def _sheet_text(
    path: Path, options: TextOptions, label: str | None, named: Sequence[str]
) -> tuple[str, list[str]]:
    """Return the first sheet that has the columns asked for as CSV, and notes.

    Lines above its header are empty there, for the reader to count. Below, a row without features
    is none, whatever its label.
    """
    from openpyxl import load_workbook

    def has_columns(sheet: Any) -> bool:
        top = sheet.iter_rows(max_row=_MOST_TITLES, values_only=True)
        return any({*named}.issubset(map(_name, row)) for row in top)

    with closing(load_workbook(path, read_only=True, data_only=True)) as book:
        sheets = book.worksheets
        for each in sheets:
            each.reset_dimensions()  # a lone cell far off would fill all rows with blanks
        sheet = next(filter(has_columns, sheets), sheets[0])
        rows = list(sheet.iter_rows(values_only=True))
    notes = []
    if len(sheets) > 1:
        notes.append(f"of {len(sheets)} sheets {sheet.title!r} is read, the others are not")
    above = options.skip_lines
    if above is None:
        above = _count_titles(([*map(_name, row)] for row in rows[:_MOST_TITLES]), named)
    names = [_name(cell) for cell in rows[above]] if above < len(rows) else []
    while names and not names[-1]:
        names.pop()
    missing = (None,) * len(names)  # a row may end with its last value
    body = [(*row, *missing)[: len(names)] for row in rows[above + 1 :]]
    features = [place for place, name in enumerate(names) if name != label]
    body = [row for row in body if any(_text(row[place]) for place in features)]
    columns = [
        label_texts(column).to_pylist() if name == label else map(_text, column)
        for name, column in zip(names, zip(*body, strict=True), strict=bool(body))
    ]
    text = io.StringIO(newline="")
    text.write("\n" * above)
    csv.writer(text, lineterminator="\n").writerows([names, *zip(*columns, strict=True)])
    return text.getvalue(), notes


def _name(value: Any) -> str:
    """Return a name in one line."""
    return "" if value is None else re.sub(r"[\r\n]+", " ", str(value))


def _text(value: Any) -> str:
    """Return a cell as text that means the same beside decimal commas too: 1.234 is 1.2340."""
    text = "" if value is None else repr(value) if isinstance(value, float) else str(value)
    is_grouped = isinstance(value, float) and re.fullmatch(r"-?\d{1,3}\.\d{3}", text)
    return f"{text}0" if is_grouped else text
