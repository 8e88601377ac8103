"""Inverse questions about a privacy profile: ε at δ, and the best parameter within (ε, δ).

    epsilon_at(profile, delta)                   the smallest ε whose δ is at most `delta`
    calibrate(profile, name, epsilon, delta)     the largest number of bags or μ, or the smallest
                                                 floor or noise deviation, that is (ε, δ)-DP
    largest_cost(profile_at, epsilon, delta)     the same for the cost of radial noise

All err on the private side: the answer has passed a test with the certified `Bounds.upper`.
No other module searches for a parameter that a claim rests on, but `most_bags`, which
is a fraction. The profile says where to search and by which method (`SearchRange`), and gives the
profile at another value (`with_parameter`). Over the draw of bags, the profile given the bags is
searched, at the δ that it may have then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count

from labeldp.accounting.privacy_profile import (
    LEAST_CLAIM,
    Bounds,
    PrivacyProfile,
    SearchMethod,
    SearchRange,
    SubsampledProfile,
    affordable_delta,
)
from labeldp.errors import PlanError, at_least, in_range

Function = Callable[[float], float]

_ROOT_TOLERANCE, _ROUGH_TOLERANCE = 1e-11, 1e-4  # relative; rough where utility alone hangs on it
_ROUGH_EXCESS = 2e-2  # by how much of δ an answer that is not certified may exceed it


def epsilon_at(profile: PrivacyProfile, delta: float) -> float:
    """Return the smallest ε whose certified δ is at most `delta`; inf if there is none."""
    at_least(0, 1, delta=delta)
    if delta == 0.0:
        return profile.pure_epsilon()
    profile, delta = _given_bags(profile, delta)
    if delta >= 1.0:
        return 0.0
    search = profile.epsilon_search(delta)
    if not isinstance(search, SearchRange):
        return search
    return _best_real(_Test(lambda epsilon: (profile, epsilon), delta, search))


def calibrate(
    profile: PrivacyProfile, name: str, epsilon: float, delta: float, *, certified: bool = True
) -> float:
    """Return the largest value of a parameter within (ε, δ) if δ increases with it, else the least.

    The parameter's value in `profile` is not used. A number of bags is 0 if not even one passes;
    any other answer that does not exist is a `PlanError`. With certified=False the answer rests on
    the quick δ: for choices of utility only, never for a claim.
    """
    in_range(0.0, 1.0, delta=delta)
    profile, delta = _given_bags(profile, delta)
    search = profile.parameter_search(name, epsilon, delta)
    if delta >= 1.0:
        return math.inf if search.increasing else 0.0
    test = _Test(
        lambda value: (profile.with_parameter(name, value), epsilon), delta, search, certified
    )
    answer = _best_integer(test) if search.integer else _best_real(test)
    if math.isinf(answer):
        what, least = name.replace("_", " "), test.bounds(search.value(search.high)).upper
        raise PlanError(
            f"no {what} is private: δ is {least:.3g} at best, not {delta:.3g}, at ε = {epsilon:g}; "
            "raise ε or δ, add noise, or ask for fewer or larger bags"
        )
    return answer


def largest_cost(
    profile_at: Callable[[float], PrivacyProfile], epsilon: float, delta: float, *, least: float
) -> float:
    """Return the largest cost at which `profile_at(cost)` is (ε, δ)-DP, to a relative 1e-9.

    `least` is known to be; δ > 0 increases with the cost, up to 1.
    """

    def log_excess(cost: float) -> float:
        return math.log(max(profile_at(cost).delta(epsilon).upper, LEAST_CLAIM) / delta)

    high = 2.0 * least
    while log_excess(high) <= 0.0:
        high *= 2.0
    cost, step = _brent(log_excess, least, high, absolute=1e-12 * least, relative=1e-9), 1e-9
    while cost > least and log_excess(cost) > 0.0:  # step to the private side of the root
        cost, step = cost * (1.0 - step), 2.0 * step
    return max(cost, least)


def _given_bags(profile: PrivacyProfile, delta: float) -> tuple[PrivacyProfile, float]:
    """Return the profile given the bags, and the δ that it may have."""
    while isinstance(profile, SubsampledProfile):
        delta = affordable_delta(delta, profile.chance)
        profile = profile.curve
    return profile, delta


@dataclass(frozen=True)
class _Test:
    """Is δ at most `delta`? `at` gives the profile and the ε for a value of what is searched."""

    at: Callable[[float], tuple[PrivacyProfile, float]]
    delta: float
    search: SearchRange
    certified: bool = True

    def bounds(self, value: float, *, certified: bool = False) -> Bounds:
        profile, epsilon = self.at(value)
        return profile.delta(epsilon, certified=certified)

    def passes(self, value: float) -> bool:
        """Whether the certified δ is at most `delta`: only such a value is ever claimed."""
        if self.certified:
            return self.bounds(value, certified=True).upper <= self.delta
        return self.bounds(value).upper <= self.delta * (1.0 + _ROUGH_EXCESS)

    def log_excess(self, coordinate: float) -> float:
        """Return log(quick δ / `delta`), which root finding brings to 0."""
        bounds = self.bounds(self.search.value(coordinate))
        if self.search.method is SearchMethod.SHARP:
            # The estimate of a closed form is smooth to the last digits; its bound has a step.
            return math.log(max(bounds.estimate, LEAST_CLAIM)) - math.log(self.delta)
        # Its sign must be that of the comparison, also where rounding makes the quotient 1.
        if bounds.upper <= self.delta:
            return min(0.0, math.log(max(bounds.upper, LEAST_CLAIM) / self.delta))
        return max(5e-324, math.log(bounds.upper / self.delta))


def _best_real(test: _Test) -> float:
    """Return the best real number that passes, by the method of the search; inf if none does."""
    search, root = test.search, test.search.start
    if search.method is SearchMethod.SHARP:
        return _sharp(test)
    if search.method is SearchMethod.NEAR:
        tolerance = _ROOT_TOLERANCE if test.certified else _ROUGH_TOLERANCE
        root = _root(test.log_excess, search.low, search.high, root, tolerance)
        if root == search.high and test.log_excess(root) > 0.0:
            return math.inf
    # What was found by a quick δ, or the start itself (STEPS), need not pass yet.
    return _smallest_real(test.passes, search.value(root), search.value(search.high))


def _sharp(test: _Test) -> float:
    """Find the root of a closed form to its last digits, then step to the private side."""
    search, excess = test.search, test.log_excess
    # Steps are short, then longer, since a δ near 1 hardly moves.
    lengths: Iterator[float] = (min(0.5, 1e-13 * 1.1 ** max(0, taken - 100)) for taken in count())
    if search.increasing:
        root = search.low  # where even the least is too much, the steps below go on from there
        if excess(root) < 0.0:
            root = _brent(excess, root, search.high, absolute=1e-14, relative=2.0**-50)
        value = search.value(root)
        while not test.passes(value):
            value *= 1.0 - next(lengths)
        return value
    if test.passes(search.low):
        return search.low
    if not test.passes(search.high):
        return math.inf
    value = _brent(excess, search.low, search.high, absolute=1e-14, relative=1e-14)
    while not test.passes(value):
        value += next(lengths) * (1.0 + value)
    return value


def _best_integer(test: _Test) -> float:
    """Return the largest whole number that passes; 0 if none does.

    δ increases with it, so that all numbers up to the best pass. The quick δ says where about.
    """
    search, value = test.search, test.search.value
    low, high, guess = round(search.low), round(search.high), round(search.start)
    ends = math.log(low), math.log(high), math.log(guess)
    guess = round(math.exp(_root(lambda log: -test.log_excess(math.exp(log)), *ends)))
    return value(_last(lambda n: test.passes(value(n)), guess, low - 1, high))


def _last(holds: Callable[[int], bool], guess: int, low: int, high: int) -> int:
    """Return the last n from `low` to `high` that holds, if all before do too; `low` if none does.

    The bracket is found by steps that double away from `guess`.
    """
    end, step = high + 1, 1
    n = min(max(guess, low + 1), high)
    while low < n < end:
        if holds(n):
            low, n = n, n + step
        else:
            end, n = n, n - step
        step *= 2
    while end - low > 1:
        middle = (low + end) // 2
        low, end = (middle, end) if holds(middle) else (low, middle)
    return low


def _smallest_real(passes: Callable[[float], bool], guess: float, cap: float) -> float:
    """Return a number that passes, at most a relative 1e-9 above the smallest; inf beyond `cap`.

    For a test that passes from some x on; `guess` is at or below it.
    """
    if passes(guess):
        return guess
    failed, step = guess, 2e-10
    while not passes(trial := min(cap, failed * (1.0 + step) + 1e-15)):
        failed, step = trial, 4.0 * step
        if failed == cap:
            return math.inf
    while trial - failed > 1e-9 * trial:
        middle = 0.5 * (failed + trial)
        failed, trial = (failed, middle) if passes(middle) else (middle, trial)
    return trial


def _root(
    function: Function, low: float, high: float, start: float, relative: float = _ROOT_TOLERANCE
) -> float:
    """Return where a decreasing function changes sign, about; an end if it does not.

    The bracket is found by steps that grow away from `start`, a number between the two: δ far from
    the root may take long to compute.
    """
    function = cache(function)  # the ends of the bracket are asked for again
    first, step = start, 0.5 * max(1.0, abs(start))
    upwards = function(start) > 0.0
    while True:
        second = min(high, first + step) if upwards else max(low, first - step)
        if (function(second) > 0.0) != upwards:
            break
        if second in (low, high):
            return second
        first, step = second, 4.0 * step
    return _brent(function, first, second, absolute=1e-12, relative=relative)


def _brent(
    function: Function, first: float, second: float, *, absolute: float, relative: float
) -> float:
    """Return a zero of a function with opposite signs at the two ends."""
    # imported here: it is the only use of scipy.optimize, which costs each command a tenth of a
    # second, and not every command searches
    from scipy.optimize import brentq

    return float(brentq(function, first, second, xtol=absolute, rtol=relative, maxiter=1000))
