"""Whether files are a release: what is seen without asking whether its claim is true.

All files are there and ordinary and none beside them, the certificate has the declared fields,
tables have their columns and the form that we write, and digests and seal bind them together.
`Release.load` refuses the rest; `verify` goes on from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import InputError, ReleaseError
from labeldp.features.notes import foreign_notes
from labeldp.io_util import check_regular_file, json_digest
from labeldp.mechanisms.registry import certificate_schema, mechanism_named, mechanisms
from labeldp.release.about import read_about
from labeldp.release.certificate import seal
from labeldp.release.croissant import CROISSANT, croissant_of
from labeldp.release.digest import table_digest
from labeldp.release.parquet_form import METADATA_KEY, check_form
from labeldp.release.pending import (
    AGGREGATES,
    CERTIFICATE,
    FEATURES,
    certificate_text,
    features_text,
    file_name,
)
from labeldp.release.statement import SIGNATURES, Envelope, signature_problems

if TYPE_CHECKING:
    from labeldp.release.files import Release

_MOST_TOLD = 5
"""Files that do not belong to a release, by name."""


def refuse_unsound(folder: Path, release: Release) -> None:
    """Refuse to read a release that is not as it was written."""
    problems = misshapen(folder, release) or altered(folder, release)
    if problems:
        raise ReleaseError(
            f"{folder} is not as it was written: {problems[0]}; `labeldp verify` says all, and "
            "`verify=False` reads it all the same"
        )


def misshapen(folder: Path, release: Release) -> list[str]:
    """Why these files are no release, from all but their values; one question after the other."""
    certificate = release.certificate
    return (
        list(malformed(certificate))
        or [*_files(folder, certificate), *_layouts(release), *_roles(release)]
        or [*_counts(release), *_forms(folder, release), *_envelope(folder)]
    )


def altered(folder: Path, release: Release) -> list[str]:
    """What does not belong together in files that are a release; its description comes last,
    since it differs wherever one of the others does."""
    signed = signature_problems(folder, release.certificate)
    problems = [*_seals(folder, release), *_contents(release), *signed]
    return problems or list(_description(folder, release.certificate))


def _files(folder: Path, certificate: dict[str, Any]) -> Iterator[str]:
    """Whether all files are those of the mechanism, and ordinary ones."""
    tables = mechanism_named(certificate["mechanism"]).table_names
    known = {AGGREGATES, CERTIFICATE, FEATURES, CROISSANT, SIGNATURES, *map(file_name, tables)}
    others = sorted(path.name for path in folder.iterdir() if path.name not in known)
    for name in others[:_MOST_TOLD]:
        yield f"{name} is not part of the release: the certificate says nothing of it"
    if others[_MOST_TOLD:]:
        yield f"{len(others) - _MOST_TOLD} more files are not part of the release"
    try:
        check_regular_file(folder / CROISSANT)
    except ReleaseError as problem:
        yield str(problem)


def _layouts(release: Release) -> Iterator[str]:
    """Whether all tables of the mechanism are there, with their columns."""
    found = {"aggregates": release.table, **release.files}
    mechanism = mechanism_named(release.certificate["mechanism"])
    for name in ("aggregates", *mechanism.table_names):
        if name not in found:
            yield f"{file_name(name)} is missing: the certificate says nothing of it"
            continue
        try:
            shown, expected = found[name].schema, mechanism.table_schemas(release)[name]
        except (KeyError, TypeError, ValueError) as problem:
            yield f"certificate: the columns of {file_name(name)} make no sense: {problem}"
            continue
        if not shown.equals(expected):
            columns = ", ".join(map(_told, expected))
            yield f"{file_name(name)} does not have the columns that it should: {columns}"


def _roles(release: Release) -> Iterator[str]:
    """Whether label and person ids are columns of their own: both are never published."""
    certificate, features = release.certificate, release.features.columns
    label, person = certificate["labels"]["column"], certificate.get("person")
    if label in features:
        yield f"certificate: the label column {label!r} is a feature in {FEATURES}"
    if person is not None and person["column"] in (*features, label):
        yield (
            f"certificate: person.column {person['column']!r} is the label or a feature in "
            f"{FEATURES}; person ids are neither"
        )


def _told(field: pa.Field) -> str:
    return f"{field.name} ({field.type}{'' if field.nullable else ', never missing'})"


def _counts(release: Release) -> Iterator[str]:
    """Whether there are as many rows and columns as the certificate says."""
    certificate, features = release.certificate, release.features
    rows = certificate["rank"] + 1 if certificate["form"] == "compact" else certificate["bags"]
    if release.table.num_rows != rows:
        yield f"{AGGREGATES} has {release.table.num_rows} rows, the certificate says {rows}"
    if len(features.names) != certificate["rank"]:
        yield f"{FEATURES} has {len(features.names)} columns, not {certificate['rank']}"
    if features.rows != certificate["rows"]:
        yield f"{FEATURES} was fitted on {features.rows} rows, not {certificate['rows']}"
    if features.intercept and any(column.fill for column in features.numeric):
        yield f"{FEATURES} has numbers that are centred, and counts missing ones apart"
    for place in foreign_notes(features.notes, features.numeric):
        yield f"{FEATURES}: note {place} is not one that labeldp writes"


def _forms(folder: Path, release: Release) -> Iterator[str]:
    """Whether Parquet files are as we write them."""
    for name in ("aggregates", *release.files):
        try:
            check_form(folder / file_name(name))
        except ReleaseError as problem:
            yield str(problem)


def _envelope(folder: Path) -> Iterator[str]:
    """Whether signatures, if there are any, can be read."""
    try:
        Envelope.of(folder)
    except ReleaseError as problem:
        yield str(problem)


def _seals(folder: Path, release: Release) -> Iterator[str]:
    certificate = release.certificate
    if seal(certificate)["seal"] != certificate["seal"]:
        yield "certificate: a field was altered (its seal does not match)"
    text = certificate_text(certificate)
    if not _is_text(folder / CERTIFICATE, text + "\n"):
        yield f"{CERTIFICATE} is not as it was written (other spacing or order)"
    for name in ("aggregates", *release.files):
        yield from _stamp(folder / file_name(name), text)
    if json_digest(release.features.to_json()) != certificate["digests"]["features"]:
        yield f"{FEATURES} was altered (its digest does not match)"
    elif not _is_text(folder / FEATURES, features_text(release.features)):
        yield f"{FEATURES} is not as it was written (other spacing or order)"


def _description(folder: Path, certificate: dict[str, Any]) -> Iterator[str]:
    """The description follows from the other files, to the letter."""
    if not _is_text(folder / CROISSANT, croissant_of(folder, certificate)):
        yield f"{CROISSANT} does not describe these files as labeldp does"


def _is_text(path: Path, text: str) -> bool:
    """To the byte: ends of lines that a reader takes for the same could spell something."""
    expected = text.encode(errors="surrogatepass")
    return path.stat().st_size == len(expected) and path.read_bytes() == expected


def _stamp(path: Path, text: str) -> Iterator[str]:
    """A Parquet file carries the certificate and nothing else beside its columns."""
    schema = pq.read_schema(path)
    if (schema.metadata or {}).get(METADATA_KEY) != text.encode(errors="surrogatepass"):
        yield f"{path.name} carries a certificate that is not {CERTIFICATE}"
    for column in schema:
        if column.metadata:
            yield f"{path.name}: column {column.name!r} carries metadata of its own"


def _contents(release: Release) -> Iterator[str]:
    """Tables are those of the certificate, its sections those of its mechanism."""
    certificate = release.certificate
    mechanism = mechanism_named(certificate["mechanism"])
    if (accountant := certificate["accountant"]["name"]) not in mechanism.accountants:
        yield f"certificate: {mechanism.name} has no accountant {accountant!r}"
    own = mechanism.sections
    for name in sorted({name for each in mechanisms() for name in each.sections}):
        if name not in own and certificate.get(name) is not None:
            yield f"certificate.{name} is not a section of {certificate['mechanism']}"
    for file, table in {"aggregates": release.table, **release.files}.items():
        try:
            digest = table_digest(table)
        except InputError as problem:
            yield str(problem)
            continue
        if digest != certificate["digests"][file]:
            yield f"{file_name(file)} was altered (its digest does not match)"


def malformed(certificate: Any) -> list[str]:
    """Where a certificate breaks its JSON schema, or says what none can; no value is quoted."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    known = Draft202012Validator.TYPE_CHECKER
    whole = known.redefine("integer", _is_whole)
    strict = extend(Draft202012Validator, {"pattern": _matches}, type_checker=whole)
    errors = strict(certificate_schema()).iter_errors(certificate)
    broken = dict.fromkeys(line for error in errors for line in _schema_problems(error))
    return list(broken) or [*_about_problems(certificate), *_moment(certificate)]


