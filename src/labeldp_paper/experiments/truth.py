"""Real tables, how they are published here, and the fit with all their labels.

Not blind: ranges and columns were settled after looking at earlier releases of these tables. A
curator must choose them without the labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labeldp import LinearRegressor, LocalEngine, Plan, Source
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import ExactLeastSquares, LabelCrossProducts
from labeldp.passes.engine import Engine
from labeldp_paper.experiments.run import Data, given


@dataclass(frozen=True)
class RealTable:
    """A table that is not part of the project."""

    key: str
    name: str
    file: str
    label: str
    label_range: tuple[float, float]
    options: dict[str, Any] = field(default_factory=dict)

    def open(self, folder: Path) -> Data:
        """The table in that directory."""
        file = folder / f"{self.file}.parquet"
        return given(file, self.label, self.label_range, **self.options)


FERTILITY = RealTable(
    "fertility", "fertility, weeks worked", "census1980_fertility_weeks", "work", (0, 52)
)
HOUSEHOLD_WAGES = RealTable(
    "wages",
    "CPS, wages clipped at 250,000, from age and household",
    "taxcalc_cps_wages",
    "e00200",
    (0, 250_000),
    {
        "clip": True,
        "features": (
            "age_head",
            "age_spouse",
            "MARS",
            "XTOT",
            "nu06",
            "nu13",
            "nu18",
            "n1820",
            "EIC",
        ),
    },
)
"""A few columns of the table, which are planned in seconds."""
FLIGHTS = RealTable(
    "flights",
    "NYC flights, arrival delay",
    "nycflights13_arr_delay",
    "arr_delay",
    (-90, 300),
    {
        "clip": True,
        "drop_missing_labels": True,
        "drop": ("dep_time", "dep_delay", "arr_time", "air_time", "tailnum", "time_hour"),
    },
)


class Truth:
    """The fit with all labels, to measure excesses by: not private."""

    def __init__(self, source: Source, made: Plan) -> None:
        engine: Engine = LocalEngine()
        gram, moments = engine.run_pass(
            "label sums",
            source,
            GramAccumulator(made.features),
            LabelCrossProducts(made.features, made.labels),
        )
        factor = verified_cholesky(gram, made.features)
        residual = ExactLeastSquares(factor, moments)
        scales = made.features.scales[list(factor.kept)]
        unit = 2.0**made.labels.exponent
        self.gram = factor.gram.astype(float) * np.outer(scales, scales)
        self.beta = unit * residual.coefficients() / scales
        self.beta[0] += unit * made.labels.centre
        self.rows, self.rank = int(gram.rows), factor.rank
        self.residual_ms = float(residual.square_low) * unit**2 / self.rows

    def mse(self, model: LinearRegressor) -> float:
        """Mean squared error over all rows of a model fitted on a release of the plan."""
        beta = model.coef_.copy()
        beta[0] += model.intercept_
        gap = beta - self.beta
        return self.residual_ms + float(gap @ self.gram @ gap) / self.rows

    def excess(self, model: LinearRegressor) -> float:
        """(val − opt)/opt of a fitted model."""
        return self.mse(model) / self.residual_ms - 1.0
