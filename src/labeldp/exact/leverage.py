"""The largest leverage h_i = x_iᵀ(XᵀX)⁻¹x_i, by a second pass over the features: public.

Each row's leverage is a quadratic form, computed with elementwise operations in a fixed order,
so that it does not depend on how rows are batched (see `quadratic_form.py`). Where rows have
many numbers, a matrix product first finds the few rows that may be costliest. A bound on the
rounding error is added, and the whole is divided by 1 − defect: the result is an upper bound.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF, VerifiedCholesky
from labeldp.exact.gram import GramAccumulator, no_rows
from labeldp.exact.quadratic_form import QuadraticForm
from labeldp.features.accumulators import PassRequirements, RowNumber
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import Kernels, kernels_for
from labeldp.kernels.scratch import Scratch

_COSTLIEST = 5
_MANY_NUMBERS = 8
"""From so many on, a matrix product that finds the few rows worth a closer look pays."""


@dataclass(frozen=True)
class CostlyRow:
    """A row whose label is hard to hide, and the column that makes it so."""

    row: int | None
    """None where rows have no numbers, as on a cluster."""
    leverage: float
    column: str
    """The raw column with the largest share of the leverage."""

    @property
    def where(self) -> str:
        """The row, in words."""
        return "a row" if self.row is None else f"row {self.row:,}"


@dataclass(frozen=True)
class Leverage:
    """Upper bound of every row's leverage, and the rows that cost most privacy."""

    maximum: float
    costliest: tuple[CostlyRow, ...]


@dataclass(frozen=True)
class _Seen:
    row: int
    value: float
    codes: tuple[int, ...]
    numbers: NDArray[np.float64]

    @property
    def rank(self) -> tuple[float, tuple[int, ...], tuple[float, ...], int]:
        """Costliest first; ties by content, so that the order of the rows cannot matter."""
        return -self.value, self.codes, tuple(self.numbers), self.row


Seen = tuple[list[_Seen], NDArray[np.float64]]
"""What one part of the rows showed: its costliest rows and the reach of its numbers."""


class LeverageScan:
    """A tally of the largest leverages of the rows from which a factor was made."""

    def __init__(
        self, features: FeatureMap, factor: VerifiedCholesky, kernels: Kernels | None = None
    ) -> None:
        self._features, self._factor, self._given = features, factor, kernels
        self._defect, self._scratch = factor.defect, Scratch()
        self._costliest: list[_Seen] = []
        self._reach = np.zeros(len(features.number_columns))

    @cached_property
    def _form(self) -> QuadraticForm:
        return QuadraticForm(self._features, self._factor)

    @cached_property
    def _kernels(self) -> Kernels:
        return self._given or kernels_for(self._features.rows)

    @property
    def needs(self) -> PassRequirements:
        every, factor = replace(self._features, kept=None), self._factor
        return PassRequirements(
            every.columns,
            every,
            key=(LeverageScan, every, *factor.identity()),
            made_for=(GramAccumulator(every), factor.is_of),
        )

    def new(self) -> LeverageScan:
        """With the same form, for linear algebra may round differently on each machine.

        The factor, which may be large and has served its purpose, stays behind.
        """
        fresh = copy(self)
        fresh._form, fresh._scratch = self._form, Scratch()
        fresh._costliest, fresh._reach = [], np.zeros_like(self._reach)
        vars(fresh).pop("_factor", None)
        vars(fresh).pop("_kernels", None)
        return fresh

    def add(self, batch: Encoded, _labels: object = None, first: int = 0) -> None:
        for reach in (
            batch.numbers.max(axis=0, initial=0.0),
            -batch.numbers.min(axis=0, initial=0.0),
        ):
            self._reach = np.maximum(self._reach, reach)
        near = self._near(batch)
        some = batch if near is None else batch.take(near)
        values = self._form(some, self._kernels, self._scratch)
        chosen = self._candidates(values, some)
        if len(chosen):
            places = chosen if near is None else near[chosen]
            self._keep(_seen(first, places, values[chosen], some.take(chosen)))

    def _near(self, batch: Encoded) -> NDArray[np.intp] | None:
        """Rows among which the batch's costliest are, of those that matter; None: any row.

        A rough value is off by at most two roundings, its own and that of the value it stands
        for. So the fifth largest value is at least the fifth largest rough one less that slack,
        and a row with such a value has a rough one of at least that less the slack again.
        """
        if len(self._reach) < _MANY_NUMBERS or batch.rows <= _COSTLIEST:
            return None
        rough = self._form.rough(batch, self._kernels, self._scratch)
        slack = 2 * self._form.rounding(self._reach)
        place = batch.rows - _COSTLIEST
        least = float(np.partition(rough, place)[place]) - slack
        if len(self._costliest) == _COSTLIEST:
            least = max(least, self._costliest[-1].value)
        return np.flatnonzero(rough >= least - slack)

    def _candidates(self, values: NDArray[np.float64], batch: Encoded) -> NDArray[np.intp]:
        """The rows that may be among the costliest; of equal ones those first by content."""
        full = len(self._costliest) == _COSTLIEST
        least = self._costliest[-1].value if full else -np.inf
        if not len(values) or values.max() < least:
            return np.empty(0, dtype=np.intp)
        place = max(0, len(values) - _COSTLIEST)
        least = max(least, float(np.partition(values, place)[place]))
        equal = np.flatnonzero(values == least)
        rows = batch.take(equal)
        contents = (*rows.categories, *rows.numbers.T)
        first = np.lexsort((equal, *reversed(contents)))[:_COSTLIEST]
        return np.concatenate([np.flatnonzero(values > least), equal[first]])

    def share(self) -> Seen:
        return self._costliest, self._reach

    def merge(self, share: Seen) -> None:
        costliest, reach = share
        self._keep(costliest)
        self._reach = np.maximum(self._reach, reach)

    def result(self, row: RowNumber = int) -> Leverage:
        """Add the rounding error and the factor's defect: a rigorous upper bound."""
        if not self._costliest:
            raise no_rows()
        largest = self._costliest[0].value + self._form.rounding(self._reach)
        maximum = largest / (1 - self._defect) * (1 + 4 * ROUNDOFF)
        rows = tuple(
            CostlyRow(row(seen.row), seen.value, self._blame(seen)) for seen in self._costliest
        )
        return Leverage(min(1.0, float(maximum)), rows)

    def _keep(self, rows: list[_Seen]) -> None:
        ranked = sorted(self._costliest + rows, key=lambda seen: seen.rank)
        self._costliest = ranked[:_COSTLIEST]

    def _blame(self, seen: _Seen) -> str:
        """The design column with the largest share x_k·(Mx)_k of the leverage, constant aside."""
        features = self._features
        row = np.zeros(len(features.all_names))
        if features.intercept:
            row[0] = 1.0
        row[list(features.number_columns)] = seen.numbers
        row[
            [
                offset + code
                for offset, code in zip(features.category_offsets, seen.codes, strict=True)
            ]
        ] = 1.0
        share = row * self._form.gradient(row)
        return features.all_names[int(features.intercept + np.argmax(share[features.intercept :]))]


def _seen(
    first: int, places: NDArray[np.intp], values: NDArray[np.float64], rows: Encoded
) -> list[_Seen]:
    """Rows of a batch whose first row has this number."""
    codes = np.stack(rows.categories, axis=1).tolist() if rows.codes else [[]] * rows.rows
    return [
        _Seen(first + int(place), float(value), tuple(levels), numbers)
        for place, value, levels, numbers in zip(places, values, codes, rows.numbers, strict=True)
    ]
