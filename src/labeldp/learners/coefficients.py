"""The coefficients of a fit as a sequence, with intervals, p-values and a data frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.display import ReprMixin
from labeldp.errors import InputError, MissingExtraError, in_range, to_float
from labeldp.learners.models import Array, Coefficient, LinearModel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Coefficients(Sequence[Coefficient], ReprMixin):
    """Coefficients for inference, in original units, and what is known of their errors."""

    entries: tuple[Coefficient, ...]
    confidence: float
    """Level of `low` and `high` of each."""
    reason: str | None
    """Why the population's coefficients have no errors, intervals and p-values; None if they do."""

    @classmethod
    def of(cls, model: LinearModel) -> Coefficients:
        """Return the coefficients of a linear or generalised linear model."""
        reason = None
        if not model.releases:
            reason = "after plain rows only the ends low and high are known, as in any regression"
        elif model.multiplier != 0:
            reason = "a penalised fit is drawn towards zero on purpose; fit without a penalty"
        elif any(entry.total_error is None for entry in model.coefficients):
            reason = (
                "the release does not show how labels scatter: that was not published, or is "
                "hidden by its noise; release with `residual_share`, a larger ε or more rows"
            )
        return cls(model.coefficients, model.options.confidence, reason)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, place: Any) -> Any:
        return self.entries[place]

    def conf_int(self, level: float | None = None) -> Array:
        """Return the low and the high end of each interval, at `confidence` or another level.

        Where total errors are known, intervals are for the population. Elsewhere they are for the
        fit with all labels and at `confidence` only; NaN where even these are not known.
        """
        if self.reason is None:
            reach = normal_deviations("level", self.confidence if level is None else level)
            values, errors = self._numbers("value"), self._errors
            return np.column_stack([values - reach * errors, values + reach * errors])
        if level not in (None, self.confidence):
            raise InputError(
                f"only intervals at `level={self.confidence:g}` are known: {self.reason}, or fit "
                "again with this `confidence`"
            )
        return np.column_stack([self._numbers("low"), self._numbers("high")])

    @property
    def pvalues(self) -> Array:
        """The probability of values as far from 0, were the population's coefficient 0.

        By total errors, privacy's included; NaN where `reason` says why these are not known.
        """
        ratios = np.abs(self._numbers("value") / self._errors)
        return np.array([math.erfc(ratio / math.sqrt(2)) for ratio in ratios])

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each coefficient; low and high are `conf_int()`."""
        try:
            import pandas as pd  # late: it is an extra
        except ImportError:
            raise MissingExtraError("a data frame of coefficients", "interop") from None
        frame = pd.DataFrame([asdict(entry) for entry in self.entries]).set_index("name")
        ends = self.conf_int()
        return frame.astype(float).assign(low=ends[:, 0], high=ends[:, 1], pvalue=self.pvalues)

    @property
    def _errors(self) -> Array:
        """Total errors, privacy's as that of the normal law with the same interval.

        Noise may be radial, with longer tails than a normal law of its deviation.
        """
        half = (self._numbers("high") - self._numbers("low")) / 2
        privacy = half / normal_deviations("confidence", self.confidence)
        return np.hypot(privacy, self._numbers("sampling_error"))

    def _numbers(self, name: str) -> Array:
        """Return one number of each coefficient; NaN where it is not known."""
        return np.array([getattr(entry, name) for entry in self.entries], dtype=np.float64)

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        ends = self.conf_int()
        whose = "the population" if self.reason is None else "the fit with all labels"
        facts = [
            (entry.name, f"{entry.value:.5g}" + f" [{low:.5g}, {high:.5g}]" * (not np.isnan(low)))
            for entry, (low, high) in zip(self.entries, ends, strict=True)
        ]
        return f"Coefficients, with {self.confidence:.0%} intervals for {whose}", facts


def normal_deviations(name: str, level: float) -> float:
    """Return how many deviations hold a normal number with this probability, an argument."""
    level = to_float(name, level)
    in_range(0, 1, **{name: level})
    return NormalDist().inv_cdf((1 + level) / 2)
