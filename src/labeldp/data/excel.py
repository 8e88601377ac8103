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

    Lines above its header are empty there, for the reader to count.
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
    body = [row[: len(names)] for row in rows[above + 1 :]]
    if label in names:
        place = names.index(label)
        # A row without features is none, whatever its label.
        body = [row for row in body if any(map(_text, (*row[:place], *row[place + 1 :])))]
        labels = label_texts(row[place] if place < len(row) else None for row in body).to_pylist()
        cells = [
            [*map(_text, row[:place]), value or "", *map(_text, row[place + 1 :])]
            for row, value in zip(body, labels, strict=True)
        ]
    else:
        cells = [texts for row in body if any(texts := [*map(_text, row)])]
    text = io.StringIO(newline="")
    text.write("\n" * above)
    missing = [""] * len(names)  # a row may end with its last value
    csv.writer(text, lineterminator="\n").writerows(
        [names, *([*row, *missing][: len(names)] for row in cells)]
    )
    return text.getvalue(), notes


def _name(value: Any) -> str:
    """Return a name in one line."""
    return "" if value is None else re.sub(r"[\r\n]+", " ", str(value))


def _text(value: Any) -> str:
    """Return a cell as text that means the same beside decimal commas too: 1.234 is 1.2340."""
    text = "" if value is None else repr(value) if isinstance(value, float) else str(value)
    is_grouped = isinstance(value, float) and re.fullmatch(r"-?\d{1,3}\.\d{3}", text)
    return f"{text}0" if is_grouped else text
