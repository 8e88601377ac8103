"""Rooms for rounding in the bounds of statistics: enough for the truth, and hardly more."""

from __future__ import annotations

import math
from contextlib import nullcontext
from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from flint import arb, ctx
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from labeldp.data.source import scan
from labeldp.errors import DataError, InputError
from labeldp.exact import (
    cholesky as factors,
    gram as grams,
    stacked,
)
from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.gram import FeatureGram
from labeldp.exact.label_sums import ExactLeastSquares, LabelGrid
from labeldp.exact.person_norms import PersonScan
from labeldp.exact.quadratic_form import QuadraticForm
from labeldp.exact.row_norms import RowNorms, TopK, Weights, round_length_up
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features

Reals = NDArray[np.float64]
UNIT = 2.0**-53
ONE_NUMBER = fit_features(scan(pa.table({"x": np.arange(50.0)})), intercept=False)


def rational(matrix: Reals) -> NDArray[np.object_]:
    exact = [[Fraction(float(entry)) for entry in row] for row in np.atleast_2d(matrix)]
    return np.array(exact, dtype=object)


def norm(matrix: NDArray[np.object_]) -> Fraction:
    """Frobenius's, to 1e-30 of itself."""
    square = sum((entry * entry for entry in matrix.ravel()), Fraction(0))
    scale = 10**60
    return Fraction(math.isqrt(int(square * scale * scale)), scale)


