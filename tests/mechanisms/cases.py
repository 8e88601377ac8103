"""Every certified mechanism with a small plan, and forgers that know the format."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import Plan, Release
from labeldp.data.source import Source
from labeldp.mechanisms import bags
from labeldp.mechanisms.registry import mechanism_named, read_claim
from labeldp.releases.certificate import FloorOutcome, claimed_fields, seal
from labeldp.releases.tables import table_digest
from tests.plans import plan
from tests.seeds import seeds_from
from tests.tables import source

FLAG, SAMPLED, NOISY = "wtd-flag", "sampled-wtd-flag", "sampled-noisy-wtd-lag"
SHAPED, EVERY = "shaped-flag", "noisy-rows"
ROWS = 400


@dataclass(frozen=True)
class Case:
    """What the contract must know of a mechanism beside its declaration."""

    hides: tuple[str, str]
    """Where the certificate says how much hides the labels: a section, and its field."""
    small: dict[str, Any] = field(default_factory=dict)
    """Options that make planning quick."""
    foreign: dict[str, Any] = field(default_factory=dict)
    """Options of others, which it refuses by name."""
    mixed: dict[str, Any] = field(default_factory=dict)
    """Options by which its bags hold rows of every kind, for forgers."""
    tried: dict[str, Any] = field(default_factory=dict)
    """Options of the release whose fields are altered one by one."""
    unnoticed: set[tuple[str, ...]] | None = field(default_factory=set)
    """Fields which the claim does not rest on, so that `verify` sees no forger there; None: they
    are altered in tests of its own."""
    drawn: tuple[str, ...] = ()
    """Sections that follow from labels and noise."""
    slow: bool = False
    """Whether it takes long to alter every field."""


CASES = {
    FLAG: Case(
        hides=("floor", "needed"),
        small={"bags": 40},
        foreign={
            "bag_size": 10,
            "over_draw": True,
            "noise_std": 1.0,
            "noisy_fraction": 0.0,
            "bag_seed": 0,
        },
        unnoticed=None,
    ),
    SHAPED: Case(
        hides=("shape", "noise_std"),
        foreign={
            "bags": 10,
            "floor": "added",
            "max_megabytes": 1.0,
            "bag_size": 3,
        },
        unnoticed={("shape", "gap"), ("shape", "passes")},
        drawn=("second_moment",),
    ),
    EVERY: Case(
        hides=("row_noise", "scale"),
        foreign={"bags": 10, "floor": "added", "residual_share": 0.1, "noise_std": 1.0},
    ),
    SAMPLED: Case(
        hides=("floor", "needed"),
        small={"bags": 12, "bag_size": 32},
        foreign={"noise_std": 1.0, "noisy_fraction": 0.5},
        tried={"bags": 12, "bag_size": 24},
        unnoticed={("draw", "random")},
        slow=True,
    ),
    NOISY: Case(
        hides=("noise", "std"),
        small={"bags": 20, "bag_size": 16},
        foreign={"floor": "added", "residual_ms": 1.0},
        mixed={"noisy_fraction": 0.6},
        tried={"bags": 12, "bag_size": 24},
        unnoticed={("draw", "random")},
    ),
}
"""One entry for each mechanism: without, the contract fails."""
DRAWN = [name for name in CASES if "draw" in mechanism_named(name).sections]

Certificate = dict[str, Any]


def small_plan(mechanism: str, rows: Source | None = None, **options: Any) -> Plan:
    """A plan of the mechanism on a small table."""
    given = {"epsilon": 1.0, "delta": 1e-5, **CASES[mechanism].small, **options}
    return plan(rows or source(ROWS), mechanism=mechanism, **given)


@cache
def small_release(mechanism: str) -> tuple[Plan, Release]:
    """A plan and its release, made once; tests must not change them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bags, "fresh_seed", seeds_from(mechanism))
        made = small_plan(mechanism)
    return made, made.release(source(ROWS))


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


def compacted(release: Release) -> Release:
    """A release in the form of old compact ones: d+1 rows, the triangle that QR makes of it."""
    units = release.features.kept_scales
    triangle = np.linalg.qr(np.column_stack([release.design / units, release.labels]))[1]
    triangle *= np.where(np.diag(triangle) < 0, -1.0, 1.0)[:, None]
    step = math.ldexp(1.0, release.certificate["numerics"]["grid_exponent"])
    labels = np.rint(triangle[:, -1] / step) * step + 0.0
    columns = [*(triangle[:, :-1] * units).T, labels]
    table = pa.Table.from_arrays(list(map(pa.array, columns)), schema=release.table.schema)
    form = replace(release, certificate=release.certificate | {"form": "compact"})
    return forged_tables(form, table)


def saved(release: Release, folder: Path) -> Path:
    """Where the release was written."""
    release.save(folder)
    return folder
