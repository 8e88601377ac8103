"""The scikit-learn estimators that people fit: linear, logistic, Poisson and neural regressions.

They are thin: parameters are the fields of the options that they inherit, learnt attributes are the
fields of the model with an underscore at their end. This is the only module that imports
scikit-learn as a whole. What scikit-learn refuses is an error of ours, in one line and without
values.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPWarning
from labeldp.features.encoder import UnseenValues
from labeldp.features.feature_map import FeatureMap
from labeldp.learners import bags, generalized, linear
from labeldp.learners.coefficients import Coefficients, normal_deviations
from labeldp.learners.models import (
    Array,
    GeneralizedLinearModel,
    GeneralizedOptions,
    LinearModel,
    LinearOptions,
    Model,
    NetworkModel,
    NetworkOptions,
    load_model,
)
from labeldp.learners.summary import Summary, effect_picture
from labeldp.pictures import render
from labeldp.releases.files import Release, table_rows

if TYPE_CHECKING:
    from labeldp.passes.engine import Engine, Progress

_VALUES = re.compile(r"array=.*?(?=Reshape|$)", re.DOTALL)


class UnfittedError(InputError, NotFittedError):  # type: ignore[misc]
    """A model is used before it was fitted: scikit-learn's error, and one of ours."""


class ArgumentTypeError(InputError, TypeError):
    """An argument is of the wrong type: scikit-learn's TypeError, and one of ours."""


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What the estimators share: all but how they learn."""

    _model_class: ClassVar[type[Model]]
    # Options compare by value, estimators by identity.
    __eq__, __hash__ = object.__eq__, object.__hash__

    def predict(self, X: Any, *, unknown: Literal["base", "error"] = "base") -> Array:
        """Return one prediction a row for raw rows or, after plain rows, for an array like them.

        `X` is a source, a path or a frame with the feature columns; others are not looked at.
        `unknown` is what a level counts as that the fitted rows did not have: "base", the one
        without a column of its own, or "error". Numbers outside the public range count
        as its nearest end. A LabelDPWarning says how many.
        """
        model = self._model()
        if model.features is None:
            return model.predict(_validate(self, X, reset=False))
        parts = _of_batches(X, model.features, model.predict, unknown)
        return np.concatenate([np.empty(0), *parts])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model as one file without pickle, atomically and exactly."""
        self._model().save(path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the estimator that `save` wrote; predicting with it needs no extra."""
        model = load_model(path, cls._model_class)
        return cls(**asdict(model.options))._remember(model)

    def _plain_rows(self, X: Any, y: Any) -> tuple[Array, Array, tuple[str, ...] | None]:
        """Return plain rows, their labels and the names of their columns."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                "only a release carries its own labels"
            )
        X, y = _validate(self, X, y, y_numeric=True)
        names = getattr(self, "feature_names_in_", None)
        return X, y, None if names is None else tuple(map(str, names))

    def _model(self) -> Model:
        if not hasattr(self, "model_"):
            name = type(self).__name__
            raise UnfittedError(
                f"this {name} is not fitted yet; call fit with a release first, or {name}.load a "
                "file"
            )
        return self.model_

    def _remember(self, model: Model) -> Self:
        """Keep a model, and its fields as learnt attributes."""
        self.model_ = model
        for each in fields(model):
            setattr(self, f"{each.name}_", getattr(model, each.name))
        names = model.feature_names if model.features is None else model.features.columns
        self.n_features_in_ = model.width if names is None else len(names)
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def _learn(self, model: Model) -> Self:
        """Keep a model that was fitted just now; warn where a release does not show its use."""
        if model.quality is not None and model.quality.usefulness_warning is not None:
            warnings.warn(model.quality.usefulness_warning, LabelDPWarning, stacklevel=3)
        return self._remember(model)


def _of_batches(
    rows: Any,
    features: FeatureMap,
    function: Callable[[Any, UnseenValues], Array],
    unknown: str,
) -> list[Array]:
    """Return what a function gives for each batch of raw rows; warn of values not seen before."""
    unseen = UnseenValues(unknown)
    parts = [function(batch, unseen) for batch in features.batches(rows)]
    for note in unseen.notes():
        warnings.warn(note, LabelDPWarning, stacklevel=3)
    return parts


