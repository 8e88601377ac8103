"""`labeldp audit`: try to break a mechanism's claim on a table's own features (safety §6).

The labels are made up, so nothing here is private, and the table's own labels are not read. Two
neighbouring tables differ in the labels of one row (or person), by the whole label range.

    1. find the row or person whose labels move the release most           -> worst_rows
    2. make two tables: its labels at the low end, and at the high end     -> Pair
    3. release both a few times with the same randomness: public parts must be equal, noise must be
       equal, numbers must stand on the public grid                        -> Pair.whole_releases
    4. draw from both very often, by the functions that a release calls after its pass -> Pair.draw
    5. compare the noise with its exact law, and its scale with the claim's -> Pair.check_laws
    6. attack: bound ε from below by how well the two can be told apart    -> lower_bound

To whoever knows all labels, a release is mean + scale·noise, part by part, and every noise here has
the density e^{−size(x)} up to a constant. The privacy loss of a release is thus a difference of two
sizes. What is known of a table is computed here in plain floating point, row by row, apart from the
exact sums that releases are made of.

An audit that passes proves nothing: it has not found what it looked for.
"""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special, stats

from labeldp.arrow_util import arrow_numbers
from labeldp.data.persons import read_person_hashes
from labeldp.data.readers import TableReader
from labeldp.data.source import TABLE_OPTIONS, Source, as_source
from labeldp.display import ReprMixin, format_budget
from labeldp.errors import InputError, positive
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import ExactLeastSquares, LabelCrossProducts, LabelGrid
from labeldp.exact.row_norms import Weights
from labeldp.mechanisms import options
from labeldp.mechanisms.bags import BagRows
from labeldp.mechanisms.noisy_rows import NoisyRowsClaim, noisy_labels
from labeldp.mechanisms.registry import mechanism_named
from labeldp.mechanisms.residual_floor import AggregateLabelSampler, FloorClaim, establish_floor
from labeldp.mechanisms.sampled_noisy_wtd_lag import (
    BagWeights,
    SampledNoisyWtdLagClaim,
    draw_sums,
    label_grid,
)
from labeldp.mechanisms.sampled_wtd_flag import LabelledBags, SampledWtdFlagClaim
from labeldp.mechanisms.shaped_flag import (
    ShapedFlagClaim,
    aggregate_labels,
    second_moment,
)
from labeldp.mechanisms.wtd_flag import WtdFlagClaim, draw_aggregates
from labeldp.passes.engine import Engine, LocalEngine
from labeldp.planning import Plan, plan
from labeldp.releases.certificate import FloorOutcome
from labeldp.releases.files import Release
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness, public_stream
from labeldp.spark.engine import engine_for

Reals = NDArray[np.float64]
Rows = NDArray[np.intp]
Observation = dict[str, Reals]
"""What releases publish, by names that the mechanism gives; the first axis counts releases."""
RngFactory = Callable[[], Randomness]
"""Returns the random streams of one more release."""

SECONDS = 30.0
"""For the draws; whole releases take as long as they take."""
NUMBERS, RELEASES = 400_000, 20_000
"""Drawn from each table, where there is time for so many."""
ALARM = 1e-5
"""A smaller p-value of a test is a failure."""
CONFIDENCE = 0.999
"""Of the lower bound of ε."""
SIDES = ("low", "high")
"""The two neighbours, by the labels of the worst rows."""
FLAT, ENDS = "flat", "ends"
"""Made-up labels: all at the low end, so that features explain all of them; each at one end."""
_WHOLE_RELEASES = 2
_NUMBERS_AT_ONCE = 1 << 16
_WEIGHTS_AT_ONCE = 1 << 20
_ROUNDING = 1e-9


# ---- the laws of noise


class Noise(ABC):
    """Noise of scale 1 with the density e^{−size(x)} up to a constant; one row per release."""

    power: ClassVar[float]
    """The size grows with this power of the scale."""

    @abstractmethod
    def size(self, x: Reals) -> Reals:
        """Return the size of every row; of k numbers it has the law Gamma(shape(k))."""

    def shape(self, numbers: int) -> float:
        return float(numbers)

    def norm(self, x: Reals) -> Reals:
        """Return the norm in which moves of the mean are priced, of every row."""
        return self.size(x)

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> Reals:
        """Return ideal noise, from another generator than a release's."""

    @abstractmethod
    def uniforms(self, x: Reals, rng: np.random.Generator) -> Reals:
        """Return independent uniforms made of the noise."""


class NormalNoise(Noise):
    power = 2.0

    def size(self, x: Reals) -> Reals:
        return np.asarray(0.5 * np.square(x).sum(axis=1))

    def shape(self, numbers: int) -> float:
        return numbers / 2

    def norm(self, x: Reals) -> Reals:
        return np.asarray(np.linalg.norm(x, axis=1))

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> Reals:
        return rng.standard_normal(shape)

    def uniforms(self, x: Reals, rng: np.random.Generator) -> Reals:  # noqa: ARG002
        return np.asarray(special.ndtr(x))


class LaplaceNoise(Noise):
    power = 1.0

    def size(self, x: Reals) -> Reals:
        return np.asarray(np.abs(x).sum(axis=1))

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> Reals:
        return rng.laplace(size=shape)

    def uniforms(self, x: Reals, rng: np.random.Generator) -> Reals:  # noqa: ARG002
        half = 0.5 * np.exp(-np.abs(x))
        return np.where(x < 0, half, 1 - half)


class RadialNoise(Noise):
    power = 1.0

    def size(self, x: Reals) -> Reals:
        return np.asarray(np.linalg.norm(x, axis=1))

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> Reals:
        normal = rng.standard_normal(shape)
        lengths = rng.gamma(shape[1], size=shape[0])
        return np.asarray(normal / self.size(normal)[:, None] * lengths[:, None])

    def uniforms(self, x: Reals, rng: np.random.Generator) -> Reals:
        # a uniform direction times an independent χ is a vector of independent normals
        lengths = np.sqrt(rng.chisquare(x.shape[1], len(x)))
        return np.asarray(special.ndtr(x / self.size(x)[:, None] * lengths[:, None]))


