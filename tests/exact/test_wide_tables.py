"""What wide tables do differently gives the same, or bounds that hold: seen on small ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from labeldp.exact import (
    cholesky as factors,
    quadratic_form,
)
from labeldp.exact.row_norms import Weights
from labeldp.features.encoder import Encoded
from tests.mechanisms.test_noise_shape import Table, form_of, numbers
from tests.oracles.best_shape import exact_square_length
from tests.tables import source

Array = NDArray[np.float64]


def some_weights(table: Table, seed: int, spread: float) -> Weights:
    """A lower triangle whose columns differ in size."""
    rng, size = np.random.default_rng(seed), table.factor.rank
    lower = np.tril(rng.normal(size=(size, size))) * 10.0 ** rng.uniform(-spread, spread, size)
    return Weights(table.factor.kept, lower)


def encoded(table: Table) -> Encoded:
    (batch,) = table.data.feature_batches(table.features.columns)
    return table.features.encode(batch)


@given(seed=st.integers(0, 10_000), spread=st.floats(0, 5), mixed=st.booleans())
@settings(max_examples=25)
def test_the_rounding_is_bounded_by_norms_too(seed: int, spread: float, mixed: bool) -> None:
    table = Table(source(60, seed) if mixed else numbers(60, 9, seed, tail=1.2))
    weights, rows = some_weights(table, seed, spread), encoded(table)
    reach = np.abs(rows.numbers).max(axis=0, initial=0.0)
    entries = form_of(table.features, weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quadratic_form, "LARGE", 1)
        norms = form_of(table.features, weights)
    bound = norms.rounding_error(reach)
    assert (
        entries.rounding_error(reach)
        <= bound
        <= 1e-6
        * 10.0 ** (4 * spread)
        * float(max(exact_square_length(weights.matrix, row) for row in table.codes))
    )
    assert norms.rounding_error(reach, generous=True) == bound


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("part", ["constant", "others"])
def test_no_part_of_a_row_is_forgotten_in_the_norms(mixed: bool, part: str) -> None:
    """Where one part outweighs all others, the bound is its own."""
    table = Table(source(60, 1) if mixed else numbers(60, 9, 1))
    weights = some_weights(table, 1, 0.0)
    assert table.factor.kept[0] == 0
    weights.matrix[:, 0] *= 1e12 if part == "constant" else 0.0
    reach = np.abs(encoded(table).numbers).max(axis=0, initial=0.0)
    entries = form_of(table.features, weights).rounding_error(reach)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quadratic_form, "LARGE", 1)
        bound = form_of(table.features, weights).rounding_error(reach)
    assert entries <= bound <= 100 * entries


@pytest.mark.parametrize("count", [2, 9, 70])
def test_the_digits_of_a_form_do_not_depend_on_the_rows_beside_a_row(count: int) -> None:
    table = Table(numbers(300, count, 3))
    form, rows = form_of(table.features, some_weights(table, 0, 2.0)), encoded(table)
    together = form(rows).copy()
    for size in (1, 7, 130):
        for start in range(0, 300, 37):
            part = slice(start, start + size)
            alone = form(rows.take(part))
            assert np.array_equal(alone, together[part])


@pytest.mark.parametrize("tail", [1.2, 3.0])
def test_the_length_is_a_bound_where_numbers_are_very_many(
    tail: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the same rows are kept, however the pass is cut."""
    monkeypatch.setattr(quadratic_form, "LARGE", 1)
    table = Table(numbers(300, 9, 1, tail=tail))
    for weights in (some_weights(table, 5, 6.0), table.isotropic()):
        exact = max(exact_square_length(weights.matrix, row) for row in table.codes)
        for keep in (0, 7):
            found = [table.scan(weights, keep, 0.0, rows).result() for rows in (1, 7, 65536)]
            assert len({each.length for each in found}) == 1
            assert exact <= Fraction(found[0].length) ** 2 <= exact * (1 + Fraction(1, 10**6))
            for each in found[1:]:
                assert np.array_equal(table.integers(each.rows), table.integers(found[0].rows))


@pytest.mark.parametrize("seed", range(4))
def test_the_error_bound_of_a_large_factor_is_a_bound(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against ‖L⁻¹SL⁻ᵀ − I‖ in rational arithmetic, of a factor that is off on purpose too."""
    table = Table(numbers(200, 6, seed, tail=1.5))
    found = table.factor
    scaled = np.ldexp(found.gram.astype(np.float64), -found.exponents)
    scaled = np.ldexp(scaled.T, -found.exponents)
    for off in (0.0, 1e-9, 1e-3):
        inverse = found.inverse * (1 + off)
        usual = float(factors.error_bounds(scaled, found.lower, inverse))
        with monkeypatch.context() as patch:
            patch.setattr(factors, "LARGE", 1)
            large = float(factors.error_bounds(scaled, found.lower, inverse))
        true = _distance(found.gram, found.exponents, inverse)
        assert true <= large <= 10 * usual


def test_the_error_bound_has_room_for_every_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the identity nothing is off: left is what 2n + 6 and twice n + 3 terms may lose."""
    monkeypatch.setattr(factors, "LARGE", 1)
    for size in (2, 50):
        one = np.asfortranarray(np.eye(size))
        room = (4 * size + 12) * factors.ROUNDOFF
        assert room <= float(factors.error_bounds(one, one, one)) <= 1.02 * room


def _distance(gram: NDArray[np.object_], exponents: NDArray[np.int64], inverse: Array) -> float:
    """‖L⁻¹SL⁻ᵀ − I‖, in rationals but for the norm."""
    scale = [Fraction(2) ** -int(e) for e in exponents]
    exact = np.array([[Fraction(int(v)) for v in row] for row in gram], dtype=object)
    exact = exact * np.array(scale)[:, None] * np.array(scale)[None, :]
    rows = np.array([[Fraction(float(v)) for v in row] for row in inverse], dtype=object)
    error = rows @ exact @ rows.T - np.eye(len(gram), dtype=int)
    return float(np.linalg.norm(error.astype(np.float64), 2))
