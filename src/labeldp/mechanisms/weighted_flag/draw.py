"""wtd-FLAg (Algorithm 1): m sums of all rows with secret Gaussian weights.

The m rows WᵀA are iid N(0, AᵀA), so no weights are drawn (theory §3a): the aggregated
features are Z = G·R with RᵀR = XᵀX, and given Z the aggregated labels are independent
N(Z_j·β̂, σ²). Z does not depend on labels and takes an ordinary float path; the labels go
through the door. An added floor of variance s² (theory §6) makes σ² into σ² + s².
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp import door
from labeldp._random import Randomness
from labeldp.mechanisms.label_law import LabelLaw
from labeldp.statistics import Factor, LabelGrid, Residual

CHUNK_ROWS = 16384
"""Rows drawn, and written as one row group, at a time."""


@dataclass(frozen=True)
class Aggregates:
    """Some of the published rows: public."""

    features: NDArray[np.float64]
    """Σ w·x over integer design columns (multiply by the feature map's scales)."""
    labels: NDArray[np.float64]
    """Σ w·y (+ added noise), on the public grid."""


def draw_aggregates(
    factor: Factor,
    residual: Residual,
    labels: LabelGrid,
    *,
    bags: int,
    added_variance: float,
    grid: int,
    intercept: bool,
    randomness: Randomness,
) -> Iterator[Aggregates]:
    """Yield `bags` aggregates in chunks."""
    root = factor.root()
    law = LabelLaw(residual, labels, added_variance, intercept)
    for start in range(0, bags, CHUNK_ROWS):
        size = min(CHUNK_ROWS, bags - start)
        features = randomness.features.standard_normal((size, factor.rank)) @ root
        mean, error = law.means(features)
        codes = door.publish(
            mean, error, law.std, grid - labels.exponent, randomness, law.exact_at(features)
        )
        yield Aggregates(features, np.ldexp(codes, labels.exponent))


def draw_compact(
    factor: Factor,
    residual: Residual,
    labels: LabelGrid,
    *,
    bags: int,
    added_variance: float,
    grid: int,
    intercept: bool,
    randomness: Randomness,
) -> Iterator[Aggregates]:
    """Yield the d+1 rows of a compact release: the triangle that QR makes of `bags` aggregates.

    G = QT with T the Bartlett factor of a Wishart matrix: χ with m, m−1, … degrees of freedom
    on its diagonal, normals above, all independent. Row i of T·R takes the place of an aggregate,
    and a last row, without features, holds what is left of the labels: √(σ² + s²)·χ with
    m − d degrees. Either form can be made from the other without labels (theory §8).
    """
    rank, stream = factor.rank, randomness.features
    triangle = np.triu(stream.standard_normal((rank, rank)), 1)
    triangle += np.diag(np.sqrt(stream.chisquare(bags - np.arange(rank))))
    features = triangle @ factor.root()
    law = LabelLaw(residual, labels, added_variance, intercept)
    mean, error = law.means(features)
    step = grid - labels.exponent
    codes = door.publish(mean, error, law.std, step, randomness, law.exact_at(features))
    left = door.publish_chi(bags - rank, step, randomness, law.exact_at(features))
    yield Aggregates(
        np.vstack([features, np.zeros((1, rank))]),
        np.ldexp(np.append(codes, left), labels.exponent),
    )
