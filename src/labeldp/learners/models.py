"""What a learner has learnt: frozen values that predict raw rows and are saved as one file.

    LinearModel    coefficients, with intervals and standard errors, and what chose them
    NetworkModel   the matrices of a ReLU network, and how raw rows become its inputs
    load_model     reads either from its file

A file is a JSON document with exact floats. Where a model has arrays, it is a NumPy .npz that holds
the document's text as the bytes of `header`; it is not compressed, so it cannot unfold into more
than it is, and nothing is pickled. A seal (SHA-256 over all fields and arrays) makes an altered
model fail to load. Predicting imports neither scikit-learn nor SciPy nor torch.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import (
    InputError,
    at_least,
    describe_value,
    finite,
    in_range,
    positive,
    share,
    to_bool,
    to_float,
    to_int,
    to_path,
    to_range,
    to_str_tuple,
)
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import json_digest, new_path, parse_json, path_problem
from labeldp.learners.layers import Layers, RowEncoder, row_products, without_constant

Array = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
Penalty = float | Literal["auto"]

VERSION = 1
MAX_RISK = 0.05
"""Largest probability of being worse than a constant at which predictions count as useful."""
_DAMAGE = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError,
    MemoryError, RuntimeError, zipfile.BadZipFile,
)  # fmt: skip
"""Whatever reading a damaged file may raise."""


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
    values: tuple[Any, ...]
    """Numbers, or levels of a category as they are shown."""
    predictions: tuple[float, ...]
    privacy_errors: tuple[float, ...] | None = None
    total_errors: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Quality:
    """How good predictions for the rows of the release are, before they are clipped.

    It is estimated from the release alone. Every `…_error` is a standard deviation.
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
        """Whether the release shows it: by the posterior, else by a gain beyond two deviations."""
        if self.worse is not None:
            return self.worse < MAX_RISK
        return self.gain > 2 * self.gain_error

    @property
    def usefulness_warning(self) -> str | None:
        """Why predictions may not beat a constant, and what would help; None if they do."""
        if self.beats_the_constant:
            return None
        evidence = f"the gain is {self.gain:.4g} ± {self.gain_error:.2g} in mean square"
        if self.worse is not None:
            evidence = f"with probability {self.worse:.2g} they are worse"
        return (
            f"The release does not show that predictions beat the mean of the labels: {evidence}. "
            "Publish with a larger budget, more rows or fewer columns."
        )


# --- options ---


@dataclass
class LinearOptions:
    """The parameters of `LinearRegressor`, which explains them."""

    penalty: Penalty = 0.0
    lasso: Penalty = 0.0
    max_norm: float | None = None
    columns: tuple[str, ...] | None = None
    fit_intercept: bool = True
    confidence: float = 0.95
    shrink: bool | None = None
    clip: bool = True

    def checked_options(self) -> LinearOptions:
        """Return the options as plain values, which JSON can hold; refuse what makes no sense."""
        in_range(0, 1, confidence=self.confidence)
        options = LinearOptions(
            penalty=_to_penalty("penalty", self.penalty),
            lasso=_to_penalty("lasso", self.lasso),
            max_norm=_to_max_norm(self.max_norm),
            columns=None if self.columns is None else to_str_tuple("columns", self.columns),
            fit_intercept=to_bool("fit_intercept", self.fit_intercept),
            confidence=float(self.confidence),
            shrink=None if self.shrink is None else to_bool("shrink", self.shrink),
            clip=to_bool("clip", self.clip),
        )
        limits = (options.penalty != 0) + (options.lasso != 0) + (options.max_norm is not None)
        if options.shrink and limits:
            raise InputError(
                "`shrink=True` chooses its own penalty; leave `penalty`, `lasso` and `max_norm` out"
            )
        if limits > 1:
            raise InputError("set one of `penalty`, `lasso` and `max_norm`, not both")
        return options


