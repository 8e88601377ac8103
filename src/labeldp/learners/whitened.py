"""A release, turned back into a regression on all rows with noise that is known (theory §9, §10).

With RᵀR = XᵀX and β̂ the fit with all labels a release shows

    b̃ ~ N(b, E·Eᵀ),   b = Rβ̂:

to fit b̃ by R, or by some of its columns, is to fit all rows by them with noise on Xᵀy, whatever
is asked of the coefficients. Privacy adds ‖b̂ − b‖² to the squared error of a prediction b̂.

Sums with public weights are t = C·Xᵀy + S·N(0, I) beside Z = C·XᵀX, S the diagonal of the
deviations. With P = Z·Cᵀ = C·XᵀX·Cᵀ = K·Kᵀ that is R = (C⁻¹K)ᵀ, b̃ = K⁻¹t and E = K⁻¹S. Their noise
may be radial instead, of the same covariance: intervals and shrinkage follow that law, all else
takes it for normal. Secret weights give m rows of [Z | t], N(0, AᵀA) each: RᵀR = ZᵀZ/m, and the
noise of a fit to them is σ_t/√m in every direction (theory §5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.learners.least_squares import Array, compressed

if TYPE_CHECKING:
    from labeldp.release.files import Release
    from labeldp.release.label_model import SketchedLabels, SumLabels

RANK_TOLERANCE = 1e-9
"""Features are quantised to about 20 bits, so a true direction stands far above this, while the
float noise of an exactly collinear one (one-hot levels and a constant) stays far below."""


@dataclass(frozen=True)
class Measured:
    """A number, and the standard deviation of its error."""

    value: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether it stands out of its error: what is divided by it then means something."""
        return self.value > 2 * self.error


@dataclass(frozen=True, eq=False)
class NoisyNormalEquations:
    """b̃ ~ N(R·β̂, E·Eᵀ)."""

    root: Array = field(repr=False)
    """R, for columns in the feature map's scales."""
    estimate: Array = field(repr=False)
    """b̃."""
    spread: Array = field(repr=False)
    """E."""
    rows: int
    """n."""
    residual_ss: Measured | None
    """‖y − Xβ̂‖² of the fit with all labels; None if it was not published."""
    radial: int | None = None
    """In how many dimensions the noise is radial; None: it is normal."""

    def deviations(self, confidence: float) -> float:
        """So many standard deviations hold the noise in any one direction, that often."""
        from scipy.special import ndtri

        if self.radial is None:
            return float(ndtri((1 + confidence) / 2))
        from labeldp.accounting import radial

        return radial.deviations(self.radial, confidence)

    @property
    def noise(self) -> Array:
        """The covariance of b̃: the one place where the noise of a release becomes one."""
        return np.asarray(self.spread @ self.spread.T)

    @property
    def residual_variance(self) -> float | None:
        """σ² per row, for the degrees of freedom that it has; None if it is hardly known."""
        left = self.residual_ss
        if left is None or not left.is_clear:
            return None
        return left.value / max(1, self.rows - len(self.estimate))

    def of(self, used: NDArray[np.bool_]) -> NoisyNormalEquations:
        """The same of the fit by these columns alone; what the others explain is left over."""
        if used.all():
            return self
        left, values, right = np.linalg.svd(self.root[:, used], full_matrices=False)
        kept = values > RANK_TOLERANCE * values.max(initial=0.0)
        inside, root = left[:, kept], (values[:, None] * right)[kept]
        estimate, spread = inside.T @ self.estimate, inside.T @ self.spread
        residual = None
        if self.residual_ss is not None:
            outside = self.estimate - inside @ estimate
            noise = self.spread - inside @ spread
            more = square(outside, noise)
            residual = Measured(
                self.residual_ss.value + more.value, math.hypot(self.residual_ss.error, more.error)
            )
        return replace(self, root=root, estimate=estimate, spread=spread, residual_ss=residual)


