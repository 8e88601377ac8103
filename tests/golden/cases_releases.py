"""Releases drawn with experiment randomness: digests of their numbers, and their certificates."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp import LabelDPError, plan
from tests.golden import inside, tables
from tests.golden.cases_plans import (
    BUDGET,
    FLAG,
    LARGE_BAGS,
    NOISY,
    ROOMY,
    SAMPLED,
    Options,
    without_words,
)

OPTIONS: dict[str, tuple[str, Options]] = {
    **{
        f"wtd-flag {name}": ("five thousand", {"mechanism": FLAG, "bags": 70} | options)
        for name, options in {
            "measured+added": {},
            "added": {"floor": "added"},
            "declared": {"floor": "declared", "residual_ms": 5.0},
            "worst case": {"accountant": "exact-worst-case"},
            "two blocks": {"bags": 20_000},
            "no intercept": {"intercept": False},
        }.items()
    },
    "wtd-flag wide": ("wide", {"mechanism": FLAG, "bags": 150}),
    "wtd-flag missing values": ("missing values", {"mechanism": FLAG, "bags": 50}),
    "wtd-flag tiny": ("tiny", {"mechanism": FLAG, "bags": 3}),
    **{
        f"sampled-wtd-flag {name}": (
            "five thousand",
            {"mechanism": SAMPLED, "bags": 12, "bag_size": 100} | options,
        )
        for name, options in {
            "measured+added": {},
            "added": {"floor": "added"},
            "declared": {"floor": "declared", "residual_ms": 4.0, **ROOMY, **LARGE_BAGS},
            "worst case": {"accountant": "exact-worst-case", "floor": "added"},
            "over-draw": {"over_draw": True},
            "seeded": {"bag_seed": 3},
        }.items()
    },
    **{
        f"sampled-noisy-wtd-lag {name}": (
            "five thousand",
            {"mechanism": NOISY, "bags": 20, "bag_size": 60} | options,
        )
        for name, options in {
            "given bags": {},
            "over-draw": {"over_draw": True},
            "fraction": {"noisy_fraction": 0.5},
            "worst case": {"accountant": "exact-worst-case"},
        }.items()
    },
}


def column_digests(table: pa.Table) -> dict[str, str]:
    """SHA-256 of every column's values as little-endian bytes."""
    arrays = {name: table.column(name).to_numpy() for name in table.column_names}
    return {name: hashlib.sha256(_bytes(array)).hexdigest() for name, array in arrays.items()}


def _bytes(array: np.ndarray[Any, Any]) -> bytes:
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def drawn(name: str, seed: int = 1) -> dict[str, Any]:
    """What was published; of the certificate all but the version, and the seal that covers it."""
    table, options = OPTIONS[name]
    rows = tables.source(table)
    try:
        made = plan(rows, winsor=0, force=True, **(BUDGET | options))
        found = inside.release(made, rows, seed)
    except LabelDPError as refusal:
        return {"refused": f"{type(refusal).__name__}: {refusal}"}
    certificate = inside.published_as_recorded(found)
    certificate = {k: v for k, v in certificate.items() if k not in ("software", "seal")}
    return {
        "rows": found.table.num_rows,
        "columns": column_digests(found.table),
        "first labels": found.labels[:3].tolist(),
        "bags": None if found.bag_table is None else column_digests(found.bag_table),
        "certificate": without_words(certificate),
    }


CASES = {name: partial(drawn, name) for name in OPTIONS}
