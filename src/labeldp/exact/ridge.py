"""A public ridge in the whitening: what a fit that shrinks has of the noise (theory §12).

Least squares counts noise in every direction alike. A fit with a penalty λ·‖r‖² on its
coefficients has of noise in b only what W = (I + λ·R⁻ᵀR⁻¹)⁻¹ leaves, so it is tr(WS) that its
shape makes least. With R'ᵀR' = XᵀX + λI in place of XᵀX that is the same problem: rows become
u' = R'⁻ᵀx, C = S'^{-½}R'⁻ᵀ, tr S' = tr(WS), but Σ u'u'ᵀ = W, no longer I. C is as square and
regular as before, so nobody who reads a release need know. The constant is not penalised.

Whether a ridge pays, and which, is a question about labels that nobody has seen. `Expected` answers
it for those that a prior of the fit (`learners/shrinkage.py`) expects; no label is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import VerifiedCholesky, ridged
from labeldp.features.feature_map import FeatureMap

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ridge:
    """R' of one λ."""

    factor: VerifiedCholesky
    even: Array = field(repr=False)
    """W in its coordinates: Σ u'u'ᵀ over all rows."""

    @classmethod
    def of(cls, factor: VerifiedCholesky, features: FeatureMap, size: float) -> Ridge:
        """`size` is λ over the mean eigenvalue of XᵀX without the mean."""
        units, first = _units(factor, features), _constants(features)
        slopes = _slopes(factor, features)
        penalties = size * float(np.square(slopes).sum()) / max(1, slopes.shape[1]) / units**2
        penalties[:first] = 0.0
        other = ridged(factor, penalties)
        root = other.inverse @ factor.lower
        return cls(other, np.asarray(root @ root.T))


@dataclass(frozen=True)
class Expected:
    """Labels whose explained part b is N(0, v0·q0q0ᵀ + τ·(BBᵀ)^½), B the columns without the mean.

    Between coefficients of one size, BBᵀ, and directions of one size, I.
    """

    covariance: Array = field(repr=False)

    @classmethod
    def of(
        cls, factor: VerifiedCholesky, features: FeatureMap, *, explained: float, mean: float
    ) -> Expected:
        """Sums of squares over all rows: of what columns explain, and of the mean."""
        slopes, first = _slopes(factor, features), _constants(features)
        vectors, values, _ = np.linalg.svd(slopes, full_matrices=False)
        size = explained / values.sum() if values.any() else 0.0
        whole = np.zeros((factor.rank, factor.rank))
        whole[first:, first:] = (vectors * (size * values)) @ vectors.T
        whole[:first, :first] = mean
        return cls(whole)

    def missed(self, root: Array) -> float:
        """The expected error of the posterior mean, if noise in b has the covariance root·rootᵀ."""
        noise = root @ root.T
        left = np.linalg.solve(self.covariance + noise, self.covariance)
        return float((noise * left).sum())


def _constants(features: FeatureMap) -> int:
    """The first column is the constant, and the first direction the mean's; or there is none."""
    return int(features.constant is not None)


def _units(factor: VerifiedCholesky, features: FeatureMap) -> Array:
    """What the feature map makes of one scaled code of every column."""
    return np.asarray(np.ldexp(features.kept_scales, factor.exponents))


def _slopes(factor: VerifiedCholesky, features: FeatureMap) -> Array:
    """B: R in the units of the map, less the constant and the mean."""
    first = _constants(features)
    return np.asarray((factor.lower.T * _units(factor, features))[first:, first:])
