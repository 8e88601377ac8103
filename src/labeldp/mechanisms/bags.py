"""Bags: m disjoint sets of k rows, drawn uniformly from a public seed.

Which rows are in which bag does not depend on labels and is published, and so is the seed, in plan
and certificate. A plan thus knows the very bags that its release will have. If the seed came from
the operating system the draw is random, and guarantees over the draw hold.

The sampler is our own and uses whole random words only, so a seed gives the same bags everywhere.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.privacy_profile import (
    PrivacyProfile,
    SubsampledProfile,
    inclusion_probability,
    most_bags,
)
from labeldp.data.source import Source, check_rows
from labeldp.display import Document
from labeldp.errors import DataError, InputError, PlanError
from labeldp.exact.stacked import StackedBags, bags_at_once
from labeldp.features.encoder import ChosenRows, Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.options import AccountQuestion, BagOptions
from labeldp.passes.engine import Engine
from labeldp.releases.pending import file_name
from labeldp.sampling.streams import Randomness, fresh_seed, public_stream, words

if TYPE_CHECKING:  # they are defined above this module
    from labeldp.mechanisms.base import MechanismPlan
    from labeldp.mechanisms.design_summary import DesignSummary
    from labeldp.releases.files import Release

MEMBERS = pa.schema([pa.field("bag", pa.int32()), pa.field("row", pa.int64())])
"""Which row is in which bag."""
MOST_MEMBERS = 200_000_000
"""Rows in bags are held in memory: some gigabytes of them."""
BAGS = file_name("bags")

GIVEN = "given the bags: they are published, and the guarantee holds for these very bags"
OVER = (
    "over the draw of the bags: a row is in a bag with probability chance, and delta counts that; "
    "for a row known to be in a bag, delta is up to 1/chance times larger"
)


@dataclass(frozen=True)
class Draw:
    """Which rows are in which bag: everything follows from these fields."""

    rows: int
    bags: int
    bag_size: int
    seed: str
    random: bool
    """The seed came from the operating system."""
    over_draw: bool
    """The guarantee is over the draw (theory §4), not given the bags."""

    def __post_init__(self) -> None:
        _ = self.chance  # refuses more rows than exist
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

    @classmethod
    def new(cls, rows: int, bags: int, bag_size: int, *, over_draw: bool, seed: int | None) -> Draw:
        """Return a fresh draw; `seed` is for tests and experiments."""
        text = fresh_seed() if seed is None else f"{seed:064x}"
        return cls(rows, bags, bag_size, text, seed is None, over_draw)

    @property
    def chance(self) -> float:
        """mk/n, the probability that a row is in a bag: the factor of δ over the draw."""
        return inclusion_probability(self.rows, self.bags, self.bag_size)

    def over(self, profile: PrivacyProfile) -> PrivacyProfile:
        """Return the guarantee, if `profile` is the guarantee given the bags."""
        if not self.over_draw:
            return profile
        return SubsampledProfile(profile, self.chance)

    @cached_property
    def members(self) -> NDArray[np.int64]:
        """Row numbers, one line per bag."""
        sample = distinct(self.stream("bags"), self.rows, self.bags * self.bag_size)
        return sample.reshape(self.bags, self.bag_size)

    def table(self) -> pa.Table:
        """Return the bags as (bag, row) pairs, bag by bag."""
        bag = np.repeat(np.arange(self.bags, dtype=np.int32), self.bag_size)
        return pa.table([bag, self.members.reshape(-1)], schema=MEMBERS)

    def stream(self, purpose: str) -> np.random.Generator:
        """Return a public random stream of this draw."""
        return public_stream(self.seed, purpose)

    def to_json(self) -> Document:
        """Return the section `draw` of a claim; sampled-wtd-flag fills in `bag_rank`."""
        return {
            "guarantee": "over-draw" if self.over_draw else "given-bags",
            "holds": OVER if self.over_draw else GIVEN,
            "chance": self.chance,
            "seed": self.seed,
            "random": self.random,
            "bag_rank": None,
            # the format's names of a promise that early claims could rest on
            "min_eigenvalue": None,
            "feature_bound": None,
            "theorem2_terms": None,
        }

    @classmethod
    def from_json(cls, document: Document) -> Draw:
        """Return the draw of a plan or certificate."""
        draw = document["draw"]
        rows, bags, bag_size = (int(document[name]) for name in ("rows", "bags", "bag_size"))
        over_draw = draw["guarantee"] == "over-draw"
        return cls(rows, bags, bag_size, str(draw["seed"]), bool(draw["random"]), over_draw)


def fresh_draw(options: BagOptions, rows: int, bags: int, bag_size: int, delta: float) -> Draw:
    """Draw new bags; refuse a δ over the draw that would leave labels without protection."""
    draw = Draw.new(rows, bags, bag_size, over_draw=options.over_draw, seed=options.bag_seed)
    if draw.over_draw and draw.chance <= delta:
        raise PlanError(
            f"a row is in a bag with probability {draw.chance:.3g} only, so δ = {delta:g} over the "
            "draw would leave labels without any protection; lower δ or leave `over_draw` out"
        )
    return draw


def best_bag_size(
    sizes: Iterable[int], error: Callable[[int], float], design: DesignSummary, noise_cure: str
) -> int:
    """Return the size with the smallest forecast error; refuse if none has a finite one."""
    least, best = min(((error(size), size) for size in sizes), default=(math.inf, 0))
    if least == math.inf:
        raise PlanError(
            f"no size of bags gives a private fit of {design.factor.rank} columns on "
            f"{design.facts.rows:,} rows at this budget; raise ε or δ, {noise_cure}, or use "
            "`mechanism='wtd-flag'`"
        )
    return best


def distinct(stream: np.random.Generator, population: int, count: int) -> NDArray[np.int64]:
    """Return an ordered sample of `count` numbers below `population`, without replacement.

    The first occurrences in a sequence of independent uniform numbers are one. Where most of the
    population is wanted that would take long; the first places of a random order are one too.
    """
    if 2 * count > population:
        return np.argsort(words(stream, population), kind="stable")[:count].astype(np.int64)
    # Words past the last multiple of `population` are left out, so that the rest are uniform.
    limit = np.uint64(2**64 - 1 - 2**64 % population)
    sample = np.empty(0, dtype=np.int64)
    while len(sample) < count:
        drawn = words(stream, 2 * (count - len(sample)) + 64)
        more = (drawn[drawn <= limit] % np.uint64(population)).astype(np.int64)
        candidates = np.concatenate([sample, more])
        sample = candidates[np.sort(np.unique(candidates, return_index=True)[1])]
    return sample[:count]


class BagRows:
    """The encoded features of the rows in bags."""

    def __init__(self, features: FeatureMap, draw: Draw) -> None:
        self.features, self.draw = features, draw
        order = np.argsort(draw.members, axis=None)
        self.wanted = draw.members.reshape(-1)[order]
        self._place = np.argsort(order)  # of the rows of bags, bag by bag, among `wanted`

    def read(self, source: Source, engine: Engine) -> BagRows:
        """Read the features in one pass; labels are not read."""
        self._read(source, engine, ChosenRows(self.features, self.wanted))
        return self

    def read_labelled(self, source: Source, engine: Engine) -> NDArray[np.float64]:
        """Read the features and return the labels, one line per bag, in one pass."""
        labels = self._read(source, engine, ChosenRows(self.features, self.wanted, labels=True))
        return np.asarray(labels[self._place]).reshape(self.draw.members.shape)

    def _read(self, source: Source, engine: Engine, rows: ChosenRows) -> NDArray[np.float64]:
        total, self._encoded, labels = engine.run_pass("rows of bags", source, rows)
        check_rows(total, self.draw.rows)
        return labels

    def bag(self, number: int) -> Encoded:
        """Return the rows of one bag."""
        size = self.draw.bag_size
        return self._encoded.take(self._place[number * size : (number + 1) * size])

    def blocks(self) -> Iterator[tuple[slice, Encoded]]:
        """Yield the bags' numbers and rows in order, as many at once as suits the processor."""
        count, size = self.draw.members.shape
        at_once = bags_at_once(self.features, size)
        for start in range(0, count, at_once):
            stop = min(count, start + at_once)
            yield slice(start, stop), self._encoded.take(self._place[start * size : stop * size])

    def stacks(self, engine: Engine) -> Iterator[tuple[slice, StackedBags]]:
        """Yield the same with the Cholesky factors of the bags."""
        with engine.progress("bags", self.draw.bags) as advance:
            for numbers, encoded in self.blocks():
                stack = StackedBags(self.features, encoded, numbers.stop - numbers.start)
                yield numbers, stack
                advance(stack.bags)

    def digest(self) -> str:
        """Return SHA-256 of rows and features: public, and equal only for the same rows."""
        hasher = hashlib.sha256(f"{self.draw.rows} {self.draw.members.shape}".encode())
        arrays: list[NDArray[Any]] = [self.wanted, self._encoded.numbers, *self._encoded.categories]
        for array in arrays:
            hasher.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return hasher.hexdigest()


