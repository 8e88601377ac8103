"""Recheck a release from its public files alone.

Everything that follows from the claim is computed again with numpy and scipy and compared:
texts and counts to the letter, numbers to a relative 1e-6, and δ at the claimed ε must not
exceed the claimed δ. Digests tie the certificate to the aggregates and the feature map, and
the aggregates must look like draws from the law that the claim rests on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from labeldp.engines import Engine, engine_for
from labeldp.errors import InputError, ReleaseError
from labeldp.files import json_digest
from labeldp.mechanisms import certificate_schema, mechanism_named, mechanisms, read_claim
from labeldp.release import (
    AGGREGATES,
    CERTIFICATE,
    FEATURES,
    METADATA_KEY,
    Claim,
    FloorOutcome,
    Release,
    certificate_text,
    claimed_fields,
    design_layout,
    drawn_fields,
    features_text,
    file_name,
    public_rows,
    seal,
    table_digest,
)

_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Verification:
    """The answer: valid when nothing disagreed."""

    problems: tuple[str, ...]
    summary: str = ""
    weak: tuple[str, ...] = ()
    """Why the guarantee, which holds, protects little; empty if it protects."""

    @property
    def valid(self) -> bool:
        return not self.problems


def verify(directory: str | Path, data: Any = None, engine: Engine | None = None) -> Verification:
    """Check a release directory; a missing directory is an error, anything else a problem.

    With `data`, the table whose features were released (a path or a frame; labels are not
    needed), the facts about features are rechecked too; rows that the release's encoding cannot
    read are an error.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise ReleaseError(f"{folder} is not a release directory")
    try:
        release = Release.load(folder)
    except InputError as problem:
        return Verification((str(problem),))
    certificate = release.certificate
    malformed = list(conform(certificate, certificate_schema(), "certificate"))
    malformed = malformed or [*_files(folder, certificate), *_layouts(release)]
    if malformed:
        return Verification(tuple(malformed))
    problems = [
        *_seals(folder, release),
        *_contents(release),
        *_claim(release),
    ]
    if data is not None and not problems:
        mechanism = mechanism_named(certificate["mechanism"])
        source = public_rows(release, data)
        problems += mechanism.check_features(release, source, engine or engine_for(source))
    weak = () if problems else tuple(certificate["weak"])
    return Verification(tuple(problems), _summary(certificate), weak)


def _summary(certificate: dict[str, Any]) -> str:
    told: tuple[str, ...] = ()
    with suppress(KeyError, TypeError, ValueError):  # a section may be another mechanism's
        told = mechanism_named(certificate["mechanism"]).describe(certificate).summary
    how = ", ".join((f"{certificate['accountant']['name']} accountant", *told))
    text = (
        f"{certificate['bags']:,} aggregates of {certificate['bag_size']:,} "
        f"row{'s' * (certificate['bag_size'] != 1)}, "
        f"label-DP with ε = {certificate['epsilon']:g}, δ = {certificate['delta']:g} "
        f"({certificate['mechanism']}, {how})"
    )
    warning = certificate["randomness"]["warning"]
    return f"{text}; {warning}" if warning else text


def _files(folder: Path, certificate: dict[str, Any]) -> Iterator[str]:
    """Whether all files are those of the mechanism."""
    tables = mechanism_named(certificate["mechanism"]).files
    known = {AGGREGATES, CERTIFICATE, FEATURES, *map(file_name, tables)}
    for path in sorted(folder.iterdir()):
        if path.name not in known:
            yield f"{path.name} is not part of the release: the certificate says nothing of it"


def _layouts(release: Release) -> Iterator[str]:
    """Whether all tables of the mechanism are there, with their columns."""
    found = {"aggregates": release.table, **release.files}
    own = mechanism_named(release.certificate["mechanism"]).files
    for name, layout in {"aggregates": design_layout, **own}.items():
        if name not in found:
            yield f"{file_name(name)} is missing: the certificate says nothing of it"
            continue
        try:
            shown, expected = found[name].schema, layout(release)
        except (KeyError, TypeError, ValueError) as problem:
            yield f"certificate: the columns of {file_name(name)} make no sense: {problem}"
            continue
        if (shown.names, shown.types) != (expected.names, expected.types):
            columns = ", ".join(f"{field.name} ({field.type})" for field in expected)
            yield f"{file_name(name)} does not have the columns that it should: {columns}"


