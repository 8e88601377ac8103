"""`fit_features`: choose grids, levels and names from the features alone.

    1. one pass: extremes, level counts and tails of every column           -> type_statistics
    2. column types: numbers, categories or ids                             -> _keep_typed
    3. numbers: clip at public quantiles, choose grids; one pass sums codes -> _fit_numbers
    4. categories: merge rare levels                                        -> _fit_categories
    5. one more pass if a basis is asked for                                -> with_basis

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
from labeldp.features import notes as forms
from labeldp.features.basis import LINEAR, PAIR_COLUMNS, BasisSpec, with_basis
from labeldp.features.column_stats import ColumnStatistics, Extremes, Levels, Sums, Tails
from labeldp.features.column_type import infer_column_type, type_statistics
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.features.formula import Formula
from labeldp.features.rare_levels import merge_levels
from labeldp.features.winsor import OTHERS, Winsor, winsor_notes
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
    _check_names("winsor", options.winsor.shares.keys() - {OTHERS}, source)
    _check_names("log", log, source)
    columns = [
        replace(c, kind="numeric", declared=True) if c.name in log else c for c in source.columns
    ]
    check_breadth(len(columns))
    # How deep tails must be known depends on the number of rows, which a CSV file does not tell.
    rows, depths = source.total_rows, None
    if rows is not None:
        numbers = {column.name: rows for column in columns if column.kind != "categorical"}
        depths = options.winsor.depths(numbers)
    wanted = type_statistics(columns, rows, source.reader.format, depths)
    stats = run_pass("levels and ranges", source, wanted)
    if min_count is None:
        min_count = math.isqrt(stats.rows)
    notes: list[str] = []
    _keep_typed(columns, stats, min_count, notes)
    tails = None if rows is None else stats.tails
    numeric = _fit_numbers(source, stats.extremes, tails, options, notes, run_pass)
    categorical = _fit_categories(source, stats.levels, min_count, notes)
    if not numeric and not categorical:
        raise DataError("every feature column is constant or an id; name columns that vary")
    features = FeatureMap(stats.rows, intercept, tuple(numeric), tuple(categorical), tuple(notes))
    spelt = {n: words for n, words in source.column_formats.items() if n in features.columns}
    features = with_basis(replace(features, spelt=spelt), spec, source, run_pass, min_count)
    _check_width(features)
    return features


def _check_names(option: str, names: Iterable[str], source: Source) -> None:
    """Refuse names that are of no feature, or of a category."""
    kinds = {column.name: column.kind for column in source.columns}
    for name in names:
        if name not in kinds:
            raise DataError(f"`{option}` names {name!r}, which is no feature column; correct it")
        if kinds[name] == "categorical":
            raise DataError(
                f"`{option}` names {name!r}, which is a category; declare it `numeric` or leave "
                f"it out"
            )


def _keep_typed(
    columns: Iterable[Column], stats: ColumnStatistics, min_count: int, notes: list[str]
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
            notes.append(forms.LEFT_OUT.format(name=name, id=inferred.why, option=option))
        elif inferred.kind == "category" and column.undecided:
            notes.append(forms.CODES.format(name=name, codes=inferred.why))


def _fit_numbers(
    source: Source,
    extremes: dict[str, Extremes],
    tails: dict[str, Tails] | None,
    options: _NumberOptions,
    notes: list[str],
    run_pass: RunPass,
) -> list[NumericColumn]:
    """Clip and choose grids, then centre and scale by the sums of codes, which take a pass."""
    varying = {
        name: each for name, each in extremes.items() if not _is_constant(each, options, notes)
    }
    if not varying:
        return []
    format = source.reader.format
    if tails is None:
        depths = options.winsor.depths({name: each.numbers for name, each in varying.items()})
        wanted = {name: Tails(name, depth) for name, depth in depths.items()}
        tails = {}
        if wanted:
            deep = ColumnStatistics(tuple(wanted), format, tails=wanted)
            tails = run_pass("tails", source, deep).tails
    ranges = {
        name: options.winsor.range(each, tails, name in options.log)
        for name, each in varying.items()
    }
    notes.extend(winsor_notes(ranges, varying))
    empty = {}
    for name, ends in ranges.items():
        column = NumericColumn.with_grid(
            name,
            ends.low,
            ends.high,
            centred=options.intercept,
            log=name in options.log,
            winsorised=ends.winsorised,
            missing=varying[name].missing,
            indicator=options.indicators and varying[name].missing > 0,
        )
        empty[name] = Sums(column)
    sums = run_pass(
        "numeric grids", source, ColumnStatistics(tuple(empty), format, sums=empty)
    ).sums
    return [_centred(sums[name], options, notes) for name in varying]


def _is_constant(extremes: Extremes, options: _NumberOptions, notes: list[str]) -> bool:
    """Return whether a column carries nothing; without an intercept a constant but 0 does."""
    if extremes.numbers == 0:
        notes.append(forms.EMPTY.format(name=extremes.name))
        return True
    has_indicator = options.indicators and extremes.missing > 0
    varies = extremes.low < extremes.high
    if varies or has_indicator or (not options.intercept and extremes.low != 0):
        return False
    notes.append(forms.CONSTANT.format(name=extremes.name))
    return True


def _centred(sums: Sums, options: _NumberOptions, notes: list[str]) -> NumericColumn:
    """Return the column with its mean and its scale."""
    column, mean = sums.column, sums.mean_code
    centre = mean if options.intercept else 0
    spread = sums.spread(centre)
    if 0 < spread < 16:  # fewer than four bits of resolution
        low, high = column.entering_range
        width, shown = f"{high - low:.3g}", f"{spread * column.step:.3g}"
        notes.append(forms.OUTLIERS.format(name=column.name, width=width, spread=shown))
    scale = 1.0 / spread if options.standardise and spread > 0 else column.step
    return replace(column, centre=centre, fill=mean - centre, scale=scale)


def _fit_categories(
    source: Source, levels: dict[str, Levels], min_count: int, notes: list[str]
) -> list[CategoricalColumn]:
    columns = []
    for name in source.names:
        if name not in levels:
            continue
        levels[name].check_limit()
        column = merge_levels(name, levels[name].counts, min_count, notes)
        if column.size > 1:
            columns.append(column)
        else:
            notes.append(forms.ONE_LEVEL.format(name=name))
    return columns


def _check_width(features: FeatureMap) -> None:
    if features.width <= MOST_COLUMNS:
        return
    biggest = sorted(((c.size, c.name) for c in features.categorical), reverse=True)[:3]
    shown = ", ".join(f"{name!r} ({size})" for size, name in biggest) or "the numeric columns"
    raise DataError(
        f"the features make {features.width} design columns, more than {MOST_COLUMNS}; most come "
        f"from {shown}: raise `min_count` or drop columns"
    )
