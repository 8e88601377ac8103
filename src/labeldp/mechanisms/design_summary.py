"""`DesignSummary`: everything that plans need to know of a table's features; no label is read.

It is computed once for an encoding and handed to every mechanism that is planned with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from labeldp.accounting.sketch import DatasetBounds
from labeldp.data.source import Source
from labeldp.errors import DataError, InputError
from labeldp.exact.cholesky import VerifiedCholesky, too_few_rows, verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelGrid
from labeldp.exact.person_norms import PersonScan
from labeldp.exact.quadratic_form import Leverage, LeverageScan
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.mechanisms.noise_shape import NoiseCovariance
from labeldp.mechanisms.options import Encoding, PlanRequest, names
from labeldp.passes.engine import Engine
from labeldp.releases.certificate import Person

SAMPLER_ROUNDING = 2.0**-30
"""Aggregated features are doubles, not reals: this much more on u and v covers it."""
HEADROOM = 1e-9
_FEWEST_STEPS = 256
"""Least number of label grid steps in the range; with fewer, rounding would lose information."""


@dataclass(frozen=True)
class DesignSummary:
    """Public facts of a table that plans are made from."""

    features: FeatureMap
    factor: VerifiedCholesky
    leverage: Leverage
    labels: LabelGrid
    facts: DatasetBounds
    feature_sums: str
    """SHA-256 of the exact feature sums."""
    notes: tuple[str, ...]
    noise_shapes: dict[float, NoiseCovariance] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Noise shapes of shaped-flag by ridge. They follow from the features alone, so that plans at
    other budgets need not search for them again."""

    def claim_fields(self, request: PlanRequest[Any]) -> dict[str, Any]:
        """Return the fields of a claim that follow from the request and the table."""
        return {
            "accountant": request.accountant,
            "epsilon": request.epsilon,
            "delta": request.delta,
            "rows": self.facts.rows,
            "rank": self.factor.rank,
            "label_range": self.labels.range,
            "intercept": self.features.constant is not None,
        }

    def check_residual_left(self) -> None:
        """Refuse as many independent columns as rows: any labels then lie in their span.

        Mechanisms that hide labels behind the residual of the fit need this; those that add noise
        of their own do not.
        """
        if self.factor.rank >= self.facts.rows:
            raise too_few_rows(self.facts.rows, self.factor.rank)


def summarize_design(source: Source, *, engine: Engine, encoding: Encoding) -> DesignSummary:
    """Fit the feature map, sum and factorise the features, find the largest leverage."""
    if source.label_range is None:
        raise InputError("the label range is missing; give `label_range`")
    options = {name: getattr(encoding, name) for name in names(Encoding)}
    features = fit_features(source, **options, run_pass=engine.run_pass)
    gram = engine.run_pass("feature sums", source, GramAccumulator(features))
    if gram.rows != features.rows:
        raise DataError(
            f"the data had {features.rows:,} rows in one pass and {gram.rows:,} in the next; leave "
            f"them alone while they are read"
        )
    with engine.progress("factor", None):  # of thousands of columns it takes some seconds
        factor = verified_cholesky(gram, features, saturated=True)
    independent = set(factor.kept)
    # Numbers that are duplicates or combinations of others. One-hot blocks always lose their
    # baseline level; that is no news.
    dependent = [
        f"feature column {features.all_names[column]!r} is (nearly) made of other columns"
        for column in features.number_columns
        if column not in independent and features.design_columns[column].degree == 0
    ]
    notes = [f"{each}, left out" for each in dependent]
    leverage = engine.run_pass("leverages", source, LeverageScan(features, factor))
    labels = LabelGrid.for_range(source.label_range, intercept=features.intercept)
    if labels.high - labels.low < math.ldexp(_FEWEST_STEPS, labels.exponent):
        # Without an intercept labels count from 0, and far from it their steps are wide.
        raise InputError(
            f"`label_range` {labels.low:g} {labels.high:g} is too far from 0 for its width; "
            "subtract a public number from all labels, or keep the intercept"
        )
    facts = DatasetBounds(
        rows=gram.rows,
        label_range=labels.range,
        features=factor.rank,
        max_leverage=min(1.0, leverage.maximum * (1 + HEADROOM)),
        centred=features.intercept,
        inflation=inflation_for(factor.error_bound) + 2 * factor.error_bound,
    )
    if leverage.maximum > 4 / math.sqrt(gram.rows):  # a level with √rows rows has 1/√rows
        where = "a row" if leverage.row is None else f"row {leverage.row:,}"
        notes.insert(
            0,
            f"{where} has a leverage of {leverage.maximum:.2g} because of {leverage.column!r}, "
            f"which costs utility; a larger `winsor` or `min_count`, or `log`, lowers it",
        )
    notes += features.notes  # on encoding: the last that people need
    return DesignSummary(
        features.keep(factor.kept), factor, leverage, labels, facts, gram.digest(), tuple(notes)
    )


def inflation_for(error_bound: float) -> float:
    """Return the room for u and v: a Gram off by `error_bound` moves them by at most twice that.

    A plan allows twice that, and HEADROOM on leverages, so that a release elsewhere, whose
    linear algebra rounds differently, still finds its plan true.
    """
    return SAMPLER_ROUNDING + 2 * error_bound


def feature_bound(features: FeatureMap) -> float:
    """Return an upper bound of the norm of an encoded row, from the feature map alone."""
    square = float(features.intercept) + len(features.categorical)
    for column in features.numeric:
        reach = column.design_columns[0].reach
        square += (reach * column.scale) ** 2 + float(column.indicator)
    for _, columns in features.derived:
        square += sum((column.reach * column.scale) ** 2 for column in columns)
    return math.sqrt(square) * (1 + 1e-12)


def most_rows(features: FeatureMap, source: Source, engine: Engine) -> Person | None:
    """Return whose rows are covered together, and at most how many they are: public."""
    if source.person is None:
        return None
    return Person(source.person, engine.run_pass("persons", source, PersonScan(features)).rows)
