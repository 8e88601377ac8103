"""Recheck a release from its public files alone.

Everything that follows from the claim is computed again with numpy and scipy and compared:
texts and counts to the letter, numbers to a relative 1e-6, and δ at the claimed ε must not
exceed the claimed δ. Digests tie the certificate to the aggregates and the feature map, and
the aggregates must look like draws from the law that the claim rests on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import chdtr

from labeldp import door
from labeldp._files import json_digest
from labeldp._random import GENERATOR, KEY_BITS
from labeldp.accounting import FloorMode, added_variance
from labeldp.certificate import Claim, claimed_fields, schema, seal
from labeldp.engines import Engine, engine_for
from labeldp.errors import InputError, ReleaseError
from labeldp.recheck import check_features, public_rows
from labeldp.release import (
    AGGREGATES,
    CERTIFICATE,
    FEATURES,
    METADATA_KEY,
    Release,
    certificate_text,
    features_text,
    table_digest,
)
from labeldp.statistics.labels import LABEL_BITS
from labeldp.survey import ROUNDING

_TOLERANCE = 1e-6
_CHANCE = 1e-12
"""A release that its law produces with less than this chance was not drawn from it."""
_SECRET = {"generator": GENERATOR, "key_bits": KEY_BITS, "private": True, "warning": None}


@dataclass(frozen=True)
class Verification:
    """The answer: valid when nothing disagreed."""

    problems: tuple[str, ...]
    summary: str = ""

    @property
    def valid(self) -> bool:
        return not self.problems


def verify(directory: str | Path, data: Any = None, engine: Engine | None = None) -> Verification:
    """Check a release directory; a missing directory is an error, anything else a problem.

    With `data`, the table whose features were released (a path or a frame; labels are not
    needed), the facts about features are rechecked too.
    """
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
        *_seals(folder, release),
        *_contents(release),
        *_claim(release),
    ]
    if data is not None and not problems:
        rows = public_rows(release, data)
        problems += check_features(release, rows, engine or engine_for(rows))
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
        if path.name not in known:
            yield f"{path.name} is not part of the release: the certificate says nothing of it"


def _seals(folder: Path, release: Release) -> Iterator[str]:
    certificate = release.certificate
    if seal(certificate)["seal"] != certificate["seal"]:
        yield "certificate: a field was altered (its seal does not match)"
    text = certificate_text(certificate)
    if (folder / CERTIFICATE).read_text(encoding="utf-8") != text + "\n":
        yield f"{CERTIFICATE} is not as it was written (a field twice, or other spacing)"
    schema = pq.read_schema(folder / AGGREGATES)
    metadata = dict(schema.metadata or {})
    if metadata.pop(METADATA_KEY, None) != text.encode(errors="surrogatepass"):
        yield f"{AGGREGATES} carries a certificate that is not {CERTIFICATE}"
    for name in sorted(metadata):
        yield f"{AGGREGATES} carries {name!r}: the certificate says nothing of it"
    for column in schema:
        if set(column.metadata or ()) - {b"PARQUET:field_id"}:
            yield f"{AGGREGATES}: column {column.name!r} carries metadata of its own"
    if json_digest(release.features.to_json()) != certificate["digests"]["features"]:
        yield f"{FEATURES} was altered (its digest does not match)"
    elif (folder / FEATURES).read_text(encoding="utf-8") != features_text(release.features):
        yield f"{FEATURES} is not as it was written (a field twice, or other spacing)"


def _contents(release: Release) -> Iterator[str]:
    """The table and the feature map are those of the certificate."""
    certificate, features = release.certificate, release.features
    if table_digest(release.table) != certificate["digests"]["aggregates"]:
        yield f"{AGGREGATES} was altered (its digest does not match)"
    if release.bags != certificate["bags"]:
        yield f"{AGGREGATES} has {release.bags} rows, the certificate says {certificate['bags']}"
    if release.table.column_names[-1] != f"label:{certificate['labels']['column']}":
        yield f"{AGGREGATES} does not end with the label column that the certificate names"
    if len(features.names) != certificate["rank"]:
        yield f"{FEATURES} has {len(features.names)} columns, not {certificate['rank']}"
    if features.rows != certificate["rows"]:
        yield f"{FEATURES} was fitted on {features.rows} rows, not {certificate['rows']}"
    has_constant = features.intercept and features.names[0] == features.all_names[0]
    if has_constant is not certificate["constant_in_span"]:
        yield f"{FEATURES} and the certificate differ on whether there is an intercept"


def _claim(release: Release) -> list[str]:
    """What follows from the claim, computed again."""
    certificate = release.certificate
    try:
        claim = Claim.from_json(certificate)
        return [
            *_fields(claim, certificate),
            *_floor(claim, certificate["floor"]),
            *_numbers(claim, release),
        ]
    except (InputError, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        return [f"certificate: the claim makes no sense: {problem}"]


def _fields(claim: Claim, certificate: dict[str, Any]) -> Iterator[str]:
    """Every field that the claim determines, and the budget it must keep."""
    expected = claimed_fields(claim)
    shown = {name: certificate.get(name) for name in expected}
    outcome = ("measured", "lower_bound", "added_variance")
    shown["floor"] = {k: v for k, v in certificate["floor"].items() if k not in outcome}
    yield from _differences(shown, expected, "certificate")
    delta = claim.delta_at(claim.epsilon)
    if not delta <= claim.delta:
        yield (
            f"certificate: δ at ε = {claim.epsilon:g} is {delta:.3g}, "
            f"more than the claimed {claim.delta:g}"
        )
    if claim.facts.inflation < ROUNDING:
        yield f"certificate: the inflation must be at least {ROUNDING:.3g}, the sampler's rounding"
    if certificate["randomness"] != _SECRET:
        yield "certificate: drawn from a seed for an experiment, so it is not private"


def _floor(claim: Claim, floor: dict[str, Any]) -> Iterator[str]:
    """The floor the run established is the floor the claim needs."""
    measured, shown, added = floor["measured"], floor["lower_bound"], floor["added_variance"]
    present = {claim.measurement is not None, measured is not None, shown is not None}
    if present != {claim.mode.measures}:
        yield f"certificate: a {claim.mode.value} floor and its measurement do not go together"
        return
    bound, due = 0.0, claim.floor if claim.mode is FloorMode.ADDED else 0.0
    if claim.measurement is not None:
        grid = door.grid_for(claim.measurement.noise(claim.facts.width))
        bound = claim.measurement.lower_bound(measured, math.ldexp(0.5, grid), claim.facts.width)
        due = added_variance(claim.floor, bound)
        if math.fmod(measured, math.ldexp(1.0, grid)) != 0:
            yield "certificate: floor.measured is off its public grid: its low bits may leak"
        if not _close(shown, bound):
            yield f"certificate: floor.lower_bound should be {bound:.9g}"
        if claim.mode is FloorMode.MEASURED and due > 0:
            yield "certificate: the floor that was measured is below the one needed"
            due = 0.0
    if not _close(added, due) or added < due * (1 - 1e-9):
        yield f"certificate: floor.added_variance should be {due:.9g}"


def _numbers(claim: Claim, release: Release) -> Iterator[str]:
    """Labels stand on the public grid and vary about their fit as the floor demands."""
    numerics = release.certificate["numerics"]
    low, high = claim.facts.label_range
    reach = high - low if release.features.intercept else 2 * max(abs(low), abs(high))
    # the range was widened by up to a step of the label grid
    reaches = (reach, reach * (1 - 2.0**-LABEL_BITS))
    exponents = {math.ceil(math.log2(width)) - LABEL_BITS for width in reaches}
    if numerics["label_exponent"] not in exponents:
        yield f"certificate: the label exponent should be {max(exponents)}"
    grid = door.grid_for(math.sqrt(claim.floor))
    if numerics["grid_exponent"] != grid:
        yield f"certificate: the grid exponent should be {grid}"
    design, labels = release.design, release.labels
    if not (np.isfinite(design).all() and np.isfinite(labels).all()):
        yield f"{AGGREGATES} has values that are not numbers"
        return
    cells = np.ldexp(labels, -grid)
    if (cells != np.rint(cells)).any():
        yield f"{AGGREGATES} has labels off the public grid: their low bits may leak"
    if _scatter_chance(design, labels, claim.floor) < _CHANCE:
        yield f"{AGGREGATES} has labels that vary less about their fit than the floor demands"


def _scatter_chance(
    design: NDArray[np.float64], labels: NDArray[np.float64], floor: float
) -> float:
    """The chance of so small a scatter if the labels' variance given the features is `floor`.

    The residual sum of squares of the fit is that variance times χ² with bags − columns
    degrees of freedom (theory §5). Any other slope only adds to it, so rounding in the
    normal equations cannot raise a false alarm.
    """
    size = np.sqrt((design**2).sum(axis=0))
    scaled = design / np.where(size > 0, size, 1.0)
    slope = np.linalg.lstsq(scaled.T @ scaled, scaled.T @ labels)[0]
    square = float(((labels - scaled @ slope) ** 2).sum())
    freedom = len(labels) - design.shape[1]
    return float(chdtr(freedom, square / floor)) if freedom > 0 else 1.0


def _differences(shown: Any, expected: Any, path: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(shown, dict):
        for name, value in expected.items():
            yield from _differences(shown.get(name), value, f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(shown, list) and len(expected) == len(shown):
        for place, (left, right) in enumerate(zip(shown, expected, strict=True)):
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
