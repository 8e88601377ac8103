"""Searches that end with a check: what they return has passed, what lies beyond has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from scipy import optimize


def largest_integer(passes: Callable[[int], bool], guess: int, cap: int) -> int:
    """The largest n in [0, cap] that passes, for a test that fails from some n on.

    0 passes by convention. The bracket is found by steps doubling away from `guess`.
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


def root(gap: Callable[[float], float], low: float, high: float, start: float) -> float:
    """Where a decreasing `gap` changes sign, to about 1e-11; an end if it does not.

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
    return float(optimize.brentq(gap, first, second, xtol=1e-12, rtol=1e-11))


def smallest_real(passes: Callable[[float], bool], guess: float, cap: float) -> float:
    """A number that passes, at most a relative 1e-9 above the smallest; inf beyond `cap`.

    For a test that passes from some x on. Starts at `guess`, which is at or below it.
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
