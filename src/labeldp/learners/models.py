"""What a learner has learnt: frozen values that predict raw rows and are saved as one file.

    LinearModel    coefficients, with intervals and standard errors, and what chose them
    NetworkModel   the matrices of a ReLU network
    load_model     reads either from its file

Predicting imports neither scikit-learn nor SciPy nor torch. How models are learnt stands in
`linear` and `network`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from labeldp.display import ReprMixin
from labeldp.errors import (
    InputError,
    at_least,
    describe,
    finite,
    in_range,
    positive,
    share,
    to_bool,
    to_float,
    to_int,
    to_range,
    to_str_tuple,
)
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.layers import Layers, Matrix, RowEncoder, row_products
from labeldp.learners.model_file import (
    DAMAGE,
    VERSION,
    Arrays,
    Document,
    check_header,
    read_document,
    seal_of,
    write_document,
)

Array = NDArray[np.float64]
Penalty = float | Literal["auto"]


# --- parts of a model ---


@dataclass(frozen=True)
class Coefficient:
    """One coefficient in original units; what is not known of it is None.

    `low` and `high` are an interval for the coefficient of the fit with all labels, where one is
    exact: it covers what privacy adds, not the sampling of rows from a population.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    privacy_error: float | None = None
    """Standard error from privacy: of the value as an estimate of the fit with all labels."""
    sampling_error: float | None = None
    """Standard error of that fit as an estimate for the population, for errors of one variance."""
    total_error: float | None = None
    """Both together."""


@dataclass(frozen=True)
class Effect:
    """Predictions along one column, and their standard errors where they are known."""

    column: str
    values: tuple[Any, ...]
    """Numbers, or levels of a category as they are shown."""
    predictions: tuple[float, ...]
    privacy_errors: tuple[float, ...] | None = None
    total_errors: tuple[float, ...] | None = None

    @property
    def of_levels(self) -> bool:
        """Whether the column is a category."""
        return isinstance(self.values[0], str)

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Effect:
        """Return the effect that `asdict` was taken of."""
        lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
        if len(set(map(len, lists.values()))) != 1:
            raise ValueError("an effect has lists of different lengths")
        return cls(**entry | lists)


MAX_RISK = 0.05
"""Largest probability of being worse than a constant at which predictions count as useful."""


@dataclass(frozen=True)
class Quality:
    """How good predictions for the rows of the release are, before they are clipped.

    It is estimated from the release alone (`quality.py`). Every `…_error` is a standard deviation.
    """

    gain: float
    """Mean squared error of the best constant less that of the predictions, in label units."""
    gain_error: float
    r2: float | None = None
    """`gain` over the variance of labels; None where the residual is not published, or with too
    much noise."""
    r2_error: float | None = None
    all_labels_r2: float | None = None
    """R² of the least-squares fit with all labels."""
    residual_std: float | None = None
    """Root of the residual mean square of that fit, for the degrees of freedom that it has."""
    residual_std_error: float | None = None
    privacy_ratio: float | None = None
    """τ_stat: the error that privacy adds to a least-squares fit over its sampling error."""
    signal: float | None = None
    """The probability that features explain anything, where predictions are the posterior mean."""
    worse: float | None = None
    """The probability that the constant is better, likewise."""

    @property
    def beats_the_constant(self) -> bool:
        """Whether the release shows that its predictions beat a constant.

        Predictions that are a posterior mean show it by the posterior, others by their gain, if
        that is more than two deviations.
        """
        if self.worse is not None:
            return self.worse < MAX_RISK
        return self.gain > 2 * self.gain_error

    @property
    def usefulness_warning(self) -> str | None:
        """Why predictions may not beat a constant, and what would help; None if they do."""
        remedy = "Publish with a larger budget, more rows or fewer columns."
        if self.beats_the_constant:
            return None
        if self.worse is not None:
            return (
                "The release hardly shows that predictions beat the mean of the labels (with "
                f"probability {self.worse:.2g} they are worse): they stay near it. {remedy}"
            )
        if self.gain < -2 * self.gain_error:
            loss = f"{-self.gain:.4g} ± {self.gain_error:.2g}"
            return (
                f"These predictions are worse than a constant, by {loss} in mean square. {remedy}"
            )
        return (
            "The release does not show that these predictions beat a constant: the gain is "
            f"{self.gain:.4g} ± {self.gain_error:.2g} in mean square. {remedy}"
        )


