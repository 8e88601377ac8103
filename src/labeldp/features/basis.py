"""`Basis`: functions of columns that join the design, for curves under the same guarantee.

Theory §12: any function of public features is a public feature. Every term turns whole numbers into
whole numbers, so its columns have the same bytes on every machine and engine, and are summed,
checked and published like any others:

    LinearSpline           max(0, c − k): c the code of a number on its grid, k that of a knot;
    Interaction            c·c'/2**shift, rounded half to even; c where a row has a level, else 0;
                           or 1 where it has both of two levels;
    RandomFourierFeatures  cosines of random directions, see below.

A code of a fitted row is at most 2**19 in absolute value, so c·c' is exact in a double, and
`shift` brings it back to 2**19. The first two continue beyond the fitted range.

`with_basis` fits a basis on features alone. One pass over encoded rows counts how often each number
falls into each of 65,536 cells of its column's range, and how often two levels occur together. Both
are counts, so the basis is the same for any batches, threads and machines.

In features.json splines, interactions and random Fourier features are called hinges, products and
waves.

Random Fourier features (theory §12): a feature ("wave") is √2·cos 2π(φ + Σ_j m_j·u_j), the sum over
two columns: what two columns do together is most of what splines lack, and waves through all
columns at once take twice as many to express it. Columns take turns, so that each is paired with
every other. u_j is about the share of rows below a number: its code, mapped piecewise linearly at
public quantiles so that no row stands far out, with a random m_j; a category adds a random number
for each of its levels.

C libraries' cosines differ in their last bits, so phases are whole numbers of 2**-64 turns, whose
sums wrap as turns do, and the cosine is looked up at the first 12 bits of a phase, in a table of
whole numbers. Random numbers come from SHAKE-256 of the published seed: a sum of twelve 16-bit
numbers, which is nearly normal, times exact fractions.

Numbers beyond those of fitted rows count as the nearest: waves are flat there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations, cycle, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeldp.data.columns import MOST_COLUMNS
from labeldp.data.source import Source
from labeldp.errors import DataError, InputError
from labeldp.features.categories import CategoricalColumn
from labeldp.features.columns import LARGEST_CODE, DesignColumn, NumericColumn
from labeldp.kernels import count_pairs
from labeldp.passes.accumulator import PassRequirements, RunPass

if TYPE_CHECKING:
    from labeldp.features.encoder import Encoded
    from labeldp.features.feature_map import FeatureMap

Numbers = NDArray[np.float64]
Columns = Mapping[str, NumericColumn | CategoricalColumn]  # by name
ColumnCodes = Mapping[str, NDArray[Any]]  # of a number, or of the levels of a category, by name

_SEED = "1"
_WIDTH = 2.0  # root mean square of the phases of standardised rows, in radians
_SPAN = 2  # columns that a wave goes through
_QUANTILES = 16  # quantiles between which numbers are taken for evenly spread
_AMPLITUDE = 2**14  # of the table of cosines
_TABLE_BITS = 12
_SUMMED = 12
"""So many 16-bit numbers, less their mean, have a deviation of 2**16, but for a part in 2**33."""

# rint(2**14·cos 2πi/4096). No value is nearer than 2e-4 to the middle of two whole numbers, so
# every C library's cosine rounds to the same one. Adding 0.0 leaves no -0.0.
COSINES = np.rint(_AMPLITUDE * np.cos(2 * np.pi * np.arange(2**_TABLE_BITS) / 2**_TABLE_BITS)) + 0.0
COSINES.flags.writeable = False


@dataclass(frozen=True)
class Input:
    """A column that waves go through: a category, or a number with the quantiles it bends at."""

    column: str
    bends: tuple[int, ...] = ()  # codes, increasing; at least two of a number, none of a category
    levels: tuple[int, ...] = ()  # which of the quantiles 0 to `_QUANTILES` each of them is

    def shares(self, codes: Numbers) -> NDArray[np.uint64]:
        """Return 2**16 times the quantile, in steps of 1/16: linear between bends, flat beyond."""
        bends, levels = np.array(self.bends), np.array(self.levels)
        whole = np.clip(codes, bends[0], bends[-1]).astype(np.int64)
        at = np.clip(np.searchsorted(bends, whole, side="right") - 1, 0, len(bends) - 2)
        rise, run = np.diff(levels)[at] << 16, np.diff(bends)[at]
        return np.asarray((levels[at] << 16) + (whole - bends[at]) * rise // run).view(np.uint64)


@dataclass(frozen=True)
class RandomFourierFeatures:
    """Cosines of random directions through some columns, a few of them at a time."""

    seed: str
    count: int
    inputs: tuple[Input, ...]
    turns: float  # deviation of what a standardised number, or a level, adds to a phase

    def design_columns(self, columns: Columns) -> list[DesignColumn]:
        self.sizes(columns)  # refuses columns that are not there
        owners = frozenset(each.column for each in self.inputs)
        scale, reach = math.sqrt(2) / _AMPLITUDE, float(_AMPLITUDE)
        return [
            DesignColumn(f"wave {number}", owners, scale, scale, reach=reach, degree=2)
            for number in range(1, self.count + 1)
        ]

    def write(self, columns: Columns, codes: ColumnCodes, out: Numbers) -> None:
        values = []
        for each in self.inputs:
            column = codes[each.column]
            values.append(each.shares(column) if each.bends else column)
        phase = np.empty(len(out), np.uint64)
        for wave, (first, multipliers) in enumerate(self.draws(self.sizes(columns))):
            phase[:] = first
            for each, value, by in zip(self.inputs, values, multipliers, strict=True):
                if by.any():  # a wave goes through two columns
                    phase += value * by[0] if each.bends else by[value]
            out[:, wave] = COSINES[phase >> np.uint64(64 - _TABLE_BITS)]

    @lru_cache(maxsize=8)  # noqa: B019
    def draws(self, sizes: tuple[int, ...]) -> list[tuple[np.uint64, list[NDArray[np.uint64]]]]:
        """Return of every wave its first phase, and for each input what its shares are times.

        A category has one number for each level instead. Inputs that it does not go through have 0.
        `sizes` says how many random numbers each input takes.
        """
        unit = Fraction(self.turns) * 2**48
        # Shares run to 2**16·_QUANTILES evenly, which has the deviation of that over √12.
        share_unit = unit * Fraction(math.sqrt(12)) / (_QUANTILES << 16)
        random = normals_and_phases(self.seed, self.count, sum(sizes))
        waves = []
        for pair, (normals, phase) in zip(cycle(column_pairs(len(sizes))), random, strict=False):
            rest, multipliers = iter(normals), []
            for place, (size, each) in enumerate(zip(sizes, self.inputs, strict=True)):
                by = 0 if place not in pair else share_unit if each.bends else unit
                turns = [round(next(rest) * by) % 2**64 for _ in range(size)]
                multipliers.append(np.array(turns, np.uint64))
            waves.append((np.uint64(phase), multipliers))
        return waves

    def sizes(self, columns: Columns) -> tuple[int, ...]:
        """Return how many random numbers each input takes; a KeyError if it is of another type."""
        sizes = []
        for each in self.inputs:
            column = columns[each.column]
            if isinstance(column, NumericColumn) != bool(each.bends):
                raise KeyError(each.column)
            sizes.append(1 if isinstance(column, NumericColumn) else column.size)
        return tuple(sizes)

    def to_json(self) -> dict[str, Any]:
        inputs = []
        for each in self.inputs:
            bends = {"bends": list(each.bends), "levels": list(each.levels)} if each.bends else {}
            inputs.append({"column": each.column, **bends})
        drawn = {"seed": self.seed, "count": self.count, "inputs": inputs}
        return {**drawn, "turns": self.turns, "span": _SPAN}

    @classmethod
    def from_json(cls, document: Any) -> RandomFourierFeatures:
        inputs = list[Input]()
        for entry in document["inputs"]:
            bends, levels = (tuple(entry.get(name, ())) for name in ("bends", "levels"))
            increasing = all(each == tuple(sorted(set(each))) for each in (bends, levels))
            if not increasing or len(bends) != len(levels) or len(bends) == 1:
                raise DataError("features: waves bend elsewhere; restore the original file")
            inputs.append(Input(entry["column"], bends, levels))
        return cls(document["seed"], document["count"], tuple(inputs), float(document["turns"]))


def column_pairs(columns: int) -> Iterator[tuple[int, ...]]:
    """Yield all pairs of columns, round by round: in a round each is in one pair, or rests.

    It is the round-robin schedule of a tournament: one stays in its place, the others move on by
    one. A single column is alone.
    """
    if columns == 1:
        yield (0,)
    places = columns + columns % 2
    for turn in range(places - 1):
        ring = [0, *((place + turn) % (places - 1) + 1 for place in range(places - 1))]
        for one, other in zip(ring[: places // 2], reversed(ring), strict=False):
            if max(one, other) < columns:
                yield min(one, other), max(one, other)


def normals_and_phases(seed: str, count: int, each: int) -> Iterator[tuple[list[int], int]]:
    """Yield `count` times `each` normals of deviation 2**16, as integers, and a 64-bit word."""
    length = 2 * _SUMMED * each + 8
    data = hashlib.shake_256(f"labeldp waves {seed}".encode()).digest(count * length)
    for start in range(0, len(data), length):
        part = data[start : start + length]
        summed = np.frombuffer(part[:-8], "<u2").reshape(each, _SUMMED).sum(axis=1, dtype=np.int64)
        yield (summed - _SUMMED * (2**16 - 1) // 2).tolist(), int.from_bytes(part[-8:], "little")


Pair = tuple[str, str]
Counts = NDArray[np.int64]

LINEAR, ALL = "linear", "all"
_ALL_PAIRS: Pair = (ALL, "")
SPLINES, FOURIER = "splines", "fourier"
DEFAULT_COUNTS = {SPLINES: 10, FOURIER: 100}
_MOST = {SPLINES: 1000, FOURIER: 4000}
_CELL_BITS = 3
"""A cell is so many codes wide, as a power of two: a column's range has 2**16 of them."""


