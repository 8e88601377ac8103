"""The shape of shaped-flag: feasible for every row, near the best, and certified as such."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from labeldp.data.source import Source, scan
from labeldp.exact import row_norms
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.quadratic_form import LeverageScan, QuadraticForm
from labeldp.exact.row_norms import RowNorms, RowNormScan, Weights
from labeldp.features.encoder import Encoded, Encoder
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.mechanisms import active_rows, noise_shape as module
from labeldp.mechanisms.active_rows import ActiveRows
from labeldp.mechanisms.noise_shape import (
    NoiseCovariance,
    ScanRows,
    leverage_mixture,
    mean_direction,
    optimize_noise_shape,
    solve_dual,
)
from labeldp.passes.engine import LocalEngine
from tests.oracles.best_shape import (
    exact_square_length,
    least_trace,
    one_hot_least_trace,
    whitened,
)
from tests.tables import source, table as random_table

ENGINE = LocalEngine(1)
Array = NDArray[np.float64]


def random_rows(rows: int) -> pa.Table:
    return random_table(rows).drop_columns("label")


class Table:
    """A source with its factor, and passes over it."""

    def __init__(self, data: Source | pa.Table, **options: Any) -> None:
        self.data = data if isinstance(data, Source) else scan(data)
        self.features: FeatureMap = fit_features(self.data, **options)
        gram = ENGINE.run_pass("sums", self.data, GramAccumulator(self.features))
        self.factor: VerifiedCholesky = verified_cholesky(gram, self.features)
        self.passes = 0

    def look(self, weights: Weights, keep: int, sample: int, floor: float) -> RowNorms:
        self.passes += 1
        return self.scan(weights, keep, floor, sample=sample).result()

    def integers(self, rows: Encoded) -> Array:
        """The kept columns of encoded rows, dense."""
        return self.features.keep(self.factor.kept).integers(rows)

    def scan(
        self,
        weights: Weights,
        keep: int = 0,
        floor: float = 0.0,
        rows: int = 65536,
        sample: int = 20,
    ) -> RowNormScan:
        scan = RowNormScan(self.features, weights, keep=keep, sample=sample, floor=floor)
        encode = Encoder(self.features)
        for batch in self.data.feature_batches(self.features.columns):
            for start in range(0, batch.num_rows, rows):
                scan.add(encode(batch.slice(start, rows)))
        return scan

    def shape(self) -> NoiseCovariance:
        return optimize_noise_shape(self.factor, self.features, self.look)

    def isotropic(self) -> Weights:
        """Those of plain output perturbation, C = R⁻ᵀ: what a shape improves on."""
        return Weights.rounded(self.factor, self.factor.inverse)

    @property
    def codes(self) -> NDArray[np.int64]:
        """Dense integer rows of the kept columns."""
        kept = self.features.keep(self.factor.kept)
        parts = [
            kept.integers(kept.encode(batch))
            for batch in self.data.feature_batches(self.features.columns)
        ]
        return np.concatenate(parts).astype(np.int64)


def form_of(features: FeatureMap, weights: Weights) -> QuadraticForm:
    root = weights.matrix
    return QuadraticForm(features, weights.kept, root, root.T @ root)


def active(white: Array) -> ActiveRows:
    """Whitened rows without categories."""
    return ActiveRows(white, np.empty((0, len(white)), np.intp), np.eye(white.shape[1]))


def numbers(rows: int, columns: int, seed: int = 0, tail: float = 3.0) -> pa.Table:
    rng = np.random.default_rng(seed)
    mixed = rng.standard_t(tail, (rows, columns)) @ rng.normal(size=(columns, columns))
    return pa.table({f"x{k}": mixed[:, k] for k in range(columns)})


def trace_of(shape: NoiseCovariance, codes: NDArray[np.int64]) -> float:
    """max ‖Cx‖²·tr((CᵀC)⁻¹(XᵀX)⁻¹), with NumPy's own inverses."""
    dense = codes.astype(float)
    scale = np.abs(dense).max(axis=0)
    inner = np.linalg.inv((dense / scale).T @ (dense / scale))
    weights = shape.weights.matrix * scale
    largest = np.square(dense / scale @ weights.T).sum(axis=1).max()
    return float(largest * np.trace(np.linalg.inv(weights.T @ weights) @ inner))


