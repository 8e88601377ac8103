"""Excel, Stata, SPSS and SAS files, read whole by the packages of the extra `tables`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.data.columns import is_text
from labeldp.data.files import same_schema, unique_names
from labeldp.data.frames import FrameReader, with_label_texts
from labeldp.data.header import told_apart
from labeldp.data.headings import LOOKED_AT, lines_beneath
from labeldp.data.labels import label_texts
from labeldp.data.margins import MOST, NO_MARGINS, Margins, left_out, rows_above, rows_below
from labeldp.data.reading import Reading
from labeldp.data.spelling import Wording
from labeldp.errors import DataError, MissingExtraError


def foreign_reader(paths: tuple[Path, ...], form: str, reading: Reading) -> FrameReader:
    """One table in one or more files of another program."""
    read = [_read(path, form, reading) for path in paths]
    tables = [table for table, _, _ in read]
    for path, table in zip(paths, tables, strict=True):
        unique_names(table.schema.names, path)
        same_schema(tables[0].schema, table.schema, (paths[0], path))
    whole = pa.concat_tables(tables)
    sheets = dict.fromkeys(note for _, _, note in read if note)
    notes = (*sheets, *left_out([margins for _, margins, _ in read], reading))
    uncut = partial(foreign_reader, paths, form, replace(reading, skip_footer=None))
    texts = [each.name for each in whole.schema if is_text(each.type)]
    return FrameReader(
        frame=whole,
        schema=whole.schema,
        rows=whole.num_rows,
        format=form,
        paths=paths,
        mixed=tuple(texts) if form == "Excel" else (),  # where numbers are often typed as text
        wording=Wording(notes=notes),
        uncut=uncut if reading.skip_footer else None,
    )


def _read(path: Path, form: str, reading: Reading) -> tuple[pa.Table, Margins, str]:
    """The table, what was left out around it, and a note."""
    try:
        if form == "Excel":
            return _excel(path, reading)
        return _statistical(_READERS[form], path, reading.private), NO_MARGINS, ""
    except ModuleNotFoundError:
        raise MissingExtraError(f"reading {form} files", "tables") from None
    except PermissionError:
        raise DataError(f"{path}: permission denied; make the file readable") from None
    except Exception:  # each package has errors of its own, and they may quote rows
        raise DataError(
            f"{path} cannot be read as {form} (damaged, encrypted or of another format); save it "
            f"again, or as CSV"
        ) from None


def _excel(path: Path, reading: Reading) -> tuple[pa.Table, Margins, str]:
    """The first sheet that has the columns asked for; the first row below titles names them."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        sheets = book.worksheets
        for sheet in sheets:
            sheet.reset_dimensions()  # a lone cell far off would fill all rows with blanks
        sheet = next((each for each in sheets if _names(each, reading.named)), sheets[0])
        rows = list(sheet.iter_rows(values_only=True))
    finally:
        book.close()
    others = len(sheets) - 1
    note = f"of {others + 1} sheets {sheet.title!r} is read, the others are not" if others else ""
    said = reading.skip_lines
    above = rows_above(rows[:MOST], reading.named) if said is None else said
    rows = rows[above:]
    names = ["" if name is None else str(name) for name in (rows[0] if rows else ())]
    while names and not names[-1]:
        names.pop()
    names = told_apart(names)
    rest = (None,) * len(names)  # a row may end with its last value
    found = [row[: len(names)] for row in rows[1:] if row]
    filled = [(*row, *rest)[: len(names)] for row in found if any(v is not None for v in row)]
    said = reading.skip_footer
    below = rows_below(filled, _place(names, reading)) if said is None else said
    filled = filled[: len(filled) - below]
    filled, inside = _without_headings(filled, names, _place(names, reading))
    columns = [[row[place] for row in filled] for place in range(len(names))]
    margins = replace(inside, above=above, below=below)
    arrays = [
        label_texts(column) if name == reading.private else _array(column)
        for name, column in zip(names, columns, strict=True)
    ]
    return pa.table(arrays, names=names), margins, note


def _names(sheet: Any, wanted: Sequence[str]) -> bool:
    """Whether a row at the top of a sheet has all these names."""
    top = sheet.iter_rows(max_row=MOST, values_only=True)
    return any({str(name) for name in row if name is not None} >= {*wanted} for row in top)


def _place(names: list[str], reading: Reading) -> int | None:
    return names.index(reading.private) if reading.private in names else None


def _without_headings(
    rows: list[tuple[Any, ...]], names: list[str], private: int | None
) -> tuple[list[tuple[Any, ...]], Margins]:
    """The rows but for units below the header, and the header again."""
    first = [["" if cell is None else str(cell) for cell in row] for row in rows[: 2 * LOOKED_AT]]
    beneath = lines_beneath(first, private)
    features = [k for k in range(len(names)) if k != private]
    kept = [row for row in rows[beneath:] if any(row[k] != names[k] for k in features)]
    return kept, Margins(beneath=beneath, again=len(rows) - beneath - len(kept))


def _array(values: list[Any]) -> pa.Array:
    """Values of one kind as they are; of several as the text that a CSV file would have."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


def _statistical(reader: str, path: Path, private: str | None) -> pa.Table:
    """By a reader of pyreadstat: values, not their printed labels."""
    import pyreadstat

    frame = with_label_texts(getattr(pyreadstat, reader)(str(path))[0], private)
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


_READERS = {
    "Stata": "read_dta",
    "SPSS": "read_sav",
    "SAS": "read_sas7bdat",
    "SAS transport": "read_xport",
}
