"""A shape at a budget: how much noise there is, and what it does to predictions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.data.source import Source
from labeldp.exact.cholesky import LARGE, VerifiedCholesky
from labeldp.mechanisms.design_summary import DesignSummary
from labeldp.mechanisms.forecast import explained_ms, shrunken_ms
from labeldp.mechanisms.noise_shape import ExpectedLabels, NoiseCovariance
from labeldp.mechanisms.options import Request
from labeldp.mechanisms.shaped_flag import ShapedFlagOptions
from labeldp.mechanisms.shaped_flag.claim import ShapedFlagClaim
from labeldp.mechanisms.shaped_flag.lengths import person_length
from labeldp.mechanisms.shaped_flag.noise import choose
from labeldp.passes.engine import Engine


@dataclass(frozen=True)
class Sized:
    """What a shape would promise."""

    shape: NoiseCovariance
    claim: ShapedFlagClaim
    spread: Spread
    found: DesignSummary = field(repr=False)
    explained: float
    """What columns are taken to explain, mean square."""

    @property
    def added_ms(self) -> float:
        """What noise adds to predictions of least squares."""
        return self.claim.excess / self.claim.rows

    @property
    def fitted_ms(self) -> float:
        """What it adds to those of the default fit; a ridge is chosen for labels as expected."""
        return self.expected_ms if self.shape.ridge else self.evenly_ms

    @cached_property
    def evenly_ms(self) -> float:
        """What it adds to shrunken predictions, if what is explained is spread evenly."""
        with threadpool_limits(1, "blas"):
            return self.spread.shrunken(self.claim, self.explained)

    @cached_property
    def expected_ms(self) -> float:
        """The same, if what is explained is as a prior of the fit has it, which favours columns."""
        claim, found = self.claim, self.found
        with threadpool_limits(1, "blas"):
            labels = ExpectedLabels.of(
                found.factor,
                found.features,
                explained=claim.rows * self.explained,
                mean=claim.rows * claim.width**2 / 12,
            )
            return labels.posterior_error(claim.noise_std * self.spread.root) / claim.rows


def sized(
    request: Request[ShapedFlagOptions],
    found: DesignSummary,
    shape: NoiseCovariance,
    source: Source,
    engine: Engine,
) -> Sized:
    """The noise that a budget asks of a shape."""
    options, columns, width = request.options, found.factor.rank, found.facts.width
    budget = request.epsilon, request.delta, options.residual_share
    noise = choose(options.noise, *budget, columns)
    aggregates, residual = noise.parts(*budget)
    with engine.progress("spread of the noise", None), threadpool_limits(1, "blas"):
        spread = Spread.of(shape, found.factor)
    length, person = person_length(shape, found.features, source, engine)
    longer = (length / shape.length) ** 2
    claim = ShapedFlagClaim(
        request.accountant,
        request.epsilon,
        0.0 if noise.pure else request.delta,
        bags=columns,
        rows=found.facts.rows,
        label_range=found.facts.label_range,
        intercept=found.features.constant is not None,
        length=length,
        noise_std=noise.deviation(width * length, aggregates, columns),
        trace=_short(shape.trace * longer),
        directions=spread.directions,
        gap=_short(shape.objective * longer / shape.bound),
        kind=shape.kind,
        passes=shape.passes,
        residual_noise_std=None,
        noise_law=noise.name,
        ridge=shape.ridge,
        person=person,
    )
    residual_std = noise.residual_deviation(claim.reach, residual)
    explained = explained_ms(width, options.residual_guess or 0.0)
    return Sized(shape, replace(claim, residual_noise_std=residual_std), spread, found, explained)


@dataclass(frozen=True)
class Spread:
    """How S = K·Kᵀ divides the noise between directions, in any unit."""

    root: NDArray[np.float64] = field(repr=False)
    """K."""
    whole: NDArray[np.float64] = field(repr=False)
    """S."""

    @classmethod
    def of(cls, shape: NoiseCovariance, factor: VerifiedCholesky) -> Spread:
        root = shape.weights.noise_root(factor)
        return cls(root, root @ root.T)

    @property
    def directions(self) -> float:
        """(tr S)²/tr S²: between 1 and d."""
        trace, squares = np.square(self.root).sum(), np.square(self.whole).sum()
        return _short(float(trace**2 / squares))

    def shrunken(self, claim: ShapedFlagClaim, explained: float) -> float:
        """What noise adds to predictions that are shrunk, as the default fit's are.

        The first column is the constant, so in whitened coordinates the first direction is the
        mean's.
        """
        first, size = int(claim.intercept), claim.excess / np.square(self.root).sum()
        root = self.root * np.sqrt(size)
        if len(root) < LARGE:
            slopes = np.square(np.linalg.svd(root[first:], compute_uv=False))
        else:  # a tenth of the work, and digits enough for a forecast
            slopes = size * np.linalg.eigvalsh(self.whole[first:, first:]).clip(0.0)
        mean, width = float(np.square(root[:first]).sum()), claim.width
        return shrunken_ms(slopes.tolist(), mean, rows=claim.rows, width=width, explained=explained)


def _short(value: float) -> float:
    """Twelve digits: more would follow the machine's rounding."""
    return float(f"{value:.12g}")