@dataclass(frozen=True)
class LinearSpline:
    """A curve of one number: straight lines that bend at knots."""

    column: str
    knots: tuple[int, ...]  # codes, increasing

    def design_columns(self, columns: Columns) -> list[DesignColumn]:
        column = columns[self.column]
        if not isinstance(column, NumericColumn):
            raise KeyError(self.column)
        number = column.design_columns[0]
        return [
            DesignColumn(
                f"max(0, {number.name} - {(knot + column.centre) * column.step:.6g})",
                number.owners,
                number.scale,
                number.slope,
                reach=number.reach + abs(knot),
                degree=1,
            )
            for knot in self.knots
        ]

    def write(self, _columns: Columns, codes: ColumnCodes, out: Numbers) -> None:
        for place, knot in enumerate(self.knots):
            np.maximum(codes[self.column] - knot, 0.0, out=out[:, place])

    def to_json(self) -> dict[str, Any]:
        return {"column": self.column, "knots": list(self.knots)}

    @classmethod
    def from_json(cls, entry: Any) -> LinearSpline:
        knots = entry["knots"]
        if knots != sorted(set(knots)):
            raise DataError("features: knots must be increasing; restore the original file")
        return cls(entry["column"], tuple(knots))


class Part(NamedTuple):
    """A factor of an interaction: a number, or whether a row has a level (by its code)."""

    column: str
    level: int | None = None


