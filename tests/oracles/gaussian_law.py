"""The Gaussian mechanism in its textbook form, for arrays (theory §4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

Reals = NDArray[np.float64]


def delta(epsilon: float, mu: Reals) -> Reals:
    """Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), and 0 where nothing is shifted."""
    shifted = np.where(mu > 0.0, mu, 1.0)
    ahead, behind = shifted / 2 - epsilon / shifted, -shifted / 2 - epsilon / shifted
    value = special.ndtr(ahead) - np.exp(epsilon) * special.ndtr(behind)
    return np.asarray(np.where(mu > 0.0, value, 0.0))
