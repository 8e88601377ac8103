"""Checking a release of noisy rows: its noise, its grid, its numbers, and its rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from labeldp.arrow_util import arrow_numbers, numpy_numbers
from labeldp.data.source import Source
from labeldp.exact.gram import GramAccumulator
from labeldp.features.encoder import Encoder
from labeldp.features.raw_rows import raw_columns
from labeldp.mechanisms.checks import check_grid, check_label_exponent, other_table
from labeldp.mechanisms.design_summary import most_rows
from labeldp.mechanisms.noise_checks import (
    LAPLACE,
    NORMAL,
    NoisyLabels,
    check_noise,
    untested_noise,
)
from labeldp.mechanisms.noisy_rows.claim import NoisyRowsClaim, read_claim
from labeldp.mechanisms.noisy_rows.noise import least_noise
from labeldp.passes.engine import Engine
from labeldp.release.digest import Digest, table_digest
from labeldp.release.files import ROW, Release
from labeldp.release.pending import AGGREGATES, FEATURES
from labeldp.release.rows import labelled_rows

_SPENT = 1e-6
"""Of the scale, what rounding may make of it."""
_LAWS = {"laplace": LAPLACE, "gaussian": NORMAL}


def check(release: Release) -> Iterator[str]:
    """Where the published numbers contradict the claim."""
    claim, features = read_claim(release.certificate), release.features
    if claim.intercept is not (features.constant is not None):
        yield f"{FEATURES} and the certificate differ on whether there is an intercept"
    if claim.bags != claim.rows:
        yield f"certificate: {claim.bags} labels are not those of {claim.rows} rows"
    exponent = release.certificate["numerics"]["label_exponent"]
    yield from check_label_exponent(claim.label_range, features.intercept, exponent)
    least = least_noise(claim.width, claim.protected, claim.epsilon, claim.delta)
    same = math.isclose(claim.noise.scale, least.scale, rel_tol=_SPENT)
    if claim.noise.name != least.name or not same:
        yield "certificate: the noise is not that of the budget"
    unsound = list(_check_numbers(release))
    yield from unsound or check_grid(release, claim.noise.grid)
    if not unsound:
        for problem in check_noise(_noisy_labels(claim), release.label_chunks(), claim.rows):
            yield f"{AGGREGATES} has {problem}"
        if not release.needs_rows:
            yield from _check_own_features(release)


def _check_numbers(release: Release) -> Iterator[str]:
    """Whether labels are numbers, and rows are named one after the other, a part at a time."""
    if not all(np.isfinite(labels).all() for labels in release.label_chunks()):
        yield f"{AGGREGATES} has values that are not numbers"
    last = -1
    for batch in release.table.select([ROW]).to_batches():
        numbers = numpy_numbers(batch.column(0))
        if batch.column(0).null_count or (np.diff(numbers, prepend=last) < 1).any():
            yield f"{AGGREGATES} does not name rows by increasing numbers"
            return
        last = int(numbers[-1]) if len(numbers) else last
    if release.certificate["labels"]["missing"] == "refused" and last >= release.table.num_rows:
        yield f"{AGGREGATES} leaves out rows, though none was dropped"


def _noisy_labels(claim: NoisyRowsClaim) -> NoisyLabels:
    low, high = claim.label_range
    return NoisyLabels(_LAWS[claim.noise.name], claim.noise.scale, low, high, claim.noise.grid)


def untested(release: Release) -> Iterator[str]:
    """What `check` cannot see."""
    claim = read_claim(release.certificate)
    yield from untested_noise(_noisy_labels(claim), release.label_chunks(), claim.rows)


def _check_own_features(release: Release) -> Iterator[str]:
    """Whether the features beside the labels are those that the certificate has the sums of."""
    encode, total = Encoder(release.features), GramAccumulator(release.features).new()
    for batch, _ in labelled_rows(release):
        total.add(encode(batch))
    if total.result().digest() != release.certificate["digests"]["feature_sums"]:
        yield f"{AGGREGATES} has features that are not those of the certificate"


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether rows, their features and their persons are the table's."""
    claim, features = read_claim(release.certificate), release.features
    gram = engine.run_pass("feature sums", source, GramAccumulator(features))
    if (problem := other_table(release, gram)) is not None:
        yield problem
        return
    person = most_rows(features, source, engine)
    if person is not None and person.rows > claim.protected:
        yield (f"a person has {person.rows} rows, the certificate says {claim.protected} at most")
    yield from _check_rows(release, source)


def _check_rows(release: Release, source: Source) -> Iterator[str]:
    """Whether numbers and raw columns are the table's, row by row."""
    features, with_features = release.features, not release.needs_rows
    columns = features.columns if with_features else ()
    shown = release.table.select([ROW, *columns])
    with Digest(shown.schema) as digest:
        for numbers, batch, _ in source.numbered_batches(columns):
            raw = raw_columns(features, batch).columns if with_features else []
            rows = [arrow_numbers(numbers), *raw]
            digest.add(pa.Table.from_arrays(rows, schema=shown.schema))
        if digest.total() != table_digest(shown):
            yield f"{AGGREGATES} has row numbers or features that are not the table's"