@dataclass(frozen=True)
class Interaction:
    """How the effect of one column depends on another's: their product."""

    left: Part
    right: Part
    shift: int = 0

    def design_columns(self, columns: Columns) -> list[DesignColumn]:
        factors, names = list[DesignColumn](), list[str]()
        for part in (self.left, self.right):
            column = columns[part.column]
            if isinstance(column, NumericColumn) != (part.level is None):
                raise KeyError(part.column)
            factors.append(column.design_columns[part.level or 0])
            names.append(factors[-1].name)
            if isinstance(column, NumericColumn):
                names[-1] = f"({names[-1]} - {column.centre * column.step:.6g})"
        (left, right), unit = factors, 2.0**self.shift
        return [
            DesignColumn(
                " * ".join(names),
                left.owners | right.owners,
                left.scale * right.scale * unit,
                left.slope * right.slope,
                reach=left.reach * right.reach / unit + 0.5,
                degree=2,
            )
        ]

    def write(self, _columns: Columns, codes: ColumnCodes, out: Numbers) -> None:
        one, other = (
            codes[column] if level is None else codes[column] == level
            for column, level in (self.left, self.right)
        )
        column = out[:, 0]
        np.multiply(one, other, out=column)
        if self.shift:
            np.rint(column * 2.0**-self.shift, out=column)
        column += 0.0  # no -0.0: equal rows must have equal bytes

    def to_json(self) -> dict[str, Any]:
        return {"of": [list(self.left), list(self.right)], "shift": self.shift}

    @classmethod
    def from_json(cls, entry: Any) -> Interaction:
        left, right = (Part(*part) for part in entry["of"])
        return cls(left, right, entry["shift"])


