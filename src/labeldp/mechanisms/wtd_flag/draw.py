"""wtd-FLAg (Algorithm 1): m sums of all rows with secret Gaussian weights.

The m rows WᵀA are iid N(0, AᵀA), so no weights are drawn (theory §3a): the aggregated
features are Z = G·R with RᵀR = XᵀX, and given Z the aggregated labels are independent
N(Z_j·β̂, σ²). Z does not depend on labels and takes an ordinary float path; the labels go
through the door. An added floor of variance s² (theory §6) makes σ² into σ² + s².

Aggregates are independent, so blocks of them are drawn by several threads at once. Where a
block begins depends on the number of columns alone, its randomness on its place alone
(`Randomness.block`): threads change nothing but time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp import door
from labeldp._random import Randomness
from labeldp._threads import in_order
from labeldp.mechanisms.label_law import LabelLaw
from labeldp.statistics import Factor, LabelGrid, Residual

_MOST_ROWS, _FEWEST_ROWS, _NUMBERS = 1 << 14, 1 << 10, 1 << 19
"""A block has at most so many rows, and no more than so many numbers unless it has the fewest."""
_MOST_THREADS = 8
"""They draw faster than one file can be written, and every one holds some MiB."""
_PANEL = 64
"""Columns of the triangle R multiplied at a time: above a panel's diagonal nothing is zero."""


@dataclass(frozen=True)
class Aggregates:
    """Some of the published rows: public."""

    features: NDArray[np.float64]
    """Σ w·x over design columns in the feature map's scales; every column contiguous."""
    labels: NDArray[np.float64]
    """Σ w·y (+ added noise), on the public grid."""


def block_rows(columns: int) -> int:
    """Rows of a block: a power of two, so that a block fits a processor's cache if it can."""
    return max(_FEWEST_ROWS, min(_MOST_ROWS, 1 << (_NUMBERS // columns).bit_length() - 1))


def draw_aggregates(
    factor: Factor,
    residual: Residual,
    labels: LabelGrid,
    *,
    bags: int,
    scales: NDArray[np.float64],
    added_variance: float,
    grid: int,
    intercept: bool,
    randomness: Randomness,
    threads: int = 1,
) -> Generator[Aggregates, None, None]:
    """Yield `bags` aggregates block by block, drawn ahead by so many threads."""
    root = factor.root()
    law = LabelLaw(residual, labels, added_variance, intercept)
    rows = block_rows(factor.rank + 1)

    def block(place: int) -> Aggregates:
        streams = randomness.block(place)
        size = min(rows, bags - place * rows)
        normal = streams.features.standard_normal((size, factor.rank))
        features = _times_triangle(normal, root)
        mean, error = law.means(features)
        codes = door.publish(
            mean, error, law.std, grid - labels.exponent, streams, law.exact_at(features)
        )
        features *= scales
        return Aggregates(features, np.ldexp(codes, labels.exponent))

    with threadpool_limits(1, "blas"):  # the threads here are enough
        yield from in_order(block, range(-(-bags // rows)), min(threads, _MOST_THREADS))


def _times_triangle(left: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """left @ upper for an upper triangle, in Fortran order."""
    product = np.empty((upper.shape[1], len(left)))
    for start in range(0, len(product), _PANEL):
        stop = start + _PANEL
        np.matmul(upper[:stop, start:stop].T, left[:, :stop].T, out=product[start:stop])
    return product.T


def draw_compact(
    factor: Factor,
    residual: Residual,
    labels: LabelGrid,
    *,
    bags: int,
    scales: NDArray[np.float64],
    added_variance: float,
    grid: int,
    intercept: bool,
    randomness: Randomness,
) -> Generator[Aggregates, None, None]:
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
        np.vstack([features * scales, np.zeros((1, rank))]),
        np.ldexp(np.append(codes, left), labels.exponent),
    )
