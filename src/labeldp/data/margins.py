"""What stands above and below a table in its file: titles and remarks, totals and sources.

    Sales by shop, 2024            a title: fewer than two fields, and a header follows
    # made by export.py            a remark
    shop,area,rows,sales           the header
    ...
    Total,,,"1,234,567"            a total: more than half of its features are empty
    Source: the till               a line that is no row

A line above the header is told by itself, or by a name that the header must have; rows are looked
at only if the first lines name fewer than two columns, which no label and feature could have, or
not the label. Below the table no label has a say: its
field is left out where a line has as many fields as the header.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.data.headings import LOOKED_AT, Heading, lines_beneath
from labeldp.data.reading import Reading
from labeldp.errors import DataError

MOST = 20
"""Lines above or below a table that are found."""
_BLOCK = 1 << 20
_TAIL = 1 << 16
_FEWEST = 3
"""Fields of a header that makes what stands above it a title."""
_CANDIDATES = ",;\t|"
_ENDS = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)")
_REMARK = re.compile(r"\s*#($|[\s#!])")
_TOTAL = re.compile(
    r"\b(sub)?totals?\b|\bsum\b|\bsumme\b|gesamt|\bsomme\b|\bsuma\b|\baverage\b|\bmean\b|"
    r"\btotale\b|\btotaux\b|\btoplam\b|\bитого\b|\brazem\b|合計",
    re.I,
)
_WORDS = re.compile(
    r"sources?\b|notes?\b|quelle|generated\b|exported\b|end of\b|\*|#|--|©|\(?\d+ rows", re.I
)


@dataclass(frozen=True)
class Margins:
    """Lines of a file that are no rows: above its header and, not counting empty ones, below.

    And amid the table (`headings.py`): those beneath the header, and it again.
    """

    above: int = 0
    below: int = 0
    beneath: int = 0
    again: int = 0
    heading: Heading | None = None

    def __bool__(self) -> bool:
        return bool(self.above or self.below or self.beneath or self.again)


NO_MARGINS = Margins()


def left_out(margins: Collection[Margins], said: Reading) -> Iterator[str]:
    """What was found above, below and amid the files of a table, unless somebody said it."""
    above = sum(each.above for each in margins) if said.skip_lines is None else 0
    below = sum(each.below for each in margins) if said.skip_footer is None else 0
    if above:
        yield f"lines above the header, left out: {above}; `skip_lines=0` to change"
    if below:
        yield f"lines below the last row, left out: {below}; `skip_footer=0` to change"
    beneath, again = (sum(getattr(each, n) for each in margins) for n in ("beneath", "again"))
    if beneath:
        yield f"lines below the header that hold units or other words, left out: {beneath}"
    if again:
        yield f"lines that repeat the header, left out: {again}"


def lines_of(text: str) -> list[str]:
    """The lines of a text, however they end."""
    return _ENDS.split(text)


def lines_above(lines: Sequence[str], delimiter: str | None, named: Sequence[str] = ()) -> int:
    """How many of the first lines of a file are not its header yet.

    It is the first line in which one of the columns that were `named` stands; by its form if none.
    """
    for divider in (_divider, _space):
        for number, line in enumerate(lines):
            if _goes_on(line):
                break
            if not {*named}.isdisjoint(_split(line, delimiter or divider(line))):
                return number
    return _titles(lines, delimiter)


def _goes_on(line: str) -> bool:
    """Whether a name in quotes goes on in the next line."""
    return line.count('"') % 2 == 1


def _titles(lines: Sequence[str], delimiter: str | None) -> int:
    for number, line in enumerate(lines):
        if not line.strip() or _REMARK.match(line):
            continue
        if _goes_on(line):
            return number
        widths = [_filled(later, delimiter) for later in lines[number:]]
        titles = next((k for k, width in enumerate(widths) if width >= _FEWEST), 0)
        return number + titles if widths[0] < 2 else number
    return 0


def rows_above(rows: Sequence[Sequence[Any]], named: Sequence[str]) -> int:
    """The same for rows of cells."""
    for number, row in enumerate(rows):
        if not {*named}.isdisjoint(map(str, row)):
            return number
    widths = [sum(cell not in (None, "") for cell in row) for row in rows]
    titles = next((k for k, width in enumerate(widths) if width >= _FEWEST), 0)
    return titles if widths and widths[0] < 2 else 0


def lines_below(path: Path, encoding: str, delimiter: str, fields: int, private: int | None) -> int:
    """How many of the last lines of a file are no rows; packed files are not looked at."""
    if path.suffix.lower() == ".gz":
        return 0
    with open(path, "rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - _TAIL) & ~1)
        text = file.read().decode(encoding, errors="replace")
    lines = [line for line in lines_of(text) if line]
    return _trailing([_cells(line, delimiter, fields) for line in lines[1:]], fields, private)


def rows_below(rows: Sequence[Sequence[Any]], private: int | None) -> int:
    """The same for rows of cells."""
    told = [["" if cell is None else str(cell) for cell in row] for row in rows[-MOST:]]
    return _trailing(told, len(rows[0]) if rows else 0, private)


def beneath(text: str, delimiter: str, fields: int, private: int | None) -> int:
    """How many lines that follow a header, which is left out here, are units or the like."""
    lines = [line for line in lines_of(text)[: 2 * LOOKED_AT] if line]
    rows = [_of_features(_cells(line, delimiter, fields), fields, private) for line in lines]
    return lines_beneath([row for row in rows if len(row) == fields], private)


def _of_features(row: list[str], fields: int, private: int | None) -> list[str]:
    """Without the label's field, and with one in its place however many signs it holds."""
    if private is None or len(row) < fields:
        return row
    return [*row[:private], "", *row[len(row) - (fields - private - 1) :]]


