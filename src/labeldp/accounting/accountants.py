"""The three accountants under one interface, so that callers need not tell them apart.

    exact              the law of the release with the public features' largest leverage
    exact-worst-case   the same law when nothing is known of the features
    paper              Theorem 1

Each answers in the same units: a residual floor (sum of squares), a number of bags, ε and
δ, always on the private side, for a change of `group` labels at once. `measurement` prices
a floor that was measured (theory §6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from labeldp.accounting import paper, search, wtd_flag
from labeldp.accounting.floor import Measurement
from labeldp.accounting.wtd_flag import Facts
from labeldp.errors import PlanError


@dataclass(frozen=True)
class Answer:
    """The most bags, and why there are none if there are none."""

    bags: int
    reason: str | None = None


class Accountant(Protocol):
    """What a floor, a number of bags and a budget have to do with each other."""

    @property
    def name(self) -> str: ...

    @property
    def basis(self) -> str:
        """Where the guarantee comes from, for certificates."""

    def delta(
        self,
        facts: Facts,
        bags: int,
        floor: float,
        epsilon: float,
        measurement: Measurement | None = None,
        group: int = 1,
    ) -> float:
        """An upper bound of δ(ε)."""

    def epsilon(
        self,
        facts: Facts,
        bags: int,
        floor: float,
        delta: float,
        measurement: Measurement | None = None,
        group: int = 1,
    ) -> float | None:
        """The smallest ε at this δ; None if there is none."""

    def max_bags(
        self,
        facts: Facts,
        floor: float,
        epsilon: float,
        delta: float,
        measurement: Measurement | None = None,
    ) -> Answer:
        """The most bags within the budget."""

    def min_floor(
        self,
        facts: Facts,
        bags: int,
        epsilon: float,
        delta: float,
        measurement: Measurement | None = None,
    ) -> float:
        """The smallest floor that keeps this many bags within the budget."""


@dataclass(frozen=True)
class ExactAccountant:
    """The exact law of the privacy loss, the supremum over neighbours certified by cells."""

    name: str
    basis: str
    uses_features: bool

    def delta(
        self,
        facts: Facts,
        bags: int,
        floor: float,
        epsilon: float,
        measurement: Measurement | None = None,
        group: int = 1,
    ) -> float:
        known = self._known(facts)
        return wtd_flag.delta(known, bags, floor, epsilon, *_price(measurement), group).upper

    def epsilon(
        self,
        facts: Facts,
        bags: int,
        floor: float,
        delta: float,
        measurement: Measurement | None = None,
        group: int = 1,
    ) -> float | None:
        known = self._known(facts)
        answer = wtd_flag.epsilon(known, bags, floor, delta, *_price(measurement), group)
        return answer if math.isfinite(answer) else None

    def max_bags(
        self,
        facts: Facts,
        floor: float,
        epsilon: float,
        delta: float,
        measurement: Measurement | None = None,
    ) -> Answer:
        known = self._known(facts)
        bags = wtd_flag.max_bags(known, floor, epsilon, delta, *_price(measurement))
        return Answer(bags, None if bags else _too_little(known, floor, epsilon, delta))

    def min_floor(
        self,
        facts: Facts,
        bags: int,
        epsilon: float,
        delta: float,
        measurement: Measurement | None = None,
    ) -> float:
        known = self._known(facts)
        return wtd_flag.min_floor(known, bags, epsilon, delta, *_price(measurement))

    def _known(self, facts: Facts) -> Facts:
        return facts if self.uses_features else replace(facts, max_leverage=None)


@dataclass(frozen=True)
class PaperAccountant:
    """Theorem 1 with γ = floor/rows. It prices no measured floor; groups by the usual argument.

    `inflation` is not used: the theorem's constants leave room for it many times over.
    """

    name: str
    basis: str

    def delta(
        self,
        facts: Facts,
        bags: int,
        floor: float,
        epsilon: float,
        measurement: Measurement | None = None,
        group: int = 1,
    ) -> float:
        _refuse(measurement)
        step = epsilon / group
        # k single steps pass through tables whose residual norm may be (k−1)Δ smaller
        root = math.sqrt(floor) - (group - 1) * facts.width
        if step == 0.0 or root <= 0.0:
            return 1.0
        promise = (facts.rows, facts.label_range, root**2 / facts.rows)
        answer = paper.theorem1_delta(*promise, bags, step)
        return 1.0 if answer.value is None else wtd_flag.group_delta(step, answer.value, group)

    def epsilon(
        self,
        facts: Facts,
        bags: int,
        floor: float,
        delta: float,
        measurement: Measurement | None = None,
        group: int = 1,
    ) -> float | None:
        _refuse(measurement)
        if group == 1:
            promise = (facts.rows, facts.label_range, floor / facts.rows)
            return paper.theorem1_epsilon(*promise, bags, delta).value
        answer = search.smallest_real(
            lambda e: self.delta(facts, bags, floor, e, None, group) <= delta, 1e-6, _MOST_EPSILON
        )
        return answer if math.isfinite(answer) else None

    def max_bags(
        self,
        facts: Facts,
        floor: float,
        epsilon: float,
        delta: float,
        measurement: Measurement | None = None,
    ) -> Answer:
        _refuse(measurement)
        promise = (facts.rows, facts.label_range, floor / facts.rows)
        answer = paper.theorem1_max_bags(*promise, epsilon, delta)
        return Answer(int(answer.value or 0), answer.reason or None)

    def min_floor(
        self,
        facts: Facts,
        bags: int,
        epsilon: float,
        delta: float,
        measurement: Measurement | None = None,
    ) -> float:
        return search.smallest_real(
            lambda f: self.max_bags(facts, f, epsilon, delta, measurement).bags >= bags,
            facts.width**2 * 1e-6,
            math.inf,
        )


_MOST_EPSILON = 1e4


def _price(measurement: Measurement | None) -> tuple[float, float]:
    return (measurement.mu, measurement.slack) if measurement else (0.0, 0.0)


def _refuse(measurement: Measurement | None) -> None:
    if measurement is not None:
        raise PlanError(
            "the paper's theorem does not price a measured floor; use a declared or added one"
        )


def _too_little(facts: Facts, floor: float, epsilon: float, delta: float) -> str:
    return (
        f"one label can move the residual norm by {facts.width:g}, and the floor on that norm is "
        f"{math.sqrt(floor):g}: not even one bag has ε = {epsilon:g}, δ = {delta:g}"
    )


ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant
    for accountant in (
        PaperAccountant("paper", "Theorem 1 of 'Label Differential Privacy via Aggregation'"),
        ExactAccountant(
            "exact-worst-case",
            "exact law of the privacy loss for any features; supremum over neighbours certified",
            uses_features=False,
        ),
        ExactAccountant(
            "exact",
            "exact law of the privacy loss given the features' largest leverage; "
            "supremum over neighbours certified",
            uses_features=True,
        ),
    )
}
