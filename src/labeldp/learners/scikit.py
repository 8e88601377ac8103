"""What our estimators share: all that scikit-learn asks of a regressor.

This is the only module that knows scikit-learn. What it refuses is an error of ours, in a line. An
estimator's parameters are the fields of its learner's options, its learnt attributes the fields of
the model with an underscore at their end.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import asdict, fields
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.common.arguments import checked
from labeldp.errors import InputError, LabelDPWarning
from labeldp.features.unseen import Unknown, UnseenValueHandler
from labeldp.learners.protocol import Array, Learner, Model, parse, read

_VALUES = re.compile(r"array=.*?(?=Reshape|$)", re.DOTALL)


class UnfittedError(InputError, NotFittedError):  # type: ignore[misc]
    """A model is used before it was fitted: scikit-learn's error, and one of ours."""


def check_fitted(model: Any) -> None:
    """A model that was not fitted is refused in words of ours."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        name = type(model).__name__
        raise UnfittedError(
            f"this {name} is not fitted yet; call fit with a release first, or {name}.load a file"
        ) from None


class _KindError(InputError, TypeError):
    """Scikit-learn's TypeError, and one of ours."""


def _validated(model: Any, *arrays: Any, **checks: Any) -> Any:
    """By scikit-learn; what it refuses is an error of ours, of one line and without values."""
    try:
        found = validate_data(model, *arrays, dtype=np.float64, **checks)
        return found if len(arrays) == 1 else [np.asarray(each, np.float64) for each in found]
    except (ValueError, TypeError) as problem:
        words = " ".join(_VALUES.sub("", str(problem)).split())
        if re.search(r"could not convert|float\(\)|setting an array|[Cc]annot c", words):
            words = (
                "`X` and `y` must hold numbers alone, and an argument must be no string but a "
                "number; turn categories into columns of numbers, or fit a release of the table"
            )
        kind = _KindError if isinstance(problem, TypeError) else InputError
        raise kind(words) from None


class Estimator(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators share: all but how they learn."""

    _learner: ClassVar[Learner]
    _kind: ClassVar[Callable[..., Model]]

    @checked
    def predict(self, X: Any, *, unknown: Unknown = "base") -> Array:
        """Predictions for raw rows (after a release) or for an array like the one fitted.

        Parameters
        ----------
        X
            rows: a source, a path or a frame with the feature columns; others are not looked at.
        unknown
            what a level counts as that the fitted rows did not have: "base", the one without a
            column of its own; "missing"; or "error". Numbers outside the public range count as its
            nearest end. A LabelDPWarning says how many.

        Returns
        -------
        Array
            One prediction a row, in row order.

        Raises
        ------
        DataError
            a column is missing, or not of the kind that was fitted.
        """
        model = self._model()
        if model.takes_array:
            X = _validated(self, X, reset=False)
        if model.features is None:
            return model.predict(X)
        tame = UnseenValueHandler(model.features, unknown)
        found = [model.predict(tame(batch)) for batch in model.features.batches(X)]
        for note in tame.notes():
            warnings.warn(note, LabelDPWarning, stacklevel=3)
        return np.concatenate(found) if found else np.empty(0)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions for rows `X` with labels `y` (any array: numpy, Arrow, Series).

        Parameters
        ----------
        X, y
            rows, as for `predict`, and their labels.
        sample_weight
            of the rows; all the same if None.
        """
        return float(r2_score(np.asarray(y), self.predict(X), sample_weight=sample_weight))

    @checked
    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model as one file without pickle, atomically and exactly."""
        self._model().save(path)

    @classmethod
    @checked
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model written by `save`; predicting with it needs no extra."""
        model = parse(cls._learner, *read(path), path)
        return cls(**asdict(model.options))._remember(model)

    def _options(self) -> Any:
        """The parameters, checked."""
        kind = self._learner.options
        return kind(**{each.name: getattr(self, each.name) for each in fields(kind)}).checked()

    def _rows(self, X: Any, y: Any) -> tuple[Array, Array, tuple[str, ...] | None]:
        """Plain rows, their labels and the names of their columns."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                "only a release or bags carry their own labels"
            )
        X, y = _validated(self, X, y, y_numeric=True)
        names = getattr(self, "feature_names_in_", None)
        return X, y, None if names is None else tuple(map(str, names))

    def _model(self) -> Model:
        check_fitted(self)
        names = (each.name for each in fields(self._kind))  # type: ignore[arg-type]
        return self._kind(**{name: getattr(self, f"{name}_") for name in names})

    def _remember(self, model: Any) -> Self:
        for each in fields(model):
            setattr(self, f"{each.name}_", getattr(model, each.name))
        self.n_features_in_ = model.width
        self.__dict__.pop("feature_names_in_", None)
        if model.feature_names is not None:
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)
        return self


def warned(model: Model) -> Model:
    """The model, with a warning where its release does not show that it is of use."""
    doubt = None if model.quality is None else model.quality.doubt
    if doubt is not None:
        warnings.warn(doubt, LabelDPWarning, stacklevel=4)
    return model
