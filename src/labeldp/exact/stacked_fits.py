"""β̂ and σ of many bags at once, in rigorous enclosures: private.

`residual.py` says what is enclosed. Here doubles do: with the rows of a bag at hand, the
residual e = y − Xβ̃ of a trial β̃ is known to a few units in the last place of its terms, and

    σ² = ‖e‖² − ‖Pe‖²,   |β̂_k − β̃_k| ≤ √((XᵀX)⁻¹_kk)·‖Pe‖,   P the projection on the features.

P does not lengthen, so the error of e enters ‖Pe‖ as it is; of the computed e, Pe has the
length of whitener·Xᵀe but for the defect. Where the enclosure does not decide, the exact
`Residual` of the bag does.
"""

from __future__ import annotations

import numpy as np

from labeldp.exact.stacked import ROUNDING, Reals, Stack

_STEPS = 2
_SLACK = 2.0**-49
"""Relative: for the few operations on a bound."""


class Fits:
    """Slopes in label codes with bounds of their errors, and bounds of σ. Prints as nothing.

    Careful bags have bounds that say nothing, until `put`.
    """

    def __init__(self, slope: Reals, slope_error: Reals, low: Reals, high: Reals) -> None:
        self.slope, self.slope_error = slope, slope_error
        self.low, self.high = low, high

    def __repr__(self) -> str:
        return "Fits(private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("fits are private and are not written anywhere")

    def put(self, bag: int, slope: Reals, slope_error: Reals, root: tuple[float, float]) -> None:
        """Replace those of one bag."""
        self.slope[bag], self.slope_error[bag] = slope, slope_error
        self.low[bag], self.high[bag] = root


def fit_stack(stack: Stack, codes: Reals) -> Fits:
    """Least squares of every bag's label codes, (bags, rows), on its features."""
    design, white, whitener = stack.design, stack.white, stack.whitener
    known = 1 - np.where(stack.careful, 0.0, stack.defect)
    slope = np.zeros((stack.bags, stack.columns, 1))
    rest = labels = codes[:, :, None]
    for _ in range(_STEPS):
        slope += whitener.mT @ (white.mT @ rest)
        rest = labels - design @ slope
    terms = np.abs(labels) + np.abs(design) @ np.abs(slope)
    blur = np.linalg.norm(terms[:, :, 0], axis=1) * ((stack.terms + 1) * ROUNDING)
    tilt = _projected(stack, white.mT @ rest, rest) / np.sqrt(known) + blur
    size, slack = np.linalg.norm(rest[:, :, 0], axis=1), (stack.rows + 4) * ROUNDING
    inner = np.maximum(0.0, size * (1 - slack) - blur)
    square = np.maximum(0.0, inner - tilt) * (inner + tilt)
    spread = np.sqrt(np.square(whitener).sum(axis=1) / known[:, None])
    room = (1 + 2 * stack.terms * ROUNDING) * (1 + _SLACK)
    return Fits(
        slope[:, :, 0],
        np.where(stack.careful[:, None], np.inf, spread * tilt[:, None] * room),
        np.where(stack.careful, 0.0, np.sqrt(square) * (1 - _SLACK)),
        np.where(stack.careful, np.inf, (size + blur) * (1 + slack)),
    )


def _projected(stack: Stack, sums: Reals, rest: Reals) -> Reals:
    """Upper bounds of ‖whitener·Xᵀ·rest‖ from its entries' computed `sums`."""
    slack = (stack.terms + stack.rows + 2) * ROUNDING
    error = stack.reach * (np.abs(rest[:, :, 0]).sum(axis=1, keepdims=True) * slack)
    bound = np.linalg.norm(np.abs(sums[:, :, 0]) + error, axis=1)
    return np.asarray(bound * ((1 + stack.terms * ROUNDING) * (1 + _SLACK)))
