"""Whether a certificate has its form: the declared fields, and in them what a release can say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from labeldp.errors import InputError
from labeldp.mechanisms.registry import certificate_schema
from labeldp.release.about import read_about


def malformed(certificate: Any) -> list[str]:
    """Where a certificate breaks its JSON schema, or says what none can; no value is quoted."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    known = Draft202012Validator.TYPE_CHECKER
    whole = known.redefine("integer", _is_whole)
    strict = extend(Draft202012Validator, {"pattern": _matches}, type_checker=whole)
    errors = strict(certificate_schema()).iter_errors(certificate)
    broken = dict.fromkeys(line for error in errors for line in _told(error))
    return list(broken) or [*_about(certificate), *_moment(certificate)]


def _matches(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    """The whole text; that of Python would let a line end after it."""
    from jsonschema import ValidationError

    if isinstance(value, str) and not re.fullmatch(pattern, value):
        yield ValidationError("it does not match")


def _about(certificate: dict[str, Any]) -> Iterator[str]:
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


def _told(error: Any) -> Iterator[str]:
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
