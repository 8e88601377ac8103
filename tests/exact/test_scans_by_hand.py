"""Scans over rows against all rows at once: quadratic forms, leverages, lengths and pools."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from labeldp.data.source import scan
from labeldp.errors import DataError
from labeldp.exact import row_norms as module
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.person_norms import PersonScan
from labeldp.exact.quadratic_form import LeverageScan, QuadraticForm
from labeldp.exact.row_norms import RowNormScan, Weights
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features

Reals = NDArray[np.float64]
ROWS = 240


def prepared(
    numbers: int, levels: tuple[int, ...], intercept: bool = True, seed: int = 0
) -> tuple[FeatureMap, Encoded, Reals]:
    """A table with rows that stand in it twice: its map, its codes, and all columns of them."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {f"x{k}": rng.normal(size=ROWS) for k in range(numbers)}
    columns |= {
        f"c{k}": np.char.add("level ", rng.integers(0, size, ROWS).astype(str))
        for k, size in enumerate(levels)
    }
    data = pa.table(columns)
    data = pa.concat_tables([data.slice(0, ROWS - 40), data.slice(0, 40)]).combine_chunks()
    features = fit_features(scan(data), intercept=intercept, min_count=1, winsor=0)
    rows = features.encode(data.to_batches()[0])
    return features, rows, features.integers(rows)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("numbers", "levels"),
    [
        (1, ()),
        (3, (2,)),
        (0, (3, 2)),
        (2, (3, 2, 4)),
        (70, (3, 5)),
        (1, (60, 50)),
        (2, (60, 60, 60)),
        (1, (20, 20, 20, 20, 20, 20)),
    ],
)
def test_a_quadratic_form_is_the_product_of_all_its_terms(
    numbers: int, levels: tuple[int, ...], intercept: bool
) -> None:
    """In whole numbers both ways give xᵀMx to the last digit."""
    features, rows, _ = prepared(numbers, levels, intercept)
    rng = np.random.default_rng(1)
    half = rng.integers(-9, 10, (features.width, features.width))
    matrix = (half + half.T).astype(float)
    few = rng.integers(-50, 50, (ROWS, numbers)).astype(float)
    rows = Encoded(ROWS, few, rows.codes, rows.joint_codes)
    dense = features.integers(rows)
    expected = np.einsum("ij,jk,ik->i", dense, matrix, dense)
    form = QuadraticForm(features, range(features.width), matrix, matrix)
    assert np.array_equal(form(rows), expected)
    if numbers:
        assert np.array_equal(form(rows, rough=True), expected)
    assert np.array_equal(form.gradient(dense[0]), matrix @ dense[0])


# --- lengths and pools ---


def weighted(features: FeatureMap, seed: int = 2) -> Weights:
    rng = np.random.default_rng(seed)
    lower = np.tril(rng.integers(-9, 10, (features.width, features.width))).astype(float)
    np.fill_diagonal(lower, 3.0)
    return Weights(tuple(range(features.width)), np.ldexp(lower, -30))


def splitmix(word: int) -> int:
    word = (word + 0x9E3779B97F4A7C15) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        word = (word ^ (word >> shift)) * factor % 2**64
    return word


def mark(codes: list[int]) -> int:
    factors = [splitmix(place + 1) | 1 for place in range(len(codes))]
    return splitmix(sum(code * factor for code, factor in zip(codes, factors, strict=True)) % 2**64)


