"""A fitted network as one file: a NumPy .npz of a JSON header and matrices; no pickle.

`header` holds the JSON text as bytes, `layer_0`, `layer_1`, … the matrices as float32. The file is
written whole or not at all, and stored without compression, so it cannot unfold into more than it
is. `numpy.load(path, allow_pickle=False)` opens it anywhere.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from labeldp.errors import InputError
from labeldp.learners.layers import Layers, Matrix

FORMAT = "labeldp.bag-regressor"
VERSION = 1

_DAMAGE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    EOFError,
    MemoryError,
    RuntimeError,  # of which RecursionError and NotImplementedError, by zipfile
    zipfile.BadZipFile,
)


@dataclass(frozen=True, eq=False)
class Model:
    """All of a fitted network: what `fit` learns, `save` writes and `load` reads."""

    layers: Layers
    features: Any
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
    feature_names: list[str] | None

    @property
    def width(self) -> int:
        """Columns of an array, or design columns of the feature map."""
        return self.layers.numbers if self.feature_names is None else len(self.feature_names)


def write(path: str | PathLike[str], model: Model, parameters: dict[str, Any]) -> None:
    """Write to `path` by way of a new file beside it and a rename."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "parameters": parameters,
        "category_sizes": list(model.layers.sizes),
        "layers": len(model.layers.matrices),
        "features": None if model.features is None else model.features.to_json(),
        **{name: getattr(model, name) for name in _FIELDS},
    }
    try:
        text = json.dumps(header, allow_nan=False)  # floats are written by repr: exact
    except ValueError as error:
        raise InputError("the model holds a number that is not finite; fit it again") from error
    arrays: dict[str, Any] = {"header": np.frombuffer(text.encode(), dtype=np.uint8)}
    arrays |= {f"layer_{index}": matrix for index, matrix in enumerate(model.layers.matrices)}
    target = Path(path)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        raise InputError(f"cannot write the model to {target}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # it is there only if the rename was not reached
            beside.unlink()


def read(path: str | PathLike[str]) -> tuple[Model, dict[str, Any]]:
    """The model in a file and the parameters it was fitted with; else an InputError."""
    try:
        with open(path, "rb") as file:
            arrays = _arrays(file, path)
    except OSError as error:
        raise InputError(f"cannot read a model from {path}: {error.strerror}") from error
    header = _header(arrays, path)
    try:
        return _model(header, arrays), dict(header["parameters"])
    except _DAMAGE as error:
        raise InputError(f"{path} is a damaged model file: {_where(error)}") from error


def _arrays(file: Any, path: str | PathLike[str]) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("it is compressed")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except _DAMAGE as error:
        raise InputError(f"{path} is not a model file, or a damaged one") from error


def _header(arrays: dict[str, Any], path: str | PathLike[str]) -> dict[str, Any]:
    try:
        header = json.loads(arrays["header"].tobytes(), parse_constant=_no_constant)
        known = header["format"] == FORMAT
    except _DAMAGE as error:
        raise InputError(f"{path} is not a model file: it has no header") from error
    if not known:
        raise InputError(f'{path} is not a model file: "format" is not "{FORMAT}"')
    if header.get("version") != VERSION:
        raise InputError(
            f"{path} is a model file of a version other than {VERSION}; update labeldp"
        )
    return dict(header)


def _model(header: dict[str, Any], arrays: dict[str, Any]) -> Model:
    for name, check in _FIELDS.items():
        if not check(header[name]):
            raise ValueError(f"{name} is malformed")
    matrices = tuple(_matrix(arrays[f"layer_{index}"]) for index in range(header["layers"]))
    sizes = tuple(header["category_sizes"])
    outputs = [matrix.shape[1] for matrix in matrices]
    inputs = [len(matrix) - 1 for matrix in matrices]
    if outputs != [*header["parameters"]["hidden"], 1] or inputs[1:] != outputs[:-1]:
        raise ValueError("the layers do not fit together")
    model = Model(
        layers=Layers(sizes, matrices),
        features=_features(header["features"]),
        **{name: header[name] for name in _FIELDS},
    )
    _check_inputs(model)
    return model


def _matrix(matrix: Any) -> Matrix:
    if matrix.dtype != np.float32 or matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ValueError("a layer is not a matrix of finite float32")
    return np.ascontiguousarray(matrix)


def _check_inputs(model: Model) -> None:
    """The rows that the model takes must be as wide as its first layer."""
    from labeldp.learners.inputs import Inputs
    from labeldp.learners.linear import constant_column

    sizes: tuple[int, ...] = ()
    if model.input == "columns":
        numbers = len(model.centre or ())
        fits = numbers == len(model.spread or ()) and model.features is None
        fits = fits and len(model.feature_names or [""] * numbers) == numbers
    elif model.input == "design":
        numbers = len(model.features.names) - (constant_column(model.features) is not None)
        fits = True
    else:
        inputs = Inputs.of(model.features)
        sizes, numbers, fits = inputs.sizes, len(inputs.numbers), True
    if not fits or sizes != model.layers.sizes or numbers != model.layers.numbers:
        raise ValueError("the layers do not fit the columns")


def _features(document: Any) -> Any:
    if document is None:
        return None
    from labeldp.features import FeatureMap  # late: a model of plain rows needs no feature map

    return FeatureMap.from_json(document)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _positive(value: Any) -> bool:
    return _number(value) and value > 0


def _list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def _optional(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "input": lambda value: value in ("codes", "design", "columns"),
    "shift": _number,
    "scale": _positive,
    "losses": _list_of(_number),
    "validation_losses": _list_of(_number),
    "best_epoch": lambda value: type(value) is int and value >= 0,
    "row_norm": _optional(_number),
    "centre": _optional(_list_of(_number)),
    "spread": _optional(_list_of(_positive)),
    "feature_names": _optional(_list_of(lambda item: isinstance(item, str))),
}


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _where(error: BaseException) -> str:
    return f"no field {error}" if isinstance(error, KeyError) else str(error)
