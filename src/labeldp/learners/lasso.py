"""The lasso from a Gram matrix alone: argmin rᵀGr/2 − g·r + λ‖r‖₁.

Coordinates are improved in turn until which of them are zero, and the signs of the others, no
longer change; those then solve a linear system. The answer is exact, and the conditions of
optimality, |g − Gr| ≤ λ with equality and r's sign where r is not zero, say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from labeldp.errors import InputError
from labeldp.learners.protocol import Array

_SWEEPS = 2_000
_TOLERANCE = 1e-9


def path(gram: Array, moment: Array, penalties: Sequence[float]) -> Iterator[Array]:
    """r for every penalty, each from the one before: fast if they fall."""
    found = np.zeros(len(moment))
    for penalty in penalties:
        found = solve(gram, moment, penalty, found)
        yield found


def solve(gram: Array, moment: Array, penalty: float, start: Array | None = None) -> Array:
    """r for one penalty."""
    found = np.zeros(len(moment)) if start is None else start.copy()
    slack = _TOLERANCE * float(np.abs(moment).max(initial=0.0))
    for _ in range(_SWEEPS):
        signs = np.sign(_sweep(gram, moment, penalty, found))
        exact = _on_signs(gram, moment, penalty, signs)
        if exact is not None and _is_optimal(gram, moment, penalty, exact, slack):
            return exact
    raise InputError("the lasso does not settle: columns are too nearly dependent; use a ridge")


def _sweep(gram: Array, moment: Array, penalty: float, found: Array) -> Array:
    """Each coordinate at its best given the others, in place."""
    left = moment - gram @ found
    for place in np.flatnonzero(np.diagonal(gram) > 0):
        own = gram[place, place]
        pull = left[place] + own * found[place]
        better = np.sign(pull) * max(abs(pull) - penalty, 0.0) / own
        if better != found[place]:
            left -= gram[:, place] * (better - found[place])
            found[place] = better
    return found


def _on_signs(gram: Array, moment: Array, penalty: float, signs: Array) -> Array | None:
    """The best r of these signs, if it has them."""
    found, active = np.zeros(len(signs)), signs != 0
    try:
        found[active] = np.linalg.solve(
            gram[np.ix_(active, active)], moment[active] - penalty * signs[active]
        )
    except np.linalg.LinAlgError:
        return None
    return found if np.array_equal(np.sign(found), signs) else None


def _is_optimal(gram: Array, moment: Array, penalty: float, found: Array, slack: float) -> bool:
    return bool(np.abs(moment - gram @ found).max(initial=0.0) <= penalty + slack)
