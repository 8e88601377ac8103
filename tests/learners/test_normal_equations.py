"""Sums with public weights, whatever the weights are, are the regression on all rows."""

from __future__ import annotations

import numpy as np
import pytest

from labeldp import InputError
from labeldp.data.source import scan
from labeldp.features.fit import fit_features
from labeldp.learners.normal_equations import sum_equations
from labeldp.mechanisms.base import SumLabels
from tests.drawn import pay_table, release_of

TABLE = pay_table()
FEATURES = fit_features(scan(TABLE.select(["age", "hours"])))
X, y = FEATURES.design(TABLE), TABLE["pay"].to_numpy()
COLUMNS = len(FEATURES.names)
STD = np.linspace(1.0, 2.0, COLUMNS)


def weights_of(kind: str) -> np.ndarray:
    dense = np.random.default_rng(1).normal(size=(COLUMNS, COLUMNS))
    return {"dense": dense, "lower": np.tril(dense), "diagonal": np.diag(np.diag(dense))}[kind]


@pytest.mark.parametrize("kind", ["dense", "lower", "diagonal"])
@pytest.mark.parametrize("radial", [False, True])
def test_whatever_the_weights_are_the_fit_and_its_noise_are_those_of_all_rows(
    kind: str, radial: bool
) -> None:
    weights = weights_of(kind)
    release = release_of(FEATURES, weights @ X.T @ X, weights @ X.T @ y)
    white = sum_equations(release, SumLabels(STD, weights, radial=radial, residual=(5.0, 1.0)))
    assert white.root.T @ white.root == pytest.approx(X.T @ X, rel=1e-6, abs=1e-6)
    assert np.linalg.solve(white.root, white.estimate) == pytest.approx(np.linalg.lstsq(X, y)[0])
    told = np.linalg.solve(white.root, white.spread)
    noise = np.linalg.inv(weights @ X.T @ X) @ np.diag(STD)
    assert told @ told.T == pytest.approx(noise @ noise.T)
    assert white.residual_ss is not None
    assert white.residual_ss.value == pytest.approx(5.0**2 - 1.0**2)
    assert white.radial == (COLUMNS if radial else None)


def test_weights_that_are_not_those_of_the_sums_are_refused() -> None:
    weights = weights_of("dense")
    release = release_of(FEATURES, weights @ X.T @ X, weights @ X.T @ y)
    with pytest.raises(InputError, match="do not belong together"):
        sum_equations(release, SumLabels(STD, -weights))
