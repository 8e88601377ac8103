"""A plan as a JSON document, sealed, and back."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from labeldp.errors import InputError
from labeldp.exact.label_sums import LabelGrid
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.forecast import Forecast
from labeldp.mechanisms.registry import mechanism_named, read_claim
from labeldp.release.certificate import seal

if TYPE_CHECKING:
    from labeldp.mechanisms.plans import Plan

FORMAT = "labeldp-plan/2"


def document_of(plan: Plan) -> dict[str, Any]:
    """All that a plan says; an infinite forecast is null."""
    return seal(
        {
            "format": FORMAT,
            **plan.claim.to_json(),
            "curve": plan.claim.curve(),
            "forecast": {
                name: None if value == math.inf else value
                for name, value in asdict(plan.forecast).items()
            },
            "labels": asdict(plan.labels),
            "features": plan.features.to_json(),
            "feature_sums": plan.feature_sums,
            "table": dict(plan.table),
            "notes": list(plan.notes),
            "warnings": list(plan.warnings),
            **({"anyway": True} if plan.anyway else {}),
            **({"bases": list(plan.bases)} if plan.bases else {}),
            **{name: part.to_json() for name, part in plan.parts.items()},
        }
    )


def fields_of(document: dict[str, Any]) -> dict[str, Any]:
    """The fields of the plan that a document tells of; one that was altered since is refused."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"this is not a plan of format {FORMAT}; make one with labeldp plan")
    if seal(document)["seal"] != document.get("seal"):
        raise InputError("the plan was altered since it was made; make a new one")
    try:
        return _fields(document)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError):
        raise InputError(
            "the plan lacks a part, or has one of another kind; make a new one"
        ) from None


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    parts = mechanism_named(document["mechanism"]).parts
    forecast: dict[str, Any] = {
        name: math.inf if value is None else value for name, value in document["forecast"].items()
    }
    return {
        "claim": read_claim(document),
        "features": FeatureMap.from_json(document["features"]),
        "labels": LabelGrid(**document["labels"]),
        "feature_sums": document["feature_sums"],
        "forecast": Forecast(**forecast),
        "notes": tuple(document["notes"]),
        "parts": {name: read(document[name]) for name, read in parts.items() if name in document},
        "anyway": bool(document.get("anyway", False)),
        "bases": tuple(document.get("bases", ())),
        "table": dict(document.get("table", {})),
    }