def pooled(parts: Sequence[NoisyNormalEquations]) -> NoisyNormalEquations:
    """Of several tables of the same columns whose rows are all different (theory §9).

    The XᵀX add. The coefficients are the mean of the tables' own, each weighed by how well it is
    known: by its noise and, where residuals are published, the sampling of its rows. If the tables
    differ in their coefficients, that mean is what is estimated, and the covariance is exactly its.
    Noise of several that is radial is taken for normal, which a sum of it nearly is.
    """
    if len(parts) == 1:
        return parts[0]
    stacked = np.concatenate([part.root for part in parts])
    estimate = np.concatenate([part.estimate for part in parts])
    spread = _blocks([part.spread for part in parts])
    root = np.asarray(np.linalg.qr(stacked, mode="r"), dtype=np.float64)
    rows = sum(part.rows for part in parts)
    left = [part.residual_ss for part in parts if part.residual_ss is not None]
    known = len(left) == len(parts)
    within = sum(each.value for each in left)
    sampling = max(0.0, within) / max(1, rows - len(estimate)) if known else 0.0
    precision = np.linalg.inv(spread @ spread.T + sampling * np.eye(len(estimate)))
    weighed = stacked.T @ precision
    inverse = np.linalg.solve(weighed @ stacked, weighed)
    residual = None
    if known:
        outside = np.eye(len(estimate)) - stacked @ inverse
        between = square(outside @ estimate, outside @ spread)
        errors = [each.error for each in (*left, between)]
        residual = Measured(within + between.value, math.hypot(*errors))
    together = root @ inverse
    return NoisyNormalEquations(root, together @ estimate, together @ spread, rows, residual)


def _blocks(parts: Sequence[Array]) -> Array:
    from scipy.linalg import block_diag

    return np.asarray(block_diag(*parts), dtype=np.float64)


def square(estimate: Array, spread: Array) -> Measured:
    """‖b‖² from b̃ ~ N(b, EEᵀ), without the bias that noise would bring."""
    value = float(estimate @ estimate - np.sum(spread**2))
    return Measured(value, form_error(spread.T @ estimate, spread.T @ spread))


def form_error(slope: Array, form: Array) -> float:
    """The deviation of a quadratic form of x ~ N(x₀, I), from its half gradient at x and matrix.

    Its variance 4‖Fx₀‖² + 2‖F‖² is estimated by 4‖Fx‖² − 2‖F‖², and is at least 2‖F‖².
    """
    scatter = float(np.sum(form**2))
    return math.sqrt(max(4 * float(slope @ slope) - 2 * scatter, 2 * scatter))


def weighed(release: Release, sums: SumLabels) -> NoisyNormalEquations:
    """Of sums with public weights."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular

    chunks = list(release.chunks())
    design, labels = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    product = design @ sums.weights.T
    try:
        lower = cholesky((product + product.T) / 2, lower=True)
        root = _unweighed(sums.weights, lower).T
    except (LinAlgError, ValueError):
        raise InputError(
            "the release's weights and aggregates do not belong together; verify it"
        ) from None
    return NoisyNormalEquations(
        root,
        np.asarray(solve_triangular(lower, labels, lower=True)),
        np.asarray(solve_triangular(lower, np.diag(sums.std), lower=True)),
        release.features.rows,
        _residual(release, sums),
        len(labels) if sums.radial else None,
    )


def _unweighed(weights: Array, lower: Array) -> Array:
    """C⁻¹K."""
    from scipy.linalg import solve, solve_triangular

    if np.triu(weights, 1).any():
        return np.asarray(solve(weights, lower))
    return np.asarray(solve_triangular(weights, lower, lower=True))


def _residual(release: Release, sums: SumLabels) -> Measured | None:
    """σ² from σ̂ = σ + noise of deviation s₀, if it was published (theory §6.2)."""
    if sums.residual is None:
        return None
    root, std = sums.residual
    return possible(release, square(np.array([max(0.0, root)]), np.array([[std]])))


def possible(release: Release, residual_ss: Measured) -> Measured:
    """No labels in a range of width Δ leave more than n·Δ²/4."""
    most = release.features.rows * release.certificate.get("label_width", math.inf) ** 2 / 4
    return replace(residual_ss, value=min(residual_ss.value, most))


def sketched(release: Release, sketch: SketchedLabels) -> NoisyNormalEquations:
    """Of secret weights: the noise is estimated on the m − d directions that no column explains."""
    bags, part = release.bags, sketch.share
    design, labels = compressed(release.design, release.labels)
    left, values, right = np.linalg.svd(design, full_matrices=False)
    kept = values > RANK_TOLERANCE * values.max()
    estimate = left[:, kept].T @ labels
    freedom = bags - len(estimate)
    if freedom < 1:
        raise InputError(
            "as many aggregates as columns do not show how noisy they are; publish more `bags`"
        )
    variance = max(0.0, float(labels @ labels - estimate @ estimate)) / freedom
    error = variance * math.sqrt(2 / freedom) / part
    share = math.sqrt(bags * part)
    return NoisyNormalEquations(
        (values[:, None] * right)[kept] / share,
        estimate / share,
        np.eye(len(estimate)) * (math.sqrt(variance) / share),
        release.features.rows,
        possible(release, Measured((variance - sketch.added_variance) / part, error)),
    )