@dataclass
class NetworkOptions:
    """The parameters of `BagRegressor` that training reads, which explains them."""

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

    def checked_options(self) -> NetworkOptions:
        """Return the options as plain values, which JSON can hold; refuse what makes no sense."""
        if isinstance(self.hidden, str) or not np.iterable(self.hidden):
            raise InputError(
                f"`hidden` must be a list of whole numbers, not {describe_value(self.hidden)}"
            )
        positive(learning_rate=self.learning_rate, final_rate=self.final_rate)
        share(validation_fraction=self.validation_fraction)
        options = NetworkOptions(
            hidden=tuple(_to_count("hidden", width) for width in self.hidden),
            epochs=_to_count("epochs", self.epochs),
            learning_rate=float(self.learning_rate),
            final_rate=float(self.final_rate),
            batch_rows=_to_count("batch_rows", self.batch_rows),
            patience=_to_count("patience", self.patience),
            validation_fraction=float(self.validation_fraction),
            max_norm=_to_max_norm(self.max_norm),
            scale_labels=to_bool("scale_labels", self.scale_labels),
            shrink=None if self.shrink is None else to_bool("shrink", self.shrink),
            folds=_to_count("folds", self.folds, least=2),
            clip=to_bool("clip", self.clip),
            seed=_to_count("seed", self.seed, least=0),
            threads=None if self.threads is None else _to_count("threads", self.threads),
        )
        if options.seed >= 2**63:
            raise InputError(f"`seed` must be below 2**63, not {options.seed}")
        if options.shrink and options.wants_one_network:
            raise InputError(
                "`shrink=True` averages networks: leave `max_norm`, `scale_labels=False` and "
                "`validation_fraction=0` out"
            )
        return options

    @property
    def wants_one_network(self) -> bool:
        """Whether an option is set that only a single network, as it was trained, can satisfy."""
        return self.max_norm is not None or not self.scale_labels or self.validation_fraction == 0


def _to_penalty(name: str, value: Any) -> Penalty:
    if value == "auto":
        return "auto"
    if isinstance(value, str):
        raise InputError(f"`{name}` must be a number or 'auto', not {describe_value(value)}")
    at_least(0, **{name: value})
    return float(value)


def _to_max_norm(value: float | None) -> float | None:
    if value is None:
        return None
    positive(max_norm=value)
    return float(value)


def _to_count(name: str, value: Any, least: int = 1) -> int:
    count = to_int(name, value)
    at_least(least, **{name: count})
    return count


# --- models ---


