"""Releases that tests draw themselves, without privacy, to be as plain as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.data.source import scan
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.mechanisms.sampled_noisy_wtd_lag import WEIGHTED
from labeldp.releases.files import Release
from labeldp.releases.pending import aggregate_batch, aggregate_schema


def features_of(table: pa.Table, *, intercept: bool = True) -> FeatureMap:
    """A constant, "age" and "hours" centred and scaled, and a one-hot column of "job"."""
    return fit_features(scan(table.select(["age", "hours", "job"])), intercept=intercept)


def certificate(features: FeatureMap, bags: int, mechanism: str) -> dict[str, Any]:
    """What a learner reads of it."""
    return {
        "mechanism": mechanism,
        "bags": bags,
        "bag_size": features.rows,
        "label_range": [-1e3, 1e3],
        "floor": {"added_variance": 0.0},
    }


def release_of(
    features: FeatureMap, design: NDArray[np.float64], labels: NDArray[np.float64]
) -> Release:
    """Aggregates as a release."""
    batch = aggregate_batch(aggregate_schema(features, "pay"), design, labels)
    said = certificate(features, len(labels), "wtd-flag")
    return Release(pa.Table.from_batches([batch]), features, said)


def bag_release_of(
    features: FeatureMap,
    members: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    labels: NDArray[np.float64],
) -> Release:
    """Labels aggregated alone, in the shape of sampled-noisy-wtd-LAg; every label as noisy."""
    bag, row, weight = members
    columns = [bag.astype(np.int32), row, weight, np.ones(len(bag), dtype=bool)]
    bag_table = pa.Table.from_arrays([pa.array(c) for c in columns], schema=WEIGHTED)
    table = pa.table({"noise_std": np.ones(len(labels)), "label:y": labels})
    said = certificate(features, len(labels), "sampled-noisy-wtd-lag")
    return Release(table, features, said, {"bags": bag_table})


def pay_table() -> pa.Table:
    """400 rows with an exactly collinear one-hot block and heavy-tailed labels in "pay".

    Numbers are in units of 2⁻¹⁰, which feature maps do not round.
    """
    rng = np.random.default_rng(2)
    age, hours = (np.round(1024 * rng.normal(*law, 400)) / 1024 for law in ((40, 12), (35, 0.25)))
    job = rng.choice(["cook", "nurse", "smith"], 400, p=[0.6, 0.3, 0.1])
    pay = 3 + 0.5 * age - 2 * hours + 4 * (job == "smith") + rng.standard_t(2.5, 400)
    return pa.table({"age": age, "hours": hours, "job": job, "pay": pay})


def draw_release(
    table: pa.Table, bags: int, seed: int | None, features: FeatureMap | None = None
) -> Release:
    """G·R; with seed None, the aggregates' expected Gram."""
    features = features or features_of(table)
    A = np.column_stack([features.design(table), table["pay"].to_numpy()])
    R = np.linalg.qr(A, mode="r")
    if seed is None:
        rows = np.zeros((bags, A.shape[1]))
        rows[: len(R)] = np.sqrt(bags) * R
    else:
        rows = np.random.default_rng(seed).normal(size=(bags, len(R))) @ R
    return release_of(features, rows[:, :-1], rows[:, -1])
