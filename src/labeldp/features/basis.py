"""`Basis`: functions of columns that join the design, for curves under the same guarantee.

Theory §12: any function of public features is a public feature. Every term (`terms.py`,
`random_fourier.py`) turns whole numbers into whole numbers, so its columns have the same bytes on
every machine and engine, and are summed, checked and published like any others.

`with_basis` fits a basis on features alone. One pass over encoded rows counts how often each number
falls into each of 65,536 cells of its column's range, and how often two levels occur together. Both
are counts, so the basis is the same for any batches, threads and machines.

In features.json splines, interactions and random Fourier features are called hinges, products and
waves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.errors import DataError, InputError
from labeldp.features import notes as forms
from labeldp.features.columns import NumericColumn, check_fields
from labeldp.features.random_fourier import LEVELS, Input, RandomFourierFeatures
from labeldp.features.terms import Interaction, LinearSpline, Part
from labeldp.io_util import Check, list_of
from labeldp.passes.accumulator import PassRequirements, RunPass

if TYPE_CHECKING:
    from labeldp.features.encoder import Encoded
    from labeldp.features.feature_map import FeatureMap

Pair = tuple[str, str]
Term = LinearSpline | Interaction | RandomFourierFeatures
Counts = NDArray[np.int64]

LINEAR, AUTO, ALL = "linear", "auto", "all"
SPLINES, FOURIER = "splines", "fourier"
DEFAULT_COUNTS = {SPLINES: 10, FOURIER: 100}
"""Knots and waves where no number is given."""
PAIR_COLUMNS = 300
_MOST = {SPLINES: 1000, FOURIER: 4000}
_CELL_BITS = 3
"""A cell is so many codes wide, as a power of two: a column's range has 2**16 of them."""


@dataclass(frozen=True)
class BasisSpec:
    """Which basis is asked for: how many knots and waves, which pairs of columns."""

    knots: int = 0
    waves: int = 0
    pairs: tuple[Pair, ...] = ()
    all_pairs: bool = False
    """All pairs besides, as far as the columns allowed suffice."""
    columns: int = PAIR_COLUMNS
    """At most so many for all pairs together."""
    own_knots: tuple[tuple[str, int], ...] = ()
    """Columns with knots of their own number."""
    argument: str = "interactions"
    """Where the pairs are named."""

    @classmethod
    def of(cls, basis: str, interactions: Iterable[str], columns: int) -> BasisSpec:
        """Read what people write: "splines+fourier:100", and "age:sex" or "all"."""
        if basis == AUTO:
            raise InputError("`basis` auto is chosen by `plan`; name one here")
        parts = dict[str, int]()
        for text in basis.split("+"):
            name, _, count = text.strip().partition(":")
            if name == LINEAR and not count:
                continue
            if name not in DEFAULT_COUNTS or name in parts or not (count or "1").isdigit():
                raise InputError(
                    f"`basis` is {basis!r}; write linear, splines, splines:KNOTS, "
                    f"splines+fourier:N or auto"
                )
            parts[name] = checked_count("basis", name, int(count or DEFAULT_COUNTS[name]))
        texts = [text.strip() for text in interactions]
        pairs = tuple(_pair(text) for text in texts if text != ALL)
        return cls(parts.get(SPLINES, 0), parts.get(FOURIER, 0), pairs, ALL in texts, columns)


def checked_count(argument: str, part: str, count: int) -> int:
    """Return how many knots or waves are asked for; refuse what makes no sense."""
    if not 1 <= count <= _MOST[part]:
        raise InputError(f"`{argument}` asks for {part}:{count}; take 1 to {_MOST[part]:,}")
    return count


def _pair(text: str) -> Pair:
    left, _, right = (part.strip() for part in text.partition(":"))
    if not left or not right or left == right:
        raise InputError(
            f"`interactions` holds {text!r}; write pairs of different columns, age:sex, or {ALL}"
        )
    return left, right


_KINDS: dict[str, type[LinearSpline | Interaction | RandomFourierFeatures]] = {
    "hinges": LinearSpline,
    "products": Interaction,
    "waves": RandomFourierFeatures,
}


@dataclass(frozen=True)
class Basis:
    """The terms of a design, in the order of their columns: by kind, as in `_KINDS`."""

    terms: tuple[Term, ...] = ()

    def select(self, columns: Iterable[str]) -> Basis:
        """Return the terms that are made of these raw columns alone."""
        return Basis(tuple(term for term in self.terms if term.owners.issubset(columns)))

    def to_json(self) -> dict[str, Any]:
        """Return the terms as plain values; kinds of which there is none are left out."""
        entries: dict[str, list[Any]] = {name: [] for name in _KINDS}
        for name, kind in _KINDS.items():
            entries[name] = [term.to_json() for term in self.terms if isinstance(term, kind)]
        return {name: terms for name, terms in entries.items() if terms}

    @classmethod
    def from_json(cls, document: Any) -> Basis:
        """Read what `to_json` wrote, strictly."""
        is_list: Check = list_of(lambda item: isinstance(item, dict))
        check_fields(document, {}, "features: the basis", dict.fromkeys(_KINDS, is_list))
        return cls(
            tuple(
                kind.from_json(entry)
                for name, kind in _KINDS.items()
                for entry in document.get(name, [])
            )
        )


