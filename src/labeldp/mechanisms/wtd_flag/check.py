"""Checking a wtd-FLAg release: its floor, its grid, its scatter, and its features."""

from __future__ import annotations

from collections.abc import Iterator

from labeldp.mechanisms.workbench import (
    Engine,
    GramSum,
    LeverageScan,
    Release,
    Source,
    check_floor_release,
    factorise,
    inflation_for,
)
from labeldp.mechanisms.wtd_flag.claim import read_claim


def check(release: Release) -> Iterator[str]:
    """Where the published numbers contradict the claim."""
    yield from check_floor_release(release, read_claim(release.certificate), scatter=True)


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether rows, columns, leverage and the allowance for rounding are the table's."""
    certificate = release.certificate
    gram = engine.fold("feature sums", source, GramSum(release.features))
    if gram.rows != certificate["rows"]:
        yield f"the table has {gram.rows} rows, the certificate says {certificate['rows']}"
        return
    if gram.digest() != certificate["digests"]["feature_sums"]:
        yield "the table's features are not those of the release"
        return
    factor = factorise(gram, release.features)
    if factor.kept != release.features.kept_columns:
        yield "the released columns are not independent in the table"
        return
    leverage = engine.fold("leverages", source, LeverageScan(release.features, factor))
    claimed = certificate["max_leverage"]
    if claimed is not None and claimed < leverage.maximum:
        yield f"the largest leverage is {leverage.maximum:.6g}, the certificate says {claimed:.6g}"
    if certificate["inflation"] < inflation_for(factor.defect):
        yield "the certificate's inflation is too small for these features"
