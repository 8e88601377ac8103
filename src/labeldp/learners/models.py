"""What a learner has learnt: frozen values that predict raw rows and are saved as one file.

    LinearModel             coefficients, with intervals and standard errors, and what chose them
    GeneralizedLinearModel  the same, for probabilities of two classes or for counts
    NetworkModel            the matrices of a ReLU network, and how raw rows become its inputs
    load_model              reads any of them from its file

A file is a JSON document with exact floats. Where a model has arrays, it is a NumPy .npz that holds
the document's text as the bytes of `header`; it is not compressed, so it cannot unfold into more
than it is, and nothing is pickled. A seal (SHA-256 over all fields and arrays) makes an altered
model fail to load. Predicting imports neither scikit-learn nor SciPy nor torch.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import (
    InputError,
    at_least,
    describe_value,
    in_range,
    positive,
    to_bool,
    to_float,
    to_int,
    to_path,
    to_range,
    to_str_tuple,
)
from labeldp.features.encoder import UnseenValues
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import json_digest, new_path, parse_json, read_bytes
from labeldp.mechanisms.options import checked, option

Array = NDArray[np.float64]
Matrix = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]
OptionsT = TypeVar("OptionsT", "LinearOptions", "GeneralizedOptions", "NetworkOptions")

VERSION = 1
NETWORKS = 5
"""So many are averaged, each trained without its part of the labels."""
MAX_R2_ERROR = 0.1
"""Standard deviation above which R² tells little."""
MAX_RISK = 0.05
"""Largest probability of being worse than a constant at which predictions count as useful."""
_CHUNK = 4096
"""Rows of a network that are computed at once: their activations stay small."""


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
    """Standard deviation of both together."""


@dataclass(frozen=True)
class Effect:
    """Predictions along one column, and their standard errors where they are known."""

    column: str
    values: list[Any]
    """Numbers, or levels of a category as they are shown."""
    predictions: list[float]
    privacy_errors: list[float] | None = None
    total_errors: list[float] | None = None


@dataclass(frozen=True)
class Quality:
    """How good predictions for the rows of the release are, before they are clipped.

    It is estimated from the release alone. Every `…_error` is a standard deviation.
    """

    gain: float
    """Mean squared error of the best constant less that of the predictions, in label units."""
    gain_error: float
    r2: float | None = None
    """`gain` over the variance of labels; None where that is not published, or hidden by noise."""
    r2_error: float | None = None
    all_labels_r2: float | None = None
    """R² of the least-squares fit with all labels."""
    residual_std: float | None = None
    """Root of the residual mean square of that fit, for the degrees of freedom that it has."""
    residual_std_error: float | None = None
    worse: float | None = None
    """The probability that the constant is better, where predictions are the posterior mean."""

    @property
    def beats_the_constant(self) -> bool:
        """Whether the release shows it: by the posterior, else by a gain beyond two deviations."""
        if self.worse is not None:
            return self.worse < MAX_RISK
        return self.gain > 2 * self.gain_error

    @property
    def in_words(self) -> str:
        """R², or the gain where R² says little, as one sentence."""
        if not self.beats_the_constant:
            return "not shown: predictions may be no better than the label's mean"
        if self.r2 is not None and self.r2_error is not None and self.r2_warning is None:
            share = "the share of the label's variance that predictions explain"
            digits = 2 if self.r2_error >= 0.005 else 4
            return f"R² = {self.r2:.{digits}f} ± {self.r2_error:.{digits}f} ({share})"
        less = f"{self.gain:.4g} ± {self.gain_error:.2g}"
        return f"the mean squared error of predictions is {less} less than that of the label's mean"

    @property
    def r2_warning(self) -> str | None:
        """Why R² says little, and what would help; None if it is known well enough."""
        if self.r2_error is None or self.r2_error <= MAX_R2_ERROR:
            return None
        return (
            f"R² is known to ±{self.r2_error:.2f} only, which leaves open how much the features "
            "explain. Publish with a larger budget, more rows or a narrower label range."
        )

    @property
    def usefulness_warning(self) -> str | None:
        """Why predictions may not beat a constant, and what would help; None if they do."""
        if self.beats_the_constant:
            return None
        evidence = f"they lower the mean squared error by {self.gain:.4g} ± {self.gain_error:.2g}"
        if self.worse is not None:
            evidence = f"with probability {self.worse:.2g} they are worse"
        return (
            f"The release does not show that predictions beat the mean of the labels: {evidence}. "
            "Publish with a larger budget, more rows or fewer columns."
        )


@dataclass(frozen=True)
class PredictionErrors:
    """What a prediction x'β̂ misses of a new label, before it is clipped (theory §10).

    Its variance is x'(V + σ²(XᵀX)⁻¹)x + σ²: privacy, by the covariance V of the coefficients given
    the release, the sampling of rows, and the residual.
    """

    root: str
    """The upper triangle of F with FᵀF = V + σ²(XᵀX)⁻¹: base64 of numbers of four bytes."""
    residual_variance: float
    """σ²."""

    @classmethod
    def of(cls, factor: Array, residual_variance: float) -> PredictionErrors:
        """Return the errors of an upper triangular F."""
        upper = factor[np.triu_indices(len(factor))].astype("<f4")
        return cls(base64.b64encode(upper.tobytes()).decode(), residual_variance)

    def std(self, design: Array) -> Array:
        """Return the standard deviation of what predictions of these rows miss."""
        factor = np.zeros((design.shape[1],) * 2)
        factor[np.triu_indices(len(factor))] = np.frombuffer(base64.b64decode(self.root), "<f4")
        squares = np.sum((design @ factor.T) ** 2, axis=1)
        return np.asarray(np.sqrt(squares + self.residual_variance))


# --- options ---


_count = checked(to_int, partial(at_least, 1))
_positive = checked(to_float, positive)
_penalty = checked(to_float, partial(at_least, 0))


def _layer_widths(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, str) or not np.iterable(value):
        raise InputError(f"`{name}` must be a list of whole numbers, not {describe_value(value)}")
    return tuple(_count(name, width) for width in value)


def plain_options(options: Any, kind: type[OptionsT]) -> OptionsT:
    """Return options as plain values, which JSON can hold; refuse what makes no sense."""
    values = {each.name: getattr(options, each.name) for each in fields(kind)}
    for each in fields(kind):
        if values[each.name] is not None or each.default is not None:
            values[each.name] = each.metadata["converter"](each.name, values[each.name])
    return kind(**values)


@dataclass
class LinearOptions:
    """The parameters of `LinearRegressor`, which explains them."""

    penalty: float = option(_penalty, 0.0)
    lasso: float = option(_penalty, 0.0)
    max_norm: float | None = option(_positive)
    columns: tuple[str, ...] | None = option(to_str_tuple)
    fit_intercept: bool = option(to_bool, True)
    confidence: float = option(checked(to_float, partial(in_range, 0, 1)), 0.95)
    shrink: bool | None = option(to_bool)
    clip: bool = option(to_bool, True)

    def checked_options(self) -> LinearOptions:
        """Return the options as plain values; refuse what makes no sense."""
        options = plain_options(self, LinearOptions)
        rules = {
            "penalty": options.penalty != 0,
            "lasso": options.lasso != 0,
            "max_norm": options.max_norm is not None,
            "shrink=True": options.shrink is True,
        }
        chosen = [f"`{name}`" for name, is_set in rules.items() if is_set]
        if len(chosen) > 1:
            raise InputError(f"{' and '.join(chosen)} exclude each other; set one of them")
        return options


@dataclass
class GeneralizedOptions:
    """The parameters of `LogisticRegression` and `PoissonRegressor`, which explain them."""

    columns: tuple[str, ...] | None = option(to_str_tuple)
    confidence: float = option(checked(to_float, partial(in_range, 0, 1)), 0.95)
    shrink: bool = option(to_bool, True)

    def checked_options(self) -> GeneralizedOptions:
        """Return the options as plain values; refuse what makes no sense."""
        return plain_options(self, GeneralizedOptions)


@dataclass
class NetworkOptions:
    """The parameters of `BagRegressor` that training reads, which explains them."""

    hidden: tuple[int, ...] = option(_layer_widths, (128, 64))
    epochs: int = option(_count, 200)
    learning_rate: float = option(_positive, 1e-3)
    patience: int = option(_count, 3)
    shrink: bool | None = option(to_bool)
    clip: bool = option(to_bool, True)
    seed: int = option(checked(to_int, partial(at_least, 0)), 0)

    def checked_options(self) -> NetworkOptions:
        """Return the options as plain values; refuse what makes no sense."""
        options = plain_options(self, NetworkOptions)
        if options.seed >= 2**63:
            raise InputError(f"`seed` must be below 2**63, not {options.seed}")
        return options


# --- models ---


@dataclass(frozen=True)
class Family:
    """A law of labels whose mean is a function of Xβ, with the canonical link."""

    mean: Callable[[Array], Array]
    """A': from Xβ to the mean."""
    link: Callable[[float], float]
    """From a mean to Xβ."""
    variance: Callable[[Array], Array]
    """A'': of a label, from its mean."""


