"""noisy-rows under another name, its section of the certificate too, from outside the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from labeldp.data.source import Source
from labeldp.mechanisms.noisy_rows import MECHANISM as OURS
from labeldp.mechanisms.noisy_rows.claim import NoisyRowsClaim
from labeldp.mechanisms.options import Request
from labeldp.mechanisms.plans import Plan
from labeldp.passes.engine import Engine
from labeldp.release.files import Release

NAME, SECTION = "veiled-rows", "veil"


@dataclass(frozen=True)
class VeiledClaim(NoisyRowsClaim):
    """The same promise."""

    mechanism: ClassVar[str] = NAME

    def to_json(self) -> dict[str, Any]:
        document = super().to_json()
        return document | {SECTION: document.pop("row_noise")}


def ours(document: dict[str, Any]) -> dict[str, Any]:
    """What noisy-rows would have written."""
    return document | {"row_noise": document[SECTION]}


def veiled(claim: Any) -> VeiledClaim:
    return VeiledClaim(**{each.name: getattr(claim, each.name) for each in fields(claim)})


def draft(request: Request[Any], source: Source, engine: Engine) -> Plan:
    made = OURS.draft(request, source, engine)
    return replace(made, claim=veiled(made.claim))


def of_ours(question: Callable[..., Any]) -> Callable[..., Any]:
    """A question about a release, put to noisy-rows."""

    def answer(release: Release, *more: Any) -> Any:
        return question(replace(release, certificate=ours(release.certificate)), *more)

    return answer


assert OURS.meaning is not None
MECHANISM = replace(
    OURS,
    name=NAME,
    title="noisy-rows by another name",
    draft=draft,
    read_claim=lambda document: veiled(OURS.read_claim(ours(document))),
    check=of_ours(OURS.check),
    check_features=of_ours(OURS.check_features),
    describe=lambda document: OURS.describe(ours(document)),
    untested=None,
    sections={SECTION: OURS.sections["row_noise"]},
    files={"aggregates": of_ours(OURS.files["aggregates"])},
    meaning=of_ours(OURS.meaning),
)
