"""An upper bound of the largest leverage h_i = x_iᵀ(XᵀX)⁻¹x_i, by a pass over the features: public.

Each row's leverage is a quadratic form, computed elementwise in a fixed order, so that it does
not depend on how rows are batched (`quadratic_form.py`). Where rows have many numbers, a matrix
product first finds the few rows that may be among the largest. To the maximum the bound on the
rounding error is added, and the whole is divided by 1 − error_bound of the verified Cholesky
factor: (XᵀX)⁻¹ ≼ M/(1 − error_bound), so the result is an upper bound of every true leverage.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF, VerifiedCholesky
from labeldp.exact.gram import GramAccumulator, no_rows
from labeldp.exact.quadratic_form import MANY_NUMBERS, QuadraticForm
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.passes.accumulator import PassRequirements, RowNumber


@dataclass(frozen=True)
class Leverage:
    """Upper bound of every row's leverage, and the row whose label is hardest to hide."""

    maximum: float
    row: int | None
    """The row of largest leverage; None where rows have no numbers, as on a cluster."""
    column: str
    """The design column with the largest share of that row's leverage."""


_Candidate = tuple[float, tuple[float, ...], int]
"""(−leverage, levels and numbers, row). The least is that of largest leverage, ties by content and
not by the place of a row, so that the order in which rows come cannot matter."""
_NO_ROW: _Candidate = (math.inf, (), -1)
ScanState = tuple[_Candidate, NDArray[np.float64]]
"""The row of largest leverage, and the reach of the numbers."""


class LeverageScan:
    """Accumulator of the largest leverage of the rows from which a factor was computed."""

    def __init__(self, features: FeatureMap, cholesky: VerifiedCholesky) -> None:
        self._features, self._cholesky = features, cholesky
        self._error_bound = cholesky.error_bound
        self._costliest = _NO_ROW
        self._reach = np.zeros(len(features.number_columns))

    @cached_property
    def _form(self) -> QuadraticForm:
        factor = self._cholesky
        return QuadraticForm(self._features, factor.kept, factor.whitener, factor.crossproduct())

    @property
    def requirements(self) -> PassRequirements:
        every, cholesky = replace(self._features, kept=None), self._cholesky
        return PassRequirements(
            every.columns,
            every,
            cache_keys=((LeverageScan, every, *cholesky.cache_key()),),
            row_check=(GramAccumulator(every), cholesky.is_of),
        )

    def new(self) -> LeverageScan:
        """Return an empty one with the same form: another machine might round M differently.

        The factor, which may be large and has served its purpose, stays behind.
        """
        fresh = copy(self)
        fresh._form = self._form
        fresh._costliest, fresh._reach = _NO_ROW, np.zeros_like(self._reach)
        vars(fresh).pop("_cholesky", None)
        return fresh

    def add(self, batch: Encoded, _labels: object = None, first: int = 0) -> None:
        self._reach = np.maximum(self._reach, np.abs(batch.numbers).max(axis=0, initial=0.0))
        rough = len(self._reach) >= MANY_NUMBERS
        values = self._form(batch, rough=rough)
        # A rough value is off by at most two rounding errors: its own, and that of the value it
        # stands for. So the largest value is at least the largest rough one less that slack, and
        # a row with such a value has a rough one of at least that less the slack again.
        slack = 2 * self._form.rounding_error(self._reach, generous=True) if rough else 0.0
        least = max(-self._costliest[0], float(values.max(initial=-np.inf)) - slack)
        near = np.flatnonzero(values >= least - slack)
        if not len(near):
            return
        rows = batch.take(near)
        values = self._form(rows) if rough else values[near]
        contents = np.column_stack([*rows.categories, rows.numbers])
        place = np.lexsort((*contents.T[::-1], -values))[0]
        candidate = -float(values[place]), tuple(contents[place].tolist()), first + int(near[place])
        self._costliest = min(self._costliest, candidate)

    def state(self) -> ScanState:
        return self._costliest, self._reach

    def merge(self, state: ScanState) -> None:
        costliest, reach = state
        self._costliest = min(self._costliest, costliest)
        self._reach = np.maximum(self._reach, reach)

    def result(self, row: RowNumber = int) -> Leverage:
        negative, content, number = self._costliest
        if negative == math.inf:
            raise no_rows()
        # The largest computed value is at most one error below the largest true one, whatever
        # row has it: both errors are within the same bound.
        largest = -negative + self._form.rounding_error(self._reach, generous=True)
        # The factor's error widens the bound; 4 roundings of the operations here.
        maximum = largest / (1 - self._error_bound) * (1 + 4 * ROUNDOFF)
        # h ≤ 1 for every row of a projection
        return Leverage(min(1.0, float(maximum)), row(number), self._main_column(content))

    def _main_column(self, content: tuple[float, ...]) -> str:
        """Return the design column with the largest share x_k·(Mx)_k, the constant aside."""
        features = self._features
        levels, numbers = np.split(content, [len(features.categorical)])
        row = np.zeros(len(features.all_names))
        row[: features.intercept] = 1.0
        row[list(features.number_columns)] = numbers
        row[np.add(features.category_offsets, levels).astype(np.intp)] = 1.0
        share = row * self._form.gradient(row)
        return features.all_names[int(features.intercept + np.argmax(share[features.intercept :]))]