@dataclass(frozen=True, eq=False)
class LinearModel:
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

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.coef)

    def predict(self, rows: Any) -> Array:
        """Return predictions for raw rows or, without a feature map, for an array."""
        design = rows if self.features is None else self.features.design(rows)
        return _clip(row_products(design, self.coef) + self.intercept, self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one JSON file."""
        residual_ms = None if math.isnan(self.residual_ms) else self.residual_ms
        _write(path, self, {"coef": self.coef.tolist(), "residual_ms": residual_ms}, {})

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> LinearModel:
        """Return the model of a file; any damage is an exception."""
        values = _common_values(cls, document)
        if values["residual_ms"] is None:
            values["residual_ms"] = math.nan
        effects = []
        for entry in values["effects"]:
            lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
            if len(set(map(len, lists.values()))) != 1:
                raise ValueError("an effect has lists of different lengths")
            effects.append(Effect(**entry | lists))
        values |= {
            "options": LinearOptions(**document["parameters"]).checked_options(),
            "coef": np.array(values["coef"], dtype=np.float64),
            "intercept": to_float("intercept", values["intercept"]),
            "coefficients": tuple(Coefficient(**entry) for entry in values["coefficients"]),
            "releases": tuple(values["releases"]),
            "effects": tuple(effects),
        }
        model = cls(**values)
        names = model.feature_names
        if model.coef.ndim != 1 or (names is not None and len(model.coef) != len(names)):
            raise ValueError("coef and feature_names differ in length")
        if model.features is not None and model.features.names != names:
            raise ValueError("features and feature_names differ")
        return model


@dataclass(frozen=True, eq=False)
class NetworkModel:
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

    @property
    def width(self) -> int:
        """Number of columns of an array, or of design columns of the feature map."""
        return self.layers.numbers if self.feature_names is None else len(self.feature_names)

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """No coefficients: a network is not linear."""
        return ()

    def predict(self, rows: Any) -> Array:
        """Return predictions for raw rows or, without a feature map, for an array."""
        if self.input == "columns":
            inputs = (rows - np.array(self.centre)) / np.array(self.spread)
            outputs = self.layers.of_numbers(inputs)
        elif self.features is None:
            raise InputError("the bags had no feature map, so raw rows cannot be encoded")
        elif self.input == "design":
            design = without_constant(self.features.design(rows), self.features)
            outputs = self.layers.of_numbers(design)
        else:
            encoder, parts = RowEncoder(self.features), [np.empty(0)]
            for batch in self.features.batches(rows):
                parts.append(self.layers.values(*encoder.rows(self.features.encode(batch))))
            outputs = np.concatenate(parts)
        return _clip(self.shift + self.scale * outputs, self)

    def describe(self, bags: int) -> str:
        """Return a line or two for people about a fit on so many bags."""
        line = f"a network was fitted on {bags:,} bags in {len(self.losses)} epochs"
        if self.quality is None:
            return line
        if not self.share:
            return f"{line}; labels held back show no gain over the constant, which is predicted"
        return (
            f"{line}, {self.options.folds} times; {self.share:.0%} of their mean is predicted\n"
            f"mean squared error below the constant's by {self.quality.gain:.4g} ± "
            f"{self.quality.gain_error:.2g}, by labels held back"
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one NumPy .npz."""
        if self.input == "codes" and self.features is None:
            raise InputError("the bags had no feature map, so the model could not be used again")
        matrices = {f"layer_{index}": matrix for index, matrix in enumerate(self.layers.matrices)}
        layers = {"category_sizes": list(self.layers.sizes), "layers": len(matrices)}
        _write(path, self, layers, matrices)

    @classmethod
    def from_document(cls, document: dict[str, Any], arrays: Arrays) -> NetworkModel:
        """Return the model of a file; any damage is an exception."""
        values = _common_values(cls, document)
        matrices = tuple(arrays[f"layer_{index}"] for index in range(values["layers"]))
        values["options"] = NetworkOptions(**document["parameters"]).checked_options()
        values["layers"] = Layers(tuple(document["category_sizes"]), matrices)
        positive(scale=values["scale"])
        finite(shift=values["shift"])
        model = cls(**values)
        features, sizes = model.features, tuple[int, ...]()
        if model.input == "columns" and features is None:
            numbers = len(model.centre or ())
            names = (None,) * numbers if model.feature_names is None else model.feature_names
            if not numbers == len(model.spread or ()) == len(names):
                raise ValueError("the columns differ in number")
        elif model.input == "design" and features is not None:
            numbers = len(features.names) - (features.constant is not None)
        elif model.input == "codes" and features is not None:
            encoder = RowEncoder(features)
            sizes, numbers = encoder.sizes, len(encoder.numbers)
        else:
            raise ValueError("input and features do not go together")
        widths = [sum(sizes) + numbers, *(matrix.shape[1] for matrix in matrices)]
        shapes = [(before + 1, after) for before, after in pairwise(widths)]
        fit_together = [each.shape for each in matrices] == shapes and widths[-1] == 1
        if not fit_together or sizes != model.layers.sizes:
            raise ValueError("the layers do not fit together, or not the columns")
        if not all(each.dtype == np.float32 and np.isfinite(each).all() for each in matrices):
            raise ValueError("a layer is not a matrix of finite float32")
        return model


Model = LinearModel | NetworkModel


def _clip(predictions: Array, model: Model) -> Array:
    """Return predictions within the public label range, if there is one and it is wanted."""
    if model.label_range is None or not model.options.clip:
        return predictions
    return np.asarray(np.clip(predictions, *model.label_range))


# --- files ---


def _common_values(kind: type[Model], document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a model but its options, those converted that both kinds have."""
    values = {each.name: document[each.name] for each in fields(kind) if each.name != "options"}
    conversions: dict[str, Callable[[Any], Any]] = {
        "features": FeatureMap.from_json,
        "feature_names": tuple,
        "label_range": lambda ends: to_range("label_range", ends),
        "quality": lambda entry: Quality(**entry),
    }
    for name, convert in conversions.items():
        if values[name] is not None:
            values[name] = convert(values[name])
    return values


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
    place = to_path("path", path)
    reason = path_problem(place)
    try:
        text = b"" if reason else place.read_bytes()
    except OSError as error:
        reason = f"{error.strerror}; name one that a fitted model was written to"
    if reason:
        raise InputError(f"cannot read a model from {path}: {reason}")
    formats = [each.FORMAT for each in (LinearModel, NetworkModel) if kind in (None, each)]
    try:
        document, arrays = _parse(text)
        if document["format"] not in formats:
            raise ValueError("another format")
    except _DAMAGE as error:
        raise InputError(
            f"{path} is not a model file ({' or '.join(formats)}), or a damaged one; name one "
            "that a fitted model was written to"
        ) from error
    if document.get("version") != VERSION:
        raise InputError(
            f"{path} is a model file of a version other than {VERSION}; update labeldp"
        )
    # The seal comes first: a file that was damaged is refused here, whatever the damage is. What
    # follows is for files that someone made and sealed, so that they fail now and in one line.
    if document.get("seal") != seal_of(document, arrays):
        raise InputError(f"{path} is an altered model file (its seal does not match); fit it again")
    try:
        if document["format"] == LinearModel.FORMAT:
            return LinearModel.from_document(document)
        return NetworkModel.from_document(document, arrays)
    except _DAMAGE as error:
        reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path} is a damaged model file: {reason}") from error


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
