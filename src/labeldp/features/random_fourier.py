"""Random Fourier features (theory §12), the same bytes on every machine.

A feature ("wave") is √2·cos 2π(φ + Σ_j m_j·u_j), the sum over two columns: what two columns do
together is most of what splines lack, and waves through all columns at once take twice as many to
express it. Columns take turns, so that each is paired with every other. u_j is about the share of
rows below a number: its code, mapped piecewise linearly at public quantiles so that no row stands
far out, with a random m_j; a category adds a random number for each of its levels.

C libraries' cosines differ in their last bits, so phases are whole numbers of 2**-64 turns, whose
sums wrap as turns do, and the cosine is looked up at the first 12 bits of a phase, in a table of
whole numbers. Random numbers come from SHAKE-256 of the published seed: a sum of twelve 16-bit
numbers, which is nearly normal, times exact fractions.

Numbers beyond those of fitted rows count as the nearest: waves are flat there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import DataError
from labeldp.features.categories import CategoricalColumn
from labeldp.features.columns import DesignColumn, NumericColumn

Numbers = NDArray[np.float64]
Columns = Mapping[str, NumericColumn | CategoricalColumn]  # by name
ColumnCodes = Mapping[str, NDArray[Any]]  # of a number, or of the levels of a category, by name

SEED = "1"
WIDTH = 2.0  # root mean square of the phases of standardised rows, in radians
SPAN = 2  # columns that a wave goes through
LEVELS = 16  # quantiles between which numbers are taken for evenly spread
_AMPLITUDE = 2**14  # of the table of cosines
_TABLE_BITS = 12
_SUMMED = 12
"""So many 16-bit numbers, less their mean, have a deviation of 2**16, but for a part in 2**33."""

# rint(2**14·cos 2πi/4096). No value is nearer than 2e-4 to the middle of two whole numbers, so
# every C library's cosine rounds to the same one. Adding 0.0 leaves no -0.0.
COSINES = np.rint(_AMPLITUDE * np.cos(2 * np.pi * np.arange(2**_TABLE_BITS) / 2**_TABLE_BITS)) + 0.0
COSINES.flags.writeable = False


@dataclass(frozen=True)
class Input:
    """A column that waves go through: a category, or a number with the quantiles it bends at."""

    column: str
    bends: tuple[int, ...] = ()  # codes, increasing; at least two of a number, none of a category
    levels: tuple[int, ...] = ()  # which of the quantiles 0 to `LEVELS` each of them is

    def shares(self, codes: Numbers) -> NDArray[np.uint64]:
        """Return 2**16 times the quantile, in steps of 1/16: linear between bends, flat beyond."""
        bends, levels = np.array(self.bends), np.array(self.levels)
        whole = np.clip(codes, bends[0], bends[-1]).astype(np.int64)
        at = np.clip(np.searchsorted(bends, whole, side="right") - 1, 0, len(bends) - 2)
        rise, run = np.diff(levels)[at] << 16, np.diff(bends)[at]
        return np.asarray((levels[at] << 16) + (whole - bends[at]) * rise // run).view(np.uint64)


@dataclass(frozen=True)
class RandomFourierFeatures:
    """Cosines of random directions through some columns, a few of them at a time."""

    seed: str
    count: int
    inputs: tuple[Input, ...]
    turns: float  # deviation of what a standardised number, or a level, adds to a phase

    def design_columns(self, columns: Columns) -> list[DesignColumn]:
        self.sizes(columns)  # refuses columns that are not there
        owners = frozenset(each.column for each in self.inputs)
        scale, reach = math.sqrt(2) / _AMPLITUDE, float(_AMPLITUDE)
        return [
            DesignColumn(f"wave {number}", owners, scale, scale, reach=reach, degree=2)
            for number in range(1, self.count + 1)
        ]

    def write(self, columns: Columns, codes: ColumnCodes, out: Numbers) -> None:
        values = []
        for each in self.inputs:
            column = codes[each.column]
            values.append(each.shares(column) if each.bends else column)
        phase = np.empty(len(out), np.uint64)
        for wave, (first, multipliers) in enumerate(self.draws(self.sizes(columns))):
            phase[:] = first
            for each, value, by in zip(self.inputs, values, multipliers, strict=True):
                if by.any():  # a wave goes through two columns
                    phase += value * by[0] if each.bends else by[value]
            out[:, wave] = COSINES[phase >> np.uint64(64 - _TABLE_BITS)]

    @lru_cache(maxsize=8)  # noqa: B019
    def draws(self, sizes: tuple[int, ...]) -> list[tuple[np.uint64, list[NDArray[np.uint64]]]]:
        """Return of every wave its first phase, and for each input what its shares are times.

        A category has one number for each level instead. Inputs that it does not go through have 0.
        `sizes` says how many random numbers each input takes.
        """
        unit = Fraction(self.turns) * 2**48
        # Shares run to 2**16·LEVELS evenly, which has the deviation of that over √12.
        share_unit = unit * Fraction(math.sqrt(12)) / (LEVELS << 16)
        random = normals_and_phases(self.seed, self.count, sum(sizes))
        waves = []
        for pair, (normals, phase) in zip(cycle(column_pairs(len(sizes))), random, strict=False):
            rest, multipliers = iter(normals), []
            for place, (size, each) in enumerate(zip(sizes, self.inputs, strict=True)):
                by = 0 if place not in pair else share_unit if each.bends else unit
                turns = [round(next(rest) * by) % 2**64 for _ in range(size)]
                multipliers.append(np.array(turns, np.uint64))
            waves.append((np.uint64(phase), multipliers))
        return waves

    def sizes(self, columns: Columns) -> tuple[int, ...]:
        """Return how many random numbers each input takes; a KeyError if it is of another type."""
        sizes = []
        for each in self.inputs:
            column = columns[each.column]
            if isinstance(column, NumericColumn) != bool(each.bends):
                raise KeyError(each.column)
            sizes.append(1 if isinstance(column, NumericColumn) else column.size)
        return tuple(sizes)

    def to_json(self) -> dict[str, Any]:
        inputs = []
        for each in self.inputs:
            bends = {"bends": list(each.bends), "levels": list(each.levels)} if each.bends else {}
            inputs.append({"column": each.column, **bends})
        drawn = {"seed": self.seed, "count": self.count, "inputs": inputs}
        return {**drawn, "turns": self.turns, "span": SPAN}

    @classmethod
    def from_json(cls, document: Any) -> RandomFourierFeatures:
        inputs = list[Input]()
        for entry in document["inputs"]:
            bends, levels = (tuple(entry.get(name, ())) for name in ("bends", "levels"))
            increasing = all(each == tuple(sorted(set(each))) for each in (bends, levels))
            if not increasing or len(bends) != len(levels) or len(bends) == 1:
                raise DataError("features: waves bend elsewhere; restore the original file")
            inputs.append(Input(entry["column"], bends, levels))
        return cls(document["seed"], document["count"], tuple(inputs), float(document["turns"]))


def column_pairs(columns: int) -> Iterator[tuple[int, ...]]:
    """Yield all pairs of columns, round by round: in a round each is in one pair, or rests.

    It is the round-robin schedule of a tournament: one stays in its place, the others move on by
    one. A single column is alone.
    """
    if columns == 1:
        yield (0,)
    places = columns + columns % 2
    for turn in range(places - 1):
        ring = [0, *((place + turn) % (places - 1) + 1 for place in range(places - 1))]
        for one, other in zip(ring[: places // 2], reversed(ring), strict=False):
            if max(one, other) < columns:
                yield min(one, other), max(one, other)


def normals_and_phases(seed: str, count: int, each: int) -> Iterator[tuple[list[int], int]]:
    """Yield `count` times `each` normals of deviation 2**16, as integers, and a 64-bit word."""
    length = 2 * _SUMMED * each + 8
    data = hashlib.shake_256(f"labeldp waves {seed}".encode()).digest(count * length)
    for start in range(0, len(data), length):
        part = data[start : start + length]
        summed = np.frombuffer(part[:-8], "<u2").reshape(each, _SUMMED).sum(axis=1, dtype=np.int64)
        yield (summed - _SUMMED * (2**16 - 1) // 2).tolist(), int.from_bytes(part[-8:], "little")
