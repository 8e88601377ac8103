"""Searches against tests whose answer is known: never on the wrong side, and close to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from labeldp.accounting.calibrate import _smallest_real, calibrate, epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import (
    Bounds,
    PrivacyProfile,
    SearchMethod,
    SearchRange,
    SubsampledProfile,
    affordable_delta,
)
from labeldp.errors import InputError
from tests.oracles.pure import PureProfile


@dataclass(frozen=True)
class Law(PrivacyProfile):
    """δ by a formula, a certified one that is a hair above its guess; both may be asked for."""

    formula: Callable[[float, float], float]
    where: SearchRange
    knob: float = 1.0
    above: float = 1e-9

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:
        value = self.formula(self.knob, epsilon)
        upper = min(1.0, value * (1.0 + self.above)) if certified else value
        return Bounds(0.0, value, upper)

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        return self.where

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange:
        assert name == "knob"
        assert epsilon == 1.0
        assert 0.0 < delta <= 1.0
        return self.where


def falling(knob: float, epsilon: float) -> float:
    return min(1.0, math.exp(-epsilon / knob))


HOWS = {
    SearchMethod.NEAR: SearchRange(0.0, 1e6, 1.0),
    SearchMethod.STEPS: SearchRange(1e-6, 1e4, 1e-6, method=SearchMethod.STEPS),
    SearchMethod.SHARP: SearchRange(0.0, 1e6, 0.0, method=SearchMethod.SHARP),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("knob", [1e-4, 0.3, 1.0, 17.0, 300.0])
@pytest.mark.parametrize("delta", [0.4, 1e-3, 1e-9])
def test_the_least_epsilon_passes_and_hardly_less_does_not(how, knob, delta):
    """δ = e^{−ε/knob}, certified to 1e-9."""
    law = Law(falling, HOWS[how], knob)
    found, true = epsilon_at(law, delta), knob * math.log(1 / delta)
    assert law.delta(found).upper <= delta
    assert true <= found <= true * (1 + 2e-8 / math.log(1 / delta) + 2e-9) + 2e-15


@pytest.mark.parametrize("how", HOWS)
def test_no_epsilon_is_none(how):
    assert epsilon_at(Law(lambda _, e: 0.5, HOWS[how]), 0.1) == math.inf  # noqa: ARG005
    found = epsilon_at(Law(lambda _, e: 0.05, HOWS[how]), 0.1)  # noqa: ARG005
    assert found <= max(HOWS[how].low, 1e-300) * (1 + 1e-9)


@pytest.mark.parametrize("how", HOWS)
def test_what_passes_only_at_the_end_of_the_range_is_found_there_or_not_at_all(how):
    end = HOWS[how].high
    law = Law(lambda _, e: 0.01 if e >= end else 0.5, HOWS[how])
    found = epsilon_at(law, 0.1)
    assert found == math.inf or law.delta(found).upper <= 0.1


def test_epsilon_is_nothing_or_all_at_the_ends_of_delta():
    law = SubsampledProfile(GaussianProfile(3.0), 0.2)
    assert epsilon_at(law, 0.2) == 0.0
    assert epsilon_at(law, 0.1) == pytest.approx(
        epsilon_at(GaussianProfile(3.0), affordable_delta(0.1, 0.2)), rel=1e-9
    )
    assert epsilon_at(PureProfile(0.3), 0.0) == 0.3
    for delta in (-0.1, 1.0, 1.5):
        with pytest.raises(InputError, match="delta"):
            epsilon_at(law, delta)
    for delta in (0.0, 1.0):
        with pytest.raises(InputError, match="delta"):
            calibrate(GaussianProfile(1.0), "mu", 1.0, delta)


def test_a_limit_under_a_draw_of_small_chance_is_no_limit():
    """δ within a bag may be 1: any number of bags, or none at all of a floor."""
    increasing = Law(falling, SearchRange(0.0, 9.0, 1.0, increasing=True))
    falls = Law(falling, SearchRange(0.0, 9.0, 1.0))
    assert calibrate(SubsampledProfile(increasing, 0.1), "knob", 1.0, 0.1) == math.inf
    assert calibrate(SubsampledProfile(falls, 0.1), "knob", 1.0, 0.1) == 0.0


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [0, 1, 2, 3, 7, 100, 12_345])
@pytest.mark.parametrize("start", [1, 3, 150, 8000])
def test_the_most_that_pass_are_found_from_any_start(truth, start):
    """δ increasing with the knob: 0.1 is reached between `truth` and the next whole number."""

    def increasing(knob: float, epsilon: float) -> float:  # noqa: ARG001
        return min(1.0, 0.1 * (knob / (truth + 0.5)) ** 2)

    where = SearchRange(1, 10**6, start, increasing=True, integer=True)
    assert calibrate(Law(increasing, where), "knob", 1.0, 0.1) == truth


def test_no_more_than_the_range_holds_are_found():
    where = SearchRange(1, 50, 3, increasing=True, integer=True)
    assert calibrate(Law(lambda k, e: 1e-9, where), "knob", 1.0, 0.1) == 50  # noqa: ARG005


@pytest.mark.parametrize("above", [0.0, 0.3])
def test_the_certified_number_decides_between_whole_numbers(above):
    """The guess lets eleven pass; certified, one passes that is a third smaller in δ."""

    def increasing(knob: float, epsilon: float) -> float:  # noqa: ARG001
        return min(1.0, 0.1 * knob / 11.5)

    where = SearchRange(1, 8000, 3, increasing=True, integer=True)
    most = max(k for k in range(1, 12) if increasing(k, 1.0) * (1 + above) <= 0.1)
    assert calibrate(Law(increasing, where, above=above), "knob", 1.0, 0.1) == most


def test_a_guess_is_for_choices_and_may_be_two_in_a_hundred_off():
    def falls(knob: float, epsilon: float) -> float:  # noqa: ARG001
        return min(1.0, math.exp(-knob))

    where = SearchRange(0.0, 100.0, 1.0)
    true = math.log(1e6)
    certified = calibrate(Law(falls, where), "knob", 1.0, 1e-6)
    rough = calibrate(Law(falls, where), "knob", 1.0, 1e-6, certified=False)
    assert certified == pytest.approx(true, rel=1e-8)
    assert certified >= true
    assert math.exp(-rough) <= 1e-6 * 1.02
    assert rough == pytest.approx(true, rel=1e-2)
    steps = SearchRange(true * 0.9, 100.0, true * 0.9, method=SearchMethod.STEPS)
    rough = calibrate(Law(falls, steps), "knob", 1.0, 1e-6, certified=False)
    assert rough == pytest.approx(math.log(1e6 / 1.02), rel=1e-8)


def test_the_largest_real_that_passes():
    def increasing(knob: float, epsilon: float) -> float:  # noqa: ARG001
        return min(1.0, 1e-3 * knob**2)

    where = SearchRange(
        math.log(1e-12), math.log(1e6), 0.0, math.exp, increasing=True, method=SearchMethod.SHARP
    )
    for above in (1e-11, 1e-3):
        found = calibrate(Law(increasing, where, above=above), "knob", 1.0, 1e-5)
        true = 0.1 / math.sqrt(1.0 + above)
        assert found <= true
        assert found == pytest.approx(true, rel=1e-4 if above == 1e-3 else 1e-10)


# --- the tools -----------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [1e-12, 0.3, 1.0, 1 + 1e-10, 1.001, 7.0, 1e4])
@pytest.mark.parametrize("guess", [1e-13, 0.2, 1.0])
def test_a_number_that_passes_is_at_most_1e_9_above_the_smallest(truth, guess):
    asked = []

    def passes(x: float) -> bool:
        asked.append(x)
        return x >= truth

    found = _smallest_real(passes, guess, 1e5)
    if guess >= truth:
        assert found == guess
    else:
        assert truth <= found <= truth * (1 + 1.1e-9) + 2e-15
    assert len(asked) < 90
