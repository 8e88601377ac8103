"""Delimited text in which the bytes of a label cannot decide where rows and other fields end.

A stray quote in a label would swallow the lines after it, a stray delimiter would shift the fields
behind it, and a stray carriage return would end its row: the number of rows, which is public, would
depend on a label. So a row is what its features say. Where lines are not plainly so many fields,
those before the label are read from the left and those behind it from the right, and what is left
between is the label; if it is no single field it becomes a text that is no number, to be refused
with other bad labels after the last row.

Features may hold delimiters and line ends in quotes. Only a line end inside a label cannot be told
from the end of a row.
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

from labeldp.data.headings import BLOCK, Heading, Passed, Rows, fields_of
from labeldp.data.margins import NO_MARGINS, Body, Margins, beneath, lines_of
from labeldp.errors import DataError

_MOST = 1 << 20
"""Bytes of a row: Arrow takes no longer ones."""
_FIRST = 1 << 16
_QUOTE, _CR, _LF = b'"\r\n'
NO_NUMBER = b'"not 1 field"'
"""What stands for a label that is no single field, whatever divides them: neither a number nor,
since it has a digit, a word that may mean missing (`labels.present`)."""
_HEADER = re.compile(rb'(?>[^"\r\n]++|"(?>[^"]++|"")*+")*+(\r\n|\n|\r)')


@dataclass(frozen=True)
class Layout:
    """How lines are divided: the delimiter, how many fields, and which of them is the label."""

    path: Path
    delimiter: str
    fields: int
    label: int

    @cached_property
    def _sign(self) -> bytes:
        return re.escape(self.delimiter.encode())

    def _features(self, closed: str) -> tuple[bytes, bytes]:
        """Those before the label, each with its delimiter behind it, and those after it."""
        sign = self._sign
        rest = b"" if closed == "strictly" else b"[^%b\n]*+" % sign
        one = rb'(?>"(?>[^"]++|"")*+"%b(?=%b|$)|(?:[^"%b\n][^%b\n]*+)?+(?=%b|$))' % (
            rest, sign, sign, sign, sign,
        )  # fmt: skip
        return one + sign, sign + one

    def row(self, closed: str) -> re.Pattern[bytes]:
        """A whole row; its group is the label, as short as may be."""
        before, after = self._features(closed)
        behind = self.fields - self.label - 1
        return re.compile(rb"(?:%b){%d}([^\n]*?)(?:%b){%d}\Z" % (before, self.label, after, behind))

    @cached_property
    def strict(self) -> re.Pattern[bytes]:
        return self.row("strictly")

    @cached_property
    def lenient(self) -> re.Pattern[bytes]:
        """With text behind closing quotes, which Arrow takes too."""
        return self.row("loosely")

    @cached_property
    def open(self) -> re.Pattern[bytes]:
        """A row in which a feature's quote is still open."""
        before, after = self._features("strictly")
        tail = rb'"(?>[^"]++|"")*+\Z'
        behind = self.fields - self.label - 2
        first = rb"(?:%b){0,%d}+%b" % (before, max(0, self.label - 1), tail)
        later = rb"(?:%b){%d}[^\n]*?(?:%b){0,%d}%b%b" % (
            before, self.label, after, max(0, behind), self._sign, tail,
        )  # fmt: skip
        ways = [first] * (self.label > 0) + [later] * (behind >= 0)
        return re.compile(b"|".join(ways) or rb"(?!)")

    def is_one_field(self, label: bytes) -> bool:
        """Whether Arrow takes a label for one field as it stands."""
        if label[:1] == b'"':
            return re.fullmatch(rb'"[^"\r\n]*"', label) is not None
        return not re.search(rb'[\r"%b]' % self._sign, label)

    def too_few(self, line: bytes) -> DataError:
        got = line.count(self.delimiter.encode()) + 1
        return DataError(
            f"{self.path}: a line has {got} fields where the header has {self.fields}; correct the "
            "quoting, name the `delimiter`, or leave lines above or below the table out "
            "(`skip_lines`, `skip_footer`)"
        )


