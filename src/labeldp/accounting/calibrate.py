"""Every inverse question: ε at δ, and the largest or smallest parameter within (ε, δ).

    epsilon(curve, delta)                the smallest ε at which the curve's δ is at most `delta`
    limit(curve, name, epsilon, delta)   the largest (or smallest) bags, floor, bag size, noise
                                         deviation, noisy fraction or μ that is (ε, δ)-DP

Both err on the private side: what they return has passed with the certified `Bounds.upper`, but
for laws in closed form, which round by themselves. Nothing else in the package searches.

The law says where to look and how, this file looks. `calibrate(Gaussian(1.0), "mu", 1.0, 1e-6)` asks

    curve.range_of("mu", 1.0, 1e-6)   a `SearchRange`: log μ lies between these ends, δ grows with it, and
                                      it is closed form (`SearchMethod.SHARP`)
    curve.with_value("mu", 0.2)       the law at one μ, as often as needed: is its δ at most 1e-6?

and each `SearchMethod` has its function here. A curve around another (a draw of bags, say) is asked for a
`inner_profile` one first: the law inside, at the δ that is left to it.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from itertools import count
from typing import ClassVar

from labeldp.accounting.bounds import Bounds
from labeldp.accounting.limits import LEAST_CLAIM
from labeldp.accounting.privacy_profile import PrivacyProfile, SearchMethod, SearchRange
from labeldp.errors import PlanError, in_range, share

Function = Callable[[float], float]


def epsilon_at(curve: PrivacyProfile, delta: float) -> float:
    """The smallest ε whose certified δ is at most `delta`; inf if there is none."""
    share(delta=delta)
    if delta == 0.0:
        return curve.pure_epsilon()
    curve, delta = _innermost(curve, delta)
    if delta >= 1.0:
        return 0.0
    where = curve.epsilon_search(delta)
    if not isinstance(where, SearchRange):
        return where
    return _SEARCHES[where.method](where, _Question(lambda e: (curve, e), delta, where))


def calibrate(
    curve: PrivacyProfile, name: str, epsilon_at: float, delta: float, *, certified: bool = True
) -> float:
    """The largest parameter within (ε, δ) if δ grows with it, else the smallest.

    The parameter's value in `curve` is not used. A number of bags is 0 if not even one passes;
    any other limit that does not exist is a `PlanError`. What is not certified rests on the quick
    guess: it is for choices of utility, never for a claim.
    """
    in_range(0.0, 1.0, delta=delta)
    curve, delta = _innermost(curve, delta, name)
    where = curve.parameter_search(name, epsilon_at, delta)
    if not isinstance(where, SearchRange):
        return where
    if delta >= 1.0:
        return math.inf if where.increasing else 0.0
    question = _Question if certified else _Guess
    ask = question(lambda x: (curve.with_parameter(name, x), epsilon_at), delta, where)
    if where.integer:
        found = _most(where, ask) if where.increasing else _fewest(where, ask)
    else:
        found = _SEARCHES[where.method](where, ask)
    if math.isinf(found):
        least = ask.quick_delta(where.value(where.high)).upper
        raise PlanError(where.error_message.format(least=f"{least:.3g}"))
    return found


def _innermost(curve: PrivacyProfile, delta: float, name: str = "") -> tuple[PrivacyProfile, float]:
    """The simplest curve that answers the same question, if need be the one with a parameter."""
    if name in (field.name for field in fields(curve)):  # type: ignore[arg-type]
        return curve, delta
    inner, given = curve.inner_profile(delta)
    return (curve, delta) if inner is curve else _innermost(inner, given, name)


@dataclass(frozen=True)
class _Question:
    """Is δ at most `delta`? `at` gives the curve, and the ε, of a value of what is looked for."""

    at: Callable[[float], tuple[PrivacyProfile, float]]
    delta: float
    where: SearchRange
    near: ClassVar[float] = 1e-11
    """How closely the root of the guess is looked for."""

    def passes(self, value: float) -> bool:
        """Certified."""
        curve, epsilon_at = self.at(value)
        return curve.delta(epsilon_at).upper <= self.delta

    def quick_delta(self, value: float) -> Bounds:
        curve, epsilon_at = self.at(value)
        return curve.quick_delta(epsilon_at)

    def may_pass(self, value: float) -> bool:
        """Never false where `passes` is true."""
        return self.quick_delta(value).upper <= self.delta

    def gap(self, coordinate: float) -> float:
        """log δ − log `delta` of the guess: negative or zero where it passes."""
        upper = self.quick_delta(self.where.value(coordinate)).upper
        if upper <= self.delta:
            return min(0.0, math.log(max(upper, LEAST_CLAIM) / self.delta))
        return max(5e-324, math.log(upper / self.delta))

    def sharp_gap(self, coordinate: float) -> float:
        """The same of the estimate, for a law in closed form."""
        estimate = self.quick_delta(self.where.value(coordinate)).estimate
        return math.log(max(estimate, LEAST_CLAIM)) - math.log(self.delta)


class _Guess(_Question):
    """About the same of the quick guess."""

    near = 1e-4

    def passes(self, value: float) -> bool:
        return self.quick_delta(value).upper <= self.delta * (1.0 + 2e-2)


def _near(where: SearchRange, ask: _Question) -> float:
    place = _bracketed_root(ask.gap, where.low, where.high, where.start, ask.near)
    if place == where.high and ask.gap(place) > 0.0:
        return math.inf
    return _smallest_real(ask.passes, where.value(place), where.value(where.high))


def _doubling(where: SearchRange, ask: _Question) -> float:
    if ask.gap(where.low) <= 0.0:
        return where.value(where.low)
    low, high = where.low, where.start
    while ask.gap(high) > 0.0:
        low, high = high, 2.0 * high
        if high > where.high:
            return math.inf
    guess = where.value(_bracketed_root(ask.gap, low, high, high, ask.near))
    return _smallest_real(ask.passes, guess, where.value(where.high))


def _steps(where: SearchRange, ask: _Question) -> float:
    return _smallest_real(ask.passes, where.value(where.start), where.value(where.high))


def _sharp(where: SearchRange, ask: _Question) -> float:
    if where.increasing:
        place = _between(ask.sharp_gap, where.low, where.high, absolute=1e-14, relative=2.0**-50)
        guess, lengths = where.value(place), _lengths()
        while not ask.passes(guess):
            guess *= 1.0 - next(lengths)
        return guess
    if ask.passes(where.low):
        return where.low
    if not ask.passes(where.high):
        return math.inf
    guess = _between(ask.sharp_gap, where.low, where.high, absolute=1e-14, relative=1e-14)
    lengths = _lengths()
    while not ask.passes(guess):
        guess += next(lengths) * (1.0 + guess)
    return guess


def _lengths() -> Iterator[float]:
    """Of steps to the safe side: short, then ever longer, since a δ near 1 hardly moves."""
    return (min(0.5, 1e-13 * 1.1 ** max(0, taken - 100)) for taken in count())


def _halving(where: SearchRange, ask: _Question) -> float:
    low, high = where.low, where.high
    if not ask.passes(high):
        return math.inf
    if not ask.passes(high * (1.0 - 1e-12)):
        return high
    while high - low > 1e-9 * high:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if ask.passes(middle) else (middle, high)
    return high


_SEARCHES: dict[SearchMethod, Callable[[SearchRange, _Question], float]] = {
    SearchMethod.NEAR: _near,
    SearchMethod.DOUBLING: _doubling,
    SearchMethod.STEPS: _steps,
    SearchMethod.SHARP: _sharp,
    SearchMethod.HALVING: _halving,
}


def _most(where: SearchRange, ask: _Question) -> int:
    """The quick guess never refuses what passes, so the answer is at most its largest."""
    cap, start = round(where.value(where.high)), where.value(where.start)
    if where.method is SearchMethod.NEAR:
        if not ask.may_pass(1):
            return 0
        start = where.value(
            _bracketed_root(lambda x: -ask.gap(x), where.low, where.high, where.start)
        )
    guess = _largest_integer(ask.may_pass, round(start), cap)
    return _largest_integer(ask.passes, guess, guess)


def _fewest(where: SearchRange, ask: _Question) -> float:
    low, start, high = round(where.low), round(where.start), round(where.high)
    value = where.value
    guess = _smallest_integer(lambda n: ask.may_pass(value(n)), low, start, high)
    if guess is None:
        return math.inf
    found = _smallest_integer(lambda n: ask.passes(value(n)), guess, guess + 1, high)
    return math.inf if found is None else value(found)


def _smallest_integer(
    passes: Callable[[int], bool], lowest: int, guess: int, cap: int
) -> int | None:
    """The smallest n in [lowest, cap] that passes, for a test that passes from some n on."""
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
    """The largest n in [0, cap] that passes, for a test that fails from some n on.

    0 passes by convention. The bracket is found by steps doubling away from `quick_delta`.
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
    """A number that passes, at most a relative 1e-9 above the smallest; inf beyond `cap`.

    For a test that passes from some x on. Starts at `quick_delta`, which is at or below it.
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


def _bracketed_root(
    gap: Function, low: float, high: float, start: float, relative: float = 1e-11
) -> float:
    """Where a decreasing `gap` changes sign, about; an end if it does not.

    The bracket is found by steps doubling away from `start`, a number between the two.
    """
    gap = cache(gap)  # the ends of the bracket are asked for again
    first, step = start, 0.5 * max(1.0, abs(start))
    up = gap(start) > 0.0
    while True:
        second = min(high, first + step) if up else max(low, first - step)
        if (gap(second) > 0.0) != up:
            break
        if second in (low, high):
            return second
        first, step = second, 4.0 * step
    return _between(gap, first, second, absolute=1e-12, relative=relative)


def _between(
    gap: Function, first: float, second: float, *, absolute: float, relative: float
) -> float:
    """A zero of `gap`, of opposite signs at the two ends, by Brent's method (1973, chapter 4).

    `here` is the best number so far, `last` the one before it, `there` one beyond the zero. A
    step is interpolated where that is short, and halves what is left where it is not.
    """
    last, here, at_last, at_here = first, second, gap(first), gap(second)
    there, at_there, step, before = last, at_last, here - last, here - last
    if at_last == 0.0:
        return last
    while at_here != 0.0:
        if (at_last > 0.0) != (at_here > 0.0):
            there, at_there = last, at_last
            step = before = here - last
        if abs(at_there) < abs(at_here):
            last, here, there = here, there, here
            at_last, at_here, at_there = at_here, at_there, at_here
        close, half = (absolute + relative * abs(here)) / 2.0, (there - here) / 2.0
        if abs(half) < close:
            break
        trial = math.inf
        if abs(before) > close and abs(at_here) < abs(at_last):
            trial = _interpolated((last, at_last), (here, at_here), (there, at_there))
        short = 2.0 * abs(trial) < min(abs(before), 3.0 * abs(half) - close)
        before, step = (step, trial) if short else (half, half)
        last, at_last = here, at_here
        here += step if abs(step) > close else math.copysign(close, half)
        at_here = gap(here)
    return here


Point = tuple[float, float]


def _interpolated(last: Point, here: Point, there: Point) -> float:
    """The step to the zero of the line, or inverse parabola, through the points; inf if none."""
    (x0, y0), (x1, y1), (x2, y2) = last, here, there
    if x0 == x2:
        return -y1 * (x1 - x0) / (y1 - y0)
    slope0, slope2 = (y0 - y1) / (x0 - x1), (y2 - y1) / (x2 - x1)
    bottom = slope2 * slope0 * (y2 - y0)
    return -y1 * (y2 * slope2 - y0 * slope0) / bottom if bottom else math.inf
