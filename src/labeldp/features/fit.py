"""`fit_features`: choose grids, levels and names from the features alone.

    1. one pass: extremes, level counts and tails of every column           -> type_statistics
    2. column types: numbers, categories or ids                             -> infer_column_type
    3. numbers: clip at public quantiles, choose grids; one pass sums codes -> _fit_numbers
    4. categories: merge rare levels                                        -> merge_levels
    5. one more pass if a basis is asked for                                -> with_basis

Every statistic is an exact sum, an order statistic or a count, so the map is the same bytes for
any batch size, file layout or thread count.

Numbers are clipped at public quantiles (theory §9, "Winsorise first"), which costs no privacy and
reduces leverage. The lower end of a column of n numbers is the one that ⌊share·n⌋ others do not
exceed, the upper end its mirror image: both occur in the table, whatever the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from labeldp.data.columns import MOST_COLUMNS, check_breadth
from labeldp.data.source import Source
from labeldp.errors import DataError, at_least
from labeldp.features.basis import LINEAR, BasisSpec, with_basis
from labeldp.features.categories import CategoricalColumn, merge_levels
from labeldp.features.column_stats import (
    ColumnStatistics,
    Extremes,
    NumberSums,
    Tails,
    infer_column_type,
    type_statistics,
)
from labeldp.features.columns import NumericColumn, entering
from labeldp.features.feature_map import LONGEST_NOTE, FeatureMap
from labeldp.features.formula import Formula
from labeldp.passes.accumulator import RunPass
from labeldp.passes.engine import LocalEngine

DEFAULT_SHARE = 0.001
"""The share that is clipped where none is asked for, at ends that reach far beyond it."""
_FAR = 3
"""So many times the width between the quantiles. Where a label follows a tail in a line, as
arrival follows departure delays, to clip it costs more than its leverage does; measured on real
tables, this keeps such tails and nearly all of what clipping gains where it gains much."""
_DEEPEST = 1 << 14
"""So many numbers beyond an end are looked for at most where no share is asked for: of more than
16 million rows it is less than DEFAULT_SHARE of them, and tails take bounded memory however many
rows there are (on a cluster each of 512 tasks sends them)."""


@dataclass(frozen=True)
class _NumberOptions:
    """How numbers are encoded."""

    intercept: bool
    indicators: bool
    standardise: bool
    share: float | None
    """Of a column's numbers, clipped at either end."""
    log: Sequence[str]

    def tails(self, names: Sequence[str], rows: int) -> dict[str, Tails]:
        """Return accumulators of the tails that must be known of columns of so many rows."""
        beyond = numbers_beyond(self.share, rows)
        return {name: Tails(name, beyond + 1) for name in names if beyond}


def numbers_beyond(share: float | None, numbers: int) -> int:
    """Return how many numbers may lie beyond either end; 0.3 of ten are three, as it is written."""
    count = math.floor(Fraction(repr(float(DEFAULT_SHARE if share is None else share))) * numbers)
    return min(count, _DEEPEST) if share is None else count


def fit_features(
    source: Source,
    *,
    min_count: int | None = None,
    intercept: bool = True,
    indicators: bool = True,
    standardise: bool = True,
    winsor: float | None = None,
    log: Sequence[str] = (),
    basis: str = LINEAR,
    interactions: Sequence[str] = (),
    formula: str | None = None,
    run_pass: RunPass | None = None,
) -> FeatureMap:
    """Fit the encoding of a source's features; labels are not read.

    `min_count` is the root of the number of rows by default. With `formula`, `intercept`, `log`,
    `basis` and `interactions` are those of the formula. `run_pass` is an engine's, by default that
    of a local one of one thread. The others are as `labeldp.plan` explains them.
    """
    if min_count is not None:
        at_least(1, min_count=min_count)
    if formula is None:
        spec = BasisSpec.of(basis, interactions)
    else:
        model = Formula(formula, source.names)
        source, intercept, log = model.select(source), model.intercept, model.log
        spec = BasisSpec(0, model.waves, model.pairs, model.knots)
    run_pass = run_pass or LocalEngine(threads=1).run_pass
    options = _NumberOptions(intercept, indicators, standardise, winsor, log)
    numeric_names = {column.name for column in source.columns if column.kind != "categorical"}
    for name in sorted({*log} - numeric_names):
        raise DataError(
            f"`log` names {name!r}, which is no feature column or a category; correct it, or "
            f"declare it `numeric`"
        )
    columns = [
        replace(c, kind="numeric", declared=True) if c.name in log else c for c in source.columns
    ]
    check_breadth(len(columns))
    rows, notes = source.reader.count_rows(), list[str]()
    statistics = type_statistics(columns)
    statistics.tails = options.tails([c.name for c in columns if c.kind != "categorical"], rows)
    stats = run_pass("levels and ranges", source, statistics)
    if min_count is None:
        min_count = math.isqrt(stats.rows)
    extremes, categorical = dict[str, Extremes](), list[CategoricalColumn]()
    category_notes = list[str]()
    for column in columns:
        name, levels = column.name, stats.levels.get(column.name)
        inferred = infer_column_type(column, stats.extremes.get(name), levels, min_count)
        if inferred.kind == "number":
            extremes[name] = stats.extremes[name]
        elif inferred.kind == "id":
            option = "numeric" if name in stats.extremes else "categorical"
            notes.append(
                f"{name}: {inferred.why}, taken for an id and left out; `{option}=['{name}']` to "
                f"keep it"
            )
        else:
            if column.undecided:
                notes.append(
                    f"{name}: {inferred.why}, treated as categorical; `numeric=['{name}']` to "
                    f"change"
                )
            counts = stats.levels[name]
            if counts.too_many:
                raise DataError(
                    f"column {name!r} has more than {counts.limit:,} distinct values; drop it if "
                    f"it is an identifier"
                )
            category = merge_levels(name, counts.counts, min_count, category_notes)
            if category.size > 1:
                categorical.append(category)
            else:
                category_notes.append(f"{name}: one level, dropped")
    numeric = _fit_numbers(source, extremes, stats.tails, options, notes, run_pass)
    if not numeric and not categorical:
        raise DataError("every feature column is constant or an id; name columns that vary")
    notes += category_notes
    short = tuple(note[:LONGEST_NOTE] for note in notes)
    features = FeatureMap(stats.rows, intercept, tuple(numeric), tuple(categorical), short)
    formats = {n: form for n, form in source.column_formats.items() if n in features.columns}
    features = replace(features, column_formats=formats)
    features = with_basis(features, spec, source, run_pass, min_count)
    if features.width > MOST_COLUMNS:
        biggest = sorted(((c.size, c.name) for c in features.categorical), reverse=True)[:3]
        shown = ", ".join(f"{name!r} ({size})" for size, name in biggest) or "the numeric columns"
        raise DataError(
            f"the features make {features.width} design columns, more than {MOST_COLUMNS}; most "
            f"come from {shown}: raise `min_count` or drop columns"
        )
    return features


