"""Checking a sampled-noisy-wtd-LAg release: bags, weights, noise and grid, and its features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labeldp.errors import DataError, LabelDPError
from labeldp.mechanisms.sampled_noisy_wtd_lag.claim import NoisyLagClaim, read_claim
from labeldp.mechanisms.sampled_noisy_wtd_lag.run import label_grid, planned_weights
from labeldp.mechanisms.sampled_noisy_wtd_lag.weights import Weights
from labeldp.mechanisms.workbench import (
    AGGREGATES,
    BAGS,
    FEATURES,
    NOISE,
    BagRows,
    Engine,
    Release,
    Source,
    check_grid,
    check_label_exponent,
    check_members,
    check_numbers,
)

_ROUNDING = 1e-9


def check(release: Release) -> Iterator[str]:
    """Bags and weights are those of the seed, and their noise is what the claim says."""
    claim, numerics = read_claim(release.certificate), release.certificate["numerics"]
    if claim.centred is not release.features.intercept:
        yield f"{FEATURES} and the certificate differ on whether there is an intercept"
    problems = list(check_members(release.bag_table, claim.draw))
    yield from problems
    if problems or release.bag_table is None:
        return
    weights = Weights.from_table(release.bag_table, claim.draw)
    if not np.isfinite(weights.values).all() or release.bag_table.column("noisy").null_count:
        yield f"{BAGS} has gaps, or weights that are not numbers"
        return
    if claim.mu is not None:
        mu = weights.largest_mu(claim.width, claim.noise_std)
        if not mu <= claim.mu * (1 + _ROUNDING):
            yield f"{BAGS}: some bag has μ = {mu:.6g}, the certificate says {claim.mu:.6g}"
    if claim.noisy_column is None:
        yield from _planned(claim, weights, None)
    noise = weights.noise(claim.noise_std)
    shown = release.noise
    if len(shown) != len(noise) or not np.allclose(shown, noise, rtol=_ROUNDING, atol=0.0):
        yield f"{AGGREGATES}: {NOISE} is not the noise of the bags"
        return
    centred, exponent = release.features.intercept, numerics["label_exponent"]
    yield from check_label_exponent(claim.label_range, centred, exponent)
    unsound = list(check_numbers(release))
    yield from unsound or check_grid(release, label_grid(noise))


def _planned(claim: NoisyLagClaim, weights: Weights, source: Source | None) -> Iterator[str]:
    """Whether weights and noisy rows follow from the seed: they could carry labels otherwise."""
    try:
        expected = planned_weights(claim, source)
    except LabelDPError as problem:
        yield f"{BAGS}: with these noisy rows the draw cannot be repeated: {problem}"
        return
    if not np.array_equal(weights.noisy, expected.noisy):
        yield f"{BAGS} does not mark the noisy rows that the plan chose"
    elif not np.allclose(weights.values, expected.values, rtol=_ROUNDING, atol=_ROUNDING):
        yield f"{BAGS} does not hold the weights that the certificate's seed gives"


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether the bags' rows have the features of the release, and the noisy ones are right."""
    claim = read_claim(release.certificate)
    rows = BagRows(release.features, claim.draw)
    try:
        rows.read(source, engine)
    except DataError as problem:
        yield str(problem)
        return
    if rows.digest() != release.certificate["digests"]["feature_sums"]:
        yield "the features of the bags' rows are not those of the release"
        return
    if claim.noisy_column is not None and release.bag_table is not None:
        yield from _planned(claim, Weights.from_table(release.bag_table, claim.draw), source)
