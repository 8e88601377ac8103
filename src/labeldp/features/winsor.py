"""Which public quantiles numeric columns are clipped to (theory §9, "Winsorise first").

Clipping features at public quantiles costs no privacy and tames leverage. The lower end of a column
of n numbers is the one that ⌊share·n⌋ others do not exceed, the upper end its mirror image: both
occur in the table, whatever the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from labeldp.errors import end_share
from labeldp.features.column_stats import Extremes, Tails
from labeldp.features.columns import entering
from labeldp.features.notes import winsor_note

DEFAULT = 0.001
"""The share that is taken where none is asked for, at ends that reach far beyond it."""
OTHERS = "*"
"""In place of a column: all that are not named."""
_FAR = 3
"""So many times the width between the quantiles. Where a label follows a tail in a line, as
arrival follows departure delays, to clip it costs more than its leverage does; measured on real
tables, this spares such tails and keeps nearly all of what clipping gains where it gains much."""
_SHOWN = 3
_DEEPEST = 1 << 14
"""So many numbers beyond an end are looked for at most where no share is asked for: of more than
16 million rows it is less than DEFAULT of them, and tails take bounded memory however many rows
there are (on a cluster each of 512 tasks sends them)."""


@dataclass(frozen=True)
class Range:
    """From where to where the numbers of a column go, and how many were moved there."""

    low: float
    high: float
    winsorised: bool = False
    moved: int = 0


@dataclass(frozen=True)
class Winsor:
    """The shares of columns' numbers that may lie beyond either end of their range.

    Shares that are asked for hold as they are. Where none is, it is DEFAULT, and only ends that
    reach far beyond their quantile are moved: a column without outliers stays as it is.
    """

    shares: Mapping[str, float]

    @classmethod
    def of(cls, winsor: float | Mapping[str, float] | None) -> Winsor:
        """As `fit_features` takes it: one share, or those of columns."""
        if winsor is None:
            return cls({})
        shares = dict(winsor) if isinstance(winsor, Mapping) else {OTHERS: winsor}
        for share in shares.values():
            end_share(winsor=share)
        return cls(shares)

    def depths(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Return how deep the tails of columns with so many numbers must be known, if at all."""
        beyond = {name: self._beyond(name, count) for name, count in numbers.items()}
        return {name: count + 1 for name, count in beyond.items() if count}

    def range(self, extremes: Extremes, tails: Mapping[str, Tails], log: bool) -> Range:
        """Return the range of a column, whose logarithm may enter the design.

        Where both quantiles are one number, nearly all rows have it and the others are what the
        column tells: it stays as it is.
        """
        name, whole = extremes.name, Range(extremes.low, extremes.high)
        beyond = self._beyond(name, extremes.numbers)
        if beyond == 0:
            return whole
        least, most = tails[name].sorted()
        low, high = float(least[beyond]), float(most[beyond])
        if low == high:
            return whole
        if self._share(name) is None:
            far = _FAR * (entering(high, log) - entering(low, log))
            if entering(low, log) - entering(extremes.low, log) <= far:
                low = extremes.low
            if entering(extremes.high, log) - entering(high, log) <= far:
                high = extremes.high
            if (low, high) == (extremes.low, extremes.high):
                return whole
        return Range(low, high, True, int((least < low).sum() + (most > high).sum()))

    def _share(self, name: str) -> float | None:
        return self.shares.get(name, self.shares.get(OTHERS))

    def _beyond(self, name: str, numbers: int) -> int:
        """Return how many of a column's numbers may lie beyond either end."""
        share = self._share(name)
        if share is None:
            return min(count_of(DEFAULT, numbers), _DEEPEST)
        return count_of(share, numbers)


def count_of(share: float, numbers: int) -> int:
    """Return ⌊share·numbers⌋, the share taken as it is written: 0.3 of ten are three."""
    return math.floor(Fraction(repr(float(share))) * numbers)


def winsor_notes(ranges: Mapping[str, Range], extremes: Mapping[str, Extremes]) -> list[str]:
    """Return one line for all columns; those whose range shrank most are named."""

    def shrunk(name: str) -> tuple[float, str]:
        clipped, whole = ranges[name], extremes[name]
        return (clipped.high - clipped.low) / (whole.high - whole.low), name

    moved = sorted((name for name in ranges if ranges[name].moved), key=shrunk)
    if not moved:
        return []
    shown = [(n, ranges[n].low, ranges[n].high, ranges[n].moved) for n in moved[:_SHOWN]]
    return [winsor_note(shown, max(0, len(moved) - _SHOWN))]
