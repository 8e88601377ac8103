"""Records of fixed columns, read by numpy: one gather per character, no loop over rows.

A file may mix record types of different lengths (households and persons); the fields of one
type are read, and the length of every line is checked, because a shifted record would
otherwise be read as wrong numbers without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp_paper.datasets.reading import Watch, line_blocks, refuse

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

_NEWLINE, _RETURN, _ZERO = 10, 13, 48
_DENSE = 100_000
_SMALL = 4  # digits that fit 16 bits
MOST_DIGITS = 18


@dataclass(frozen=True)
class Field:
    """A variable in columns start…end, counted from 1 as codebooks do."""

    name: str
    start: int
    end: int
    category: bool = True
    decimals: int = 0
    text: bool = False
    codes: frozenset[int] | range | None = None
    """The values that occur; None: any digits."""
    missing: frozenset[int] = frozenset()
    signed: bool = False
    """Numbers may be blank (missing) or have a sign, as amounts of IPUMS do."""

    @property
    def where(self) -> str:
        """The columns and the name, for people."""
        return f"columns {self.start}-{self.end} ({self.name})"


@dataclass(frozen=True)
class Layout:
    """What the lines of a file look like."""

    title: str
    lengths: dict[str, tuple[int, ...]]
    """Record type (column 1) → lengths it may have; the one type "" where lines have no type."""
    record: str
    fields: tuple[Field, ...]
    """Fields of the records that are wanted, those of type `record`."""
    constants: tuple[tuple[int, str], ...] = ()
    """(start, text) that every wanted record has: a cheap test for shifted columns."""
    twins: tuple[tuple[int, int], ...] = ()
    """Pairs of columns with the same character, as in a code and its detailed version."""


def read_records(path: Path, layout: Layout, watch: Watch) -> Iterator[pa.RecordBatch]:
    """Yield the wanted records as columns."""
    found, first = False, 1
    for block in line_blocks(path, watch):
        lines, count = _Lines.of(path, layout, first, np.frombuffer(block, dtype=np.uint8))
        found |= len(lines.starts) > 0
        first += count
        if len(lines.starts):
            lines.check(layout)
            yield pa.RecordBatch.from_arrays(
                [lines.column(field) for field in layout.fields],
                names=[field.name for field in layout.fields],
            )
    if not found:
        refuse(path, 1, f"the file has no {layout.record} record; this is not {layout.title}")


def categories(codes: pa.Array) -> pa.DictionaryArray:
    """Codes as text: they are names, and other commands must not take them for quantities."""
    if codes.null_count or not len(codes):
        return codes.cast(pa.string()).dictionary_encode()
    values = codes.to_numpy()
    if values.min() < 0 or values.max() >= _DENSE:
        return codes.cast(pa.string()).dictionary_encode()
    seen = np.zeros(int(values.max()) + 1, dtype=bool)
    seen[values] = True
    names = pa.array([str(level) for level in np.flatnonzero(seen).tolist()], pa.string())
    places = (np.cumsum(seen) - 1)[values]
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), names)


@dataclass(frozen=True)
class _Lines:
    """The wanted records of a block."""

    path: Path
    bytes: Bytes
    starts: Integers
    numbers: Integers
    """Line numbers in the file."""

    @classmethod
    def of(cls, path: Path, layout: Layout, first: int, block: Bytes) -> tuple[_Lines, int]:
        ends = np.flatnonzero(block == _NEWLINE)
        if not len(ends) or ends[-1] != len(block) - 1:
            ends = np.append(ends, len(block))
        starts = np.concatenate([[0], ends[:-1] + 1])
        lengths = ends - starts
        lengths -= (lengths > 0) & (block[ends - 1] == _RETURN)
        typed = "" not in layout.lengths
        types = block[starts] if typed else np.zeros(len(starts), dtype=np.uint8)
        fits = np.zeros(len(starts), dtype=bool)
        for kind, allowed in layout.lengths.items():
            of_kind = types == (ord(kind) if kind else 0)
            for length in allowed:
                fits |= of_kind & (lengths == length)
        if not fits.all():
            bad = int(np.argmin(fits))
            _refuse_line(path, layout, first + bad, chr(types[bad]), int(lengths[bad]))
        wanted = np.flatnonzero(types == (ord(layout.record) if typed else 0))
        return cls(path, block, starts[wanted], wanted + first), len(starts)

    def check(self, layout: Layout) -> None:
        for start, text in layout.constants:
            for offset, letter in enumerate(text.encode()):
                self._require(
                    self.bytes[self.starts + (start - 1 + offset)] == letter,
                    f"columns {start}-{start + len(text) - 1}",
                    f"{text} must stand here in {layout.title}; {_SHIFTED}",
                )
        for one, other in layout.twins:
            same = self.bytes[self.starts + (one - 1)] == self.bytes[self.starts + (other - 1)]
            self._require(same, f"columns {one} and {other}", f"must be equal; {_SHIFTED}")

    def column(self, field: Field) -> pa.Array:
        if field.text:
            return self._texts(field).dictionary_encode()
        values, known = self._integers(field)
        if field.missing:
            known &= ~np.isin(values, list(field.missing))
        if field.codes is not None:
            self._require(~known | _among(values, field.codes), field.where, _NO_CODE)
        mask = None if known.all() else ~known
        if field.category:
            return categories(pa.array(values, mask=mask))
        if field.decimals:
            return pa.array(values / 10.0**field.decimals, mask=mask)
        small = field.end - field.start < _SMALL and not field.signed
        return pa.array(values.astype(np.int16) if small else values, mask=mask)

    def _integers(self, field: Field) -> tuple[Integers, NDArray[np.bool_]]:
        """Values, and where there is one."""
        wide = field.end - field.start + 1 > 9
        total: NDArray[Any] = np.zeros(len(self.starts), dtype=np.int64 if wide else np.int32)
        good = np.ones(len(self.starts), dtype=bool)
        for place in range(field.start - 1, field.end):
            digit = self.bytes[self.starts + place] - np.uint8(_ZERO)
            good &= digit < 10
            total *= 10
            total += digit
        values = total.astype(np.int64, copy=False)
        if not good.all():
            self._repair(field, values, good)
        return values, good

    def _repair(self, field: Field, values: Integers, good: NDArray[np.bool_]) -> None:
        """Read signs and blanks one by one where they may stand; refuse anything else."""
        for row in np.flatnonzero(~good).tolist():
            start = int(self.starts[row])
            text = self.bytes[start + field.start - 1 : start + field.end].tobytes()
            bare = text.strip()
            if field.signed and not bare:
                continue
            if field.signed and bare.lstrip(b"-").isdigit() and bare.count(b"-") <= 1:
                values[row], good[row] = int(bare), True
                continue
            offset = next(i for i, letter in enumerate(text) if not chr(letter).isdigit())
            refuse(
                self.path,
                int(self.numbers[row]),
                "a digit must stand here; the columns are shifted or the record is damaged",
                f"column {field.start + offset} ({field.name})",
            )

    def _texts(self, field: Field) -> pa.Array:
        width = field.end - field.start + 1
        places = self.starts[:, None] + np.arange(field.start - 1, field.end)
        raw = self.bytes[places].reshape(-1).view(f"S{width}")
        return pa.array([text.decode("latin-1").strip() for text in raw.tolist()])

    def _require(self, good: NDArray[np.bool_], where: str, cause: str) -> None:
        if not good.all():
            refuse(self.path, int(self.numbers[np.argmin(good)]), cause, where)


_SHIFTED = "the columns are shifted or the file is another one"
_NO_CODE = f"not a code of this variable; {_SHIFTED}"


def _among(values: Integers, codes: frozenset[int] | range) -> NDArray[np.bool_]:
    if isinstance(codes, range):
        return (values >= codes.start) & (values < codes.stop)
    return np.isin(values, sorted(codes))


def _refuse_line(path: Path, layout: Layout, line: int, kind: str, length: int) -> NoReturn:
    if "" in layout.lengths:
        allowed: Sequence[int] = layout.lengths[""]
        named = "record"
    elif kind in layout.lengths:
        allowed, named = layout.lengths[kind], f"{kind} record"
    else:
        kinds = " or ".join(layout.lengths)
        refuse(path, line, f"{kinds} must stand here in {layout.title}", "column 1 (record type)")
    right = " or ".join(map(str, allowed))
    refuse(
        path,
        line,
        f"{length} characters where {layout.title} has {right} in {named}s; the record is cut "
        f"short, or the file is another one",
        f"column {min(length, allowed[0]) + 1}",
    )
