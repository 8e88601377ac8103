"""`fit_features`: choose grids, levels and names from the features alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from labeldp.data.columns import MOST_COLUMNS, Column, check_breadth
from labeldp.data.source import Source
from labeldp.errors import DataError, at_least
from labeldp.features.basis_spec import LINEAR, PAIR_COLUMNS, BasisSpec
from labeldp.features.column_type import infer_column_type
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.features.formula import Formula
from labeldp.features.grid import Grid
from labeldp.features.knots import with_basis
from labeldp.features.merging import merge_levels
from labeldp.features.notes import CODES, CONSTANT, EMPTY, LEFT_OUT, ONE_LEVEL, OUTLIERS, Said
from labeldp.features.tails import Shares, Tails
from labeldp.features.tally import Extremes, GridSums, Levels, LevelsAndRanges, Sums
from labeldp.features.winsor import Range, Winsor, check_names, winsor_notes
from labeldp.passes.accumulator import RunPass, run_in_order


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
    basis: str = LINEAR,
    interactions: Sequence[str] = (),
    interaction_columns: int = PAIR_COLUMNS,
    formula: str | None = None,
    run_pass: RunPass | None = None,
) -> FeatureMap:
    """Fit the encoding of a source's features; labels are not read.

    Two passes: extremes, tails and level counts, then exact integer sums of the numeric codes;
    three where the number of rows is not known before, and one more for a basis. The result is the
    same for any batch size, file layout or thread count.

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
        `basis` and `interactions`, which are not looked at then.
    fold
        how to run over the rows, an engine's `fold`; by default one batch after another.
    """
    if min_count is not None:
        at_least(1, min_count=min_count)
    if formula is None:
        wish = BasisSpec.of(basis, interactions, interaction_columns)
    else:
        model = Formula.of(formula, source.names)
        source, wish = model.narrowed(source), model.wish(interaction_columns)
        intercept, log = model.intercept, model.log
    run_pass = run_pass or run_in_order
    ways = _Ways(intercept, indicators, standardise, Winsor.of(winsor), frozenset(log))
    check_names("winsor", ways.winsor.named, source.columns)
    check_names("log", log, source.columns)
    columns = [
        replace(c, kind="numeric", declared=True) if c.name in log else c for c in source.columns
    ]
    check_breadth(len(columns))
    found, tails = _look(source, columns, ways.winsor, run_pass)
    rows, extremes, levels = found.rows, found.extremes, found.levels
    if min_count is None:
        min_count = math.isqrt(rows)
    notes: list[Said] = []
    _decide(columns, extremes, levels, min_count, notes)
    numeric = _numeric(source, extremes, tails, ways, notes, run_pass)
    categorical = _categorical(source, levels, min_count, notes)
    if not numeric and not categorical:
        raise DataError("every feature column is constant or an id; name columns that vary")
    result = FeatureMap(rows, intercept, tuple(numeric), tuple(categorical), tuple(notes))
    told = {name: told for name, told in source.wording.told.items() if name in result.columns}
    result = with_basis(replace(result, spelt=told), wish, source, run_pass, min_count)
    _check_width(result)
    return result


def _look(
    source: Source, columns: Sequence[Column], winsor: Winsor, run_pass: RunPass
) -> tuple[LevelsAndRanges, Shares | None]:
    """The first pass; the tails come along if it is known how deep they are to be, else None."""
    rows = source.total_rows
    tally = LevelsAndRanges(columns, rows, source.reader.format)
    if rows is None:
        return run_pass("levels and ranges", source, tally), None
    numbers = {column.name: rows for column in columns if column.kind != "categorical"}
    depths = winsor.depths(numbers)
    if not depths:
        return run_pass("levels and ranges", source, tally), {}
    return run_pass("levels and ranges", source, tally, Tails(source.names, depths, keep=True))


def _decide(
    columns: Iterable[Column],
    extremes: dict[str, Extremes],
    levels: dict[str, Levels],
    min_count: int,
    notes: list[Said],
) -> None:
    """Leave every column in one of the two dictionaries, ids in none."""
    for column in columns:
        name = column.name
        found = infer_column_type(column, extremes.get(name), levels.get(name), min_count)
        way = "numeric" if name in extremes else "categorical"
        if found.kind != "number":
            extremes.pop(name, None)
        if found.kind != "category":
            levels.pop(name, None)
        if found.kind == "id":
            notes.append(LEFT_OUT.say(name=name, why=found.why, way=way))
        elif found.kind == "category" and column.undecided:
            notes.append(CODES.say(name=name, why=found.why))


def _numeric(
    source: Source,
    extremes: dict[str, Extremes],
    tails: Shares | None,
    ways: _Ways,
    notes: list[Said],
    run_pass: RunPass,
) -> list[NumericColumn]:
    varying = {
        name: found for name, found in extremes.items() if not _is_constant(found, ways, notes)
    }
    if not varying:
        return []
    if tails is None:
        depths = ways.winsor.depths({name: found.numbers for name, found in varying.items()})
        tails = run_pass("tails", source, Tails(tuple(depths), depths)) if depths else {}
    ranges = {
        name: ways.winsor.range(found, tails, Grid(0, name in ways.log).entering)
        for name, found in varying.items()
    }
    notes.extend(winsor_notes(ranges, varying))
    grids = [_grid(name, found, ways) for name, found in ranges.items()]
    sums = run_pass("numeric grids", source, GridSums(grids, source.reader.format))
    return [_column(varying[name], ranges[name], sums[name], ways, notes) for name in varying]


def _is_constant(found: Extremes, ways: _Ways, notes: list[Said]) -> bool:
    """Whether a column says nothing; without an intercept a constant other than 0 does."""
    if found.empty:
        notes.append(EMPTY.say(name=found.name))
        return True
    says_missing = ways.indicators and found.missing > 0
    if found.low < found.high or says_missing or (not ways.intercept and found.low != 0):
        return False
    notes.append(CONSTANT.say(name=found.name))
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
    found: Extremes, within: Range, sums: Sums, ways: _Ways, notes: list[Said]
) -> NumericColumn:
    mean, grid = sums.mean_code, sums.grid
    centre = mean if ways.intercept else 0
    spread = sums.spread(centre)
    if 0 < spread < 16:
        width = grid.entering(within.high) - grid.entering(within.low)
        told = {"width": f"{width:.3g}", "spread": f"{spread * grid.step:.3g}"}
        notes.append(OUTLIERS.say(name=found.name, **told))
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
    source: Source, levels: dict[str, Levels], min_count: int, notes: list[Said]
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