def read_run(
    plan: MechanismPlan, draw: Draw, source: Source, engine: Engine, randomness: Randomness
) -> tuple[BagRows, NDArray[np.float64]]:
    """Read the rows of a run's bags and their labels, in one pass; refuse other features."""
    randomness.spend()
    rows = BagRows(plan.features, draw)
    values = rows.read_labelled(source, engine)
    plan.check_feature_sums(rows.digest())
    return rows, values


# ---- verification


def check_members(table: pa.Table, draw: Draw) -> list[str]:
    """Return where a table of bags is not the one that the certificate's seed gives."""
    problems, seed = [], bytes.fromhex(draw.seed)
    # Of 32 random bytes half are not all 0, and more than 16 differ, but for a chance of 1e-12.
    if draw.random and not (any(seed[:16]) and len(set(seed)) > 16):
        problems.append("certificate: draw.seed was not drawn at random, whatever draw.random says")
    if not table.select(["bag", "row"]).equals(draw.table()):
        problems.append(f"{BAGS} does not hold the bags that the certificate's seed gives")
    return problems


def released_rows(release: Release, draw: Draw, source: Source, engine: Engine) -> BagRows:
    """Return the bags' rows as the table has them; refuse others."""
    rows = BagRows(release.features, draw).read(source, engine)
    if rows.digest() != release.certificate["digests"]["feature_sums"]:
        raise DataError("the features of the bags' rows are not those of the release")
    return rows


# ---- labeldp account
#
# `conditional` is ε at the δ asked for, and δ at the ε asked for, if the row is in a bag;
# `unconditional`, with a number of bags, counts the chance mk/n of that; `max_bags` is the most
# bags within the budget over the draw.


def account_bags(question: AccountQuestion, profile: PrivacyProfile) -> Document:
    """Return what one accountant says of bags; `profile` is that of a row in a bag."""
    rows, size, (epsilon, delta) = question.rows, question.needed("bag_size"), question.budget

    def costs(each: PrivacyProfile) -> Document:
        needed = epsilon_at(each, delta)
        return {
            "epsilon": needed if math.isfinite(needed) else None,
            "delta": each.delta(epsilon).upper,
        }

    chance = inclusion_probability(rows, question.bags or 1, size)  # refuses more than there are
    most = most_bags(profile, rows, size, epsilon, delta)
    answer: Document = {"conditional": costs(profile), "max_bags": most}
    if question.bags is not None:
        answer["unconditional"] = {"chance": chance, **costs(SubsampledProfile(profile, chance))}
    if answer["conditional"]["epsilon"] is None:
        answer["reason"] = f"no ε is enough for δ = {delta:g} when the row is in a bag"
    return answer
