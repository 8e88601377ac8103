"""The part of the peers page on yes/no labels and counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from experiments.classification import (
    ALL,
    COUNTS,
    OURS,
    SCORES,
    Split,
    all_labels,
    breast_cancer,
    classify,
    count,
    measured,
)

from experiments import classification

ROWS = Split.of(breast_cancer(), "benign")


def test_every_way_gives_probabilities_of_the_rows_kept_aside() -> None:
    assert (len(ROWS.train), len(ROWS.test)) == (426, 143)
    found = classify(ROWS, 4.0, 0)
    assert next(iter(found)) == OURS
    for probabilities in found.values():
        assert probabilities.shape == (143,)
        assert ((probabilities > 0) & (probabilities < 1)).all()
        assert SCORES["AUC"][0](ROWS.truth, probabilities) > 0.95
    assert SCORES["AUC"][0](ROWS.truth, all_labels(ROWS)) > 0.98


def test_counts_are_expected_ones() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=4000)
    rows = Split.of(pa.table({"x": x, "n": random.poisson(np.exp(0.5 + 0.5 * x)).clip(0, 40)}), "n")
    found, full = count(rows, 4.0, 0), all_labels(rows)
    assert next(iter(found)) == COUNTS
    assert found[COUNTS] == pytest.approx(full, rel=0.1)
    assert all((counts > 0).all() for counts in found.values())


def test_a_way_that_does_better_is_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classification, "EPSILONS", (1.0,))
    truth = ROWS.truth
    draws = {OURS: 0.6 * truth + 0.2, "better": 0.8 * truth + 0.1, "worse": 0.2 * truth + 0.4}
    score, sign = SCORES["Brier"]
    lines = measured(ROWS, lambda *_: draws, score, sign, {}, truth)
    assert [line[0] for line in lines] == [ALL, OURS, "better", "worse"]
    assert [line[1].startswith("**") for line in lines] == [False, False, True, False]
