"""How good predictions are, estimated from the release alone: post-processing, free of privacy.

With b̃ ~ N(b, N) and q0 the direction of the mean, the constant predictor (the mean of all labels)
misses ‖b‖² − (q0·b)² more than the fit with all labels, and predictions b̂ miss ‖b̂ − b‖² more.
Both have unbiased estimates (`rules.py`; the choice of a rule makes the second a little too
small), and their difference says how much better the predictions are than the constant, whatever
the residual is. R² needs that too: a release may publish it with noise (theory §6.2).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from labeldp.io_util import is_number, optional
from labeldp.learners.protocol import Array, checked
from labeldp.learners.rules import FitRule, mean_direction
from labeldp.learners.whitened import Measured, NoisyNormalEquations, form_error, square

UNCLEAR = 0.05
"""The chance of being worse than a constant that is not accepted."""


@dataclass(frozen=True)
class Quality:
    """Of predictions for the rows of the release, before they are clipped to the label range.

    Every `…_error` is a standard deviation.
    """

    gain: float
    """Mean squared error of the best constant less that of the predictions, in label units."""
    gain_error: float
    r2: float | None = None
    """`gain` over the variance of labels; None where the residual is not published, or with too
    much noise."""
    r2_error: float | None = None
    all_labels_r2: float | None = None
    """R² of the least-squares fit with all labels."""
    residual_std: float | None = None
    """Root of the residual mean square of that fit, for the degrees of freedom that it has."""
    residual_std_error: float | None = None
    privacy_ratio: float | None = None
    """τ_stat: the error that privacy adds to a least-squares fit over its sampling error."""

    signal: float | None = None
    """The probability that features explain anything, where predictions are the posterior mean."""
    worse: float | None = None
    """The probability that the constant is better, likewise."""

    @property
    def beats_the_constant(self) -> bool:
        """Whether the release shows that its predictions beat a constant.

        Predictions that are a posterior mean show it by the posterior, others by their gain, if
        that is more than two deviations.
        """
        if self.worse is not None:
            return self.worse < UNCLEAR
        return self.gain > 2 * self.gain_error

    @property
    def doubt(self) -> str | None:
        """Why predictions may not beat a constant, and what would mend that; None if they do."""
        cure = "Publish with a larger budget, more rows or fewer columns."
        if self.beats_the_constant:
            return None
        if self.worse is not None:
            return (
                "The release hardly shows that predictions beat the mean of the labels (with "
                f"probability {self.worse:.2g} they are worse): they stay near it. {cure}"
            )
        if self.gain < -2 * self.gain_error:
            error = f"{-self.gain:.4g} ± {self.gain_error:.2g}"
            return f"These predictions are worse than a constant, by {error} in mean square. {cure}"
        return (
            "The release does not show that these predictions beat a constant: the gain is "
            f"{self.gain:.4g} ± {self.gain_error:.2g} in mean square. {cure}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Any) -> Quality:
        """What `to_json` gave."""
        return cls(**checked(document, {each.name: optional(is_number) for each in fields(cls)}))


def quality(white: NoisyNormalEquations, rule: FitRule, constant: int | None) -> Quality | None:
    """Of a rule's predictions; None if no column is the constant, which they are compared with."""
    mean = mean_direction(white, constant)
    if mean is None:
        return None
    spread = white.spread - np.outer(mean, mean @ white.spread)
    explained = square(white.estimate - mean * (mean @ white.estimate), spread)
    gain = _gain(white, rule, mean, explained.value)
    bare = Quality(
        gain.value / white.rows,
        gain.error / white.rows,
        signal=rule.signal,
        worse=_worse(white, rule, mean),
    )
    if white.residual_ss is None or not white.residual_ss.is_clear:
        return bare
    return replace(bare, **_shares(gain, explained, white.residual_ss), **_residual(white))


def _gain(white: NoisyNormalEquations, rule: FitRule, mean: Array, explained: float) -> Measured:
    """‖b‖² − (q0·b)² − ‖b̂ − b‖², a quadratic form of b̃."""
    rest = np.eye(len(mean)) - rule.smoother
    left = white.estimate - rule.prediction(white)
    slope = white.estimate - mean * (mean @ white.estimate) - rest.T @ left
    inside, outside = white.spread - np.outer(mean, mean @ white.spread), rest @ white.spread
    form = inside.T @ inside - outside.T @ outside
    risk, error = rule.risk(white), form_error(white.spread.T @ slope, form)
    return Measured(explained - risk.value, math.hypot(error, risk.error))


def _worse(white: NoisyNormalEquations, rule: FitRule, mean: Array) -> float | None:
    """That 2·b̂·b is below ‖b̂‖², by the posterior of b about b̂, both without their means.

    Then ‖b̂ − b‖² is more than ‖b‖², which is what the constant misses.
    """
    if rule.posterior is None:
        return None
    from scipy.special import ndtr

    shown = rule.prediction(white)
    shown = shown - mean * (mean @ shown)
    spread = math.sqrt(max(0.0, float(shown @ rule.posterior @ shown)))
    return float(ndtr(-0.5 * float(shown @ shown) / spread)) if spread else 0.5


def _shares(gain: Measured, explained: Measured, residual: Measured) -> dict[str, float]:
    """Of the variance of labels."""
    total = residual.value + max(0.0, explained.value, gain.value)
    error = math.hypot(residual.error, explained.error)
    return {
        "r2": gain.value / total,
        "r2_error": math.hypot(gain.error, gain.value / total * error) / total,
        "all_labels_r2": 1 - residual.value / total,
    }


def _residual(white: NoisyNormalEquations) -> dict[str, float]:
    """What is left to the fit with all labels, and what privacy adds beside it."""
    assert white.residual_ss is not None
    columns, left = len(white.estimate), white.residual_ss
    freedom = max(1, white.rows - columns)
    spread = math.sqrt(left.value / freedom)
    excess = float(np.sum(white.spread**2)) / left.value
    return {
        "residual_std": spread,
        "residual_std_error": left.error / (2 * spread * freedom),
        "privacy_ratio": math.sqrt(excess * freedom / columns),
    }
