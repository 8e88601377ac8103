"""Stacked bags against one bag at a time, and against exact rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from flint import fmpq_mat, fmpz, nmod_mat
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from labeldp.data.source import scan
from labeldp.exact import stacked as module
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelGrid
from labeldp.exact.quadratic_form import LeverageScan
from labeldp.exact.stacked import StackedBags, bag_factor, fit_stacked_bags
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features

Reals = NDArray[np.float64]
RANGE = (0.0, 10.0)


def table(rng: np.random.Generator, rows: int, kind: str) -> pa.Table:
    """Numbers, categories with rare levels, both, or columns that all but agree."""
    columns = {}
    if kind != "categories":
        columns["x"] = np.round(rng.normal(size=rows), 3)
        columns["z"] = np.round(np.exp(2 * rng.normal(size=rows)), 2)
    if kind == "collinear":
        columns["z"] = columns["x"] + 1e-3 * (rng.random(rows) < 0.02)
    if kind in ("categories", "mixed"):
        columns["a"] = rng.choice(list("abcde"), rows, p=[0.6, 0.2, 0.1, 0.07, 0.03])
        columns["b"] = rng.choice(list("uvw"), rows, p=[0.8, 0.15, 0.05])
    columns["y"] = rng.choice([0.0, 0.0, 1.0, 2.5, 10.0], rows)
    return pa.table(columns)


def bags_of(
    kind: str, shape: tuple[int, int], seed: int, intercept: bool
) -> tuple[FeatureMap, Encoded, Reals]:
    """Bags of rows drawn with replacement, so that some stand in a bag twice."""
    rng = np.random.default_rng(seed)
    data = table(rng, 300, kind)
    features = fit_features(
        scan(data, label="y", label_range=RANGE), min_count=1, intercept=intercept
    )
    places = rng.integers(0, 300, shape[0] * shape[1])
    batch = data.combine_chunks().to_batches()[0]
    codes = LabelGrid.for_range(RANGE, intercept=intercept).codes(data["y"].to_numpy()[places])
    return features, features.encode(batch).take(places), codes.reshape(shape)


def alone(features: FeatureMap, bag: Encoded) -> tuple[VerifiedCholesky, float]:
    """The factor and the largest leverage of one bag."""
    sums = GramAccumulator(features)
    sums.add(bag)
    factor = verified_cholesky(sums.result(), features, saturated=True)
    scan = LeverageScan(features, factor)
    scan.add(bag)
    return factor, scan.result().maximum


def rationals(matrix: fmpq_mat) -> list[Fraction]:
    return [Fraction(int(entry.p), int(entry.q)) for entry in matrix.entries()]


def exact(design: Reals, codes: Reals) -> tuple[Fraction, list[Fraction], Fraction]:
    """The largest leverage, β̂ and σ² of independent columns, as rationals."""
    rows, columns = design.shape
    x = fmpq_mat(rows, columns, [fmpz(int(entry)) for entry in design.ravel()])
    y = fmpq_mat(rows, 1, [fmpz(int(entry)) for entry in codes])
    inverse = (x.transpose() * x).inv()
    hat = x * inverse * x.transpose()
    slope = inverse * x.transpose() * y
    rest = rationals(y - x * slope)
    leverages = [rationals(hat)[row * rows + row] for row in range(rows)]
    return max(leverages), rationals(slope), sum((r * r for r in rest), Fraction(0))


@given(
    kind=st.sampled_from(["numbers", "categories", "mixed", "collinear"]),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 24)),
    seed=st.integers(0, 10_000),
    intercept=st.booleans(),
)
@settings(max_examples=70)
def test_stacked_bags_are_what_each_is_alone(
    kind: str, shape: tuple[int, int], seed: int, intercept: bool
) -> None:
    features, rows, codes = bags_of(kind, shape, seed, intercept)
    stack = StackedBags(features, rows, shape[0])
    leverages, fits = stack.leverages(), fit_stacked_bags(stack, codes)
    for number, bag_codes in enumerate(codes):
        bag = rows.take(np.arange(number * shape[1], (number + 1) * shape[1]))
        factor, leverage = alone(features, bag)
        kept = stack.kept[number]
        assert stack.rank[number] == factor.rank
        largest, slope, square = exact(stack.design[number][:, kept], bag_codes)
        if factor.rank < shape[1]:
            assert leverages[number] == pytest.approx(
                leverage, rel=1e-9 + 4 * stack.error_bound[number]
            )
        assert largest <= Fraction(leverages[number])
        assert Fraction(fits.low[number]) ** 2 <= square <= Fraction(fits.high[number]) ** 2
        shown, errors = fits.slope[number][kept], fits.slope_error[number][kept]
        for truth, value, error in zip(slope, shown, errors, strict=True):
            assert abs(truth - Fraction(value)) <= Fraction(error)
        assert not fits.slope[number][~kept].any()


def test_bounds_are_narrow_for_ordinary_bags() -> None:
    features, rows, codes = bags_of("numbers", (50, 40), 1, True)
    stack = StackedBags(features, rows, 50)
    fits = fit_stacked_bags(stack, codes)
    assert (stack.error_bound < 1e-11).all()
    assert ((fits.high - fits.low) < 1e-11 * fits.high).all()


def test_bags_too_wide_or_too_long_or_nearly_collinear_get_the_factor_of_a_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def counted(features: FeatureMap, bag: Encoded) -> VerifiedCholesky:
        asked.append(bag.rows)
        return bag_factor(features, bag)

    monkeypatch.setattr(module, "bag_factor", counted)
    features, rows, codes = bags_of("mixed", (4, 20), 3, True)
    stack = StackedBags(features, rows, 4)
    assert asked == []
    expected = fit_stacked_bags(stack, codes)
    for limit in ("MOST_BAG_COLUMNS", "MOST_BAG_ROWS"):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 5)
            other = StackedBags(features, rows, 4)
        assert asked == [20] * 4
        asked.clear()
        assert np.array_equal(other.rank, stack.rank)
        assert other.leverages() == pytest.approx(stack.leverages(), rel=1e-9)
        fits = fit_stacked_bags(other, codes)
        assert (fits.low <= expected.high).all()
        assert (fits.high >= expected.low).all()
        assert ((fits.high - fits.low) < 1e-10 * fits.high).all()
    features, rows, _ = bags_of("collinear", (40, 20), 3, True)
    stack = StackedBags(features, rows, 40)
    assert 0 < len(asked) < 40
    assert (stack.error_bound < 2.0**-12).all()


@given(
    size=st.integers(1, 7), rank=st.integers(0, 7), big=st.booleans(), seed=st.integers(0, 10_000)
)
@settings(max_examples=80)
def test_independent_columns_are_those_of_an_echelon_form(
    size: int, rank: int, big: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    reach = 2**15 if big else 3
    factors = rng.integers(-reach, reach, (5, max(1, rank), size))
    gram = factors.transpose(0, 2, 1) @ factors
    found, sure = module.independent_in_bags(gram)
    assert sure.all()
    for matrix, mine in zip(gram, found, strict=True):
        prime = 2**63 - 25
        echelon, _ = nmod_mat(size, size, [int(e) % prime for e in matrix.ravel()], prime).rref()
        lines = [[int(echelon[r, c]) for c in range(size)] for r in range(size)]
        pivots = {next(c for c in range(size) if line[c]) for line in lines if any(line)}
        assert set(np.flatnonzero(mine)) == pivots


def test_primes_are_prime_and_a_bag_they_disagree_on_is_not_sure() -> None:
    assert all(fmpz(prime).is_prime() for prime in module.PRIMES)
    assert np.prod([float(prime) for prime in module.PRIMES]) > 2.0**61.9
    gram = np.array([[[module.PRIMES[0], 0], [0, 1]], [[1, 0], [0, 1]]])
    _, sure = module.independent_in_bags(gram)
    assert sure.tolist() == [False, True]


def test_bounds_widen_with_the_error_of_a_factor() -> None:
    """(XᵀX)⁻¹ may be 1/(1 − error) times what the factor says, both in ‖Pe‖ and in its diagonal."""
    features, rows, codes = bags_of("mixed", (4, 20), 3, True)
    stack = StackedBags(features, rows, 4)
    sharp = fit_stacked_bags(stack, codes)
    stack.error_bound = np.full(4, 0.36)
    wide = fit_stacked_bags(stack, codes)
    seen = sharp.slope_error > 0
    assert (wide.slope_error[seen] >= 1.25 * sharp.slope_error[seen]).all()
    assert (wide.low <= sharp.low).all()
    assert (wide.high >= sharp.high).all()
