"""The lasso from a Gram matrix, against the conditions of optimality and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import Lasso

from labeldp.learners import lasso


def problem(seed: int, columns: int, correlated: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    design = random.normal(size=(60, columns))
    design += correlated * random.normal(size=(60, 1))
    labels = design[:, 0] - 0.5 * design[:, -1] + random.normal(size=60)
    return design, labels


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(1e-3, 2.0), st.sampled_from([0, 3]))
@settings(max_examples=60)
def test_it_meets_the_conditions_of_optimality(
    seed: int, columns: int, penalty: float, correlated: float
) -> None:
    design, labels = problem(seed, columns, correlated)
    gram, moment = design.T @ design / 60, design.T @ labels / 60
    found = lasso.solve(gram, moment, penalty)
    slope = moment - gram @ found
    assert np.abs(slope).max() <= penalty + 1e-8
    kept = found != 0
    assert slope[kept] == pytest.approx(penalty * np.sign(found[kept]), abs=1e-8)


@pytest.mark.parametrize("penalty", [0.01, 0.1, 0.5, 5.0])
def test_it_is_scikit_learns(penalty: float) -> None:
    design, labels = problem(1, 8)
    expected = Lasso(alpha=penalty, fit_intercept=False, tol=1e-12, max_iter=100_000)
    found = lasso.solve(design.T @ design / 60, design.T @ labels / 60, penalty)
    assert found == pytest.approx(expected.fit(design, labels).coef_, abs=1e-8)


def test_a_path_is_its_points() -> None:
    design, labels = problem(2, 10, 2.0)
    gram, moment = design.T @ design / 60, design.T @ labels / 60
    penalties = np.geomspace(np.abs(moment).max(), 1e-3, 12)
    points = [lasso.solve(gram, moment, penalty) for penalty in penalties]
    for found, point in zip(lasso.path(gram, moment, penalties), points, strict=True):
        assert found == pytest.approx(point, abs=1e-8)
    assert not points[0].any()
    assert points[-1].all()


def test_a_column_of_zeros_is_left_out_and_twins_do_no_harm() -> None:
    design, labels = problem(3, 4)
    design[:, 2] = 0.0
    gram, moment = design.T @ design / 60, design.T @ labels / 60
    assert lasso.solve(gram, moment, 0.01)[2] == 0
    twins = np.column_stack([design[:, 0], design[:, 0]])
    gram, moment = twins.T @ twins / 60, twins.T @ labels / 60
    found = lasso.solve(gram, moment, 0.01)
    assert np.abs(moment - gram @ found).max() <= 0.01 + 1e-8
