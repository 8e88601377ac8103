"""Which public quantiles numeric columns are confined to (theory §9, "Winsorise first")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from labeldp.data.columns import Column
from labeldp.errors import DataError, end_share
from labeldp.features.column_stats import Extremes, TailValues, depth_of
from labeldp.features.notes import FeatureNote, winsorised

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
    """The share of a column's numbers that may lie beyond either end of its range.

    Shares that are asked for hold as they are. Where none is, it is DEFAULT, and only ends that
    reach far beyond their quantile are moved: a column without outliers stays as it is.
    """

    others: float | None
    named: Mapping[str, float]

    @classmethod
    def of(cls, winsor: float | Mapping[str, float] | None) -> Winsor:
        """As `fit_features` takes it: one share, or those of columns."""
        if winsor is None:
            return cls(None, {})
        named = dict(winsor) if isinstance(winsor, Mapping) else {OTHERS: winsor}
        for share in named.values():
            end_share(winsor=share)
        return cls(named.pop(OTHERS, None), named)

    def depths(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """How deep the tails of columns with so many numbers must be known; none where none is."""
        beyond = {name: self._depth(name, count) for name, count in numbers.items()}
        return {name: depth + 1 for name, depth in beyond.items() if depth}

    def range(
        self, extremes: Extremes, tails: TailValues, enter: Callable[[float], float]
    ) -> Range:
        """The range of a column; `enter` says how its numbers enter the design.

        Where both quantiles are one number, nearly all rows have it and the others are what the
        column tells: it stays as it is.
        """
        whole = Range(extremes.low, extremes.high)
        depth = self._depth(extremes.name, extremes.numbers)
        if depth == 0:
            return whole
        least, most = tails[extremes.name]
        low, high = float(least[depth]), float(most[depth])
        if low == high:
            return whole
        if self._requested(extremes.name) is None:
            room = _FAR * (enter(high) - enter(low))
            low = low if enter(low) - enter(extremes.low) > room else extremes.low
            high = high if enter(extremes.high) - enter(high) > room else extremes.high
            if (low, high) == (extremes.low, extremes.high):
                return whole
        return Range(low, high, True, int((least < low).sum() + (most > high).sum()))

    def _requested(self, name: str) -> float | None:
        return self.named.get(name, self.others)

    def _depth(self, name: str, numbers: int) -> int:
        """How many of a column's numbers may lie beyond either end."""
        share = self._requested(name)
        if share is None:
            return min(depth_of(DEFAULT, numbers), _DEEPEST)
        return depth_of(share, numbers)


def check_names(option: str, names: Iterable[str], columns: Iterable[Column]) -> None:
    """Refuse names that are of no feature, or of a category."""
    kinds = {column.name: column.kind for column in columns}
    for name in names:
        if name not in kinds:
            raise DataError(f"`{option}` names {name!r}, which is no feature column; correct it")
        if kinds[name] == "categorical":
            raise DataError(
                f"`{option}` names {name!r}, which is a category; declare it `numeric` or leave "
                f"it out"
            )


def winsor_notes(
    ranges: Mapping[str, Range], extremes: Mapping[str, Extremes]
) -> list[FeatureNote]:
    """One line for all columns; those whose range shrank most are named."""

    def shrunk(name: str) -> float:
        clipped, whole = ranges[name], extremes[name]
        return (clipped.high - clipped.low) / (whole.high - whole.low)

    moved = sorted((name for name in ranges if ranges[name].moved), key=lambda n: (shrunk(n), n))
    if not moved:
        return []
    shown = [(n, ranges[n].low, ranges[n].high, ranges[n].moved) for n in moved[:_SHOWN]]
    return [winsorised(shown, max(0, len(moved) - _SHOWN))]
