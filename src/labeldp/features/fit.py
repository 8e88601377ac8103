"""`fit_features`: choose grids, levels and names from the features alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from labeldp.errors import DataError, at_least
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fold import Fold, fold_in_order
from labeldp.features.grid import Grid
from labeldp.features.tails import Shares, Tails
from labeldp.features.tally import FEW, Extremes, GridSums, Levels, LevelsAndRanges, Sums
from labeldp.features.winsor import Range, Winsor, check_names, winsor_notes
from labeldp.source import Column, Source

_ENOUGH = 50


@dataclass(frozen=True)
class _Ways:
    """How numbers are encoded."""

    intercept: bool
    indicators: bool
    standardise: bool
    winsor: Winsor
    log: frozenset[str]


def fit_features(
    source: Source,
    *,
    min_count: int | None = None,
    intercept: bool = True,
    indicators: bool = True,
    standardise: bool = True,
    winsor: float | Mapping[str, float] | None = None,
    log: Sequence[str] = (),
    max_columns: int = 4096,
    progress: Callable[[int], None] | None = None,
    fold: Fold | None = None,
) -> FeatureMap:
    """Fit the encoding of a source's features; labels are not read.

    Two passes: extremes, tails and level counts, then exact integer sums of the numeric codes;
    three where the number of rows is not known before. The result is the same for any batch
    size, file layout or thread count.

    Args:
      source: the table.
      min_count: levels with fewer rows are merged into "(other)"; by default the
        root of the number of rows: rare levels have high leverage, which costs privacy.
      intercept: add a constant column; numeric codes are then centred at the mean.
      indicators: add a column "x is missing" for every numeric x with missing values.
      standardise: scale numeric design columns to unit spread.
      winsor: numbers beyond the quantiles of this share and of one minus it count as those; a
        dictionary has a share for every column it names, and for all others under "*". By
        default 0.001, and only ends that reach far beyond: three times the quantiles' distance.
      log: columns that enter as sign(x)·log(1 + |x|).
      max_columns: refuse to make more design columns than this.
      progress: called with the number of rows of every batch read.
      fold: how to run over the rows, an engine's `fold`; by default one batch after another.
    """
    if min_count is not None:
        at_least(1, min_count=min_count)
    at_least(1, max_columns=max_columns)
    fold = fold or partial(fold_in_order, progress=progress or (lambda _rows: None))
    ways = _Ways(intercept, indicators, standardise, Winsor.of(winsor), frozenset(log))
    check_names("winsor", ways.winsor.named, source.columns)
    check_names("log", log, source.columns)
    columns = [replace(c, kind="numeric") if c.name in log else c for c in source.columns]
    found, tails = _look(source, columns, ways.winsor, fold)
    rows, extremes, levels = found.rows, found.extremes, found.levels
    if min_count is None:
        min_count = math.isqrt(rows)
    notes: list[str] = []
    _decide_integers(columns, extremes, levels, notes)
    numeric = _numeric(source, extremes, tails, ways, notes, fold)
    categorical = _categorical(source, levels, min_count, notes)
    if not numeric and not categorical:
        raise DataError("every feature column is constant; name columns that vary")
    result = FeatureMap(rows, intercept, tuple(numeric), tuple(categorical), tuple(notes))
    told = {name: told for name, told in source.wording.told.items() if name in result.columns}
    result = replace(result, spelt=told)
    _check_width(result, max_columns)
    return result


def _look(
    source: Source, columns: Sequence[Column], winsor: Winsor, fold: Fold
) -> tuple[LevelsAndRanges, Shares | None]:
    """The first pass; the tails come along if it is known how deep they are to be, else None."""
    rows = source.total_rows
    tally = LevelsAndRanges(columns, rows, source.reader.format)
    if rows is None:
        return fold("levels and ranges", source, tally), None
    numbers = {column.name: rows for column in columns if column.kind != "categorical"}
    depths = winsor.depths(numbers)
    if not depths:
        return fold("levels and ranges", source, tally), {}
    return fold("levels and ranges", source, tally, Tails(source.names, depths, keep=True))


def _decide_integers(
    columns: Iterable[Column],
    extremes: dict[str, Extremes],
    levels: dict[str, Levels],
    notes: list[str],
) -> None:
    """Leave every undecided column in one of the two dictionaries."""
    for column in columns:
        if not column.undecided:
            continue
        tally = levels[column.name]
        distinct = len(tally.counts) - (None in tally.counts)
        few = distinct in FEW and not tally.too_many
        if not few or (column.kind == "numeric" and not _are_codes(tally)):
            del levels[column.name]
            continue
        del extremes[column.name]
        notes.append(
            f"{column.name}: {distinct} integer values, treated as categorical; "
            f"--numeric {column.name} to change"
        )


def _are_codes(tally: Levels) -> bool:
    """Whether floats are whole numbers on rows enough to tell: integers with gaps, in pandas."""
    whole = all(name is None or name.lstrip("-").isdigit() for name in tally.counts)
    return whole and tally.counts.total() >= _ENOUGH


def _numeric(
    source: Source,
    extremes: dict[str, Extremes],
    tails: Shares | None,
    ways: _Ways,
    notes: list[str],
    fold: Fold,
) -> list[NumericColumn]:
    varying = {
        name: found for name, found in extremes.items() if not _is_constant(found, ways, notes)
    }
    if not varying:
        return []
    if tails is None:
        depths = ways.winsor.depths({name: found.numbers for name, found in varying.items()})
        tails = fold("tails", source, Tails(tuple(depths), depths)) if depths else {}
    ranges = {
        name: ways.winsor.range(found, tails, Grid(0, name in ways.log).entering)
        for name, found in varying.items()
    }
    notes.extend(winsor_notes(ranges, varying))
    grids = [_grid(name, found, ways) for name, found in ranges.items()]
    sums = fold("numeric grids", source, GridSums(grids, source.reader.format))
    return [_column(varying[name], ranges[name], sums[name], ways, notes) for name in varying]


def _is_constant(found: Extremes, ways: _Ways, notes: list[str]) -> bool:
    """Whether a column says nothing; without an intercept a constant other than 0 does."""
    if found.empty:
        notes.append(f"{found.name}: every value is missing, dropped")
        return True
    says_missing = ways.indicators and found.missing > 0
    if found.low < found.high or says_missing or (not ways.intercept and found.low != 0):
        return False
    notes.append(f"{found.name}: constant, dropped")
    return True


def _grid(name: str, found: Range, ways: _Ways) -> Sums:
    """The grid of a column; its codes are counted from the lowest if they will be centred."""
    grid = Grid.within(
        found.low,
        found.high,
        name,
        centred=ways.intercept,
        log=name in ways.log,
        confined=found.winsorised,
    )
    return Sums(name, grid, grid.code(found.low) if ways.intercept else 0)


def _column(
    found: Extremes, within: Range, sums: Sums, ways: _Ways, notes: list[str]
) -> NumericColumn:
    mean, grid = sums.mean_code, sums.grid
    centre = mean if ways.intercept else 0
    spread = sums.spread(centre)
    if 0 < spread < 16:
        width = grid.entering(within.high) - grid.entering(within.low)
        notes.append(
            f"{found.name}: the range is {width:.3g} but the spread only {spread * grid.step:.3g}, "
            f"so outliers take the resolution; clip the column or use its log"
        )
    return NumericColumn(
        name=found.name,
        exponent=grid.exponent,
        centre=centre,
        fill=mean - centre,
        scale=1.0 / spread if ways.standardise and spread > 0 else grid.step,
        low=within.low,
        high=within.high,
        missing=found.missing,
        indicator=ways.indicators and found.missing > 0,
        winsorised=within.winsorised,
        log=grid.log,
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
