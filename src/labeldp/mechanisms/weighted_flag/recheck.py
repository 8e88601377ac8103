"""Checking a wtd-FLAg release: its floor, its grid, its scatter, and its features."""

from __future__ import annotations

import math
from collections.abc import Iterator

from labeldp import door
from labeldp.engines import Engine
from labeldp.mechanisms.checks import check_grid, check_label_exponent, check_numbers, check_scatter
from labeldp.mechanisms.floors import check_floor
from labeldp.mechanisms.weighted_flag.claim import read_claim
from labeldp.release import FEATURES, Release
from labeldp.source import Source
from labeldp.statistics import factorise
from labeldp.survey import ROUNDING, inflation_for


def check(release: Release) -> Iterator[str]:
    """Labels stand on the public grid and vary about their fit as the floor demands."""
    certificate, features = release.certificate, release.features
    claim = read_claim(certificate)
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
    yield from check_grid(release, door.grid_for(math.sqrt(claim.floor)))
    yield from check_scatter(release, claim.floor)


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether rows, columns, leverage and the allowance for rounding are the table's."""
    certificate = release.certificate
    gram = engine.feature_gram(source, release.features)
    if gram.rows != certificate["rows"]:
        yield f"the table has {gram.rows} rows, the certificate says {certificate['rows']}"
        return
    if gram.digest() != certificate["digests"]["feature_sums"]:
        yield "the table's features are not those of the release"
        return
    factor = factorise(gram, release.features)
    if factor.kept != release.features.kept:
        yield "the released columns are not independent in the table"
        return
    leverage = engine.leverage(source, release.features, factor)
    claimed = certificate["max_leverage"]
    if claimed is not None and claimed < leverage.maximum:
        yield f"the largest leverage is {leverage.maximum:.6g}, the certificate says {claimed:.6g}"
    if certificate["inflation"] < inflation_for(factor):
        yield "the certificate's inflation is too small for these features"
