"""Profiles of sampled-noisy-wtd-LAg: a weighted sum of labels from each of m disjoint bags.

Bags, weights and the set of noisy rows are published and do not depend on the labels. Given
them, the aggregate label of a bag is Gaussian with variance s²·Σw² over its noisy rows, and
changing the label of row i shifts its mean by at most |w_i|Δ: a Gaussian mechanism (theory §4)

    μ_i = |w_i|Δ / (s√(Σ w² over the bag's noisy rows)).

Two laws, both given that the row is in a bag at all (`SubsampledProfile`):

realised   from the weights drawn: `GaussianProfile(max(realised_mu(…)))`: a label is in one bag.
           Weights know nothing of the labels, so a bag may be redrawn until it passes.
a priori   before any draw: `RandomWeightsProfile`, the mean of δ(ε; μ_i) over weights and coins.

The mean. A row of weight w among r other noisy rows of its bag has, with c = Δ/s and
q = w²/Σ of the r other squared weights, independent standard normal all of them,

    μ = c√q        if the row itself carries no noise (√(rq) is |t_r|),
    μ = c√(q/(1+q))  if it does (q/(1+q) is Beta(½, r/2): w² is in the sum too).

With x = ½ ln q and dδ/dμ = φ(μ/2 − ε/μ), integration by parts gives

    E[δ(ε; μ)] = ∫ φ(μ/2 − ε/μ) (dμ/dx) T(x) dx,   T(x) = Σ_r P(r)·I_z(r/2, ½), z = 1/(1+e^{2x}),

an integral of positive smooth functions over the whole line, on which the trapezoid rule
converges exponentially: halving the step squares the error, so ten times the change seen at
the last halving is a generous bound of what is left. r = 0 is apart: a row without noise
in a bag without noise has δ = 1, a row with noise has μ = c.

I_z(a, ½) = I_z(a+1, ½) + z^a√(1−z)·Γ(a+½)/(Γ(a+1)Γ(½)): the sum over r costs one exponential
a term, all of them positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import special

from labeldp.accounting import gaussian
from labeldp.accounting.privacy_profile import Bounds, PrivacyProfile, SearchRange
from labeldp.errors import InputError, at_least, positive, to_range

Reals = npt.NDArray[np.float64]
Counts = tuple[int, Reals]
"""Of the number of other noisy rows in a bag: (lowest, weights), P(lowest + i) = weights[i]."""

MOST_WEIGHTED_BAG_SIZE = 10**9
_MOST_EPSILON = 1e5  # the integral is slow at large ε
_MOST_LOG_NOISE = 30.0  # of noise deviation over label width
_ROUNDING = 1e-12  # relative, of a sum of 1e9 squares and a root
_DEVIATIONS, _EXTRA = 14.0, 60  # counts kept on either side of the mode
_LOST = 1e-38
"""What is left out of them. By Bernstein's inequality counts t = 14σ + 60 or more from their mean,
which is within 1 of the mode, have less than 2·exp(−t²/(2σ² + 2t/3)) ≤ 2·exp(−90)."""
_SCAN = np.linspace(-120.0, 120.0, 12_001)
_LOOK = 256
_DROP = 60.0  # nats below its peak at which the integral is cut off
_FAINT, _NOTHING = -520.0, 1e-200  # an integrand below e^−520 everywhere counts as the latter
_FIRST, _LAST = 64, 32_768  # intervals
_TOLERANCE = 1e-13  # relative change that ends the halving
_MARGIN = 1e-9  # relative margin of every bound, far above the rounding
_CHUNK = 2_000_000  # terms in memory at once


@dataclass(frozen=True)
class RandomWeightsProfile(PrivacyProfile):
    """Bags of `bag_size` rows, labels in `label_range`, noise N(0, noise_std²), before any draw.

    noisy_fraction: ρ; every row is noisy by its own coin of this probability.
    """

    bag_size: int
    label_range: tuple[float, float]
    noisy_fraction: float
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        at_least(1, bag_size=self.bag_size)
        to_range("label_range", self.label_range)
        positive(noise_std=self.noise_std, noisy_fraction=self.noisy_fraction)
        if self.noisy_fraction > 1.0:
            raise InputError(f"`noisy_fraction` must be at most 1, not {self.noisy_fraction}")
        if self.bag_size > MOST_WEIGHTED_BAG_SIZE:
            raise InputError(
                f"`bag_size` {self.bag_size:,} is above {MOST_WEIGHTED_BAG_SIZE:,}; ask for "
                "smaller bags"
            )

    @property
    def width(self) -> float:
        """Δ, the most one label can change."""
        return self.label_range[1] - self.label_range[0]

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:  # noqa: ARG002
        """Return δ of a row without noise: the others are as noisy beside a row with noise.

        If every row has noise (ρ = 1) there is no other kind.
        """
        at_least(0.0, epsilon=epsilon)
        counts = binomial(self.bag_size - 1, self.noisy_fraction)
        every = self.noisy_fraction == 1.0
        mean = mean_delta(self.width / self.noise_std, epsilon, counts, every)
        lost = _LOST if 1 < len(counts[1]) < self.bag_size else 0.0
        return replace(mean, upper=min(1.0, mean.upper + lost))

    def epsilon_search(self, delta: float) -> SearchRange | float:
        low, high = 0.0, 1.0
        while self.delta(high).upper > delta:  # from below: the integral is slow at large ε
            low, high = high, 2.0 * high
            if high > _MOST_EPSILON:
                return math.inf
        return SearchRange(low, high, high)

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange:
        width = self.width
        if name == "noise_std":
            ends = -_MOST_LOG_NOISE, _MOST_LOG_NOISE
            return SearchRange(*ends, 1.0, lambda log_ratio: width * math.exp(log_ratio))
        return super().parameter_search(name, epsilon, delta)


def realised_mu(
    weights: npt.ArrayLike, noisy: npt.ArrayLike, width: float, noise_std: float
) -> Reals:
    """Return the largest μ_i of every bag, rounded up; inf for a bag without noise.

    `weights` and the mask `noisy` have one row per bag and one column per row in it.
    """
    positive(width=width, noise_std=noise_std)
    w, mask = np.atleast_2d(np.asarray(weights, float)), np.atleast_2d(np.asarray(noisy, bool))
    if not np.isfinite(w).all():
        raise InputError("weights must be finite numbers; draw them again")
    noise = np.sqrt(np.square(w).sum(axis=1, where=mask))
    largest = np.abs(w).max(axis=1, initial=0.0)
    mu = np.full(len(w), np.inf)
    np.divide(largest, noise, out=mu, where=noise > 0.0)
    return np.asarray(mu * (width / noise_std) * (1.0 + _ROUNDING))


def binomial(draws: int, rate: float) -> Counts:
    """Each of `draws` rows is noisy with probability `rate`, independently.

    Probabilities are normalised products of the ratios of neighbours, outwards from the mode.
    """
    if rate >= 1.0 or draws == 0:
        return draws, np.ones(1)
    odds = math.log(rate) - math.log1p(-rate)
    reach = math.ceil(_DEVIATIONS * math.sqrt(draws * rate * (1.0 - rate))) + _EXTRA
    mode = min(math.floor((draws + 1) * rate), draws)
    low, high = max(0, mode - reach), min(draws, mode + reach)
    r = np.arange(low, high, dtype=float)
    logs = np.log((draws - r) / (r + 1.0)) + odds  # ln P(r+1)/P(r)
    above, below = np.cumsum(logs[mode - low :]), -np.cumsum(logs[: mode - low][::-1])
    weights = np.exp(np.concatenate([below[::-1], [0.0], above]))
    return low, weights / weights.sum()


def mean_delta(scale: float, epsilon: float, counts: Counts, row_is_noisy: bool) -> Bounds:
    """Return E[δ(ε; μ)] for a row with or without noise, μ = `scale` times its random share."""
    (lowest, weights), estimate, error = counts, 0.0, 0.0
    start = 1 if lowest == 0 else 0
    if len(weights) > start:
        law = _Integral(scale, epsilon, lowest + start, weights[start:], row_is_noisy)
        estimate, error = law.value()
    if start:
        estimate += float(weights[0]) * (gaussian.upper(epsilon, scale) if row_is_noisy else 1.0)
    return Bounds(
        max(0.0, estimate * (1.0 - _MARGIN) - error),
        min(1.0, estimate),
        min(1.0, estimate * (1.0 + _MARGIN) + error),
    )


@dataclass(frozen=True)
class _Integral:
    scale: float
    epsilon: float
    lowest: int  # at least 1
    weights: Reals
    row_is_noisy: bool

    def value(self) -> tuple[float, float]:
        """Return the integral and a bound of its error."""
        ends = self._range()
        if ends is None:
            return 0.0, _NOTHING + self._cut_off(float(_SCAN[0]), float(_SCAN[-1]))
        low, high = ends

        def sum_at(x: Reals) -> float:
            return float((np.exp(self._log_slope(x)) * self._tail(x)).sum())

        step = (high - low) / _FIRST
        total = step * sum_at(low + step * np.arange(_FIRST + 1.0))
        intervals, change = _FIRST, math.inf
        while intervals < _LAST and change > _TOLERANCE * total:
            between = low + step * (np.arange(float(intervals)) + 0.5)
            finer = 0.5 * total + 0.5 * step * sum_at(between)
            change, total = abs(finer - total), finer
            intervals, step = 2 * intervals, 0.5 * step
        return total, 10.0 * change + self._cut_off(low, high)

    def _cut_off(self, low: float, high: float) -> float:
        """Return a bound of the integral outside [low, high]: δ(μ) below, T·(1 − δ(μ)) above.

        1 − δ(μ) = Φ(−a) + e^εΦ(−a − 2ε/μ) ≤ 2Φ(−a) with a = μ/2 − ε/μ, by Mills' ratio. A row
        with noise has μ < c, and its δ rises by at most e^{−a²/2}·(c − μ), a the nearest to 0.
        """
        ends = np.array([low, high])
        first, last = self._mu(ends).tolist()
        nearest = 0.5 * last - self.epsilon / last
        rest = min(1.0, 2.0 * float(special.ndtr(-nearest)))
        if self.row_is_noisy:
            root, far = math.exp(high), math.hypot(1.0, math.exp(high))
            nearest = max(nearest, min(0.0, 0.5 * self.scale - self.epsilon / self.scale))
            rest = min(rest, self.scale / (far * (far + root)) * math.exp(-0.5 * nearest * nearest))
        return gaussian.upper(self.epsilon, first) + float(self._tail(ends)[1]) * rest

    def _mu(self, x: Reals) -> Reals:
        with np.errstate(over="ignore"):  # infinite where no double can hold it
            root = np.exp(x)
            share = root / np.hypot(1.0, root) if self.row_is_noisy else root
            return np.asarray(self.scale * share)

    def _log_slope(self, x: Reals) -> Reals:
        """ln of dδ/dx = φ(μ/2 − ε/μ) dμ/dx."""
        mu = self._mu(x)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            gap = 0.5 * mu - self.epsilon / mu if self.epsilon > 0.0 else 0.5 * mu
            log = -0.5 * gap * gap + np.log(mu) - 0.5 * math.log(2.0 * math.pi)
        if self.row_is_noisy:
            log -= np.logaddexp(0.0, 2.0 * x)
        return np.nan_to_num(log, nan=-np.inf, posinf=-np.inf, neginf=-np.inf)

    def _range(self) -> tuple[float, float] | None:
        """Return where the integrand matters; first by T(x) ≤ z^{r/2} at the smallest r."""
        envelope = self._log_slope(_SCAN) - 0.5 * self.lowest * np.logaddexp(0.0, 2.0 * _SCAN)
        ends = _above(_SCAN, envelope, 10.0 * _DROP)
        if ends is None:
            return None
        x = np.linspace(*ends, _LOOK)
        with np.errstate(divide="ignore"):
            return _above(x, self._log_slope(x) + np.log(self._tail(x)), _DROP)

    def _tail(self, x: Reals) -> Reals:
        """Return T(x), the probability that μ exceeds its value at x."""
        share, z = special.expit(2.0 * x), special.expit(-2.0 * x)
        log_z = -np.logaddexp(0.0, 2.0 * x)
        out = np.zeros_like(x)
        for parity in (0, 1):
            weights = self.weights[parity::2]
            if not weights.size:
                continue
            shapes = 0.5 * (self.lowest + parity) + np.arange(float(len(weights)))
            last = shapes[-1]  # where 1 − z is near 1, z alone has all its digits
            ends = special.betainc(last, 0.5, z), special.betaincc(0.5, last, share)
            out += weights.sum() * np.where(x > 3.0, *ends)
            factors = np.cumsum(weights)[:-1] * special.poch(shapes[:-1] + 1.0, -0.5)
            terms, size = np.zeros_like(x), max(1, _CHUNK // len(x))
            for start in range(0, len(factors), size):
                part = slice(start, min(start + size, len(factors)))
                terms += factors[part] @ np.exp(shapes[part, None] * log_z)
            out += terms * np.sqrt(share / math.pi)
        return out


def _above(x: Reals, log_values: Reals, drop: float) -> tuple[float, float] | None:
    """The ends of the part of x whose values are within `drop` nats of the largest."""
    if log_values.max() < _FAINT:
        return None
    seen = np.flatnonzero(log_values > log_values.max() - drop)
    return float(x[max(seen[0] - 1, 0)]), float(x[min(seen[-1] + 1, len(x) - 1)])
