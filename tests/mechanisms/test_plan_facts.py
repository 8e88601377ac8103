"""Facts that a claim rests on, each from raw rows: what labels round to, floors, B_X, leverages."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from labeldp import InputError, Plan, PlanError, scan
from labeldp.exact.label_sums import LabelGrid
from labeldp.features.fit import fit_features
from labeldp.mechanisms import design_summary, residual_floor
from labeldp.sampling.streams import Randomness
from tests.features import feature_twin
from tests.mechanisms.cases import CASES, ROWS, SAMPLED, SHAPED, small_plan
from tests.tables import source, table

# --- labels: the range is that of the labels as rounded -------------------------------------


def on_grid(label: float, exponent: int) -> float:
    """The multiple of 2**exponent next to a label, by whole numbers."""
    step = Fraction(2) ** exponent
    return float(round(Fraction(label) / step) * step)


ends = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(ends, st.floats(1e-3, 1e6), st.booleans())
def test_no_label_rounds_to_a_place_outside_the_range_of_the_grid(
    low: float, width: float, intercept: bool
) -> None:
    """What changes is the rounded label, so Δ must be the widest change of that."""
    grid = LabelGrid.for_range((low, low + width), intercept=intercept)
    for end in (low, low + width):
        assert grid.range[0] <= on_grid(end, grid.exponent) <= grid.range[1]
    assert grid.range[1] - grid.range[0] <= width * (1 + 1e-12) + 2 * math.ldexp(0.5, grid.exponent)


@pytest.mark.parametrize("mechanism", CASES)
def test_a_claim_prices_the_change_of_a_label_as_rounded(mechanism: str) -> None:
    """Both ends of this range round outwards: Δ is larger than the range that was given."""
    given = (-0.3, 0.3)
    labels = np.tile(given, ROWS // 2)
    data = table(ROWS).set_column(4, "label", pa.array(labels))
    made = small_plan(mechanism, scan(data, label="label", label_range=given))
    rounded = [on_grid(end, made.labels.exponent) for end in given]
    assert rounded[0] < given[0]
    assert given[1] < rounded[1]
    claim = made.claim.to_json()
    assert claim["label_range"] == rounded
    assert claim["label_width"] == rounded[1] - rounded[0]


def test_labels_that_would_all_round_to_one_place_are_refused() -> None:
    """Without an intercept they count from 0, and steps are as wide as their size asks for."""
    far = (1e6, 1e6 + 1)
    data = table(ROWS).set_column(4, "label", pa.array(np.linspace(*far, ROWS)))
    rows = scan(data, label="label", label_range=far)
    with pytest.raises(InputError, match="too far from 0 for its width"):
        small_plan(SHAPED, rows, intercept=False)
    assert small_plan(SHAPED, rows).labels.range == far


# --- a declared floor: every bag has to reach it --------------------------------------------


def declared(floor: float) -> Any:
    """As much of a claim as its floor needs."""
    return SimpleNamespace(mode=residual_floor.FloorMode.DECLARED, floor=floor)


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=6), st.integers(1, 2000))
def test_a_declared_floor_holds_only_if_every_residual_reaches_it(
    squares: list[int], floor: int
) -> None:
    """Of bags whose residuals are nearly alike several are left to judge: the least counts."""
    labels = LabelGrid(0.0, 1.0, exponent=0, centre=0)
    residuals: Any = [
        SimpleNamespace(square_low=Fraction(2 * s + 1, 2), square_high=Fraction(s + 1))
        for s in squares
    ]
    randomness = Randomness.experiment(0)
    if min(squares) >= floor:
        outcome = residual_floor.establish_floor(declared(floor), residuals, labels, randomness)
        assert outcome.added_variance == 0.0
        return
    with pytest.raises(PlanError, match="does not hold for these labels"):
        residual_floor.establish_floor(declared(floor), residuals, labels, randomness)


# --- the largest norm of a row --------------------------------------------------------------


def dense_rows(data: dict[str, list[Any]], min_count: int) -> np.ndarray:
    """The encoded rows by the twin of the encoder: intercept, numbers, categories."""
    columns = [[1.0] * len(next(iter(data.values())))]
    for values in data.values():
        text = isinstance(values[0], str)
        twin = feature_twin.twin_categorical(values, min_count) if text else None
        columns += (twin if text else feature_twin.twin_numeric(values)) or []
    return np.array(columns).T


def long_rows(seed: int, rows: int = 300) -> dict[str, list[Any]]:
    """Numbers with rare large values, one with gaps, and a category."""
    rng = np.random.default_rng(seed)
    heavy = np.round(rng.standard_t(3, rows) * 4, 2).tolist()
    gaps = [
        None if gap else round(x, 1)
        for x, gap in zip(rng.normal(5, 2, rows), rng.random(rows) < 0.2, strict=True)
    ]
    gaps[0] = 5.0
    return {"heavy": heavy, "gaps": gaps, "town": rng.choice(["a", "b", "c"], rows).tolist()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("names", [("heavy",), ("heavy", "gaps"), ("heavy", "gaps", "town")])
def test_no_encoded_row_is_longer_than_the_feature_bound(names: tuple[str, ...], seed: int) -> None:
    """The bound is of the map alone, and not far above the longest row there is."""
    data = {name: values for name, values in long_rows(seed).items() if name in names}
    features = fit_features(scan(pa.table(data)), min_count=1)
    longest = float(np.linalg.norm(dense_rows(data, 1), axis=1).max())
    bound = design_summary.feature_bound(features)
    assert longest <= bound
    ends = [max(map(abs, column)) for column in dense_rows(data, 1).T]
    assert bound <= np.linalg.norm(ends) * 1.001, "all columns at their ends at once"


# --- an edited plan -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sampled() -> Plan:
    return small_plan(SAMPLED, bag_size=80, bags=4, bag_seed=3)


def test_the_largest_leverage_of_a_bag_is_that_of_its_rows(sampled: Plan) -> None:
    claim: Any = sampled.claim
    design = sampled.features.design(table(ROWS))
    hats = [design[rows] @ np.linalg.pinv(design[rows]) for rows in claim.draw.members]
    largest = max(hat.diagonal().max() for hat in hats)
    assert 0.3 < largest < 0.99, "so that less can be claimed"
    assert claim.max_leverage == pytest.approx(largest, rel=1e-5)


@pytest.mark.parametrize("field", ["max_leverage", "bag_rank", "inflation"])
def test_a_plan_that_claims_less_of_its_bags_than_there_is_is_refused(
    sampled: Plan, field: str
) -> None:
    """It adds up, since less leverage only makes the floor more than enough; it is not true."""
    claim: Any = sampled.claim
    less = {"max_leverage": 0.97, "bag_rank": 1 - 1 / claim.bag_rank, "inflation": 0.0}
    value = getattr(claim, field) * less[field]
    change = {field: round(value) if field == "bag_rank" else value}
    forged = replace(sampled, claim=replace(claim, **change))
    assert forged.claim.delta_at(claim.epsilon) <= claim.delta
    with pytest.raises(PlanError, match="not those of the plan"):
        forged.release(source(ROWS))
    sampled.release(source(ROWS))
