"""The mechanisms that there are: our five, and those of other packages.

Another package offers a mechanism by an entry point of the group `labeldp.mechanisms` whose value
is an object of a subclass of `Mechanism`; a program may `register` one.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from labeldp.display import Document
from labeldp.errors import InputError
from labeldp.mechanisms.base import Mechanism, read_schema
from labeldp.mechanisms.noisy_rows import NoisyRows
from labeldp.mechanisms.options import AUTO, Encoding, PlanRequest, make_options, names, set_options
from labeldp.mechanisms.sampled_noisy_wtd_lag import SampledNoisyWtdLag
from labeldp.mechanisms.sampled_wtd_flag import SampledWtdFlag
from labeldp.mechanisms.shaped_flag import ShapedFlag
from labeldp.mechanisms.wtd_flag import WtdFlag
from labeldp.releases.certificate import Claim

MECHANISMS: tuple[Mechanism, ...] = (
    ShapedFlag(),
    NoisyRows(),
    WtdFlag(),
    SampledWtdFlag(),
    SampledNoisyWtdLag(),
)
_registered: dict[str, Mechanism] = {}


@cache
def _of_other_packages() -> dict[str, Mechanism]:
    return {entry.name: entry.load() for entry in entry_points(group="labeldp.mechanisms")}


def mechanisms() -> list[Mechanism]:
    """Return all mechanisms that are known."""
    ours = {each.name: each for each in MECHANISMS}
    return list({**_of_other_packages(), **_registered, **ours}.values())


def mechanism_names() -> tuple[str, ...]:
    """Return the names of all mechanisms."""
    return tuple(each.name for each in mechanisms())


def mechanism_named(name: str) -> Mechanism:
    """Return the mechanism of this name; an unknown one is refused."""
    for each in mechanisms():
        if each.name == name:
            return each
    raise InputError(
        f"mechanism {name!r} is unknown; choose {AUTO}, {', '.join(mechanism_names())}"
    )


def register(mechanism: Mechanism) -> None:
    """Make a mechanism known to `plan`, `verify` and the command line of this process."""
    if mechanism.name in (AUTO, *mechanism_names()):
        raise InputError(f"there is a mechanism {mechanism.name!r} already; choose another name")
    _registered[mechanism.name] = mechanism


def forget(name: str) -> None:
    """Undo `register`."""
    _registered.pop(name, None)


def read_claim(document: Document) -> Claim:
    """Return the claim of a plan or certificate.

    Raises KeyError, TypeError or ValueError if the document holds none.
    """
    mechanism = mechanism_named(document["mechanism"])
    mechanism.check_person(document.get("person"))
    check_accountant(mechanism, document["accountant"]["name"])
    return mechanism.claim_from_json(document)


def check_accountant(mechanism: Mechanism, accountant: str, *, planned: bool = False) -> None:
    """Refuse what a mechanism does not have, or for a plan that is to be made, has no more.

    For bags early ones could be the paper's theorems.
    """
    former = () if planned else mechanism.former_accountants
    if accountant not in (*mechanism.accountants, *former):
        accountants = ", ".join(mechanism.accountants)
        raise InputError(
            f"{mechanism.name} has no accountant {accountant!r}; plan with {accountants}"
        )


def certificate_schema(name: str) -> Document:
    """Return the JSON schema of certificates of a mechanism.

    `floor`, `draw` and `noise` stand in every certificate, null where the mechanism has none.
    """
    schema, mechanism = read_schema("certificate"), mechanism_named(name)
    properties = schema["properties"] | mechanism.sections
    properties["mechanism"]["enum"] = [name]
    digest = {"type": "string", "pattern": "^[0-9a-f]{64}$"}  # of a table, if there is one
    tables = dict.fromkeys(mechanism.table_names, digest)
    properties["digests"]["properties"] = tables | properties["digests"]["properties"]
    # Numbers that may be null are absent from releases of versions that did not publish them.
    own = [name for name, section in mechanism.sections.items() if "null" not in section["type"]]
    required = dict.fromkeys([*schema["required"], *own])
    return schema | {"properties": properties, "required": list(required)}


def make_request(
    mechanism: Mechanism, *, epsilon: float, delta: float, accountant: str = "exact", **choices: Any
) -> PlanRequest[Any]:
    """Return the request for keywords of `plan`; options of other mechanisms are refused."""
    for name in set_options(choices):
        if name not in (*names(mechanism.Options), *names(Encoding)):
            raise InputError(f"`{name}` does not apply to {mechanism.name}; leave it out")
    check_accountant(mechanism, accountant, planned=True)
    mechanism.check_pure(delta)
    return PlanRequest(epsilon, delta, accountant, make_options(mechanism.Options, choices))
