"""Carrying out noisy-rows: labels are read in a stream, and leave by the door as they come.

A label is an integer on the public label grid and the noise has a public scale, so every mean is
exact. Rows are drawn in the order of the table from one stream of random words, so batches of any
size give the same numbers. Nothing is published unless the stream ends and all labels were as
declared.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.data.source import Source
from labeldp.errors import DataError, PlanError
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelGrid
from labeldp.features.raw_rows import raw_columns
from labeldp.mechanisms.design_summary import most_rows
from labeldp.mechanisms.noisy_rows.claim import NoisyRowsClaim
from labeldp.mechanisms.noisy_rows.noise import RowNoise
from labeldp.mechanisms.noisy_rows.plan import check_numbered
from labeldp.mechanisms.plans import OTHER_FEATURES, Plan
from labeldp.passes.engine import Engine
from labeldp.release.pending import PendingRelease
from labeldp.release.rows import row_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness


def run(plan: Plan, source: Source, engine: Engine, randomness: Randomness) -> PendingRelease:
    """One pass over features, to see that they are the plan's, then one over labels, as drawn."""
    claim, features = plan.claim, plan.features
    assert isinstance(claim, NoisyRowsClaim)
    check_numbered(source)
    plan.bind(
        source,
        claim.bags == claim.rows,
        claim.rank == len(features.names),
        claim.intercept is (features.constant is not None),
    )
    randomness.spend()
    state = source.state()
    plan.check_sums(engine.run_pass("feature sums", source, GramAccumulator(features)).digest())
    person = most_rows(features, source, engine)
    if person is not None and person.rows > claim.protected:
        raise PlanError(OTHER_FEATURES)
    label = source.label or "label"
    schema = row_schema(features, label, with_features=claim.with_features)

    def drawn() -> Generator[pa.RecordBatch, None, None]:
        yield from _draw(plan, claim, source, engine, randomness, schema)
        if source.state() != state:
            raise DataError("the files changed while they were read; leave them alone, run again")

    certify = plan.certifier(None, source, claim.noise.grid, randomness)
    return PendingRelease(features, schema, drawn(), certify)


def _draw(
    plan: Plan,
    claim: NoisyRowsClaim,
    source: Source,
    engine: Engine,
    randomness: Randomness,
    schema: pa.Schema,
) -> Generator[pa.RecordBatch, None, None]:
    check, rows = source.label_check(), 0
    columns = plan.features.columns if claim.with_features else ()
    with engine.progress("noisy rows", claim.rows) as advance:
        for numbers, batch, labels in source.numbered_batches(columns, check):
            assert labels is not None
            raw = raw_columns(plan.features, batch).columns if claim.with_features else []
            noisy = noisy_labels(labels, plan.labels, claim.noise, randomness)
            yield pa.RecordBatch.from_arrays(
                [arrow_numbers(numbers), *raw, arrow_numbers(noisy)], schema=schema
            )
            rows += len(numbers)
            advance(len(numbers))
    check.finish()
    if rows != claim.rows:
        raise PlanError(OTHER_FEATURES)


def noisy_labels(
    values: NDArray[np.float64], labels: LabelGrid, noise: RowNoise, randomness: Randomness
) -> NDArray[np.float64]:
    """round(y + b·noise) to the public grid, y on the label grid."""
    codes = labels.codes(values) + labels.centre
    scale = math.ldexp(noise.scale, -labels.exponent)

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        from flint import arb, fmpz

        return arb(fmpz(int(codes[row]))), arb(scale)

    cells = rounded_noise.sample_rounded(
        codes,
        np.zeros(len(codes)),
        (scale, scale),
        noise.grid - labels.exponent,
        randomness,
        exact,
        noise.law.door,
    )
    return np.ldexp(cells, labels.exponent)