@given(seed=st.integers(0, 10_000), rows=st.integers(20, 60), columns=st.integers(1, 4))
@settings(max_examples=25)
def test_the_length_is_never_below_the_exact_maximum(seed: int, rows: int, columns: int) -> None:
    table = Table(numbers(rows, columns, seed, tail=1.5))
    shape = table.shape()
    exact = max(exact_square_length(shape.weights.matrix, row) for row in table.codes)
    assert exact <= Fraction(shape.length) ** 2
    assert Fraction(shape.length) ** 2 <= exact * (1 + Fraction(1, 10**6))
    assert 0.5 <= shape.length < 1.0


def test_the_length_of_any_weights_is_a_bound_in_every_batching() -> None:
    """Also of ill-conditioned weights, and where the pass uses a matrix product."""
    table = Table(numbers(300, 9, 1, tail=1.2))
    rng = np.random.default_rng(5)
    lower = np.tril(rng.normal(size=(table.factor.rank,) * 2)) * 10.0 ** rng.uniform(-6, 6, 10)
    weights = Weights(table.factor.kept, lower)
    exact = max(exact_square_length(lower, row) for row in table.codes)
    found = {
        table.scan(weights, keep, 0.0, rows).result().length
        for keep in (0, 7)
        for rows in (1, 7, 65536)
    }
    assert len(found) == 1
    assert exact <= Fraction(found.pop()) ** 2 <= exact * (1 + Fraction(1, 10**6))


@pytest.mark.parametrize("columns", [1, 9])
@pytest.mark.parametrize("keep", [0, 3])
def test_a_row_that_is_longer_by_a_hair_is_not_passed_over(columns: int, keep: int) -> None:
    """Rows come one by one, each a little longer than those before; the shortest come last."""
    steps = np.append(np.arange(1.0, 1.02, 1e-4), np.linspace(0.1, 0.5, 20))
    x = steps[:, None] + 1e-9 * np.random.default_rng(0).normal(size=(len(steps), columns))
    x[-20:] += np.random.default_rng(1).normal(size=(20, columns)) / 10
    data = pa.table({f"x{k}": x[:, k] for k in range(columns)})
    table = Table(data, intercept=False)
    weights = Weights(table.factor.kept, np.eye(table.factor.rank))
    sighting = table.scan(weights, keep, 0.0, rows=1).result()
    exact = max(exact_square_length(weights.matrix, row) for row in table.codes)
    assert exact <= Fraction(sighting.maximum) <= exact * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("columns", [2, 9])
@pytest.mark.parametrize("keep", [0, 3])
def test_a_row_whose_length_cancels_is_not_passed_over(columns: int, keep: int) -> None:
    """Two columns that are nearly one, and weights of their difference.

    Lengths differ by less than doubles lose in xᵀ(CᵀC)x, so that the longest row seldom looks so.
    """
    random = np.random.default_rng(columns)
    first = random.integers(2**16, 2**18, 20)
    others = random.integers(0, 1000, (columns - 2, 20))
    table = Table(
        pa.table({"x": first, "z": first + 1} | {f"o{k}": row for k, row in enumerate(others)}),
        intercept=False,
        winsor=0,
    )
    lower = np.diag(np.full(columns, 2.0**-60))
    lower[0, 0], lower[1, :2] = 2.0**-30, (-0.3, 0.3 + 2.0**-38)
    weights = Weights(tuple(range(columns)), lower)
    (batch,) = table.data.feature_batches()
    rows = table.features.encode(batch)
    codes = table.features.integers(rows).astype(np.int64)
    squares = [exact_square_length(lower, row) for row in codes]
    for one, other in permutations(range(len(codes)), 2):
        if squares[one] < squares[other]:
            scan = RowNormScan(table.features, weights, keep=keep)
            for place in (one, other):
                scan.add(rows.take(slice(place, place + 1)))
            assert squares[other] <= Fraction(scan.result().maximum)


