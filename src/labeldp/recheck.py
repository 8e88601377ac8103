"""Recheck what a certificate says about the features, for whoever holds them.

Features are public, so anyone with the table (labels not needed) can confirm the row count,
the independent columns, the largest leverage and the allowance for rounding: the facts that
`verify` otherwise has to take from the certificate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labeldp.engines import Engine
from labeldp.features import FeatureMap
from labeldp.release import Release
from labeldp.source import Source, scan
from labeldp.statistics import factorise
from labeldp.survey import inflation_for


def public_rows(release: Release, data: Any) -> Source:
    """The rows a release was made from, its feature columns only.

    If rows without a label were dropped, the label column is needed to drop them again, and
    only for that.
    """
    labels = release.certificate["labels"]
    dropped = labels["missing"] == "rows dropped"
    features: FeatureMap = release.features
    return scan(
        data,
        label=labels["column"] if dropped else None,
        features=features.columns,
        categorical=tuple(column.name for column in features.categorical),
        numeric=tuple(column.name for column in features.numeric),
        drop_missing_labels=dropped,
    )


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Where the features disagree with the certificate."""
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
