"""Checking releases that rest on a residual floor: the floor itself, and the labels above it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from labeldp.accounting.residual_floor import FloorMode, added_variance
from labeldp.mechanisms.checks import (
    FAR,
    SCARCE,
    check_grid,
    check_label_exponent,
    check_numbers,
    check_reach,
    check_scatter,
)
from labeldp.mechanisms.design_summary import ROUNDING
from labeldp.mechanisms.noise_checks import NORMAL, check_values
from labeldp.mechanisms.residual_floor import FloorClaim
from labeldp.release.files import Release
from labeldp.release.pending import AGGREGATES, FEATURES
from labeldp.sampling import rounded_noise

_TOLERANCE = 1e-6


def check_floor(claim: FloorClaim, floor: dict[str, Any]) -> Iterator[str]:
    """Where the floor that a certificate shows is not the one its claim needs."""
    measured, shown, added = floor["measured"], floor["lower_bound"], floor["added_variance"]
    present = {claim.measurement is not None, measured is not None, shown is not None}
    if present != {claim.mode.measures}:
        yield f"certificate: a {claim.mode.value} floor and its measurement do not go together"
        return
    bound, due = 0.0, claim.floor if claim.mode is FloorMode.ADDED else 0.0
    if claim.measurement is not None:
        grid = rounded_noise.grid_for(claim.measurement.noise(claim.facts.width))
        bound = claim.measurement.lower_bound(measured, math.ldexp(0.5, grid), claim.facts.width)
        due = added_variance(claim.floor, bound)
        if math.fmod(measured, math.ldexp(1.0, grid)) != 0:
            yield "certificate: floor.measured is off its public grid: its low bits may leak"
        noise, most = claim.measurement.noise(claim.facts.width), claim.residual_ms(None)[1][1]
        if not -FAR * noise <= measured <= math.sqrt(most * claim.facts.rows) + FAR * noise:
            yield "certificate: floor.measured is impossible: no labels in their range leave that"
        if not _close(shown, bound):
            yield f"certificate: floor.lower_bound should be {bound:.9g}"
        if claim.mode is FloorMode.MEASURED and due > 0:
            yield "certificate: the floor that was measured is below the one needed"
            due = 0.0
    if not _close(added, due) or added < due * (1 - 1e-9):
        yield f"certificate: floor.added_variance should be {due:.9g}"


def _close(shown: float, expected: float) -> bool:
    return math.isclose(shown, expected, rel_tol=_TOLERANCE, abs_tol=1e-300)


def check_floor_release(release: Release, claim: FloorClaim, *, scatter: bool) -> Iterator[str]:
    """Where the published numbers contradict a claim that rests on a floor.

    Labels must stand on the public grid and, with `scatter`, vary about their fit as the floor
    demands.
    """
    certificate, features = release.certificate, release.features
    has_constant = features.intercept and features.names[0] == features.all_names[0]
    if has_constant is not certificate["constant_in_span"]:
        yield f"{FEATURES} and the certificate differ on whether there is an intercept"
    if claim.facts.inflation < ROUNDING:
        yield f"certificate: the inflation must be at least {ROUNDING:.3g}, the sampler's rounding"
    yield from check_floor(claim, certificate["floor"])
    exponent = certificate["numerics"]["label_exponent"]
    yield from check_label_exponent(claim.facts.label_range, features.intercept, exponent)
    unsound = list(check_numbers(release))
    yield from unsound
    if unsound:
        return
    yield from check_grid(release, rounded_noise.grid_for(math.sqrt(claim.floor)))
    reach = max(map(abs, claim.facts.label_range))
    added = max(0.0, certificate["floor"]["added_variance"])
    yield from check_reach(release, claim.facts.rows * reach**2 + added)
    if scatter:
        yield from check_scatter(release, claim.floor)
    if scatter and certificate["form"] == "rows":
        scale, labels = math.sqrt(claim.floor), release.labels
        for problem in check_values(NORMAL, scale, rounded_noise.grid_for(scale), labels):
            yield f"{AGGREGATES} has {problem}"


def untested_floor(release: Release, *, scatter: bool) -> Iterator[str]:
    """Where labels without noise would pass the check of their scatter."""
    freedom = release.bags - len(release.features.names)
    if not scatter:
        yield (
            "whether labels vary as the floor demands: bags of unlike residuals have no floor in "
            "common"
        )
    elif freedom <= SCARCE:
        yield (
            f"whether labels vary as the floor demands: {release.bags} aggregates of "
            f"{len(release.features.names)} columns leave too little to see it"
        )
