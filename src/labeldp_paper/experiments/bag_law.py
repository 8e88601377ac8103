"""What drawn bags are worth: the smallest residual and largest leverage, and the ε of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from labeldp import DatasetBounds
from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.sketch import SketchProfile
from labeldp_paper.experiments.design import Design, Reals
from labeldp_paper.experiments.result import Row

MOST_EPSILON = 1000.0
"""A larger ε promises nothing that anyone would call privacy."""
_SPANNED = 1e-6
_FAINT = 1e-9


@dataclass(frozen=True)
class WorstBag:
    """The worst over bags."""

    residual_ss: float
    leverage: float
    spanned: int
    """Bags whose labels lie in the span of their features."""


def worst_bags(design: Design, rows: NDArray[np.int32], marks: Sequence[int]) -> list[WorstBag]:
    """The worst over the first m bags (lines of `rows`), for every m of `marks`, increasing."""
    smallest, leverage, spanned, found = math.inf, 0.0, 0, []
    for place, members in enumerate(rows, start=1):
        residual, largest = _bag(design, members)
        smallest, leverage = min(smallest, residual), max(leverage, largest)
        spanned += residual == 0.0
        if place in marks:
            found.append(WorstBag(smallest, leverage, spanned))
    return found


def _bag(design: Design, members: NDArray[np.int32]) -> tuple[float, float]:
    """Residual sum of squares of a bag, and the largest leverage of its rows."""
    codes, labels = design.codes[members], design.labels[members].astype(float)
    levels, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    dense = np.zeros((len(members), len(levels) + design.numbers.shape[1]))
    dense[np.arange(len(members))[:, None], places.reshape(codes.shape)] = 1.0
    dense[:, len(levels) :] = design.numbers[members]
    labels = labels - labels.mean()  # free: every block of levels holds the constant
    residual, largest = _residual(dense, labels, leverages=counts.min() > 1)
    # A level that one row alone has gives that row leverage 1, without any arithmetic.
    return residual, 1.0 if counts.min() == 1 else largest


def _residual(dense: Reals, labels: Reals, *, leverages: bool) -> tuple[float, float]:
    """What the features leave of the labels, by a ridge too faint to show; 0 if all is spanned."""
    rows, columns = dense.shape
    tall = columns < rows
    gram = dense.T @ dense if tall else dense @ dense.T
    faint = _FAINT * np.trace(gram) / len(gram)
    factor = cho_factor(gram + faint * np.eye(len(gram)), check_finite=False)
    if tall:
        rest = labels - dense @ cho_solve(factor, dense.T @ labels, check_finite=False)
    else:
        rest = faint * cho_solve(factor, labels, check_finite=False)
    left, total, largest = float(rest @ rest), float(labels @ labels), 1.0
    if leverages and tall:
        half = solve_triangular(factor[0], dense.T, trans="T", lower=factor[1], check_finite=False)
        largest = min(1.0, float(np.square(half).sum(axis=0).max()) * (1 + 1e-6))
    return (left if left > _SPANNED * total else 0.0), largest


def sampled_epsilon(
    facts: WorstBag, bag_size: int, label_range: tuple[float, float], delta: float
) -> Row:
    """ε of one aggregate a bag if every bag's residual is at least the smallest seen."""
    if facts.spanned:
        return no_privacy(f"in {facts.spanned:,} bags features determine labels")
    width = label_range[1] - label_range[0]
    if facts.residual_ss <= width**2:
        norm = math.sqrt(facts.residual_ss)
        return no_privacy(f"one label moves a residual norm of {norm:.3g} by up to {width:g}")
    leverage = None if facts.leverage >= 1.0 else facts.leverage
    known = DatasetBounds(bag_size, label_range, None, leverage)
    return judged(epsilon_at(SketchProfile(known, 1, facts.residual_ss), delta))


def judged(epsilon: float | None) -> Row:
    """ε, or why there is none to speak of."""
    if epsilon is not None and epsilon <= MOST_EPSILON:
        return {"epsilon": epsilon, "reason": ""}
    return no_privacy(f"no ε below {MOST_EPSILON:g}")


def no_privacy(reason: str) -> Row:
    return {"epsilon": None, "reason": f"no privacy: {reason}"}
