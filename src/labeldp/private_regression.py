"""`PrivateLinearRegression`: plan, release and fit behind scikit-learn's `fit(X, y)`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from labeldp.arrow_util import arrow_numbers
from labeldp.data.source import scan
from labeldp.errors import InputError, LabelDPWarning, to_range
from labeldp.learners.api import LinearRegressor
from labeldp.mechanisms.options import DELTA, EPSILON
from labeldp.planning import plan


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(LinearRegressor):
    """Linear regression whose fit has ε-δ label privacy; the features X are taken as public.

    Each `fit` makes a release and spends ε and δ: cross-validation spends them on every fold.
    Everything else is as in `LinearRegressor`.

    Parameters
    ----------
    epsilon, delta : float
        The privacy budget of each fit.
    label_range : (float, float)
        What labels can be, public and chosen without looking at them; y outside is moved to the
        nearest end.
    force : bool
        Fit even if the plan says that predictions cannot beat the mean of the labels.
    penalty, lasso, max_norm, columns, fit_intercept, confidence, shrink, clip :
        as in `LinearRegressor`.

    Attributes
    ----------
    release_ : Release
        What was published. It may be saved and given away; y may not.
    """

    epsilon: float = EPSILON
    delta: float = DELTA
    label_range: tuple[float, float] | None = None
    force: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the labels y of the rows X, a frame or an array, and fit the release."""
        if self.label_range is None:
            raise InputError(
                "labels need a public range, chosen without looking at them; give it: "
                "`label_range=(low, high)`"
            )
        low, high = to_range("label_range", self.label_range)
        warnings.warn(
            "the features X are taken as public: a fit protects y alone", LabelDPWarning, 2
        )
        features = scan(_named(X))
        table = pa.Table.from_batches(features.stored().feature_batches(features.names))
        try:
            labels = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):  # whose message may show a label
            raise InputError("`y` must hold numbers alone") from None
        if labels.shape != (len(table),):
            raise InputError(f"`y` must have one label for each of the {len(table)} rows of `X`")
        name = "label"
        while name in table.column_names:
            name += "_"
        rows = table.append_column(name, arrow_numbers(labels))
        source = scan(rows, label=name, label_range=(low, high), clip=True)
        planned = plan(source, self.epsilon, self.delta, force=self.force)
        self.release_ = planned.release(source)
        return super().fit(self.release_)

    def predict(self, X: Any, **options: Any) -> Any:
        """Return predictions for a frame or an array, with the options of `LinearRegressor`."""
        return super().predict(_named(X), **options)


def _named(X: Any) -> Any:
    """Return the columns of an array by names; a frame has them."""
    if not isinstance(X, np.ndarray | list):
        return X
    return {f"x{place}": column for place, column in enumerate(np.atleast_2d(X).T)}
