"""The earlier bound: no bag on the paper's data, and its formula elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp_paper.theory.earlier import random_projection_max_bags, residual_from_singular_value


def test_random_projection():
    assert random_projection_max_bags(7.57e-5, 121.73, 10.0, 1e-8) == 0
    assert random_projection_max_bags(7.83, 505.89, 10.0, 1e-5) == 0
    log = math.log(4e5)
    want = math.floor((1e4 / 4 - log) ** 2 / (2 * log))
    assert random_projection_max_bags(1e4, 1.0, 1.0, 1e-5) == want


def test_a_singular_value_promises_a_residual():
    """γ ≥ w²/n on tables of all kinds, and with equality where no feature helps."""
    random = np.random.default_rng(3)
    for rows, columns in ((20, 1), (50, 4), (200, 7)):
        features = random.normal(size=(rows, columns)) * random.uniform(0.01, 10, columns)
        labels = features @ random.normal(size=columns) + random.normal(size=rows)
        both = np.column_stack([features, labels])
        w = float(np.linalg.svd(both, compute_uv=False)[-1])
        best = np.linalg.lstsq(features, labels, rcond=None)[0]
        gamma = float(np.mean((labels - features @ best) ** 2))
        assert gamma >= residual_from_singular_value(w**2, rows) * (1 - 1e-12)
    apart = np.eye(5)[:, :2] * [3.0, 1.0]
    assert residual_from_singular_value(1.0, 5) == pytest.approx(np.sum(apart[:, 1] ** 2) / 5)
    with pytest.raises(InputError, match="`rows`"):
        residual_from_singular_value(1.0, 0)
