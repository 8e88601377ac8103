"""Every certified mechanism with a small plan, and forgers that know the format."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp import Release
from labeldp.mechanisms import mechanism_names, read_claim
from labeldp.mechanisms.planning import Plan
from labeldp.release import FloorOutcome, claimed_fields, seal
from labeldp.release.digest import table_digest
from labeldp.source import Source
from tests.plans import plan
from tests.tables import source

FLAG, SAMPLED, NOISY = "wtd-flag", "sampled-wtd-flag", "sampled-noisy-wtd-lag"
SHAPED, EVERY = "shaped-flag", "noisy-rows"
ROWS = 400
SMALL: dict[str, dict[str, Any]] = {
    FLAG: {"bags": 40},
    SHAPED: {},
    EVERY: {},
    SAMPLED: {"bags": 12, "bag_size": 32},
    NOISY: {"bags": 20, "bag_size": 16},
}
"""Options that make planning quick. A mechanism without an entry fails the contract."""
DRAWN = [SAMPLED, NOISY]
PURE = [EVERY, SHAPED]
"""Those whose small plan holds with δ = 0, so that no smaller δ is too small."""

Certificate = dict[str, Any]


def small_plan(mechanism: str, rows: Source | None = None, **options: Any) -> Plan:
    """A plan of the mechanism on a small table."""
    given = {"epsilon": 1.0, "delta": 1e-5, **SMALL[mechanism], **options}
    return plan(rows or source(ROWS), mechanism=mechanism, **given)


def forged_claim(release: Release, change: Callable[[Certificate], None]) -> Release:
    """A release whose certificate was changed, with all that follows from it and its seal."""
    certificate = copy.deepcopy(release.certificate)
    change(certificate)
    floor = certificate["floor"]
    claimed = claimed_fields(read_claim(certificate), FloorOutcome.of(certificate))
    if floor is not None:
        shown = {k: floor[k] for k in ("measured", "lower_bound", "added_variance")}
        claimed["floor"] |= shown
    return replace(release, certificate=seal(certificate | claimed))


def forged_tables(release: Release, table: pa.Table | None = None, **files: pa.Table) -> Release:
    """A release with other tables, its digests and seal renewed."""
    table = table or release.table
    certificate = copy.deepcopy(release.certificate)
    renewed = {"aggregates": table, **files}.items()
    certificate["digests"] |= {name: table_digest(each) for name, each in renewed}
    files = {**release.files, **files}
    return replace(release, table=table, certificate=seal(certificate), files=files)


def saved(release: Release, folder: Path) -> Path:
    """Where the release was written."""
    release.save(folder)
    return folder


assert set(SMALL) == set(mechanism_names())
