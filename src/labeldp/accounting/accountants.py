"""The accountants of wtd-FLAg: from public bounds, bags and a floor to a privacy profile.

    exact              the exact law of the loss, with the largest leverage of the public features
    exact-worst-case   the same law for any features
    paper              Theorem 1

`measurement` is the cost of a measured floor (theory §6), which Theorem 1 does not cover.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.residual_floor import Measurement, measurement_cost
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from labeldp.accounting.theorems import Theorem1
from labeldp.errors import PlanError


class Accountant(Protocol):
    """Return the profile of `bags` aggregates over a residual floor."""

    def __call__(
        self, facts: DatasetBounds, bags: int, floor: float, measurement: Measurement | None = None
    ) -> PrivacyProfile: ...


def exact(
    facts: DatasetBounds, bags: int, floor: float, measurement: Measurement | None = None
) -> PrivacyProfile:
    """The exact law of the privacy loss; the supremum over neighbours is certified."""
    return SketchProfile(facts, bags, floor, *measurement_cost(measurement))


def exact_worst_case(
    facts: DatasetBounds, bags: int, floor: float, measurement: Measurement | None = None
) -> PrivacyProfile:
    """The same law for any features."""
    return exact(replace(facts, max_leverage=None), bags, floor, measurement)


def paper(
    facts: DatasetBounds, bags: int, floor: float, measurement: Measurement | None = None
) -> PrivacyProfile:
    """Theorem 1 with γ = floor/rows; groups by generic group privacy.

    `inflation` is not used: the theorem's constants cover it many times over.
    """
    if measurement is not None:
        raise PlanError(
            "the paper's theorem does not price a measured floor; use a declared or added one"
        )
    return Theorem1(facts.rows, facts.label_range, floor / facts.rows, bags, floor)


ACCOUNTANTS: dict[str, Accountant] = {
    "paper": paper,
    "exact-worst-case": exact_worst_case,
    "exact": exact,
}