# --- options ---


def _to_penalty(name: str, value: Any) -> Penalty:
    if isinstance(value, str):
        if value != "auto":
            raise InputError(f"`{name}` must be a number or 'auto', not {describe(value)}")
        return "auto"
    at_least(0, **{name: value})
    return float(value)


def _to_norm_bound(value: Any) -> float | None:
    if value is None:
        return None
    positive(max_norm=value)
    return float(value)


@dataclass(frozen=True)
class LinearOptions:
    """The parameters of `LinearRegressor`; see there."""

    penalty: Penalty = 0.0
    lasso: Penalty = 0.0
    max_norm: float | None = None
    columns: tuple[str, ...] | None = None
    fit_intercept: bool = True
    confidence: float = 0.95
    shrink: bool | None = None
    clip: bool = True

    @property
    def is_penalised(self) -> bool:
        """Whether a penalty or a bound is set."""
        return self.penalty != 0 or self.lasso != 0 or self.max_norm is not None

    def checked(self) -> LinearOptions:
        """Return the same in plain Python values; refuse what makes no sense, by its name."""
        in_range(0, 1, confidence=self.confidence)
        options = LinearOptions(
            penalty=_to_penalty("penalty", self.penalty),
            lasso=_to_penalty("lasso", self.lasso),
            max_norm=_to_norm_bound(self.max_norm),
            columns=None if self.columns is None else to_str_tuple("columns", self.columns),
            fit_intercept=to_bool("fit_intercept", self.fit_intercept),
            confidence=float(self.confidence),
            shrink=None if self.shrink is None else to_bool("shrink", self.shrink),
            clip=to_bool("clip", self.clip),
        )
        if (options.penalty != 0) + (options.lasso != 0) + (options.max_norm is not None) > 1:
            raise InputError("set one of `penalty`, `lasso` and `max_norm`, not both")
        if options.shrink and options.is_penalised:
            raise InputError(
                "`shrink=True` chooses its own penalty; leave `penalty`, `lasso` and `max_norm` out"
            )
        return options


@dataclass(frozen=True)
class NetworkOptions:
    """The parameters of `BagRegressor` that training reads; see there."""

    hidden: tuple[int, ...] = (128, 64)
    epochs: int = 200
    learning_rate: float = 1e-3
    final_rate: float = 1e-6
    batch_rows: int = 8192
    patience: int = 3
    validation_fraction: float = 0.1
    max_norm: float | None = None
    scale_labels: bool = True
    shrink: bool | None = None
    folds: int = 5
    clip: bool = True
    seed: int = 0
    threads: int | None = None

    @property
    def one_network(self) -> list[str]:
        """Names of the options that only a single network, as it was trained, can satisfy."""
        set_options = {
            "max_norm": self.max_norm is not None,
            "scale_labels": not self.scale_labels,
            "validation_fraction": self.validation_fraction == 0,
        }
        return [name for name, is_set in set_options.items() if is_set]

    def checked(self) -> NetworkOptions:
        """Return the same in plain Python values; refuse what makes no sense, by its name."""
        if isinstance(self.hidden, str) or not np.iterable(self.hidden):
            raise InputError(
                f"`hidden` must be a list of whole numbers, not {describe(self.hidden)}"
            )
        options = NetworkOptions(
            hidden=tuple(to_int("hidden", width) for width in self.hidden),
            epochs=to_int("epochs", self.epochs),
            learning_rate=to_float("learning_rate", self.learning_rate),
            final_rate=to_float("final_rate", self.final_rate),
            batch_rows=to_int("batch_rows", self.batch_rows),
            patience=to_int("patience", self.patience),
            validation_fraction=to_float("validation_fraction", self.validation_fraction),
            max_norm=_to_norm_bound(self.max_norm),
            scale_labels=to_bool("scale_labels", self.scale_labels),
            shrink=None if self.shrink is None else to_bool("shrink", self.shrink),
            folds=to_int("folds", self.folds),
            clip=to_bool("clip", self.clip),
            seed=to_int("seed", self.seed),
            threads=None if self.threads is None else to_int("threads", self.threads),
        )
        at_least(1, hidden=min(options.hidden, default=1))
        at_least(1, threads=1 if options.threads is None else options.threads)
        at_least(1, epochs=options.epochs, batch_rows=options.batch_rows, patience=options.patience)
        at_least(2, folds=options.folds)
        at_least(0, seed=options.seed)
        if options.seed >= 2**63:
            raise InputError(f"`seed` must be below 2**63, not {options.seed}")
        positive(learning_rate=options.learning_rate, final_rate=options.final_rate)
        share(validation_fraction=options.validation_fraction)
        if options.shrink and options.one_network:
            others = " and ".join(f"`{name}`" for name in options.one_network)
            raise InputError(f"`shrink=True` averages networks: leave {others} out")
        return options