def with_basis(
    features: FeatureMap, spec: BasisSpec, source: Source, run_pass: RunPass, min_count: int
) -> FeatureMap:
    """Return the map with the basis that is asked for, and notes on what is left out."""
    if not (spec.knots or spec.waves or spec.pairs or spec.all_pairs or spec.own_knots):
        return features
    requested = [_known_pair(pair, features, spec.argument) for pair in spec.pairs]
    pairs = tuple(dict.fromkeys([*requested, *(_all_pairs(features) if spec.all_pairs else ())]))
    counts = run_pass("basis", source, BasisCounter(features, pairs))
    terms: list[Term] = [*_splines(features, counts, spec)]
    products, left_out = list[Interaction](), 0
    for pair in pairs:
        more = _products(pair, features, counts, min_count)
        if len(products) + len(more) <= spec.columns:
            products += more
        elif pair in requested:
            raise DataError(
                f"`interactions` makes more than {spec.columns} columns; name fewer pairs or "
                f"raise `interaction_columns`"
            )
        else:
            left_out += 1
    terms += products
    inputs = list(_inputs(features, counts)) if spec.waves else []
    if inputs:
        terms.append(RandomFourierFeatures.through(inputs, spec.waves))
    notes = [forms.PAIRS.format(left=left_out, most=spec.columns)] if left_out else []
    return replace(features, basis=Basis(tuple(terms)), notes=(*features.notes, *notes))


class BasisCounter:
    """Accumulator of rows by cell of every number and by pair of levels."""

    def __init__(self, features: FeatureMap, pairs: Sequence[Pair]) -> None:
        self._features, self._pairs = features, tuple(pairs)
        sizes = {column.name: column.size for column in features.categorical}
        self.cells = {c.name: np.zeros(_cell_count(c), np.int64) for c in features.numeric}
        self.pairs = {
            (left, right): np.zeros((sizes[left], sizes[right]), np.int64)
            for left, right in pairs
            if left in sizes and right in sizes
        }

    @property
    def requirements(self) -> PassRequirements:
        state_bytes = sum(counts.nbytes for counts in self.state())
        return PassRequirements(self._features.columns, self._features, state_bytes=state_bytes)

    def new(self) -> BasisCounter:
        return BasisCounter(self._features, self._pairs)

    def add(self, rows: Encoded, *_: object) -> None:
        at = 0
        for column in self._features.numeric:
            codes = rows.numbers[:, at]
            if column.indicator:
                codes = codes[rows.numbers[:, at + 1] == 0.0]
            at += len(column.design_columns)
            places = (codes.astype(np.int64) - _lowest(column)) >> _CELL_BITS
            counts = self.cells[column.name]
            counts += np.bincount(places, minlength=len(counts))
        if self.pairs:
            names = [column.name for column in self._features.categorical]
            levels = dict(zip(names, rows.categories, strict=True))
            for (left, right), table in self.pairs.items():
                both = levels[left].astype(np.int64) * table.shape[1] + levels[right]
                table += np.bincount(both, minlength=table.size).reshape(table.shape)

    def state(self) -> list[Counts]:
        return [*self.cells.values(), *self.pairs.values()]

    def merge(self, state: list[Counts]) -> None:
        for counts, others in zip(self.state(), state, strict=True):
            counts += others

    def result(self, *_: object) -> BasisCounter:
        return self


def _lowest(column: NumericColumn) -> int:
    """Return the smallest code of a fitted row, rounded down to a cell."""
    low = column.ends[0] - column.centre
    return min(low, column.fill) >> _CELL_BITS << _CELL_BITS


def _cell_count(column: NumericColumn) -> int:
    high = column.ends[1] - column.centre
    return ((max(high, column.fill) - _lowest(column)) >> _CELL_BITS) + 1


def _splines(features: FeatureMap, counts: BasisCounter, spec: BasisSpec) -> Iterator[LinearSpline]:
    own = dict(spec.own_knots)
    for column in features.numeric:
        count = own.get(column.name, spec.knots)
        places = quantile_cells(counts.cells[column.name], count) if count else []
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


def _inputs(features: FeatureMap, counts: BasisCounter) -> Iterator[Input]:
    """Yield what waves go through: numbers that vary beyond a cell, and categories."""
    for column in features.numeric:
        places = _quantiles(counts.cells[column.name], LEVELS)
        levels = {place: level for level, place in reversed(list(enumerate(places)))}
        codes = tuple(_lowest(column) + (place << _CELL_BITS) for place in sorted(levels))
        if len(codes) > 1:
            yield Input(column.name, codes, tuple(levels[place] for place in sorted(levels)))
    for category in features.categorical:
        yield Input(category.name)


def _all_pairs(features: FeatureMap) -> list[Pair]:
    """Return every two columns, those first that make fewest design columns."""
    widths = {column.name: 1 for column in features.numeric}
    widths |= {column.name: column.size - 1 for column in features.categorical}
    pairs = combinations(features.columns, 2)
    return sorted(pairs, key=lambda pair: widths[pair[0]] * widths[pair[1]])


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


def _products(
    pair: Pair, features: FeatureMap, counts: BasisCounter, min_count: int
) -> list[Interaction]:
    """Return the products of two columns: of a category those of all levels but the first.

    Of two levels only those that often occur together, since a rare combination has high leverage.
    """
    fitted, together = features.fitted, counts.pairs.get(pair)
    left, right = (
        [Part(name)]
        if name in fitted.numeric
        else [Part(name, level) for level in range(1, fitted.categorical[name].size)]
        for name in pair
    )
    return [
        Interaction.of(one, other, fitted)
        for one in left
        for other in right
        if together is None or together[one.level, other.level] >= min_count
    ]
