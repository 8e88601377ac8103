"""The JSON form of a FeatureMap: exact both ways, strict on the way in."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from labeldp.errors import DataError
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.files import (
    Check,
    is_count,
    is_flag,
    is_number,
    is_positive,
    is_text,
    is_whole,
    list_of,
    optional,
)

if TYPE_CHECKING:
    from labeldp.features.feature_map import FeatureMap

FORMAT = "labeldp-features/1"


def to_json(features: FeatureMap) -> dict[str, Any]:
    """Return plain values; floats survive because JSON text keeps 17 digits."""
    return {
        "format": FORMAT,
        "rows": features.rows,
        "intercept": features.intercept,
        "numeric": [asdict(column) for column in features.numeric],
        "categorical": [
            {**asdict(column), "levels": list(column.levels)} for column in features.categorical
        ],
        "notes": list(features.notes),
        "kept": None if features.kept is None else list(features.kept),
    }


def from_json(document: Any) -> dict[str, Any]:
    """Return the fields of a FeatureMap; refuse anything `to_json` would not write."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(f"features: not a {FORMAT} document; restore the original file")
    _shape(document, _DOCUMENT, "features")
    return {
        "rows": document["rows"],
        "intercept": document["intercept"],
        "numeric": tuple(_numeric(entry) for entry in document["numeric"]),
        "categorical": tuple(_categorical(entry) for entry in document["categorical"]),
        "notes": tuple(document["notes"]),
        "kept": None if document["kept"] is None else tuple(document["kept"]),
    }


def _numeric(entry: Any) -> NumericColumn:
    _shape(entry, _NUMERIC, "features: a numeric column")
    numbers = {name: float(entry[name]) for name in ("scale", "low", "high")}
    return NumericColumn(**{**entry, **numbers})


def _categorical(entry: Any) -> CategoricalColumn:
    _shape(entry, _CATEGORICAL, "features: a categorical column")
    return CategoricalColumn(**{**entry, "levels": tuple(entry["levels"])})


def _shape(entry: Any, checks: dict[str, Check], what: str) -> None:
    if not isinstance(entry, dict) or set(entry) != set(checks):
        raise DataError(f"{what} has missing or unknown fields; restore the original file")
    for name, check in checks.items():
        if not check(entry[name]):
            raise DataError(f"{what} has a malformed {name!r}; restore the original file")


def _levels(value: Any) -> bool:
    return list_of(is_text)(value) and value == sorted(set(value))


_DOCUMENT: dict[str, Check] = {
    "format": is_text,
    "rows": is_count,
    "intercept": is_flag,
    "numeric": list_of(lambda item: isinstance(item, dict)),
    "categorical": list_of(lambda item: isinstance(item, dict)),
    "notes": list_of(is_text),
    "kept": optional(list_of(is_count)),
}
_NUMERIC: dict[str, Check] = {
    "name": is_text,
    "exponent": lambda value: is_whole(value) and abs(value) <= 1000,
    "centre": is_whole,
    "fill": is_whole,
    "scale": is_positive,
    "low": is_number,
    "high": is_number,
    "missing": is_count,
    "indicator": is_flag,
}
_CATEGORICAL: dict[str, Check] = {
    "name": is_text,
    "levels": _levels,
    "missing": lambda value: value in ("own", "other", "none"),
    "other": is_flag,
}

assert set(_NUMERIC) == {field.name for field in fields(NumericColumn)}
assert set(_CATEGORICAL) == {field.name for field in fields(CategoricalColumn)}