def _validate(estimator: Any, *arrays: Any, **checks: Any) -> Any:
    """Return arrays as scikit-learn validates them; its refusals show values, ours do not."""
    try:
        valid = validate_data(estimator, *arrays, dtype=np.float64, **checks)
        return valid if len(arrays) == 1 else [np.asarray(each, np.float64) for each in valid]
    except (ValueError, TypeError) as problem:
        words = " ".join(_VALUES.sub("", str(problem)).split())
        if re.search(r"could not convert|float\(\)|setting an array|[Cc]annot c", words):
            words = (
                "`X` and `y` must hold numbers alone, and an argument must be no string but a "
                "number; turn categories into columns of numbers, or fit a release of the table"
            )
        kind = ArgumentTypeError if isinstance(problem, TypeError) else InputError
        raise kind(words) from None


def _releases_and_table(data: Any, table: Any) -> tuple[list[Release], Source | None]:
    """Return releases given as such or by their directories, and the table whose rows one names.

    Without any release, `data` are plain rows. A table that is not needed is ignored, so that
    `fit(release, table)` is right whatever mechanism made the release.
    """
    several = data if isinstance(data, list | tuple) else [data]
    kinds = {isinstance(each, Release | str | PathLike) for each in several}
    if True not in kinds:
        return [], None
    if False in kinds:
        raise InputError("a list of releases holds something else; give releases alone")
    if isinstance(table, list | tuple) or getattr(table, "ndim", 2) == 1:
        raise InputError(
            "a release carries its own labels; leave `y` out, or give the table it was made from"
        )
    releases = [each if isinstance(each, Release) else Release.load(Path(each)) for each in several]
    if table is None or len(releases) != 1 or not releases[0].needs_rows:
        return releases, None
    return releases, table_rows(releases[0], table)


class _LinearEstimator(_Estimator):
    """What linear and generalised linear regressions share."""

    def _remember(self, model: Model) -> Self:
        """Keep a model, and its coefficients with what is known of them."""
        super()._remember(model)
        self.coefficients_ = Coefficients.of(cast(LinearModel, model))
        return self

    def summary(self) -> Summary:
        """Return release, estimated quality and coefficients with errors, for people to read."""
        return Summary.of(cast(LinearModel, self._model()))

    def plot(self, column: str) -> Any:
        """Return a matplotlib figure of predictions along a column; needs the extra "plots".

        Other columns stay at typical values. Bands are at `confidence`: for what privacy adds and,
        where the residual is known, for privacy and sampling.
        """
        return render(effect_picture(cast(LinearModel, self._model()), column))


