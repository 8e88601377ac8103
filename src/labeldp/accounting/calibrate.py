"""Inverse questions about a privacy profile: ε at δ, and the best parameter within (ε, δ).

    epsilon_at(profile, delta)                   the smallest ε whose δ is at most `delta`
    calibrate(profile, name, epsilon, delta)     the largest (or smallest) number of bags, floor,
                                                 bag size, noise deviation, noisy fraction or μ
                                                 that is (ε, δ)-DP

Both err on the private side: the answer has passed a test with the certified `Bounds.upper`.
(Profiles whose inverse is closed form return it directly, rounded to the private side.)
No other module searches for a parameter that a claim rests on.

The profile says where to search and by which method (`SearchRange`); this module searches.
For example `calibrate(GaussianProfile(1.0), "mu", 1.0, 1e-6)` calls

    profile.parameter_search("mu", 1.0, 1e-6)   the range of log μ, that δ increases with it, and
                                                that δ is closed form (`SearchMethod.SHARP`)
    profile.with_parameter("mu", 0.2)           the profile at one μ, as often as needed

A profile around another one (subsampled bags, say) may offer an `inner_profile` that answers the
same question at another δ; then the inner one is searched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from itertools import count

from labeldp.accounting.privacy_profile import (
    LEAST_CLAIM,
    Bounds,
    PrivacyProfile,
    SearchMethod,
    SearchRange,
)
from labeldp.errors import PlanError, in_range, share

Function = Callable[[float], float]

_ROOT_TOLERANCE = 1e-11
"""Relative, for the root of a quick δ; where only utility depends on it, `_ROUGH_TOLERANCE`."""
_ROUGH_TOLERANCE = 1e-4
_ROUGH_EXCESS = 2e-2
"""By how much of δ an answer that is not certified may exceed it."""


def epsilon_at(profile: PrivacyProfile, delta: float) -> float:
    """Return the smallest ε whose certified δ is at most `delta`; inf if there is none."""
    share(delta=delta)
    if delta == 0.0:
        return profile.pure_epsilon()
    profile, delta = _innermost(profile, delta)
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
    `quick_delta`: for choices of utility only, never for a claim.
    """
    in_range(0.0, 1.0, delta=delta)
    profile, delta = _innermost(profile, delta, name)
    search = profile.parameter_search(name, epsilon, delta)
    if not isinstance(search, SearchRange):
        return search
    if delta >= 1.0:
        return math.inf if search.increasing else 0.0
    test = _Test(
        lambda value: (profile.with_parameter(name, value), epsilon), delta, search, certified
    )
    answer = _best_integer(test) if search.integer else _best_real(test)
    if math.isinf(answer):
        least = test.quick_delta(search.value(search.high)).upper
        raise PlanError(search.error_message.format(least=f"{least:.3g}"))
    return answer


def _innermost(
    profile: PrivacyProfile, delta: float, name: str = ""
) -> tuple[PrivacyProfile, float]:
    """Return the innermost profile (with the parameter `name`, if given) and its δ."""
    while name not in (field.name for field in fields(profile)):  # type: ignore[arg-type]
        inner, inner_delta = profile.inner_profile(delta)
        if inner is profile:
            break
        profile, delta = inner, inner_delta
    return profile, delta


@dataclass(frozen=True)
class _Test:
    """Is δ at most `delta`? `at` gives the profile and the ε for a value of what is searched."""

    at: Callable[[float], tuple[PrivacyProfile, float]]
    delta: float
    search: SearchRange
    certified: bool = True

    def passes(self, value: float) -> bool:
        """Whether the certified δ is at most `delta`: only such a value is ever claimed."""
        if not self.certified:
            return self.quick_delta(value).upper <= self.delta * (1.0 + _ROUGH_EXCESS)
        profile, epsilon = self.at(value)
        return profile.delta(epsilon).upper <= self.delta

    def quick_delta(self, value: float) -> Bounds:
        """Return bounds that refuse no value that `passes`, since quick_delta ≤ delta."""
        profile, epsilon = self.at(value)
        return profile.quick_delta(epsilon)

    def log_excess(self, coordinate: float) -> float:
        """Return log(quick δ / `delta`), which root finding brings to 0."""
        bounds = self.quick_delta(self.search.value(coordinate))
        if self.search.method is SearchMethod.SHARP:
            # The estimate of a closed form is smooth to the last digits; its bound has a step.
            return math.log(max(bounds.estimate, LEAST_CLAIM)) - math.log(self.delta)
        # Its sign must be that of the comparison, also where rounding makes the quotient 1.
        if bounds.upper <= self.delta:
            return min(0.0, math.log(max(bounds.upper, LEAST_CLAIM) / self.delta))
        return max(5e-324, math.log(bounds.upper / self.delta))