# --- models ---


RELEASE_FIELDS = ("mechanism", "epsilon", "delta", "rows", "bags")
"""What a model records of a release."""
_NETWORK_FIELDS = (
    "input", "shift", "scale", "losses", "validation_losses", "best_epoch", "row_norm", "centre",
    "spread", "feature_names", "share", "label_range",
)  # fmt: skip


def _common_document(model: LinearModel | NetworkModel) -> Document:
    return {
        "format": model.FORMAT,
        "version": VERSION,
        "parameters": asdict(model.options),
        "features": None if model.features is None else model.features.to_json(),
    }


def _common_fields(document: Document) -> dict[str, Any]:
    """Return the fields that both kinds of models read alike."""
    described, names = document["features"], document["feature_names"]
    quality, label_range = document["quality"], document["label_range"]
    return {
        "features": None if described is None else FeatureMap.from_json(described),
        "feature_names": None if names is None else tuple(names),
        "label_range": None if label_range is None else to_range("label_range", label_range),
        "quality": None if quality is None else Quality(**quality),
    }


def _clip(predictions: Array, label_range: tuple[float, float] | None, options: Any) -> Array:
    """Return predictions within the public label range, if there is one and it is wanted."""
    if label_range is None or not options.clip:
        return predictions
    return np.asarray(np.clip(predictions, *label_range))


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(ReprMixin):
    """A fitted linear model; `LinearRegressor` explains the fields."""

    FORMAT: ClassVar[str] = "labeldp.linear-regressor"

    options: LinearOptions
    coef: Array
    intercept: float
    coefficients: tuple[Coefficient, ...]
    residual_ms: float
    dof: float
    multiplier: float
    features: FeatureMap | None
    feature_names: tuple[str, ...] | None
    rule: dict[str, Any]
    label_range: tuple[float, float] | None
    quality: Quality | None = None
    releases: tuple[dict[str, Any], ...] = ()
    effects: tuple[Effect, ...] = ()

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        rule = ", ".join(f"{name} {value}" for name, value in self.rule.items())
        facts = [("columns", f"{self.width:,}"), ("chosen by", rule or "least squares")]
        if self.label_range is not None and self.options.clip:
            low, high = self.label_range
            facts.append(("predictions", f"within {low:g} to {high:g}"))
        facts += [
            ("release", f"{each['mechanism']}, ε = {each['epsilon']}, δ = {each['delta']}")
            for each in self.releases
        ]
        return "Linear model", facts

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.coef)

    @property
    def takes_array(self) -> bool:
        """Whether it predicts the rows of an array, not raw rows."""
        return self.features is None

    def predict(self, rows: Any) -> Array:
        """Return predictions for raw rows or, without a feature map, for an array."""
        design = rows if self.features is None else self.features.design(rows)
        predictions = row_products(design, self.coef) + self.intercept
        return _clip(predictions, self.label_range, self.options)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one JSON file."""
        document = {
            "coef": self.coef.tolist(),
            "intercept": self.intercept,
            "coefficients": [asdict(coefficient) for coefficient in self.coefficients],
            "residual_ms": None if math.isnan(self.residual_ms) else self.residual_ms,
            "dof": self.dof,
            "multiplier": self.multiplier,
            "feature_names": self.feature_names,
            "rule": self.rule,
            "label_range": self.label_range,
            "quality": None if self.quality is None else asdict(self.quality),
            "releases": self.releases,
            "effects": [asdict(effect) for effect in self.effects],
        }
        write_document(path, _common_document(self) | document)

    @classmethod
    def from_document(cls, document: Document, _arrays: Arrays) -> LinearModel:
        """Return the model of a file; any damage is an exception."""
        parameters, residual_ms = document["parameters"], document["residual_ms"]
        columns = parameters["columns"]
        parameters = parameters | {"columns": None if columns is None else tuple(columns)}
        model = cls(
            options=LinearOptions(**parameters).checked(),
            coef=np.array(document["coef"], dtype=np.float64),
            intercept=to_float("intercept", document["intercept"]),
            coefficients=tuple(Coefficient(**entry) for entry in document["coefficients"]),
            residual_ms=math.nan if residual_ms is None else residual_ms,
            dof=document["dof"],
            multiplier=document["multiplier"],
            rule=document["rule"],
            releases=tuple(document["releases"]),
            effects=tuple(map(Effect.from_json, document["effects"])),
            **_common_fields(document),
        )
        names = model.feature_names
        if model.coef.ndim != 1 or (names is not None and len(model.coef) != len(names)):
            raise ValueError("coef and feature_names differ in length")
        if model.features is not None and model.features.names != names:
            raise ValueError("features and feature_names differ")
        return model


@dataclass(frozen=True, eq=False, repr=False)
class NetworkModel(ReprMixin):
    """A fitted network; `BagRegressor` explains the fields."""

    FORMAT: ClassVar[str] = "labeldp.bag-regressor"

    options: NetworkOptions
    layers: Layers
    features: FeatureMap | None
    input: str
    """How rows become inputs: "codes" or "design" of the feature map, or "columns" of an array."""
    shift: float
    scale: float
    losses: list[float]
    validation_losses: list[float]
    best_epoch: int
    row_norm: float | None
    centre: list[float] | None
    spread: list[float] | None
    feature_names: tuple[str, ...] | None
    share: float | None = None
    quality: Quality | None = None
    label_range: tuple[float, float] | None = None

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        widths = " × ".join(str(len(matrix)) for matrix in self.layers.matrices)
        facts = (
            ("columns", f"{self.width:,}"),
            ("layers", widths),
            ("epochs", f"{len(self.losses)}, the best was {self.best_epoch}"),
        )
        return "Network", facts

    @property
    def width(self) -> int:
        """Number of columns of an array, or of design columns of the feature map."""
        return self.layers.numbers if self.feature_names is None else len(self.feature_names)

    @property
    def takes_array(self) -> bool:
        """Whether it predicts the rows of an array, not raw rows."""
        return self.input == "columns"

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """No coefficients: a network is not linear."""
        return ()

    def predict(self, rows: Any) -> Array:
        """Return predictions for raw rows or, without a feature map, for an array."""
        predictions = self.shift + self.scale * self._outputs(rows)
        return _clip(predictions, self.label_range, self.options)

    def _outputs(self, rows: Any) -> Array:
        """Return g of the rows, before it is shifted and scaled to labels."""
        if self.takes_array:
            return self.layers.of_numbers((rows - np.array(self.centre)) / np.array(self.spread))
        if self.features is None:
            raise InputError("the bags had no feature map, so raw rows cannot be encoded")
        if self.input == "codes":
            batches = RowEncoder.of(self.features).batches(rows)
            return np.concatenate([np.empty(0), *(self.layers.values(*each) for each in batches)])
        design, constant = self.features.design(rows), self.features.constant
        if constant is not None:  # the network's own bias stands for it
            design = np.delete(design, constant, axis=1)
        return self.layers.of_numbers(design)

    def describe(self, bags: int) -> str:
        """Return a line or two for people about a fit on so many bags."""
        line = f"a network was fitted on {bags:,} bags in {len(self.losses)} epochs"
        if self.quality is None:
            return line
        if not self.share:
            return (
                f"{line}; labels held back show no gain over the constant, which is predicted\n"
                "a linear fit may find more"
            )
        return (
            f"{line}, {self.options.folds} times; {self.share:.0%} of their mean is predicted\n"
            f"mean squared error below the constant's by {self.quality.gain:.4g} ± "
            f"{self.quality.gain_error:.2g}, by labels held back"
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one NumPy .npz."""
        if self.input == "codes" and self.features is None:
            raise InputError("the bags had no feature map, so the model could not be used again")
        document = {
            "category_sizes": list(self.layers.sizes),
            "layers": len(self.layers.matrices),
            **{name: getattr(self, name) for name in _NETWORK_FIELDS},
            "quality": None if self.quality is None else asdict(self.quality),
        }
        matrices = {f"layer_{index}": matrix for index, matrix in enumerate(self.layers.matrices)}
        write_document(path, _common_document(self) | document, matrices)

    @classmethod
    def from_document(cls, document: Document, arrays: Arrays) -> NetworkModel:
        """Return the model of a file; any damage is an exception."""
        options = NetworkOptions(**document["parameters"]).checked()
        matrices = tuple(_read_matrix(arrays[f"layer_{k}"]) for k in range(document["layers"]))
        outputs = [matrix.shape[1] for matrix in matrices]
        inputs = [len(matrix) - 1 for matrix in matrices]
        # Averaged networks stand side by side, so every hidden layer is a multiple as wide.
        copies = 1 if document["share"] is None else outputs[0] / (*options.hidden, 1)[0]
        widths = [*(copies * width for width in options.hidden), 1]
        if outputs != widths or inputs[1:] != outputs[:-1]:
            raise ValueError("the layers do not fit together")
        layers = Layers(tuple(document["category_sizes"]), matrices)
        values = {name: document[name] for name in _NETWORK_FIELDS}
        positive(scale=values["scale"])
        finite(shift=values["shift"])
        model = cls(options=options, layers=layers, **values | _common_fields(document))
        model._check_inputs()
        return model

    def _check_inputs(self) -> None:
        """Raise ValueError if the rows it takes are not as wide as its first layer."""
        sizes: tuple[int, ...] = ()
        if self.input not in ("codes", "design", "columns"):
            raise ValueError("input is malformed")
        if (self.features is None) != self.takes_array:
            raise ValueError("features do not fit the input")
        if self.features is None:
            numbers = len(self.centre or ())
            if not numbers == len(self.spread or ()) == len(self.feature_names or [""] * numbers):
                raise ValueError("the columns differ in number")
        elif self.input == "design":
            numbers = len(self.features.names) - (self.features.constant is not None)
        else:
            encoder = RowEncoder.of(self.features)
            sizes, numbers = encoder.sizes, len(encoder.numbers)
        if sizes != self.layers.sizes or numbers != self.layers.numbers:
            raise ValueError("the layers do not fit the columns")


def _read_matrix(matrix: Any) -> Matrix:
    if matrix.dtype != np.float32 or matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ValueError("a layer is not a matrix of finite float32")
    return np.ascontiguousarray(matrix)


Model = LinearModel | NetworkModel


def load_model(path: str | PathLike[str], kind: type[Model] | None = None) -> Model:
    """Return the model in a file, of this kind or of any; what is out of place is an InputError."""
    document, arrays = read_document(path)
    if kind is None:
        network = document.get("format") == NetworkModel.FORMAT
        kind = NetworkModel if network else LinearModel
    check_header(document, kind.FORMAT, path)
    # The seal comes first: a file that was damaged is refused here, whatever the damage is. What
    # follows is for files that someone made and sealed, so that they fail now and in one line.
    if document.get("seal") != seal_of(document, arrays):
        raise InputError(f"{path} is an altered model file (its seal does not match); fit it again")
    try:
        return kind.from_document(document, arrays)
    except DAMAGE as error:
        reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path} is a damaged model file: {reason}") from error
