"""Frames, and files of other programs that become one: Excel, Stata, SPSS and SAS.

A frame is anything that exports the Arrow C stream. Frames of pandas and polars, and whatever can
be read once, become an Arrow table when they are opened. A pyarrow dataset and a duckdb relation
stay where they are, and are read anew by each pass. Files are read whole by the packages of the
extra `tables`.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.data.columns import is_text_type
from labeldp.data.delimited import MOST_TITLES, first_header, numbered_names
from labeldp.data.files import common_schema
from labeldp.data.labels import label_texts
from labeldp.data.options import TextOptions, check_unique_names
from labeldp.data.readers import TableReader
from labeldp.errors import DataError, MissingExtraError

_MOST_BELOW, _FEWEST_FEATURES = 20, 3
_STATISTICAL = {
    "Stata": "read_dta",
    "SPSS": "read_sav",
    "SAS": "read_sas7bdat",
    "SAS transport": "read_xport",
}
"""Functions of pyreadstat."""
_KNOWN = (
    "pass a path, a directory or a glob, or a pandas, polars, pyarrow or duckdb table with named "
    "columns"
)


@dataclass(frozen=True, kw_only=True)
class FrameReader(TableReader):
    """A pandas, polars or pyarrow table, a duckdb relation, or the like."""

    frame: Any = field(repr=False)
    """An Arrow table, a pyarrow dataset, or something that exports a stream again and again."""
    uncut: Callable[[], TableReader] | None = field(default=None, repr=False, compare=False)
    """Opens the same file with the rows that `skip_footer` leaves out."""

    @classmethod
    def open(cls, data: Any, label: str | None = None) -> FrameReader:
        """Read the schema of a frame; refuse what is none."""
        name, frame, mixed = _type_name(data), data, tuple[str, ...]()
        if isinstance(data, Mapping):
            columns = dict(data)
            if label is not None and isinstance(columns.get(label), list | tuple):
                columns[label] = label_texts(columns[label])
            with _exporting("dictionary", "its values must be lists of one length, by column"):
                frame = pa.table(columns)
        elif type(data).__name__ == "LazyFrame":
            try:
                frame = data.collect()
            except MemoryError:
                raise
            except Exception:  # whose message may quote values
                raise DataError(
                    "the polars LazyFrame fails when it is run; its collect() says why (and may "
                    "show labels), and what it gives can be passed"
                ) from None
        exports = hasattr(frame, "__arrow_c_stream__") or _is_dataset(frame)
        if type(frame).__name__ == "Series" or isinstance(frame, type) or not exports:
            raise DataError(f"data of type {name} cannot be read as a table; {_KNOWN}")
        frame = with_label_texts(frame, label)
        if _package(frame) == "pandas" and frame.columns.is_unique:
            # Columns of several types are text.
            frame = frame.copy(deep=False)
            for key, kind in frame.dtypes.items():
                texts = plain_texts(frame[key].tolist()) if str(kind) == "object" else None
                if texts is not None:
                    frame[key] = texts
                    mixed = (*mixed, str(key))
        rows = None
        with _exporting(name):
            once = hasattr(frame, "read_next_batch") or hasattr(frame, "__next__")
            if once or _package(frame) in ("pandas", "polars"):
                frame = pa.RecordBatchReader.from_stream(frame).read_all()
            if once and not frame.num_rows:
                raise _read_once(name)
            if isinstance(frame, pa.Table | pa.RecordBatch):
                schema, rows = frame.schema, frame.num_rows
            elif _is_dataset(frame):
                schema, rows = frame.schema, int(frame.count_rows())
            else:
                schema = pa.RecordBatchReader.from_stream(frame).schema
        check_unique_names(schema.names, f"the {name}")
        schema = schema.remove_metadata()
        return cls(frame=frame, stored_schema=schema, rows=rows, format=name, mixed=mixed)

    def stored(self) -> TableReader:
        reader = self if self.uncut is None else self.uncut()
        return TableReader.stored(reader)

    def read(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        del batch_rows
        with _exporting(self.format):
            if isinstance(self.frame, pa.Table | pa.RecordBatch):
                # Not by the stream: older versions crash where views of strings are exported.
                chosen = self.frame.select(columns)
                yield from [chosen] if isinstance(chosen, pa.RecordBatch) else chosen.to_batches()
                return
            if _is_dataset(self.frame):
                yield from self.frame.scanner(columns=columns).to_reader()
                return
            rows = 0
            for batch in pa.RecordBatchReader.from_stream(self.frame):
                rows += batch.num_rows
                yield batch
        if rows == 0:
            raise DataError(f"the {self.format} gave no rows; it is empty or can be read only once")


def with_label_texts(frame: Any, label: str | None) -> Any:
    """Return the frame with the label column as texts if its type would follow from its values.

    That is so of Python objects (pandas, polars) and of polars' integers of 128 bits.
    """
    package = _package(frame)
    is_frame = package in ("pandas", "polars") and type(frame).__name__ == "DataFrame"
    if not is_frame or list(frame.columns).count(label) != 1:
        return frame
    column = frame[label]
    if package == "pandas":
        kind = getattr(column.dtype, "categories", column).dtype
        if str(kind) != "object":
            return frame
        return frame.assign(**{str(label): label_texts(column.tolist()).to_numpy(False)})
    if str(column.dtype) not in ("Object", "Int128", "UInt128"):
        return frame
    import polars

    return frame.with_columns(polars.Series(label, label_texts(column.to_list())))


def plain_texts(values: Sequence[Any]) -> list[str | None] | None:
    """Return texts and numbers, or the like, all as texts; None if they are of one kind."""
    absent = [
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and math.isnan(value))
        for value in values
    ]
    kinds = {type(value) for value, gone in zip(values, absent, strict=True) if not gone}
    plain = (str, int, float, bool, Decimal, datetime.date, datetime.time, np.generic)
    if len(kinds) < 2 or str not in kinds or not all(issubclass(kind, plain) for kind in kinds):
        return None
    return [None if gone else str(value) for value, gone in zip(values, absent, strict=True)]


def _is_dataset(frame: Any) -> bool:
    return _package(frame) == "pyarrow" and hasattr(frame, "scanner")


def _package(frame: Any) -> str:
    return type(frame).__module__.partition(".")[0]


def _type_name(frame: Any) -> str:
    name = type(frame).__name__
    return name if _package(frame) == "builtins" else f"{_package(frame)} {name}"


@contextmanager
def _exporting(name: str, remedy: str = _KNOWN) -> Iterator[None]:
    """Turn a failed export into one line; the cause may quote values, so it is left out."""
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if "uplicate" in str(error):
            raise DataError(f"the {name} has several columns of one name; rename them") from None
        column = re.search(r"for column (.+?) with type", str(error))
        if column is not None:
            remedy = f"column {column.group(1)!r} mixes types; cast it to one type"
        raise DataError(f"the {name} does not convert to an Arrow table; {remedy}") from None
    except RuntimeError:
        raise _read_once(name) from None


def _read_once(name: str) -> DataError:
    return DataError(
        f"the {name} holds no rows (any more), and can be read only once; pass a table, e.g. "
        "reader.read_all()"
    )


def open_foreign(
    paths: tuple[Path, ...],
    form: str,
    options: TextOptions,
    *,
    label: str | None = None,
    named: Sequence[str] = (),
) -> FrameReader:
    """Return the reader of one table in one or more files of another program."""
    tables, notes = [], dict[str, None]()
    for path in paths:
        try:
            if form == "Excel":
                table, own_notes = _read_excel(path, options, label, named)
                notes.update(dict.fromkeys(own_notes))
            else:
                import pyreadstat

                # Values, not their printed labels.
                frame, _ = getattr(pyreadstat, _STATISTICAL[form])(str(path))
                frame = with_label_texts(frame, label)
                table = pa.Table.from_pandas(frame, preserve_index=False)
                table = table.replace_schema_metadata(None)
        except ModuleNotFoundError:
            raise MissingExtraError(f"reading {form} files", "tables") from None
        except PermissionError:
            raise DataError(f"{path}: permission denied; make the file readable") from None
        except Exception:  # each package has errors of its own, and they may quote rows
            raise DataError(
                f"{path} cannot be read as {form} (damaged, encrypted or of another format); save "
                f"it again, or as CSV"
            ) from None
        tables.append(table)
    schema = common_schema(paths, [table.schema for table in tables])
    whole = pa.concat_tables(tables)
    # Numbers are often typed as text in Excel.
    mixed = [each.name for each in schema if form == "Excel" and is_text_type(each.type)]
    uncut = None
    if options.skip_footer:
        every = replace(options, skip_footer=None)
        uncut = partial(open_foreign, paths, form, every, label=label, named=named)
    return FrameReader(
        frame=whole,
        stored_schema=schema,
        rows=whole.num_rows,
        format=form,
        paths=paths,
        notes=tuple(notes),
        mixed=tuple(mixed),
        uncut=uncut,
    )


def _read_excel(
    path: Path, options: TextOptions, label: str | None, named: Sequence[str]
) -> tuple[pa.Table, list[str]]:
    """Read the first sheet that has the columns asked for; its names are below titles.

    Return the table and notes. The label column is text, and decides nothing: neither which rows
    there are nor the type of anything.
    """
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        sheets = book.worksheets
        for sheet in sheets:
            sheet.reset_dimensions()  # a lone cell far off would fill all rows with blanks
        sheet = sheets[0]
        for each in sheets:
            top = each.iter_rows(max_row=MOST_TITLES, values_only=True)
            if any({str(name) for name in row if name is not None} >= {*named} for row in top):
                sheet = each
                break
        rows = [tuple(row) for row in sheet.iter_rows(values_only=True)]
    finally:
        book.close()
    notes = []
    if len(sheets) > 1:
        notes.append(f"of {len(sheets)} sheets {sheet.title!r} is read, the others are not")
    above = options.skip_lines
    if above is None:
        top = rows[:MOST_TITLES]
        has_name = (k for k, row in enumerate(top) if not {*named}.isdisjoint(map(str, row)))
        above = next(has_name, first_header([_filled(row) for row in top]))
        if above:
            notes.append(f"lines above the header, left out: {above}; `skip_lines=0` to change")
    header = rows[above] if above < len(rows) else ()
    names = ["" if name is None else str(name) for name in header]
    while names and not names[-1]:
        names.pop()
    names = numbered_names(names)
    features = [place for place, name in enumerate(names) if name != label]
    rest = (None,) * len(names)  # a row may end with its last value
    body = [(*row, *rest)[: len(names)] for row in rows[above + 1 :]]
    body = [row for row in body if _filled([row[k] for k in features])]  # whatever its label
    below = options.skip_footer
    if below is None:
        # Rows with one feature at most, a text without digits, of three or more.
        below = 0
        for row in reversed(body[-_MOST_BELOW:]):
            cells = [row[k] for k in features]
            if len(cells) < _FEWEST_FEATURES or _filled(cells) > 1:
                break
            if any(re.search(r"\d", str(cell)) for cell in cells):
                break
            below += 1
        if below:
            notes.append(f"lines below the last row, left out: {below}; `skip_footer=0` to change")
    body = body[: len(body) - below]
    columns = []
    for place, name in enumerate(names):
        values = [row[place] for row in body]
        if name == label:
            columns.append(label_texts(values))
            continue
        values = plain_texts(values) or values
        try:
            columns.append(pa.array(values))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            texts = [None if value is None else str(value) for value in values]
            columns.append(pa.array(texts))  # as a CSV file has them
    return pa.table(columns, names=names), notes


def _filled(row: Sequence[Any]) -> int:
    """Return how many cells are filled."""
    return sum(cell not in (None, "") for cell in row)
