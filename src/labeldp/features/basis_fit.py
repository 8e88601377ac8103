"""Fits the basis that is asked for on features alone: knots at public quantiles, frequent pairs.

One pass over encoded rows counts how often each number falls into each of 65,536 cells of its
column's range, and how often two levels occur together. Both are counts, so the basis is the same
for any batches, threads and machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.errors import DataError
from labeldp.features.basis import Basis, BasisSpec, Pair
from labeldp.features.columns import NumericColumn
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.features.notes import PAIRS, FeatureNote
from labeldp.features.random_fourier import LEVELS, Input, RandomFourierFeatures
from labeldp.features.terms import FittedColumns, Interaction, LinearSpline, Part
from labeldp.passes.accumulator import PassRequirements, RunPass

Counts = NDArray[np.int64]
_CELL_BITS = 3
"""A cell is so many codes wide, as a power of two: a column's range has 2**16 of them."""


def with_basis(
    features: FeatureMap, spec: BasisSpec, source: Source, run_pass: RunPass, min_count: int
) -> FeatureMap:
    """Return the map with the basis that is asked for, and notes on what is left out."""
    if spec.empty:
        return features
    pairs = (_known_pair(pair, features, spec.argument) for pair in spec.pairs)
    requested = tuple(dict.fromkeys(pairs))
    every = _all_pairs(features) if spec.all_pairs else ()
    others = tuple(pair for pair in every if pair not in requested)
    counts = run_pass("basis", source, BasisCounter(features, (*requested, *others)))
    splines = tuple(_splines(features, counts.cells, spec))
    interactions, notes = _interactions(
        features, requested, others, spec.columns, counts.pairs, min_count
    )
    inputs = list(_inputs(features, counts.cells)) if spec.waves else []
    fourier = (RandomFourierFeatures.through(inputs, spec.waves),) if inputs else ()
    basis = Basis(splines, interactions, fourier)
    return replace(features, basis=basis, notes=(*features.notes, *notes))


@dataclass(frozen=True)
class BasisCounts:
    """The result of `BasisCounter`."""

    cells: Mapping[str, Counts]
    """Of every numeric column: rows in each cell."""
    pairs: Mapping[Pair, Counts]
    """Of two categories: rows of every two levels."""


class BasisCounter:
    """Accumulator of rows by cell and by pair of levels."""

    def __init__(self, features: FeatureMap, pairs: Sequence[Pair]) -> None:
        self._features, self._pairs = features, tuple(pairs)
        sizes = {column.name: column.size for column in features.categorical}
        self._cells = {c.name: np.zeros(_cell_count(c), np.int64) for c in features.numeric}
        self._tables = {
            (left, right): np.zeros((sizes[left], sizes[right]), np.int64)
            for left, right in pairs
            if left in sizes and right in sizes
        }

    @property
    def requirements(self) -> PassRequirements:
        features = self._features
        room = sum(counts.nbytes for counts in self.state())
        return PassRequirements(features.columns, features, state_bytes=room)

    def new(self) -> BasisCounter:
        return BasisCounter(self._features, self._pairs)

    def add(self, rows: Encoded, *_: object) -> None:
        at = 0
        for column in self._features.numeric:
            codes = rows.numbers[:, at]
            if column.indicator:
                codes = codes[rows.numbers[:, at + 1] == 0.0]
            at += len(column.design_names)
            places = (codes.astype(np.int64) - _lowest(column)) >> _CELL_BITS
            counts = self._cells[column.name]
            counts += np.bincount(places, minlength=len(counts))
        if self._tables:
            names = [column.name for column in self._features.categorical]
            levels = dict(zip(names, rows.categories, strict=True))
            for (left, right), table in self._tables.items():
                both = levels[left].astype(np.int64) * table.shape[1] + levels[right]
                table += np.bincount(both, minlength=table.size).reshape(table.shape)

    def state(self) -> list[Counts]:
        return [*self._cells.values(), *self._tables.values()]

    def merge(self, state: list[Counts]) -> None:
        for counts, others in zip(self.state(), state, strict=True):
            counts += others

    def result(self, *_: object) -> BasisCounts:
        return BasisCounts(self._cells, self._tables)


def _lowest(column: NumericColumn) -> int:
    """Return the smallest code of a fitted row, rounded down to a cell."""
    low = column.grid.code(column.low) - column.centre
    return min(low, column.fill) >> _CELL_BITS << _CELL_BITS


