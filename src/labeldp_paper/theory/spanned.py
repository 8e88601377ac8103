"""Appendix D: where labels lie in the column space of the features, one aggregate tells a change.

If y = Xh, then wᵀy = (wᵀX)h whatever the weights, and of labels with one changed by t it is off
by t·w_i, which is 0 with probability 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError, positive

Reals = NDArray[np.float64]


def spanned_gap(features: Reals, labels: Reals, sums: Reals, totals: Reals) -> Reals:
    """|wᵀy − (wᵀX)h| of every aggregate, y = Xh the believed labels; InputError if there is no h.

    features (rows, columns), labels (rows); sums (bags, columns) and totals (bags), as released.
    """
    weights, *_ = np.linalg.lstsq(features, labels, rcond=None)
    off = float(np.abs(features @ weights - labels).max())
    if off > 1e-8 * max(1.0, float(np.abs(labels).max())):
        raise InputError(
            f"`labels` are up to {off:.3g} off the column space of `features`; the attack needs "
            "labels that lie in it"
        )
    return np.asarray(np.abs(totals - sums @ weights))


def labels_changed(
    features: Reals, labels: Reals, sums: Reals, totals: Reals, tolerance: float = 1e-6
) -> bool:
    """Whether wtd-FLAg's aggregates come from other labels than the believed ones, with certainty.

    `tolerance` is for rounding, relative to the aggregates.
    """
    positive(tolerance=tolerance)
    gap = spanned_gap(features, labels, sums, totals)
    return bool((gap > tolerance * np.maximum(1.0, np.abs(totals))).any())
