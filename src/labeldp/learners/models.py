"""What a learner has learnt: frozen values that predict raw rows and are saved as one file.

    LinearModel    coefficients, with intervals and standard errors, and what chose them
    NetworkModel   the matrices of a ReLU network, and how raw rows become its inputs
    load_model     reads either from its file

A file is a JSON document with exact floats. Where a model has arrays, it is a NumPy .npz that holds
the document's text as the bytes of `header`; it is not compressed, so it cannot unfold into more
than it is, and nothing is pickled. A seal (SHA-256 over all fields and arrays) makes an altered
model fail to load instead of predicting something else.

Predicting imports neither scikit-learn nor SciPy nor torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from labeldp.display import ReprMixin, format_budget
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
    to_path,
    to_range,
    to_str_tuple,
)
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import json_digest, new_path, parse_json, path_problem
from labeldp.learners.layers import Layers, RowEncoder, row_products, without_constant

Array = NDArray[np.float64]
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

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Effect:
        """Return the effect that `asdict` was taken of."""
        lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
        if len(set(map(len, lists.values()))) != 1:
            raise ValueError("an effect has lists of different lengths")
        return cls(**entry | lists)


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


def _set(options: LinearOptions | NetworkOptions, **values: Any) -> None:
    """Replace fields of frozen options by plain Python values, which JSON can hold."""
    for name, value in values.items():
        object.__setattr__(options, name, value)


def _check_flags(options: LinearOptions | NetworkOptions, *names: str) -> None:
    """Take fields for truth values; `shrink` may also be None."""
    for name in names:
        value = getattr(options, name)
        if name != "shrink" or value is not None:
            _set(options, **{name: to_bool(name, value)})


@dataclass(frozen=True)
class LinearOptions:
    """The parameters of `LinearRegressor`; see there. What makes no sense is refused."""

    penalty: Penalty = 0.0
    lasso: Penalty = 0.0
    max_norm: float | None = None
    columns: tuple[str, ...] | None = None
    fit_intercept: bool = True
    confidence: float = 0.95
    shrink: bool | None = None
    clip: bool = True

    def __post_init__(self) -> None:
        for name in ("penalty", "lasso"):
            value = getattr(self, name)
            if not isinstance(value, str):
                at_least(0, **{name: value})
                _set(self, **{name: float(value)})
            elif value != "auto":
                raise InputError(f"`{name}` must be a number or 'auto', not {describe(value)}")
        if self.max_norm is not None:
            positive(max_norm=self.max_norm)
            _set(self, max_norm=float(self.max_norm))
        if self.columns is not None:
            _set(self, columns=to_str_tuple("columns", self.columns))
        in_range(0, 1, confidence=self.confidence)
        _set(self, confidence=float(self.confidence))
        _check_flags(self, "fit_intercept", "shrink", "clip")
        if (self.penalty != 0) + (self.lasso != 0) + (self.max_norm is not None) > 1:
            raise InputError("set one of `penalty`, `lasso` and `max_norm`, not both")
        if self.shrink and self.is_penalised:
            raise InputError(
                "`shrink=True` chooses its own penalty; leave `penalty`, `lasso` and `max_norm` out"
            )

    @property
    def is_penalised(self) -> bool:
        """Whether a penalty or a bound is set."""
        return self.penalty != 0 or self.lasso != 0 or self.max_norm is not None


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

    def __post_init__(self) -> None:
        if isinstance(self.hidden, str) or not np.iterable(self.hidden):
            raise InputError(
                f"`hidden` must be a list of whole numbers, not {describe(self.hidden)}"
            )
        _set(self, hidden=tuple(to_int("hidden", width) for width in self.hidden))
        at_least(1, hidden=min(self.hidden, default=1))
        least = {"epochs": 1, "batch_rows": 1, "patience": 1, "folds": 2, "seed": 0, "threads": 1}
        for name, low in least.items():
            if getattr(self, name) is not None or name != "threads":
                _set(self, **{name: to_int(name, getattr(self, name))})
                at_least(low, **{name: getattr(self, name)})
        if self.seed >= 2**63:
            raise InputError(f"`seed` must be below 2**63, not {self.seed}")
        for name in ("learning_rate", "final_rate", "max_norm"):
            if getattr(self, name) is not None or name != "max_norm":
                positive(**{name: getattr(self, name)})
                _set(self, **{name: float(getattr(self, name))})
        share(validation_fraction=self.validation_fraction)
        _set(self, validation_fraction=float(self.validation_fraction))
        _check_flags(self, "scale_labels", "shrink", "clip")
        if self.shrink and self.wants_one_network:
            raise InputError(
                "`shrink=True` averages networks: leave `max_norm`, `scale_labels=False` and "
                "`validation_fraction=0` out"
            )

    @property
    def wants_one_network(self) -> bool:
        """Whether an option is set that only a single network, as it was trained, can satisfy."""
        return self.max_norm is not None or not self.scale_labels or self.validation_fraction == 0


# --- models ---


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
        releases = [
            ("release", f"{each['mechanism']}, {format_budget(each['epsilon'], each['delta'])}")
            for each in self.releases
        ]
        facts = [("columns", f"{self.width:,}"), ("chosen by", rule or "least squares")]
        return "Linear model", facts + releases

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
        return _clip(row_products(design, self.coef) + self.intercept, self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one JSON file."""
        residual_ms = None if math.isnan(self.residual_ms) else self.residual_ms
        _write(path, _document(self) | {"coef": self.coef.tolist(), "residual_ms": residual_ms})

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> LinearModel:
        """Return the model of a file; any damage is an exception."""
        values = _field_values(cls, document)
        residual_ms = values["residual_ms"]
        values |= {
            "options": LinearOptions(**document["parameters"]),
            "coef": np.array(values["coef"], dtype=np.float64),
            "intercept": to_float("intercept", values["intercept"]),
            "coefficients": tuple(Coefficient(**entry) for entry in values["coefficients"]),
            "residual_ms": math.nan if residual_ms is None else residual_ms,
            "releases": tuple(values["releases"]),
            "effects": tuple(map(Effect.from_json, values["effects"])),
        }
        model = cls(**values)
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
        layers = " × ".join(str(len(matrix)) for matrix in self.layers.matrices)
        epochs = f"{len(self.losses)}, the best was {self.best_epoch}"
        return "Network", (("columns", f"{self.width:,}"), ("layers", layers), ("epochs", epochs))

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
        if self.takes_array:
            inputs = (rows - np.array(self.centre)) / np.array(self.spread)
            outputs = self.layers.of_numbers(inputs)
        elif self.features is None:
            raise InputError("the bags had no feature map, so raw rows cannot be encoded")
        elif self.input == "codes":
            encoder, parts = RowEncoder.of(self.features), [np.empty(0)]
            for batch in self.features.batches(rows):
                parts.append(self.layers.values(*encoder.rows(self.features.encode(batch))))
            outputs = np.concatenate(parts)
        else:
            outputs = self.layers.of_numbers(
                without_constant(self.features.design(rows), self.features)
            )
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
        _write(path, _document(self) | layers, matrices)

    @classmethod
    def from_document(
        cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> NetworkModel:
        """Return the model of a file; any damage is an exception."""
        values = _field_values(cls, document)
        matrices = tuple(arrays[f"layer_{index}"] for index in range(values["layers"]))
        values["options"] = NetworkOptions(**document["parameters"])
        values["layers"] = Layers(tuple(document["category_sizes"]), matrices)
        positive(scale=values["scale"])
        finite(shift=values["shift"])
        model = cls(**values)
        model._check_layers()
        return model

    def _check_layers(self) -> None:
        """Raise ValueError if the layers do not fit each other or the rows."""
        for matrix in self.layers.matrices:
            if matrix.dtype != np.float32 or matrix.ndim != 2 or not np.isfinite(matrix).all():
                raise ValueError("a layer is not a matrix of finite float32")
        outputs = [matrix.shape[1] for matrix in self.layers.matrices]
        inputs = [len(matrix) - 1 for matrix in self.layers.matrices]
        if [*inputs[1:], 1] != outputs:
            raise ValueError("the layers do not fit together")
        if self.input not in ("codes", "design", "columns"):
            raise ValueError("input is malformed")
        if (self.features is None) != self.takes_array:
            raise ValueError("features do not fit the input")
        sizes: tuple[int, ...] = ()
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


Model = LinearModel | NetworkModel


def _clip(predictions: Array, model: Model) -> Array:
    """Return predictions within the public label range, if there is one and it is wanted."""
    if model.label_range is None or not model.options.clip:
        return predictions
    return np.asarray(np.clip(predictions, *model.label_range))


# --- files ---


def _document(model: Model) -> dict[str, Any]:
    """Return the fields of a model as a document, nested values as plain ones."""
    values = asdict(replace(model, features=None))
    return {
        "format": model.FORMAT,
        "version": VERSION,
        "parameters": values.pop("options"),
        **values,
        "features": None if model.features is None else model.features.to_json(),
    }


def _field_values(kind: type[Model], document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a model but its options, those converted that both kinds have."""
    values = {each.name: document[each.name] for each in fields(kind) if each.name != "options"}
    described, names = values["features"], values["feature_names"]
    quality, label_range = values["quality"], values["label_range"]
    return values | {
        "features": None if described is None else FeatureMap.from_json(described),
        "feature_names": None if names is None else tuple(names),
        "label_range": None if label_range is None else to_range("label_range", label_range),
        "quality": None if quality is None else Quality(**quality),
    }


def seal_of(document: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    """Return a checksum of all fields but the seal, and of all arrays."""
    body = {name: value for name, value in document.items() if name != "seal"}
    numbers = {
        name: [str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
        for name, array in arrays.items()
    }
    return json_digest([body, numbers])


def _write(
    path: str | PathLike[str],
    document: dict[str, Any],
    arrays: dict[str, NDArray[Any]] | None = None,
) -> None:
    """Seal a document and write it as a new file, whole or not at all."""
    try:  # floats are written by repr: exact
        sealed = {**document, "seal": seal_of(document, arrays or {})}
        text = json.dumps(sealed, allow_nan=False, indent=None if arrays else 1).encode()
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
    document, arrays = _read(path)
    formats = [each.FORMAT for each in (LinearModel, NetworkModel) if kind in (None, each)]
    if document.get("format") not in formats:
        expected = " or ".join(f'"{each}"' for each in formats)
        raise InputError(
            f'{path} is not a model file: "format" is not {expected}; name one that a fitted '
            "model was written to"
        )
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


def _read(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the document and the arrays of a file; their fields are not checked yet."""
    reason = path_problem(to_path("path", path))
    try:
        text = b"" if reason else to_path("path", path).read_bytes()
    except OSError as error:
        reason = f"{error.strerror}; name one that a fitted model was written to"
    if reason:
        raise InputError(f"cannot read a model from {path}: {reason}")
    arrays: dict[str, NDArray[Any]] = {}
    try:
        if text.startswith(b"PK"):
            with zipfile.ZipFile(path) as archive:
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                    raise ValueError("it is compressed")
            with np.load(path, allow_pickle=False) as stored:
                arrays = dict(stored)
            text = arrays.pop("header").tobytes()
        document = parse_json(text.decode())
    except _DAMAGE as error:
        raise InputError(
            f"{path} is not a model file, or a damaged one; name one that a fitted model was "
            "written to"
        ) from error
    return document if isinstance(document, dict) else {}, arrays
