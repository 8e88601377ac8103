"""A search that ends with a check: what it returns has passed, one less has not."""

from __future__ import annotations

from collections.abc import Callable


def smallest_integer(
    passes: Callable[[int], bool], lowest: int, guess: int, cap: int
) -> int | None:
    """The smallest n in [lowest, cap] that passes, for a test that passes from some n on."""
    if passes(lowest):
        return lowest
    low, high = lowest, max(lowest + 1, min(guess, cap))
    while not passes(high):
        if high >= cap:
            return None
        low, high = high, min(2 * high, cap)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high
