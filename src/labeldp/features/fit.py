"""`fit_features`: choose grids, levels and names from the features alone.

    1. one pass: extremes, level counts and tails of every column           -> _first_pass
    2. column types: numbers, categories or ids                             -> _keep_typed
    3. numbers: clip at public quantiles, choose grids; one pass sums codes -> _fit_numbers
    4. categories: merge rare levels                                        -> _fit_categories
    5. one more pass if a basis is asked for                                -> basis_fit.with_basis

Every statistic is an exact sum, an order statistic or a count, so the map is the same bytes for
any batch size, file layout or thread count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from labeldp.data.columns import MOST_COLUMNS, Column, check_breadth
from labeldp.data.source import Source
from labeldp.errors import DataError, at_least
from labeldp.features.basis import LINEAR, PAIR_COLUMNS, BasisSpec
from labeldp.features.basis_fit import with_basis
from labeldp.features.column_stats import (
    Extremes,
    GridSums,
    Levels,
    LevelsAndRanges,
    Sums,
    TailQuantiles,
    TailValues,
)
from labeldp.features.column_type import infer_column_type
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.features.formula import Formula
from labeldp.features.grid import Grid
from labeldp.features.notes import (
    CODES,
    CONSTANT,
    EMPTY,
    LEFT_OUT,
    ONE_LEVEL,
    OUTLIERS,
    FeatureNote,
)
from labeldp.features.rare_levels import merge_levels
from labeldp.features.winsor import Range, Winsor, check_names, winsor_notes
from labeldp.passes.accumulator import RunPass, run_in_order


@dataclass(frozen=True)
class _NumberOptions:
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
    basis: str = LINEAR,
    interactions: Sequence[str] = (),
    interaction_columns: int = PAIR_COLUMNS,
    formula: str | None = None,
    run_pass: RunPass | None = None,
) -> FeatureMap:
    """Fit the encoding of a source's features; labels are not read.

    It takes two passes over the features; three where the number of rows is not known before, and
    one more for a basis.

    Parameters
    ----------
    source
        the table.
    min_count
        levels with fewer rows are merged (`merge_levels`); by default the root of the number of
        rows: rare levels have high leverage, which costs privacy.
    intercept
        add a constant column; numeric codes are then centred at the mean.
    indicators
        add a column "x is missing" for every numeric x with missing values.
    standardise
        scale numeric design columns to unit spread.
    winsor
        numbers beyond the quantiles of this share and of one minus it count as those; a dictionary
        has a share for every column it names, and for all others under "*". By default 0.001, and
        only ends that reach far beyond: three times the quantiles' distance.
    log
        columns that enter as sign(x)·log(1 + |x|).
    basis
        functions of numbers that join them: "splines" bend at ten public quantiles, "splines:KNOTS"
        at so many; "splines+fourier:N" has N random cosines besides.
    interactions
        pairs of columns, "age:sex", whose products join the design, or "all".
    interaction_columns
        at most so many of them.
    formula
        "price ~ spline(age) + sex*edu" says all of this at once: which columns, `intercept`, `log`,
        `basis` and `interactions`, which are ignored then.
    run_pass
        how to run over the rows, an engine's `run_pass`; by default one batch after another.
    """
    if min_count is not None:
        at_least(1, min_count=min_count)
    if formula is None:
        spec = BasisSpec.of(basis, interactions, interaction_columns)
    else:
        model = Formula.of(formula, source.names)
        source, spec = model.narrowed(source), model.basis_spec(interaction_columns)
        intercept, log = model.intercept, model.log
    run_pass = run_pass or run_in_order
    options = _NumberOptions(intercept, indicators, standardise, Winsor.of(winsor), frozenset(log))
    check_names("winsor", options.winsor.named, source.columns)
    check_names("log", log, source.columns)
    columns = [
        replace(c, kind="numeric", declared=True) if c.name in log else c for c in source.columns
    ]
    check_breadth(len(columns))
    stats, tails = _first_pass(source, columns, options.winsor, run_pass)
    if min_count is None:
        min_count = math.isqrt(stats.rows)
    notes: list[FeatureNote] = []
    _keep_typed(columns, stats, min_count, notes)
    numeric = _fit_numbers(source, stats.extremes, tails, options, notes, run_pass)
    categorical = _fit_categories(source, stats.levels, min_count, notes)
    if not numeric and not categorical:
        raise DataError("every feature column is constant or an id; name columns that vary")
    features = FeatureMap(stats.rows, intercept, tuple(numeric), tuple(categorical), tuple(notes))
    spelt = {n: words for n, words in source.column_formats.items() if n in features.columns}
    features = with_basis(replace(features, spelt=spelt), spec, source, run_pass, min_count)
    _check_width(features)
    return features


def _first_pass(
    source: Source, columns: Sequence[Column], winsor: Winsor, run_pass: RunPass
) -> tuple[LevelsAndRanges, TailValues | None]:
    """Return extremes and level counts, and the tails; None if their depth is not known yet.

    How deep tails must be known depends on the number of rows, which a CSV file does not tell.
    """
    rows = source.total_rows
    stats = LevelsAndRanges(columns, rows, source.reader.format)
    if rows is None:
        return run_pass("levels and ranges", source, stats), None
    numbers = {column.name: rows for column in columns if column.kind != "categorical"}
    depths = winsor.depths(numbers)
    if not depths:
        return run_pass("levels and ranges", source, stats), {}
    tails = TailQuantiles(source.names, depths, keep=True)
    return run_pass("levels and ranges", source, stats, tails)


def _keep_typed(
    columns: Iterable[Column], stats: LevelsAndRanges, min_count: int, notes: list[FeatureNote]
) -> None:
    """Leave every column in `stats.extremes` or `stats.levels` by its type, ids in neither."""
    extremes, levels = stats.extremes, stats.levels
    for column in columns:
        name = column.name
        inferred = infer_column_type(column, extremes.get(name), levels.get(name), min_count)
        option = "numeric" if name in extremes else "categorical"
        if inferred.kind != "number":
            extremes.pop(name, None)
        if inferred.kind != "category":
            levels.pop(name, None)
        if inferred.kind == "id":
            notes.append(LEFT_OUT.say(name=name, why=inferred.why, way=option))
        elif inferred.kind == "category" and column.undecided:
            notes.append(CODES.say(name=name, why=inferred.why))


def _fit_numbers(
    source: Source,
    extremes: dict[str, Extremes],
    tails: TailValues | None,
    options: _NumberOptions,
    notes: list[FeatureNote],
    run_pass: RunPass,
) -> list[NumericColumn]:
    varying = {
        name: each for name, each in extremes.items() if not _is_constant(each, options, notes)
    }
    if not varying:
        return []
    if tails is None:
        depths = options.winsor.depths({name: each.numbers for name, each in varying.items()})
        tails = run_pass("tails", source, TailQuantiles(tuple(depths), depths)) if depths else {}
    ranges = {
        name: options.winsor.range(each, tails, Grid(0, name in options.log).entering)
        for name, each in varying.items()
    }
    notes.extend(winsor_notes(ranges, varying))
    empty = []
    for name, ends in ranges.items():
        grid = Grid.within(
            ends.low,
            ends.high,
            name,
            centred=options.intercept,
            log=name in options.log,
            confined=ends.winsorised,
        )
        # Codes that will be centred are counted from the lowest, which keeps sums small.
        empty.append(Sums(name, grid, grid.code(ends.low) if options.intercept else 0))
    sums = run_pass("numeric grids", source, GridSums(empty, source.reader.format))
    return [
        _numeric_column(varying[name], ranges[name], sums[name], options, notes) for name in varying
    ]


def _is_constant(extremes: Extremes, options: _NumberOptions, notes: list[FeatureNote]) -> bool:
    """Return whether a column carries nothing; without an intercept a constant but 0 does."""
    if extremes.empty:
        notes.append(EMPTY.say(name=extremes.name))
        return True
    has_indicator = options.indicators and extremes.missing > 0
    varies = extremes.low < extremes.high
    if varies or has_indicator or (not options.intercept and extremes.low != 0):
        return False
    notes.append(CONSTANT.say(name=extremes.name))
    return True


def _numeric_column(
    extremes: Extremes, ends: Range, sums: Sums, options: _NumberOptions, notes: list[FeatureNote]
) -> NumericColumn:
    mean, grid = sums.mean_code, sums.grid
    centre = mean if options.intercept else 0
    spread = sums.spread(centre)
    if 0 < spread < 16:  # fewer than four bits of resolution
        width = grid.entering(ends.high) - grid.entering(ends.low)
        shown = {"width": f"{width:.3g}", "spread": f"{spread * grid.step:.3g}"}
        notes.append(OUTLIERS.say(name=extremes.name, **shown))
    return NumericColumn(
        name=extremes.name,
        exponent=grid.exponent,
        centre=centre,
        fill=mean - centre,
        scale=1.0 / spread if options.standardise and spread > 0 else grid.step,
        low=ends.low,
        high=ends.high,
        missing=extremes.missing,
        indicator=options.indicators and extremes.missing > 0,
        winsorised=ends.winsorised,
        log=grid.log,
    )


def _fit_categories(
    source: Source, levels: dict[str, Levels], min_count: int, notes: list[FeatureNote]
) -> list[CategoricalColumn]:
    columns = []
    for name in source.names:
        if name not in levels:
            continue
        column = merge_levels(name, levels[name].checked(), min_count, notes)
        if column.size > 1:
            columns.append(column)
        else:
            notes.append(ONE_LEVEL.say(name=name))
    return columns


def _check_width(result: FeatureMap) -> None:
    if result.width <= MOST_COLUMNS:
        return
    sizes: Iterable[tuple[int, str]] = ((c.size, c.name) for c in result.categorical)
    biggest = sorted(sizes, reverse=True)[:3]
    shown = ", ".join(f"{name!r} ({size})" for size, name in biggest) or "the numeric columns"
    raise DataError(
        f"the features make {result.width} design columns, more than {MOST_COLUMNS}; most come "
        f"from {shown}: raise `min_count` or drop columns"
    )