def _seals(folder: Path, release: Release) -> Iterator[str]:
    certificate = release.certificate
    if seal(certificate)["seal"] != certificate["seal"]:
        yield "certificate: a field was altered (its seal does not match)"
    text = certificate_text(certificate)
    if (folder / CERTIFICATE).read_text(encoding="utf-8") != text + "\n":
        yield f"{CERTIFICATE} is not as it was written (a field twice, or other spacing)"
    for name in ("aggregates", *release.files):
        yield from _stamp(folder / file_name(name), text)
    if json_digest(release.features.to_json()) != certificate["digests"]["features"]:
        yield f"{FEATURES} was altered (its digest does not match)"
    elif (folder / FEATURES).read_text(encoding="utf-8") != features_text(release.features):
        yield f"{FEATURES} is not as it was written (a field twice, or other spacing)"


def _stamp(path: Path, text: str) -> Iterator[str]:
    """A Parquet file carries the certificate and nothing else beside its columns."""
    schema = pq.read_schema(path)
    metadata = dict(schema.metadata or {})
    if metadata.pop(METADATA_KEY, None) != text.encode(errors="surrogatepass"):
        yield f"{path.name} carries a certificate that is not {CERTIFICATE}"
    for name in sorted(metadata):
        yield f"{path.name} carries {name!r}: the certificate says nothing of it"
    for column in schema:
        if set(column.metadata or ()) - {b"PARQUET:field_id"}:
            yield f"{path.name}: column {column.name!r} carries metadata of its own"


def _contents(release: Release) -> Iterator[str]:
    """The table and the feature map are those of the certificate, the sections its mechanism's."""
    certificate, features = release.certificate, release.features
    own = mechanism_named(certificate["mechanism"]).sections
    for name in sorted({name for each in mechanisms() for name in each.sections}):
        if name not in own and certificate.get(name) is not None:
            yield f"certificate.{name} is not a section of {certificate['mechanism']}"
    for file, table in {"aggregates": release.table, **release.files}.items():
        if table_digest(table) != certificate["digests"][file]:
            yield f"{file_name(file)} was altered (its digest does not match)"
    rows = certificate["rank"] + 1 if certificate["form"] == "compact" else certificate["bags"]
    if release.table.num_rows != rows:
        yield f"{AGGREGATES} has {release.table.num_rows} rows, the certificate says {rows}"
    if len(features.names) != certificate["rank"]:
        yield f"{FEATURES} has {len(features.names)} columns, not {certificate['rank']}"
    if features.rows != certificate["rows"]:
        yield f"{FEATURES} was fitted on {features.rows} rows, not {certificate['rows']}"


def _claim(release: Release) -> list[str]:
    """What follows from the claim, computed again."""
    certificate = release.certificate
    try:
        claim = read_claim(certificate)
        return [
            *_fields(claim, certificate),
            *mechanism_named(certificate["mechanism"]).check(release),
        ]
    except (InputError, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        return [f"certificate: the claim makes no sense: {problem}"]


def _fields(claim: Claim, certificate: dict[str, Any]) -> Iterator[str]:
    """Every field that the claim determines, and the budget it must keep."""
    expected = claimed_fields(claim, FloorOutcome.of(certificate))
    shown = {name: certificate.get(name) for name in expected}
    if certificate["floor"] is not None:
        outcome = ("measured", "lower_bound", "added_variance")
        shown["floor"] = {k: v for k, v in certificate["floor"].items() if k not in outcome}
    yield from _differences(shown, expected, "certificate")
    if certificate["numerics"]["aggregate_labels"] != claim.drawn:
        yield f"certificate: aggregate labels should be {claim.drawn}"
    delta = claim.delta_at(claim.epsilon)
    if not delta <= claim.delta:
        yield (
            f"certificate: δ at ε = {claim.epsilon:g} is {delta:.3g}, "
            f"more than the claimed {claim.delta:g}"
        )
    if certificate["randomness"] != drawn_fields(private=True):
        yield "certificate: drawn from a seed for an experiment, so it is not private"


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
