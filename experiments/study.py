"""A table, planned, released and fitted several times as anyone would, beside the truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from experiments.alternatives import Budget
from experiments.least_squares import Array, Blocks, Fit, Rows, fit

from labeldp import LinearRegressor, LocalEngine, Plan, Release, Source, plan

DELTA = 1e-6
REPEATS = 10
RAW: dict[str, Any] = {"mechanism": "shaped-flag", "winsor": 0}
"""How to plan with the features as they are."""


@dataclass(frozen=True)
class Study:
    """A table; what passes over its features found is shared by all plans."""

    source: Source
    engine: LocalEngine = field(default_factory=LocalEngine)

    @property
    def label_range(self) -> tuple[float, float]:
        assert self.source.label_range is not None
        return self.source.label_range

    def plan(self, budget: Budget, **choices: Any) -> Plan:
        """A plan, of defaults where nothing is chosen."""
        epsilon, delta = budget.epsilon, budget.delta
        told = {"engine": self.engine, "force": True, **choices}
        return plan(self.source, epsilon=epsilon, delta=delta, **told)

    def releases(self, made: Plan, repeats: int) -> list[Release]:
        return [made.release(self.source, engine=self.engine) for _ in range(repeats)]

    def fitted(self, releases: list[Release], **options: Any) -> Array:
        """Coefficients of a fit on each release, one column each; one of rows needs the table."""
        fits = [LinearRegressor(**options).fit(release, self.source) for release in releases]
        return np.column_stack([coefficients(model) for model in fits])

    def full_fit(self, made: Plan) -> tuple[Blocks, Fit]:
        """The rows as a plan encodes them, and the fit with all labels on them."""
        blocks = Rows(self.source, made.features).held()
        return blocks, fit(blocks, self.label_range)

    def raw_fit(self, budget: Budget) -> tuple[Plan, Fit]:
        """Plain least squares with all labels on the features as they are: the yardstick."""
        made = self.plan(budget, **RAW)
        return made, self.full_fit(made)[1]


def coefficients(model: LinearRegressor) -> Array:
    """Of a fitted model, the intercept as that of the constant, which is column 0."""
    found = np.array(model.coef_, dtype=np.float64)
    found[0] += model.intercept_
    return found
