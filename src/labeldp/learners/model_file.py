"""A fitted linear model as one JSON file: no pickle, floats exact, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from labeldp.errors import InputError
from labeldp.learners.least_squares import Array

FORMAT = "labeldp.linear-regressor"
VERSION = 1


class _Fitted(Protocol):
    """The attributes of a fitted learner that are written."""

    penalty: float
    max_norm: float | None
    fit_intercept: bool
    confidence: float
    coef_: Array
    intercept_: float
    coefficients_: Any
    residual_ms_: float
    dof_: float
    multiplier_: float
    features_: Any


@dataclass(frozen=True, eq=False)
class Model:
    """A model file, read and checked."""

    parameters: dict[str, Any]
    coef: Array
    intercept: float
    coefficients: list[tuple[str, float, float | None, float | None]]
    residual_ms: float
    dof: float
    multiplier: float
    features: Any
    feature_names: list[str] | None


def document_of(learner: _Fitted) -> dict[str, Any]:
    """The JSON document of a fitted learner."""
    names = getattr(learner, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "version": VERSION,
        "parameters": {
            "penalty": float(learner.penalty),
            "max_norm": None if learner.max_norm is None else float(learner.max_norm),
            "fit_intercept": bool(learner.fit_intercept),
            "confidence": float(learner.confidence),
        },
        "coef": [float(value) for value in learner.coef_],
        "intercept": float(learner.intercept_),
        "coefficients": [
            {"name": c.name, "value": c.value, "low": c.low, "high": c.high}
            for c in learner.coefficients_
        ],
        "residual_ms": None if math.isnan(learner.residual_ms_) else float(learner.residual_ms_),
        "dof": float(learner.dof_),
        "multiplier": float(learner.multiplier_),
        "feature_names": None if names is None else [str(name) for name in names],
        "features": None if learner.features_ is None else learner.features_.to_json(),
    }


def write(path: str | PathLike[str], document: dict[str, Any]) -> None:
    """Write `document` to `path` by way of a new file beside it and a rename."""
    try:
        text = json.dumps(document, allow_nan=False, indent=1)  # floats are written by repr: exact
    except ValueError as error:
        raise InputError("the model holds a number that is not finite; fit it again") from error
    target = Path(path)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(beside, "x", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        raise InputError(f"cannot write the model to {target}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # it is there only if the rename was not reached
            beside.unlink()


def read(path: str | PathLike[str]) -> Any:
    """The JSON value in the file at `path`."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_constant)
    except OSError as error:
        raise InputError(f"cannot read a model from {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a model file: it is not JSON") from error


def parse(document: Any, path: str | PathLike[str]) -> Model:
    """Check a document and take it apart; anything out of place is an InputError."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f'{path} is not a model file: "format" is not "{FORMAT}"')
    if document.get("version") != VERSION:
        raise InputError(
            f"{path} is a model file of a version other than {VERSION}; update labeldp"
        )
    try:
        return _model(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path} is a damaged model file: {_where(error)}") from error


def _model(document: dict[str, Any]) -> Model:
    coef = np.array([_number(value) for value in _list(document["coef"])], dtype=np.float64)
    residual_ms = _optional(document["residual_ms"])
    names = document["feature_names"]
    features = _features(document["features"])
    if names is not None:
        names = [_text(name) for name in _list(names)]
    if len(coef) != len(coef if names is None else names):
        raise ValueError("coef and feature_names differ in length")
    if features is not None and tuple(features.names) != tuple(names or ()):
        raise ValueError("features and feature_names differ")
    return Model(
        parameters=_parameters(document["parameters"]),
        coef=coef,
        intercept=_number(document["intercept"]),
        coefficients=[
            (_text(c["name"]), _number(c["value"]), _optional(c["low"]), _optional(c["high"]))
            for c in _list(document["coefficients"])
        ],
        residual_ms=math.nan if residual_ms is None else residual_ms,
        dof=_number(document["dof"]),
        multiplier=_number(document["multiplier"]),
        features=features,
        feature_names=names,
    )


def _parameters(document: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(document["fit_intercept"], bool):
        raise TypeError("fit_intercept is not true or false")
    return {
        "penalty": _number(document["penalty"]),
        "max_norm": _optional(document["max_norm"]),
        "fit_intercept": document["fit_intercept"],
        "confidence": _number(document["confidence"]),
    }


def _features(document: Any) -> Any:
    if document is None:
        return None
    from labeldp.features import FeatureMap  # late: a model of plain rows needs no feature map

    return FeatureMap.from_json(document)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("a list is missing")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is not text")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number is missing")
    if not math.isfinite(value):
        raise ValueError("a number is out of range")
    return float(value)


def _optional(value: Any) -> float | None:
    return None if value is None else _number(value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _where(error: Exception) -> str:
    return f"no field {error}" if isinstance(error, KeyError) else str(error)