def _trailing(rows: Sequence[Sequence[str]], fields: int, private: int | None) -> int:
    last = rows[: -MOST - 1 : -1]
    return next((k for k, row in enumerate(last) if not _is_below(row, fields, private)), len(last))


def _is_below(row: Sequence[str], fields: int, private: int | None) -> bool:
    """Whether a line is no row: empty, a total, or a remark in fewer fields than rows have."""
    whole = len(row) == fields
    told = [cell.strip() for k, cell in enumerate(row) if not (whole and k == private)]
    filled = [cell for cell in told if cell]
    if not filled:
        return whole
    if whole:
        return bool(2 * len(filled) < len(told) and _TOTAL.search(filled[0]))
    return len(row) < fields and bool(_TOTAL.search(filled[0]) or _WORDS.match(filled[0]))


def _filled(line: str, delimiter: str | None) -> int:
    """Fields of a line that hold something, by the sign that divides it most."""
    return sum(bool(cell.strip()) for cell in _split(line, delimiter or _divider(line)))


def _divider(line: str) -> str:
    return max(_CANDIDATES, key=line.count)


def _space(line: str) -> str:
    """Where nothing else divides a line, a space may."""
    best = _divider(line)
    return best if best in line else " "


def _cells(line: str, delimiter: str, fields: int) -> list[str]:
    """The fields of a line: fewer than a row has only if it holds fewer signs that divide them.

    A quote that some label opens takes no fields away.
    """
    cells = _split(line, delimiter)
    return line.split(delimiter) if len(cells) < fields <= line.count(delimiter) + 1 else cells


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a field that is longer than any name or total
        return line.split(delimiter)


class Body(io.RawIOBase):
    """The text of a file without its margins."""

    def __init__(self, file: Any, margins: Margins) -> None:
        super().__init__()
        self._file, self._above, self._below = file, margins.above, margins.below
        self._text, self._ended = b"", False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as are surely of the table, up to `size`."""
        while not self._ended and (size < 0 or not self._ready):
            self._fill()
        given = self._text[: self._ready if size < 0 else min(size, self._ready)]
        self._text = self._text[len(given) :]
        return given

    def close(self) -> None:
        self._file.close()
        super().close()

    @property
    def _ready(self) -> int:
        """What may be given: the end is held back, since what follows may be its end."""
        return len(self._text) if self._ended else max(0, len(self._text) - _BLOCK)

    def _fill(self) -> None:
        fresh = bytes(self._file.read(_BLOCK))
        self._text += fresh
        self._ended = not fresh
        while self._above and (self._ended or len(self._text) > _BLOCK):
            line = _LINE.match(self._text)
            if line is None:
                raise DataError("the lines above the header have no end; correct `skip_lines`")
            self._text, self._above = self._text[line.end() :], self._above - 1
        if self._ended:
            self._text = _without_last(self._text, self._below)


def _without_last(text: bytes, lines: int) -> bytes:
    """The text without so many of its last lines; empty ones do not count."""
    for _ in range(lines):
        bare = text.rstrip(b"\r\n")
        text = bare[: max(bare.rfind(b"\n"), bare.rfind(b"\r")) + 1]
    return text
