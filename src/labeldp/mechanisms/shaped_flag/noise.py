"""The noise on the aggregates: normal, or radial with pure ε (theory §9).

Radial noise has the density ∝ e^{−‖x‖/b} in the coordinates of the aggregates. These move by at
most ΔL, so that b = ΔL/ε makes the ratio of two neighbours' densities at most e^ε everywhere, with
δ = 0; each has the variance (d+1)·b². The residual's root then takes Laplace noise of scale Δ/ε₀,
and what is spent is ε + ε₀, where of normal noise the μ² add (theory §13).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from labeldp.accounting import radial
from labeldp.accounting.compose import compose
from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.accounting.laplace import LaplaceProfile
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.errors import InputError
from labeldp.mechanisms.shaped_flag import AUTO, GAUSSIAN, RADIAL
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

_HEADROOM = 1 - 1e-9
"""A budget is used up to this, so that rounding never breaks it."""

Publish = Callable[
    [rounded_noise.Reals, rounded_noise.Reals, float, int, Randomness, rounded_noise.Exact],
    rounded_noise.Reals,
]
"""(means, bounds of their errors, scale, grid, randomness, exact means and scale) ↦ numbers."""


@dataclass(frozen=True)
class SumNoise:
    """A law of noise; what each part of a release costs is one number, μ or ε."""

    name: str
    symbol: str
    """Of what a part costs."""
    basis: str
    """Of the guarantee, in the words of a certificate."""
    pure: bool
    """Whether it spends no δ."""
    power: float
    """Of the costs of two parts: these powers add."""
    whole: Callable[[float, float], float]
    """What (ε, δ) has to spend; 0 if there is no such guarantee."""
    curve: Callable[[float, float, int], PrivacyProfile]
    """The guarantee: (cost of the aggregates, of the residual or 0, number of aggregates)."""
    spread: Callable[[int], float]
    """Deviation of the noise on each of so many aggregates, if its scale is 1."""
    quantile: Callable[[float, int, float], float]
    """Of the squared error over its mean: (directions, aggregates, probability)."""
    publish: Publish
    residual: rounded_noise.NoiseLaw
    """What the residual's root gets."""
    residual_spread: float
    """Deviation of that noise, if its scale is 1."""

    def parts(self, epsilon: float, delta: float, residual_share: float) -> tuple[float, float]:
        """What (ε, δ) lets the aggregates and the residual spend."""
        whole, root = self.whole(epsilon, delta) * _HEADROOM, 1 / self.power
        return whole * (1 - residual_share) ** root, whole * residual_share**root

    def together(self, aggregates: float, residual: float) -> float:
        """What both spend."""
        return float((aggregates**self.power + residual**self.power) ** (1 / self.power))

    def deviation(self, reach: float, part: float, columns: int) -> float:
        """Of each of so many aggregates, which move by at most `reach` together; rounded up."""
        return math.nextafter(self.spread(columns) * reach / part, math.inf)

    def residual_deviation(self, reach: float, part: float) -> float | None:
        """Of the residual's root, which moves by at most `reach`; None if it is not published."""
        return math.nextafter(self.residual_spread * reach / part, math.inf) if part else None


def _radial_curve(aggregates: float, residual: float, columns: int) -> PrivacyProfile:
    noise = radial.radial_profile(aggregates, columns)
    return compose([noise, LaplaceProfile(residual)]) if residual else noise


def _normal_quantile(directions: float, columns: int, probability: float) -> float:  # noqa: ARG001
    """One χ² in place of many."""
    from scipy.special import chdtri

    return float(chdtri(directions, 1 - probability)) / directions


def _radial_quantile(directions: float, columns: int, probability: float) -> float:
    """The same times a χ² of d+1 degrees, which all directions share."""
    freedom = columns + 1.0
    return radial.product_quantile(directions, freedom, probability) / (directions * freedom)


def _normal(
    mean: rounded_noise.Reals,
    error: rounded_noise.Reals,
    scale: float,
    grid: int,
    randomness: Randomness,
    exact: rounded_noise.Exact,
) -> rounded_noise.Reals:
    return rounded_noise.sample_rounded(mean, error, (scale, scale), grid, randomness, exact)


NOISES = {
    GAUSSIAN: SumNoise(
        GAUSSIAN,
        "μ",
        "Gaussian mechanism",
        pure=False,
        power=2.0,
        whole=largest_mu,
        curve=lambda aggregates, residual, columns: GaussianProfile(  # noqa: ARG005
            math.hypot(aggregates, residual)
        ),
        spread=lambda columns: 1.0,  # noqa: ARG005
        quantile=_normal_quantile,
        publish=_normal,
        residual=rounded_noise.NORMAL,
        residual_spread=1.0,
    ),
    RADIAL: SumNoise(
        RADIAL,
        "ε",
        "radial noise, with delta = 0,",
        pure=True,
        power=1.0,
        whole=lambda epsilon, delta: epsilon,  # noqa: ARG005
        curve=_radial_curve,
        spread=lambda columns: math.sqrt(columns + 1),
        quantile=_radial_quantile,
        publish=rounded_noise.sample_rounded_radial,
        residual=rounded_noise.LAPLACE,
        residual_spread=math.sqrt(2.0),
    ),
}


def choose(
    asked: str, epsilon: float, delta: float, residual_share: float, columns: int
) -> SumNoise:
    """The law asked for; else the one of least variance, which adds least to predictions."""
    able = [
        each
        for each in NOISES.values()
        if asked in (AUTO, each.name) and each.whole(epsilon, delta) > 0
    ]
    if not able:
        raise InputError(f"{asked} noise has no guarantee with δ = 0; leave `noise` out")

    def size(each: SumNoise) -> float:
        return each.spread(columns) / each.parts(epsilon, delta, residual_share)[0]

    return min(able, key=size)
