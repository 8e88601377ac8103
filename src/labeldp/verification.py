"""Recheck a release from its public files alone.

Everything that follows from the claim is computed again with numpy and scipy and compared:
texts and counts to the letter, numbers to a relative 1e-6, and δ at the claimed ε must not
exceed the claimed δ. Digests tie the certificate to the aggregates and the feature map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from labeldp import door
from labeldp._files import json_digest, read_json
from labeldp.accounting import FloorMode
from labeldp.certificate import Claim, claimed_fields, schema, seal
from labeldp.errors import InputError, ReleaseError
from labeldp.release import (
    AGGREGATES,
    CERTIFICATE,
    FEATURES,
    METADATA_KEY,
    Release,
    table_digest,
)

_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Verification:
    """The answer: valid when nothing disagreed."""

    problems: tuple[str, ...]
    summary: str = ""

    @property
    def valid(self) -> bool:
        return not self.problems


def verify(directory: str | Path) -> Verification:
    """Check a release directory; a missing directory is an error, anything else a problem."""
    folder = Path(directory)
    if not folder.is_dir():
        raise ReleaseError(f"{folder} is not a release directory")
    try:
        release = Release.load(folder)
    except InputError as problem:
        return Verification((str(problem),))
    certificate = release.certificate
    malformed = list(conform(certificate, schema(), "certificate"))
    if malformed:
        return Verification(tuple(malformed))
    problems = [
        *_files(folder),
        *_seals(folder, certificate),
        *_contents(release),
        *_claim(certificate),
        *_floor(certificate),
    ]
    return Verification(tuple(problems), _summary(certificate))


def _summary(certificate: dict[str, Any]) -> str:
    text = (
        f"{certificate['bags']:,} aggregates of {certificate['rows']:,} rows, "
        f"label-DP with ε = {certificate['epsilon']:g}, δ = {certificate['delta']:g} "
        f"({certificate['accountant']['name']} accountant, floor {certificate['floor']['mode']})"
    )
    warning = certificate["randomness"]["warning"]
    return f"{text}; {warning}" if warning else text


def _files(folder: Path) -> Iterator[str]:
    known = {AGGREGATES, CERTIFICATE, FEATURES}
    for path in sorted(folder.iterdir()):
        if path.name not in known and not path.name.startswith("."):
            yield f"{path.name} is not part of the release: the certificate says nothing of it"


def _seals(folder: Path, certificate: dict[str, Any]) -> Iterator[str]:
    if seal(certificate)["seal"] != certificate["seal"]:
        yield "certificate: a field was altered (its seal does not match)"
    embedded = (pq.read_schema(folder / AGGREGATES).metadata or {}).get(METADATA_KEY)
    if embedded is None or embedded.decode(errors="replace") + "\n" != (
        folder / CERTIFICATE
    ).read_text(encoding="utf-8"):
        yield f"{AGGREGATES} carries a certificate that is not {CERTIFICATE}"
    if json_digest(read_json(folder / FEATURES)) != certificate["digests"]["features"]:
        yield f"{FEATURES} was altered (its digest does not match)"


def _contents(release: Release) -> Iterator[str]:
    certificate = release.certificate
    if table_digest(release.table) != certificate["digests"]["aggregates"]:
        yield f"{AGGREGATES} was altered (its digest does not match)"
    if release.bags != certificate["bags"]:
        yield f"{AGGREGATES} has {release.bags} rows, the certificate says {certificate['bags']}"
    if len(release.features.names) != certificate["rank"]:
        yield f"{FEATURES} has {len(release.features.names)} columns, not {certificate['rank']}"
    if release.features.rows != certificate["rows"]:
        yield f"{FEATURES} was fitted on {release.features.rows} rows, not {certificate['rows']}"
    if not (np.isfinite(release.design).all() and np.isfinite(release.labels).all()):
        yield f"{AGGREGATES} has values that are not numbers"
    step = math.ldexp(1.0, certificate["numerics"]["grid_exponent"])
    cells = release.labels / step
    if (cells != np.rint(cells)).any():
        yield f"{AGGREGATES} has labels off the public grid: their low bits may leak"


def _claim(certificate: dict[str, Any]) -> Iterator[str]:
    """Everything that follows from the claim, computed again."""
    try:
        claim = Claim.from_json(certificate)
        expected = claimed_fields(claim)
    except (InputError, KeyError, TypeError, ValueError) as problem:
        yield f"certificate: the claim makes no sense: {problem}"
        return
    shown = {name: certificate.get(name) for name in expected}
    outcome = ("measured", "lower_bound", "added_variance")
    shown["floor"] = {k: v for k, v in certificate["floor"].items() if k not in outcome}
    yield from _differences(shown, expected, "certificate")
    if not claim.delta_at(claim.epsilon) <= claim.delta:
        yield (
            f"certificate: δ at ε = {claim.epsilon:g} is {claim.delta_at(claim.epsilon):.3g}, "
            f"more than the claimed {claim.delta:g}"
        )
    grid = door.grid_for(math.sqrt(claim.floor))
    if certificate["numerics"]["grid_exponent"] != grid:
        yield f"certificate: the grid exponent should be {grid}"
    if certificate["randomness"]["private"] is not True:
        yield "certificate: drawn from a seed for an experiment, so it is not private"


def _floor(certificate: dict[str, Any]) -> Iterator[str]:
    """The floor the run established is the floor the claim needs."""
    claim, floor = Claim.from_json(certificate), certificate["floor"]
    measured, shown, added = floor["measured"], floor["lower_bound"], floor["added_variance"]
    if claim.mode.measures != (claim.measurement is not None and measured is not None):
        yield f"certificate: a {claim.mode.value} floor and its measurement do not go together"
        return
    if claim.measurement is not None:
        half_step = math.ldexp(0.5, door.grid_for(claim.measurement.noise(claim.facts.width)))
        bound = claim.measurement.lower_bound(measured, half_step, claim.facts.width)
        if not _close(shown, bound):
            yield f"certificate: floor.lower_bound should be {bound:.9g}"
        covered = bound**2 + added
    else:
        covered = added if claim.mode is FloorMode.ADDED else claim.floor
    if covered < claim.floor * (1 - 1e-9):
        yield "certificate: the floor that was shown and added is below the one needed"


def _differences(shown: Any, expected: Any, path: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(shown, dict):
        for name, value in expected.items():
            yield from _differences(shown.get(name), value, f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(shown, list) and len(expected) == len(shown):
        for place, (left, right) in enumerate(zip(shown, expected)):
            yield from _differences(left, right, f"{path}[{place}]")
    elif not _close(shown, expected):
        yield f"{path} is {shown!r}, recomputed {expected!r}"


def _close(shown: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(shown, int | float):
        return math.isclose(shown, expected, rel_tol=_TOLERANCE, abs_tol=1e-300)
    return type(shown) is type(expected) and bool(shown == expected)


def conform(value: Any, rule: dict[str, Any], path: str) -> Iterator[str]:
    """Where `value` breaks a JSON schema (the part of the language our schema uses)."""
    kinds = rule.get("type")
    allowed = [kinds] if isinstance(kinds, str) else kinds
    if allowed and not any(_is(value, kind) for kind in allowed):
        yield f"{path} must be {' or '.join(allowed)}"
        return
    if "enum" in rule and value not in rule["enum"]:
        yield f"{path} must be one of {rule['enum']}"
    if isinstance(value, dict):
        fields = rule.get("properties", {})
        for name in rule.get("required", ()):
            if name not in value:
                yield f"{path}.{name} is missing"
        for name, inner in value.items():
            if name in fields:
                yield from conform(inner, fields[name], f"{path}.{name}")
            elif rule.get("additionalProperties") is False:
                yield f"{path}.{name} is not a field of a certificate"
    if isinstance(value, list) and "items" in rule:
        for place, inner in enumerate(value):
            yield from conform(inner, rule["items"], f"{path}[{place}]")


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)
