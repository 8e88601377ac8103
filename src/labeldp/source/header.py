"""The first line of a delimited file: its encoding and delimiter, which no label can sway."""

from __future__ import annotations

import codecs
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from labeldp.errors import DataError, InputError
from labeldp.source.values import NUMBER

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


def first_line(path: Path, encoding: str | None) -> tuple[str, str]:
    """The header line as text, and the encoding that it shows."""
    start = _start(path)
    known = encoding or _encoding(start)
    try:
        text = start.decode(known, errors="ignore" if encoding is None else "strict")
    except LookupError:
        raise InputError(
            f"`encoding` {encoding!r} is unknown; try utf-8, cp1252 or utf-16"
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not {encoding} text; name another `encoding`") from None
    return text.lstrip("\ufeff").splitlines()[0] if text.strip() else "", known


def delimiter_of(line: str, usual: str) -> str:
    """The sign that divides the header most often; in doubt the one usual for the format."""
    bare = _QUOTED.sub("", line)
    counts = {sign: bare.count(sign) for sign in _CANDIDATES}
    best = max(counts, key=counts.__getitem__)
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


def _start(path: Path) -> bytes:
    """The header line, whatever ends it: what follows holds labels. Of UTF-16 some more."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as file:
        line = re.split(rb"[\r\n]", bytes(file.readline(_MOST)), maxsplit=1)[0]
    if line[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or b"\0" in line[:64]:
        with opened(path, "rb") as file:
            start = bytes(file.read(1 << 16))
        return start[: len(start) & ~1]
    return line


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
