"""The bytes of delimited text on their way to Arrow, with rows that no label can move.

A stray quote in a label would swallow the lines after it, a stray delimiter would shift the fields
behind it, and a stray carriage return would end its row: the number of rows, which is public, would
depend on a label. So a row is what its features say. Where lines are not plainly so many fields,
those before the label are read from the left and those behind it from the right, and what is left
between is the label. If it is no single field it becomes a text that is no number, to be refused
with other bad labels after the last row. Which lines at the end are no rows (a total, a source) is
told in the same way, from the fields of the features.

Features may hold delimiters and line ends in quotes. Only a line end inside a label cannot be told
from the end of a row: lines end with the sign that ends the header.
"""

from __future__ import annotations

import atexit
import codecs
import io
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from traceback import clear_frames
from types import TracebackType
from typing import Any, ClassVar
from weakref import WeakSet, ref

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow.csv import CSVStreamingReader

from labeldp.errors import DataError

BLOCK = 1 << 20
"""Bytes that are read at a time."""
_LONGEST_ROW = 1 << 20
"""Bytes of a row: Arrow takes no longer ones."""
_TAIL = 1 << 16
"""Bytes at the end of a file among which lines below the table are looked for."""
_MOST_BELOW = 20
_FEWEST_FEATURES = 3
"""Of a table in which a line with one feature at most is taken for a total."""
_QUOTE, _CR, _LF = b'"\r\n'
NO_NUMBER = b'"not 1 field"'
"""What stands for a label that is no single field, whatever divides them: neither a number nor,
since it has a digit, a word that may mean missing (`labels.has_label`)."""
_HEADER = re.compile(rb'(?>[^"\r\n]++|"(?>[^"]++|"")*+")*+(\r\n|\n|\r)')
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)")


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
    """Whether lines of too few fields are left out instead of refused."""

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
        before, after = self._feature_patterns(b"")
        tail = rb'"(?>[^"]++|"")*+\Z'
        label = self.label or 0
        behind = self.fields - label - 2
        first = rb"(?:%b){0,%d}+%b" % (before, max(0, label - 1), tail)
        later = rb"(?:%b){%d}[^\n]*?(?:%b){0,%d}%b%b" % (
            before, label, after, max(0, behind), self._sign, tail,
        )  # fmt: skip
        ways = [first] * (label > 0) + [later] * (behind >= 0)
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

    def too_few_fields(self, line: bytes) -> DataError:
        got = line.count(self.delimiter.encode()) + 1
        return DataError(
            f"{self.path}: a line has {got} fields where the header has {self.fields}; correct the "
            "quoting, name the `delimiter`, or leave lines above or below the table out "
            "(`skip_lines`, `skip_footer`)"
        )

    @cached_property
    def _sign(self) -> bytes:
        return re.escape(self.delimiter.encode())

    def _feature_patterns(self, behind_quotes: bytes) -> tuple[bytes, bytes]:
        """Features before the label, each with a delimiter behind it, and those after it."""
        sign = self._sign
        one = rb'(?>"(?>[^"]++|"")*+"%b(?=%b|$)|(?:[^"%b\n][^%b\n]*+)?+(?=%b|$))' % (
            behind_quotes, sign, sign, sign, sign,
        )  # fmt: skip
        return one + sign, sign + one

    def _row(self, behind_quotes: bytes) -> re.Pattern[bytes]:
        before, after = self._feature_patterns(behind_quotes)
        label = self.label or 0
        behind = self.fields - label - 1
        return re.compile(rb"(?:%b){%d}([^\n]*?)(?:%b){%d}\Z" % (before, label, after, behind))


