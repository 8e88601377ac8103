"""A release with public weights, turned back into a regression on all rows (theory §9, §10).

Aggregates are t = C·Xᵀy + s·N(0, I) beside Z = C·XᵀX. With P = Z·Cᵀ = C·XᵀX·Cᵀ = K·Kᵀ

    R = (C⁻¹K)ᵀ has RᵀR = XᵀX,   and   b̃ = K⁻¹t = Rβ̂ + s·K⁻¹·N(0, I):

to fit b̃ by R is to fit all rows with noise on Xᵀy, whatever is asked of the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp._arrow import column_numbers
from labeldp.errors import InputError
from labeldp.learners.protocol import Array

if TYPE_CHECKING:
    from labeldp.release import Release


@dataclass(frozen=True, eq=False)
class Whitened:
    """b̃ ~ N(R·β̂, E·Eᵀ)."""

    root: Array = field(repr=False)
    """R, for columns in the feature map's scales."""
    estimate: Array = field(repr=False)
    """b̃."""
    spread: Array = field(repr=False)
    """E = s·K⁻¹."""


def whitened(release: Release) -> Whitened:
    """Of the published numbers."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular

    assert release.weights is not None
    weights = np.column_stack([column_numbers(column) for column in release.weights.columns])
    weights = weights / release.features.kept_scales
    chunks = list(release.chunks())
    design, labels = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    product = design @ weights.T
    try:
        lower = cholesky((product + product.T) / 2, lower=True)
        root = solve_triangular(weights, lower, lower=True).T
    except (LinAlgError, ValueError):
        raise InputError(
            "the release's weights and aggregates do not belong together; verify it"
        ) from None
    return Whitened(
        root,
        np.asarray(solve_triangular(lower, labels, lower=True)),
        np.asarray(solve_triangular(lower, np.diag(release.noise), lower=True)),
    )


def shrunken(
    white: Whitened, used: NDArray[np.bool_], constant: int | None, middle: float, width: float
) -> Array:
    """Coefficients of the used columns for prediction: the posterior mean (theory §10).

    Labels count from the middle of their range, where the constant can shift them. The mean
    prediction, q0 = R·e/√n with e the constant's coefficient, is left free up to that range.
    """
    from labeldp.learners.shrinkage import empirical_bayes, prior_family

    root = white.root[:, used]
    noise = white.spread @ white.spread.T
    mean, rows, shift = None, 0.0, np.zeros(root.shape[1])
    if constant is not None:
        along = root[:, constant]
        rows, shift[constant] = float(along @ along), middle
        mean = along / np.sqrt(rows)
    family = prior_family(root, mean, constant)
    found = empirical_bayes(
        white.estimate - root @ shift, noise, family, mean, rows * width**2 / 12.0
    )
    return np.asarray(np.linalg.lstsq(root, found.mean)[0] + shift)
