"""The mean of δ(ε; μ) when μ itself is random: a row's share of a bag's noise (theory §4).

A row of weight w among r other noisy rows of its bag has, with c = Δ/s and
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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from labeldp.accounting import gaussian
from labeldp.accounting.bounds import Bounds

Reals = npt.NDArray[np.float64]

_DEVIATIONS, _EXTRA = 14.0, 60  # counts kept on either side of the mode: all but 1e-40
_SCAN = np.linspace(-120.0, 120.0, 12_001)
_LOOK = 256
_DROP = 60.0  # nats below its peak at which the integral is cut off
_FAINT, _NOTHING = -520.0, 1e-200  # an integrand below e^−520 everywhere counts as the latter
_FIRST, _LAST = 64, 32_768  # intervals
_TOLERANCE = 1e-13  # relative change that ends the halving
_MARGIN = 1e-9  # relative margin of every bound, far above the rounding
_CHUNK = 2_000_000  # terms in memory at once


@dataclass(frozen=True)
class Counts:
    """The distribution of the number of other noisy rows in a bag: P(lowest + i) = weights[i].

    lost: the probability that the truncation leaves out.
    """

    lowest: int
    weights: Reals
    lost: float


def fixed(count: int) -> Counts:
    """Return the distribution of a constant."""
    return Counts(count, np.ones(1), 0.0)


def binomial(draws: int, rate: float) -> Counts:
    """Each of `draws` rows is noisy with probability `rate`, independently."""
    if rate >= 1.0 or draws == 0:
        return fixed(draws)
    odds = math.log(rate) - math.log1p(-rate)

    def log_ratio(r: Reals) -> Reals:  # ln P(r+1)/P(r)
        return np.asarray(np.log((draws - r) / (r + 1.0)) + odds)

    spread = math.sqrt(draws * rate * (1.0 - rate))
    return _unimodal(log_ratio, math.floor((draws + 1) * rate), spread, 0, draws)


def hypergeometric(draws: int, noisy: int, population: int) -> Counts:
    """`draws` of `population` rows without replacement, `noisy` of them noisy."""
    least, most = max(0, draws + noisy - population), min(draws, noisy)
    if least == most:
        return fixed(least)

    def log_ratio(r: Reals) -> Reals:
        quiet = population - noisy - draws + r + 1.0
        return np.asarray(np.log((noisy - r) / (r + 1.0)) + np.log((draws - r) / quiet))

    rate = noisy / population
    spread = math.sqrt(draws * rate * (1.0 - rate))
    mode = (draws + 1) * (noisy + 1) // (population + 2)
    return _unimodal(log_ratio, mode, spread, least, most)


def mean_delta(scale: float, epsilon: float, counts: Counts, row_is_noisy: bool) -> Bounds:
    """Return E[δ(ε; μ)] for a row with or without noise, μ = `scale` times its random share."""
    start = 1 if counts.lowest == 0 else 0
    alone = float(counts.weights[0]) if start else 0.0
    alone *= gaussian.upper(epsilon, scale) if row_is_noisy else 1.0
    some = counts.weights[start:]
    estimate, error = 0.0, 0.0
    if some.size:
        integral = _Integral(scale, epsilon, counts.lowest + start, some, row_is_noisy)
        estimate, error = integral.value()
    estimate += alone
    return Bounds(
        max(0.0, estimate * (1.0 - _MARGIN) - error),
        min(1.0, estimate),
        min(1.0, estimate * (1.0 + _MARGIN) + error + counts.lost),
    )


def _unimodal(
    log_ratio: Callable[[Reals], Reals], mode: int, spread: float, least: int, most: int
) -> Counts:
    """Return normalised probabilities from ratios of neighbours, outwards from the mode."""
    mode, reach = min(max(mode, least), most), math.ceil(_DEVIATIONS * spread) + _EXTRA
    low, high = max(least, mode - reach), min(most, mode + reach)
    logs = log_ratio(np.arange(low, high, dtype=float))
    above, below = np.cumsum(logs[mode - low :]), -np.cumsum(logs[: mode - low][::-1])
    weights = np.exp(np.concatenate([below[::-1], [0.0], above]))
    weights /= weights.sum()
    lost = 0.0  # the ratios fall, so what is beyond an end is at most a geometric series
    if low > least:
        down = math.exp(-float(log_ratio(np.array([low - 1.0]))[0]))
        lost += float(weights[0]) * down / (1.0 - down)
    if high < most:
        up = math.exp(float(log_ratio(np.array([float(high)]))[0]))
        lost += float(weights[-1]) * up / (1.0 - up)
    return Counts(low, weights, lost)


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
        step = (high - low) / _FIRST
        total = step * float(self._at(low + step * np.arange(_FIRST + 1.0)).sum())
        intervals, change = _FIRST, math.inf
        while intervals < _LAST and change > _TOLERANCE * total:
            between = low + step * (np.arange(float(intervals)) + 0.5)
            finer = 0.5 * total + 0.5 * step * float(self._at(between).sum())
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

    def _at(self, x: Reals) -> Reals:
        return np.asarray(np.exp(self._log_slope(x)) * self._tail(x))

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
            if len(weights) > 1:
                factors = np.cumsum(weights)[:-1] * special.poch(shapes[:-1] + 1.0, -0.5)
                terms = _powers(factors, shapes[:-1], log_z)
                out += terms * np.sqrt(share / math.pi)
        return out


def _above(x: Reals, log_values: Reals, drop: float) -> tuple[float, float] | None:
    """The ends of the part of x whose values are within `drop` nats of the largest."""
    if log_values.max() < _FAINT:
        return None
    seen = np.flatnonzero(log_values > log_values.max() - drop)
    return float(x[max(seen[0] - 1, 0)]), float(x[min(seen[-1] + 1, len(x) - 1)])


def _powers(factors: Reals, shapes: Reals, log_z: Reals) -> Reals:
    """Σ_a factor_a·z^a for every z, a chunk of exponents at a time."""
    out = np.zeros_like(log_z)
    size = max(1, _CHUNK // len(log_z))
    for start in range(0, len(shapes), size):
        part = slice(start, start + size)
        out += factors[part] @ np.exp(shapes[part, None] * log_z)
    return out