class _GeneralizedEstimator(_LinearEstimator):
    """What logistic and Poisson regression share."""

    _model_class = GeneralizedLinearModel
    _family: ClassVar[str]

    def fit(self, X: Any, y: Any = None, *, engine: Engine | None = None) -> Self:
        """Fit `(release, table)` or `([release, …], [table, …])`, of different rows.

        A release may be given by its directory, a table as a source, a path or a frame; it must be
        the one that the release was made from. `engine` says where it is read.
        """
        options, several = self.checked_options(), isinstance(X, list | tuple)
        releases, _ = _releases_and_table(X, None)
        name = type(self).__name__
        if not releases:
            raise InputError(
                f"{name} fits releases: `fit(release, table)`; for plain rows take scikit-learn's"
            )
        tables = y if several else [y]
        if y is None:
            tables = [None] * len(releases)
        if not isinstance(tables, list | tuple) or len(tables) != len(releases):
            raise InputError("several releases need as many tables, in the same order")
        model = generalized.fit_release(releases, tables, self._family, options, engine)
        return self._learn(model)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the estimator that `save` wrote; predicting with it needs no extra."""
        model = load_model(path, cls._model_class)
        assert isinstance(model, GeneralizedLinearModel)
        if model.family != cls._family:
            raise InputError(f"{path} is a {model.family} model, not a {cls._family} one")
        return cls(**asdict(model.options))._remember(model)


class LinearRegressor(RegressorMixin, _LinearEstimator, LinearOptions):  # type: ignore[misc]
    """Linear regression on a release's aggregates: least squares, ridge, lasso or bounded norm.

    `fit(release)` learns from the m aggregates; `predict` and `score` then take raw rows.
    `fit(X, y)` learns from plain rows, as any scikit-learn regressor, for baselines and pipelines.

    Parameters
    ----------
    penalty : float
        Ridge penalty, in the units of the rows: `Ridge(alpha=penalty)` on all the rows is what the
        fit on a release estimates (on m aggregates it is scaled by m). The intercept is free.
    lasso : float
        Lasso penalty: `Lasso(alpha=lasso)` on all the rows is what the fit estimates. Coefficients
        are drawn towards zero: to judge those that are kept, fit again with `columns` and without a
        penalty, on a release that did not choose them.
    max_norm : float or None
        Bound on the Euclidean norm of the coefficients of the release's own columns (scaled,
        encoded), the intercept's included: the paper's class F_{B_r}. At most one of `penalty`,
        `lasso` and `max_norm` may be set.
    columns : list of str or None
        Columns of the table to regress on, with the constant; None is all. The model then needs
        no others to predict.
    fit_intercept : bool
        On plain rows, add a constant. A release has one already, unless it was planned without.
    confidence : float
        Level of the intervals in `coefficients_`.
    shrink : bool or None
        Predict with a posterior mean: where the noise of a release is public, as of shaped-flag,
        how much coefficients are shrunk is chosen from the release alone. None does so wherever
        that is possible and nothing else holds the coefficients back; True refuses elsewhere.
        `coefficients_` and their intervals are never shrunk.
    clip : bool
        Clip predictions to the label range of the release, which is public. Not on plain rows.

    Attributes
    ----------
    coef_, intercept_ : ndarray (p,), float
        What predicts: design @ coef_ + intercept_, clipped (X instead of the design on plain rows).
        The constant column of a release has 0 in `coef_`.
    rule_ : dict
        By which "rule" they were chosen, and what it chose.
    coefficients_ : Coefficients, a sequence of Coefficient
        For inference, in original units: those that predict, but not shrunk. For the population:
        `to_frame()`, `conf_int(level)`, `pvalues`; for the fit on all rows `low` and `high`, if
        no penalty is set, the norm bound did not bind, and a degree of freedom is left. On a
        release of wtd-FLAg each holds the coefficient of the fit on all the rows with probability
        exactly `confidence`; on sampled bags, whose covariances differ, approximately. On plain
        rows they are the classical ones, right for iid normal errors.
    multiplier_ : float
        Lagrange multiplier of the penalty or norm bound, in units of the rows; 0 if nothing bound.
    quality_ : Quality or None
        Estimated from the release alone: gain over the constant, R², residual spread.
    effects_ : tuple of Effect
        Predictions along each column, the others at typical values, with their standard errors.
    releases_ : tuple of dict
        Mechanism, ε, δ, rows and aggregates of what was fitted.
    label_range_, features_ : public range of the labels, feature map; None after plain rows
    options_ : the parameters that were fitted with
    feature_names_ : names of the columns of `coef_`
    feature_names_in_, n_features_in_ : names and number of the raw columns that rows must have
    """

    _model_class = LinearModel

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit `(release)`, `(release, table)`, `([release, …])` or plain rows `(X, y)`.

        A release may be given by its directory, a table as a source, a path or a frame. Several
        releases of different rows and the same columns are fitted together: their XᵀX add, and each
        counts by its precision. Their noise must be public.

        A release of labels alone names the rows of its bags; their features are read from the
        table. Its aggregates have noise of different, public deviations and are weighed by them.
        For other releases the table is ignored, so `fit(release, table)` is always right.

        A LabelDPWarning says if the release does not show that predictions beat the labels' mean.
        """
        options, (releases, table) = self.checked_options(), _releases_and_table(X, y)
        if not releases:
            return self._learn(linear.fit_rows(*self._plain_rows(X, y), options))
        return self._learn(linear.fit_release(releases, table, options))

    def predict(
        self,
        X: Any,
        *,
        unknown: Literal["base", "error"] = "base",
        return_std: bool = False,
        interval: float | None = None,
    ) -> Any:
        """Return one prediction a row, alone or with the error of each for a new label.

        Errors are of privacy, of the sampling of rows and of the residual. They need a release that
        shows how labels scatter, and no penalty.

        Parameters
        ----------
        X
            raw rows: a source, a path or a frame with the feature columns; others are not looked
            at. After plain rows an array like them.
        unknown
            what a level counts as that was not fitted: "base" or "error" (refused). Numbers outside
            the public range count as its nearest end. A LabelDPWarning says how many.
        return_std
            return predictions and the standard deviations of what they miss, before clipping.
        interval
            return predictions, and the low and high ends of intervals that hold a new label with
            this probability, within the label range if predictions are clipped.

        Returns
        -------
        ndarray, or a tuple of two or three
            The predictions; with them the deviations, or the ends.
        """
        if return_std is False and interval is None:
            return super().predict(X, unknown=unknown)
        if return_std and interval is not None:
            raise InputError("`return_std` and `interval` exclude each other; set one of them")
        reach = 0.0 if interval is None else normal_deviations("interval", interval)
        model = cast(LinearModel, self._model())
        if model.features is None or model.prediction_errors is None:
            reason = self.coefficients_.reason or "the model is of an earlier version; fit again"
            raise InputError(f"no errors of predictions are known: {reason}")
        parts = _of_batches(X, model.features, model.linear_and_std, unknown)
        linear, std = np.concatenate([np.empty((0, 2)), *parts]).T
        if interval is None:
            return model.response(linear), std
        return tuple(model.response(linear + side * reach * std) for side in (0, -1, 1))