def _best_real(test: _Test) -> float:
    """Return the best real number that passes, by the method of the search; inf if none does."""
    search = test.search
    low, high, root = search.low, search.high, search.start
    tolerance = _ROOT_TOLERANCE if test.certified else _ROUGH_TOLERANCE
    if search.method is SearchMethod.SHARP:
        return _sharp(test)
    if search.method is SearchMethod.HALVING:
        if not test.passes(high):
            return math.inf
        if not test.passes(high * (1.0 - 1e-12)):  # an end that is the answer stays a round number
            return high
        while high - low > 1e-9 * high:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if test.passes(middle) else (middle, high)
        return high
    if search.method is SearchMethod.NEAR:
        root = _root(test.log_excess, low, high, root, tolerance)
        if root == high and test.log_excess(root) > 0.0:
            return math.inf
    elif search.method is SearchMethod.DOUBLING:
        if test.log_excess(low) <= 0.0:
            return search.value(low)
        while test.log_excess(root) > 0.0:
            low, root = root, 2.0 * root
            if root > high:
                return math.inf
        root = _root(test.log_excess, low, root, root, tolerance)
    # What was found by a quick δ, or the start itself (STEPS), need not pass yet.
    return _smallest_real(test.passes, search.value(root), search.value(high))


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
    """Return the value of the best whole number that passes; 0 or inf if none does.

    Quick δ never refuses what passes, so it leaves a number from which the certified δ goes on.
    """
    search = test.search

    def may_pass(value: float) -> bool:
        return test.quick_delta(value).upper <= test.delta

    if search.increasing:
        cap, start = round(search.value(search.high)), search.value(search.start)
        if search.method is SearchMethod.NEAR:
            if not may_pass(1):
                return 0
            ends = search.low, search.high, search.start
            start = search.value(_root(lambda place: -test.log_excess(place), *ends))
        most = _largest_integer(may_pass, round(start), cap)
        return _largest_integer(test.passes, most, most)
    low, high = round(search.low), round(search.high)
    size = high - low + 1
    # The first that passes is the one after the last that fails: the n-th number is low + n − 1.
    failing = _largest_integer(
        lambda n: not may_pass(search.value(low + n - 1)), round(search.start) - low, size
    )
    if failing < size:
        failing = _largest_integer(
            lambda n: n <= failing or not test.passes(search.value(low + n - 1)), failing + 1, size
        )
    return math.inf if failing == size else search.value(low + failing)


def _largest_integer(passes: Callable[[int], bool], guess: int, cap: int) -> int:
    """Return the largest n in [0, cap] that passes, if all smaller ones pass too.

    0 passes by convention. The bracket is found by steps that double away from `guess`.
    """
    low, high, step = 0, cap + 1, 1
    n = min(max(guess, 1), cap)
    while low < n < high:
        if passes(n):
            low, n = n, n + step
        else:
            high, n = n, n - step
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def _smallest_real(passes: Callable[[float], bool], guess: float, cap: float) -> float:
    """Return a number that passes, at most a relative 1e-9 above the smallest; inf beyond `cap`.

    For a test that passes from some x on; `guess` is at or below it.
    """
    if passes(guess):
        return guess
    failed, step = guess, 2e-10
    while not passes(trial := failed * (1.0 + step) + 1e-15):
        failed, step = trial, 4.0 * step
        if failed > cap:
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