Term = LinearSpline | Interaction | RandomFourierFeatures
Basis = tuple[Term, ...]  # in the order of the columns: by kind, as in `_KINDS`
_KINDS: dict[str, type[Term]] = {
    "hinges": LinearSpline,
    "products": Interaction,
    "waves": RandomFourierFeatures,
}


def basis_to_json(terms: Basis) -> dict[str, Any]:
    """Return the terms as plain values; kinds of which there is none are left out."""
    entries = {
        name: [term.to_json() for term in terms if isinstance(term, kind)]
        for name, kind in _KINDS.items()
    }
    return {name: each for name, each in entries.items() if each}


def basis_from_json(document: Any) -> Basis:
    """Read what `basis_to_json` wrote; the feature map has checked types."""
    read = ([kind.from_json(e) for e in document.get(name, [])] for name, kind in _KINDS.items())
    return tuple(chain.from_iterable(read))


@dataclass(frozen=True)
class BasisSpec:
    """Which basis is asked for: knots of every number that is not in `own_knots`."""

    knots: int = 0
    waves: int = 0
    pairs: tuple[Pair, ...] = ()
    own_knots: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, basis: str, interactions: Iterable[str]) -> BasisSpec:
        """Read what people write: "splines+fourier:100", and "age:sex" or "all"."""
        counts = dict[str, int]()
        for text in basis.split("+"):
            name, _, count = text.strip().partition(":")
            if name == LINEAR and not count:
                continue
            if name not in DEFAULT_COUNTS or name in counts or not (count or "1").isdigit():
                raise InputError(
                    f"`basis` is {basis!r}; write linear, splines, splines:KNOTS or "
                    f"splines+fourier:N"
                )
            counts[name] = checked_count("basis", name, int(count or DEFAULT_COUNTS[name]))
        pairs = list[Pair]()
        for text in interactions:
            left, _, right = (part.strip() for part in text.partition(":"))
            if text.strip() != ALL and (not left or not right or left == right):
                raise InputError(
                    f"`interactions` holds {text.strip()!r}; write pairs of different columns, "
                    f"age:sex, or {ALL}"
                )
            pairs.append((left, right))
        return cls(counts.get(SPLINES, 0), counts.get(FOURIER, 0), tuple(pairs))


def checked_count(argument: str, part: str, count: int) -> int:
    """Return how many knots or waves are asked for; refuse what makes no sense."""
    if not 1 <= count <= _MOST[part]:
        raise InputError(f"`{argument}` asks for {part}:{count}; take 1 to {_MOST[part]:,}")
    return count


def with_basis(
    features: FeatureMap, spec: BasisSpec, source: Source, run_pass: RunPass, min_count: int
) -> FeatureMap:
    """Return the map with the basis that is asked for."""
    if spec == BasisSpec():
        return features
    names = features.columns
    if _ALL_PAIRS in spec.pairs:
        pairs = tuple(combinations(names, 2))
    else:
        for name in (name for pair in spec.pairs for name in pair if name not in names):
            raise DataError(
                f"a product names {name!r}, which is no feature column or a constant one; correct "
                "`interactions` or `formula`"
            )
        ordered = [(a, b) if names.index(a) < names.index(b) else (b, a) for a, b in spec.pairs]
        pairs = tuple(dict.fromkeys(ordered))
    counts = run_pass("basis", source, BasisCounter(features, pairs))

    splines = list[LinearSpline]()
    for name in counts.cells:
        if number := spec.own_knots.get(name, spec.knots):
            first, *inner, last = counts.quantile_codes(name, number + 1)
            # A hinge at the lowest number is a straight line, and one at the highest is nothing.
            knots = tuple(code for code in dict.fromkeys(inner) if first < code < last)
            splines += [LinearSpline(name, knots)] if knots else []

    products = list[Interaction]()
    for pair in pairs:
        products += _products(pair, features, counts, min_count)
        if len(products) > MOST_COLUMNS:
            raise DataError(
                f"`interactions` makes more than {MOST_COLUMNS} columns; name fewer pairs"
            )

    # Waves go through numbers that vary beyond a cell, and through categories.
    inputs, waves = list[Input](), list[RandomFourierFeatures]()
    for name in counts.cells:
        levels = dict[int, int]()  # by code the first quantile that is there
        for level, code in enumerate(counts.quantile_codes(name, _QUANTILES)):
            levels.setdefault(code, level)
        if len(levels) > 1:
            inputs.append(Input(name, tuple(levels), tuple(levels.values())))
    inputs += [Input(category.name) for category in features.categorical]
    if inputs and spec.waves:  # the columns of a wave move its phase by _WIDTH together
        turns = _WIDTH / (2 * math.pi * math.sqrt(min(_SPAN, len(inputs))))
        waves.append(RandomFourierFeatures(_SEED, spec.waves, tuple(inputs), turns))
    return replace(features, basis=(*splines, *products, *waves))