class LogisticRegression(
    ClassifierMixin,  # type: ignore[misc]
    _GeneralizedEstimator,
    GeneralizedOptions,
):
    """Logistic regression on a release of labels of two classes, with the table of its features.

    `fit(release, table)` needs a release whose noise is public, as of shaped-flag and noisy-rows.
    It reads the features of the table in some ten passes and no label: what it knows of labels is
    what was released, so it costs no privacy. `LinearRegressor` on the same release needs no table.

    Parameters
    ----------
    columns : list of str or None
        Columns of the table to regress on, with the constant; None is all.
    confidence : float
        Level of the intervals in `coefficients_`.
    shrink : bool
        Predict with a posterior mean, shrunk by what the noise asks for. False takes the
        coefficients at which the release's label sums are the expected ones, and is refused where
        there are none, because of the noise or because columns separate the classes.
        `coefficients_` and their intervals are never shrunk.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes that the release was declared with, or else the ends of its label range. The
        first counts as 0.
    coef_, intercept_ : ndarray (p,), float
        The log-odds of the second class are design @ coef_ + intercept_. The constant column of the
        release has 0 in `coef_`.
    coefficients_ : Coefficients, a sequence of Coefficient
        As in `LinearRegressor`, not shrunk: one step of Newton's method from those that predict.
        Errors are from privacy, and from the sampling of rows.
    rule_ : dict
        How strongly coefficients were shrunk, and in how many rounds.
    quality_ : Quality or None
        Estimated from the release alone; its gain is in deviance per row, approximately.
    effects_ : tuple of Effect
        The log-odds along each column, the others at typical values, with their standard errors.
    releases_, label_range_, features_, options_, feature_names_ : as in `LinearRegressor`
    """

    _family = "logistic"

    def predict(self, X: Any, *, unknown: Literal["base", "error"] = "base") -> NDArray[Any]:
        """Return the likelier class of every row; `X` and `unknown` are as in `LinearRegressor`."""
        likely = _Estimator.predict(self, X, unknown=unknown) > 0.5
        classes: NDArray[Any] = self.classes_
        return classes[likely.astype(np.intp)]

    def predict_proba(self, X: Any, *, unknown: Literal["base", "error"] = "base") -> Array:
        """Return the probabilities of both classes, a column each, for every row."""
        probabilities = _Estimator.predict(self, X, unknown=unknown)
        return np.column_stack([1 - probabilities, probabilities])