def _fit_numbers(
    source: Source,
    extremes: Mapping[str, Extremes],
    tails: Mapping[str, Tails],
    options: _NumberOptions,
    notes: list[str],
    run_pass: RunPass,
) -> list[NumericColumn]:
    """Clip and choose grids, then centre and scale by the sums of codes, which take a pass."""
    varying = dict[str, Extremes]()
    for name, each in extremes.items():
        indicator = options.indicators and each.missing > 0
        if each.numbers == 0:
            notes.append(f"{name}: every value is missing, dropped")
        # Without an intercept a constant column other than 0 carries something.
        elif each.low < each.high or indicator or (not options.intercept and each.low != 0):
            varying[name] = each
        else:
            notes.append(f"{name}: constant, dropped")
    if not varying:
        return []
    sums, clipped = dict[str, NumberSums](), list[tuple[float, str]]()
    for name, each in varying.items():
        low, high, moved = _winsorise(each, tails.get(name), options)
        column = NumericColumn.with_grid(
            name,
            low,
            high,
            centred=options.intercept,
            log=name in options.log,
            winsorised=moved is not None,
            missing=each.missing,
            indicator=options.indicators and each.missing > 0,
        )
        sums[name] = NumberSums(column)
        if moved:
            what = f"{name} at {low:.7g} and {high:.7g} ({moved} rows)"
            clipped.append(((high - low) / (each.high - each.low), what))
    if clipped:
        _, most = min(clipped)  # of the column whose range shrank most
        others = f", {len(clipped) - 1} more columns" if len(clipped) > 1 else ""
        notes.append(f"winsorised at public quantiles: {most}{others}; `winsor=0` to change that")
    columns = []
    for codes in run_pass("numeric grids", source, ColumnStatistics(sums=sums)).sums.values():
        column = codes.column
        mean = round(column.centre + Fraction(codes.total, codes.rows))  # half to even
        centre = mean if options.intercept else 0
        spread = codes.spread(centre)
        scale = 1.0 / spread if options.standardise and spread > 0 else column.step
        columns.append(replace(column, centre=centre, fill=mean - centre, scale=scale))
    return columns


def _winsorise(
    extremes: Extremes, tails: Tails | None, options: _NumberOptions
) -> tuple[float, float, int | None]:
    """Return the ends of a column's range and how many numbers lie beyond; None: not clipped.

    A share that is asked for holds as it is. Where none is, only ends that reach far beyond their
    quantile are moved: a column without outliers stays as it is.
    """
    name, low, high = extremes.name, extremes.low, extremes.high
    share = options.share
    beyond = numbers_beyond(share, extremes.numbers)
    if beyond and tails is not None and beyond < tails.depth:
        least, most = tails.sorted()
        first, last = float(least[beyond]), float(most[beyond])
        # If both quantiles are one number, nearly all rows have it, and the others are what counts.
        if first < last:
            ends = [entering(end, name in options.log) for end in (low, first, last, high)]
            far = -1.0 if share is not None else _FAR * (ends[2] - ends[1])
            low = first if ends[1] - ends[0] > far else low
            high = last if ends[3] - ends[2] > far else high
            if share is not None or (low, high) != (extremes.low, extremes.high):
                return low, high, int((least < low).sum() + (most > high).sum())
    return low, high, None
