"""Delimited text as blocks of whole rows, in which no label can move a row or a field.

A stray quote in a label would swallow the lines after it, a stray delimiter would shift the fields
behind it, and a stray carriage return would end its row: the number of rows, which is public, would
depend on a label. So the features alone say where a row ends. Where a line is not plainly so many
fields, those before the label are read from the left and those behind it from the right, and what
is left between is the label. If that is no single field it becomes a text that is no number, which
is refused with other bad labels after the last row. Which lines at the end are no rows (a total, a
source) is decided in the same way, from the features.

Features may hold delimiters and line ends in quotes. Only a line feed inside a label cannot be told
from the end of a row. Carriage returns alone end no line.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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
_HEADER = re.compile(rb'(?>[^"\n]++|"(?>[^"]++|"")*+")*+\n')


def open_text(content: Path | pa.Buffer, encoding: str) -> Any:
    """Open a file, unpacked, or what stands for it, as UTF-8.

    Bytes that are no text of another encoding become U+FFFD: if they are in a label, nothing may be
    said before the last row.
    """
    file = pa.input_stream(content)
    if codecs.lookup(encoding).name == "utf-8":
        return file
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    return pa.TransformInputStream(
        file, lambda raw: decoder.decode(bytes(raw), not len(raw)).encode()
    )


def read_header(file: Any, path: Path, skip_lines: int) -> tuple[bytes, bytes]:
    """Return the header, and what was read behind it."""
    text, fresh = b"", b" "
    while fresh:
        fresh = bytes(file.read(BLOCK))
        text += fresh
        *above, rest = text.split(b"\n", skip_lines)
        header = _HEADER.match(rest) if len(above) == skip_lines else None
        if header is not None or not fresh:
            break
        if len(text) > 16 * BLOCK:
            raise DataError(f"{path}: the header has no end; check the quoting of its names")
    if len(above) < skip_lines:
        raise DataError(f"{path} ends above its header; correct `skip_lines`")
    line = rest if header is None else header[0]
    if b"\r" in line.rstrip(b"\r\n"):  # what looks like a header may hold rows
        raise DataError(f"{path}: lines end with carriage returns alone; end them with line feeds")
    return line.rstrip(b"\r\n"), rest[len(line) :]


@dataclass
class LabelSafeRows:
    """Blocks of whole rows of a file, without header and lines below, each label one field.

    Lines have so many `fields`, of which number `label` is the label. `skip_footer` lines are below
    the last row; None: those that look so. Lines of another number of fields are refused, or left
    out with `leave_out_odd`.
    """

    path: Path
    content: Path | pa.Buffer
    encoding: str
    delimiter: bytes
    fields: int
    label: int | None
    skip_lines: int = 0
    skip_footer: int | None = None
    leave_out_odd: bool = False
    lines_below: int = field(default=0, init=False)
    """Lines that were left out at the end, once it is reached."""

    def __post_init__(self) -> None:
        # Patterns of a row, whose group is its label, as short as may be, and of one in which the
        # quote of a feature is open.
        sign, before = re.escape(self.delimiter), self.fields if self.label is None else self.label
        behind = self.fields - before - 1  # -1 without a label
        quoted = rb'"(?>[^"]++|"")*+"(?=%b|$)' % sign
        cell = rb'(?>%b|(?:[^"%b\n][^%b\n]*+)?+(?=%b|$))' % (quoted, sign, sign, sign)
        tail = rb'"(?>[^"]++|"")*+\Z'
        if self.label is None:
            row = rb"(?:%b%b){%d}%b()\Z" % (cell, sign, before - 1, cell)
        else:
            fields = (cell, sign, before, sign, cell, behind)
            row = rb"(?:%b%b){%d}([^\n]*?)(?:%b%b){%d}\Z" % fields
        ways = []
        if before:
            ways.append(rb"(?:%b%b){0,%d}+%b" % (cell, sign, before - 1, tail))
        if behind > 0:
            parts = (cell, sign, before, sign, cell, behind - 1, sign, tail)
            ways.append(rb"(?:%b%b){%d}[^\n]*?(?:%b%b){0,%d}%b%b" % parts)
        self._complete, self._unclosed = re.compile(row), re.compile(b"|".join(ways) or rb"(?!)")

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks; the next one is prepared in a thread while the caller parses one."""
        blocks = self._blocks()
        with ThreadPoolExecutor(1) as thread:
            upcoming = thread.submit(next, blocks, None)
            while (block := upcoming.result()) is not None:
                upcoming = thread.submit(next, blocks, None)
                yield block

    def _blocks(self) -> Iterator[bytes]:
        # The end is held back, because lines below the table may be in it.
        held = _TAIL if self.skip_footer is None else BLOCK * (self.skip_footer > 0)
        with open_text(self.content, self.encoding) as file:
            _, rest = read_header(file, self.path, self.skip_lines)
            ended = False
            while not ended:
                fresh = bytes(file.read(BLOCK))
                ended, text = not fresh, rest + fresh
                if ended:
                    body, rest = self._without_lines_below(text), b""
                else:
                    cut = text.rfind(b"\n", 0, max(0, len(text) - held)) + 1
                    body, rest = text[:cut], text[cut:]
                rows, unfinished = self._whole_rows(body) if body else (b"", b"")
                rest = unfinished + rest
                if len(rest) > held + LONGEST_ROW or (ended and rest):
                    raise DataError(
                        f"{self.path}: a quote is not closed, or a line has more than "
                        f"{LONGEST_ROW:,} bytes; correct the quoting, or name the `delimiter`"
                    )
                if rows.strip(b"\r\n"):
                    yield rows

    def _without_lines_below(self, text: bytes) -> bytes:
        """Leave the last lines out that are no rows; empty ones do not count.

        A line is no row if at most one of its fields is filled. One with as many fields as the
        header may be a row with missing values: it is none if it has three features or more, of
        which one at most is filled, with a text without digits ("Total"). The label has no say: a
        row has delimiters enough whatever its label is, and the label's field is left out.
        """
        self.lines_below = 0
        while self.lines_below < (_MOST_BELOW if self.skip_footer is None else self.skip_footer):
            bare = text.rstrip(b"\r\n")
            if not bare:
                break
            line = bare[bare.rfind(b"\n") + 1 :]
            if self.skip_footer is None:
                cells = line.split(self.delimiter)
                if len(cells) >= self.fields:
                    if self.label is not None:
                        behind = self.fields - self.label - 1
                        cells = cells[: self.label] + cells[len(cells) - behind :]
                    if len(cells) < _FEWEST_FEATURES or re.search(rb"\d", b"".join(cells)):
                        break
                filled = [cell for cell in cells if cell.strip(b' "\r')]
                if len(filled) > 1 or any(cell.count(b'"') % 2 for cell in cells):
                    break
            text = bare[: len(bare) - len(line)]
            self.lines_below += 1
        return text

    def _whole_rows(self, body: bytes) -> tuple[bytes, bytes]:
        """Return the rows, each label one field, and the start of a row that is not complete."""
        odd, ends = self._odd_lines(body)
        pieces, done, line = [], 0, 0  # bytes and lines that are done
        for number in odd:
            if number < line:
                continue  # it was a part of the row before
            first = int(ends[number - 1]) + 1 if number else 0
            pieces.append(body[done:first])
            for last in range(number, len(ends)):
                row = self._row(body[first : ends[last]])
                if row is not None or ends[last] - first > LONGEST_ROW:
                    break
            if row is None:  # a quote is open
                return b"".join(pieces), body[first:]
            pieces += [row, body[ends[last] : ends[last] + 1] if row else b""]
            line, done = last + 1, int(ends[last]) + 1
        return b"".join([*pieces, body[done:]]), b""

    def _odd_lines(self, body: bytes) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return lines that are not plainly so many fields, and where lines end."""
        signs = np.frombuffer(body, np.uint8)
        ends = np.flatnonzero(signs == _LF)
        if not len(ends) or ends[-1] != len(body) - 1:
            ends = np.append(ends, len(body))
        starts = np.append(0, ends[:-1] + 1)
        delimits = signs == self.delimiter[0]
        odd = np.zeros(len(ends), bool)
        if b'"' in body:
            quoted = signs == _QUOTE
            inside = np.cumsum(quoted, dtype=np.uint32) & 1 == 1
            before = np.append(False, inside[ends[:-1]])  # whether a line begins inside quotes
            odd = inside[np.minimum(ends, len(body) - 1)] != before
            if odd.any():  # an unpaired quote must not turn what follows inside out
                inside ^= np.repeat(before, np.diff(np.append(starts, len(body))))
            # Other quotes stand at the edges of fields, or the line is odd.
            edge = delimits | (signs == _LF)
            opens = np.append(True, edge[:-1])
            closes = np.append(edge[1:] | (signs[1:] == _CR), True)
            astray = np.flatnonzero(quoted & ~np.where(inside, opens, closes))
            odd[np.searchsorted(ends, astray)] = True
            delimits &= ~inside
        if body.count(b"\r") != body.count(b"\r\n"):
            # Arrow takes a carriage return alone for the end of a row.
            returns = np.flatnonzero(signs == _CR)
            alone = returns[np.append(signs, np.uint8(_LF))[returns + 1] != _LF]
            odd[np.searchsorted(ends, alone)] = True
        counts = np.add.reduceat(delimits.view(np.uint8), starts, dtype=np.uint32)
        blank = (ends - starts == 0) | ((ends - starts == 1) & (signs[starts] == _CR))
        odd |= (counts != self.fields - 1) & ~blank
        return np.flatnonzero(odd), ends

    def _row(self, text: bytes) -> bytes | None:
        """Return a row with its label as one field; None if the row goes on in the next line."""
        bare = text.removesuffix(b"\r")
        row = self._complete.match(bare)
        if row is None:
            if self._unclosed.match(bare):
                return None
            if self.leave_out_odd:
                return b""
            raise DataError(
                f"{self.path}: a line has not as many fields as the header ({self.fields}); "
                "correct the quoting, name the `delimiter`, or leave lines above or below the "
                "table out (`skip_lines`, `skip_footer`)"
            )
        label = row[1]
        if label[:1] == b'"':
            is_one_field = re.fullmatch(rb'"[^"\r\n]*"', label) is not None
        else:
            is_one_field = not re.search(rb'[\r"]', label) and self.delimiter not in label
        if not is_one_field:
            label = NO_NUMBER
        return text[: row.start(1)] + label + text[row.end(1) :]
