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
from typing import ClassVar

from labeldp.accounting.privacy_profile import (
    LEAST_CLAIM,
    Bounds,
    PrivacyProfile,
    SearchMethod,
    SearchRange,
)
from labeldp.errors import PlanError, in_range, share

Function = Callable[[float], float]


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
    return _SEARCHES[search.method](_Test(lambda epsilon: (profile, epsilon), delta, search))


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
    kind = _Test if certified else _QuickTest
    test = kind(lambda value: (profile.with_parameter(name, value), epsilon), delta, search)
    if search.integer:
        answer = _most(test) if search.increasing else _fewest(test)
    else:
        answer = _SEARCHES[search.method](test)
    if math.isinf(answer):
        least = test.quick_delta(search.value(search.high)).upper
        raise PlanError(search.error_message.format(least=f"{least:.3g}"))
    return answer


def _innermost(
    profile: PrivacyProfile, delta: float, name: str = ""
) -> tuple[PrivacyProfile, float]:
    """Return the innermost profile (with the parameter `name`, if given) and its δ."""
    if name in (field.name for field in fields(profile)):  # type: ignore[arg-type]
        return profile, delta
    inner, inner_delta = profile.inner_profile(delta)
    return (profile, delta) if inner is profile else _innermost(inner, inner_delta, name)


@dataclass(frozen=True)
class _Test:
    """Is δ at most `delta`? `at` gives the profile and the ε for a value of what is searched."""

    at: Callable[[float], tuple[PrivacyProfile, float]]
    delta: float
    search: SearchRange
    tolerance: ClassVar[float] = 1e-11
    """Relative tolerance for the root of `quick_delta`."""

    def passes(self, value: float) -> bool:
        """Whether the certified δ is at most `delta`."""
        profile, epsilon = self.at(value)
        return profile.delta(epsilon).upper <= self.delta

    def quick_delta(self, value: float) -> Bounds:
        profile, epsilon = self.at(value)
        return profile.quick_delta(epsilon)

    def may_pass(self, value: float) -> bool:
        """Quick; never False where `passes` is True, since quick_delta ≤ delta."""
        return self.quick_delta(value).upper <= self.delta

    def log_excess(self, coordinate: float) -> float:
        """Return log(quick δ / `delta`): at most 0 where the value may pass."""
        upper = self.quick_delta(self.search.value(coordinate)).upper
        if upper <= self.delta:
            return min(0.0, math.log(max(upper, LEAST_CLAIM) / self.delta))
        return max(5e-324, math.log(upper / self.delta))

    def sharp_log_excess(self, coordinate: float) -> float:
        """The same for the estimate of a closed form, which has no bracket around it."""
        estimate = self.quick_delta(self.search.value(coordinate)).estimate
        return math.log(max(estimate, LEAST_CLAIM)) - math.log(self.delta)


class _QuickTest(_Test):
    """The same by `quick_delta` alone, up to 2 % of δ."""

    tolerance = 1e-4

    def passes(self, value: float) -> bool:
        return self.quick_delta(value).upper <= self.delta * (1.0 + 2e-2)


def _near(test: _Test) -> float:
    """Find the root of quick δ, then step up until the certified δ passes."""
    search = test.search
    root = _root(test.log_excess, search.low, search.high, search.start, test.tolerance)
    if root == search.high and test.log_excess(root) > 0.0:
        return math.inf
    return _smallest_real(test.passes, search.value(root), search.value(search.high))


def _doubling(test: _Test) -> float:
    """The same, but bracket the root by doubling: δ is slow to compute far out."""
    search = test.search
    if test.log_excess(search.low) <= 0.0:
        return search.value(search.low)
    low, high = search.low, search.start
    while test.log_excess(high) > 0.0:
        low, high = high, 2.0 * high
        if high > search.high:
            return math.inf
    root = _root(test.log_excess, low, high, high, test.tolerance)
    return _smallest_real(test.passes, search.value(root), search.value(search.high))


def _steps(test: _Test) -> float:
    """Step up from `start` by the certified δ alone."""
    search = test.search
    return _smallest_real(test.passes, search.value(search.start), search.value(search.high))


def _sharp(test: _Test) -> float:
    """Find the root of a closed form to its last digits, then step to the private side."""
    search = test.search
    if search.increasing:
        root = search.low  # where even the least is too much, the steps below go on from there
        if test.sharp_log_excess(root) < 0.0:
            root = _brent(
                test.sharp_log_excess, root, search.high, absolute=1e-14, relative=2.0**-50
            )
        value, lengths = search.value(root), _step_lengths()
        while not test.passes(value):
            value *= 1.0 - next(lengths)
        return value
    if test.passes(search.low):
        return search.low
    if not test.passes(search.high):
        return math.inf
    value = _brent(test.sharp_log_excess, search.low, search.high, absolute=1e-14, relative=1e-14)
    lengths = _step_lengths()
    while not test.passes(value):
        value += next(lengths) * (1.0 + value)
    return value


