"""How many bags, of how many rows, with how much noise: sizes against their own definitions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from labeldp import InputError, PlanError, plan
from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.sketch import default_measurement
from labeldp.mechanisms import design_summary, sampled_noisy_wtd_lag as noisy, wtd_flag as sizing
from labeldp.mechanisms.options import FLOORS, FloorOptions
from labeldp.mechanisms.residual_floor import FloorMode
from labeldp.mechanisms.wtd_flag import WtdFlagClaim
from labeldp.sampling.streams import normals, public_stream, words
from tests.tables import table

# --- noisy bags ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "up"),
    [
        (1.2345, 1.24),
        (1.23, 1.23),
        (1.230001, 1.24),
        (99.91, 100.0),
        (0.0012301, 0.00124),
        (4567.0, 4570.0),
        (1.0, 1.0),
        (1e-9, 1e-9),
        (0.0, 0.0),
    ],
)
def test_noise_is_rounded_up_to_three_figures(value: float, up: float) -> None:
    assert noisy.round_up_to_three_digits(value) == up


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_at_the_noise_of_a_size_half_of_the_bags_pass_at_once(fraction: float) -> None:
    """Of 1,024 bags of four rows, drawn and judged here one by one."""
    stream = public_stream("sizes", f"4 {fraction!r}")
    values = normals(stream, 4096).reshape(1024, 4)
    chosen = words(stream, 4096).reshape(1024, 4) <= fraction * 2.0**64
    std = noisy.realised_std(4, fraction, 3.0, 0.5)
    needed = []
    for weights, mask in zip(values, chosen, strict=True):
        length = math.sqrt(sum(w * w for w in weights[mask]))
        needed.append(3.0 * max(map(abs, weights)) / length / 0.5 if length else math.inf)
    assert sum(each <= std for each in needed) >= 512
    assert sum(each <= std / 1.011 for each in needed) < 512
    assert noisy.realised_std(1, 2.0**-40, 3.0, 0.5) == math.inf


# --- sums of all rows ----------------------------------------------------------------------


def draft(mode: FloorMode = FloorMode.ADDED, **changes: Any) -> WtdFlagClaim:
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5} | changes
    measurement = default_measurement(given["epsilon"], 1e-5) if mode.measures else None
    return WtdFlagClaim(
        accountant="exact-worst-case",
        bags=1,
        rows=1000,
        rank=3,
        label_range=(0.0, 1.0),
        intercept=True,
        floor=1.0,
        mode=mode,
        measurement=measurement,
        max_leverage=None,
        inflation=0.0,
        **given,
    )


def privately(claim: WtdFlagClaim, floor: float) -> int:
    """How many aggregates a floor carries."""
    profile = replace(claim, floor=floor).privacy_profile
    return int(calibrate(profile, "bags", claim.epsilon, claim.delta))


def test_a_file_too_small_for_a_fit_is_refused() -> None:
    """Three columns and a label of 8 bytes: 160 bytes hold five aggregates, which is enough."""
    assert sizing.choose_bags(draft(), 0.1, 160e-6) == 5
    words = (
        "^file size and floor allow 4 aggregates, but a fit of 3 columns needs at least 5; raise"
    )
    with pytest.raises(PlanError, match=words):
        sizing.choose_bags(draft(), 0.1, 159e-6)


def test_a_floor_that_carries_too_few_aggregates_is_refused() -> None:
    scarce = draft(FloorMode.DECLARED)
    words = "^file size and floor allow 0 aggregates, but a fit of 3 columns needs at least 5"
    with pytest.raises(PlanError, match=words):
        sizing.choose_bags(scarce, 0.002, 1.0)


def test_a_declared_floor_carries_as_many_as_its_law_has_it() -> None:
    rich = draft(FloorMode.DECLARED, epsilon=3.0)
    most = privately(rich, 250.0)
    assert most >= 5
    assert sizing.choose_bags(rich, 0.25, 1.0) <= most
    enough, more = (replace(rich, bags=bags).needed_floor() for bags in (most, most + 1))
    assert enough <= 250.0 < more


# --- floors of plans -----------------------------------------------------------------------


def test_a_claimed_floor_is_what_is_needed_or_the_whole_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {"whose": "7 aggregates", "cure": "ask for fewer"}
    claim = draft(FloorMode.DECLARED)

    def needing(needed: float, residual_ms: float | None) -> float:
        monkeypatch.setattr(WtdFlagClaim, "needed_floor", lambda _: needed)
        return claim.with_calibrated_floor(residual_ms, **asked).floor

    assert needing(120.0, None) == 120.0
    assert needing(120.0, 0.5) == 500.0
    assert needing(500.0, 0.5) == 500.0
    words = (
        "^7 aggregates need a residual mean square of 0.75, more than the declared 0.5; ask for "
        r"fewer or use `floor='measured\+added'`$"
    )
    for needed in (750.0, math.nan):
        with pytest.raises(PlanError, match=words.replace("0.75", "(0.75|nan)")):
            needing(needed, 0.5)


def test_the_floor_asked_for() -> None:
    assert FloorMode(FloorOptions().floor) is FloorMode.MEASURED_ADDED
    assert sorted([*FLOORS, "measured"]) == sorted(mode.value for mode in FloorMode)
    for name in ("none", "measured"):
        words = f"^`floor` must be 'measured.added' or 'added' or .*, not the text '{name}'$"
        with pytest.raises(InputError, match=words):
            FloorOptions(floor=name)
    for floor in ({"floor": "declared"}, {"floor": "added", "residual_ms": 1}, {"residual_ms": 1}):
        with pytest.raises(InputError, match="go together: give both or neither"):
            FloorOptions(**floor)


def test_what_a_run_would_show_and_add() -> None:
    """A root of 100 is measured with noise of deviation s₀, which costs its quantile."""
    measured = replace(draft(FloorMode.MEASURED_ADDED), rows=100_000)
    measurement = measured.measurement
    assert measurement is not None
    shown = measurement.lower_bound(100.0, 0.0, 1.0) ** 2
    assert measured.expected_lower_bound(0.1) == pytest.approx(shown)
    assert 0 < shown < 10_000
    for floor, added in ((15_000.0, 15_000.0 - shown), (shown / 2, 0.0)):
        expected = replace(measured, floor=floor).expected_added_variance(0.1)
        assert expected == pytest.approx(added)
    for mode, added in ((FloorMode.MEASURED, 0.0), (FloorMode.ADDED, 150.0)):
        assert replace(draft(mode), floor=150.0).expected_added_variance(0.1) == added
    declared = replace(draft(FloorMode.DECLARED), floor=150.0)
    assert declared.expected_added_variance(0.1) == 0.0
    assert declared.expected_lower_bound(0.1) == pytest.approx(100.0)


# --- what a survey allows for --------------------------------------------------------------


def test_rounding_and_twice_the_defect_are_allowed_for() -> None:
    assert design_summary.inflation_for(0.0) == 2.0**-30
    assert design_summary.inflation_for(0.25) == 0.5 + 2.0**-30


@pytest.mark.parametrize(("steps", "fine"), [(256, True), (255, False)])
def test_a_label_range_has_256_steps_of_its_grid(steps: int, fine: bool) -> None:
    """Without an intercept labels count from 0."""
    asked: dict[str, Any] = {"label": "label", "intercept": False, "force": True}
    exponent = plan(table(200), label_range=(1024.0, 1025.0), **asked).labels.exponent
    ends = 1024.0, 1024.0 + steps * 2.0**exponent
    if fine:
        assert plan(table(200), label_range=ends, **asked).labels.exponent == exponent
        return
    with pytest.raises(InputError, match=r"^`label_range` 1024 102\S* is too far from 0"):
        plan(table(200), label_range=ends, **asked)


def test_a_floor_is_the_smallest_double_that_its_law_accepts() -> None:
    needed = replace(draft(), bags=40).needed_floor()
    for floor, most in ((needed * (1 - 1e-6), 39), (needed, 40)):
        assert privately(draft(), floor) == most
