"""Excel, Stata, SPSS and SAS files, read whole by the packages of the extra `tables`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.errors import DataError, MissingExtraError
from labeldp.source.files import same_schema, unique_names
from labeldp.source.frames import FrameReader


def foreign_reader(paths: tuple[Path, ...], form: str) -> FrameReader:
    """One table in one or more files of another program."""
    tables = [_read(path, form) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        unique_names(table.schema.names, path)
        same_schema(tables[0].schema, table.schema, (paths[0], path))
    whole = pa.concat_tables(tables)
    return FrameReader(whole, whole.schema, whole.num_rows, form, paths, text=form == "Excel")


def _read(path: Path, form: str) -> pa.Table:
    try:
        return _READERS[form](path)
    except ModuleNotFoundError:
        raise MissingExtraError(f"reading {form} files", "tables") from None
    except PermissionError:
        raise DataError(f"{path}: permission denied; make the file readable") from None
    except Exception:  # each package has errors of its own, and they may quote rows
        raise DataError(
            f"{path} cannot be read as {form} (damaged, encrypted or of another format); save it "
            f"again, or as CSV"
        ) from None


def _excel(path: Path) -> pa.Table:
    """The first sheet; its first row names the columns."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        rows = list(book.worksheets[0].iter_rows(values_only=True))
    finally:
        book.close()
    names = ["" if name is None else str(name) for name in (rows[0] if rows else ())]
    while names and not names[-1]:
        names.pop()
    filled = [row for row in rows[1:] if any(value is not None for value in row)]
    columns = [[row[place] for row in filled] for place in range(len(names))]
    return pa.table([_array(column) for column in columns], names=names)


def _array(values: list[Any]) -> pa.Array:
    """Values of one kind as they are; of several as the text that a CSV file would have."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in values])


def _statistical(name: str) -> Callable[[Path], pa.Table]:
    """A reader of pyreadstat: values, not their printed labels."""

    def read(path: Path) -> pa.Table:
        import pyreadstat

        frame, _ = getattr(pyreadstat, name)(str(path))
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)

    return read


_READERS: dict[str, Callable[[Path], pa.Table]] = {
    "Excel": _excel,
    "Stata": _statistical("read_dta"),
    "SPSS": _statistical("read_sav"),
    "SAS": _statistical("read_sas7bdat"),
    "SAS transport": _statistical("read_xport"),
}
