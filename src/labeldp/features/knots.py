"""The basis that is asked for, fitted on features alone: knots at public quantiles, pairs counted.

One pass over encoded rows: how often each number falls into each of 65,536 cells of its column's
range, and how often two levels meet. Both are counts, so the basis is the same for any batches,
threads and machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.errors import DataError
from labeldp.features.basis import Basis
from labeldp.features.basis_spec import BasisSpec, Pair
from labeldp.features.columns import NumericColumn
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.features.notes import PAIRS, Said
from labeldp.features.random_fourier import LEVELS, Input, RandomFourierFeatures
from labeldp.features.terms import Interaction, LinearSpline, Part
from labeldp.passes.accumulator import PassRequirements, RunPass

Counts = NDArray[np.int64]
_CELL_BITS = 3
"""A cell is so many codes wide, as a power of two: a column's range has 2**16 of them."""


def with_basis(
    features: FeatureMap, wish: BasisSpec, source: Source, run_pass: RunPass, min_count: int
) -> FeatureMap:
    """The same map with the basis that is asked for, and notes on what is left out."""
    if wish.empty:
        return features
    asked = tuple(dict.fromkeys(_checked(pair, features, wish.argument) for pair in wish.pairs))
    every = _all_pairs(features) if wish.all_pairs else ()
    others = tuple(pair for pair in every if pair not in asked)
    seen = run_pass("basis", source, Meetings(features, (*asked, *others)))
    hinges = tuple(_hinges(features, seen.cells, wish))
    chosen = _Chosen(features, seen.pairs, min_count)
    products = chosen.products(asked, others, wish.columns)
    inputs = list(_inputs(features, seen.cells)) if wish.waves else []
    waves = (RandomFourierFeatures.through(inputs, wish.waves),) if inputs else ()
    basis = Basis(hinges, products, waves)
    return replace(features, basis=basis, notes=(*features.notes, *chosen.notes))


@dataclass(frozen=True)
class Met:
    """What the rows showed."""

    cells: Mapping[str, Counts]
    """Of every numeric column: rows in each cell."""
    pairs: Mapping[Pair, Counts]
    """Of two categories: rows of every two levels."""


class Meetings:
    """A tally of cells and of pairs of levels."""

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

    def new(self) -> Meetings:
        return Meetings(self._features, self._pairs)

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

    def result(self, *_: object) -> Met:
        return Met(self._cells, self._tables)


def _lowest(column: NumericColumn) -> int:
    """The smallest code of a fitted row, rounded down to a cell."""
    low = column.grid.code(column.low) - column.centre
    return min(low, column.fill) >> _CELL_BITS << _CELL_BITS


def _cell_count(column: NumericColumn) -> int:
    high = column.grid.code(column.high) - column.centre
    return ((max(high, column.fill) - _lowest(column)) >> _CELL_BITS) + 1


def _hinges(
    features: FeatureMap, cells: Mapping[str, Counts], wish: BasisSpec
) -> Iterator[LinearSpline]:
    own = dict(wish.bent)
    for column in features.numeric:
        count = own.get(column.name, wish.knots)
        places = quantile_cells(cells[column.name], count) if count else []
        knots = tuple(_lowest(column) + (place << _CELL_BITS) for place in places)
        if knots:
            yield LinearSpline(column.name, knots)


def quantile_cells(counts: Counts, count: int) -> list[int]:
    """The cells of the quantiles j/(count + 1), each once, but for the outermost occupied ones.

    A hinge at the lowest number is a straight line, and one at the highest is nothing.
    """
    first, *inner, last = _quantiles(counts, count + 1)
    return [cell for cell in dict.fromkeys(inner) if first < cell < last]


def _quantiles(counts: Counts, parts: int) -> list[int]:
    """The first cells with at least j·rows/parts up to their ends, in whole numbers, from j = 0."""
    total, upto = int(counts.sum()), np.cumsum(counts)
    wanted = [max(1, -(-j * total // parts)) for j in range(parts + 1)]
    return [int(cell) for cell in np.searchsorted(upto, wanted)]


def _inputs(features: FeatureMap, cells: Mapping[str, Counts]) -> Iterator[Input]:
    """What waves go through: numbers that vary beyond a cell, and categories."""
    for column in features.numeric:
        places = _quantiles(cells[column.name], LEVELS)
        levels = {place: level for level, place in reversed(list(enumerate(places)))}
        codes = tuple(_lowest(column) + (place << _CELL_BITS) for place in sorted(levels))
        if len(codes) > 1:
            yield Input(column.name, codes, tuple(levels[place] for place in sorted(levels)))
    for category in features.categorical:
        yield Input(category.name)


def _all_pairs(features: FeatureMap) -> tuple[Pair, ...]:
    """Every two columns, those first that make fewest columns."""
    pairs = list(combinations(features.columns, 2))
    return tuple(sorted(pairs, key=lambda pair: _width(features, pair)))


def _width(features: FeatureMap, pair: Pair) -> int:
    sizes = {column.name: column.size - 1 for column in features.categorical}
    return sizes.get(pair[0], 1) * sizes.get(pair[1], 1)


def _checked(pair: Pair, features: FeatureMap, argument: str) -> Pair:
    """The pair in the order of the columns; a column that is not there is refused."""
    for name in pair:
        if name not in features.columns:
            raise DataError(
                f"`{argument}` names {name!r}, which is no feature column or a constant one; "
                "correct it"
            )
    left, right = sorted(pair, key=features.columns.index)
    return left, right


class _Chosen:
    """Products of pairs of columns, as many as are allowed."""

    def __init__(self, features: FeatureMap, met: Mapping[Pair, Counts], min_count: int) -> None:
        self._fitted = features.fitted
        self._met, self._min_count = met, min_count
        self.notes: list[Said] = []

    def products(
        self, asked: Sequence[Pair], others: Sequence[Pair], most: int
    ) -> tuple[Interaction, ...]:
        """Of all pairs that were asked for, and of others while there is room."""
        made = [product for pair in asked for product in self._of(pair)]
        if len(made) > most:
            raise DataError(
                f"`interactions` makes {len(made)} columns, more than {most}; name fewer pairs or "
                f"raise `interaction_columns`"
            )
        left_out = 0
        for pair in others:
            more = list(self._of(pair))
            fits = len(made) + len(more) <= most
            made += more if fits else []
            left_out += not fits
        if left_out:
            self.notes.append(PAIRS.say(left=left_out, most=most))
        return tuple(made)

    def _of(self, pair: Pair) -> Iterator[Interaction]:
        """The products of a pair: levels but for the first, and both only if they meet often."""
        left, right = (self._parts(name) for name in pair)
        counts = self._met.get(pair)
        for one in left:
            for other in right:
                if counts is None or counts[one.level, other.level] >= self._min_count:
                    yield Interaction.of(one, other, self._fitted)

    def _parts(self, name: str) -> list[Part]:
        if name in self._fitted.numeric:
            return [Part(name)]
        return [Part(name, level) for level in range(1, self._fitted.categorical[name].size)]