class LabelSafeCsvStream(io.RawIOBase):
    """The text of a table for Arrow: without lines above and below, every label one field."""

    def __init__(self, file: Any, layout: Layout) -> None:
        super().__init__()
        self._file, self._layout = file, layout
        self._ready, self._rest, self._ended, self._headed = b"", b"", False, False
        self._end = _LF
        """What a line ends with: the sign that ends the header."""
        self.lines_below = 0
        """Lines that were left out at the end, once it is reached."""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def read(self, size: int = -1, /) -> bytes:
        """Return as many bytes as there are, up to `size`."""
        while not self._ended and (size < 0 or not self._ready):
            self._fill()
        given = self._ready if size < 0 else self._ready[:size]
        self._ready = self._ready[len(given) :]
        return given

    def _fill(self) -> None:
        fresh = bytes(self._file.read(BLOCK))
        self._ended = not fresh
        text = self._rest + fresh
        if not self._headed:
            text = self._pass_header(text)
        if self._ended:
            body, self._rest = self._without_lines_below(text), b""
        else:  # the end is held back, because lines below the table may be in it
            held = (
                _TAIL
                if self._layout.skip_footer is None
                else BLOCK * (self._layout.skip_footer > 0)
            )
            cut = text.rfind(bytes([self._end]), 0, max(0, len(text) - held)) + 1
            body, self._rest = text[:cut], text[cut:]
            if len(self._rest) > held + _LONGEST_ROW:
                raise self._unclosed_quote()
        if body and self._headed:
            rows = [body] if self._layout.label is None else self._mended(body)
            self._ready += b"".join(rows)

    def _pass_header(self, text: bytes) -> bytes:
        """Pass the header on as it is, because it is public; return what is left of the text."""
        start = 0
        for _ in range(self._layout.skip_lines):
            line = _LINE.match(text, start)
            if line is None:
                if self._ended:
                    raise DataError(
                        f"{self._layout.path} ends above its header; correct `skip_lines`"
                    )
                return text
            start = line.end()
        header = _HEADER.match(text, start)
        if header is None or (header[1] == b"\r" and header.end() == len(text) and not self._ended):
            if len(text) > 16 * BLOCK:
                raise DataError(
                    f"{self._layout.path}: the header has no end; check the quoting of its names"
                )
            if self._ended and text[start:].strip():  # a header alone
                self._ready += text[start:] + b"\n"
            return b"" if self._ended else text
        self._headed = True
        self._end = _CR if header[1] == b"\r" else _LF
        self._ready += header[0]
        return text[header.end() :]

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

    def _mended(self, body: bytes) -> Iterator[bytes]:
        """Yield the same lines, each label one field."""
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
                    raise layout.too_few_fields(text)
            if row is not None:
                label = row[1] if layout.is_one_field(row[1]) else NO_NUMBER
                return last + 1, text[: row.start(1)] + label + text[row.end(1) :] + end
            if len(text) > _LONGEST_ROW:
                break
        if self._ended or len(body) - first > _LONGEST_ROW:
            raise self._unclosed_quote()
        return len(ends), None

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
        counts = _per_line(delimits, starts)
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
        unpaired = _per_line(quoted, starts) % 2 == 1
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

    def _unclosed_quote(self) -> DataError:
        return DataError(
            f"{self._layout.path}: a quote is not closed, or a line has more than "
            f"{_LONGEST_ROW:,} bytes; correct the quoting, or name the `delimiter`"
        )


def _per_line(marks: NDArray[np.bool_], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.add.reduceat(marks, starts, dtype=np.int64)
    return counts


def open_text(path: Path, encoding: str) -> Any:
    """Open a file, unpacked, as UTF-8."""
    file = pa.input_stream(str(path))
    if codecs.lookup(encoding).name == "utf-8":
        return file
    return pa.transcoding_input_stream(file, encoding, "utf-8")


def read_header(path: Path, encoding: str, skip_lines: int) -> bytes:
    """Return the header of a file and nothing of its rows; b"" if there is none."""
    layout = Layout(path, ",", 1, None, skip_lines, 0)
    with open_text(path, encoding) as file:
        stream = LabelSafeCsvStream(file, layout)
        while not (stream._headed or stream._ended):
            stream._fill()
        header = _HEADER.match(stream._ready)
    return stream._ready if header is None else header[0]


_PATIENCE, _GLANCE = 10.0, 1e-3
"""Seconds to wait for Arrow, and between two looks."""


class _Tap(io.RawIOBase):
    """A file for Arrow, which ends as soon as it is shut."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file, self.shut = file, False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        return b"" if self.shut else bytes(self._file.read(size))

    def close(self) -> None:
        self._file.close()
        super().close()


class BatchStream:
    """The batches that Arrow reads ahead, in a thread of its own, from a file that Python reads.

    If the interpreter ends while that thread is inside Python, the process ends by SIGABRT. So
    whoever has done with the batches, by an error or in the middle too, shuts the tap and waits
    until Arrow has let go of it; those that were just left wait when the interpreter ends.
    """

    _open: ClassVar[WeakSet[BatchStream]] = WeakSet()

    def __init__(self, file: Any, parse: Callable[[Any], CSVStreamingReader]) -> None:
        """file: what Python reads;  parse: makes a reader of batches of it."""
        self._tap: _Tap | None = _Tap(file)
        source = pa.PythonFile(self._tap, mode="r")
        self._open.add(self)
        self._reader: CSVStreamingReader | None = None
        try:
            self._reader = parse(source)
        except BaseException as error:
            del source
            clear_frames(error.__traceback__)  # what has failed still holds the file
            self.close()
            raise

    def __enter__(self) -> BatchStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self._reader is not None:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return
            yield batch

    def close(self) -> None:
        """Read no more, and wait for what is being read."""
        self._reader = None
        if self._tap is None:
            return
        self._tap.shut = True
        held, self._tap = ref(self._tap), None
        until = time.monotonic() + _PATIENCE
        while held() is not None and time.monotonic() < until:
            time.sleep(_GLANCE)

    @classmethod
    def close_all(cls) -> None:
        for stream in list(cls._open):
            stream.close()


atexit.register(BatchStream.close_all)