_MOST_LOG = 100.0
"""Counts above exp of this are not told apart."""
FAMILIES = {
    "logistic": Family(
        lambda linear: 0.5 + 0.5 * np.tanh(0.5 * linear),
        lambda mean: math.log(mean / (1 - mean)),
        lambda mean: mean * (1 - mean),
    ),
    "poisson": Family(
        lambda linear: np.exp(np.minimum(linear, _MOST_LOG)), math.log, lambda mean: mean
    ),
}


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A fitted linear model; `LinearRegressor` explains the fields."""

    FORMAT: ClassVar[str] = "labeldp.linear-regressor"
    OPTIONS: ClassVar[type[Any]] = LinearOptions

    options: LinearOptions | GeneralizedOptions
    coef: Array
    intercept: float
    coefficients: tuple[Coefficient, ...]
    multiplier: float
    rule: dict[str, Any]
    features: FeatureMap | None = None
    feature_names: tuple[str, ...] | None = None
    label_range: tuple[float, float] | None = None
    quality: Quality | None = None
    releases: tuple[dict[str, Any], ...] = ()
    effects: tuple[Effect, ...] = ()
    prediction_errors: PredictionErrors | None = None
    """None where the release does not tell, and in files of earlier versions."""

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.coef)

    def predict(self, rows: Any, unseen: UnseenValues | None = None) -> Array:
        """Return predictions for raw rows or, without a feature map, for an array."""
        design = rows if self.features is None else self.features.design(rows, unseen)
        return self.response(design @ self.coef + self.intercept)

    def linear_and_std(self, rows: Any, unseen: UnseenValues) -> Array:
        """Return two columns for raw rows: unclipped predictions, and their standard deviations."""
        assert self.features is not None
        assert self.prediction_errors is not None
        design = self.features.design(rows, unseen)
        linear = design @ self.coef + self.intercept
        return np.column_stack([linear, self.prediction_errors.std(design)])

    @property
    def clips(self) -> bool:
        """Whether predictions are clipped to the label range."""
        return isinstance(self.options, LinearOptions) and self.options.clip

    def response(self, linear: Array) -> Array:
        """Return predictions from design @ coef + intercept."""
        return _clip(linear, self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one JSON file."""
        _write(path, self, {"coef": self.coef.tolist()}, {})

    @classmethod
    def from_document(cls, document: dict[str, Any], _arrays: Arrays) -> Self:
        """Return the model of a file; any damage is an exception."""
        values = _common_values(cls, {"prediction_errors": None, **document}, cls.OPTIONS)
        errors = values["prediction_errors"]
        values |= {
            "coef": np.array(values["coef"], dtype=np.float64),
            "intercept": to_float("intercept", values["intercept"]),
            "coefficients": tuple(Coefficient(**entry) for entry in values["coefficients"]),
            "releases": tuple(values["releases"]),
            "effects": tuple(Effect(**entry) for entry in values["effects"]),
            "prediction_errors": errors and PredictionErrors(**errors),
        }
        return cls(**values)