def _matches(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    """The whole text; that of Python would let a line end after it."""
    from jsonschema import ValidationError

    if isinstance(value, str) and not re.fullmatch(pattern, value):
        yield ValidationError("it does not match")


def _about_problems(certificate: dict[str, Any]) -> Iterator[str]:
    """What the curator says is as `read_about` leaves it, and what is not said is listed."""
    said = certificate["about"]
    if said is None:
        return
    texts = {name: text for name, text in said.items() if name != "missing" and text is not None}
    try:
        expected = read_about(texts)
    except InputError:
        expected = None
    if expected is None or expected.to_json() != said:
        yield "certificate.about is not as labeldp writes it"


def _moment(certificate: dict[str, Any]) -> Iterator[str]:
    moment = certificate["released_at"]
    try:
        if moment is not None:
            datetime.fromisoformat(moment)
    except ValueError:
        yield "certificate.released_at is no moment that there was"


def _is_whole(_: Any, value: Any) -> bool:
    """JSON Schema takes 60.0 for an integer; a certificate says 60."""
    return isinstance(value, int) and not isinstance(value, bool)


def _schema_problems(error: Any) -> Iterator[str]:
    """One line for each thing that is wrong."""
    place, rule = f"certificate{error.json_path.removeprefix('$')}", error.validator_value
    match error.validator:
        case "type":
            kinds = [rule] if isinstance(rule, str) else rule
            yield f"{place} must be {' or '.join(kinds)}"
        case "required":
            yield from (f"{place}.{name} is missing" for name in rule if name not in error.instance)
        case "additionalProperties":
            extra = error.instance.keys() - error.schema["properties"].keys()
            yield from (f"{place}.{name} is not a field of a certificate" for name in sorted(extra))
        case "enum":
            yield f"{place} must be one of {rule}"
        case other:
            yield f"{place} breaks the schema ({other} {rule})"
