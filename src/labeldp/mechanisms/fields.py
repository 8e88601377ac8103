"""Fields of a certificate that every run fills in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from labeldp._random import GENERATOR, KEY_BITS, Randomness
from labeldp.errors import PlanError
from labeldp.files import json_digest
from labeldp.mechanisms.protocol import Draft
from labeldp.release import EXPERIMENT, FloorOutcome, certify
from labeldp.release.digest import table_digest
from labeldp.source import Source
from labeldp.statistics import LabelGrid


def certifier(
    draft: Draft,
    outcome: FloorOutcome | None,
    source: Source,
    grid: int,
    randomness: Randomness,
    bag_table: pa.Table | None = None,
) -> Callable[[str], dict[str, Any]]:
    """What makes the certificate of a run once the digest of its aggregates is known."""

    def certificate(digest: str) -> dict[str, Any]:
        return certify(
            draft.claim,
            outcome,
            **_run_fields(source, draft.labels, grid, randomness),
            digests={
                "aggregates": digest,
                "bags": None if bag_table is None else table_digest(bag_table),
                "features": json_digest(draft.features.to_json()),
                "feature_sums": draft.feature_sums,
            },
        )

    return certificate


def _run_fields(
    source: Source, labels: LabelGrid, grid: int, randomness: Randomness
) -> dict[str, Any]:
    """How numbers were rounded, drawn and read: all of it public, fixed before labels are read."""
    return {
        "numerics": {
            "aggregate_labels": "exactly rounded Gaussians on a public grid",
            "grid_exponent": grid,
            "label_exponent": labels.exponent,
            "feature_sums": "exact integers",
            "residual": "rigorous enclosure",
        },
        "randomness": {
            "generator": GENERATOR,
            "key_bits": KEY_BITS if randomness.private else 0,
            "private": randomness.private,
            "warning": None if randomness.private else EXPERIMENT,
        },
        "labels": {
            "column": source.label,
            "outside_range": "clipped" if source.clip else "refused",
            "missing": "rows dropped" if source.drop_missing_labels else "refused",
        },
        "ledger": None,
    }


def check_label_range(labels: LabelGrid, source: Source) -> None:
    """The plan is for the labels of this source."""
    if source.label_range != (labels.low, labels.high):
        raise PlanError(
            f"the plan is for labels from {labels.low:g} to {labels.high:g}; "
            "scan the table with that label range"
        )


OTHER_FEATURES = "the features are not those of the plan; plan again on this table"
CONTRADICTION = "the plan contradicts itself; plan again"
