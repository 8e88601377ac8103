"""Checks that files form a release, whether or not its claim is true.

- `form_problems`: all files are there, and no others; the certificate follows its JSON schema;
  tables have the right columns and numbers of rows, in Parquet files as labeldp writes them.
- `content_problems`: seal, digests, copies of the certificate and signatures match the contents.

`Release.load` refuses a release that fails one of them; `verify` also recomputes the claim.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import InputError, ReleaseError
from labeldp.features.notes import foreign_notes
from labeldp.io_util import check_regular_file, json_digest
from labeldp.mechanisms.registry import certificate_schema, mechanism_named, mechanisms
from labeldp.release.certificate import read_about, seal
from labeldp.release.pending import (
    AGGREGATES,
    CERTIFICATE,
    FEATURES,
    certificate_text,
    features_text,
    file_name,
)
from labeldp.release.side_files import (
    CROISSANT,
    SIGNATURES,
    Envelope,
    croissant_text,
    signature_problems,
)
from labeldp.release.tables import METADATA_KEY, check_form, table_digest

if TYPE_CHECKING:
    from labeldp.release.files import Release

_MOST_NAMED = 5
"""Most files that are named because they do not belong to the release."""


def check_as_written(folder: Path, release: Release) -> None:
    """Refuse a release whose files are not as they were written together."""
    problems = form_problems(folder, release) or content_problems(folder, release)
    if problems:
        raise ReleaseError(
            f"{folder} is not as it was written: {problems[0]}; `labeldp verify` says all, and "
            "`verify=False` reads it all the same"
        )


def form_problems(folder: Path, release: Release) -> list[str]:
    """Return why these files do not have the form of a release; no value of a table is read.

    Each group of checks relies on those before it, so the first group with problems ends it.
    """
    return (
        schema_problems(release.certificate)
        or [*_file_problems(folder, release.certificate), *_column_problems(release)]
        or [*_count_problems(release), *_layout_problems(folder, release)]
    )


def content_problems(folder: Path, release: Release) -> list[str]:
    """Return where contents of files that have the form of a release contradict each other."""
    certificate = release.certificate
    problems = [
        *_certificate_problems(folder, release),
        *_digest_problems(folder, release),
        *signature_problems(folder, certificate),
    ]
    # The description is compared last: it also differs if one of the other files does.
    if not problems and not _has_text(folder / CROISSANT, croissant_text(folder, certificate)):
        problems = [f"{CROISSANT} does not describe these files as labeldp does"]
    return problems


def _refusals(check: Callable[[Path], object], *paths: Path) -> Iterator[str]:
    """Yield why a check refuses some of these files."""
    for path in paths:
        try:
            check(path)
        except ReleaseError as problem:
            yield str(problem)


def _file_problems(folder: Path, certificate: dict[str, Any]) -> Iterator[str]:
    """Check that the folder has the files of the mechanism and no others."""
    tables = mechanism_named(certificate["mechanism"]).table_names
    known = {AGGREGATES, CERTIFICATE, FEATURES, CROISSANT, SIGNATURES, *map(file_name, tables)}
    others = sorted(path.name for path in folder.iterdir() if path.name not in known)
    for name in others[:_MOST_NAMED]:
        yield f"{name} is not part of the release: the certificate says nothing of it"
    if others[_MOST_NAMED:]:
        yield f"{len(others) - _MOST_NAMED} more files are not part of the release"
    yield from _refusals(check_regular_file, folder / CROISSANT)


def _column_problems(release: Release) -> Iterator[str]:
    """Check that all tables have their columns, and that label and person ids are no features."""
    certificate, features = release.certificate, release.features.columns
    tables = {"aggregates": release.table, **release.files}
    mechanism = mechanism_named(certificate["mechanism"])
    for name in ("aggregates", *mechanism.table_names):
        if name not in tables:
            yield f"{file_name(name)} is missing: the certificate says nothing of it"
            continue
        try:
            expected = mechanism.table_schemas(release)[name]
        except (KeyError, TypeError, ValueError) as problem:
            yield f"certificate: the columns of {file_name(name)} make no sense: {problem}"
            continue
        if not tables[name].schema.equals(expected):
            columns = ", ".join(map(_column_text, expected))
            yield f"{file_name(name)} does not have the columns that it should: {columns}"
    label, person = certificate["labels"]["column"], certificate.get("person")
    if label in features:
        yield f"certificate: the label column {label!r} is a feature in {FEATURES}"
    if person is not None and person["column"] in (*features, label):
        yield (
            f"certificate: person.column {person['column']!r} is the label or a feature in "
            f"{FEATURES}; person ids are neither"
        )


def _column_text(field: pa.Field) -> str:
    return f"{field.name} ({field.type}{'' if field.nullable else ', never missing'})"


def _count_problems(release: Release) -> Iterator[str]:
    """Check numbers of rows and columns against the certificate, and the notes of features."""
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


def _layout_problems(folder: Path, release: Release) -> Iterator[str]:
    """Check that Parquet files are as labeldp writes them, and that signatures can be read."""
    yield from _refusals(
        check_form, *(folder / file_name(name) for name in ("aggregates", *release.files))
    )
    yield from _refusals(Envelope.of, folder)


def _certificate_problems(folder: Path, release: Release) -> Iterator[str]:
    """Check the seal, that all copies of the certificate agree, and that its sections belong."""
    certificate = release.certificate
    if seal(certificate)["seal"] != certificate["seal"]:
        yield "certificate: a field was altered (its seal does not match)"
    text = certificate_text(certificate)
    if not _has_text(folder / CERTIFICATE, text + "\n"):
        yield f"{CERTIFICATE} is not as it was written (other spacing or order)"
    for name in ("aggregates", *release.files):
        schema = pq.read_schema(folder / file_name(name))
        if (schema.metadata or {}).get(METADATA_KEY) != text.encode(errors="surrogatepass"):
            yield f"{file_name(name)} carries a certificate that is not {CERTIFICATE}"
        for column in schema:
            if column.metadata:
                yield f"{file_name(name)}: column {column.name!r} carries metadata of its own"
    mechanism = mechanism_named(certificate["mechanism"])
    if (accountant := certificate["accountant"]["name"]) not in mechanism.accountants:
        yield f"certificate: {mechanism.name} has no accountant {accountant!r}"
    for name in sorted({name for each in mechanisms() for name in each.sections}):
        if name not in mechanism.sections and certificate.get(name) is not None:
            yield f"certificate.{name} is not a section of {certificate['mechanism']}"


def _digest_problems(folder: Path, release: Release) -> Iterator[str]:
    """Check the feature map, and the digest of every table, which reads all values."""
    digests = release.certificate["digests"]
    if json_digest(release.features.to_json()) != digests["features"]:
        yield f"{FEATURES} was altered (its digest does not match)"
    elif not _has_text(folder / FEATURES, features_text(release.features)):
        yield f"{FEATURES} is not as it was written (other spacing or order)"
    for name, table in {"aggregates": release.table, **release.files}.items():
        try:
            if table_digest(table) != digests[name]:
                yield f"{file_name(name)} was altered (its digest does not match)"
        except InputError as problem:
            yield str(problem)


def _has_text(path: Path, text: str) -> bool:
    """Return whether a file has exactly these bytes; other line ends could encode something."""
    expected = text.encode(errors="surrogatepass")
    return path.stat().st_size == len(expected) and path.read_bytes() == expected


def schema_problems(certificate: Any) -> list[str]:
    """Return where a certificate breaks its JSON schema; no value is quoted.

    Two rules are stricter than JSON Schema: 60.0 is not an integer, and a pattern must match the
    whole text. Statements of the curator and the time of release are checked by code.
    """
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    def whole_match(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
        # `re.search` with $ would allow a line end after the text
        if isinstance(value, str) and not re.fullmatch(pattern, value):
            yield ValidationError("it does not match")

    def is_integer(_: Any, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer)
    strict = extend(Draft202012Validator, {"pattern": whole_match}, type_checker=types)
    errors = strict(certificate_schema()).iter_errors(certificate)
    problems = list(dict.fromkeys(line for error in errors for line in _schema_lines(error)))
    if problems:
        return problems
    if not _is_about(certificate["about"]):
        problems.append("certificate.about is not as labeldp writes it")
    try:
        if certificate["released_at"] is not None:
            datetime.fromisoformat(certificate["released_at"])
    except ValueError:
        problems.append("certificate.released_at is no moment that there was")
    return problems


def _is_about(about: dict[str, Any] | None) -> bool:
    """Return whether the statements of the curator are as `read_about` returns them."""
    if about is None:
        return True
    texts = {name: text for name, text in about.items() if name != "missing" and text is not None}
    try:
        return read_about(texts) == about
    except InputError:
        return False


def _schema_lines(error: Any) -> Iterator[str]:
    """Yield one line for each violation in an error of jsonschema."""
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