def _step_lengths() -> Iterator[float]:
    """Lengths of steps to the private side: short, then longer, since a δ near 1 hardly moves."""
    return (min(0.5, 1e-13 * 1.1 ** max(0, taken - 100)) for taken in count())


def _halving(test: _Test) -> float:
    """Bisect the ratio of the ends by the certified δ."""
    low, high = test.search.low, test.search.high
    if not test.passes(high):
        return math.inf
    if not test.passes(high * (1.0 - 1e-12)):
        return high
    while high - low > 1e-9 * high:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if test.passes(middle) else (middle, high)
    return high


_SEARCHES: dict[SearchMethod, Callable[[_Test], float]] = {
    SearchMethod.NEAR: _near,
    SearchMethod.DOUBLING: _doubling,
    SearchMethod.STEPS: _steps,
    SearchMethod.SHARP: _sharp,
    SearchMethod.HALVING: _halving,
}


def _most(test: _Test) -> int:
    """Return the largest integer that passes; 0 if none does."""
    search = test.search
    cap, start = round(search.value(search.high)), search.value(search.start)
    if search.method is SearchMethod.NEAR:
        if not test.may_pass(1):
            return 0
        root = _root(
            lambda place: -test.log_excess(place), search.low, search.high, search.start, 1e-11
        )
        start = search.value(root)
    # quick δ never refuses what passes, so the answer is at most the largest that may pass
    most = _largest_integer(test.may_pass, round(start), cap)
    return _largest_integer(test.passes, most, most)


def _fewest(test: _Test) -> float:
    """Return the value of the smallest integer that passes; inf if none does."""
    search = test.search
    low, start, high = round(search.low), round(search.start), round(search.high)
    value = search.value
    least = _smallest_integer(lambda n: test.may_pass(value(n)), low, start, high)
    if least is None:
        return math.inf
    answer = _smallest_integer(lambda n: test.passes(value(n)), least, least + 1, high)
    return math.inf if answer is None else value(answer)


def _smallest_integer(
    passes: Callable[[int], bool], lowest: int, guess: int, cap: int
) -> int | None:
    """Return the smallest n in [lowest, cap] that passes, if all larger ones pass too."""
    if passes(lowest):
        return lowest
    low, high = lowest, min(max(lowest + 1, guess), cap)
    while low < high and not passes(high):
        low, high = high, min(2 * high, cap)
    if low == high:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


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
    function: Function, low: float, high: float, start: float, relative: float = 1e-11
) -> float:
    """Return where a decreasing function changes sign, about; an end if it does not.

    The bracket is found by steps that grow away from `start`, a number between the two.
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
    """Return a zero of a function with opposite signs at the two ends, as scipy's brentq does.

    Written out because importing scipy.optimize takes a seventh of a small release.
    """
    before, now = first, second
    at_before, at_now = function(before), function(now)
    if at_before == 0.0:
        return before
    opposite, at_opposite = before, at_before  # the end with the other sign than `now`
    step = last_step = now - before
    while at_now != 0.0:
        if at_before != 0.0 and (at_before > 0.0) != (at_now > 0.0):
            opposite, at_opposite = before, at_before
            step = last_step = now - before
        if abs(at_opposite) < abs(at_now):  # `now` is the better end
            before, now, opposite = now, opposite, now
            at_before, at_now, at_opposite = at_now, at_opposite, at_now
        tolerance = (absolute + relative * abs(now)) / 2.0
        half = (opposite - now) / 2.0
        if abs(half) < tolerance:
            return now
        trial = math.inf
        if abs(last_step) > tolerance and abs(at_now) < abs(at_before):
            if before == opposite:  # secant
                trial = -at_now * (now - before) / (at_now - at_before)
            else:  # inverse quadratic interpolation
                slope = (at_before - at_now) / (before - now)
                slope_opposite = (at_opposite - at_now) / (opposite - now)
                rise = at_opposite * slope_opposite - at_before * slope
                trial = -at_now * rise / (slope_opposite * slope * (at_opposite - at_before))
        if 2.0 * abs(trial) < min(abs(last_step), 3.0 * abs(half) - tolerance):
            last_step, step = step, trial
        else:  # bisection
            last_step = step = half
        before, at_before = now, at_now
        now += step if abs(step) > tolerance else math.copysign(tolerance, half)
        at_now = function(now)
    return now
