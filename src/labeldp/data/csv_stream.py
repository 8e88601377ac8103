"""Delimited text as blocks of whole rows, in which no label can move a row or a field.

A stray quote in a label would swallow the lines after it, a stray delimiter would shift the fields
behind it, and a stray carriage return would end its row: the number of rows, which is public, would
depend on a label. So the features alone say where a row ends. Where a line is not plainly so many
fields, those before the label are read from the left and those behind it from the right, and what
is left between is the label. If that is no single field it becomes a text that is no number, which
is refused with other bad labels after the last row. Which lines at the end are no rows (a total, a
source) is decided in the same way, from the features.

Features may hold delimiters and line ends in quotes. Only a line end inside a label cannot be told
from the end of a row: lines end with the sign that ends the header.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import DataError

BLOCK = 1 << 22
"""Bytes that are read at a time."""
LONGEST_ROW = 1 << 20
_TAIL = 1 << 16
"""Bytes at the end of a file among which lines below the table are looked for."""
_MOST_BELOW = 20
_FEWEST_FEATURES = 3
"""Features of a table in which a line with one feature at most is taken for a total."""
_QUOTE, _CR, _LF = b'"\r\n'
NO_NUMBER = b'"not 1 field"'
"""What stands for a label that is no single field, whatever divides them: neither a number nor,
since it has a digit, a word that may mean missing (`LabelParser.has_label`)."""
_HEADER = re.compile(rb'(?>[^"\r\n]++|"(?>[^"]++|"")*+")*+(\r\n|\n|\r)')
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)")


def open_text(path: Path, encoding: str) -> Any:
    """Open a file, unpacked, as UTF-8."""
    file = pa.input_stream(str(path))
    if codecs.lookup(encoding).name == "utf-8":
        return file
    return pa.transcoding_input_stream(file, encoding, "utf-8")


def read_header(file: Any, path: Path, skip_lines: int) -> tuple[bytes, bytes]:
    """Return the header with its line end, and what was read behind it."""
    text = b""
    while True:
        fresh = bytes(file.read(BLOCK))
        text += fresh
        start = 0
        for _ in range(skip_lines):
            line = _LINE.match(text, start)
            if line is None and not fresh:
                raise DataError(f"{path} ends above its header; correct `skip_lines`")
            start = len(text) if line is None else line.end()
        header = _HEADER.match(text, start)
        if header and not (header[1] == b"\r" and header.end() == len(text) and fresh):
            return header[0], text[header.end() :]
        if not fresh:  # a header alone
            return text[start:], b""
        if len(text) > 16 * BLOCK:
            raise DataError(f"{path}: the header has no end; check the quoting of its names")


@dataclass(frozen=True)
class Layout:
    """How the lines of a file are divided: how many fields, and which of them is the label."""

    path: Path
    delimiter: str
    fields: int
    label: int | None
    skip_lines: int = 0
    skip_footer: int | None = None
    """Lines below the last row; None: those that look so (`is_below`)."""
    leave_out_odd: bool = False
    """Whether lines of another number of fields are left out instead of refused."""

    @cached_property
    def strict(self) -> re.Pattern[bytes]:
        """A whole row; its group is the label, as short as may be."""
        return self._row(b"")

    @cached_property
    def lenient(self) -> re.Pattern[bytes]:
        """The same with text behind closing quotes, which Arrow takes too."""
        return self._row(b"[^%b\n]*+" % self._sign)

    @cached_property
    def unclosed(self) -> re.Pattern[bytes]:
        """The start of a row in which a feature's quote is still open."""
        feature, sign, tail = self._feature(b""), self._sign, rb'"(?>[^"]++|"")*+\Z'
        before = self.fields if self.label is None else self.label
        behind = self.fields - before - 2
        ways = []
        if before:
            ways.append(rb"(?:%b%b){0,%d}+%b" % (feature, sign, before - 1, tail))
        if behind >= 0:
            ways.append(
                rb"(?:%b%b){%d}[^\n]*?(?:%b%b){0,%d}%b%b"
                % (feature, sign, before, sign, feature, behind, sign, tail)
            )
        return re.compile(b"|".join(ways) or rb"(?!)")

    def is_one_field(self, label: bytes) -> bool:
        """Whether Arrow takes a label for one field as it stands."""
        if label[:1] == b'"':
            return re.fullmatch(rb'"[^"\r\n]*"', label) is not None
        return not re.search(rb'[\r"%b]' % self._sign, label)

    def is_below(self, line: bytes) -> bool:
        """Whether a line is no row: at most one of its fields is filled.

        A line with as many fields as the header may be a row with missing values. It is none if it
        has three features or more, of which one at most is filled, with a text without digits
        ("Total"). The label has no say: a row has delimiters enough whatever its label is, and the
        label's field is left out.
        """
        cells = line.rstrip(b"\r").split(self.delimiter.encode())
        if len(cells) >= self.fields:
            if self.label is not None:
                behind = self.fields - self.label - 1
                cells = cells[: self.label] + cells[len(cells) - behind :]
            if len(cells) < _FEWEST_FEATURES or re.search(rb"\d", b"".join(cells)):
                return False
        filled = [cell for cell in cells if cell.strip(b' "')]
        return len(filled) <= 1 and all(cell.count(b'"') % 2 == 0 for cell in cells)

    @cached_property
    def _sign(self) -> bytes:
        return re.escape(self.delimiter.encode())

    def _feature(self, behind_quotes: bytes) -> bytes:
        sign = self._sign
        quoted = rb'"(?>[^"]++|"")*+"%b(?=%b|$)' % (behind_quotes, sign)
        return rb'(?>%b|(?:[^"%b\n][^%b\n]*+)?+(?=%b|$))' % (quoted, sign, sign, sign)

    def _row(self, behind_quotes: bytes) -> re.Pattern[bytes]:
        feature, sign = self._feature(behind_quotes), self._sign
        if self.label is None:
            return re.compile(rb"(?:%b%b){%d}%b()\Z" % (feature, sign, self.fields - 1, feature))
        behind = self.fields - self.label - 1
        return re.compile(
            rb"(?:%b%b){%d}([^\n]*?)(?:%b%b){%d}\Z"
            % (feature, sign, self.label, sign, feature, behind)
        )


