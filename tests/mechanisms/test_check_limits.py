"""Where the checks of published numbers begin to refuse: limits on both sides, line by line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from labeldp.accounting.sketch import Measurement
from labeldp.exact.label_sums import LabelGrid
from labeldp.mechanisms.checks import (
    SCARCE,
    check_grid,
    check_label_exponent,
    check_numbers,
    check_reach,
    check_scatter,
)
from labeldp.mechanisms.residual_floor import FloorMode, check_floor
from labeldp.mechanisms.wtd_flag import WtdFlag, WtdFlagClaim
from labeldp.releases.certificate import FloorOutcome

Reals = Any
TOO_LARGE = "aggregates.parquet has labels larger than those in the range can make them"
TOO_NEAR = "aggregates.parquet has labels that vary less about their fit than the floor demands"
NO_NUMBERS = "aggregates.parquet has values that are not numbers"


@dataclass
class Published:
    """As much of a release as the checks look at; one row at a time."""

    design: Reals
    labels: Reals
    grid: int = 0
    aggregates_features = True

    @property
    def bags(self) -> int:
        return len(self.labels)

    @property
    def features(self) -> Any:
        columns = self.design.shape[1]
        return SimpleNamespace(kept_scales=np.full(columns, 0.5), names=["x"] * columns)

    @property
    def certificate(self) -> dict[str, Any]:
        return {"numerics": {"grid_exponent": self.grid}}

    def chunks(self) -> Iterator[tuple[Reals, Reals]]:
        for row in range(self.bags):
            yield self.design[row : row + 1], self.labels[row : row + 1]

    def label_chunks(self) -> Iterator[Reals]:
        for _, labels in self.chunks():
            yield labels


def published(labels: Any, design: Any = None, grid: int = 0) -> Any:
    values = np.asarray(labels, dtype=np.float64)
    return Published(np.ones((len(values), 1)) if design is None else design, values, grid)


# --- numbers and grids ---------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused_among_labels_and_among_features(wrong: float) -> None:
    design = np.ones((3, 2))
    assert not list(check_numbers(published([1.0, 2.0, 3.0], design)))
    assert list(check_numbers(published([1.0, 2.0, wrong], design))) == [NO_NUMBERS]
    design[1, 0] = wrong
    assert list(check_numbers(published([1.0, 2.0, 3.0], design))) == [NO_NUMBERS]


def test_labels_stand_on_the_grid_that_the_certificate_names() -> None:
    off = "aggregates.parquet has labels off the public grid: their low bits may leak"
    wrong = "certificate: the grid exponent should be -3"
    assert not list(check_grid(published([0.125, -2.0, 7.375], grid=-3), -3))
    assert list(check_grid(published([0.125, 0.1875], grid=-3), -3)) == [off]
    assert list(check_grid(published([0.1875, 0.1875], grid=-3), -3)) == [off], "told once"
    assert list(check_grid(published([0.125], grid=-4), -3)) == [wrong]
    assert not list(check_grid(published([8.0, 16.0], grid=3), 3))
    assert list(check_grid(published([8.0, 4.0], grid=3), 3)) == [off]


@pytest.mark.parametrize("label_range", [(0.0, 10.0), (-3.0, 1.0), (0.0, 8.0), (5.0, 5.3)])
@pytest.mark.parametrize("intercept", [True, False])
def test_only_the_exponent_of_the_label_range_passes(
    label_range: tuple[float, float], intercept: bool
) -> None:
    grid = LabelGrid.for_range(label_range, intercept=intercept)
    assert not list(check_label_exponent(grid.range, intercept, grid.exponent))
    for wrong in (grid.exponent - 1, grid.exponent + 1, grid.exponent - 20, 0):
        line = f"certificate: the label exponent should be {grid.exponent}"
        assert list(check_label_exponent(grid.range, intercept, wrong)) == [line]


def test_a_range_that_was_widened_past_a_power_of_two_has_two_exponents() -> None:
    """(−7/3 − 4, −7/3 + 4) is 8 wide, a little more on its grid, and its exponent is 3 − 20."""
    low, high = -7 / 3 - 4, -7 / 3 + 4
    grid = LabelGrid.for_range((low, high), intercept=True)
    wide = grid.range
    assert wide[1] - wide[0] > 8
    assert grid.exponent == -17
    assert not list(check_label_exponent(wide, True, -17))
    assert not list(check_label_exponent(wide, True, -16))
    told = ["certificate: the label exponent should be -16"]
    assert list(check_label_exponent(wide, True, -18)) == told
    assert list(check_label_exponent(wide, True, -15)) == told
    farther = (low, high + 3 * 2.0**-17)
    assert list(check_label_exponent(farther, True, -17)) == told


# --- chances -------------------------------------------------------------------------------


def test_labels_are_refused_where_their_size_has_a_chance_below_a_millionth_of_a_millionth() -> (
    None
):
    bags, most = 7, 3.0
    for chance, lines in ((1.6e-12, []), (0.8e-12, [TOO_LARGE])):
        square = most * stats.chi2.isf(chance, bags)
        labels = np.full(bags, math.sqrt(square / bags)) * [1, -1, 1, 1, -1, 1, 1]
        assert list(check_reach(published(labels), most)) == lines


def scattered(square: float) -> Any:
    """Ten labels about a fit of two columns, with that sum of squares left."""
    rng = np.random.default_rng(3)
    design = rng.normal(size=(10, 2))
    noise = rng.normal(size=10)
    noise -= design @ np.linalg.lstsq(design, noise, rcond=None)[0]
    return published(design @ [3.0, -5.0] + noise * math.sqrt(square / (noise @ noise)), design)


def test_labels_are_refused_where_their_scatter_has_a_chance_below_a_millionth_of_a_millionth() -> (
    None
):
    floor = 5.0
    for chance, lines in ((1.6e-12, []), (0.8e-12, [TOO_NEAR])):
        square = floor * stats.chi2.ppf(chance, 8)
        assert list(check_scatter(scattered(square), floor)) == lines


def test_scatter_is_said_to_be_untested_where_labels_without_noise_would_pass() -> None:
    """On a grid of 2⁻¹⁰ deviations, labels without noise leave squares of about 2⁻²⁰."""
    few, many = published(np.ones(5), np.ones((5, 2))), published(np.ones(6), np.ones((6, 2)))
    assert 6 - 2 > SCARCE >= 5 - 2
    assert stats.chi2.cdf(2.0**-20, SCARCE) > 1e-12
    assert list(WtdFlag().not_checked(few)) == [
        "whether labels vary as the floor demands: 5 aggregates of 2 columns leave too little to "
        "see it"
    ]
    assert not list(WtdFlag().not_checked(many))


# --- floors --------------------------------------------------------------------------------

WIDTH, ROWS, SLACK, NEEDED = 8.0, 100, 1e-6, 900.0
"""Labels from −2 to 6 leave a root of 4·√100 = 40 at most; the noise on it has deviation 8."""
HALF_STEP = 2.0 ** (3 - 10) / 2


def claim(mode: FloorMode, needed: float = NEEDED, **facts: Any) -> WtdFlagClaim:
    given = {"rows": ROWS, "label_range": (-2.0, 6.0), "rank": 3, "intercept": True}
    return WtdFlagClaim(
        accountant="exact-worst-case",
        epsilon=1.0,
        delta=1e-5,
        bags=40,
        floor=needed,
        mode=mode,
        measurement=Measurement(1.0, SLACK) if mode.measures else None,
        max_leverage=None,
        inflation=0.0,
        **given | facts,
    )


def bound(measured: float) -> float:
    """Of σ, from what was measured: its quantile and half a step of the grid less."""
    return float(max(0.0, measured - 8.0 * stats.norm.isf(SLACK) - HALF_STEP))


def floor(measured: float | None, **shown: Any) -> dict[str, Any]:
    least = None if measured is None else bound(measured)
    added = None if least is None else max(0.0, NEEDED - least**2)
    return {"measured": measured, "lower_bound": least, "added_variance": added} | shown


def test_a_floor_as_it_was_measured_and_filled_up_passes() -> None:
    both = claim(FloorMode.MEASURED_ADDED)
    for measured in (-20.0, 30.0, 60.0, 2.0**-7, 61 + 3 * 2.0**-7):
        assert not list(check_floor(both, floor(measured)))
    assert bound(30.0) == 0 < bound(60.0) ** 2 < NEEDED


@pytest.mark.parametrize(
    ("measured", "fine"),
    [(-57.5, True), (-57.75, False), (97.5, True), (97.75, False), (-1e6, False), (1e6, False)],
)
def test_a_measured_root_is_within_its_reach_and_the_noise(measured: float, fine: bool) -> None:
    """7.2 deviations of 8 below 0, or above 40."""
    told = "certificate: floor.measured is impossible: no labels in their range leave that"
    both = claim(FloorMode.MEASURED_ADDED)
    assert list(check_floor(both, floor(measured))) == ([] if fine else [told])


def test_without_an_intercept_the_reach_is_the_far_end_of_the_range() -> None:
    """6·√100 + 57.6."""
    apart = claim(FloorMode.MEASURED_ADDED, intercept=False)
    below = claim(FloorMode.MEASURED_ADDED, intercept=False, label_range=(-6.0, 2.0))
    assert not list(check_floor(below, floor(117.5)))
    assert list(check_floor(below, floor(117.75)))
    assert not list(check_floor(apart, floor(117.5)))
    assert list(check_floor(apart, floor(117.75)))
    assert not list(check_floor(replace(apart, rows=101), floor(117.75)))


def test_a_measured_root_off_its_grid_is_told() -> None:
    told = "certificate: floor.measured is off its public grid: its low bits may leak"
    both = claim(FloorMode.MEASURED_ADDED)
    assert list(check_floor(both, floor(60 + 2.0**-8))) == [told]
    assert list(check_floor(both, floor(-3 - 2.0**-8))) == [told]


@pytest.mark.parametrize(("by", "fine"), [(0.8e-6, True), (1.6e-6, False), (-1.6e-6, False)])
def test_a_lower_bound_agrees_to_a_millionth(by: float, fine: bool) -> None:
    shown = floor(60.0, lower_bound=bound(60.0) * (1 + by))
    told = [] if fine else [f"certificate: floor.lower_bound should be {bound(60.0):.9g}"]
    assert list(check_floor(claim(FloorMode.MEASURED_ADDED), shown)) == told


@pytest.mark.parametrize(
    ("by", "fine"),
    [(-0.6e-9, True), (-1.6e-9, False), (0.8e-6, True), (1.6e-6, False), (-0.5, False)],
)
@pytest.mark.parametrize("mode", [FloorMode.ADDED, FloorMode.MEASURED_ADDED])
def test_added_variance_is_no_less_than_is_due_and_hardly_more(
    mode: FloorMode, by: float, fine: bool
) -> None:
    measured = 60.0 if mode.measures else None
    due = NEEDED - bound(60.0) ** 2 if mode.measures else NEEDED
    told = [] if fine else [f"certificate: floor.added_variance should be {due:.9g}"]
    shown = floor(measured, added_variance=due * (1 + by))
    assert list(check_floor(claim(mode), shown)) == told


def test_a_declared_floor_adds_nothing() -> None:
    declared = claim(FloorMode.DECLARED)
    assert not list(check_floor(declared, floor(None, added_variance=0.0)))
    told = ["certificate: floor.added_variance should be 0"]
    assert list(check_floor(declared, floor(None, added_variance=1e-9))) == told
    assert list(check_floor(declared, floor(None, added_variance=NEEDED))) == told


def test_a_floor_that_was_only_measured_is_enough_or_it_is_told() -> None:
    enough, few = (
        claim(FloorMode.MEASURED, bound(60.0) ** 2 * (1 - 1e-9)),
        claim(FloorMode.MEASURED),
    )
    assert not list(check_floor(enough, floor(60.0, added_variance=0.0)))
    below = "certificate: the floor that was measured is below the one needed"
    assert list(check_floor(few, floor(60.0, added_variance=0.0))) == [below]
    missing = NEEDED - bound(60.0) ** 2
    nothing = "certificate: floor.added_variance should be 0"
    assert list(check_floor(few, floor(60.0, added_variance=missing))) == [below, nothing]


@pytest.mark.parametrize("mode", FloorMode)
def test_a_floor_and_its_measurement_go_together(mode: FloorMode) -> None:
    told = [f"certificate: a {mode.value} floor and its measurement do not go together"]
    for measured, least in ((60.0, None), (None, 1.0)):
        shown = {"measured": measured, "lower_bound": least, "added_variance": 0.0}
        assert list(check_floor(claim(mode), shown)) == told
    against = None if mode.measures else 60.0
    assert list(check_floor(claim(mode), floor(against, added_variance=0.0))) == told
    wrong = replace(claim(mode), measurement=None if mode.measures else Measurement(1.0, SLACK))
    mine = 60.0 if mode.measures else None
    assert list(check_floor(wrong, floor(mine, added_variance=0.0))) == told


def test_the_residual_is_known_as_well_as_it_was_measured() -> None:
    """σ̂² less its noise, between the ends of nine tenths of that noise, up to 4²."""
    both = claim(FloorMode.MEASURED_ADDED)

    def known(measured: float) -> Any:
        return both.residual_ms(FloorOutcome(measured, 0.0, 0.0))

    spread = 8.0 * stats.norm.isf(0.05)
    middle, (low, high) = known(20.0)
    assert middle == pytest.approx((20.0**2 - 8.0**2) / 100)
    assert low == pytest.approx((20.0 - spread) ** 2 / 100, rel=1e-3)
    assert high == pytest.approx((20.0 + spread) ** 2 / 100, rel=1e-3)
    assert known(100.0) == (16.0, (16.0, 16.0))
    middle, (low, high) = known(5.0)
    assert (middle, low) == (0.0, 0.0)
    assert high == pytest.approx((5.0 + spread) ** 2 / 100, rel=1e-3)
    assert known(-50.0) == (0.0, (0.0, pytest.approx(spread**2 / 100, rel=1e-3)))
    for unknown in (both.residual_ms(None), both.residual_ms(FloorOutcome())):
        assert unknown == (None, (0.0, 16.0))
    added = claim(FloorMode.ADDED)
    assert added.residual_ms(FloorOutcome(None, None, 900.0)) == (None, (0.0, 16.0))
    declared = claim(FloorMode.DECLARED)
    assert declared.residual_ms(None) == (None, (9.0, 16.0))
    assert claim(FloorMode.DECLARED, 2000.0).residual_ms(None) == (None, (16.0, 16.0))