# --- the factor ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 9])
def test_the_error_bound_of_a_perfect_factor_is_the_rounding_of_its_products(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two products of `size` terms, two roundings of each entry, for S; one product for L.

    |L⁻¹||S||L⁻ᵀ| is the identity, of norm √size, and an error of L counts twice. A coarser unit
    shows their number better than doubles of 53 bits do.
    """
    monkeypatch.setattr(factors, "ROUNDOFF", 2.0**-40)
    one = np.eye(size)
    for matrix in (one, np.stack([one, one])):
        found = np.atleast_1d(factors.error_bounds(matrix, matrix, matrix))
        need = ((2 * size + 6) + 2 * (size + 3)) * math.sqrt(size) * 2.0**-40
        assert (found >= need).all()
        assert (found <= 1.02 * need).all()


@pytest.mark.parametrize("large", [False, True])
def test_the_error_bound_is_that_of_the_computed_and_of_the_true_inverse(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(1 + ‖E‖)/(1 − ‖F‖)² − 1, in rationals, of factors that are one per cent off."""
    if large:
        monkeypatch.setattr(factors, "LARGE", 1)
    rng = np.random.default_rng(0)
    for size in (1, 2, 5):
        root = np.tril(rng.normal(size=(size, size))) + 3 * np.eye(size)
        scaled = root @ root.T
        scaled = (scaled + scaled.T) / 2
        lower = np.tril(root * (1 + 0.01 * rng.normal(size=(size, size))))
        inverse = np.tril(np.linalg.inv(root) * (1 + 0.004 * rng.normal(size=(size, size))))
        exact, one = rational(inverse), np.eye(size, dtype=int).astype(object)
        first = norm(exact @ rational(scaled) @ exact.T - one)
        second = norm(exact @ rational(lower) - one)
        truth = (1 + first) / (1 - second) ** 2 - 1
        found = Fraction(float(factors.error_bounds(scaled, lower, inverse)))
        assert truth * (1 + Fraction(5, 10**10)) <= found <= truth * (1 + Fraction(15, 10**10))


@pytest.mark.parametrize("size", [1, 3, 7])
def test_distances_of_a_large_matrix_have_the_rounding_of_its_products(size: int) -> None:
    """Of a perfect factor that is no identity: sums of rows and of columns of |terms|.

    All its numbers are fractions of few bits, so that no processor rounds a product of them.
    """
    rng = np.random.default_rng(size)
    lower = np.tril(rng.integers(-4, 5, (size, size))).astype(float)
    np.fill_diagonal(lower, 2.0 ** rng.integers(-2, 3, size))
    inverse = solve_triangular(lower, np.eye(size), lower=True)
    scaled = lower @ lower.T
    assert (rational(inverse) @ rational(lower) == np.eye(size)).all()
    first, second = factors._large_distances(scaled, lower, inverse)
    terms = np.abs(inverse) @ np.abs(scaled) @ np.abs(inverse).T
    others = np.abs(inverse) @ np.abs(lower)
    need = (2 * size + 6) * UNIT * terms.sum(axis=0).max()
    assert need <= first <= 1.02 * need
    need = (size + 3) * UNIT * math.sqrt(others.sum(axis=0).max() * others.sum(axis=1).max())
    assert need <= second <= 1.02 * need


@pytest.mark.parametrize(
    ("gain", "hopeless"), [(1.4, False), (1.49, False), (1.51, True), (2, True)]
)
def test_an_inverse_that_is_half_off_bounds_nothing(gain: float, hopeless: bool) -> None:
    one = np.ones((1, 1))
    assert bool(np.isinf(factors.error_bounds(one, one, gain * one))) is hopeless


@pytest.mark.parametrize(
    ("error_bound", "used"), [(2.0**-12, True), (2.0**-12 * (1 + 1e-9), False), (math.nan, False)]
)
def test_a_factor_is_used_up_to_a_error_bound_of_a_4096th(
    error_bound: float, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factors, "error_bounds", lambda *_: error_bound)
    one = np.eye(2)
    found = factors._verified(5, (0, 1), one.astype(object), np.zeros(2, np.int64), 4 * one)
    assert (found is not None) is used
    if found is not None:
        assert found.error_bound == error_bound
        assert np.array_equal(found.lower, 2 * one)
        assert np.array_equal(found.inverse, one / 2)


@pytest.mark.parametrize(("size", "limits"), [(64, []), (65, [(1, "blas")])])
def test_a_large_factor_is_made_by_one_thread(
    size: int, limits: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last digits follow the number of threads, and should be the same on every machine."""
    asked: list[tuple[Any, ...]] = []

    def limited(*said: Any) -> Any:
        asked.append(said)
        return nullcontext()

    monkeypatch.setattr(factors, "threadpool_limits", limited)
    one, none = np.eye(size), np.zeros(size, np.int64)
    found = factors._verified(99, tuple(range(size)), one.astype(object), none, 4 * one)
    assert found is not None
    assert asked == limits
    assert np.array_equal(found.inverse, one / 2)


def test_what_is_no_factor_at_all_is_none() -> None:
    negative = -np.eye(2)
    assert (
        factors._verified(5, (0, 1), negative.astype(object), np.zeros(2, np.int64), negative)
        is None
    )


def small_factor(whitener: Reals, error_bound: float = 0.0) -> VerifiedCholesky:
    size = whitener.shape[1]
    none = np.zeros(size, np.int64)
    return VerifiedCholesky(
        9,
        tuple(range(size)),
        np.eye(size).astype(object),
        none,
        np.eye(size),
        whitener,
        error_bound,
    )


def test_the_diagonal_of_the_inverse_has_room_for_squares_that_are_lost_in_a_sum() -> None:
    """1 and then 600 squares of 2**-54 each: none of them moves the sum in doubles."""
    column = np.concatenate([[1.0], np.full(600, 2.0**-27)])
    whitener = np.zeros((601, 601))
    whitener[:, 0] = column
    truth = 1 + 600 * Fraction(1, 2**54)
    found = Fraction(float(small_factor(whitener).inverse_diagonal()[0]))
    assert truth <= found <= truth * (1 + Fraction(2 * 601 + 20, 2**53))
    doubtful = Fraction(float(small_factor(whitener, 0.25).inverse_diagonal()[0]))
    assert truth <= doubtful * 3 / 4 <= truth * (1 + Fraction(2 * 601 + 20, 2**53))


@pytest.mark.parametrize(("threshold", "kept"), [(0.74, [5, 8, 6]), (0.75, [5, 6]), (0.76, [5, 6])])
def test_columns_that_others_explain_but_for_a_threshold_are_left_out(
    threshold: float, kept: list[int]
) -> None:
    """Of the second column three quarters of its square are left, of the third all."""
    scaled = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 4.0]])
    assert factors._drop_nearly_dependent([5, 8, 6], scaled, threshold) == kept


@pytest.mark.parametrize(("rows", "refused"), [(1, True), (2, False)])
def test_as_many_columns_as_rows_are_refused_unless_labels_are_hidden_otherwise(
    rows: int, refused: bool
) -> None:
    features = ONE_NUMBER
    gram = FeatureGram(rows, np.array([[0]]), np.array([[7]], object), (0,))
    assert factors.verified_cholesky(gram, features, saturated=True).rank == 1
    if not refused:
        assert factors.verified_cholesky(gram, features).rank == 1
        return
    with pytest.raises(DataError) as refusal:
        factors.verified_cholesky(gram, features)
    assert str(refusal.value) == (
        "1 rows cannot protect labels with 1 independent feature columns: the labels then lie in "
        "the span of the features; add rows or drop columns"
    )


# --- the residual --------------------------------------------------------------------------------


def bare_residual(whitener: Reals, error_bound: float = 0.0) -> Any:
    made: Any = object.__new__(ExactLeastSquares)
    made._whitener, made._cholesky = whitener, small_factor(whitener, error_bound)
    return made


@pytest.mark.parametrize("error_bound", [0.0, 0.25])
def test_an_energy_is_hardly_more_than_it_is(error_bound: float) -> None:
    """gᵀg = 25 over 1 − error_bound, and a billionth for the rounding of all that."""
    made = bare_residual(np.eye(2), error_bound)
    found = made._squared_error(np.array([3, -4], dtype=object)) * Fraction(1 - error_bound)
    assert 25 * (1 + Fraction(5, 10**10)) <= found <= 25 * (1 + Fraction(15, 10**10))


@pytest.mark.parametrize("terms", [2, 40])
def test_an_energy_has_room_for_the_rounding_of_every_term(terms: int) -> None:
    """Of `terms` terms 2**60 that cancel: each addition may be off by half a unit."""
    signs = np.array([(-1) ** place for place in range(terms)], dtype=object)
    whitener = np.zeros((terms, terms))
    whitener[0] = 2.0**60
    found = bare_residual(whitener)._squared_error(signs)
    slack = terms * Fraction(2**60)
    assert (terms * Fraction(1, 2**53) * slack) ** 2 <= found
    assert found <= ((terms + 6) * Fraction(1, 2**52) * slack) ** 2


def solved_line(bits: int | None = None) -> ExactLeastSquares:
    """y = 1, 0, 1 on x = 1, 1, 1: β̂ is 2/3, and ‖y − xβ̂‖² is 2/3 too."""
    scaled = np.array([[3.0]])
    made = factors._verified(3, (0,), np.array([[3]], object), np.zeros(1, np.int64), scaled)
    assert made is not None
    moments: Any = SimpleNamespace(cross=np.array([2], dtype=object), square=2)
    residual = ExactLeastSquares(made, moments)
    if bits is not None:
        residual.refine(bits)
    return residual


@pytest.mark.parametrize("bits", [None, 60, 400])
def test_the_error_of_a_fit_is_what_its_places_leave(bits: int | None) -> None:
    """β̃ has so many binary places: β̂ is within one of the last, and σ² within its square."""
    residual = solved_line(bits)
    places = 96 if bits is None else bits
    third = Fraction(2, 3)
    assert residual.bits == places
    assert residual.square_low <= third <= residual.square_high
    assert residual.square_high - residual.square_low <= 4 * Fraction(1, 4**places)
    off = abs(Fraction(int(residual._trial[0]), 2**places) - third)
    assert 0 < off <= Fraction(1, 2**places)
    spread = math.sqrt(1 / 3)
    error = spread * residual._error_units
    assert off <= Fraction(error * (1 + 1e-9)) / 2**places
    assert error <= 1.001 * float(off * 2**places)


def test_a_coefficient_in_doubles_is_off_by_its_own_rounding_alone() -> None:
    """Of 400 places nothing is left but half a unit of the last place of a double."""
    residual = solved_line(400)
    (shown,), (error,) = residual.coefficients(), residual.coefficient_errors()
    off = abs(Fraction(float(shown)) - Fraction(2, 3))
    assert (
        off
        <= Fraction(float(error))
        <= Fraction(1, 2**53) * Fraction(float(shown)) * (1 + Fraction(1, 10**6))
    )


def test_a_fit_is_refined_until_no_coefficient_moves() -> None:
    """Of two columns one is right from the start: β̂ is (0, 2/3) of orthogonal columns."""
    scaled = np.diag([2.0, 3.0])
    gram = np.array([[2, 0], [0, 3]], object)
    made = factors._verified(5, (0, 1), gram, np.zeros(2, np.int64), scaled)
    assert made is not None
    moments: Any = SimpleNamespace(cross=np.array([0, 2], dtype=object), square=2)
    residual = ExactLeastSquares(made, moments)
    residual.refine(300)
    assert residual.square_low <= Fraction(2, 3) <= residual.square_high
    assert residual.square_high - residual.square_low <= 4 * Fraction(1, 4**300)


@pytest.mark.parametrize("weight", [-3.0, 0.1, 7.0])
def test_a_sum_of_coefficients_is_a_ball_about_the_exact_one(weight: float) -> None:
    residual, saved = solved_line(20), ctx.prec
    try:
        ctx.prec = 200
        ball = residual.linear(np.array([weight]))
        truth = arb(weight) * 2 / 3
        assert ball.overlaps(truth)
        off = abs(float((ball.mid() - truth).mid()))
        assert off <= float(ball.rad()) <= 1.002 * off
    finally:
        ctx.prec = saved


def test_a_ball_is_as_wide_as_all_its_weights_make_it() -> None:
    """Σ|w_k|·√(diagonal)·error: here 3·½ + 5·2, times 2**-7."""
    residual: Any = object.__new__(ExactLeastSquares)
    residual._spread = np.array([0.5, 2.0])
    residual._trial, residual.bits = np.array([0, 0], dtype=object), 5
    residual._error_units = 2.0**-2
    radius = float(residual.linear(np.array([3.0, -5.0])).rad())
    assert 11.5 * 2.0**-7 <= radius <= 11.5 * 2.0**-7 * (1 + 1e-8)
    assert residual.linear(np.array([3.0, -5.0])).mid() == 0
    errors = residual.coefficient_errors()
    assert (errors >= np.array([0.5, 2.0]) * 2.0**-7).all()
    assert (errors <= np.array([0.5, 2.0]) * 2.0**-7 * (1 + 1e-12)).all()


# --- the quadratic form --------------------------------------------------------------------------


def mixed_map(intercept: bool) -> FeatureMap:
    rng = np.random.default_rng(0)
    data = pa.table(
        {
            "x": rng.normal(size=60),
            "z": rng.normal(size=60),
            "a": rng.choice(list("uvw"), 60),
            "b": rng.choice(list("pq"), 60),
        }
    )
    return fit_features(scan(data), intercept=intercept, min_count=1)


def form_of(features: FeatureMap, root: Reals) -> QuadraticForm:
    return QuadraticForm(features, range(features.width), root, root.T @ root)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_all_terms_of_a_row_are_counted_once(
    intercept: bool, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With entries of size 1, Σ|terms| is (1 + two categories + |x| + |z|)²."""
    if wide:
        monkeypatch.setattr("labeldp.exact.quadratic_form.LARGE", 2)
    features = mixed_map(intercept)
    form = form_of(features, np.ones((1, features.width)))
    reach = np.array([3.0, 0.5])
    truth = (intercept + 2 + 3.5) ** 2
    assert truth <= form._largest_size(reach) <= truth * (1 + 1e-8)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_no_row_has_more_terms_than_are_allowed_for(
    intercept: bool, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pair of levels, numbers at the ends of their reach."""
    if wide:
        monkeypatch.setattr("labeldp.exact.quadratic_form.LARGE", 2)
    features, rng = mixed_map(intercept), np.random.default_rng(3)
    root = rng.normal(size=(features.width, features.width)) ** 3
    size = np.abs(root).T @ np.abs(root)
    form, reach = form_of(features, root), np.array([3.0, 0.5])
    largest = 0.0
    for levels in product(*(range(block.start, block.stop) for block in features.category_blocks)):
        row = np.zeros(features.width)
        row[0] = intercept or row[0]
        row[list(features.number_columns)] = reach
        row[list(levels)] = 1.0
        largest = max(largest, float(row @ size @ row))
    assert largest <= form._largest_size(reach) <= 40 * largest


@pytest.mark.parametrize(
    ("categories", "numbers", "rank"), [(0, 1, 1), (8, 0, 1), (2, 90, 3), (1, 1, 400)]
)
def test_as_many_roundings_are_counted_as_a_term_passes(
    categories: int, numbers: int, rank: int
) -> None:
    """c² + c additions in the tables and c² between them, or c + 2q; 3 products; `rank` terms."""
    form: Any = object.__new__(QuadraticForm)
    form._slices, form._numbers, form._rank = [None] * categories, list(range(numbers)), rank
    form._wide, form._intercept = False, True
    form._matrix = np.zeros((2 * categories + numbers + 1,) * 2)
    form._largest_size = lambda reach: float(reach[0])
    need = max(2 * categories**2 + categories, categories + 2 * numbers) + 3 + rank
    sharp = form.rounding_error(np.array([5.0])) / (5.0 * UNIT)
    assert 2 * need <= sharp <= 3 * need + 30
    generous = form.rounding_error(np.array([5.0]), generous=True) / (5.0 * UNIT)
    pairs = (1 + categories + numbers) ** 2 + 2 * len(form._matrix) + rank
    assert 2 * pairs < generous <= 2 * pairs + 20
    form._wide = True
    assert form.rounding_error(np.array([5.0]), generous=True) / (5.0 * UNIT) == sharp


# --- stacked bags --------------------------------------------------------------------------------


def bare_stack(white: Reals, reach: Reals, **said: Any) -> Any:
    """One bag of rows whose whitened entries are told."""
    made: Any = object.__new__(stacked.StackedBags)
    made.columns, made.rows, made.rank = white.shape[1], len(white), np.array([white.shape[1]])
    made.error_bound = np.zeros(1)
    vars(made).update(white=white[None], reach=reach[None], **said)
    return made


def test_the_leverage_of_a_bag_has_room_for_its_rounding() -> None:
    white = np.array([[0.3, 0.4], [0.1, -0.1], [0.0, 0.2]])
    (found,) = bare_stack(white, np.zeros(2)).leverages()
    assert Fraction(1, 4) * (1 + 2 * Fraction(4, 2**53)) <= Fraction(found)
    assert found <= 0.25 * (1 + 60 * UNIT)
    reach = np.array([3.0, 4.0]) * 2.0**45
    (found,) = bare_stack(white, reach).leverages()
    root = 0.5 + 4 * UNIT * 5 * 2.0**45  # two columns, and two roundings more
    assert root**2 <= found <= (1.02 * (root - 0.5) + 0.5) ** 2
    (found,) = bare_stack(white, np.zeros(2), error_bound=np.array([0.5])).leverages()
    assert 0.5 < found < 0.5 + 1e-12


def test_no_leverage_is_above_1() -> None:
    white = np.array([[0.3, 0.4], [3.0, -0.1], [0.0, 0.2]])
    assert bare_stack(white, np.zeros(2)).leverages().tolist() == [1.0]
    small = white / 10
    for rank, leverage in ((3, 1.0), (4, 1.0)):
        assert bare_stack(small, np.zeros(2), rank=np.array([rank])).leverages() == [leverage]
    assert bare_stack(small, np.zeros(2), rank=np.array([2])).leverages() < [0.1]


def test_products_of_bags_are_exact_to_the_last_unit() -> None:
    """Entries of 20 bits, more rows than one product of doubles could carry."""
    largest = float(2**20 - 1)
    design = np.full((1, 16383, 1), largest)
    assert stacked.grams_of_bags(design).tolist() == [[[16383 * int(largest) ** 2]]]


def test_columns_are_judged_in_whole_numbers_modulo_a_prime() -> None:
    """A pivot that is a multiple of the prime counts as none, and all after it as they are."""
    prime = 2**31 - 1
    gram = np.array([[[prime, 0, 0], [0, 5, 5], [0, 5, 5]], [[2, 1, 0], [1, 1, 0], [0, 0, 3]]])
    found, sure = stacked.independent_in_bags(gram)
    assert found.tolist() == [[False, True, False], [True, True, True]]
    assert sure.tolist() == [False, True], "of the other prime it is no multiple"


# --- weights -------------------------------------------------------------------------------------


def test_the_longest_row_has_room_for_what_cancels() -> None:
    """2**40 − 2**40 in the second entry: the length is 1, and what rounding of 2**41 leaves."""
    made = Weights((0, 1), np.array([[1.0, 0.0], [2.0**40, 2.0**40]]))
    found = made.largest_squared_norm(np.array([[1.0, -1.0]]))
    root = 1 + 2 * 2 * UNIT * math.hypot(1, 2.0**41)
    assert root**2 <= found <= (1 + 12.5 * UNIT * 2.0**41) ** 2
    plain = Weights((0,), np.array([[0.1]])).largest_squared_norm(np.array([[1.0], [-7.0], [3.0]]))
    truth = Fraction(0.1) ** 2 * 49
    assert truth <= Fraction(plain) <= truth * (1 + Fraction(32, 2**53))
    assert Weights((0,), np.array([[0.1]])).largest_squared_norm(np.empty((0, 1))) == 0.0


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        ([[2.0**399, 0.0], [0.0, 2.0**-401]], None),
        ([[2.0**400, 0.0], [0.0, 1.0]], "the weights are too large or too small to be measured"),
        ([[2.0**-402, 0.0], [0.0, 1.0]], "the weights are too large or too small to be measured"),
        ([[1.0, 0.0], [math.nan, 1.0]], "the weights are not all numbers"),
        ([[1.0, 0.0], [math.inf, 1.0]], "the weights are not all numbers"),
        ([[1.0, 0.0], [3.0, 0.0]], "the weights are not an invertible lower triangle"),
        ([[1.0, 0.5], [3.0, 1.0]], "the weights are not an invertible lower triangle"),
        ([[1.0, 0.0], [-3.0, -1.0]], None),
    ],
)  # fmt: skip
def test_weights_of_which_no_length_can_be_trusted(
    matrix: list[list[float]], problem: str | None
) -> None:
    assert Weights((0, 1), np.array(matrix)).problem() == problem


def published(values: Reals) -> Reals:
    factor: Any = SimpleNamespace(kept=(0,), exponents=np.zeros(1, np.int64))
    return Weights.rounded(factor, values[:, None]).matrix[:, 0]


def test_published_weights_have_forty_bits_rounded_to_even() -> None:
    last = Fraction(1, 2**39)
    for part, up in (
        (Fraction(1, 2), 0),
        (Fraction(3, 2), 2),
        (Fraction(5, 4), 1),
        (Fraction(7, 4), 2),
    ):
        for sign in (1, -1):
            value = np.array([sign * float(1 + part * last)])
            assert Fraction(float(published(value)[0])) == sign * (1 + up * last)
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000) * 2.0 ** rng.integers(-30, 30, 1000)
    rounded = published(values)
    mantissas = np.ldexp(np.frexp(rounded)[0], 40)
    assert np.array_equal(
        mantissas, np.rint(np.ldexp(np.frexp(values)[0], 40)) * (mantissas / mantissas)
    )
    assert np.abs(rounded / values - 1).max() <= 2.0**-40


def test_weights_are_the_same_after_a_file_and_scaled_by_powers_of_two() -> None:
    made = Weights((1, 4, 7), np.tril(np.arange(1.0, 10.0).reshape(3, 3)))
    again = Weights.from_json(made.to_json())
    assert again.kept == made.kept
    assert np.array_equal(again.matrix, made.matrix)
    assert np.array_equal(made.scaled(3).matrix, 8 * made.matrix)
    assert np.array_equal(made.scaled(-1).matrix, made.matrix / 2)


def test_noise_is_that_of_the_weights_in_whitened_coordinates() -> None:
    """K = (C·L)⁻¹ in the units of the factor."""
    factor = VerifiedCholesky(
        9, (0, 1), np.zeros((2, 2), object), np.array([3, -1]), np.array([[2.0, 0], [1, 4]]),
        np.eye(2), 0.0,
    )  # fmt: skip
    made = Weights((0, 1), np.array([[0.5, 0.0], [0.25, 2.0]]))
    units = np.diag([8.0, 0.5])
    whole = made.matrix @ units @ factor.lower
    root = made.noise_root(factor)
    assert root @ whole == pytest.approx(np.eye(2))
    built = Weights.rounded(factor, np.array([[1.0, 9.0], [2.0, 4.0]]))
    assert built.matrix.tolist() == [[0.125, 0.0], [0.25, 8.0]]


# --- lengths -------------------------------------------------------------------------------------


def sighting(maximum: float) -> RowNorms:
    nothing: Any = None
    return RowNorms(maximum, nothing)


def test_a_length_is_certain_only_with_room_for_its_root() -> None:
    assert not sighting(1.0).is_within(1.0)
    assert not sighting(1.0).is_within(1.0 + 2 * UNIT)
    assert sighting(1.0).is_within(1.0 + 6 * UNIT)
    assert sighting(4.0).is_within(2.0 + 12 * UNIT)
    assert not sighting(4.0).is_within(1.99)


@pytest.mark.parametrize("exact", [1.0, 1.5, 2.0 - 2.0**-52, 3e-7, 12345.678])
def test_a_short_length_is_larger_by_more_than_a_rounding_and_has_few_bits(exact: float) -> None:
    found = round_length_up(exact)
    assert exact * (1 + 2.0**-25) < found <= exact * (1 + 2.0**-22)
    fraction, _ = math.frexp(found)
    assert (fraction * 2**25).is_integer()
    unit = 2.0 ** (math.frexp(exact)[1] - 24)
    assert unit < found - exact <= 2 * unit
    assert sighting(exact**2).is_within(sighting(exact**2).length)
    assert sighting(exact**2).length == round_length_up(math.sqrt(exact**2) * (1 + 4 * UNIT))


# --- pools ---------------------------------------------------------------------------------------


def test_a_pool_holds_different_rows_of_largest_key() -> None:
    """Against all rows put in order at once; equal rows have equal marks, and equal keys."""
    features = fit_features(scan(pa.table({"x": np.arange(50.0)})))
    rng = np.random.default_rng(0)
    from labeldp.features.encoder import Encoded

    for size in (1, 3, 10):
        pool = TopK(size, np.empty(0), np.empty(0, np.uint64), Encoded.empty(features))
        unsorted = pool
        seen: dict[int, float] = {}
        for _ in range(6):
            marks = rng.integers(0, 15, 8).astype(np.uint64)
            keys = np.where(marks == 3, -np.inf, (marks * 7 % 5).astype(float))
            rows = Encoded(8, marks[:, None].astype(float), (), features.joint_codes)
            pool = pool.with_rows(keys, marks, rows).best()
            unsorted = unsorted.with_rows(keys, marks, rows)
            assert len(unsorted.keys) <= 2 * size
            assert np.array_equal(unsorted.best().hashes, pool.hashes)
            seen |= {int(mark): float(key) for mark, key in zip(marks, keys, strict=True)}
            ranked = sorted((-key, mark) for mark, key in seen.items() if key > -np.inf)
            assert [int(mark) for mark in pool.hashes] == [mark for _, mark in ranked[:size]]
            assert pool.keys.tolist() == [-key for key, _ in ranked[:size]]
            assert pool.rows.numbers[:, 0].tolist() == [float(mark) for _, mark in ranked[:size]]
            full = len(pool.keys) == size
            assert pool.threshold == (pool.keys[-1] if full else -np.inf)


# --- persons -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 1000, 2**20, 2**21, 2**22, 2**30, 2**40])
def test_units_of_a_length_are_as_small_as_sums_of_all_rows_allow(rows: int) -> None:
    """A row has a length below 2: all together stay below 2**62."""
    made: Any = object.__new__(PersonScan)
    made._features = SimpleNamespace(rows=rows)
    assert rows * 2 ** (made._bits + 1) < 2**62
    assert made._bits == 40 or rows * 2 ** (made._bits + 2) >= 2**61


def units(lengths: list[float], slack: float = 0.0, number: float = 1.0) -> Any:
    """What rows of these lengths count, and whether one was too long; numbers reach 1."""
    made: Any = object.__new__(PersonScan)
    made._features = SimpleNamespace(rows=10, reach=np.array([1.0]))
    made._too_long = False
    made._form = Mock(return_value=np.square(lengths), rounding_error=lambda _reach: slack)
    batch: Any = SimpleNamespace(numbers=np.array([[0.5], [number]]))
    return made._units(batch), made._too_long


def test_lengths_are_counted_in_units_rounded_up() -> None:
    found, too_long = units([0.0, 0.5, 1.5])
    assert not too_long
    for count, length in zip(found, (0.0, 0.5, 1.5), strict=True):
        assert length * 2**40 <= count <= length * 2**40 + 2
        assert count > length * 2**40 or length == 0.0, "with room for the root"
    found, _ = units([0.0, 0.0], slack=2.0**-40)
    assert 2**20 <= found[0] <= 2**20 + 1


@pytest.mark.parametrize(
    ("length", "number", "too_long"),
    [(1.9999, 1.0, False), (2.0, 1.0, True), (1.0, 1.001, True), (1.0, -1.001, True),
     (1.0, -1.0, False)],
)  # fmt: skip
def test_rows_too_long_or_beyond_the_map_are_not_counted(
    length: float, number: float, too_long: bool
) -> None:
    assert units([0.1, length], number=number)[1] is too_long


def test_the_longest_person_is_not_made_shorter_by_rounding() -> None:
    """At least the sum of the units, and next to nothing more."""
    units = 2**61 - 1  # as a double it is rounded
    features, weights = SimpleNamespace(rows=10), Weights((0,), np.ones((1, 1)))
    scan: Any = PersonScan(features, weights)  # type: ignore[arg-type]
    sums = np.array([[units // 2 + 1, 2], [units // 2, 1], [7, 5]])
    scan.merge((8, False, np.array([4, 4, 9], np.uint64), sums))
    found, truth = scan.result(), Fraction(units, 2**40)
    assert truth * (1 + Fraction(1, 2**51)) <= Fraction(found.length)
    assert Fraction(found.length) <= truth * (1 + Fraction(1, 2**48))
    assert found.rows == 5


# --- exact sums ----------------------------------------------------------------------------------


def test_sums_of_products_are_exact_to_the_last_unit() -> None:
    """Of 20 bits each: the odd sum of more than 8,192 such products is no double."""
    largest = float(2**20 - 1)
    for rows in (1, 8192, 8193, 16383, 24577):
        column = np.full((rows, 1), largest)
        assert grams.exact_products(column, -column).tolist() == [[-rows * int(largest) ** 2]]
    rng = np.random.default_rng(0)
    left, right = rng.integers(-(2**20), 2**20, (2, 9000, 2))
    found = grams.exact_products(left.astype(float), right.astype(float))
    assert np.array_equal(found, left.T @ right)


def test_a_digest_is_that_of_numbers_in_two_limbs_of_32_bits() -> None:
    import hashlib

    for high, low in ((5, 7), (-6, 2**32 - 9), (2**40, 0)):
        products = np.array([[high * 2**32 + low]], object)
        gram = FeatureGram(5, np.array([[4, 3], [3, 0]]), products, (1,))
        hasher = hashlib.sha256(b"5 2 (1,)")
        hasher.update(b"".join(n.to_bytes(8, "little", signed=True) for n in (4, 3, 3, low, high)))
        assert gram.digest() == hasher.hexdigest()
    plain = FeatureGram(5, np.array([[4]]), np.zeros((0, 0), object), ())
    hasher = hashlib.sha256(b"5 1 ()" + b"")
    hasher.update((4).to_bytes(8, "little"))
    assert plain.digest() == hasher.hexdigest()


@pytest.mark.parametrize(("rows", "words"), [
    (0, "the data have no rows; nothing can be released"),
    (2**40, None),
    (2**40 + 1, "the data have more than 1,099,511,627,776 rows, and exact sums of more could "
                "overflow; release parts of the table"),
])  # fmt: skip
def test_tables_without_rows_or_with_too_many_are_refused(rows: int, words: str | None) -> None:
    features = ONE_NUMBER
    accumulator = grams.GramAccumulator(features)
    if rows:
        accumulator.merge(FeatureGram(rows, np.array([[0]]), np.array([[1]], object), (0,)))
    if words is None:
        assert accumulator.result().rows == rows
        return
    with pytest.raises(DataError) as refusal:
        accumulator.result()
    assert str(refusal.value) == words


# --- the grid of labels --------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "ends",
    [
        (0.0, 1.0),
        (-3.0, 5.0),
        (0.0, 1e-100),
        (-1e100, 1e100),
        (-7.0, -6.9),
        (1e9, 1e9 + 1),
        (-5.0, 1.0),
    ],
)
def test_codes_of_labels_have_twenty_bits_and_no_fewer_than_needed(
    ends: tuple[float, float], intercept: bool
) -> None:
    grid = LabelGrid.for_range(ends, intercept=intercept)
    codes = grid.codes(np.array([*ends, 0.5 * ends[0] + 0.5 * ends[1]]))
    width = math.ldexp(ends[1] - ends[0], -grid.exponent)
    reach = width if intercept else 2 * math.ldexp(max(map(abs, ends)), -grid.exponent)
    assert np.abs(codes).max() <= 2**20
    assert 2**19 < reach <= 2**20
    assert grid.centre == 0 or intercept
    if intercept:
        assert np.abs(codes[:2]).max() <= 2**19 + 1
        assert abs(codes[2]) <= 1
    low, high = grid.range
    assert low <= ends[0] < ends[1] <= high
    step = math.ldexp(1.0, grid.exponent)
    assert ends[0] - low <= 0.51 * step
    assert high - ends[1] <= 0.51 * step


@pytest.mark.parametrize(
    ("ends", "fits"),
    [((0.0, 1e-100), True), ((0.0, 0.9e-100), False), ((0.0, 1e100), True), ((-1e100, 0.0), True),
     ((0.0, 1.1e100), False), ((-1.1e100, 0.0), False)],
)  # fmt: skip
def test_ranges_too_narrow_or_too_wide_are_refused(ends: tuple[float, float], fits: bool) -> None:
    if fits:
        LabelGrid.for_range(ends, intercept=True)
        return
    with pytest.raises(InputError) as refusal:
        LabelGrid.for_range(ends, intercept=True)
    assert str(refusal.value) == (
        f"label range {ends[0]:g} {ends[1]:g} is too narrow or too wide; rescale the labels"
    )


def test_the_reach_of_a_bag_is_that_of_its_largest_entries() -> None:
    made: Any = object.__new__(stacked.StackedBags)
    made.design = np.array([[[1.0, -5.0], [-2.0, 3.0]]])
    made.whitener = np.array([[[1.0, 0.0], [-0.5, 0.25]]])
    made.columns = 2
    assert made.reach.tolist() == [[2.0, 0.5 * 2 + 0.25 * 5]]
    assert made.white.tolist() == [[[1.0, -0.5 - 1.25], [-2.0, 1.0 + 0.75]]]
    assert made.terms == 4
    assert pytest.approx(UNIT, rel=0.015) == stacked.ROUNDING
    assert stacked.ROUNDING > UNIT


@pytest.mark.parametrize("entry", [0, 17, 2**62, -(2**62), 2**63, 2**93 + 1, -(2**93)])
def test_sums_of_products_are_exact_however_large(entry: int) -> None:
    made = FeatureGram(5, np.array([[7, 3], [3, 0]]), np.array([[entry]], object), (1,))
    assert made.exact((0, 1)).tolist() == [[7, 3], [3, entry]]
    assert made.exact((1, 0)).tolist() == [[entry, 3], [3, 7]]
    assert made.exact((1,)).tolist() == [[entry]]
    assert made.exact((0,)).tolist() == [[7]]
    assert (made + made).exact((1,)).tolist() == [[2 * entry]]
    assert made.diagonal().tolist() == [7.0, float(entry)]
