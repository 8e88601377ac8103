"""BagRegressor: a scikit-learn estimator that trains a ReLU network on weighted bags."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, fields
from inspect import getattr_static
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp._check import at_least
from labeldp.errors import InputError, MissingExtraError
from labeldp.learners import layers, network_file
from labeldp.learners.bags import WeightedBags
from labeldp.learners.inputs import Inputs
from labeldp.learners.layers import Layers
from labeldp.learners.linear import constant_column
from labeldp.learners.network_file import Model
from labeldp.learners.settings import Settings

if TYPE_CHECKING:
    from labeldp.engines.protocol import Progress


class BagRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A network f that minimises Σ_j (t_j − Σ_r w_jr f(x_jr))² over bags j of weighted rows r.

    `fit(release, source)` learns from the bags of a sampled-noisy-wtd-LAg release; their rows are
    read from the source, whose labels are not. `fit(release)` takes a release of aggregated
    features, for a linear model only: Σ w f(x) cannot be had from Σ w x otherwise. (There
    `LinearRegressor` solves the same problem exactly.) `predict` and `score` then take raw rows.
    `fit(bags)` takes any `WeightedBags`, such as the instance-level baseline of single rows.
    `fit(X, y)` takes plain rows, standardised column by column, as any scikit-learn regressor.

    Inside, f = shift_ + scale_ · g: the network g sees labels less the best constant,
    in units of what that leaves per row. Aggregation is linear, so this is exact for any bags, and
    training goes the same way whatever the unit of the labels.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the ReLU layers; () is the linear model.
    epochs, learning_rate, final_rate :
        Adam, its rate falling from the first to the last epoch along half a cosine.
    batch_rows : int
        Rows per mini-batch at most, give or take a bag, since batches hold whole bags; fewer where
        that would leave less than 16 batches an epoch (but not below 64 rows).
    patience, validation_fraction :
        Stop when the loss on this part of the bags, never trained on, has not fallen for so many
        epochs, and return the best network. At fraction 0 all the epochs are run.
    max_norm : float or None
        Bound K on the Frobenius norm of every layer [W | b] of g, kept by projection after every
        step: the paper's class F_NN(K, l0). With scaled labels the bound is on g, so f lies in the
        class stretched by `scale_` and moved by `shift_`.
    scale_labels : bool
        False leaves labels as they are: f = g. The class is then literally the paper's, and labels
        far from the scale of 1 are learnt slowly.
    seed, threads : int, int or None
        The same seed and threads give the same network on the same machine. None is one thread:
        the steps are short, and gain little from more. Nothing global is seeded or left changed.
    progress : callable or None
        `progress(task, total)` opens a bar; one step an epoch.

    Attributes
    ----------
    layers_ : Layers
        The matrices of g.
    shift_, scale_ : float
    losses_, validation_losses_ : list of float
        Per epoch, in squared label units per row: residual sum of squares over Σ w².
    best_epoch_ : int
        The epoch (from 0) whose network is kept; `len(losses_)` were run.
    row_norm_ : float or None
        Largest norm of an encoded training row; None after a fit on aggregates.
    features_ : feature map, None after a fit on plain rows
    input_, centre_, spread_, feature_names_ :
        How rows become inputs of the network; an array is (X − centre_) / spread_.
    n_features_in_, feature_names_in_ :
        As in `LinearRegressor`: design columns after a release.
    """

    def __init__(
        self,
        hidden: tuple[int, ...] = (128, 64),
        epochs: int = 200,
        learning_rate: float = 1e-3,
        final_rate: float = 1e-6,
        batch_rows: int = 8192,
        patience: int = 3,
        validation_fraction: float = 0.1,
        max_norm: float | None = None,
        scale_labels: bool = True,
        seed: int = 0,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.final_rate = final_rate
        self.batch_rows = batch_rows
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.max_norm = max_norm
        self.scale_labels = scale_labels
        self.seed = seed
        self.threads = threads
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit `(release, source)`, `(release)` of aggregates, `(bags)` or plain rows `(X, y)`."""
        settings = self._settings()
        if isinstance(X, WeightedBags):
            return self._fit_bags(settings, X)
        if _is_release(X):
            return self._fit_bags(settings, self._bags_of(X, y))
        if y is None:
            raise InputError(
                "BagRegressor requires y to be passed, but the target y is None; "
                "only a release or bags carry their own labels"
            )
        return self._fit_rows(settings, X, y)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions for raw rows (after a release) or for an array like the one fitted."""
        check_is_fitted(self)
        if self.input_ == "codes":
            if self.features_ is None:
                raise InputError("the bags had no feature map, so raw rows cannot be encoded")
            inputs = Inputs.of(self.features_)
            parts = [self.layers_.values(*batch) for batch in inputs.batches(X)]
            values = np.concatenate([np.empty(0), *parts])
        elif self.input_ == "design":
            constant = constant_column(self.features_)
            design = np.asarray(self.features_.design(X), dtype=np.float64)
            values = self.layers_.of_numbers(
                design if constant is None else np.delete(design, constant, axis=1)
            )
        else:
            X = validate_data(self, X, reset=False, dtype=np.float64)
            values = self.layers_.of_numbers((X - self.centre_) / self.spread_)
        return np.asarray(self.shift_ + self.scale_ * values)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions for rows `X` with labels `y` (any array: numpy, Arrow, Series)."""
        return float(r2_score(np.asarray(y), self.predict(X), sample_weight=sample_weight))

    def output_bound(self, row_norm: float | None = None) -> float:
        """Largest |f(x)| that any network of the class takes on rows of norm at most `row_norm`.

        By default the largest norm among the training rows. In label units: |shift_| +
        scale_ · K √((K^{2l0+2} − 1)/(K² − 1)), with K the larger of max_norm and row_norm.
        """
        bound = layers.output_bound(*self._class(row_norm))
        return float(abs(self.shift_) + self.scale_ * bound)

    def lipschitz_constant(self, row_norm: float | None = None) -> float:
        """How fast f moves with the weights of g, over the class, in label units."""
        return float(self.scale_ * layers.lipschitz_constant(*self._class(row_norm)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model as one file (NumPy .npz, no pickle), atomically and exactly."""
        check_is_fitted(self)
        if self.input_ == "codes" and self.features_ is None:
            raise InputError("the bags had no feature map, so the model could not be used again")
        state = {field.name: getattr(self, f"{field.name}_") for field in fields(Model)}
        network_file.write(path, Model(**state), asdict(self._settings()))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model written by `save`; predicting with it does not need torch."""
        model, parameters = network_file.read(path)
        try:
            learner = cls(**asdict(Settings.checked(**parameters)))
        except (InputError, KeyError, TypeError) as error:
            raise InputError(f"{path} is a damaged model file: wrong parameters") from error
        return learner._remember(model)

    def _settings(self) -> Settings:
        names = (field.name for field in fields(Settings))
        return Settings.checked(**{name: getattr(self, name) for name in names})

    def _bags_of(self, release: Any, source: Any) -> WeightedBags:
        table = getattr(release, "bag_table", None)
        if table is None or "weight" not in table.column_names:
            return WeightedBags.from_aggregates(release.design, release.labels, release.features)
        if not hasattr(source, "feature_batches"):
            raise InputError(
                "the release names rows but does not hold them: pass the source it was made from, "
                "fit(release, source)"
            )
        return WeightedBags.from_source(release.features, source, table, release.labels)

    def _fit_rows(self, settings: Settings, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        centre, spread = X.mean(axis=0), X.std(axis=0)
        spread[spread <= 1e-12 * np.abs(centre)] = 1.0  # constant, but for rounding
        bags = WeightedBags.from_arrays((X - centre) / spread, y)
        names = getattr(self, "feature_names_in_", None)
        return self._train(settings, bags, "columns", centre, spread, names)

    def _fit_bags(self, settings: Settings, bags: WeightedBags) -> Self:
        if bags.aggregated and settings.hidden:
            raise InputError(
                "a network with hidden layers cannot be fitted on aggregated features, because "
                "f(Σ w x) is not Σ w f(x): set hidden=(), or use a release that keeps the rows of "
                "its bags (sampled-noisy-wtd-lag)"
            )
        names = None if bags.features is None else bags.features.names
        if bags.features is None and not bags.category_sizes:
            width = bags.numbers.shape[1]
            return self._train(settings, bags, "columns", np.zeros(width), np.ones(width), None)
        return self._train(settings, bags, "design" if bags.aggregated else "codes", names=names)

    def _train(
        self,
        settings: Settings,
        bags: WeightedBags,
        input: str,
        centre: NDArray[np.float64] | None = None,
        spread: NDArray[np.float64] | None = None,
        names: Any = None,
    ) -> Self:
        training = _training()
        units = bags.units(scaled=settings.scale_labels)
        with (self.progress or _quiet)("epochs", settings.epochs) as advance:
            trained = training.train(bags, units, settings, advance)
        square = units.scale**2
        return self._remember(
            Model(
                layers=Layers(bags.category_sizes, trained.matrices),
                features=bags.features,
                input=input,
                shift=units.shift,
                scale=units.scale,
                losses=[loss * square for loss in trained.losses],
                validation_losses=[loss * square for loss in trained.validation_losses],
                best_epoch=trained.best_epoch,
                row_norm=bags.row_norm,
                centre=None if centre is None else centre.tolist(),
                spread=None if spread is None else spread.tolist(),
                feature_names=None if names is None else [str(name) for name in names],
            )
        )

    def _remember(self, model: Model) -> Self:
        """Every field of the model becomes an attribute with an underscore at its end."""
        for field in fields(Model):
            setattr(self, f"{field.name}_", getattr(model, field.name))
        self.n_features_in_ = model.width
        self.__dict__.pop("feature_names_in_", None)
        if model.feature_names is not None:
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)
        return self

    def _class(self, row_norm: float | None) -> tuple[float, int]:
        """K and l0 of the class F_NN(K, l0) in which g was sought."""
        check_is_fitted(self)
        if self.max_norm is None:
            raise InputError("without max_norm the weights are unbounded, and so is the class")
        longest = self.row_norm_ if row_norm is None else row_norm
        if longest is None:
            raise InputError("aggregates do not show how long rows are; pass row_norm")
        at_least(0, row_norm=longest)
        return max(float(self.max_norm), float(longest)), len(self.layers_.matrices)


def _is_release(value: Any) -> bool:
    """Has it the attributes of a release? Looked up without computing them: they may be large."""
    absent = object()
    has = {
        name: getattr_static(value, name, absent) is not absent
        for name in ("design", "bag_table", "labels", "features")
    }
    return has["labels"] and has["features"] and (has["design"] or has["bag_table"])


def _training() -> Any:
    """The module that trains, which needs torch."""
    try:
        from labeldp.learners import training
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingExtraError("the neural learner", "torch") from None
    return training


def _quiet(task: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG001
    return nullcontext(lambda _done: None)
