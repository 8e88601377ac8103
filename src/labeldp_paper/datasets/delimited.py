"""Delimited files by Arrow's parser; when it refuses, a slow second look says where."""

from __future__ import annotations

import csv as text_csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
from pyarrow import csv

from labeldp.errors import DataError
from labeldp_paper.datasets.reading import Watch, line_blocks, opened, refuse

_BLOCK = 1 << 22  # Arrow reads some blocks ahead: this bounds the memory of a pass


@dataclass(frozen=True)
class Cells:
    """What a delimited file must look like."""

    names: tuple[str, ...]
    types: dict[str, pa.DataType]
    """The columns that are read."""
    delimiter: str
    header: bool = False
    quoted: bool = True
    blanks: bool = True
    """An empty cell is a missing number; otherwise it is an error."""


def read_cells(path: Path, cells: Cells, watch: Watch) -> Iterator[pa.RecordBatch]:
    """Yield the columns in `cells.types`, one row for each line."""
    done = 0
    with opened(path) as file:
        try:
            reader = csv.open_csv(
                file.stream,
                read_options=csv.ReadOptions(
                    block_size=_BLOCK,
                    column_names=list(cells.names),
                    skip_rows=int(cells.header),
                ),
                parse_options=csv.ParseOptions(
                    delimiter=cells.delimiter,
                    quote_char='"' if cells.quoted else False,
                    ignore_empty_lines=False,
                ),
                convert_options=csv.ConvertOptions(
                    include_columns=list(cells.types),
                    column_types=cells.types,
                    null_values=[""] if cells.blanks else [],
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                yield batch
                watch.advance(file.place() - done)
                done = file.place()
        except pa.ArrowInvalid:
            _explain(path, cells)


def _explain(path: Path, cells: Cells) -> NoReturn:
    """Look at each line until one is wrong."""
    first = 1
    for block in line_blocks(path, Watch()):
        text = io.StringIO(block.decode("latin-1"))
        rows = (
            text_csv.reader(text, delimiter=cells.delimiter)
            if cells.quoted
            else text_csv.reader(text, delimiter=cells.delimiter, quoting=text_csv.QUOTE_NONE)
        )
        for line, row in enumerate(rows, first):
            if line > 1 or not cells.header:
                _look(path, line, row, cells)
        first += block.count(b"\n")
    raise DataError(f"{path} cannot be parsed; check that it is the original file")


def _look(path: Path, line: int, row: list[str], cells: Cells) -> None:
    if len(row) != len(cells.names):
        last = min(max(len(row), 1), len(cells.names))
        refuse(
            path,
            line,
            f"{len(row)} field(s) where there must be {len(cells.names)}; the line is cut short, "
            f"or the file is another one",
            f"column {last}",
        )
    for place, (name, cell) in enumerate(zip(cells.names, row, strict=True), 1):
        kind = cells.types.get(name)
        if kind is not None and not _fits(cell.strip(), kind, cells.blanks):
            refuse(
                path,
                line,
                f"{_wanted(kind)}; the columns are shifted"
                + ("" if cells.header or line > 1 else ", or this is a header, which must go"),
                f"column {place} ({name})",
            )


def _fits(cell: str, kind: pa.DataType, blanks: bool) -> bool:
    if blanks and not cell:
        return True
    try:
        if not _is_number(kind):
            cell.encode("latin-1").decode("utf-8")
            return True
        value = int(cell) if pa.types.is_integer(kind) else float(cell)
        pa.scalar(value, kind)
    except (ValueError, OverflowError, pa.ArrowInvalid):
        return False
    return True


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _wanted(kind: pa.DataType) -> str:
    return "not a number" if _is_number(kind) else "not UTF-8 text"
