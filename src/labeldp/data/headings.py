"""Lines of a table that are no rows of it: below the header its units or questions, and itself.

    time;temperature;wind         the header
    ;°C;m/s                       units: words in columns of numbers, and no number
    08:00;11,5;3
    time;temperature;wind         the header again, where files were put together
    09:00;12;4

The label's field has no say: a line is told by the fields of the features alone.
"""

from __future__ import annotations

import io
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from labeldp.data.columns import NULL_WORDS, NUMBER
from labeldp.data.spelling import SOFT_BLANKS

LOOKED_AT = 20
"""Rows that show what a column holds."""
_MOST_BENEATH = 3
_FEWEST = 2
"""Columns of numbers in which a line of units has words: one would be a stray word."""
BLOCK = 1 << 20
"""Bytes that are read at a time."""
_VALUE = re.compile(r"\W*\d")
_LINE = re.compile(rb"[^\r\n]*(\r\n|\n|\r|$)")
_BLANKS = {*NULL_WORDS, *SOFT_BLANKS}


@dataclass(frozen=True)
class Heading:
    """The bytes of a header line in UTF-8, before the label's field and after it."""

    before: bytes
    after: bytes | None = None

    @classmethod
    def of(cls, line: bytes, delimiter: str, private: int | None) -> Heading | None:
        """None if the names are numbers, or of several lines: then it may be a row."""
        line = line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
        sign = delimiter.encode()
        fields = _fields(line, sign)
        names = [field.decode(errors="replace") for k, field in enumerate(fields) if k != private]
        if re.search(rb"[\r\n]", line) or all(re.fullmatch(NUMBER + "|", name) for name in names):
            return None
        if private is None:
            return cls(line)
        before, after = fields[:private], fields[private + 1 :]
        return cls(
            b"".join(field + sign for field in before),
            b"".join(sign + field for field in after),
        )

    def again(self, line: bytes) -> bool:
        """Whether a line is the same in every field but the label's, whatever bytes that has."""
        if self.after is None:
            return line == self.before
        long = len(line) >= len(self.before) + len(self.after)
        return long and line.startswith(self.before) and line.endswith(self.after)

    def places(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Where such lines begin, and where the lines after them do."""
        sought = max(self.before, self.after or b"", key=len)
        place = text.find(sought)
        while place >= 0:
            first = 1 + max(text.rfind(b"\n", 0, place), text.rfind(b"\r", 0, place))
            line = _LINE.match(text, first)
            assert line is not None, "it may be empty"
            if self.again(text[first : line.start(1)]):
                yield first, line.end()
            place = text.find(sought, max(line.end(), place + 1))


def _fields(line: bytes, delimiter: bytes) -> list[bytes]:
    """As they are written, quotes and all."""
    pieces: list[bytes] = []
    for piece in line.split(delimiter):
        if pieces and pieces[-1].count(b'"') % 2:
            pieces[-1] += delimiter + piece
        else:
            pieces.append(piece)
    return pieces


def fields_of(line: bytes, delimiter: str) -> int:
    """How many fields a header has."""
    return len(_fields(line, delimiter.encode()))


class Passed(io.RawIOBase):
    """The text of a file on its way to Arrow; a pass is what `_fill` makes of some more of it."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file, self._ready, self._rest, self._ended = file, b"", b"", False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as there are, up to `size`."""
        while not self._ended and (size < 0 or not self._ready):
            self._fill()
        given = self._ready if size < 0 else self._ready[:size]
        self._ready = self._ready[len(given) :]
        return given

    def close(self) -> None:
        self._file.close()
        super().close()

    def _more(self) -> bytes:
        """What was left over, and the next of the file; at its end nothing follows."""
        fresh = bytes(self._file.read(BLOCK))
        self._ended = not fresh
        return self._rest + fresh

    @abstractmethod
    def _fill(self) -> None:
        """Make more of it ready, or find that it has ended."""


class Rows(Passed):
    """The text of a table without the lines that are no rows: so many below the header, and it."""

    def __init__(self, file: Any, beneath: int, heading: Heading | None) -> None:
        super().__init__(file)
        self._beneath, self._heading, self._headed = beneath, heading, False
        self.again = 0
        """How often the header came again, so far."""

    def _fill(self) -> None:
        text = self._more()
        cut = len(text) if self._ended else max(text.rfind(b"\n"), text[:-1].rfind(b"\r")) + 1
        if not self._headed and not self._ended and len(text) < BLOCK:
            cut = 0
        if not cut and len(text) > 2 * BLOCK:
            cut = len(text)  # no header is so long
        body, self._rest = text[:cut], text[cut:]
        if body and not self._headed:
            self._headed = True
            header = _LINE.match(body)
            assert header is not None, "it may be empty"
            self._ready += header[0]
            body = body[header.end() :]
            body = _LINE.sub(b"", body, count=self._beneath) if self._beneath else body
        self._ready += self._without(body)

    def _without(self, body: bytes) -> bytes:
        if self._heading is None:
            return body
        kept, done = b"", 0
        for first, after in self._heading.places(body):
            kept += body[done:first]
            done, self.again = after, self.again + 1
        return kept + body[done:] if done else body


def lines_beneath(rows: Sequence[Sequence[str]], private: int | None) -> int:
    """How many of the first rows are units, questions or the like."""
    firsts, others = rows[:_MOST_BENEATH], rows[_MOST_BENEATH : _MOST_BENEATH + LOOKED_AT]
    features = [k for k in range(len(rows[0]) if rows else 0) if k != private]
    below = [[row[k] for k in features] for row in others]
    found = takewhile(lambda row: _is_beneath([row[k] for k in features], below), firsts)
    return len(list(found))


def _is_beneath(row: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether it has words where other rows have numbers, and no number."""
    cells = [cell.strip() for cell in row]
    if any(_VALUE.match(cell) for cell in cells):
        return False
    columns = ([other[k].strip() for other in others] for k in range(len(cells)))
    filled = [[cell for cell in column if cell not in _BLANKS] for column in columns]
    words = (
        cell not in _BLANKS and bool(values) and all(map(_VALUE.match, values))
        for cell, values in zip(cells, filled, strict=True)
    )
    return sum(words) >= _FEWEST
