"""`LinearModel`: what a linear regression has learnt, its file, and how it predicts.

How it is learnt stands in `linear_fit`, which predicting does not import.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from labeldp.common.arguments import plain_fields
from labeldp.display import ReprMixin
from labeldp.errors import InputError, at_least, in_range, positive
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import is_count, is_flag, is_number, is_text, list_of, optional
from labeldp.learners.effects import Effect
from labeldp.learners.layers import row_products
from labeldp.learners.protocol import (
    Array,
    Arrays,
    Coefficient,
    Document,
    Learner,
    checked,
    is_range,
    write,
)
from labeldp.learners.quality import Quality

if TYPE_CHECKING:
    from labeldp.common.pictures import Picture
    from labeldp.data.source import Source
    from labeldp.learners.summary import Summary
    from labeldp.passes.protocol import Progress
    from labeldp.release.files import Release

Penalty = float | Literal["auto"]


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
    def penalised(self) -> bool:
        """Whether a penalty or a bound is asked for."""
        return self.penalty != 0 or self.lasso != 0 or self.max_norm is not None

    def checked(self) -> LinearOptions:
        """The same in plain values; refuse what cannot be meant, naming it."""
        options = LinearOptions(**plain_fields(LinearOptions, vars(self)))
        in_range(0, 1, confidence=options.confidence)
        for name in ("penalty", "lasso"):
            if getattr(options, name) != "auto":
                at_least(0, **{name: getattr(options, name)})
        if options.max_norm is not None:
            positive(max_norm=options.max_norm)
        options._check_together()
        return options

    def _check_together(self) -> None:
        if (self.penalty != 0) + (self.lasso != 0) + (self.max_norm is not None) > 1:
            raise InputError(
                "set one of `penalty`, `lasso` and `max_norm`, not both: each is the other's price"
            )
        if self.shrink and self.penalised:
            raise InputError(
                "`shrink=True` chooses its own penalty; leave `penalty`, `lasso` and `max_norm` out"
            )


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(ReprMixin):
    """All of a fitted linear model; what the fields are stands at `LinearRegressor`."""

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
        told = ", ".join(f"{name} {value}" for name, value in self.rule.items())
        facts = [("columns", f"{self.width:,}"), ("chosen by", told or "least squares")]
        if self.label_range is not None:
            low, high = self.label_range
            facts.append(("predictions", f"within {low:g} to {high:g}" * self.options.clip))
        facts += [
            ("release", f"{each['mechanism']}, ε = {each['epsilon']}, δ = {each['delta']}")
            for each in self.releases
        ]
        return ("Linear model", tuple((name, value) for name, value in facts if value))

    @property
    def width(self) -> int:
        return len(self.coef)

    @property
    def takes_array(self) -> bool:
        return self.features is None

    def predict(self, rows: Any) -> Array:
        """Predictions for raw rows or, without a feature map, for an array."""
        design = rows if self.features is None else self.features.design(rows)
        predictions = row_products(design, self.coef) + self.intercept
        if self.label_range is None or not self.options.clip:
            return predictions
        return np.asarray(np.clip(predictions, *self.label_range))

    def summary(self, bags: int) -> str:
        """One line for people."""
        return f"a linear model was fitted on {bags:,} aggregates"

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
            "quality": None if self.quality is None else self.quality.to_json(),
            "releases": self.releases,
            "effects": [asdict(effect) for effect in self.effects],
        }
        write(path, LEARNER, self, document)


def _fit(
    release: Release | Sequence[Release],
    source: Source | None,
    options: LinearOptions,
    progress: Progress | None = None,  # noqa: ARG001  a solution takes no steps to count
) -> LinearModel:
    from labeldp.learners.linear_fit import fit_release

    return fit_release(release, source, options)


def _summarise(model: LinearModel) -> Summary:
    from labeldp.learners.summary import Summary

    return Summary.of(model)


def _pictures(model: LinearModel) -> list[Picture]:
    from labeldp.learners.pictures import pictures

    return pictures(model)


def _is_penalty(value: Any) -> bool:
    return value == "auto" or is_number(value)


def _is_rule(value: Any) -> bool:
    return isinstance(value, dict) and all(is_text(v) or is_number(v) for v in value.values())


_OPTIONS = {
    "penalty": _is_penalty,
    "lasso": _is_penalty,
    "max_norm": optional(is_number),
    "columns": optional(list_of(is_text)),
    "fit_intercept": is_flag,
    "confidence": is_number,
    "shrink": optional(is_flag),
    "clip": is_flag,
}
_COEFFICIENT = {
    "name": is_text,
    "value": is_number,
    "low": optional(is_number),
    "high": optional(is_number),
    "privacy_error": optional(is_number),
    "sampling_error": optional(is_number),
    "total_error": optional(is_number),
}
RELEASE = {
    "mechanism": optional(is_text),
    "epsilon": optional(is_number),
    "delta": optional(is_number),
    "rows": optional(is_count),
    "bags": optional(is_count),
}
"""What a model tells of a release."""
_FIELDS = {
    "coef": list_of(is_number),
    "intercept": is_number,
    "coefficients": lambda value: isinstance(value, list),
    "residual_ms": optional(is_number),
    "dof": is_number,
    "multiplier": is_number,
    "feature_names": optional(list_of(is_text)),
    "rule": _is_rule,
    "label_range": optional(is_range),
    "quality": optional(lambda value: isinstance(value, dict)),
    "releases": list_of(lambda value: isinstance(value, dict)),
    "effects": list_of(lambda value: isinstance(value, dict)),
}


def _read(document: Document, features: FeatureMap | None, _arrays: Arrays) -> LinearModel:
    asked = checked(document["parameters"], _OPTIONS)
    names = None if asked["columns"] is None else tuple(asked["columns"])
    options = LinearOptions(**asked | {"columns": names})
    values = checked(document, _FIELDS)
    coef, names = np.array(values["coef"], dtype=np.float64), values["feature_names"]
    if names is not None and len(coef) != len(names):
        raise ValueError("coef and feature_names differ in length")
    if features is not None and features.names != tuple(names or ()):
        raise ValueError("features and feature_names differ")
    entries = (checked(entry, _COEFFICIENT) for entry in values["coefficients"])
    bounds, found = values["label_range"], values["quality"]
    learnt = {
        "coef": coef,
        "coefficients": tuple(Coefficient(**entry) for entry in entries),
        "residual_ms": math.nan if values["residual_ms"] is None else values["residual_ms"],
        "feature_names": None if names is None else tuple(names),
        "label_range": None if bounds is None else (float(bounds[0]), float(bounds[1])),
        "quality": None if found is None else Quality.from_json(found),
        "releases": tuple(checked(release, RELEASE) for release in values["releases"]),
        "effects": tuple(map(Effect.from_json, values["effects"])),
    }
    return LinearModel(options=options, features=features, **values | learnt)


LEARNER = Learner(
    name="linear",
    format="labeldp.linear-regressor",
    options=LinearOptions,
    fit=_fit,
    read=_read,
    takes_several=True,
    summarise=_summarise,
    pictures=_pictures,
)