class Guard(Passed):
    """The text of a file, for Arrow to read; labels in it that are no single field are replaced."""

    def __init__(self, file: Any, layout: Layout) -> None:
        super().__init__(file)
        self._layout, self._headed = layout, False
        self._end = _LF
        """What a line ends with: the sign that ends the header."""

    def _fill(self) -> None:
        text = self._more()
        if not self._headed:
            text = self._header(text)
        cut = len(text) if self._ended else text.rfind(bytes([self._end])) + 1
        body, self._rest = text[:cut], text[cut:]
        if len(self._rest) > _MOST:
            raise self._unclosed()
        self._ready += b"".join(self._mended(body)) if self._headed and body else b""

    def _header(self, text: bytes) -> bytes:
        """Pass the header on as it is: it is public. What is left of the text."""
        found = _HEADER.match(text)
        if found is None or (found[1] == b"\r" and found.end() == len(text) and not self._ended):
            return text  # which has not ended yet
        self._headed = True
        self._end = _CR if found[1] == b"\r" else _LF
        self._ready += text[: found.end()]
        return text[found.end() :]

    def _mended(self, body: bytes) -> Iterator[bytes]:
        """The same lines, each label one field."""
        odd, ends = self._odd_lines(body)
        done = line = 0  # bytes, and lines
        for number in odd:
            if number < line:
                continue  # it was a part of the row before
            first = int(ends[number - 1]) + 1 if number else 0
            yield body[done:first]
            line, row = self._row(body, first, number, ends)
            if row is None:
                self._rest = body[first:] + self._rest
                return
            yield row
            done = min(len(body), int(ends[line - 1]) + 1)
        yield body[done:]

    def _row(
        self, body: bytes, first: int, number: int, ends: NDArray[np.intp]
    ) -> tuple[int, bytes | None]:
        """The row that begins with a line, and the line after it; none if its end is not there."""
        layout = self._layout
        for last in range(number, len(ends)):
            text, end = body[first : ends[last]], body[ends[last] : ends[last] + 1]
            if self._end == _LF and text.endswith(b"\r"):
                text, end = text[:-1], b"\r" + end
            if self._end == _CR:
                text = text.replace(b"\r", b"\n")
            found = layout.strict.match(text)
            if found is None and not layout.open.match(text):
                found = layout.lenient.match(text)
                if found is None:
                    raise layout.too_few(text)
            if found is not None:
                fine = layout.is_one_field(found[1])
                label = found[1] if fine else NO_NUMBER
                return last + 1, text[: found.start(1)] + label + text[found.end(1) :] + end
            if len(text) > _MOST:
                break
        if self._ended or len(body) - first > _MOST:
            raise self._unclosed()
        return len(ends), None

    def _odd_lines(self, body: bytes) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Lines that are not plainly so many fields, and where lines end."""
        signs = np.frombuffer(body, np.uint8)
        ends = np.flatnonzero(signs == self._end)
        if not len(ends) or ends[-1] != len(body) - 1:
            ends = np.append(ends, len(body))
        starts = np.append(0, ends[:-1] + 1)
        delimits, odd = signs == ord(self._layout.delimiter), np.zeros(len(ends), bool)
        if b'"' in body:
            delimits &= self._outside(signs, starts, ends, odd)
        if self._end == _LF and body.count(b"\r") != body.count(b"\r\n"):
            returns = np.flatnonzero(signs == _CR)
            alone = returns[np.append(signs, _LF)[returns + 1] != _LF]
            odd[np.searchsorted(ends, alone)] = True
        counts = _per_line(delimits, starts)
        blank = (ends - starts == 0) | ((ends - starts == 1) & (signs[starts] == _CR))
        odd |= (counts != self._layout.fields - 1) & ~blank
        return np.flatnonzero(odd), ends

    def _outside(
        self,
        signs: NDArray[np.uint8],
        starts: NDArray[np.intp],
        ends: NDArray[np.intp],
        odd: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """What is outside quotes; lines whose quotes are not each around a field are odd."""
        quoted = signs == _QUOTE
        unpaired = _per_line(quoted, starts) % 2 == 1
        quotes = np.flatnonzero(quoted)
        around = np.concatenate([[self._end], signs, [self._end]])
        before, after = around[quotes], around[quotes + 2]
        count = np.cumsum(quoted, dtype=np.uint32)
        if unpaired.any():  # they must not turn what follows inside out
            count -= np.repeat(
                count[starts] - quoted[starts], np.diff(np.append(starts, len(signs)))
            )
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

    def _unclosed(self) -> DataError:
        return DataError(
            f"{self._layout.path}: a quote is not closed, or a line has more than {_MOST:,} bytes; "
            "correct the quoting, or name the `delimiter`"
        )


def _per_line(marks: NDArray[np.bool_], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.add.reduceat(marks, starts, dtype=np.int64)
    return counts


def opened(path: Path, encoding: str, margins: Margins = NO_MARGINS) -> Any:
    """The text of a file as UTF-8, unpacked, without what stands above and below the table."""
    file = pa.input_stream(str(path))
    if codecs.lookup(encoding).name != "utf-8":
        file = pa.transcoding_input_stream(file, encoding, "utf-8")
    if margins.above or margins.below:
        file = Body(file, margins)
    if margins.beneath or margins.again:
        file = Rows(file, margins.beneath, margins.heading)
    return file


def inner_margins(
    path: Path, encoding: str, above: int, delimiter: str, private: int | None
) -> Margins:
    """What stands above a table and amid it; reads the file once."""
    heading = Heading.of(line := header(path, encoding, above), delimiter, private)
    if heading is None:
        return Margins(above)
    with opened(path, encoding, Margins(above)) as file:
        text = bytes(file.read(BLOCK))[len(line) :].decode(errors="replace")
    units = beneath(text, delimiter, fields_of(line, delimiter), private)
    with Rows(opened(path, encoding, Margins(above)), units, heading) as rows:
        while rows.read(BLOCK):
            pass
        return Margins(above, 0, units, rows.again, heading)


def first_rows(path: Path, encoding: str, above: int) -> list[str]:
    """The first lines below the header, as far as they are whole."""
    line = header(path, encoding, above)
    with opened(path, encoding, Margins(above)) as file:
        text = bytes(file.read(BLOCK))[len(line) :].decode(errors="replace")
    whole = text if text.endswith(("\n", "\r")) else text[: text.rfind("\n") + 1]
    return [each for each in lines_of(whole[:_FIRST]) if each][:-1]


def header(path: Path, encoding: str, above: int = 0) -> bytes:
    """The header of a file and nothing of its rows."""
    text = b""
    with opened(path, encoding, Margins(above)) as file:
        while not (found := _HEADER.match(text)) and (fresh := bytes(file.read(BLOCK))):
            text += fresh
            if len(text) > 16 * _MOST:
                raise DataError(f"{path}: the header has no end; check the quoting of its names")
    if found is None:  # a header alone
        return text + b"\n" if text.strip() else b""
    return found[0]