class LabelSafeRows:
    """Blocks of whole rows of a file, without header and lines below, each label one field."""

    def __init__(self, layout: Layout, encoding: str) -> None:
        self._layout, self._encoding = layout, encoding
        self._end = _LF
        """What a line ends with: the sign that ends the header."""
        self.lines_below = 0
        """Lines that were left out at the end, once it is reached."""

    def __iter__(self) -> Iterator[bytes]:
        layout = self._layout
        # The end is held back, because lines below the table may be in it.
        held = _TAIL if layout.skip_footer is None else BLOCK * (layout.skip_footer > 0)
        with open_text(layout.path, self._encoding) as file:
            header, rest = read_header(file, layout.path, layout.skip_lines)
            self._end = _CR if header.endswith(b"\r") else _LF
            ended = False
            while not ended:
                fresh = bytes(file.read(BLOCK))
                ended, text = not fresh, rest + fresh
                if ended:
                    body, rest = self._without_lines_below(text), b""
                else:
                    cut = text.rfind(bytes([self._end]), 0, max(0, len(text) - held)) + 1
                    body, rest = text[:cut], text[cut:]
                rows, unfinished = self._whole_rows(body)
                rest = unfinished + rest
                if len(rest) > held + LONGEST_ROW or (ended and rest):
                    raise DataError(
                        f"{layout.path}: a quote is not closed, or a line has more than "
                        f"{LONGEST_ROW:,} bytes; correct the quoting, or name the `delimiter`"
                    )
                if rows.strip(b"\r\n"):
                    yield rows

    def _without_lines_below(self, text: bytes) -> bytes:
        """Leave the last lines out that are no rows; empty ones do not count."""
        said = self._layout.skip_footer
        end, most = bytes([self._end]), _MOST_BELOW if said is None else said
        while self.lines_below < most:
            bare = text.rstrip(b"\r\n")
            line = bare[bare.rfind(end) + 1 :]
            if not bare or (said is None and not self._layout.is_below(line)):
                break
            text = bare[: len(bare) - len(line)]
            self.lines_below += 1
        return text

    def _whole_rows(self, body: bytes) -> tuple[bytes, bytes]:
        """Return the rows, each label one field, and the start of a row that is not complete."""
        if not body:
            return b"", b""
        odd, ends = self._odd_lines(body)
        pieces, done, line = [], 0, 0  # bytes and lines that are done
        for number in odd:
            if number < line:
                continue  # it was a part of the row before
            first = int(ends[number - 1]) + 1 if number else 0
            pieces.append(body[done:first])
            line, row = self._row(body, first, number, ends)
            if row is None:
                return b"".join(pieces), body[first:]
            pieces.append(row)
            done = min(len(body), int(ends[line - 1]) + 1)
        return b"".join([*pieces, body[done:]]), b""

    def _row(
        self, body: bytes, first: int, number: int, ends: NDArray[np.intp]
    ) -> tuple[int, bytes | None]:
        """Return the line after a row that begins with a line, and the row; None if it goes on."""
        layout = self._layout
        for last in range(number, len(ends)):
            text, end = body[first : ends[last]], body[ends[last] : ends[last] + 1]
            if self._end == _LF and text.endswith(b"\r"):
                text, end = text[:-1], b"\r" + end
            if self._end == _CR:
                text = text.replace(b"\r", b"\n")
            row = layout.strict.match(text)
            if row is None and not layout.unclosed.match(text):
                row = layout.lenient.match(text)
                if row is None and layout.leave_out_odd:
                    return last + 1, b""
                if row is None:
                    raise self._another_width(text)
            if row is not None:
                label = row[1] if layout.is_one_field(row[1]) else NO_NUMBER
                return last + 1, text[: row.start(1)] + label + text[row.end(1) :] + end
            if len(text) > LONGEST_ROW:
                break
        return len(ends), None

    def _another_width(self, line: bytes) -> DataError:
        layout = self._layout
        return DataError(
            f"{layout.path}: a line has {line.count(layout.delimiter.encode()) + 1} fields where "
            f"the header has {layout.fields}; correct the quoting, name the `delimiter`, or leave "
            "lines above or below the table out (`skip_lines`, `skip_footer`)"
        )

    def _odd_lines(self, body: bytes) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return lines that are not plainly so many fields, and where lines end."""
        signs = np.frombuffer(body, np.uint8)
        ends = np.flatnonzero(signs == self._end)
        if not len(ends) or ends[-1] != len(body) - 1:
            ends = np.append(ends, len(body))
        starts = np.append(0, ends[:-1] + 1)
        delimits, odd = signs == ord(self._layout.delimiter), np.zeros(len(ends), bool)
        if b'"' in body:
            delimits &= self._outside_quotes(signs, starts, ends, odd)
        if self._end == _LF and body.count(b"\r") != body.count(b"\r\n"):
            returns = np.flatnonzero(signs == _CR)
            alone = returns[np.append(signs, _LF)[returns + 1] != _LF]
            odd[np.searchsorted(ends, alone)] = True
        counts = np.add.reduceat(delimits, starts, dtype=np.int64)
        blank = (ends - starts == 0) | ((ends - starts == 1) & (signs[starts] == _CR))
        odd |= (counts != self._layout.fields - 1) & ~blank
        return np.flatnonzero(odd), ends

    def _outside_quotes(
        self,
        signs: NDArray[np.uint8],
        starts: NDArray[np.intp],
        ends: NDArray[np.intp],
        odd: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Tell what is outside quotes; lines whose quotes are not each around a field are odd."""
        quoted = signs == _QUOTE
        unpaired = np.add.reduceat(quoted, starts, dtype=np.int64) % 2 == 1
        quotes = np.flatnonzero(quoted)
        around = np.concatenate([[self._end], signs, [self._end]])
        before, after = around[quotes], around[quotes + 2]
        count = np.cumsum(quoted, dtype=np.uint32)
        if unpaired.any():  # they must not turn what follows inside out
            lengths = np.diff(np.append(starts, len(signs)))
            count -= np.repeat(count[starts] - quoted[starts], lengths)
        inside: NDArray[np.bool_] = count % 2 == 1
        sign = ord(self._layout.delimiter)
        fine = np.where(
            inside[quotes],  # an opening one
            (before == sign) | (before == self._end),
            (after == sign) | (after == self._end) | (after == _CR),
        )
        odd |= unpaired
        odd[np.searchsorted(ends, quotes[~fine])] = True
        return np.logical_not(inside)
