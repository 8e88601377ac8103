"""Bags: m disjoint sets of k rows, drawn uniformly from a public seed.

Which rows stand in which bag does not depend on labels and is published. So is the seed, in
plan and certificate: a plan then knows the very bags its release will have, their leverages
among them. With a seed from the operating system the draw is random and guarantees over the
draw hold; with one that was given it is not.

The sampler is our own and uses whole words only, so a seed means the same bags everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.subsampling import SubsampledBagsProfile, inclusion_probability
from labeldp.data.batches import check_rows
from labeldp.data.source import Source
from labeldp.errors import DataError, InputError, PlanError
from labeldp.features.encoder import ChosenRows, Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.options import BagOptions
from labeldp.passes.engine import Engine
from labeldp.release.pending import file_name
from labeldp.sampling.streams import fresh_seed, public_stream, words

if TYPE_CHECKING:
    from labeldp.release.files import Release

MEMBERS = pa.schema([pa.field("bag", pa.int32()), pa.field("row", pa.int64())])
"""Which row is in which bag; its weight is not published."""
MOST_MEMBERS = 200_000_000
"""Rows in bags are held in memory: some gigabytes of them."""

BAGS = file_name("bags")
_MARKED = 8
_FEW = 16
"""Different ones among 32 random bytes, or 31 steps between them: fewer are too improbable."""

GIVEN = "given the bags: they are published, and the guarantee holds for these very bags"
OVER = (
    "over the draw of the bags: a row is in a bag with probability chance, and delta counts that; "
    "for a row known to be in a bag, delta is up to 1/chance times larger"
)


@dataclass(frozen=True)
class Draw:
    """Which rows stand in which bag: everything follows from these fields."""

    rows: int
    bags: int
    bag_size: int
    seed: str
    random: bool
    """The seed came from the operating system."""
    over_draw: bool
    """The guarantee is over the draw (theory §4), not given the bags."""

    def __post_init__(self) -> None:
        inclusion_probability(self.rows, self.bags, self.bag_size)
        if self.bags * self.bag_size > MOST_MEMBERS:
            raise InputError(
                f"{self.bags:,} bags of {self.bag_size:,} rows are too many to hold; "
                f"ask for {MOST_MEMBERS // self.bag_size:,} at most"
            )
        if self.over_draw and not self.random:
            raise InputError(
                "a guarantee over the draw needs bags that were drawn at random; leave `bag_seed` "
                "out, or ask for the guarantee given the bags"
            )

    def check_budget(self, delta: float) -> None:
        """Refuse a δ that would let a label go unprotected because bags are few."""
        if self.chance <= delta:
            raise PlanError(
                f"a row is in a bag with probability {self.chance:.3g} only, so δ = {delta:g} over "
                "the draw would leave labels without any protection; lower δ or leave `over_draw` "
                "out"
            )

    @classmethod
    def new(cls, rows: int, bags: int, bag_size: int, *, over_draw: bool, seed: int | None) -> Draw:
        """A fresh draw; `seed` is for tests and experiments."""
        text = fresh_seed() if seed is None else f"{seed:064x}"
        return cls(rows, bags, bag_size, text, seed is None, over_draw)

    @property
    def chance(self) -> float:
        """What δ is multiplied by: mk/n over the draw, 1 given the bags."""
        return inclusion_probability(self.rows, self.bags, self.bag_size) if self.over_draw else 1.0

    def over(self, curve: PrivacyProfile) -> PrivacyProfile:
        """What is guaranteed if `curve` is the guarantee given the bags."""
        return (
            SubsampledBagsProfile(curve, self.rows, self.bag_size, self.bags)
            if self.over_draw
            else curve
        )

    @cached_property
    def members(self) -> NDArray[np.int64]:
        """Row numbers, one line per bag."""
        stream = public_stream(self.seed, "bags")
        sample = distinct(stream, self.rows, self.bags * self.bag_size)
        return sample.reshape(self.bags, self.bag_size)

    def stream(self, purpose: str) -> np.random.Generator:
        """Another public stream of this draw."""
        return public_stream(self.seed, purpose)

    def to_json(self) -> dict[str, Any]:
        return {
            "guarantee": "over-draw" if self.over_draw else "given-bags",
            "holds": OVER if self.over_draw else GIVEN,
            "chance": inclusion_probability(self.rows, self.bags, self.bag_size),
            "seed": self.seed,
            "random": self.random,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Draw:
        """From a plan or certificate, whose `draw` this is."""
        draw = document["draw"]
        return cls(
            int(document["rows"]),
            int(document["bags"]),
            int(document["bag_size"]),
            str(draw["seed"]),
            bool(draw["random"]),
            draw["guarantee"] == "over-draw",
        )


def fresh_draw(options: BagOptions, rows: int, bags: int, bag_size: int, delta: float) -> Draw:
    """New bags as they are asked for, and not too few for δ over the draw."""
    draw = Draw.new(rows, bags, bag_size, over_draw=options.over_draw, seed=options.bag_seed)
    draw.check_budget(delta)
    return draw


@dataclass(frozen=True, eq=False)
class SimulationInputs:
    """A release of bags as it might be, for simulations: no label is involved."""

    draw: Draw
    weights: NDArray[np.float64]
    """One line per bag, one column per row in it."""
    variances: NDArray[np.float64]
    """Of the noise in each aggregate label."""
    weigh: bool
    """Whether the deviations are published, so that a fit divides by them."""


def distinct(stream: np.random.Generator, population: int, count: int) -> NDArray[np.int64]:
    """An ordered sample of `count` of the numbers below `population`, without replacement.

    The first occurrences in a sequence of independent uniform numbers are one; where that would
    take long, so are the first places of a random order.
    """
    if 2 * count > population:
        return _order(words(stream, population))[:count].astype(np.int64)
    sample = np.empty(0, dtype=np.int64)
    while len(sample) < count:
        more = _below(stream, population, 2 * (count - len(sample)) + 64)
        combine = np.concatenate([sample, more])
        sample = combine[_firsts(combine)]
    return sample[:count]


def _order(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The places in the order of their keys, the first of equal ones first.

    Sorting with no care for equal keys takes half the time, and random words are hardly ever equal.
    """
    order = np.argsort(keys)
    ranked = keys[order]
    return np.argsort(keys, kind="stable") if (ranked[1:] == ranked[:-1]).any() else order


