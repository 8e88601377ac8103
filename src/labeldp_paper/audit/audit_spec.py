"""How a claim is tried: published numbers as noise about what is known (safety §6).

To whoever knows all labels, a release is mean + scale·noise, part by part, and every noise here has
the density e^{−size(x)} but for a constant: ½‖x‖² if it is normal, Σ|x| if it is Laplace's, ‖x‖ if
it is radial. The size of k numbers then has the law Gamma(k/2), Gamma(k) and Gamma(k), so that the
scale of any number of releases is tested by one exact law, and the privacy loss of a release is a
difference of two sizes.

What is known of a table is computed here in plain floating point, row by row, apart from the exact
sums that releases are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from labeldp.data.source import Source
from labeldp.exact.label_sums import LabelGrid
from labeldp.features.feature_map import FeatureMap
from labeldp.passes.engine import Engine
from labeldp.planning import Plan
from labeldp.release.files import Release
from labeldp.sampling.streams import Randomness

Reals = NDArray[np.float64]
Rows = NDArray[np.intp]
Observation = dict[str, Reals]
"""What releases publish, by names that the mechanism gives; the first axis counts releases."""
RngFactory = Callable[[], Randomness]
"""Returns the random streams of one more release."""
_PASSES = 3
"""Over a table: one that fits, and two that mend what rounding did to the fit."""


@dataclass(frozen=True)
class Law:
    """Noise of scale 1, of the density e^{−size(x)} but for a constant."""

    size: Callable[[Reals], Reals]
    """Of every row of numbers."""
    shape: Callable[[int], float]
    """The size of so many numbers has the law Gamma(shape)."""
    power: float
    """Of the scale, by which the size grows."""
    norm: Callable[[Reals], Reals]
    """In which moves of the mean are priced, of every row."""
    draw: Callable[[np.random.Generator, tuple[int, int]], Reals]
    """Ideal noise, from another generator than a release's."""
    uniforms: Callable[[Reals, np.random.Generator], Reals]
    """Independent uniforms that the noise becomes."""


def _length(x: Reals) -> Reals:
    return np.asarray(np.linalg.norm(x, axis=1))


def _absolute(x: Reals) -> Reals:
    return np.asarray(np.abs(x).sum(axis=1))


def _laplace_below(x: Reals, _: np.random.Generator) -> Reals:
    half = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, half, 1 - half)


def _directions(rng: np.random.Generator, shape: tuple[int, int]) -> Reals:
    normal = rng.standard_normal(shape)
    return np.asarray(normal / _length(normal)[:, None])


def _radial(rng: np.random.Generator, shape: tuple[int, int]) -> Reals:
    return _directions(rng, shape) * rng.gamma(shape[1], size=shape[0])[:, None]


def _radial_uniforms(x: Reals, rng: np.random.Generator) -> Reals:
    """A uniform direction times an independent χ is a vector of independent normals."""
    stretch = np.sqrt(rng.chisquare(x.shape[1], len(x)))
    return np.asarray(special.ndtr(x / _length(x)[:, None] * stretch[:, None]))


NORMAL = Law(
    lambda x: 0.5 * np.square(x).sum(axis=1),
    lambda count: count / 2,
    2.0,
    _length,
    lambda rng, shape: rng.standard_normal(shape),
    lambda x, _: np.asarray(special.ndtr(x)),
)
LAPLACE = Law(
    _absolute, float, 1.0, _absolute, lambda rng, shape: rng.laplace(size=shape), _laplace_below
)
RADIAL = Law(_length, float, 1.0, _length, _radial, _radial_uniforms)


