"""Rows as levels and numbers: the same sums as of dense whitened rows, and a bound on the error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.mechanisms import active_rows as module
from labeldp.mechanisms.active_rows import ActiveRows
from labeldp.mechanisms.noise_shape import ridge_whitening
from tests.mechanisms.test_noise_shape import Table
from tests.tables import source

Array = NDArray[np.float64]
RANDOM = np.random.default_rng(4)
LEVELS = {"c": RANDOM.choice(["a", "b", "c"], 300), "e": RANDOM.choice(list("uvwxyz"), 300)}
NUMBERS = {"x": RANDOM.standard_t(2, 300), "z": RANDOM.integers(0, 9, 300)}
TABLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "mixed": (source(300), {}),
    "no constant": (pa.table(LEVELS | NUMBERS), {"intercept": False}),
    "levels": (pa.table(LEVELS), {}),
    "levels without constant": (pa.table(LEVELS), {"intercept": False}),
    "numbers": (pa.table(NUMBERS), {}),
    "many categories": (
        pa.table({f"c{k}": RANDOM.choice(["a", "b"], 300) for k in range(25)} | NUMBERS),
        {},
    ),
    "products": (pa.table(LEVELS | NUMBERS), {"interactions": ["c:e", "x:c"]}),
}


@pytest.fixture(params=["levels", "as it pays"])
def work(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So small a table is dense throughout unless dense entries are said to cost more."""
    if request.param == "levels":
        monkeypatch.setattr(module, "_DENSE", 1e9)


def both(name: str, ridge: float = 0.0) -> tuple[ActiveRows, Array, VerifiedCholesky]:
    """The rows of a table, dense rows whitened by the same factor, and that."""
    data, options = TABLES[name]
    table = Table(data, **options)
    features, factor = table.features.keep(table.factor.kept), table.factor
    if ridge:
        factor, _ = ridge_whitening(factor, features, ridge)
    (batch,) = table.data.feature_batches(features.columns)
    rows = ActiveRows.of(features.encode(batch), features, factor)
    return rows, table.codes @ factor.whitener.T, factor


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_sums_are_those_of_dense_whitened_rows(name: str, ridge: float) -> None:
    rows, white, _ = both(name, ridge)
    weights = RANDOM.exponential(size=len(white))
    chosen = weights > 0.5
    parts = rows.take(chosen).with_rows(rows.take(~chosen))
    order = np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~chosen)])
    matrix = RANDOM.normal(size=(7, white.shape[1]))
    for some, places in ((rows, np.arange(len(white))), (parts, order)):
        moment, _ = some.second_moment(weights[places])
        assert np.allclose(moment, (white.T * weights) @ white, rtol=0, atol=1e-9)
        norms = np.square(white @ matrix.T).sum(axis=1)[places]
        assert np.allclose(some.squared_norms(matrix), norms, rtol=1e-9)
        assert some.count == len(norms)


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("name", TABLES)
def test_the_error_of_a_second_moment_is_bounded(name: str) -> None:
    """Against longer doubles; the bound is not absurd either."""
    rows, _, _ = both(name)
    dense = np.zeros((rows.count, len(rows.basis) + 1), np.longdouble)
    dense[:, : rows.numbers.shape[1]] = rows.numbers
    for levels in rows.levels:
        dense[np.arange(rows.count), levels] = 1
    white = dense[:, :-1] @ rows.basis.T.astype(np.longdouble)
    weights = RANDOM.exponential(size=rows.count)
    moment, bound = rows.second_moment(weights)
    error = np.asarray((white.T * weights) @ white - moment, np.float64)
    assert np.linalg.norm(error, 2) <= bound
    assert bound <= 1e-8 * np.trace(moment)


def test_levels_are_looked_up_where_that_is_less_work() -> None:
    """With a few large categories, but not with many small ones."""
    large = {name: RANDOM.integers(0, 40, 3000).astype(str) for name in "ab"}
    small = {f"c{k}": RANDOM.choice(["a", "b"], 3000) for k in range(25)}
    for columns, count in ((large, 2), (small, 0), (NUMBERS, 0)):
        table = Table(pa.table(columns), min_count=1)
        (batch,) = table.data.feature_batches(table.features.columns)
        features = table.features.keep(table.factor.kept)
        rows = ActiveRows.of(features.encode(batch), features, table.factor)
        assert len(rows.levels) == count
        assert rows.count == batch.num_rows


@pytest.mark.usefixtures("work")
def test_numbers_that_nearly_depend_on_each_other_cost_no_digits() -> None:
    x = RANDOM.normal(size=300)
    table = Table(pa.table(LEVELS | {"x": x, "y": x + 2e-5 * RANDOM.normal(size=300)}))
    features, factor = table.features.keep(table.factor.kept), table.factor
    assert np.abs(factor.inverse).max() > 1e3
    (batch,) = table.data.feature_batches(features.columns)
    rows = ActiveRows.of(features.encode(batch), features, factor)
    moment, bound = rows.second_moment(np.ones(rows.count))
    assert np.allclose(moment, np.eye(factor.rank), atol=1e-3)
    assert bound < 1e-8
    assert table.shape().gap < 1.1