def _cell_count(column: NumericColumn) -> int:
    high = column.grid.code(column.high) - column.centre
    return ((max(high, column.fill) - _lowest(column)) >> _CELL_BITS) + 1


def _splines(
    features: FeatureMap, cells: Mapping[str, Counts], spec: BasisSpec
) -> Iterator[LinearSpline]:
    own = dict(spec.own_knots)
    for column in features.numeric:
        count = own.get(column.name, spec.knots)
        places = quantile_cells(cells[column.name], count) if count else []
        knots = tuple(_lowest(column) + (place << _CELL_BITS) for place in places)
        if knots:
            yield LinearSpline(column.name, knots)


def quantile_cells(counts: Counts, count: int) -> list[int]:
    """Return the cells of the quantiles j/(count + 1), each once, without the outermost ones.

    A hinge at the lowest number is a straight line, and one at the highest is nothing.
    """
    first, *inner, last = _quantiles(counts, count + 1)
    return [cell for cell in dict.fromkeys(inner) if first < cell < last]


def _quantiles(counts: Counts, parts: int) -> list[int]:
    """Return for j = 0 … parts the first cell with at least j·rows/parts rows up to its end."""
    total, upto = int(counts.sum()), np.cumsum(counts)
    wanted = [max(1, -(-j * total // parts)) for j in range(parts + 1)]
    return [int(cell) for cell in np.searchsorted(upto, wanted)]


def _inputs(features: FeatureMap, cells: Mapping[str, Counts]) -> Iterator[Input]:
    """What fourier go through: numbers that vary beyond a cell, and categories."""
    for column in features.numeric:
        places = _quantiles(cells[column.name], LEVELS)
        levels = {place: level for level, place in reversed(list(enumerate(places)))}
        codes = tuple(_lowest(column) + (place << _CELL_BITS) for place in sorted(levels))
        if len(codes) > 1:
            yield Input(column.name, codes, tuple(levels[place] for place in sorted(levels)))
    for category in features.categorical:
        yield Input(category.name)


def _all_pairs(features: FeatureMap) -> tuple[Pair, ...]:
    """Return every two columns, those first that make fewest design columns."""
    pairs = list(combinations(features.columns, 2))
    return tuple(sorted(pairs, key=lambda pair: _width(features, pair)))


def _width(features: FeatureMap, pair: Pair) -> int:
    sizes = {column.name: column.size - 1 for column in features.categorical}
    return sizes.get(pair[0], 1) * sizes.get(pair[1], 1)


def _known_pair(pair: Pair, features: FeatureMap, argument: str) -> Pair:
    """Return the pair in the order of the columns; refuse a column that is not there."""
    for name in pair:
        if name not in features.columns:
            raise DataError(
                f"`{argument}` names {name!r}, which is no feature column or a constant one; "
                "correct it"
            )
    left, right = sorted(pair, key=features.columns.index)
    return left, right


def _interactions(
    features: FeatureMap,
    requested: Sequence[Pair],
    others: Sequence[Pair],
    most: int,
    pair_counts: Mapping[Pair, Counts],
    min_count: int,
) -> tuple[tuple[Interaction, ...], list[FeatureNote]]:
    """Return those of all requested pairs, and of others while there is room; and a note."""
    fitted = features.fitted

    def of_pair(pair: Pair) -> list[Interaction]:
        # Of a category all levels but the first; of two levels only those that often occur
        # together, since a rare combination has high leverage.
        left, right = (_parts(name, fitted) for name in pair)
        counts = pair_counts.get(pair)
        return [
            Interaction.of(one, other, fitted)
            for one in left
            for other in right
            if counts is None or counts[one.level, other.level] >= min_count
        ]

    terms = [term for pair in requested for term in of_pair(pair)]
    if len(terms) > most:
        raise DataError(
            f"`interactions` makes {len(terms)} columns, more than {most}; name fewer pairs or "
            f"raise `interaction_columns`"
        )
    left_out = 0
    for pair in others:
        more = of_pair(pair)
        fits = len(terms) + len(more) <= most
        terms += more if fits else []
        left_out += not fits
    return tuple(terms), [PAIRS.say(left=left_out, most=most)] if left_out else []


def _parts(name: str, fitted: FittedColumns) -> list[Part]:
    if name in fitted.numeric:
        return [Part(name)]
    return [Part(name, level) for level in range(1, fitted.categorical[name].size)]
