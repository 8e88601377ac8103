"""Claims that rest on noise alone: its amount does not depend on labels.

The error that noise adds to the predictions of a least-squares fit is then the same for all labels.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from labeldp.mechanisms.forecast import Forecast
from labeldp.release.certificate import AddedError, Claim, FloorOutcome, read_common_fields


@dataclass(frozen=True)
class NoiseClaim(Claim):
    """Noise on published labels, for all labels in their range."""

    rows: int
    label_range: tuple[float, float]
    intercept: bool

    @property
    def width(self) -> float:
        low, high = self.label_range
        return high - low

    @property
    @abstractmethod
    def excess(self) -> float:
        """The expected sum of squares that noise adds to the predictions of all rows."""

    @abstractmethod
    def excess_quantiles(self) -> tuple[float, ...]:
        """Quantiles of that sum over releases (`QUANTILES`)."""

    @abstractmethod
    def label_noise_std(self, outcome: FloorOutcome | None) -> float: ...

    def utility(self) -> dict[str, Any]:
        unit = self.rows * self.width**2
        mean, low, median, high = (each / unit for each in (self.excess, *self.excess_quantiles()))
        return {
            "relative_to": "the label range: mean square over all rows of what the noise adds to "
            "the predictions of a least-squares fit, over label_width squared",
            "excess_mean": mean,
            "excess_low": low,
            "excess_median": median,
            "excess_high": high,
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:  # noqa: ARG002
        """In label units; it holds whatever the labels are."""
        squares = (self.excess, *self.excess_quantiles())
        mean, low, _, high = (math.sqrt(each / self.rows) for each in squares)
        basis = "the noise alone, whatever the labels are"
        return AddedError(mean, low, high, mean / self.width, None, basis)

    def forecast(self, residual_ms: float, residual_source: str) -> Forecast:
        """What noise adds holds whatever the labels are; a residual only gives it a scale."""
        squares = (self.excess, *self.excess_quantiles())
        mean, low, median, high = (each / self.rows for each in squares)
        return Forecast(
            residual_ms=residual_ms,
            best_mse=residual_ms,
            mean_mse=residual_ms + mean,
            excess_mean=mean / residual_ms,
            excess_low=low / residual_ms,
            excess_median=median / residual_ms,
            excess_high=high / residual_ms,
            added_variance=self.label_noise_std(None) ** 2,
            added_mse=mean,
            added_low=low,
            added_high=high,
            added_exact=True,
            residual_source=residual_source,
            added_mse_default_fit=mean,
            selection_score=mean,
        )

    def noise_json(self, basis: str, *, bag_size: int, rank: int) -> dict[str, Any]:
        """Return all fields of the claim but those of the noise itself."""
        return {
            **self.common_fields(basis),
            "form": "rows",
            "bag_size": bag_size,
            "rows": self.rows,
            "rank": rank,
            "label_range": list(self.label_range),
            "label_width": self.width,
            "max_leverage": None,
            "constant_in_span": self.intercept,
            "floor": None,
            "inflation": None,
            "draw": None,
            "noise": None,
        }


def noise_claim_fields(document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `NoiseClaim`, from a plan or a certificate."""
    low, high = document["label_range"]
    return {
        **read_common_fields(document),
        "rows": int(document["rows"]),
        "label_range": (float(low), float(high)),
        "intercept": bool(document["constant_in_span"]),
    }
