"""The utility parts of the paper's theorems with every constant explicit, in log space.

The paper states them with O() and Ω(). Here the steps of its proofs are followed with the
constants of the lemmas they use, and mended where a step does not hold as printed:

- Theorem 1: the proof's union bound drops the factor 2 of its lemma; it is kept here.
- Theorem 2: a regressor's aggregate loss concentrates as m squared normals do, e^{−Ω(mθ²…)}
  (its own proof), not e^{−Ω(mkθ²…)} (its statement). And losses within 1 ± η of the truth
  make the fit (1+η)/(1−η)-optimal: for 1+θ, η = θ/(2+θ).
- Theorem 3: squared losses lie in [0, B], so Hoeffding's exponent has B²; noise in the labels
  enters the net's error; and a bag's loss is the square of a sum of k terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeldp.errors import InputError, at_least, in_range, positive, to_range
from labeldp_paper.theory.tails import (
    HANSON_WRIGHT,
    Tail,
    gaussian_squares_tail,
    hoeffding_tail,
    normal_tail,
    union,
)


@dataclass(frozen=True)
class Utility:
    """log10 of the probability that the fit exceeds what is promised; vacuous when not below 0."""

    log10_failure: float

    @property
    def vacuous(self) -> bool:
        """The bound says nothing."""
        return self.log10_failure >= 0.0


def covering_number(dimension: int, radius: float, mesh: float) -> float:
    """ln of (1 + 2·radius/mesh)^dimension, which covers a ball of that radius."""
    at_least(1, dimension=dimension)
    positive(mesh=mesh)
    at_least(0.0, radius=radius)
    return dimension * math.log1p(2.0 * radius / mesh)


def theorem1_utility(
    rows: int,
    label_range: tuple[float, float],
    residual_ms: float,
    bags: int,
    features: int,
    feature_bound: float,
    weight_bound: float,
    theta: float,
) -> Utility:
    """The chance that the fit on wtd-FLAg's aggregates exceeds (1+θ)·opt, θ in (0, 2).

    n√(2/π)e^{−m²/2} + 2·(192m²nB_l²/(θγ))^d·e^{−c0mθ²/256}, B_l = B_Y + B_X·B_r.
    """
    at_least(1, bags=bags, features=features)
    in_range(0.0, 2.0, theta=theta)
    positive(rows=rows, residual_ms=residual_ms)
    at_least(0.0, feature_bound=feature_bound, weight_bound=weight_bound)
    to_range("label_range", label_range)
    loss = 0.5 * (label_range[1] - label_range[0]) + feature_bound * weight_bound
    net = 192.0 * bags**2 * rows * loss**2 / (theta * residual_ms)
    weights = math.log(rows) + 0.5 * math.log(2.0 / math.pi) - 0.5 * bags**2
    exponent = HANSON_WRIGHT * bags * theta**2 / 256.0
    return _failure([Tail(weights), Tail(math.log(2.0) + features * math.log(net) - exponent)])


def theorem2_utility(
    bags: int,
    bag_size: int,
    label_range: tuple[float, float],
    residual_ms: float,
    features: int,
    feature_bound: float,
    weight_bound: float,
    theta: float,
) -> Utility:
    """The chance that the fit on sampled-wtd-FLAg's aggregates exceeds (1+θ)·opt, θ in (0, ½).

    With B_l = B_Y + B_X·B_r, η = θ/(2+θ), t = η/12 and a net of (1 + 48m²kB_l²/(ηγ))^d regressors:

        k√(2/π)e^{−m²/2} + |net|·(2e^{−2mkt²γ²/B_l⁴} + 2e^{−c0·m·t²γ²/B_l⁴}).
    """
    at_least(1, bags=bags, bag_size=bag_size, features=features)
    in_range(0.0, 0.5, theta=theta)
    positive(residual_ms=residual_ms)
    at_least(0.0, feature_bound=feature_bound, weight_bound=weight_bound)
    to_range("label_range", label_range)
    loss = 0.5 * (label_range[1] - label_range[0]) + feature_bound * weight_bound
    eta = theta / (2.0 + theta)
    step = min(1.0, residual_ms / loss**2) * eta / 12.0  # tγ/B_l²
    mesh = eta / 6.0 * residual_ms / (4.0 * bags**2 * bag_size * loss)  # times 1/B_X
    net = covering_number(features, loss, mesh)
    one = union(
        [
            hoeffding_tail(bags * bag_size, 1.0, step),
            gaussian_squares_tail(float(bags), 1.0, bags * step),
        ]
    )
    weights = normal_tail(float(bags)).times(math.log(bags) + math.log(bag_size))
    return _failure([weights, one.times(net)])


def theorem3_utility(
    rows: int,
    bags: int,
    bag_size: int,
    noisy_fraction: float,
    loss_bound: float,
    weights: int,
    weight_norm: float,
    lipschitz: float,
    theta: float,
    noise_std: float = 1.0,
) -> Utility:
    """The chance that the fit on sampled-noisy-wtd-LAg's bags exceeds opt by θ per row.

    Over functions of `weights` weights of norm at most `weight_norm`, `lipschitz` in them, whose
    squared loss is at most B = `loss_bound` (`NeuralClass` has all three). Both losses, per row and
    per bag, are within θ/6 of each other on a net and change by θ/6 at most from it, so they
    differ by θ/2 everywhere. On the net each is within t = θ/12 of the clean loss plus ρs².
    """
    at_least(1, rows=rows, bags=bags, bag_size=bag_size, weights=weights)
    positive(loss_bound=loss_bound, lipschitz=lipschitz, theta=theta, noise_std=noise_std)
    positive(noisy_fraction=noisy_fraction, weight_norm=weight_norm)
    if noisy_fraction > 1.0:
        raise InputError(f"`noisy_fraction` must be at most 1, not {noisy_fraction}")
    if bags * bag_size > rows:
        raise InputError(f"{bags:,} bags of {bag_size:,} rows are more than {rows:,} rows")
    t, variance = theta / 12.0, noise_std**2
    cap = float(bags) ** 0.125  # of weights, and of noise in its deviations
    always = [
        _noise_level(rows * noisy_fraction, 0.5 * t * rows, variance),
        normal_tail(cap).times(math.log(2.0 * bags * bag_size)),
        *_bag_noise(bags, bag_size, t / 9.0, variance),
    ]
    each = [
        _normal(0.5 * t, 4.0 * loss_bound * noisy_fraction * variance / rows),
        hoeffding_tail(bags * bag_size, loss_bound, t / 6.0),
        gaussian_squares_tail(bags * loss_bound**2, loss_bound, bags * t / 6.0),
        _normal(t / 3.0, 4.0 * variance * cap**4 * bag_size * loss_bound / bags),
    ]
    level = math.sqrt(noisy_fraction * (noisy_fraction * variance + 0.5 * t))
    by_row = 2.0 * lipschitz * (math.sqrt(loss_bound) + level)
    by_bag = 2.0 * bag_size * cap**2 * lipschitz * (math.sqrt(loss_bound) + noise_std * cap)
    net = covering_number(weights, weight_norm, theta / 6.0 / max(by_row, by_bag))
    return _failure([*always, union(each).times(net)])


def _bag_noise(bags: int, bag_size: int, t: float, variance: float) -> list[Tail]:
    """Σ_j(Σ_r w_r·g_r)²/(mk) leaves ρs² by 3t: by the noisy rows drawn, by w, by g.

    Given |w| ≤ m^{1/8}, the last is a sum of m squared normals of variance ≤ s²k·m^{1/4}.
    """
    drawn, cap = bags * bag_size, float(bags) ** 0.25
    return [
        hoeffding_tail(drawn, variance, t),
        gaussian_squares_tail(drawn * variance**2, variance, drawn * t),
        gaussian_squares_tail(bags * (cap * variance) ** 2, cap * variance, bags * t),
    ]


def _noise_level(count: float, deviation: float, variance: float) -> Tail:
    """The squared noise of `count` rows leaves its mean by `deviation`."""
    return gaussian_squares_tail(count * variance**2, variance, deviation)


def _normal(deviation: float, variance: float) -> Tail:
    """Pr[|N(0, variance)| > t] ≤ 2·e^{−t²/(2·variance)}."""
    return Tail(math.log(2.0) - 0.5 * deviation**2 / variance)


def _failure(tails: list[Tail]) -> Utility:
    return Utility(union(tails).log10)
