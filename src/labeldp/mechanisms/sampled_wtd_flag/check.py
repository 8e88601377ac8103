"""Checking a sampled-wtd-FLAg release: its bags, floor, grid and scatter, and its features."""

from __future__ import annotations

import math
from collections.abc import Iterator

from labeldp.errors import DataError, PlanError
from labeldp.mechanisms.sampled_wtd_flag.bagwise import bag_facts
from labeldp.mechanisms.sampled_wtd_flag.claim import read_claim
from labeldp.mechanisms.workbench import (
    BagRows,
    Engine,
    LabelGrid,
    Release,
    Source,
    check_floor_release,
    check_members,
    feature_bound,
)


def check(release: Release) -> Iterator[str]:
    """Bags are those of the seed, and the numbers are what the claim makes them."""
    claim = read_claim(release.certificate)
    yield from check_members(release.bag_table, claim.draw)
    bound = feature_bound(release.features)
    if claim.promise is not None and claim.promise.feature_bound < bound:
        yield "certificate: the features may have longer rows than draw.feature_bound"
    if not math.isclose(claim.floor, claim.expected_floor, rel_tol=1e-9):
        yield f"certificate: floor.needed should be {claim.expected_floor:.9g}"
    yield from check_floor_release(release, claim, scatter=claim.promise is None)


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether the bags' rows have the features, ranks and leverages of the certificate."""
    certificate, features = release.certificate, release.features
    claim = read_claim(certificate)
    rows = BagRows(features, claim.draw)
    try:
        rows.read(source, engine)
    except DataError as problem:
        yield str(problem)
        return
    if rows.digest() != certificate["digests"]["feature_sums"]:
        yield "the features of the bags' rows are not those of the release"
        return
    labels = LabelGrid.for_range(claim.facts.label_range, intercept=features.intercept)
    try:
        facts = bag_facts(rows, features, labels, claim.draw, adds=claim.mode.adds, engine=engine)
    except PlanError as problem:
        yield str(problem)
        return
    leverage, claimed = facts.max_leverage or 0.0, claim.facts.max_leverage
    if claimed is not None and claimed < leverage * (1 - 1e-8):
        yield f"a row has leverage {leverage:.6g} in its bag, the certificate says {claimed:.6g}"
    if (claim.facts.features or 0) < (facts.features or 0):
        yield f"a bag has rank {facts.features}, the certificate says {claim.facts.features}"
    if claim.facts.inflation < facts.inflation * (1 - 1e-6):
        yield "the certificate's inflation is too small for these features"