def _firsts(numbers: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each number stands first, in increasing order."""
    order = np.argsort(numbers)
    ranked = numbers[order]
    fresh = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    return np.sort(np.minimum.reduceat(order, fresh))


def _ranked(
    numbers: NDArray[np.int64], population: int
) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """Different numbers below `population` in increasing order, and the place of each there.

    Where they are a good part of the population, to mark them is faster than to sort them.
    """
    if population < min(_MARKED * len(numbers), 2**31):
        marks = np.zeros(population, dtype=bool)
        marks[numbers] = True
        count = np.cumsum(marks, dtype=np.int32)
        return np.flatnonzero(marks), count[numbers] - 1
    order = np.argsort(numbers)
    place = np.empty(len(numbers), dtype=np.int64)
    place[order] = np.arange(len(numbers))
    return numbers[order], place


def _below(stream: np.random.Generator, population: int, count: int) -> NDArray[np.int64]:
    """Up to `count` uniform numbers below `population`: words past the last multiple are left."""
    drawn = words(stream, count)
    limit = np.uint64(2**64 - 1 - 2**64 % population)
    return (drawn[drawn <= limit] % np.uint64(population)).astype(np.int64)


class BagRows:
    """The encoded features of the rows in bags, and the way back to bags."""

    def __init__(self, features: FeatureMap, draw: Draw) -> None:
        self._draw, self._features = draw, features
        self.wanted, self._place = _ranked(draw.members.reshape(-1), draw.rows)

    def read(self, source: Source, engine: Engine) -> BagRows:
        """Fill in the features, in one pass; labels are not read."""
        self._fill(source, engine, ChosenRows(self._features, self.wanted))
        return self

    def read_labelled(self, source: Source, engine: Engine) -> NDArray[np.float64]:
        """Fill in the features and return the labels, one line per bag, in one pass."""
        rows = ChosenRows(self._features, self.wanted, labels=True)
        labels = self._fill(source, engine, rows)
        return np.asarray(labels[self._place]).reshape(self._draw.members.shape)

    def _fill(self, source: Source, engine: Engine, rows: ChosenRows) -> NDArray[np.float64]:
        total, self._encoded, labels = engine.run_pass("rows of bags", source, rows)
        check_rows(self.wanted, total, self._draw.rows)
        return labels

    def bag(self, number: int) -> Encoded:
        """The rows of one bag."""
        size = self._draw.bag_size
        return self._encoded.take(self._place[number * size : (number + 1) * size])

    def blocks(self, bags: int) -> Iterator[tuple[slice, Encoded]]:
        """The rows of several bags at once, bag by bag, with the bags' numbers."""
        count, size = self._draw.members.shape
        for start in range(0, count, bags):
            stop = min(count, start + bags)
            place = self._place[start * size : stop * size]
            yield slice(start, stop), self._encoded.take(place)

    def digest(self) -> str:
        """SHA-256 of rows and features: public, and equal only for the same rows."""
        hasher = hashlib.sha256(f"{self._draw.rows} {self._draw.members.shape}".encode())
        arrays: list[NDArray[Any]] = [self.wanted, self._encoded.numbers, *self._encoded.categories]
        for array in arrays:
            hasher.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return hasher.hexdigest()


def members_table(draw: Draw) -> pa.Table:
    """The bags as (bag, row) pairs, bag by bag."""
    bag = np.repeat(np.arange(draw.bags, dtype=np.int32), draw.bag_size)
    return pa.table([bag, draw.members.reshape(-1)], schema=MEMBERS)


def check_members(table: pa.Table, draw: Draw) -> Iterator[str]:
    """Where a bag table is not the one that the certificate's seed gives."""
    if draw.random and not looks_drawn(draw.seed):
        yield "certificate: draw.seed was not drawn at random, whatever draw.random says"
    if not table.select(["bag", "row"]).equals(members_table(draw)):
        yield f"{BAGS} does not hold the bags that the certificate's seed gives"


def looks_drawn(seed: str) -> bool:
    """Whether 256 bits may have come from the operating system, but for a chance below 1e-12.

    Small numbers, few different bytes and steady steps from byte to byte do not.
    """
    data = bytes.fromhex(seed)
    steps = {(after - before) % 256 for before, after in pairwise(data)}
    return any(data[:16]) and min(len(set(data)), len(steps)) > _FEW


def check_bag_rows(
    rows: BagRows, release: Release, source: Source, engine: Engine
) -> Iterator[str]:
    """Read the bags' rows; where their features are not those of the release."""
    try:
        rows.read(source, engine)
    except DataError as problem:
        yield str(problem)
        return
    if rows.digest() != release.certificate["digests"]["feature_sums"]:
        yield "the features of the bags' rows are not those of the release"


def check_stable_rows(source: Source) -> None:
    """Bags name rows by their numbers, which a source must have."""
    if not source.numbered:
        raise InputError(
            "bags name rows by number, and rows on Spark have none; use "
            "`mechanism='wtd-flag'`, or read the table without Spark"
        )
