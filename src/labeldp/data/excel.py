"""Excel sheets as CSV text, so that the rules for text hold: headers, totals, types and labels.

The label column decides nothing: neither which rows there are nor the type of anything.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.data.delimited import MOST_TITLES, DelimitedReader, count_titles
from labeldp.data.files import reading_file
from labeldp.data.labels import label_texts
from labeldp.data.options import TextOptions


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

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        sheets = book.worksheets
        for sheet in sheets:
            sheet.reset_dimensions()  # a lone cell far off would fill all rows with blanks
        sheet = sheets[0]
        for each in sheets:
            top = each.iter_rows(max_row=MOST_TITLES, values_only=True)
            if any({*named}.issubset(map(_name, row)) for row in top):
                sheet = each
                break
        rows = list(sheet.iter_rows(values_only=True))
    finally:
        book.close()
    notes = []
    if len(sheets) > 1:
        notes.append(f"of {len(sheets)} sheets {sheet.title!r} is read, the others are not")
    above = options.skip_lines
    if above is None:
        above = count_titles(([*map(_name, row)] for row in rows[:MOST_TITLES]), named)
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
