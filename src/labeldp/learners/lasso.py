"""The lasso from a Gram matrix alone: argmin rᵀGr/2 − g·r + λ‖r‖₁.

An active set: coordinates that are not zero, with their signs, solve a linear system. On the way
to its solution the first that would change its sign is set to zero and leaves; once all have
theirs, the one that misses |g − Gr| ≤ λ most enters. The objective falls with every step, so no
set comes back, and the answer is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError

Array = NDArray[np.float64]

_STEPS_PER_COLUMN = 100
_TOLERANCE = 1e-10


def path(gram: Array, moment: Array, penalties: Sequence[float]) -> Iterator[Array]:
    """r for every penalty, each from the one before: fast if they fall."""
    found = np.zeros(len(moment))
    for penalty in penalties:
        found = solve(gram, moment, penalty, found)
        yield found


def solve(gram: Array, moment: Array, penalty: float, start: Array | None = None) -> Array:
    """r for one penalty."""
    found = np.zeros(len(moment)) if start is None else start.copy()
    signs = np.sign(found)
    slack = _TOLERANCE * float(np.abs(moment).max(initial=0.0))
    for _ in range(_STEPS_PER_COLUMN * (len(moment) + 1)):
        found, whole = _step(gram, moment - penalty * signs, found, signs)
        signs = np.sign(found)
        if not whole:
            continue
        missed = np.where(signs == 0, np.abs(moment - gram @ found) - penalty, 0.0)
        place = int(np.argmax(missed)) if len(missed) else 0
        if len(missed) == 0 or missed[place] <= slack:
            return found
        signs[place] = np.sign(moment[place] - gram[place] @ found)
    raise InputError("the lasso does not settle: columns are too nearly dependent; use a ridge")


def _step(gram: Array, pull: Array, found: Array, signs: Array) -> tuple[Array, bool]:
    """As far towards the solution on the active set as signs hold, and whether that is all the way.

    A coordinate that has just entered is still zero: it leaves zero with its sign.
    """
    active = np.flatnonzero(signs)
    better = found.copy()
    better[active] = _solution(gram[np.ix_(active, active)], pull[active])
    crossing = active[(better * signs)[active] < 0]
    if not len(crossing):
        return better, True
    parts = found[crossing] / (found[crossing] - better[crossing])
    first = int(np.argmin(parts))
    moved = found + parts[first] * (better - found)
    moved[crossing[first]] = 0.0
    return moved, False


def _solution(gram: Array, pull: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(gram, pull), dtype=np.float64)
    except np.linalg.LinAlgError:  # columns that depend on each other: the shortest
        return np.asarray(np.linalg.lstsq(gram, pull)[0], dtype=np.float64)