NORMAL, LAPLACE, RADIAL = NormalNoise(), LaplaceNoise(), RadialNoise()


@dataclass(frozen=True)
class NoiseComponent:
    """Numbers of one kind in some releases, as noise about what a table's labels make of them."""

    name: str
    shown: Reals
    """A row for each release."""
    mean: Reals
    scale: Reals
    """A column, one for each release; or one for all; or a row, one for each number."""
    law: Noise
    grid: int
    """The exponent of the public step."""
    most: float | None = None
    """The claim's bound of how far a neighbour moves the mean, in the norm of the law."""
    least: float = 0.0
    """The claim's bound of the scale."""

    def noise_of(self, shown: Reals) -> Reals:
        """Return the noise that was added, if this is the table."""
        return np.asarray((shown - self.mean) / self.scale)

    def surprise(self, shown: Reals) -> Reals:
        """Return −log of the density of every release, up to a constant."""
        scales = np.log(np.broadcast_to(self.scale, shown.shape)).sum(axis=1)
        return np.asarray(self.law.size(self.noise_of(shown)) + scales)

    def loss(self, other: NoiseComponent, shown: Reals) -> Reals:
        """Return the privacy loss of every release: the log of the ratio of the densities.

        Rounded, because Laplace noise has a few losses again and again up to rounding.
        """
        return np.round(other.surprise(shown) - self.surprise(shown), 9)

    def distance(self, other: NoiseComponent) -> float:
        """Return the largest difference of the means; of several scales the smallest counts."""
        each = self.scale / self.scale.min() if self.scale.shape[1] > 1 else 1.0
        return float(self.law.norm(np.atleast_2d((self.mean - other.mean) / each)).max())


# ---- tables whose labels are known


class KnownDataset(ABC):
    """A table whose labels are known, and how a mechanism's claim about it is tried."""

    private: ClassVar[tuple[str, ...]] = ()
    """What in a certificate, beside seal and digests, follows from labels and noise."""

    @abstractmethod
    def __init__(self, plan: Plan, source: Source, engine: Engine, rows: Rows) -> None:
        """`rows` are those whose labels an attacker asks about."""

    @staticmethod
    @abstractmethod
    def moves(plan: Plan, pieces: Iterable[Reals]) -> Reals:
        """Return how far each row's label moves the release, from encoded rows in pieces."""

    @staticmethod
    @abstractmethod
    def most(plan: Plan) -> float:
        """Return the claim's bound of that, for all rows that are protected together."""

    @staticmethod
    def any_labels(plan: Plan) -> bool:  # noqa: ARG004
        """Return whether any labels can be released, even those that features explain."""
        return True

    @staticmethod
    def refusal(plan: Plan) -> str | None:  # noqa: ARG004
        """Return why a plan cannot be tried, if it cannot."""
        return None

    @abstractmethod
    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        """Return so many releases, by the functions that a release calls after its pass."""

    @abstractmethod
    def read(self, release: Release) -> Observation:
        """Return what one release shows."""

    @abstractmethod
    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        """Return the same as noise about what this table's labels make of it."""


def rounded_labels(labels: LabelGrid, values: Reals) -> Reals:
    """Return labels as a release reads them: rounded to their public grid."""
    return np.ldexp(labels.codes(values) + labels.centre, labels.exponent)


def least_squares(plan: Plan, source: Source) -> tuple[Reals, Reals, float]:
    """Return Xᵀy, β̂ and σ in plain floating point; rows count before their scales.

    The first pass sums, the next two reduce the rounding error of the fit.
    """
    slope = np.zeros(len(plan.features.names))
    first, square = slope, 0.0
    for number in range(3):
        cross, gram, square = np.zeros(len(slope)), np.zeros((len(slope),) * 2), 0.0
        for batch, labels in source.labelled_batches(columns=plan.features.columns):
            rows = plan.features.integers(plan.features.encode(batch))
            left = rounded_labels(plan.labels, labels) - rows @ slope
            cross, gram = cross + rows.T @ left, gram + rows.T @ rows
            square += float(left @ left)
        if number == 0:
            first = cross
        if number < 2:
            sizes = np.sqrt(np.diag(gram))  # columns of one size, whatever their units are
            scaled = gram / np.outer(sizes, sizes)
            slope = slope + np.linalg.solve(scaled, cross / sizes) / sizes
    return first, slope, math.sqrt(square)


class NoisyRowsDataset(KnownDataset):
    """Every label is noise about itself (theory §11)."""

    def __init__(self, plan: Plan, source: Source, engine: Engine, rows: Rows) -> None:  # noqa: ARG002
        assert isinstance(plan.claim, NoisyRowsClaim)
        self._claim, self._labels, self._rows = plan.claim, plan.labels, rows
        self._values = np.concatenate([labels for _, labels in source.labelled_batches()])

    @staticmethod
    def moves(plan: Plan, pieces: Iterable[Reals]) -> Reals:  # noqa: ARG004
        return np.ones(plan.features.rows)

    @staticmethod
    def most(plan: Plan) -> float:
        return float(plan.claim.protected)

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        values = np.tile(self._values[self._rows], releases)
        labels = noisy_labels(values, self._labels, self._claim.noise, rng_factory())
        return {"labels": labels.reshape(releases, -1)}

    def read(self, release: Release) -> Observation:
        return {"labels": release.labels[None]}

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        # a whole release shows all rows, a draw only those that an attacker asks about
        whole = shown["labels"].shape[1] == len(self._values)
        values = self._values if whole else self._values[self._rows]
        noise = self._claim.noise
        component = NoiseComponent(
            "labels",
            shown["labels"],
            rounded_labels(self._labels, values),
            np.array([[noise.scale]]),
            LAPLACE if noise.name == "laplace" else NORMAL,
            noise.grid,
            noise.reach(self._claim.width, self._claim.protected),
        )
        return (component,)