class PoissonRegressor(
    RegressorMixin,  # type: ignore[misc]
    _GeneralizedEstimator,
    GeneralizedOptions,
):
    """Poisson regression on a release of counts, with the table of its features.

    As `LogisticRegression`, for labels that are counts: the logarithm of the expected count is
    design @ coef_ + intercept_. Predictions are expected counts, within the public label range.

    Where the residual of the linear fit is published, errors from sampling are those of counts
    whose variance is a multiple of their mean, estimated from it; elsewhere those of Poisson's law.

    Parameters
    ----------
    columns, confidence, shrink : as in `LogisticRegression`

    Attributes
    ----------
    coef_, intercept_, coefficients_, rule_, quality_, effects_ : as in `LogisticRegression`
    releases_, label_range_, features_, options_, feature_names_ : as in `LinearRegressor`
    """

    _family = "poisson"


@dataclass(eq=False, repr=False)
class BagRegressor(RegressorMixin, _Estimator, NetworkOptions):  # type: ignore[misc]
    """A network f that minimises Σ_j (t_j − Σ_r w_jr f(x_jr))² over bags j of weighted rows r.

    `fit(release, source)` learns from the bags of a sampled-noisy-wtd-LAg release, or from the
    rows of a noisy-rows release; rows are read from the source, whose labels are not.
    `predict` and `score` then take raw rows.
    `fit(X, y)` takes plain rows, standardised column by column, as any scikit-learn regressor.

    Inside, f = shift_ + scale_ · g: the network g sees labels less the best constant, in units of
    what that leaves per row, which is exact for any bags because aggregation is linear.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the ReLU layers; () is the linear model.
    epochs, learning_rate :
        Adam, its rate falling along half a cosine.
    patience : int
        Stop when the loss on a part of the bags, never trained on, has not fallen for so many
        epochs, and return the best network.
    shrink : bool or None
        On labels whose noise is known (of sampled-noisy-wtd-LAg, of noisy rows): weigh each by
        what it tells, hold the weights of the network back by the noise, train five networks,
        each without a part of the labels, and predict that share of their mean which the labels
        support that each has not seen: the constant, if they support none. None does so on every
        release; False trains one network, with equal weights.
    clip : bool
        Clip predictions to the label range of the release, which is public.
    seed : int
        The same seed gives the same network on the same machine. Nothing global is seeded.
    progress : callable or None
        `progress(task, total)` opens a bar; one step an epoch.

    Attributes
    ----------
    layers_, shift_, scale_ : tuple of ndarray, float, float
        The matrices of g, each with the bias as its last row, and how it becomes f.
    losses_, validation_losses_ : list of float
        Per epoch, in squared label units per row: residual sum of squares over Σ w². Of several
        networks the mean.
    best_epoch_ : int
        The epoch (from 0) whose network is kept; `len(losses_)` were run. The last of several.
    share_, quality_ : float or None, Quality or None
        If shrunk: how much of the networks is predicted, and by labels held back how much better
        than the constant that is (`gain`, `r2`).
    label_range_, features_ : public range of the labels, feature map; None after plain rows
    options_ : the parameters that were fitted with
    centre_, spread_ : an array enters the network as (X − centre_) / spread_
    feature_names_, feature_names_in_, n_features_in_ : as in `LinearRegressor`
    """

    _model_class = NetworkModel

    progress: Progress | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit `(release, table)` or plain rows `(X, y)`.

        A table that the release does not need is ignored.
        """
        options = self.checked_options()
        releases, table = _releases_and_table(X, y)
        if not releases:
            return self._learn(bags.fit_rows(*self._plain_rows(X, y), options, self.progress))
        if len(releases) != 1:
            raise InputError("a network learns from one release; give one")
        return self._learn(bags.fit_release(releases[0], table, options, self.progress))
