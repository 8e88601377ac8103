"""Two tables under a Gaussian sketch, from their Gram matrices alone (theory §3).

Nothing is assumed of how the tables differ: no leverage, no residual, no number of changed
labels. m aggregates are m samples of N(0, AᵀA), so the generalised eigenvalues of the two Gram
matrices say everything, and δ(ε) is one integral of incomplete gamma functions.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, linalg, special

Reals = NDArray[np.float64]

_SAME = 1e-9
"""An eigenvalue as near to 1 as this is one of the many that a change of labels leaves alone."""


def eigenvalues(design: Reals, labels: Reals, changed: Reals, added: float = 0.0) -> Reals:
    """Those of (A'ᵀA', AᵀA), A = [X|y] with a row (0, …, 0, √added) below (theory §6.3)."""
    before, after = (_gram(design, column, added) for column in (labels, changed))
    return np.asarray(linalg.eigvalsh(after, before))


def delta(bags: int, ratios: Reals, epsilon: float) -> float:
    """δ(ε) of `bags` aggregates of two tables with these eigenvalues, the worse direction."""
    return max(one_way(bags, 1.0 / ratios - 1.0, epsilon), one_way(bags, ratios - 1.0, epsilon))


def one_way(bags: int, slopes: Reals, epsilon: float) -> float:
    """E[(1 − e^{ε−L})₊] for L = Σ (slope·G − (m/2)·ln(1 + slope)), G ~ Gamma(m/2) each its own.

    L is the log-ratio of the densities where the other Gram has the eigenvalue 1/(1 + slope).
    """
    active = [float(slope) for slope in slopes if abs(slope) > _SAME]
    rising, falling = ([s for s in active if s * sign > 0] for sign in (1, -1))
    assert max(len(rising), len(falling)) <= 1, "labels alone change the Gram by rank two"
    alpha, beta = (abs(side[0]) if side else 0.0 for side in (rising, falling))
    shape = bags / 2
    level = epsilon + shape * sum(math.log1p(slope) for slope in active)
    if beta == 0.0:
        return _excess(level, shape, alpha)
    return _mean_over_gamma(shape, level, alpha, beta)


def _mean_over_gamma(shape: float, level: float, alpha: float, beta: float) -> float:
    """E[excess(level + β·G)]: with G = s² the density is smooth even for one aggregate."""

    def integrand(s: float) -> float:
        if s == 0.0:
            return 0.0 if shape > 0.5 else 2.0 * _excess(level, shape, alpha) / math.sqrt(math.pi)
        density = (2 * shape - 1) * math.log(s) - s * s - math.lgamma(shape)
        return 2.0 * math.exp(density) * _excess(level + beta * s * s, shape, alpha)

    centre = math.sqrt(shape)
    low, high = max(0.0, centre - 7.0), centre + 7.0
    corner = math.sqrt(max(0.0, -level / beta))
    cuts = np.unique(np.clip([*np.linspace(low, high, 15), corner], low, high))
    parts = [
        integrate.quad(integrand, left, right, epsabs=0.0, epsrel=1e-9)[0]
        for left, right in itertools.pairwise(cuts)
    ]
    return math.fsum(parts)


def _excess(x: float, shape: float, alpha: float) -> float:
    """E[(1 − e^{x−αG})₊] for G ~ Gamma(shape), in closed form (theory §3b)."""
    if alpha == 0.0:
        return max(0.0, -math.expm1(x))
    tilt = math.exp(min(x - shape * math.log1p(alpha), 700.0))
    if x <= 0.0:
        return 1.0 - tilt
    far, near = x / alpha, x * (1.0 + alpha) / alpha
    return float(special.gammaincc(shape, far) - tilt * special.gammaincc(shape, near))


def _gram(design: Reals, labels: Reals, added: float) -> Reals:
    table = np.column_stack([design, labels])
    gram = table.T @ table
    gram[-1, -1] += added
    return np.asarray(gram)