class ShapedFlagDataset(KnownDataset):
    """Aggregates are noise about C·Xᵀy, and the second moment about Σ(y − c)² (theory §9, §15)."""

    private = ("second_moment",)

    def __init__(self, plan: Plan, source: Source, engine: Engine, rows: Rows) -> None:  # noqa: ARG002
        self._claim, self._weights = self._facts(plan)
        self._labels = plan.labels
        sums = GramAccumulator(plan.features), LabelCrossProducts(plan.features, plan.labels)
        self._gram, self._moments = engine.run_pass("label sums", source, *sums)
        cross, *_ = least_squares(plan, source)
        self._mean = self._weights.matrix @ cross

    @staticmethod
    def _facts(plan: Plan) -> tuple[ShapedFlagClaim, Weights]:
        assert isinstance(plan.claim, ShapedFlagClaim)
        assert isinstance(plan.weights, Weights)
        return plan.claim, plan.weights

    @staticmethod
    def moves(plan: Plan, pieces: Iterable[Reals]) -> Reals:
        """Return ‖C·x‖ of every row."""
        matrix = ShapedFlagDataset._facts(plan)[1].matrix
        return np.concatenate([np.linalg.norm(rows @ matrix.T, axis=1) for rows in pieces])

    @staticmethod
    def most(plan: Plan) -> float:
        return ShapedFlagDataset._facts(plan)[0].length

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        randomness, weights, claim = rng_factory(), self._weights, self._claim
        grid = rounded_noise.grid_for(claim.noise_std)
        # normal noise is drawn number by number, so that the rows of C may be repeated
        radial = claim.noise_law == options.RADIAL
        once = 1 if radial else max(1, _WEIGHTS_AT_ONCE // weights.rank)
        drawn = []
        for start in range(0, releases, once):
            copies = Weights(
                weights.kept, np.tile(weights.matrix, (min(once, releases - start), 1))
            )
            sums = self._gram, self._moments
            drawn.append(aggregate_labels(copies, *sums, self._labels, claim, grid, randomness))
        shown = {"aggregates": np.concatenate(drawn).reshape(releases, weights.rank)}
        if claim.second_moment_noise_std is not None:
            args = claim, self._moments, self._labels, randomness
            squares = [[second_moment(*args)] for _ in range(releases)]
            shown["second moment"] = np.array(squares, dtype=np.float64)
        return shown

    def read(self, release: Release) -> Observation:
        square = release.certificate.get("second_moment")
        shown = {"aggregates": release.labels[None]}
        return shown if square is None else shown | {"second moment": np.array([[square]])}

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        claim, radial = self._claim, self._claim.noise_law == options.RADIAL
        aggregates = NoiseComponent(
            "aggregates",
            shown["aggregates"],
            self._mean,
            np.array([[claim.scale]]),
            RADIAL if radial else NORMAL,
            rounded_noise.grid_for(claim.noise_std),
            claim.width * claim.length,
        )
        if claim.second_moment_noise_std is None or claim.single_scale is None:
            return (aggregates,)
        square = NoiseComponent(
            "second moment",
            shown["second moment"],
            np.array([math.ldexp(float(self._moments.square), 2 * self._labels.exponent)]),
            np.array([[claim.single_scale]]),
            LAPLACE if radial else NORMAL,
            rounded_noise.grid_for(claim.second_moment_noise_std),
            claim.single_reach,
        )
        return aggregates, square


class FloorDataset(KnownDataset):
    """Labels are noise about Z·β̂ with the deviation √(σ² + added), given Z (theory §3, §6).

    A measured floor is another part, σ̂ about σ. What was added for it follows from σ̂ alone, so the
    density of a release is that of σ̂ times that of the labels given σ̂ and Z.
    """

    private = ("floor", "utility", "label_noise_std")

    @staticmethod
    def any_labels(plan: Plan) -> bool:
        """A declared floor, or one that is only measured, needs a large residual."""
        assert isinstance(plan.claim, FloorClaim)
        return plan.claim.mode.adds

    def read(self, release: Release) -> Observation:
        outcome = FloorOutcome.of(release.certificate)
        assert outcome is not None
        numbers = {"design": release.design[None], "labels": release.labels[None]}
        return numbers | self._floor_numbers([outcome])

    @staticmethod
    def _floor_numbers(outcomes: list[FloorOutcome]) -> Observation:
        measured = [[each.measured] for each in outcomes if each.measured is not None]
        added = np.array([[each.added_variance] for each in outcomes])
        return {"added": added} | ({"measured": np.array(measured)} if measured else {})

    @staticmethod
    def _components(
        claim: FloorClaim, shown: Observation, mean: Reals, roots: Reals
    ) -> tuple[NoiseComponent, ...]:
        """`roots` holds σ of the table, or of every bag; the smallest is measured."""
        floor = math.sqrt(claim.floor)
        labels = NoiseComponent(
            "aggregates",
            shown["labels"],
            mean,
            np.sqrt(roots**2 + shown["added"]),
            NORMAL,
            rounded_noise.grid_for(floor),
            least=floor * (1 - _ROUNDING),
        )
        if claim.measurement is None:
            return (labels,)
        noise = claim.measurement.noise(claim.width)
        measured = NoiseComponent(
            "floor",
            shown["measured"],
            np.array([roots.min()]),
            np.array([[noise]]),
            NORMAL,
            rounded_noise.grid_for(noise),
            claim.width * math.sqrt(claim.protected),
        )
        return measured, labels


class WtdFlagDataset(FloorDataset):
    """wtd-flag: one β̂ and one σ for all aggregates."""

    def __init__(self, plan: Plan, source: Source, engine: Engine, rows: Rows) -> None:  # noqa: ARG002
        assert isinstance(plan.claim, WtdFlagClaim)
        self._plan, self._claim, features = plan, plan.claim, plan.features
        sums = GramAccumulator(features), LabelCrossProducts(features, plan.labels)
        gram, moments = engine.run_pass("label sums", source, *sums)
        self._factor = verified_cholesky(gram, features)
        self._residual = ExactLeastSquares(self._factor, moments)
        _, slope, root = least_squares(plan, source)
        self._slope, self._roots = slope / features.kept_scales, np.array([root])

    @staticmethod
    def moves(plan: Plan, pieces: Iterable[Reals]) -> Reals:
        """Return the leverage of every row."""
        assert plan.factor is not None  # planning has just made it
        root = plan.factor.root().T
        whitened = (np.linalg.solve(root, rows.T) for rows in pieces)
        return np.concatenate([np.square(each).sum(axis=0) for each in whitened])

    @staticmethod
    def most(plan: Plan) -> float:
        assert isinstance(plan.claim, WtdFlagClaim)
        return (plan.claim.max_leverage or 1.0) * plan.claim.protected

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        """Aggregates are independent, so those of all releases of one floor are drawn as one."""
        randomness, claim, features = rng_factory(), self._claim, self._plan.features
        labels, bags = self._plan.labels, claim.bags
        grid = rounded_noise.grid_for(math.sqrt(claim.floor))
        outcomes = [
            establish_floor(claim, [self._residual], labels, randomness) for _ in range(releases)
        ]
        added = np.array([outcome.added_variance for outcome in outcomes])
        designs = np.empty((releases, bags, self._factor.rank))
        drawn = np.empty((releases, bags))
        for variance in np.unique(added):
            here = np.flatnonzero(added == variance)
            law = AggregateLabelSampler(self._residual, labels, float(variance), features.intercept)
            blocks = draw_aggregates(self._factor, law, bags * len(here), grid, rng_factory())
            design, sums = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
            designs[here] = (design * features.kept_scales).reshape(len(here), bags, -1)
            drawn[here] = sums.reshape(len(here), bags)
        return {"design": designs, "labels": drawn} | self._floor_numbers(outcomes)

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        return self._components(self._claim, shown, shown["design"] @ self._slope, self._roots)


class SampledWtdFlagDataset(FloorDataset):
    """sampled-wtd-flag: β̂ and σ of every bag; the smallest σ is the one measured."""

    def __init__(self, plan: Plan, source: Source, engine: Engine, rows: Rows) -> None:  # noqa: ARG002
        self._plan, self._claim, features = plan, self._checked(plan), plan.features
        bag_rows = BagRows(features, self._claim.draw)
        values = bag_rows.read_labelled(source, engine)
        self._bags = LabelledBags(plan.labels, bag_rows, values, engine)
        self._residuals = self._bags.smallest_residuals()
        slopes, roots = [], []
        for bag in range(self._claim.bags):
            design = features.integers(bag_rows.bag(bag))
            basis, slope = _basis(design), np.linalg.pinv(_unit_columns(design), rcond=_ROUNDING)
            labels = rounded_labels(plan.labels, values[bag])
            slopes.append(slope @ labels / _column_sizes(design))
            left = labels - basis @ (basis.T @ labels)
            left -= basis @ (basis.T @ left)  # once more, for what rounding left
            roots.append(np.linalg.norm(left))
        self._slopes, self._roots = np.array(slopes) / features.kept_scales, np.array(roots)

    @staticmethod
    def _checked(plan: Plan) -> SampledWtdFlagClaim:
        assert isinstance(plan.claim, SampledWtdFlagClaim)
        return plan.claim

    @staticmethod
    def moves(plan: Plan, pieces: Iterable[Reals]) -> Reals:
        """Return the leverage of every row in its bag; a row that is in none moves nothing."""
        draw, first, kept = SampledWtdFlagDataset._checked(plan).draw, 0, []
        inside = np.zeros(draw.rows, dtype=bool)
        inside[draw.members] = True
        for rows in pieces:
            kept.append(rows[inside[first : first + len(rows)]])
            first += len(rows)
        encoded, place = np.concatenate(kept), np.cumsum(inside) - 1
        leverages = np.zeros(draw.rows)
        for members in draw.members:
            leverages[members] = np.square(_basis(encoded[place[members]])).sum(axis=1)
        return leverages

    @staticmethod
    def most(plan: Plan) -> float:
        claim = SampledWtdFlagDataset._checked(plan)
        return (claim.max_leverage or 1.0) if claim.accountant == "exact" else 1.0

    @staticmethod
    def refusal(plan: Plan) -> str | None:
        claim = SampledWtdFlagDataset._checked(plan)
        if claim.draw.over_draw:
            return (
                "the claim is about all draws of bags, and an audit tries one: leave `over_draw` "
                "out"
            )
        return None

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        randomness, claim = rng_factory(), self._claim
        grid = rounded_noise.grid_for(math.sqrt(claim.floor))
        outcomes = [
            establish_floor(claim, self._residuals, self._plan.labels, randomness)
            for _ in range(releases)
        ]
        blocks = [
            block
            for outcome in outcomes
            for block in self._bags.draw(outcome.added_variance, grid, randomness)
        ]
        design, labels = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        design = (design * self._plan.features.kept_scales).reshape(releases, claim.bags, -1)
        numbers = {"design": design, "labels": labels.reshape(releases, claim.bags)}
        return numbers | self._floor_numbers(outcomes)

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        mean = np.einsum("rbd,bd->rb", shown["design"], self._slopes)
        return self._components(self._claim, shown, mean, self._roots)


def _column_sizes(rows: Reals) -> Reals:
    sizes = np.linalg.norm(rows, axis=0)
    return np.where(sizes > 0, sizes, 1.0)


def _unit_columns(rows: Reals) -> Reals:
    return np.asarray(rows / _column_sizes(rows))


def _basis(rows: Reals) -> Reals:
    """Return orthonormal columns that span those of a bag, whatever their units are."""
    left, values, _ = np.linalg.svd(_unit_columns(rows), full_matrices=False)
    return np.asarray(left[:, values > _ROUNDING * values[0]])


class SampledNoisyWtdLagDataset(KnownDataset):
    """Every bag's label is noise about Σ w·y, with its public deviation."""

    def __init__(self, plan: Plan, source: Source, engine: Engine, rows: Rows) -> None:  # noqa: ARG002
        self._claim, self._labels = self._checked(plan), plan.labels
        self._weights = self._claim.weights()
        self._values = BagRows(plan.features, self._claim.draw).read_labelled(source, engine)
        self._noise = self._weights.noise(self._claim.noise_std)
        values = rounded_labels(self._labels, self._values)
        self._mean = np.einsum("ij,ij->i", self._weights.values, values)

    @staticmethod
    def _checked(plan: Plan) -> SampledNoisyWtdLagClaim:
        assert isinstance(plan.claim, SampledNoisyWtdLagClaim)
        return plan.claim

    @staticmethod
    def moves(plan: Plan, pieces: Iterable[Reals]) -> Reals:  # noqa: ARG004
        """Return μ of every row: how far its label moves its bag's sum, over the noise there."""
        claim = SampledNoisyWtdLagDataset._checked(plan)
        weights = claim.weights()
        each = np.abs(weights.values) * claim.width / weights.noise(claim.noise_std)[:, None]
        mu = np.zeros(claim.draw.rows)
        mu[claim.draw.members] = each
        return mu

    @staticmethod
    def most(plan: Plan) -> float:
        return SampledNoisyWtdLagDataset._checked(plan).mu or 0.0

    @staticmethod
    def refusal(plan: Plan) -> str | None:
        claim = SampledNoisyWtdLagDataset._checked(plan)
        if claim.mu is None or claim.draw.over_draw:
            return (
                "the claim is about all draws of bags and weights, and an audit tries one: audit "
                "`accountant='exact'` given the bags"
            )
        return None

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        randomness, weights, grid = rng_factory(), self._weights, label_grid(self._noise)
        once = max(1, _WEIGHTS_AT_ONCE // weights.values.size)
        drawn = []
        for start in range(0, releases, once):
            times = (min(once, releases - start), 1)
            copies = BagWeights(np.tile(weights.values, times), np.tile(weights.noisy, times))
            values, std = np.tile(self._values, times), self._claim.noise_std
            drawn.append(draw_sums(copies, values, self._labels, std, grid, randomness))
        return {"labels": np.concatenate(drawn).reshape(releases, -1)}

    def read(self, release: Release) -> Observation:
        return {"labels": release.labels[None]}

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        least = float(self._noise.min())
        component = NoiseComponent(
            "labels",
            shown["labels"],
            self._mean,
            self._noise[None],
            NORMAL,
            label_grid(self._noise),
            most=(self._claim.mu or 0.0) * least,
            least=least * (1 - _ROUNDING),
        )
        return (component,)


KNOWN_DATASETS: dict[str, type[KnownDataset]] = {
    "noisy-rows": NoisyRowsDataset,
    "shaped-flag": ShapedFlagDataset,
    "wtd-flag": WtdFlagDataset,
    "sampled-wtd-flag": SampledWtdFlagDataset,
    "sampled-noisy-wtd-lag": SampledNoisyWtdLagDataset,
}
"""How each mechanism is audited, by its name."""


# ---- neighbouring tables with made-up labels


@dataclass(frozen=True, kw_only=True)
class MadeUpLabels(TableReader):
    """A reader that takes features from another one, and labels from an array.

    Labels take their place as the table is read, so that every engine and every mechanism sees an
    ordinary table.
    """

    inner: TableReader = field(repr=False)
    label: str
    labels: Reals = field(repr=False)
    first: int = 0

    def read(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        there = [name for name in columns if name != self.label]
        some = there or [next(n for n in self.inner.schema.names if n != self.label)]
        first = self.first
        for batch in self.inner.batches(some, batch_rows):
            labels = arrow_numbers(self.labels[first : first + batch.num_rows])
            first += batch.num_rows
            known = dict(zip(some, batch.columns, strict=True)) | {self.label: labels}
            yield pa.RecordBatch.from_arrays([known[name] for name in columns], names=columns)

    def units(self) -> tuple[MadeUpLabels, ...]:
        units = self.inner.units()
        if len(units) == 1:
            return (replace(self, inner=units[0]),)
        starts = np.cumsum([0, *(unit.rows or 0 for unit in units)])
        return tuple(
            replace(self, inner=unit, rows=unit.rows, first=self.first + int(start))
            for unit, start in zip(units, starts, strict=False)
        )


def without_labels(source: Source) -> Source:
    """Return the table with a place for made-up labels.

    No row is dropped for want of a label, since that would be seen from the others.
    """
    if source.reader.on_cluster:
        raise InputError("an audit reads the table here; give it a file or a frame, not Spark's")
    if source.label is None or source.label_range is None:
        raise InputError("an audit needs the label's name and range; give `label`, `label_range`")
    inner, schema = source.reader, source.reader.schema
    place = schema.get_field_index(source.label)
    reader = MadeUpLabels(
        stored_schema=schema.set(place, pa.field(source.label, pa.float64())),
        format=inner.format,
        paths=inner.paths,
        rows=inner.rows,
        notes=inner.notes,
        options=inner.options,
        inner=inner,
        label=source.label,
        labels=np.zeros(0),
    )
    return replace(source, reader=reader, clip=False, drop_missing_labels=False)


def worst_rows(plan: Plan, dataset: type[KnownDataset], source: Source) -> tuple[Rows, float]:
    """Return the rows that are protected together and move most, and how far they do (step 1)."""
    batches = partial(source.feature_batches, plan.features.columns)
    encoded = (plan.features.integers(plan.features.encode(batch)) for batch in batches())
    each = dataset.moves(plan, encoded)
    hashes = [whose for batch in batches() if (whose := read_person_hashes(batch)) is not None]
    if not hashes:
        place = int(np.argmax(each))
        return np.array([place]), float(each[place])
    _, person = np.unique(np.concatenate(hashes), return_inverse=True)
    sums = np.bincount(person, each)
    worst = int(np.argmax(sums))
    return np.flatnonzero(person == worst), float(sums[worst])


# ---- what draws say of their law

_KEPT = 1_000_000
"""Numbers of a part that are held for the test of their shape."""
_FEW = 20
"""So few releases need an exact test: the asymptotic one calls three of them impossible."""


@dataclass
class Record:
    """Sizes, shapes and losses of one part, as releases come."""

    part: NoiseComponent = field(repr=False)
    size: float = 0.0
    freedom: float = 0.0
    numbers: int = 0
    moved: float = 0.0
    """The largest difference of the means, in the law's norm."""
    narrowest: float = math.inf
    """The smallest scale."""
    uniforms: list[Reals] = field(default_factory=list, repr=False)
    ranks: list[Reals] = field(default_factory=list, repr=False)
    losses: list[Reals] = field(default_factory=list, repr=False)
    ideal: list[Reals] = field(default_factory=list, repr=False)

    def add(self, mine: NoiseComponent, theirs: NoiseComponent, rng: np.random.Generator) -> Reals:
        """Note what a part of some releases shows, and return its losses.

        A number is spread over its cell of the grid, whose width is 2⁻¹⁰ of the scale.
        """
        step = math.ldexp(1.0, mine.grid)
        shown = mine.shown + rng.uniform(-0.5 * step, 0.5 * step, mine.shown.shape)
        noise, law = mine.noise_of(shown), mine.law
        sizes, shape = law.size(noise), law.shape(noise.shape[1])
        self.size += float(sizes.sum())
        self.freedom += shape * len(sizes)
        if self.numbers < _KEPT:
            self.uniforms.append(law.uniforms(noise, rng).ravel())
            self.ranks.append(special.gammainc(shape, sizes))
        self.numbers += noise.size
        self.narrowest = min(self.narrowest, float(np.min(mine.scale)))
        self.moved = max(self.moved, mine.distance(theirs))
        ideal = mine.mean + mine.scale * law.draw(rng, noise.shape)
        self.ideal.append(mine.loss(theirs, ideal))
        self.losses.append(mine.loss(theirs, shown))
        return self.losses[-1]

    def p_values(self) -> Iterator[tuple[str, float]]:
        """Yield p-values of the scale, of single numbers, of whole releases and of the loss."""
        below = float(special.gammainc(self.freedom, self.size))
        above = float(special.gammaincc(self.freedom, self.size))
        yield "scale", min(1.0, 2 * min(below, above))
        for name, values in (("numbers", self.uniforms), ("sizes", self.ranks)):
            yield name, float(stats.kstest(np.concatenate(values), "uniform").pvalue)
        yield "loss", same_law(np.concatenate(self.losses), np.concatenate(self.ideal))

    @property
    def notices(self) -> float:
        """The relative error of the scale that would be noticed in 99.9 % of audits."""
        errors = -float(special.ndtri(0.5 * ALARM)) - float(special.ndtri(0.001))
        return errors / (self.part.law.power * math.sqrt(self.freedom))

    @property
    def priced(self) -> bool:
        """Whether neighbours are as near, and noise as wide, as the claim says."""
        near = self.part.most is None or self.moved <= self.part.most * (1 + 1e-9)
        return near and self.narrowest >= self.part.least


def same_law(one: Reals, other: Reals) -> float:
    """Return the p-value that two samples have one law (Kolmogorov and Smirnov)."""
    with warnings.catch_warnings():  # near 1 the exact p-value may fail by rounding, and says so
        warnings.simplefilter("ignore", RuntimeWarning)
        method = "exact" if len(one) <= _FEW else "asymp"
        return float(stats.ks_2samp(one, other, method=method).pvalue)


class Evidence:
    """Releases of one table, compared with its neighbour."""

    def __init__(self, mine: KnownDataset, theirs: KnownDataset, rng: np.random.Generator) -> None:
        self.mine, self.theirs, self._rng = mine, theirs, rng
        self.records: dict[str, Record] = {}
        self._losses: list[Reals] = []

    def add(self, shown: Observation) -> None:
        """Note what some releases show."""
        total: float | Reals = 0.0
        for mine, theirs in zip(self.mine.parts(shown), self.theirs.parts(shown), strict=True):
            record = self.records.setdefault(mine.name, Record(mine))
            total = total + record.add(mine, theirs, self._rng)
        self._losses.append(np.asarray(total))

    @property
    def releases(self) -> int:
        return sum(map(len, self._losses))

    @property
    def numbers(self) -> int:
        return sum(record.numbers for record in self.records.values())

    @property
    def losses(self) -> Reals:
        return np.concatenate(self._losses)

    def fill(self, seconds: float, seeds: Iterator[int]) -> None:
        """Draw until there is enough, or the time is over; calls grow with the time left."""
        start, releases, once, numbers = time.monotonic(), 0, 1, 0
        while self.numbers < NUMBERS or self.releases < RELEASES:
            before = self.numbers
            self.add(self.mine.draw(once, lambda: Randomness.experiment(next(seeds))))
            numbers, releases = numbers + self.numbers - before, releases + once
            spent = time.monotonic() - start
            left = int((seconds - spent) * releases / spent)
            if left < 1:
                return
            once = max(1, min(2 * once, left, _NUMBERS_AT_ONCE * releases // numbers))


def lower_bound(mine: Reals, theirs: Reals, delta: float, attacks: int) -> float:
    """Return a lower bound of ε, as the releases of two tables show, at the level of `CONFIDENCE`.

    `mine` are the losses of releases of the one table, `theirs` the same ratios of releases of the
    other. A release is taken for the first table's if its loss is above a cut, which is chosen by
    the one half of them; the other half bounds how often that is right and wrong (Clopper and
    Pearson), so that hits ≤ e^ε·alarms + δ bounds ε. `attacks` share the level.
    """
    level = (1 - CONFIDENCE) / (2 * attacks)
    half = min(len(mine), len(theirs)) // 2

    def bounds(mine: Reals, theirs: Reals, cuts: Reals) -> Reals:
        hits, alarms = (
            len(losses) - np.searchsorted(np.sort(losses), cuts, side="left")
            for losses in (mine, theirs)
        )
        least = np.where(hits > 0, stats.beta.ppf(level, hits, len(mine) - hits + 1), 0.0)
        miss = len(theirs) - alarms
        most = np.where(miss > 0, stats.beta.ppf(1 - level, alarms + 1, miss), 1.0)
        return np.log(np.maximum(least - delta, most) / most)

    cuts = np.unique(np.quantile(mine[:half], np.linspace(0.001, 0.999, 199)))
    best = int(np.argmax(bounds(mine[:half], theirs[:half], cuts)))
    return float(bounds(mine[half:], theirs[half:], cuts[[best]])[0])


# ---- the audit


@dataclass(frozen=True)
class Check:
    """One thing that was tried."""

    name: str
    passed: bool
    found: str
    """In words."""
    labels: str = ""
    """Of the neighbours: "flat" or "ends"."""
    table: str = ""
    """Which of the two was drawn from: "low" or "high", by the labels of the worst rows."""
    p: float | None = None


@dataclass(frozen=True, repr=False)
class Audit(ReprMixin):
    """What was tried, and whether anything broke the claim."""

    mechanism: str
    epsilon: float
    """As it is certified."""
    delta: float
    lower_bound: float
    """ε is at least this, by the best attack that was found."""
    releases: int
    """Simulated, of all tables together."""
    numbers: int
    """Tested."""
    notices: float
    """The relative error of the noise's scale that this audit would have noticed."""
    alarm: float
    """A smaller p-value of a test is a failure."""
    worst: dict[str, float]
    """How far the worst rows move what is shown, and what is priced."""
    seconds: float
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def least_p(self) -> float:
        """The smallest p-value of all tests."""
        return min(check.p for check in self.checks if check.p is not None)

    @property
    def failures(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        fields = asdict(self)
        checks = list(fields.pop("checks"))
        return {"passed": self.passed, **fields, "least_p": self.least_p, "checks": checks}

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        verdict = "passed" if self.passed else "FAILED"
        return (
            f"Audit of {self.mechanism}, {format_budget(self.epsilon, self.delta)}: {verdict}",
            (
                ("lower bound of ε", f"{self.lower_bound:.3g}"),
                ("smallest p-value", f"{self.least_p:.2g} of {len(self.checks)} checks"),
                *(("FAILED", f"{check.name}: {check.found}") for check in self.failures),
            ),
        )


class Pair:
    """Two neighbours: the worst rows' labels at the low end, and at the high end (step 2)."""

    def __init__(
        self,
        plan: Plan,
        dataset: type[KnownDataset],
        source: Source,
        rows: Rows,
        kind: str,
        seed: int,
        engine: Engine,
    ) -> None:
        self._plan, self._kind = plan, kind
        ends = (plan.labels.low, plan.labels.high)
        labels = np.full(plan.features.rows, ends[0])
        if kind == ENDS:
            labels = public_stream(str(seed), "audit").choice(ends, plan.features.rows)
        assert isinstance(source.reader, MadeUpLabels)
        self._sources, self._engines, known = {}, {}, {}
        for side, end in zip(SIDES, ends, strict=True):
            changed = labels.copy()
            changed[rows] = end
            reader = replace(source.reader, labels=changed)
            self._sources[side] = replace(source, reader=reader)
            self._engines[side] = LocalEngine(engine.threads or 0, engine.progress)
            known[side] = dataset(plan, self._sources[side], self._engines[side], rows)
        low, high = known.values()
        rng = np.random.default_rng([seed, len(kind)])
        self.evidence = {"low": Evidence(low, high, rng), "high": Evidence(high, low, rng)}

    def whole_releases(self, seeds: Iterator[int]) -> Iterator[Check]:
        """Release both tables by `Plan.release`, with the same randomness (step 3)."""
        public, same, steps = True, True, True
        for seed in [next(seeds) for _ in range(_WHOLE_RELEASES)]:
            releases, parts = [], []
            for side, evidence in self.evidence.items():
                release = self._plan.release(
                    self._sources[side],
                    engine=self._engines[side],
                    randomness=Randomness.experiment(seed),
                )
                shown = evidence.mine.read(release)
                evidence.add(shown)
                releases.append(self._public_part(release, evidence.mine))
                parts.append(evidence.mine.parts(shown))
            public &= releases[0] == releases[1]
            same &= all(_same_noise(*each) for each in zip(*parts, strict=True))
            steps &= all(
                not np.any(np.mod(np.ldexp(part.shown, -part.grid), 1.0))
                for part in (*parts[0], *parts[1])
            )
        kind = self._kind
        yield Check("public part", public, "the same of both tables, but for labels", kind)
        yield Check("replay", same, "the same randomness is the same noise about both", kind)
        yield Check("support", steps, "all numbers are whole steps of one public grid", kind)

    @staticmethod
    def _public_part(release: Release, dataset: KnownDataset) -> tuple[Any, ...]:
        """Return all but what labels and noise make; the label is the last column."""
        hidden = {"seal", "digests", *dataset.private}
        certificate = {k: v for k, v in release.certificate.items() if k not in hidden}
        return certificate, release.features, release.table.select(release.table.column_names[:-1])

    def draw(self, seconds: float, seeds: Iterator[int]) -> None:
        """Draw from both tables (step 4)."""
        for evidence in self.evidence.values():
            evidence.fill(seconds / 2, seeds)

    def check_laws(self) -> Iterator[Check]:
        """Check the exact law of every part, and whether the claim prices it (step 5)."""
        for side, evidence in self.evidence.items():
            about = self._kind, side
            for part, record in evidence.records.items():
                for test, p in record.p_values():
                    yield Check(f"law of {part}: {test}", p >= ALARM, f"p = {p:.3g}", *about, p)
                found = f"means {record.moved:.9g} apart, scale {record.narrowest:.9g}"
                yield Check(f"price of {part}", record.priced, found, *about)

    def attack(self, attacks: int) -> float:
        """Return the larger lower bound of ε of both directions (step 6)."""
        low, high = (self.evidence[side].losses for side in SIDES)
        delta = self._plan.claim.delta
        return max(lower_bound(low, -high, delta, attacks), lower_bound(high, -low, delta, attacks))


def _same_noise(one: NoiseComponent, two: NoiseComponent) -> bool:
    """Each of the numbers is rounded by half a step at most."""
    noises = one.noise_of(one.shown), two.noise_of(two.shown)
    distance = np.abs(noises[0] - noises[1]) * np.minimum(one.scale, two.scale)
    return one.grid == two.grid and bool(np.all(np.ldexp(distance, -one.grid) <= 1.001))


def audit(
    source: Any,
    epsilon: float = options.EPSILON,
    delta: float = options.DELTA,
    *,
    label: str | None = None,
    label_range: tuple[float, float] | None = None,
    seconds: float = SECONDS,
    seed: int = 0,
    engine: Engine | None = None,
    **choices: Any,
) -> Audit:
    """Try to break the claim of a plan on a table's own features, with labels that are made up.

    Parameters
    ----------
    source
        what `scan` made, or a path or a frame, with `label` and `label_range` and any other keyword
        of `scan`. Its labels are not read, and no row is dropped for want of one.
    epsilon, delta
        the budget to plan for.
    label
        the private column, where `source` is a path or a frame.
    label_range
        (low, high), public, likewise.
    seconds
        for simulated draws; a few whole releases come before them.
    seed
        of the made-up labels and of every draw: the same seed and enough time give the same answer.
    engine
        where data are read; local.
    choices
        other keywords of `plan`, such as `mechanism`.

    Returns
    -------
    Audit
        `passed`, the certified ε and a lower bound of it, and all `checks` with their p-values.

    Raises
    ------
    InputError
        an argument is wrong, or nothing says how the mechanism is audited.

    Examples
    --------
    >>> from labeldp_paper.audit import audit
    >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
    >>> asked = {"label": "income", "label_range": (0, 100), "mechanism": "noisy-rows"}
    >>> audit(table, epsilon=1, seconds=1, **asked).passed
    True
    """
    positive(seconds=seconds)
    table_options = {name: choices.pop(name) for name in TABLE_OPTIONS if name in choices}
    table = without_labels(as_source(source, label=label, label_range=label_range, **table_options))
    engine = engine or engine_for(table)
    if choices.get("mechanism", options.AUTO) != options.AUTO:
        known_dataset(choices["mechanism"])  # refused before the table is read
    made = plan(table, epsilon, delta, engine=engine, **{"force": True, **choices})
    start, claim, dataset = time.monotonic(), made.claim, known_dataset(made.claim.mechanism)
    if (problem := dataset.refusal(made)) is not None:
        raise InputError(f"{claim.mechanism}: {problem}")
    rows, moves = worst_rows(made, dataset, table)
    most = float(dataset.most(made))
    found = f"moves {moves:.9g}, {most:.9g} is priced"
    checks = [Check("worst neighbour", moves <= most * (1 + 1e-9), found)]
    kinds = (FLAT, ENDS) if dataset.any_labels(made) else (ENDS,)
    best, evidence = 0.0, list[Evidence]()
    # two ranges of seeds, so that how many are drawn in the time does not decide what is replayed
    replayed, seeds = count(seed << 32), count((seed << 32) + (1 << 31))
    for kind in kinds:
        pair = Pair(made, dataset, table, rows, kind, seed, engine)
        checks += pair.whole_releases(replayed)
        pair.draw(seconds / len(kinds), seeds)
        checks += pair.check_laws()
        best = max(best, pair.attack(2 * len(kinds)))
        evidence += pair.evidence.values()
    found = f"ε ≥ {best:.4g} with {CONFIDENCE:.1%} confidence, {claim.epsilon:g} is certified"
    checks.append(Check("attack", best <= claim.epsilon, found))
    return Audit(
        claim.mechanism,
        claim.epsilon,
        claim.delta,
        best,
        sum(each.releases for each in evidence),
        sum(each.numbers for each in evidence),
        max(min(record.notices for record in each.records.values()) for each in evidence),
        ALARM,
        {"rows": len(rows), "moves": moves, "priced": most},
        time.monotonic() - start,
        tuple(checks),
    )


def known_dataset(mechanism: str) -> type[KnownDataset]:
    """Return how a mechanism is audited; refuse one that nothing says it of."""
    name = mechanism_named(mechanism).name  # an unknown one is refused
    if name not in KNOWN_DATASETS:
        raise InputError(
            f"{mechanism} does not say how it is audited; those that do (`mechanism`): "
            f"{', '.join(KNOWN_DATASETS)}"
        )
    return KNOWN_DATASETS[name]
