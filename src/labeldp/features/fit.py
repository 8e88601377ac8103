"""`fit_features`: choose grids, levels and names from the features alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from labeldp.errors import DataError, at_least
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fold import Fold, fold_in_order
from labeldp.features.tally import FEW, Extremes, GridSums, Levels, LevelsAndRanges, Sums
from labeldp.source import Source

_CODES = 2**19


def fit_features(
    source: Source,
    *,
    min_count: int | None = None,
    intercept: bool = True,
    indicators: bool = True,
    standardise: bool = True,
    max_columns: int = 4096,
    progress: Callable[[int], None] | None = None,
    fold: Fold | None = None,
) -> FeatureMap:
    """Fit the encoding of a source's features; labels are not read.

    Two passes: extremes and level counts, then exact integer sums of the numeric codes. The
    result is the same for any batch size, file layout or thread count.

    Args:
      source: the table.
      min_count: levels with fewer rows are merged into "(other)"; by default the
        root of the number of rows: rare levels have high leverage, which costs privacy.
      intercept: add a constant column; numeric codes are then centred at the mean.
      indicators: add a column "x is missing" for every numeric x with missing values.
      standardise: scale numeric design columns to unit spread.
      max_columns: refuse to make more design columns than this.
      progress: called with the number of rows of every batch read.
      fold: how to run over the rows, an engine's `fold`; by default one batch after another.
    """
    if min_count is not None:
        at_least(1, min_count=min_count)
    at_least(1, max_columns=max_columns)
    fold = fold or partial(fold_in_order, progress=progress or (lambda _rows: None))
    tally = LevelsAndRanges(source.columns, source.total_rows, source.reader.format)
    found = fold("levels and ranges", source, tally)
    rows, extremes, levels = found.rows, found.extremes, found.levels
    if min_count is None:
        min_count = math.isqrt(rows)
    notes: list[str] = []
    _decide_integers(source, extremes, levels, notes)
    numeric = _numeric(source, extremes, intercept, indicators, standardise, notes, fold)
    categorical = _categorical(source, levels, min_count, notes)
    if not numeric and not categorical:
        raise DataError("every feature column is constant; name columns that vary")
    result = FeatureMap(rows, intercept, tuple(numeric), tuple(categorical), tuple(notes))
    _check_width(result, max_columns)
    return result


def _decide_integers(
    source: Source, extremes: dict[str, Extremes], levels: dict[str, Levels], notes: list[str]
) -> None:
    """Leave every undecided column in one of the two dictionaries."""
    for column in source.columns:
        if column.kind != "integer":
            continue
        tally = levels[column.name]
        distinct = len(tally.counts) - (None in tally.counts)
        if tally.too_many or distinct not in FEW:
            del levels[column.name]
            continue
        del extremes[column.name]
        notes.append(
            f"{column.name}: {distinct} integer values, treated as categorical; "
            f"--numeric {column.name} to change"
        )


def _numeric(
    source: Source,
    extremes: dict[str, Extremes],
    intercept: bool,
    indicators: bool,
    standardise: bool,
    notes: list[str],
    fold: Fold,
) -> list[NumericColumn]:
    varying = {
        name: found
        for name, found in extremes.items()
        if not _is_constant(found, intercept, indicators, notes)
    }
    if not varying:
        return []
    grids = [_grid(found, intercept) for found in varying.values()]
    found = fold("numeric grids", source, GridSums(grids, source.reader.format))
    return [
        _column(varying[name], sums, intercept, indicators, standardise, notes)
        for name, sums in found.items()
    ]


def _is_constant(found: Extremes, intercept: bool, indicators: bool, notes: list[str]) -> bool:
    """Whether a column says nothing; without an intercept a constant other than 0 does."""
    if found.empty:
        notes.append(f"{found.name}: every value is missing, dropped")
        return True
    says_missing = indicators and found.missing > 0
    if found.low < found.high or says_missing or (not intercept and found.low != 0):
        return False
    notes.append(f"{found.name}: constant, dropped")
    return True


def _grid(found: Extremes, intercept: bool) -> Sums:
    """Choose the finest power-of-two grid on which the column takes 20 bits.

    With an intercept the width of the range counts, without one the largest size. Codes
    before centring stay below 2**52, so that float64 holds every one of them.
    """
    size = max(-found.low, found.high)
    if size > 1e290:
        raise DataError(f"column {found.name!r} holds numbers beyond 1e290; rescale it")
    width = found.high - found.low if intercept else size
    exponent = max(_exponent(width, _CODES), _exponent(size, 2**52), -1000)
    while _span(found, exponent, intercept) > _CODES:
        exponent += 1  # rounding both ends outwards can cost one code too many
    return Sums(found.name, exponent, _code(found.low, exponent) if intercept else 0)


def _exponent(width: float, codes: int) -> int:
    """Return the smallest k with width / 2**k at most `codes`, a power of two."""
    if width == 0:
        return -1000
    fraction, power = math.frexp(width)
    return power - (fraction == 0.5) - (codes.bit_length() - 1)


def _span(found: Extremes, exponent: int, intercept: bool) -> int:
    low, high = _code(found.low, exponent), _code(found.high, exponent)
    return high - low if intercept else max(-low, high)


def _code(value: float, exponent: int) -> int:
    return round(math.ldexp(value, -exponent))


def _column(
    found: Extremes,
    sums: Sums,
    intercept: bool,
    indicators: bool,
    standardise: bool,
    notes: list[str],
) -> NumericColumn:
    mean = sums.mean_code
    centre = mean if intercept else 0
    spread = sums.spread(centre)
    step = math.ldexp(1.0, sums.exponent)
    if 0 < spread < 16:
        notes.append(
            f"{found.name}: the range is {found.high - found.low:.3g} but the spread only "
            f"{spread * step:.3g}, so outliers take the resolution; clip the column or use its log"
        )
    return NumericColumn(
        name=found.name,
        exponent=sums.exponent,
        centre=centre,
        fill=mean - centre,
        scale=1.0 / spread if standardise and spread > 0 else step,
        low=found.low,
        high=found.high,
        missing=found.missing,
        indicator=indicators and found.missing > 0,
    )


def _categorical(
    source: Source, levels: dict[str, Levels], min_count: int, notes: list[str]
) -> list[CategoricalColumn]:
    columns = []
    for name in source.names:
        if name not in levels:
            continue
        column = merge_levels(name, levels[name].checked(), min_count, notes)
        if column.size > 1:
            columns.append(column)
        else:
            notes.append(f"{name}: one level, dropped")
    return columns


def merge_levels(
    name: str, counts: Counter[str | None], min_count: int, notes: list[str]
) -> CategoricalColumn:
    """Merge levels with fewer than `min_count` rows, until what is merged has as many.

    Missing counts as a level. Ties go by name, missing last.
    """
    rarest_first = sorted(counts, key=lambda level: (counts[level], level is None, level or ""))
    merged = 0
    rows = 0
    while merged < len(rarest_first):
        level = rarest_first[merged]
        if counts[level] >= min_count and (merged == 0 or rows >= min_count):
            break
        rows += counts[level]
        merged += 1
    kept = rarest_first[merged:]
    if merged:
        notes.append(
            f"{name}: {merged} of {len(counts)} levels merged into (other), {rows} rows; a level "
            f"needs {min_count} rows"
        )
    return CategoricalColumn(
        name=name,
        levels=tuple(sorted(level for level in kept if level is not None)),
        missing="none" if None not in counts else "own" if None in kept else "other",
        other=merged > 0,
    )


def _check_width(result: FeatureMap, most: int) -> None:
    if result.width <= most:
        return
    sizes: Iterable[tuple[int, str]] = ((c.size, c.name) for c in result.categorical)
    biggest = sorted(sizes, reverse=True)[:3]
    shown = ", ".join(f"{name!r} ({size})" for size, name in biggest) or "the numeric columns"
    raise DataError(
        f"the features make {result.width} design columns, more than {most}; most come from "
        f"{shown}: raise `min_count` or drop columns"
    )