@dataclass(frozen=True)
class NoiseComponent:
    """Numbers of one kind in some releases, and what they are noise about, if a table is theirs."""

    name: str
    shown: Reals
    """A row for each release."""
    mean: Reals
    scale: Reals
    """A column, one for each release; or one for all; or a row, one for each number."""
    law: Law
    grid: int
    """The exponent of the public step."""
    most: float | None = None
    """By how much the mean of a neighbour may differ, in the norm of the law, as it is priced."""
    least: float = 0.0
    """Of the scale, as it is priced."""

    @property
    def noise(self) -> Reals:
        return self.noise_of(self.shown)

    def noise_of(self, shown: Reals) -> Reals:
        """What was added, were this the table."""
        return np.asarray((shown - self.mean) / self.scale)

    def surprise(self, shown: Reals) -> Reals:
        """−log of the density of every release, but for a constant."""
        scales = np.log(np.broadcast_to(self.scale, shown.shape)).sum(axis=1)
        return np.asarray(self.law.size(self.noise_of(shown)) + scales)

    def apart(self, other: NoiseComponent) -> float:
        """The largest difference of the means, in the norm of the law; numbers of different
        scales count by the smallest."""
        each = self.scale / self.scale.min() if self.scale.shape[1] > 1 else 1.0
        return float(self.law.norm(np.atleast_2d((self.mean - other.mean) / each)).max())


class KnownDataset(Protocol):
    """A table whose labels are known."""

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        """What so many releases show, by the functions that a release calls after its pass."""

    def read(self, release: Release) -> Observation:
        """What one release shows."""

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        """The same as noise about what this table's labels make of it."""


@dataclass(frozen=True)
class AuditSpec:
    """How `labeldp audit` tries to break a mechanism's claim; see `specs.py`."""

    moves: Callable[[Plan, Iterable[Reals]], Reals]
    """(plan, all encoded rows before their scales, in pieces) ↦ how far each row's label moves what
    is shown."""
    most: Callable[[Plan], float]
    """What the claim prices of that, for all rows that are covered together."""
    know: Callable[[Plan, Source, Engine, Rows], KnownDataset]
    """A table whose labels are known, and the rows whose labels an attacker asks about."""
    private: tuple[str, ...] = ()
    """What in a certificate, beside seal and digests, follows from labels and noise."""
    any_labels: Callable[[Plan], bool] | None = None
    """Whether any labels can be released, those that features explain too; None: always."""
    refusal: Callable[[Plan], str | None] | None = None
    """Why a plan cannot be tried, if it cannot."""


def on_grid(labels: LabelGrid, values: Reals) -> Reals:
    """Labels as a release reads them: rounded to their public grid."""
    return np.ldexp(labels.codes(values) + labels.centre, labels.exponent)


def dense_rows(features: FeatureMap, source: Source) -> Iterator[tuple[Reals, Reals]]:
    """Encoded rows, dense, before their scales; and labels, as they were declared."""
    for batch, labels in source.labelled_batches(columns=features.columns):
        yield features.integers(features.encode(batch)), labels


@dataclass(frozen=True)
class Plain:
    """Sums of a table with known labels, in plain floating point; rows before their scales."""

    cross: Reals
    """Xᵀy."""
    slope: Reals
    """β̂."""
    root: float
    """σ, the root of the residual sum of squares."""


@dataclass
class Fit:
    """Least squares over a stream of rows, mended by further passes."""

    plan: Plan = field(repr=False)
    source: Source = field(repr=False)

    @cached_property
    def sums(self) -> Plain:
        slope = np.zeros(len(self.plan.features.names))
        cross, square, gram = self._pass(slope)
        first = cross
        for _ in range(_PASSES - 1):
            slope = slope + _solve(gram, cross)
            cross, square, gram = self._pass(slope)
        return Plain(first, slope, float(np.sqrt(square)))

    def _pass(self, slope: Reals) -> tuple[Reals, float, Reals]:
        """Xᵀr, rᵀr and XᵀX for r = y − X·slope."""
        size, square = len(slope), 0.0
        cross, gram = np.zeros(size), np.zeros((size, size))
        for rows, labels in dense_rows(self.plan.features, self.source):
            left = on_grid(self.plan.labels, labels) - rows @ slope
            cross, gram = cross + rows.T @ left, gram + rows.T @ rows
            square += float(left @ left)
        return cross, square, gram


def _solve(gram: Reals, cross: Reals) -> Reals:
    """By columns of one size, whatever their units are."""
    sizes = np.sqrt(np.diag(gram))
    scaled = gram / np.outer(sizes, sizes)
    return np.asarray(np.linalg.solve(scaled, cross / sizes) / sizes)
