"""δ(ε) of a composed privacy loss by one contour integral (theory 3b, 6).

With L = log dP/dQ under P, δ(ε) = E[(1 − e^{ε−L})₊], and since
(1 − e^{−x})₊ = (1/2πi)∫ e^{zx}/(z(z+1)) dz on any line Re z = z0 > 0,

    δ(ε) = (1/2πi) ∫ E[e^{zL}] e^{−zε} / (z(z+1)) dz,    0 < z0 < first singularity.

A sketch of m bags whose covariances have ratios 1+u and 1−v contributes (theory 3b)
E[e^{zL}] = ((1+α)^z (1−αz))^{−m/2} ((1−β)^z (1+βz))^{−m/2}, α = v/(1−v), β = u/(1+u);
a Gaussian mechanism contributes e^{μ²z(z+1)/2}; independent releases multiply.

The line is bent into a hyperbola through the real saddle, where the trapezoid rule
converges exponentially: halving the step squares the error, so the change seen at the last
halving is a generous bound of what is left. When E[L] is well above ε, δ is not small and
the saddle of E[e^{zL}]e^{−zε} lies in (−1, 0): crossing the pole at 0 adds its residue, and
δ = 1 − (what the line to its left gives).

First-order terms of the logarithm cancel between (1+α)^z and (1−αz). They are removed on
paper, log1p(x) − x is the only logarithm taken, so that m = 1e9 costs no digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy import special

from labeldp.accounting.privacy_profile import LEAST_CLAIM

Reals = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]
Cells = npt.NDArray[np.intp]
Truths = npt.NDArray[np.bool_]
Numbers = TypeVar("Numbers", Reals, Complexes)

_SLOPE = 0.6  # below 1, or a Gaussian factor grows along the arms of the hyperbola
_WIDTHS = 3.0  # scale of the hyperbola, at most this many saddle widths
_DROP = 42.0  # nats below the peak at which the integral is cut off
_FIRST, _LAST = 32, 4096  # nodes on the upper arm
_TOLERANCE = 1e-12  # relative change that ends the halving
_MARGIN = 1e-9  # relative margin of every upper bound, far above the rounding below
_HALVINGS = 6, 5, 5, 5, 5  # of the saddle's bracket, so many at once
_LADDER = np.concatenate([[0.0], np.geomspace(1.2, 48.0, 24)])  # where the cut-off may be
_BLOCK = 80  # cells at a time, that intermediate results stay in the cache
_SERIES = 1.0 / np.arange(3.0, 27.0, 2.0)


def log1p_minus(x: Numbers) -> Numbers:
    """log(1+x) − x to full relative precision, real or complex.

    With r = x/(2+x): log(1+x) = 2 artanh r and x = 2r/(1−r), so the difference is
    −x·r + 2r³(1/3 + r²/5 + …), the form used for |x| < 0.3.
    """
    small = np.abs(x) < 0.3
    if small.all():
        return _log1p_minus_series(x)
    out = np.empty_like(x)
    out[small] = _log1p_minus_series(x[small])
    out[~small] = special.log1p(x[~small]) - x[~small]
    return out


def _log1p_minus_series(x: Numbers) -> Numbers:
    r = x / (2.0 + x)
    square = r * r
    largest = float(np.abs(square).max(initial=1e-99))
    terms = min(len(_SERIES), math.ceil(-65.0 / math.log(largest)))  # the rest is below 1e-28
    total = np.full_like(x, _SERIES[terms - 1])
    for coefficient in _SERIES[: terms - 1][::-1]:
        total *= square
        total += coefficient
    total *= 2.0 * square
    total -= x
    total *= r
    return total


@dataclass(frozen=True)
class Loss:
    """Independent releases, vectorised: arrays are (factors, cells). `joint_loss` builds one."""

    shape: Reals  # m/2 of each factor, (factors, 1)
    alpha: Reals
    beta: Reals
    drift: Reals  # E[L] of each cell, the Gaussian's share aside
    gaussian: float  # μ

    def take(self, cells: Cells) -> Loss:
        """Return the same loss on some of the cells."""
        alpha, beta = self.alpha[:, cells], self.beta[:, cells]
        return Loss(self.shape, alpha, beta, self.drift[cells], self.gaussian)

    def curved(self, z: Numbers) -> Numbers:
        """Return log E[e^{zL}] less its linear and Gaussian parts, at z of shape (cells, nodes)."""
        logs = log1p_minus(np.concatenate([-self.alpha, self.beta])[:, :, None] * z)
        pairs = logs[: len(self.shape)] + logs[len(self.shape) :]
        return np.asarray(np.einsum("f,fcn->cn", -self.shape[:, 0], pairs))

    def log_integrand(self, z: Complexes, epsilon: float) -> Complexes:
        """Return log of E[e^{zL}]e^{−zε}/(z(z+1)), on any branch: it is only exponentiated."""
        gauss = 0.5 * self.gaussian**2
        log_mgf = self.curved(z) + z * (self.drift[:, None] + gauss * (z + 1.0))
        return log_mgf - z * epsilon - np.log(z * (1.0 + z))

    def mean(self) -> Reals:
        """E[L], the slope of log E[e^{zL}] at 0."""
        return self.drift + 0.5 * self.gaussian**2

    def offset(self) -> Reals:
        """κ of theory 3b: L = κ + ΣαG1 − ΣβG2."""
        return np.asarray(-(self.shape * (np.log1p(self.alpha) + np.log1p(-self.beta))).sum(0))

    def slope(self, z: Reals) -> Reals:
        """d/dz of log E[e^{zL}] − log|z(z+1)|, increasing in z on each side of the pole.

        At z of shape (cells, nodes).
        """
        a, b, shape = (part[:, :, None] for part in (self.alpha, self.beta, self.shape))
        growth = (shape * (a * a * z / (1.0 - a * z) + b * b * z / (1.0 + b * z))).sum(0)
        rest = self.gaussian**2 * z - 1.0 / z - 1.0 / (1.0 + z)
        return np.asarray(self.mean()[:, None] + growth + rest)

    def width(self, z: Reals) -> Reals:
        """Return the standard deviation of the integrand at its saddle."""
        a, b = self.alpha, self.beta
        curved = (self.shape * ((a / (1.0 - a * z)) ** 2 + (b / (1.0 + b * z)) ** 2)).sum(0)
        return np.asarray((curved + self.gaussian**2 + z**-2.0 + (1.0 + z) ** -2.0) ** -0.5)


def joint_loss(
    factors: Sequence[tuple[float, npt.ArrayLike, npt.ArrayLike]], gaussian: float = 0.0
) -> Loss:
    """Return the loss of sketches (bags, α, β), each α and β a scalar or an array of cells."""
    cells = np.broadcast_shapes((1,), *(np.shape(x) for f in factors for x in f[1:]))
    alpha = np.array([np.broadcast_to(np.asarray(f[1], float), cells) for f in factors])
    beta = np.array([np.broadcast_to(np.asarray(f[2], float), cells) for f in factors])
    shape = np.array([[0.5 * f[0]] for f in factors])
    drift = -(shape * (log1p_minus(alpha) + log1p_minus(-beta))).sum(0)
    return Loss(shape, alpha, beta, drift, float(gaussian))


def loss_delta(loss: Loss, epsilon: float, enough: float = 0.0) -> Reals:
    """Return rows lower, estimate, upper of δ(ε), one column per cell; ε may be any real number.

    Cells whose Chernoff bound is at most `enough` are left at it, and at an estimate of 0. What
    does not settle on the hyperbola is tried on the straight line, which is slower but bends
    neither way: at an ε near κ the integrand falls by its powers alone.

    `upper` is the integral plus ten times the last change of the halving, plus its rounding
    (each logarithm is good to a few units in the last place, so the integrand to that
    many times the size of its terms), plus a relative 1e-9; and never above the Chernoff
    bound, to which a cell falls back when the integral does not settle.
    """
    out = np.zeros((3, loss.alpha.shape[1]))
    sure = (loss.alpha == 0).all(0) & (loss.gaussian == 0) & (epsilon >= loss.offset())
    live = np.flatnonzero(~sure)  # elsewhere L <= ε surely and δ = 0 exactly
    with np.errstate(all="ignore"):
        crossings = _crossings(loss.take(live), epsilon)
        out[2, live] = crossings[2]
        seen = np.flatnonzero(out[2, live] > max(LEAST_CLAIM, enough))
        for start in range(0, len(seen), _BLOCK):
            block = seen[start : start + _BLOCK]
            for slope in (_SLOPE, 0.0):
                cells = live[block]
                out[:, cells] = _by_contour(loss.take(cells), epsilon, crossings[:, block], slope)
                block = block[out[0, cells] == 0.0]  # did not settle
                if not block.size:
                    break
    return out


def _crossings(loss: Loss, epsilon: float) -> Reals:
    """Return where contours cross the real line, one column per cell, and what holds there.

    Rows: the saddle z; 1 where it is left of the pole at 0, else 0; the Chernoff bound
    δ ≤ E[e^{zL}]e^{−zε} z^z/(1+z)^{1+z} for z > 0; the relative rounding of the integrand.
    """
    # Where the mean is well above ε, δ is near 1: the contour goes left of the pole at 0.
    left = loss.mean() > epsilon + 1.0
    z = _saddle(loss, epsilon, left)
    curved, gauss = loss.curved(z[:, None])[:, 0], loss.gaussian**2
    # What cancels in the exponent is rounded relative to its magnitude, not to the difference.
    linear = np.abs(z) * (np.abs(loss.drift) + gauss * (1.0 + np.abs(z)) + abs(epsilon))
    rounding = 1e-15 * (1.0 + (linear + np.abs(curved)))
    log_mgf = curved + z * (loss.drift + 0.5 * gauss * (z + 1.0))
    # (1 − e^{−x})e^{−zx} is largest at e^{−x} = z/(1+z), where it is z^z/(1+z)^{1+z}; so
    # (1 − e^{ε−L})₊ ≤ that · e^{z(L−ε)}, and δ is at most its mean, for any z > 0.
    weight = -z * np.log1p(1.0 / z) - np.log1p(z)
    bound = np.exp(log_mgf - z * epsilon + weight + rounding + _MARGIN)
    chernoff = np.where(left | np.isnan(bound), 1.0, np.clip(bound, LEAST_CLAIM, 1.0))
    return np.array([z, left, chernoff, rounding])


def _by_contour(loss: Loss, epsilon: float, crossings: Reals, slope: float) -> Reals:
    """Return rows lower, estimate, upper of δ on a hyperbola; lower = 0 where it did not settle."""
    saddle, left, chernoff, rounding = crossings
    integral, change, mass, peak = _integral(loss, epsilon, saddle, slope)
    scale = np.exp(peak)
    estimate = left + scale * integral  # 1 left of the pole at 0: its residue
    # Halving squares the error, so what is left is far below the last change: 10 is generous. The
    # rounding is relative to the integral of the modulus, of which the integral may be little.
    error = scale * (10.0 * change + rounding * mass)
    settled = (error < 1e-6 * estimate) & (estimate <= 1.0 + error)
    estimate = np.where(settled, np.minimum(estimate, chernoff), chernoff)
    upper = np.where(settled, estimate * (1.0 + _MARGIN) + error, chernoff)
    lower = np.where(settled, estimate * (1.0 - _MARGIN) - error, 0.0)
    upper = np.minimum(upper, chernoff)
    return np.array([np.clip(lower, 0.0, upper), np.minimum(estimate, upper), upper])


def _saddle(loss: Loss, epsilon: float, left: Truths) -> Reals:
    """The real minimum of the integrand, in (0, 1/α) or (−1, 0), by bisection on a log scale.

    Any point of the interval gives the same integral; a good one gives it quickly.
    """
    first = loss.alpha.max(0)[:, None]
    last = (1.0 - 2.0**-48) / first  # never on the singularity itself
    side = left[:, None]

    def place(s: Reals) -> Reals:
        right = np.minimum(1.0 / (np.exp(-s) + first), last)
        return np.where(side, -1.0 / (1.0 + np.exp(s)), right) if left.any() else right

    low, step = np.full(side.shape, -60.0), np.where(side, 120.0, 560.0)
    for halvings in _HALVINGS:
        step = step / 2.0**halvings
        below = loss.slope(place(low + step * np.arange(1.0, 2.0**halvings))) <= epsilon
        low = low + step * below.sum(1, keepdims=True)
    return place(low + 0.5 * step)[:, 0]


def _integral(
    loss: Loss, epsilon: float, saddle: Reals, slope: float
) -> tuple[Reals, Reals, Reals, Reals]:
    """(1/2πi)∫ of the integrand over its peak value; last change; integral of the modulus.

    And the logarithm of that peak, the modulus at the saddle.
    """
    # The hyperbola stays clear of the poles at 0 and −1 and of the singularity at 1/α.
    first = loss.alpha.max(0)
    gap = np.minimum(np.abs(saddle), np.abs(1.0 + saddle))
    gap = np.minimum(gap, 1.0 / first - saddle)
    scale = np.minimum(gap, _WIDTHS * loss.width(saddle))
    # Far out |E[e^{zL}]e^{−zε}| is e^{(κ−ε)Re z} times powers: bend to where that falls.
    bend = np.where(epsilon > loss.offset(), slope, -slope)
    peak = loss.log_integrand(saddle[:, None].astype(complex), epsilon).real

    def path(cells: Cells, t: Reals) -> tuple[Complexes, Complexes]:
        """z, and dz/dt over πi."""
        centre, c, s = saddle[cells, None], scale[cells, None], bend[cells, None]
        if (t == t[0]).all():  # as mostly in a block of neighbours
            t = t[:1]
        rise, height = 2.0 * np.sinh(0.5 * t) ** 2, np.sinh(t)
        return centre + c * (s * rise + 1j * height), c * (np.cosh(t) - 1j * s * height) / np.pi

    def sample(cells: Cells, t: Reals) -> Complexes:
        z, speed = path(cells, t)
        log_value = loss.take(cells).log_integrand(z, epsilon) - peak[cells]
        return np.asarray(np.exp(log_value) * speed)

    # Where the arms may be cut off: log of the modulus but for a constant, less exact, in real
    # numbers, on a ladder of places; the rung after the last one whose value still matters.
    z, speed = path(np.arange(len(saddle)), _LADDER[None, :])
    a, b, shape = (part[:, :, None] for part in (loss.alpha, loss.beta, loss.shape))
    x, y = z.real, z.imag**2
    down = np.log((1.0 - a * x) ** 2 + a * a * y) + np.log((1.0 + b * x) ** 2 + b * b * y)
    down = (shape * (down + 2.0 * (a - b) * x)).sum(0)
    down += np.log(x * x + y) + np.log((1.0 + x) ** 2 + y)
    gauss = loss.gaussian**2 * (x * x - y + x)
    size = 0.5 * (gauss - down) + x * (loss.drift[:, None] - epsilon) + np.log(np.abs(speed))
    matters = ~(size < size[:, :1] - _DROP)
    last = size.shape[1] - 1 - np.argmax(matters[:, ::-1], axis=1)
    reach = _LADDER[np.minimum(last + 1, size.shape[1] - 1)]
    return *_trapezoid(sample, reach), peak[:, 0]


def _trapezoid(
    sample: Callable[[Cells, Reals], Complexes], reach: Reals
) -> tuple[Reals, Reals, Reals]:
    """∫ Re sample dt from 0 to `reach`, cell by cell, halving the step until it settles.

    The integrand at conjugate points is conjugate, so twice the real part of the upper arm is the
    whole contour (`speed` is over πi, not 2πi). Every node is used again: only those between are
    new.
    """
    active, nodes, step = np.arange(len(reach)), _FIRST, reach / _FIRST
    both = sample(active, 0.5 * step[:, None] * np.arange(2.0 * nodes + 1.0))
    values, between = both[:, ::2].copy(), both[:, 1::2]
    values[:, 0] *= 0.5
    integral, mass = step * values.real.sum(1), step * np.abs(values).sum(1)
    change = np.full(len(reach), np.inf)
    while True:
        step[active] *= 0.5
        finer = 0.5 * integral[active] + step[active] * between.real.sum(1)
        change[active] = np.abs(finer - integral[active])
        integral[active] = finer
        mass[active] = 0.5 * mass[active] + step[active] * np.abs(between).sum(1)
        active = active[~(change[active] <= _TOLERANCE * mass[active])]
        nodes *= 2
        if not active.size or nodes >= _LAST:
            return integral, change, mass
        between = sample(active, step[active, None] * 0.5 * np.arange(1.0, 2.0 * nodes, 2.0))
