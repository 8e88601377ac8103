"""Excel, Stata, SPSS and SAS files, read whole by the packages of the extra `tables`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.data.columns import is_text
from labeldp.data.delimited import MOST_TITLES, first_header, numbered_names
from labeldp.data.files import same_schema
from labeldp.data.frames import FrameReader, plain_texts, with_label_texts
from labeldp.data.labels import label_texts
from labeldp.data.options import TextOptions
from labeldp.data.roles import check_unique_names
from labeldp.errors import DataError, MissingExtraError

_MOST_BELOW, _FEWEST_FEATURES = 20, 3
_READERS = {
    "Stata": "read_dta",
    "SPSS": "read_sav",
    "SAS": "read_sas7bdat",
    "SAS transport": "read_xport",
}


def open_foreign(
    paths: tuple[Path, ...],
    form: str,
    options: TextOptions,
    *,
    label: str | None = None,
    named: Sequence[str] = (),
) -> FrameReader:
    """Return the reader of one table in one or more files of another program."""
    tables, notes, mixed = [], dict[str, None](), set[str]()
    for path in paths:
        try:
            if form == "Excel":
                table, texts, said = _read_excel(path, options, label, named)
                mixed.update(texts)
                notes.update(dict.fromkeys(said))
            else:
                table = _read_statistical(_READERS[form], path, label)
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
        check_unique_names(table.schema.names, path)
        same_schema(tables[0].schema, table.schema, (paths[0], path))
    whole = pa.concat_tables(tables)
    uncut = None
    if options.skip_footer:
        every = replace(options, skip_footer=None)
        uncut = partial(open_foreign, paths, form, every, label=label, named=named)
    return FrameReader(
        frame=whole,
        stored_schema=whole.schema,
        rows=whole.num_rows,
        format=form,
        paths=paths,
        notes=tuple(notes),
        mixed=tuple(sorted(mixed)),
        uncut=uncut,
    )


def _read_statistical(reader: str, path: Path, label: str | None) -> pa.Table:
    """Read values, not their printed labels, by a reader of pyreadstat."""
    import pyreadstat

    frame = with_label_texts(getattr(pyreadstat, reader)(str(path))[0], label)
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def _read_excel(
    path: Path, options: TextOptions, label: str | None, named: Sequence[str]
) -> tuple[pa.Table, list[str], list[str]]:
    """Read the first sheet that has the columns asked for; its names are below titles.

    Return the table, the columns of text, which may hold numbers, and notes. The label column is
    text, and decides nothing: neither which rows there are nor the type of anything.
    """
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        sheets = book.worksheets
        for sheet in sheets:
            sheet.reset_dimensions()  # a lone cell far off would fill all rows with blanks
        sheet = next((each for each in sheets if _has_names(each, named)), sheets[0])
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
        above = next(has_name, first_header([len(_filled(row)) for row in top]))
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
        below = _count_below([[row[k] for k in features] for row in body[-_MOST_BELOW:]])
        if below:
            notes.append(f"lines below the last row, left out: {below}; `skip_footer=0` to change")
    body = body[: len(body) - below]
    columns, mixed = [], []
    for place, name in enumerate(names):
        values = [row[place] for row in body]
        if name == label:
            columns.append(label_texts(values))
            continue
        columns.append(_array(plain_texts(values) or values))
        if is_text(columns[-1].type):
            mixed.append(name)  # numbers are often typed as text here
    return pa.table(columns, names=names), mixed, notes


def _has_names(sheet: Any, named: Sequence[str]) -> bool:
    """Whether a row at the top of a sheet has all these names."""
    top = sheet.iter_rows(max_row=MOST_TITLES, values_only=True)
    return any({str(name) for name in row if name is not None} >= {*named} for row in top)


def _filled(row: Sequence[Any]) -> list[Any]:
    return [cell for cell in row if cell not in (None, "")]


def _count_below(rows: Sequence[Sequence[Any]]) -> int:
    """Return how many of the last rows have one feature at most, a text, of three or more."""
    below = 0
    for row in reversed(rows):
        cells = _filled(row)
        has_digit = any(re.search(r"\d", str(cell)) for cell in cells)
        if len(row) < _FEWEST_FEATURES or len(cells) > 1 or has_digit:
            break
        below += 1
    return below


def _array(values: list[Any]) -> pa.Array:
    """Return values of one kind as they are, and of several as the text that a CSV file has."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])
