"""Which mechanisms there are, ours and those of others, and the schema of their certificates.

Another package offers its own by an entry point of the group `labeldp.mechanisms` whose value is
a `Mechanism`; a program may `register` one. Those of `labeldp.demonstrations` are never private
and no mechanisms. Only declarations are imported here.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from labeldp.common.arguments import refuse_unknown
from labeldp.errors import InputError, PlanError
from labeldp.mechanisms.options import Encoding, Request, make_options, names, refuse_foreign
from labeldp.mechanisms.protocol import Mechanism

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.mechanisms.plans import Plan
    from labeldp.passes.engine import Engine
    from labeldp.release.claim import Claim

_HERE = Path(__file__).parent


def read_schema(path: Path) -> dict[str, Any]:
    """A JSON schema that stands in a file."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


FLOOR = read_schema(_HERE / "floor.schema.json")
DRAW = read_schema(_HERE / "draw.schema.json")

_Ours = Literal[
    "wtd-flag",
    "shaped-flag",
    "noisy-rows",
    "sampled-wtd-flag",
    "sampled-noisy-wtd-lag",
]
"""A line for each folder here."""
_HOMES = {name: f"{__package__}.{name.replace('-', '_')}" for name in get_args(_Ours)}
MechanismName = Literal["auto", _Ours]
AccountantName = Literal["exact", "exact-worst-case", "paper"]
"""For those who write code: ours, and any other that a package may offer."""
AUTO = "auto"
"""In place of a mechanism: the one that adds least."""
EPSILON, DELTA = 1.0, 1e-6
"""The budget, if nothing is said."""
_registered: dict[str, Mechanism] = {}


def register(mechanism: Mechanism) -> None:
    """Make a mechanism known to `plan`, `verify` and the command line of this process."""
    if mechanism.name in (AUTO, *mechanism_names()):
        raise InputError(f"there is a mechanism {mechanism.name!r} already; choose another name")
    known, fresh = option_types(), get_type_hints(mechanism.options)
    for name in known.keys() & fresh.keys():
        if known[name] != fresh[name]:
            raise InputError(
                f"the option {name!r} of {mechanism.name} is one of another mechanism, with "
                "another type; choose another name"
            )
    _registered[mechanism.name] = mechanism


def forget(name: str) -> None:
    """Undo `register`."""
    _registered.pop(name, None)


@cache
def _offered() -> dict[str, Any]:
    """Mechanisms of other packages, not yet imported."""
    return {entry.name: entry for entry in entry_points(group="labeldp.mechanisms")}


@cache
def demonstrations() -> dict[str, Any]:
    """Warning examples of other packages (`Demonstration`), not yet imported."""
    found = entry_points(group="labeldp.demonstrations")
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def mechanism_names() -> tuple[str, ...]:
    """All that are known."""
    return tuple({**_HOMES, **_offered(), **_registered})


def mechanism_named(name: str) -> Mechanism:
    """The mechanism of this name; an unknown one is refused."""
    if name in _registered:
        return _registered[name]
    if name in _HOMES:
        ours: Mechanism = import_module(_HOMES[name]).MECHANISM
        return ours
    if name not in _offered():
        raise InputError(
            f"mechanism {name!r} is unknown; choose {AUTO}, {', '.join(mechanism_names())}"
        )
    theirs: Mechanism = _offered()[name].load()
    return theirs


def mechanisms() -> list[Mechanism]:
    """The declarations of all that are known."""
    return [mechanism_named(name) for name in mechanism_names()]


def certificate_schema() -> dict[str, Any]:
    """The schema of a certificate of any mechanism that is known.

    `floor`, `draw` and `noise` stand in every certificate, null where a mechanism has none;
    other sections in those of their mechanism.
    """
    known = mechanisms()
    whole = read_schema(_HERE / "certificate.schema.json")
    parts = whole["properties"]
    for mechanism in known:
        parts |= mechanism.sections
        for name in mechanism.files.keys() - parts["digests"]["properties"].keys():
            words = f"SHA-256 of the contents of {name}.parquet, where there is one."
            rule = {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": words}
            parts["digests"]["properties"][name] = rule
    parts["mechanism"]["enum"] = [mechanism.name for mechanism in known]
    accountants = {name: None for mechanism in known for name in mechanism.accountants}
    parts["accountant"]["properties"]["name"]["enum"] = list(accountants)
    return whole


def check_pure(mechanism: Mechanism, delta: float) -> None:
    """Refuse δ = 0 where there is no such guarantee."""
    if not mechanism.allows(delta):
        able = ", ".join(each.name for each in mechanisms() if each.pure)
        raise InputError(
            f"{mechanism.name} has no guarantee with δ = 0; give `delta` above 0, "
            f"or a mechanism that has one: {able}"
        )


def read_claim(document: dict[str, Any]) -> Claim:
    """The claim of a plan or certificate; KeyError, TypeError or ValueError if there is none."""
    mechanism = mechanism_named(document["mechanism"])
    check_persons(mechanism, document.get("person"))
    return mechanism.read_claim(document)


def check_persons(mechanism: Mechanism, person: object) -> None:
    """Refuse persons, in a table as in a claim, where only single rows would be protected."""
    if person is not None and not mechanism.persons:
        able = " or ".join(repr(other.name) for other in mechanisms() if other.persons)
        raise PlanError(
            f"{mechanism.name} cannot price all rows of a person together: "
            f"{mechanism.single_rows}; use `mechanism={able}`, or leave `person` out to protect "
            "single rows"
        )


def draft(mechanism: Mechanism, request: Request[Any], source: Source, engine: Engine) -> Plan:
    """A mechanism's plan; persons are refused where it would protect single rows only."""
    check_persons(mechanism, source.person)
    return mechanism.draft(request, source, engine)


def option_types() -> dict[str, Any]:
    """Every option of some mechanism, and its type."""
    kinds = (mechanism.options for mechanism in reversed(mechanisms()))
    return {name: hint for kind in kinds for name, hint in get_type_hints(kind).items()}


def make_request(
    mechanism: Mechanism,
    *,
    epsilon: float,
    delta: float,
    accountant: str = "exact",
    **choices: Any,
) -> Request[Any]:
    """A request from the keywords of `plan`; one that the mechanism does not have is refused."""
    refuse_unknown("plan", choices, option_types() | dict.fromkeys(names(Encoding)))
    encoding = make_options(Encoding, {n: choices.pop(n) for n in names(Encoding) if n in choices})
    own = names(mechanism.options)
    refuse_foreign(choices, own, mechanism.name)
    if accountant not in mechanism.accountants:
        known_ones = ", ".join(mechanism.accountants)
        raise InputError(f"accountant {accountant!r} is unknown; choose {known_ones}")
    check_pure(mechanism, delta)
    options = make_options(mechanism.options, {n: v for n, v in choices.items() if n in own})
    return Request(epsilon, delta, accountant, encoding, options)