@dataclass(frozen=True, eq=False)
class GeneralizedLinearModel(LinearModel):
    """A fitted logistic or Poisson model.

    The mean label is a function of design @ coef + intercept; `effects` are on the scale of that.
    """

    FORMAT: ClassVar[str] = "labeldp.generalized-linear-model"
    OPTIONS: ClassVar[type[Any]] = GeneralizedOptions

    family: str = "logistic"
    """One of `FAMILIES`."""
    classes: NDArray[Any] | None = None
    """Of a logistic model: the label that counts as 0, and the one that counts as 1."""

    @property
    def clips(self) -> bool:
        """Whether predictions are clipped to the label range: counts are."""
        return self.classes is None

    def response(self, linear: Array) -> Array:
        """Return probabilities of the second class, or expected counts in the label range."""
        return _clip(FAMILIES[self.family].mean(linear), self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one JSON file."""
        classes = None if self.classes is None else self.classes.tolist()
        _write(path, self, {"coef": self.coef.tolist(), "classes": classes}, {})

    @classmethod
    def from_document(cls, document: dict[str, Any], arrays: Arrays) -> Self:
        """Return the model of a file; any damage is an exception."""
        model = super().from_document(document, arrays)
        if model.family not in FAMILIES:
            raise ValueError(f"its family is {describe_value(model.family)}; update labeldp")
        return replace(model, classes=None if model.classes is None else np.array(model.classes))


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A fitted network; `BagRegressor` explains the fields."""

    FORMAT: ClassVar[str] = "labeldp.bag-regressor"

    options: NetworkOptions
    layers: tuple[Matrix, ...]
    features: FeatureMap | None
    shift: float
    scale: float
    losses: list[float]
    validation_losses: list[float]
    best_epoch: int
    feature_names: tuple[str, ...] | None
    centre: list[float] | None = None
    spread: list[float] | None = None
    share: float | None = None
    quality: Quality | None = None
    label_range: tuple[float, float] | None = None

    @property
    def width(self) -> int:
        """Number of columns of an array, or of design columns of the feature map."""
        return len(self.centre or self.feature_names or ())

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """No coefficients: a network is not linear."""
        return ()

    @property
    def clips(self) -> bool:
        """Whether predictions are clipped to the label range."""
        return self.options.clip

    def predict(self, rows: Any, unseen: UnseenValues | None = None) -> Array:
        """Return predictions for raw rows or, without a feature map, for an array."""
        if self.features is None:
            inputs = (rows - np.array(self.centre)) / np.array(self.spread)
        else:
            inputs = self.features.design(rows, unseen)[:, input_columns(self.features)]
        return _clip(self.shift + self.scale * network_outputs(self.layers, inputs), self)

    def describe(self, bags: int) -> str:
        """Return a line or two for people about a fit on so many bags."""
        line = f"a network was fitted on {bags:,} bags in {len(self.losses)} epochs"
        if self.quality is None:
            return line
        if not self.share:
            return f"{line}; labels held back show no gain over the constant, which is predicted"
        return (
            f"{line}, {NETWORKS} times; {self.share:.0%} of their mean is predicted\n"
            f"mean squared error below the constant's by {self.quality.gain:.4g} ± "
            f"{self.quality.gain_error:.2g}, by labels held back"
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one NumPy .npz."""
        matrices = {f"layer_{index}": matrix for index, matrix in enumerate(self.layers)}
        _write(path, self, {"layers": len(matrices)}, matrices)

    @classmethod
    def from_document(cls, document: dict[str, Any], arrays: Arrays) -> NetworkModel:
        """Return the model of a file; any damage is an exception."""
        values = _common_values(cls, document, NetworkOptions)
        features = values["features"]
        first, *others = (arrays[f"layer_{index}"] for index in range(values["layers"]))
        if document.get("input") == "design":  # of a version whose inputs stood as in the design
            order = input_columns(features) - (features.constant is not None)
            first = np.vstack([first[order], first[-1:]])
        return cls(**values | {"layers": (first, *others)})


Model = LinearModel | GeneralizedLinearModel | NetworkModel


def _clip(predictions: Array, model: Model) -> Array:
    """Return predictions within the public label range, if there is one and it is wanted."""
    if model.label_range is None or not model.clips:
        return predictions
    return np.asarray(np.clip(predictions, *model.label_range))


def input_columns(features: FeatureMap) -> NDArray[np.intp]:
    """Return the places of a network's inputs in the design: levels of categories, then numbers.

    The constant is left out: it is the network's own bias.
    """
    numbers = features.number_columns
    places = features.kept_places[[*range(numbers.stop, features.width), *numbers]]
    return np.asarray(places[places >= 0])


def network_outputs(matrices: tuple[Matrix, ...], inputs: Array) -> Array:
    """Return the network's output for every row. Each matrix has the bias as its last row."""
    layers = [matrix.astype(np.float64) for matrix in matrices]
    result = np.empty(len(inputs))
    for start in range(0, len(inputs), _CHUNK):
        hidden = inputs[start : start + _CHUNK]
        for place, matrix in enumerate(layers):
            hidden = (np.maximum(hidden, 0.0) if place else hidden) @ matrix[:-1] + matrix[-1]
        result[start : start + _CHUNK] = hidden[:, 0]
    return result


# --- files ---


def _common_values(
    kind: type[Model], document: dict[str, Any], options: type[OptionsT]
) -> dict[str, Any]:
    """Return the fields of a model, those converted that both kinds have.

    Files of earlier versions have fields and parameters beside these, which are left out.
    """
    values = {each.name: document[each.name] for each in fields(kind) if each.name != "options"}
    parameters, names, ends = (
        document[name] for name in ("parameters", "feature_names", "label_range")
    )
    known = _known_fields(options, parameters)
    # Earlier versions could choose the penalty: it stands beside the rule.
    known |= {name: document["rule"]["penalty"] for name, value in known.items() if value == "auto"}
    return values | {
        "options": options(**known).checked_options(),
        "features": values["features"] and FeatureMap.from_json(values["features"]),
        "feature_names": names and tuple(names),
        "label_range": ends and to_range("label_range", ends),
        "quality": values["quality"] and Quality(**_known_fields(Quality, values["quality"])),
    }


def _known_fields(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    return {each.name: values[each.name] for each in fields(kind) if each.name in values}


def seal_of(document: dict[str, Any], arrays: Arrays) -> str:
    """Return a checksum of all fields but the seal, and of all arrays."""
    body = {name: value for name, value in document.items() if name != "seal"}
    numbers = {
        name: [str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
        for name, array in arrays.items()
    }
    return json_digest([body, numbers])


def _write(
    path: str | PathLike[str], model: Model, changes: dict[str, Any], arrays: Arrays
) -> None:
    """Seal the fields of a model, with these changes, and write a new file, whole or not at all."""
    values = asdict(replace(model, features=None))
    document = {
        "format": model.FORMAT,
        "version": VERSION,
        "parameters": values.pop("options"),
        **values,
        "features": None if model.features is None else model.features.to_json(),
        **changes,
    }
    try:  # floats are written by repr: exact
        document["seal"] = seal_of(document, arrays)
        text = json.dumps(document, allow_nan=False, indent=None if arrays else 1).encode()
    except ValueError as error:
        raise InputError("the model holds a number that is not finite; fit it again") from error
    with new_path(to_path("path", path)) as partial, open(partial, "wb") as file:
        if arrays:
            header = np.frombuffer(text, dtype=np.uint8)
            np.savez(file, allow_pickle=False, **{"header": header, **arrays})
        else:
            file.write(text + b"\n")


def load_model(path: str | PathLike[str], kind: type[Model] | None = None) -> Model:
    """Return the model in a file, of this kind or of any; what is out of place is an InputError."""
    content = read_bytes(to_path("path", path), math.inf)
    known = (LinearModel, GeneralizedLinearModel, NetworkModel)
    kinds = {each.FORMAT: each for each in known if kind in (None, each)}
    try:
        document, arrays = _parse(content)
        if document["format"] not in kinds:
            raise ValueError(f"its format is {describe_value(document['format'])}")
        of_format = kinds[document["format"]]
        if document["version"] != VERSION:
            raise ValueError("its version is another; update labeldp")
        # A file that was damaged is refused here, whatever the damage is.
        if document["seal"] != seal_of(document, arrays):
            raise ValueError("it is an altered model file: its seal does not match")
        return of_format.from_document(document, arrays)
    except Exception as error:  # whatever reading a damaged file may raise
        reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"{path} is not a model file ({' or '.join(kinds)}), or a damaged one: {reason}; name "
            "one that a fitted model was written to"
        ) from error


def _parse(content: bytes) -> tuple[dict[str, Any], Arrays]:
    """Return the document and the arrays of a file; their fields are not checked yet."""
    arrays: Arrays = {}
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("it is compressed")
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = dict(stored)
        content = arrays.pop("header").tobytes()
    return dict(parse_json(content.decode())), arrays
