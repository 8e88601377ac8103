"""The accountants of wtd-FLAg: each makes a curve of public facts, bags and a residual floor.

    exact              the law of the release with the public features' largest leverage
    exact-worst-case   the same law when nothing is known of the features
    paper              Theorem 1

`measurement` prices a floor that was measured (theory §6), which the theorem cannot.
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
    """What bags over a floor cost."""

    def __call__(
        self, facts: DatasetBounds, bags: int, floor: float, measurement: Measurement | None = None
    ) -> PrivacyProfile: ...


def exact(
    facts: DatasetBounds, bags: int, floor: float, measurement: Measurement | None = None
) -> PrivacyProfile:
    """The exact law of the privacy loss, the supremum over neighbours certified by cells."""
    return SketchProfile(facts, bags, floor, *measurement_cost(measurement))


def exact_worst_case(
    facts: DatasetBounds, bags: int, floor: float, measurement: Measurement | None = None
) -> PrivacyProfile:
    """The same for any features."""
    return exact(replace(facts, max_leverage=None), bags, floor, measurement)


def paper(
    facts: DatasetBounds, bags: int, floor: float, measurement: Measurement | None = None
) -> PrivacyProfile:
    """Theorem 1 with γ = floor/rows; a group is so many single steps.

    `inflation` is not used: the theorem's constants leave room for it many times over.
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
