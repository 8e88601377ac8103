"""The header of a delimited file: its encoding and delimiter, which no label can sway."""

from __future__ import annotations

import codecs
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labeldp.data.columns import NUMBER
from labeldp.data.margins import MOST, lines_above, lines_of
from labeldp.data.reading import Reading
from labeldp.errors import DataError, InputError

_MOST = 1 << 20
"""A header line is shorter than this."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
FALLBACK = "cp1252"
"""What a file is read as whose text is not UTF-8: Latin-1 as Windows writes it."""
_CANDIDATES = ",;\t|"
_QUOTED = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class Start:
    """The header line of a file as text, the encoding that it shows, and the lines above it."""

    line: str
    encoding: str
    above: int


def start_of(path: Path, said: Reading, delimiter: str | None) -> Start:
    """How a file begins; by what is said of it, else by its first lines."""
    encoding, above = said.encoding, said.skip_lines
    lines = _first_lines(path, (above or 0) + MOST)
    known = encoding or _encoding(lines[0])
    if above is None:
        texts = [_text(line, known, path, strict=False) for line in lines]
        above = lines_above([text.lstrip("\ufeff") for text in texts], delimiter, said.named)
    before = b"".join(lines[: above + 1])
    known = encoding or _encoding(before)
    line = _text(lines[above] if above < len(lines) else b"", known, path, encoding is not None)
    return Start(line.lstrip("\ufeff"), known, above)


def _text(line: bytes, encoding: str, path: Path, strict: bool) -> str:
    try:
        text = line.decode(encoding, errors="strict" if strict else "ignore")
    except UnicodeError:
        raise DataError(f"{path} is not {encoding} text; name another `encoding`") from None
    except (LookupError, ValueError):  # ValueError: a zero byte in the name
        raise InputError(
            f"`encoding` {encoding!r} is unknown; try utf-8, cp1252 or utf-16"
        ) from None
    return text.rstrip("\r\n")


def delimiter_of(line: str, usual: str) -> str:
    """The sign that divides the header most often; in doubt the one usual for the format."""
    bare = _QUOTED.sub("", line)
    counts = {sign: bare.count(sign) for sign in _CANDIDATES}
    best = max(counts, key=counts.__getitem__)
    if not counts[best] and re.search(r"\S \S", line.strip()):
        return " "  # as R has it, and nothing else divides the names
    return best if counts[best] > counts[usual] else usual


def told_apart(names: Sequence[str]) -> list[str]:
    """The names of a text file's header, the later ones of several that are the same numbered.

    Numbers are no names: where those repeat, the first row was taken for a header, and stays.
    """
    seen: Counter[str] = Counter()
    apart = []
    for name in names:
        seen[name] += 1
        again = seen[name] > 1 and not re.fullmatch(NUMBER, name)
        apart.append(f"{name} ({seen[name]})" if again else name)
    return apart


def _first_lines(path: Path, most: int) -> list[bytes]:
    """At least one; those of a file in UTF-16 keep that, each with the mark of its first."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as file:
        first = bytes(file.readline(_MOST))
        line = re.split(rb"[\r\n]", first, maxsplit=1)[0]  # what follows it holds labels
        if b"\0" in line[:64] or line[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return _wide_lines(first + bytes(file.read(_MOST)), most)
        lines = [first, *(bytes(file.readline(_MOST)) for _ in range(most))]
    return [piece for line in lines for piece in line.splitlines(keepends=True)][:most] or [b""]


def _wide_lines(start: bytes, most: int) -> list[bytes]:
    known = _encoding(start)
    mark = start[:2] if known == "utf-16" else b""
    plain = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(mark, known)
    text = start[len(mark) : len(start) & ~1].decode(plain, errors="ignore")
    return [mark + line.encode(plain) for line in lines_of(text)[:most]]


def _encoding(start: bytes) -> str:
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    if b"\0" in start[:64]:
        return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
    try:
        start.decode()
    except UnicodeDecodeError:
        return FALLBACK
    return "utf-8"
