"""noisy-rows under another name, its section of the certificate too, from outside the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import pyarrow as pa

from labeldp.data.source import Source
from labeldp.display import Facts
from labeldp.mechanisms.base import Mechanism, MechanismPlan, RowLabels
from labeldp.mechanisms.noisy_rows import NoisyRows, NoisyRowsClaim
from labeldp.passes.engine import Engine
from labeldp.releases.files import Release
from labeldp.releases.pending import PendingRelease

NAME, SECTION = "veiled-rows", "veil"
OURS = NoisyRows()


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


def unveiled(release: Release) -> Release:
    return replace(release, certificate=ours(release.certificate))


def veiled(claim: Any) -> VeiledClaim:
    return VeiledClaim(**{each.name: getattr(claim, each.name) for each in fields(claim)})


class VeiledRows(Mechanism):
    """It asks noisy-rows for everything."""

    name = NAME
    Options = OURS.Options
    covers_persons = OURS.covers_persons
    allows_pure = OURS.allows_pure
    sections: ClassVar = {SECTION: OURS.sections["row_noise"]}

    def plan(self, request: Any, design: Any, source: Source, engine: Engine) -> MechanismPlan:
        made = OURS.plan(request, design, source, engine)
        return replace(made, mechanism=self, claim=veiled(made.claim))

    def run(self, plan: Any, source: Source, engine: Engine, randomness: Any) -> PendingRelease:
        return OURS.run(plan, source, engine, randomness)

    def claim_from_json(self, document: dict[str, Any]) -> VeiledClaim:
        return veiled(OURS.claim_from_json(ours(document)))

    def check(self, release: Release) -> Iterator[str]:
        return OURS.check(unveiled(release))

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        return OURS.check_features(unveiled(release), source, engine)

    def describe(self, document: dict[str, Any]) -> Facts:
        return OURS.describe(ours(document))

    def table_schemas(self, release: Release) -> dict[str, pa.Schema]:
        return OURS.table_schemas(unveiled(release))

    def label_model(self, release: Release) -> RowLabels:
        return OURS.label_model(unveiled(release))


MECHANISM = VeiledRows()