class BasisCounter:
    """Accumulator of rows by cell of every number and by pair of levels."""

    def __init__(self, features: FeatureMap, pairs: Sequence[Pair]) -> None:
        self._features = features
        sizes = {column.name: column.size for column in features.categorical}
        self._lowest, self.cells = dict[str, int](), dict[str, Counts]()
        for column in features.numeric:
            codes = [*(end - column.centre for end in column.ends), column.fill]
            lowest = self._lowest[column.name] = min(codes) >> _CELL_BITS
            self.cells[column.name] = np.zeros((max(codes) >> _CELL_BITS) - lowest + 1, np.int64)
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
        return BasisCounter(self._features, [*self.pairs])

    def add(self, rows: Encoded, *_: object) -> None:
        at = 0
        for column in self._features.numeric:
            codes = rows.numbers[:, at]
            if column.indicator:
                codes = codes[rows.numbers[:, at + 1] == 0.0]
            at += len(column.design_columns)
            cells = (codes.astype(np.int64) >> _CELL_BITS) - self._lowest[column.name]
            counts = self.cells[column.name]
            counts += np.bincount(cells, minlength=len(counts))
        if self.pairs:
            names = [column.name for column in self._features.categorical]
            levels = dict(zip(names, rows.categories, strict=True))
            for (left, right), table in self.pairs.items():
                count_pairs(table, levels[left], levels[right])

    def state(self) -> list[Counts]:
        return [*self.cells.values(), *self.pairs.values()]

    def merge(self, state: list[Counts]) -> None:
        for counts, others in zip(self.state(), state, strict=True):
            counts += others

    def result(self, *_: object) -> BasisCounter:
        return self

    def quantile_codes(self, name: str, parts: int) -> list[int]:
        """Return the lowest codes of the cells of a column's quantiles 0, 1/parts, …, 1.

        The cell of quantile j/parts is the first with at least j·rows/parts rows up to its end.
        """
        upto = np.cumsum(self.cells[name])
        wanted = [max(1, -(-j * int(upto[-1]) // parts)) for j in range(parts + 1)]
        places = np.searchsorted(upto, wanted).tolist()
        return [(self._lowest[name] + cell) << _CELL_BITS for cell in places]


def _products(
    pair: Pair, features: FeatureMap, counts: BasisCounter, min_count: int
) -> list[Interaction]:
    """Return the products of two columns: of a category those of all levels but the first.

    Of two levels only those that often occur together, since a rare combination has high leverage.
    """
    together = counts.pairs.get(pair)
    sides = list[list[Part]]()
    for name in pair:
        column = features.by_name[name]
        levels = [None] if isinstance(column, NumericColumn) else range(1, column.size)
        sides.append([Part(name, level) for level in levels])
    products = []
    for left, right in product(*sides):
        if together is not None and together[left.level, right.level] < min_count:
            continue
        term = Interaction(left, right)
        reach = term.design_columns(features.by_name)[0].reach - 0.5
        shift = 0  # the smallest that brings the codes of the product within 2**19
        while reach / 2**shift + 0.5 > LARGEST_CODE:
            shift += 1
        products.append(replace(term, shift=shift))
    return products