def test_a_mark_is_a_hash_of_all_of_a_row() -> None:
    _, rows, _ = prepared(3, (4, 3))
    found = module._content_hashes(rows)
    columns = [*rows.codes, *rows.numbers.T]
    for place in range(20):
        assert int(found[place]) == mark([int(column[place]) for column in columns])


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("numbers", [2, 9, 66])
def test_pools_hold_the_longest_rows_and_those_that_chance_prefers(
    numbers: int, parts: int
) -> None:
    """All different rows put in order at once, by value and by (value − floor)/−log u."""
    features, rows, dense = prepared(numbers, (3,))
    weights = weighted(features)
    exact = np.square(dense @ weights.matrix.T).sum(axis=1)
    floor = float(np.quantile(exact, 0.2))
    accumulator = RowNormScan(features, weights, keep=12, sample=19, floor=floor)
    for part in range(parts):
        other = accumulator.new()
        other.add(rows.take(slice(part * ROWS // parts, (part + 1) * ROWS // parts)))
        other.add(rows.take(slice(0, 0)))
        accumulator.merge(other.state())
    seen = accumulator.result()
    marks = module._content_hashes(rows)
    first = {int(each): place for place, each in reversed(list(enumerate(marks.tolist())))}
    by_value = sorted(first, key=lambda each: (-exact[first[each]], each))
    worst = by_value[:12]
    keys = {
        each: (exact[first[each]] - floor) / -math.log(((each >> 12) + 0.5) * 2.0**-52)
        for each in first
        if exact[first[each]] > floor
    }
    drawn = sorted(keys, key=lambda each: -keys[each])[:19]
    kept = worst + [each for each in drawn if each not in worst]
    assert np.array_equal(features.integers(seen.rows), dense[[first[each] for each in kept]])
    longest = max(
        sum(
            sum(Fraction(c) * int(x) for c, x in zip(line, row, strict=True)) ** 2
            for line in weights.matrix.tolist()
        )
        for row in dense[np.argsort(-exact)[:3]].tolist()
    )
    assert longest <= Fraction(seen.maximum) <= longest * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("numbers", [2, 9, 66])
def test_without_pools_only_the_maximum_is_found(numbers: int) -> None:
    features, rows, dense = prepared(numbers, (3,))
    weights = weighted(features)
    accumulator = RowNormScan(features, weights)
    accumulator.add(rows)
    seen = accumulator.result()
    exact = np.square(dense @ weights.matrix.T).sum(axis=1).max()
    assert exact * (1 - 1e-14) <= seen.maximum <= exact * (1 + 1e-12)
    assert seen.rows.rows == 0
    assert accumulator.new().result().maximum == 0.0


def test_chances_grow_with_the_distance_from_the_floor_and_with_the_mark() -> None:
    features, _, _ = prepared(2, ())
    accumulator = RowNormScan(features, weighted(features), keep=1, floor=1.0)
    marks = np.array([2**63, 2**63, 0, 2**64 - 1, 2**63], np.uint64)
    found = accumulator._sampling_keys(np.array([2.0, 3.0, 2.0, 2.0, 1.0]), marks)
    assert found[0] == pytest.approx(1 / math.log(2))
    assert found[1] == pytest.approx(2 / math.log(2))
    assert found[2] == pytest.approx(1 / (53 * math.log(2)))
    assert found[3] == pytest.approx(2.0**53, rel=1e-3)
    assert found[4] == -math.inf


@pytest.mark.parametrize(
    ("largest", "worst", "drawn", "near"),
    [
        (5.4, 99.0, 99.0, [5, 6]),
        (5.5, 99.0, 99.0, [6]),
        (6.5, 99.0, 99.0, []),
        (99.0, 5.5, 99.0, [5, 6]),
        (99.0, 5.51, 99.0, [6]),
        (99.0, 99.0, 13.0, [6]),
        (99.0, 99.0, 13.1, []),
        (99.0, 99.0, -math.inf, [0, 1, 2, 3, 4, 5, 6]),
        (99.0, 99.0, 99.0, []),
    ],
)
def test_rows_that_may_be_longest_or_enter_a_pool_have_room_for_two_roundings(
    largest: float, worst: float, drawn: float, near: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight numbers and more; values 0 to 6 that are half a unit off at most."""
    made: Any = object.__new__(RowNormScan)
    made._sampling_keys = lambda values, _seen: np.where(values > 0, 2 * values, -math.inf)
    made._largest, made._reach, made._keep = largest, np.zeros(8), 3
    made._worst, made._sampled = SimpleNamespace(threshold=worst), SimpleNamespace(threshold=drawn)
    made._update_maximum, made._offer = Mock(), Mock()
    monkeypatch.setattr(module, "_content_hashes", lambda batch: batch.numbers[:, 0])
    made._floor = 0.0
    batch = Encoded(7, np.repeat(np.arange(7.0)[:, None], 8, axis=1), (), Mock())
    made._form = Mock(side_effect=lambda batch, **_: batch.numbers[:, 0])
    made._form.rounding_error = lambda _reach: 0.25
    made.add(batch)
    ((rows, _, hashes), _) = made._offer.call_args
    assert rows.numbers[:, 0].tolist() == hashes.tolist() == near


def test_rows_that_may_be_longest_are_looked_at_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two at a time, the longest first; none that its slack leaves below what was found."""
    monkeypatch.setattr(module, "_EXACT_ROWS", 2)
    asked: list[list[float]] = []

    def longest(rows: Reals) -> float:
        asked.append(sorted(rows[:, 0].tolist()))
        return float(rows.max()) - 0.5

    made: Any = object.__new__(RowNormScan)
    made._features = SimpleNamespace(integers=lambda batch: batch)
    made._weights = SimpleNamespace(largest_squared_norm=longest)
    values = np.empty(0)
    batch: Any = SimpleNamespace(take=lambda places: values[places][:, None])
    for before, expected in (
        (0.0, [[8.6, 9.0], [7.6, 8.0]]),
        (8.5, [[8.6, 9.0], [7.6]]),
        (10.0, []),
        (9.9, [[9.0]]),
    ):
        values = np.array([8.6, 1.0, 7.6, 9.0, 8.0, 2.0])
        if before == 8.5:
            values[4] = 3.0
        asked.clear()
        made._largest = before
        made._update_maximum(batch, values, 1.0)
        assert asked == expected
        assert made._largest == max(before, 8.5 if expected else before)


# --- leverages -----------------------------------------------------------------------------------


def factor_of(matrix: Reals) -> Any:
    """What a scan of leverages asks of a factor with this (XᵀX)⁻¹."""
    return SimpleNamespace(
        kept=tuple(range(len(matrix))),
        whitener=matrix,
        crossproduct=lambda: matrix,
        error_bound=0.0,
        cache_key=lambda: (),
        is_of=None,
    )


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("numbers", [2, 9])
def test_the_costliest_row_is_found_and_ties_go_by_content(numbers: int, parts: int) -> None:
    features, rows, dense = prepared(numbers, (3, 2))
    rng = np.random.default_rng(4)
    root = rng.normal(size=(features.width, features.width)) * 2.0**-20
    accumulator = LeverageScan(features, factor_of(root.T @ root))
    for part in range(parts):
        other = accumulator.new()
        start, end = part * ROWS // parts, (part + 1) * ROWS // parts
        other.add(rows.take(slice(start, end)), None, start)
        other.add(rows.take(slice(0, 0)), None, end)
        accumulator.merge(other.state())
    found = accumulator.result()
    exact = np.square(dense @ root.T).sum(axis=1)
    first = min(
        range(ROWS),
        key=lambda place: (
            -round(exact[place] / exact.max(), 10),
            tuple(int(levels[place]) for levels in rows.categories),
            tuple(rows.numbers[place]),
            place,
        ),
    )
    assert found.row == first
    assert -accumulator._costliest[0] == pytest.approx(exact[first], rel=1e-9)
    assert accumulator._reach == pytest.approx(np.abs(rows.numbers).max(axis=0))


@pytest.mark.parametrize(
    ("value", "rounding", "error_bound", "maximum"),
    [(0.25, 0.0, 0.0, 0.25), (0.25, 2.0**-20, 0.0, 0.25 + 2.0**-20), (0.25, 0.0, 0.5, 0.5),
     (0.75, 0.0, 0.5, 1.0), (1.5, 0.0, 0.0, 1.0)],
)  # fmt: skip
def test_the_largest_leverage_has_room_for_its_rounding_and_its_factor(
    value: float, rounding: float, error_bound: float, maximum: float
) -> None:
    made: Any = object.__new__(LeverageScan)
    made._costliest = (-value, (1,), 7)
    made._form = SimpleNamespace(rounding_error=lambda _reach, generous: rounding * generous)
    made._reach, made._error_bound = np.empty(0), error_bound
    made._main_column = lambda content: f"column of {content}"
    found = made.result(lambda row: row + 1)
    assert (found.row, found.column) == (8, "column of (1,)")
    if maximum == 1.0:
        assert found.maximum == 1.0
        return
    assert maximum * (1 + 2.0**-52) <= found.maximum <= maximum * (1 + 2.0**-50)


def test_a_scan_of_no_rows_has_no_leverage() -> None:
    features, _, _ = prepared(2, ())
    accumulator = LeverageScan(features, factor_of(np.eye(features.width)))
    with pytest.raises(DataError, match="no rows"):
        accumulator.result()


def test_rows_worth_a_closer_look_have_room_for_two_roundings_each() -> None:
    """Of eight numbers and more: within twice the slack of the largest rough value."""
    made: Any = object.__new__(LeverageScan)
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.5])
    seen: list[list[int]] = []

    def near(largest: float = -np.inf) -> list[int]:
        made._costliest, made._reach = (-largest, (), 9), np.zeros(8)
        made.add(rows)
        return seen.pop()

    def form(batch: Encoded, *, rough: bool = False) -> Reals:
        if rough:
            whole.append(batch.numbers)
            return values.copy()
        places = [int(np.flatnonzero((whole[-1] == row).all(1))[0]) for row in batch.numbers]
        seen.append(places)
        return values[places]

    rows, whole = prepared(8, ())[1].take(np.arange(8)), list[Reals]()
    made._form = Mock(side_effect=form)
    made._form.rounding_error = lambda reach, generous: 0.125 * len(reach) / 8 * generous
    # the largest is 7; the slack of a difference of two is 0.25
    assert near() == [6]
    values[1] = 6.5
    assert near() == [1, 6]
    values[1] = 6.49
    assert near() == [6]
    assert near(5.0) == [6]
    values[1] = 6.8
    assert near(7.0) == [1, 6]  # a true value may be as large as one that was found
    assert near(7.1) == [6]


# --- what accumulators ask for, and take along ---


def test_what_a_scan_remembers_is_told_apart_by_all_that_it_depends_on() -> None:
    """Of one table: other weights, persons, pools or factors have other answers."""
    features, _, _ = prepared(3, (2,))
    one, other = weighted(features), weighted(features, 9)
    persons = [
        PersonScan(features),
        PersonScan(features, one),
        PersonScan(features, other),
    ]
    pools = [
        RowNormScan(features, one),
        RowNormScan(features, other),
        RowNormScan(features, one, keep=3),
        RowNormScan(features, one, keep=4),
        RowNormScan(features, one, keep=3, sample=1),
        RowNormScan(features, one, keep=3, floor=0.5),
    ]
    factors = [factor_of(np.eye(features.width)), factor_of(2 * np.eye(features.width))]
    for number, each in enumerate(factors):
        each.cache_key = lambda number=number: ("factor", number)
    leverages = [LeverageScan(features, each) for each in factors]
    accumulators: list[Any] = [*persons, *pools, *leverages, GramAccumulator(features)]
    keys = [accumulator.requirements.cache_keys[0] for accumulator in accumulators]
    assert len(set(keys)) == len(keys)
    assert [accumulator.requirements.cache_keys[0] for accumulator in accumulators] == keys
    for accumulator in accumulators:
        assert accumulator.requirements.columns == features.columns
        assert accumulator.requirements.features == replace(features, kept=None)
    maxima = [accumulator.requirements.cache_keys[-1] for accumulator in pools]
    assert maxima == [keys[3], keys[4], *[keys[3]] * 4]


def test_a_new_accumulator_is_empty_and_small() -> None:
    """It has the form that was made, and neither rows nor the factor."""
    features, rows, _ = prepared(3, (2,))
    rows = replace(rows, persons=np.arange(ROWS, dtype=np.uint64) << np.uint64(50))
    whole = factor_of(np.eye(features.width) * 2.0**-60)
    weights = weighted(features)
    for accumulator in (
        LeverageScan(features, whole),
        PersonScan(features, weights),
        RowNormScan(features, weights, keep=3),
    ):
        made: Any = accumulator
        made.add(rows)
        fresh = made.new()
        assert fresh._form is made._form
        assert "_cholesky" not in vars(fresh)
        if not isinstance(made, RowNormScan):  # sums of the same rows refuse in its place
            with pytest.raises(DataError, match="no rows"):
                fresh.result()
        assert not np.asarray(getattr(fresh, "_reach", 0)).any()
        empty = fresh.state()
        fresh.merge(made.state())
        fresh.merge(empty)
        assert repr(fresh.result()) == repr(again(made))


def again(accumulator: Any) -> Any:
    """Its result, by way of what it shares."""
    whole = accumulator.new()
    whole.merge(accumulator.state())
    return whole.result()
