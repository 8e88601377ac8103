"""Real tables: the fit decides what a person would."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq

from labeldp.data.source import scan
from labeldp.features.fit import fit_features
from tests.realdata import real


def test_fertility():
    path = real("census1980_fertility_weeks.parquet")
    scanned = {"label": "work", "label_range": (0, 52)}
    levels = fit_features(scan(path, categorical=["age"], **scanned))
    assert levels.rows == 254_654
    assert levels.width == 1 + 6 * 2 + 15
    quantity = fit_features(scan(path, numeric=["age"], **scanned))
    assert quantity.width == 1 + 6 * 2 + 1
    assert (quantity.numeric[0].low, quantity.numeric[0].high) == (21, 35)


def test_layout_does_not_matter(tmp_path):
    path, label = real("census1980_fertility_weeks.parquet"), "work"
    table = pq.read_table(path)
    for start in range(0, table.num_rows, 50_000):
        part = table.slice(start, 50_000)
        pq.write_table(part, tmp_path / f"{start:09}.parquet", row_group_size=17_777)
    first = fit_features(scan(path, label=label))
    second = fit_features(scan(tmp_path, label=label, batch_rows=14_321))
    assert json.dumps(first.to_json()) == json.dumps(second.to_json())


def test_regression_on_flights_matches_plain_least_squares():
    """Quantised design columns give the R² that the data notes report."""
    path = real("nycflights13_arr_delay.parquet")
    source = scan(
        path,
        label="arr_delay",
        label_range=(-86, 1272),
        features=["dep_delay", "distance", "carrier"],
        drop_missing_labels=True,
    )
    mapped = fit_features(source, winsor=0)
    parts = [(mapped.design(batch), labels) for batch, labels in source.labelled_batches()]
    design = np.concatenate([part for part, _ in parts])
    labels = np.concatenate([part for _, part in parts])
    assert len(labels) == 336_776 - 9_430
    beta = np.linalg.lstsq(design, labels, rcond=None)[0]
    r_squared = 1 - np.var(labels - design @ beta) / np.var(labels)
    assert 0.83 < r_squared < 0.85
