"""δ(ε) of one neighbour of a sketch by integrating densities: a second method (theory §3b)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from labeldp.accounting import contour
from labeldp.accounting.contour import log1p_minus
from labeldp.accounting.privacy_profile import Bounds

Reals = npt.NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_SPREAD = 8.0  # √G2 has standard deviation 1/2: the integral runs over 16 of them each way


def by_contour(loss: contour.Loss, epsilon: float) -> Bounds:
    """δ(ε) of a loss with a single cell, by the method that is tested."""
    lower, estimate, upper = contour.loss_delta(loss, epsilon)[:, 0].tolist()
    return Bounds(lower, estimate, upper)


def delta_by_quadrature(bags: float, alpha: float, beta: float, epsilon: float) -> float:
    """δ(ε) of L = κ + αG1 − βG2 by integrating the densities of G1 and G2 (theory 3b).

    The second method: slower than the contour, sharing nothing with it, 1e-8 for δ ≥ 1e-12
    (not where α exceeds some thousands, v almost 1, with m ≤ 3: there it errs by up to 3e-4).
    δ = E[f(ε − κ + βG2)] with f(x) = E[(1 − e^{x−αG1})₊], two integrals of positive
    functions. (The closed form of f through incomplete gamma functions is not used:
    scipy's lose three digits beyond 4.5 standard deviations once m exceeds about 1e6.)
    Substituting G = s² makes the densities smooth for m = 1; near its corner x = 0 the
    function f is smooth in w = √(s − s*).
    """
    shape = 0.5 * bags
    level = epsilon + shape * (math.log1p(alpha) + math.log1p(-beta))  # ε − κ
    if beta == 0.0:
        return float(_excess(np.array([level]), shape, alpha)[0])
    corner = math.sqrt(max(0.0, -level / beta))
    s, weight = _outer_nodes(corner, level, shape, alpha, beta)
    value = _excess(level + beta * s * s, shape, alpha)
    return min(1.0, float(np.sum(weight * value * _root_gamma_density(s, shape))))


def _outer_nodes(
    corner: float, level: float, shape: float, alpha: float, beta: float
) -> tuple[Reals, Reals]:
    """Gauss nodes on panels cut where f has its corner, where αG1 is likely, and evenly."""
    low, high = _range(shape)
    likely = shape + math.sqrt(shape) * np.array([-12, -6, -3, -1, 0, 1, 3, 6, 12, 24, 48])
    squares = (alpha * likely - level) / beta
    cuts = np.concatenate([np.linspace(low, high, 13), np.sqrt(squares[squares > 0]), [corner]])
    edges = np.unique(np.clip(cuts, low, high))
    left, size = edges[:-1, None], np.diff(edges)[:, None]
    y = 0.5 * (_NODES + 1.0)
    bent = left == corner
    s = left + size * np.where(bent, y * y, y)
    weight = size * _WEIGHTS * np.where(bent, y, 0.5)
    return s.ravel(), weight.ravel()


def _range(shape: float) -> tuple[float, float]:
    return max(0.0, math.sqrt(shape) - _SPREAD), math.sqrt(shape) + _SPREAD


def _root_gamma_density(s: Reals, shape: float) -> Reals:
    """The density 2s^{2a−1}e^{−s²}/Γ(a) of √G, large terms cancelled on paper.

    With x = s/√a its logarithm is a(2 ln x − x² + 1) − ln x plus a constant of a alone.
    """
    x = s / math.sqrt(shape)
    constant = shape * math.log(shape) - shape - 0.5 * math.log(shape) - math.lgamma(shape)
    if shape > 1e3:  # the same by Stirling's series
        constant = -0.5 * math.log(2.0 * math.pi) - 1.0 / (12.0 * shape) + shape**-3 / 360.0
    bulk = shape * (2.0 * log1p_minus(x - 1.0) - (x - 1.0) ** 2) - np.log(x)
    return np.asarray(2.0 * np.exp(bulk + constant))


def _excess(x: Reals, shape: float, alpha: float) -> Reals:
    """f(x) = E[(1 − e^{x−αG})₊] = ∫ over s > √(x₊/α) of (1 − e^{x−αs²}) density(s) ds."""
    if alpha == 0.0:
        return -np.expm1(np.minimum(x, 0.0))
    low, high = _range(shape)
    start = np.maximum(low, np.sqrt(np.maximum(x, 0.0) / alpha))[:, None, None]
    size = (np.maximum(high, start + 4.0) - start) / 6.0
    s = start + size * (np.arange(6.0)[:, None] + 0.5 * (_NODES + 1.0))
    gain = -np.expm1(np.minimum(x[:, None, None] - alpha * s * s, 0.0))
    return np.asarray((0.5 * size * _WEIGHTS * gain * _root_gamma_density(s, shape)).sum((1, 2)))
