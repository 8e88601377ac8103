"""What `labeldp account` can be asked: public quantities, each written once, as a field.

A mechanism takes the groups that it has and adds fields of its own, as with the options of a plan
(`options.py`). Nothing here is slow to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from labeldp.errors import in_range, ordered, positive
from labeldp.mechanisms.options import option, required


def _range(label_range: tuple[float, float]) -> None:
    ordered(*label_range, name="label_range")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked about every mechanism."""

    rows: int = required("Rows in the table.", check=positive)
    label_range: tuple[float, float] = required(
        "Public range of the labels.", metavar="LO HI", check=_range
    )
    epsilon: float = option(1.0, "Privacy budget ε.", check=positive)
    delta: float = option(1e-6, "Privacy budget δ.", check=partial(in_range, 0, 1))
    centred: bool = option(True, "The features do not span the constant.", flag="--no-intercept")

    @property
    def budget(self) -> tuple[float, float]:
        return self.epsilon, self.delta


@dataclass(frozen=True, kw_only=True)
class ResidualAsked(Asked):
    """For mechanisms that rest on a residual floor."""

    residual_ms: float | None = option(
        None,
        "Residual mean square γ: the residual sum of squares is ≥ γ·rows.",
        check=positive,
    )


@dataclass(frozen=True, kw_only=True)
class CountAsked(Asked):
    """How many aggregates."""

    bags: int | None = option(
        None, "A number of bags: report its ε and δ instead of the most.", check=positive
    )


@dataclass(frozen=True, kw_only=True)
class BagsAsked(CountAsked):
    """For mechanisms that draw bags of rows."""

    bag_size: int | None = option(
        None, "Rows in a bag: report its ε and δ, not the smallest.", check=positive
    )


@dataclass(frozen=True, kw_only=True)
class FeaturesAsked(Asked):
    """What may be known of the features."""

    max_leverage: float | None = option(
        None, "Largest leverage of the features, for `exact`.", check=positive
    )
    features: int | None = option(
        None, "Independent feature columns, for `exact` and `paper`.", check=positive
    )