@given(seed=st.integers(0, 10_000), spread=st.floats(0, 5), mixed=st.booleans())
@settings(max_examples=25)
def test_the_rounding_of_both_ways_is_bounded(seed: int, spread: float, mixed: bool) -> None:
    """Elementwise and by a product, against rationals; the bound is not absurd either."""
    table = Table(source(60, seed) if mixed else numbers(60, 9, seed, tail=1.2))
    rng, size = np.random.default_rng(seed), table.factor.rank
    lower = np.tril(rng.normal(size=(size, size))) * 10.0 ** rng.uniform(-spread, spread, size)
    form = form_of(table.features, Weights(table.factor.kept, lower))
    (batch,) = table.data.feature_batches(table.features.columns)
    encoded = table.features.encode(batch)
    bound = form.rounding_error(np.abs(encoded.numbers).max(axis=0, initial=0.0))
    exact = [exact_square_length(lower, row) for row in table.codes]
    for rough in (False, True):
        values = form(encoded, rough=rough)
        errors = [abs(Fraction(float(v)) - e) for v, e in zip(values, exact, strict=True)]
        assert max(errors) <= Fraction(bound)
    assert bound <= 1e-6 * float(max(exact)) * 10.0 ** (4 * spread)


@pytest.mark.parametrize("heavy", range(4))
def test_terms_are_as_large_as_in_the_worst_row(heavy: int) -> None:
    """Whichever column weighs most, the constant too: Σ|terms| of every row, by brute force."""
    table = Table(source(60))
    lower = np.eye(table.factor.rank)
    lower[:, heavy * (table.factor.rank - 1) // 3] *= 1e6
    form = form_of(table.features, Weights(table.factor.kept, lower))
    rows = np.abs(table.codes).astype(float)
    sizes = np.einsum("ni,ij,nj->n", rows, np.abs(lower.T) @ np.abs(lower), rows)
    (batch,) = table.data.feature_batches(table.features.columns)
    reach = np.abs(table.features.encode(batch).numbers).max(axis=0)
    assert sizes.max() <= form._largest_size(reach) * (1 + 1e-12)


@pytest.mark.parametrize("batch_rows", [65536, 97, 1])
def test_a_pass_keeps_the_same_rows_however_it_is_cut(batch_rows: int) -> None:
    table = Table(source(400))
    weights = table.isotropic()
    whole = table.scan(weights, 20, 0.001).result()
    cut = table.scan(weights, 20, 0.001, batch_rows).result()
    assert np.array_equal(table.integers(whole.rows), table.integers(cut.rows))
    assert whole.maximum == cut.maximum
    left, right = (table.scan(weights, 20, 0.001).new() for _ in range(2))
    encode = Encoder(table.features)
    for batch in table.data.feature_batches(table.features.columns):
        left.add(encode(batch.slice(0, 150)))
        right.add(encode(batch.slice(150)))
    right.merge(left.state())
    merged = right.result()
    assert np.array_equal(table.integers(whole.rows), table.integers(merged.rows))
    assert whole.maximum == merged.maximum


@given(seed=st.integers(0, 10_000), columns=st.sampled_from([2, 9]), share=st.floats(0, 0.5))
@settings(max_examples=25, deadline=None)
def test_which_rows_are_kept_depends_on_neither_order_nor_batches_nor_threads(
    seed: int, columns: int, share: float
) -> None:
    """Rows come in any order, in batches of any size, to any of three threads; some come twice."""
    random = np.random.default_rng(seed)
    table = Table(numbers(400, columns, seed, tail=2.0))
    (batch,) = table.data.feature_batches(table.features.columns)
    rows = table.features.encode(batch)
    weights = table.isotropic()
    floor = share * float(form_of(table.features, weights)(rows).max())
    whole = RowNormScan(table.features, weights, keep=5, sample=20, floor=floor)
    whole.add(rows)
    threads = [whole.new() for _ in range(3)]
    order = random.permutation(np.append(np.arange(400), random.integers(0, 400, 60)))
    for places in np.split(order, np.sort(random.integers(0, len(order), 12))):
        threads[random.integers(3)].add(rows.take(places))
    merged = whole.new()
    for place in random.permutation(3):
        merged.merge(threads[place].state())
    expected, found = whole.result(), merged.result()
    assert expected.length == found.length
    assert np.array_equal(table.integers(expected.rows), table.integers(found.rows))


@pytest.mark.parametrize("batch_rows", [65536, 1000, 50])
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("alike", [False, True])
def test_rows_passed_over_would_not_have_been_drawn(
    batch_rows: int, share: float, alike: bool
) -> None:
    """Against the largest keys of all different rows, by brute force; also of equal lengths."""
    angles = np.random.default_rng(1).uniform(0, 6, 6000)
    circle = scan(pa.table({"x": np.cos(angles), "y": np.sin(angles)}))
    table, keep = Table(circle if alike else source(6000), intercept=not alike), 5
    weights = table.isotropic()
    (batch,) = table.data.feature_batches(table.features.columns)
    encoded = table.features.encode(batch)
    values = form_of(table.features, weights)(encoded)
    floor = share * float(values.max())
    uniform = ((row_norms._content_hashes(encoded) >> np.uint64(12)) + 0.5) * 2.0**-52
    keys = np.where(values > floor, (values - floor) / -np.log(uniform), -np.inf)
    different, places = np.unique(table.codes, axis=0, return_index=True)
    order = np.argsort(-keys[places])[: keep + 15]
    seen = table.integers(table.scan(weights, keep, floor, batch_rows).result().rows)
    worst, found = ({tuple(row) for row in part} for part in (seen[:keep], seen[keep:]))
    assert found == {tuple(row) for row in different[order]} - worst
    assert len(found) >= 3 * keep


def test_a_pass_keeps_the_worst_rows_once_each() -> None:
    features = random_rows(400)
    table = Table(pa.concat_tables([features, features, features]))
    weights = table.isotropic()
    rows = table.integers(table.scan(weights, 20).result().rows)
    values = np.square(table.codes @ weights.matrix.T).sum(axis=1)
    different, places = np.unique(table.codes, axis=0, return_index=True)
    worst = different[np.argsort(-values[places])[:20]]
    assert np.array_equal(rows[:20], worst)
    assert len(np.unique(rows, axis=0)) == len(rows) > 20
    assert {tuple(row) for row in rows} <= {tuple(row) for row in different}


@given(counts=st.lists(st.integers(2, 40), min_size=2, max_size=12))
@settings(max_examples=25)
def test_of_one_category_the_optimum_is_known(counts: list[int]) -> None:
    """Σ 1/count, with a constant or without: both span the same."""
    levels = np.repeat([f"l{k}" for k in range(len(counts))], counts)
    best = one_hot_least_trace(np.array(counts))
    for intercept in (True, False):
        table = Table(pa.table({"c": levels}), min_count=1, intercept=intercept)
        shape = table.shape()
        assert shape.bound <= best * (1 + 1e-9)
        assert best <= shape.trace * (1 + 1e-9)
        limit = module._ENOUGH if not intercept else module._ENOUGH / (1 - module._MEAN_INSURANCE)
        assert shape.trace <= best * limit * (1 + 1e-6)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_small_problems_agree_with_generic_minimisation(columns: int, seed: int) -> None:
    table = Table(numbers(40, columns, seed), intercept=False)
    best = least_trace(table.codes.astype(float))
    shape = table.shape()
    assert shape.trace <= best * module._ENOUGH
    assert shape.bound <= best
    if columns == 1:
        values = table.codes[:, 0].astype(float)
        assert best == pytest.approx((values**2).max() / (values**2).sum(), rel=1e-6)
        assert shape.trace == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_small_problem_with_levels_agrees_with_generic_minimisation(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_rows, "_DENSE", 1e9)  # so few levels would be dense columns
    random = np.random.default_rng(seed)
    levels, x = random.choice(["a", "b", "c"], 60, p=[0.6, 0.3, 0.1]), random.standard_t(3, 60)
    table = Table(pa.table({"c": levels, "x": x}), min_count=1, intercept=False)
    best, shape = least_trace(table.codes.astype(float)), table.shape()
    assert shape.bound <= best <= shape.trace * (1 + 1e-3)
    assert shape.trace <= best * module._ENOUGH


def test_the_dual_agrees_with_generic_minimisation_to_three_digits() -> None:
    rows = np.random.default_rng(3).standard_t(3, (30, 3))
    white = whitened(rows)
    solution = solve_dual(
        leverage_mixture(active(white), 0.01),
        np.eye(3) / len(rows),
        steps=4000,
        tolerance=1e-4,
        least_uniform=1e-9,
    )
    assert solution.bound <= solution.trace <= solution.bound * (1 + 2e-4)
    assert solution.trace == pytest.approx(least_trace(rows), rel=1e-3)


@given(seed=st.integers(0, 10_000), power=st.floats(0.0, 3.0))
@settings(max_examples=40)
def test_weak_duality_any_weights_bound_any_feasible_shape(seed: int, power: float) -> None:
    """With whatever share of the uniform measure."""
    rng = np.random.default_rng(seed)
    white = whitened(rng.standard_t(2, (25, 4)))
    weights = np.square(white).sum(axis=1) ** power
    root = rng.normal(size=(4, 4))
    anything = root @ root.T + 0.01 * np.eye(4)
    feasible = anything * np.einsum("ij,ij->i", white @ np.linalg.inv(anything), white).max()
    share = rng.uniform(0.01, 1.0)
    mixture = module.RowMixture(active(white), weights, share * weights.sum()).normalized()
    bound = solve_dual(mixture, np.eye(4) / 25, steps=1, tolerance=0.0, least_uniform=0.0).bound
    assert bound <= np.trace(feasible) * (1 + 1e-9)
    moment = (white.T * mixture.weights) @ white + mixture.uniform / 25 * np.eye(4)
    assert bound == pytest.approx(np.sqrt(np.linalg.eigvalsh(moment)).sum() ** 2)


def test_fewer_rows_than_columns_are_solved_in_their_span() -> None:
    white = np.random.default_rng(0).normal(size=(6, 20)) / 30
    steps = {"steps": 30, "tolerance": 1e-3, "least_uniform": 1e-3}
    some, copies = (
        solve_dual(leverage_mixture(active(rows), 0.1), np.eye(20) / 900, **steps)  # type: ignore[arg-type]
        for rows in (white, np.repeat(white, 4, axis=0))
    )
    assert np.allclose(some.covariance, copies.covariance, rtol=1e-8)
    assert some.trace == pytest.approx(float(np.trace(some.covariance)))
    assert some.bound == pytest.approx(copies.bound)
    lengths = np.einsum("ij,ij->i", white @ np.linalg.inv(some.covariance), white)
    assert lengths.max() <= 1 + 1e-9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dense", [active_rows._DENSE, 1e9])
def test_the_shape_is_certified_on_a_mixed_table(
    seed: int, dense: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_rows, "_DENSE", dense)
    table = Table(source(3000, seed))
    shape = table.shape()
    assert shape.trace == pytest.approx(trace_of(shape, table.codes), rel=1e-5)
    assert table.factor.rank**2 / 3000 <= shape.bound <= shape.trace <= shape.isotropic
    assert shape.gap <= 1.1
    assert shape.passes == table.passes <= 6
    leverage = ENGINE.run_pass("leverages", table.data, LeverageScan(table.features, table.factor))
    assert shape.isotropic == pytest.approx(table.factor.rank * leverage.maximum, rel=1e-6)


def test_isotropic_noise_is_best_where_rows_are_alike() -> None:
    """All combinations of three factors equally often: every row has the leverage d/n."""
    factors = np.array(list(product("abc", "de", "fgh"))).T
    data = {f"c{k}": np.tile(levels, 5) for k, levels in enumerate(factors)}
    shape = Table(pa.table(data), min_count=1).shape()
    assert shape.gap <= 1 + 1e-6
    assert shape.objective == pytest.approx(shape.isotropic)


def test_an_outlier_costs_isotropic_noise_much_and_the_shape_little() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 5))
    x[7] = 200.0
    table = Table(pa.table({f"x{k}": x[:, k] for k in range(5)}), winsor=0)
    shape = table.shape()
    assert shape.isotropic > 4 * shape.objective
    assert shape.gap < 1.1


def test_the_mean_is_insured() -> None:
    """Its noise has at most the variance 1/(wn²), and the trace is hardly larger."""
    table = Table(source(3000))
    mean = mean_direction(table.factor, table.features)
    assert mean is not None
    assert np.linalg.norm(mean) == pytest.approx(1.0)
    shape = table.shape()
    share = module._insurance(3000)
    noise = np.square(mean @ shape.weights.noise_root(table.factor)).sum() * shape.length**2
    assert 0.0 < noise / 3000 <= (1 + 1e-3) / (share * 3000**2) * 1.1
    covariance = np.diag(np.random.default_rng(0).uniform(1, 2, table.factor.rank))
    safe = module.insure_mean(covariance, mean, 3000)
    direct = (1 - share) * np.linalg.inv(covariance) + share * 3000 * np.outer(mean, mean)
    assert np.allclose(safe, np.linalg.inv(direct))
    assert np.trace(safe) <= np.trace(covariance) / (1 - share)
    assert module.insure_mean(covariance, None, 3000) is covariance
    quiet = covariance / 1e6  # as little noise on the mean as the insurance would leave
    assert module.insure_mean(quiet, mean, 3000) is quiet


def test_a_very_wide_table_gets_isotropic_noise_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table(source(3000))
    monkeypatch.setattr(module, "MOST_COLUMNS", table.factor.rank - 1)
    shape = table.shape()
    assert (shape.kind, shape.passes) == ("isotropic", 1)
    assert shape.objective == shape.isotropic
    assert shape.gap == pytest.approx(shape.isotropic / shape.bound)
    assert shape.trace == pytest.approx(trace_of(shape, table.codes), rel=1e-5)


def test_a_saturated_table_has_a_shape() -> None:
    """Rows of leverage 1 are fine: noise hides the labels, not the residual."""
    data = scan(pa.table({"c": [f"l{k}" for k in range(12)] * 1}))
    features = fit_features(data, min_count=1)
    gram = ENGINE.run_pass("sums", data, GramAccumulator(features))
    factor = verified_cholesky(gram, features, saturated=True)

    def look(weights: Weights, keep: int, sample: int, floor: float) -> RowNorms:
        kept: dict[str, Any] = {"keep": keep, "sample": sample, "floor": floor}
        scan_ = RowNormScan(features, weights, **kept)
        for batch in data.feature_batches(features.columns):
            scan_.add(features.encode(batch))
        return scan_.result()

    checked: ScanRows = look
    shape = optimize_noise_shape(factor, features, checked)
    assert shape.trace == pytest.approx(12.0, rel=1e-5)
    assert shape.gap <= 1.01
