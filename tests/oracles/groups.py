"""Several labels as so many single steps, read off the points of a curve."""

from __future__ import annotations

import math
from collections.abc import Iterable


def group(points: Iterable[tuple[float, float]], size: int, delta: float) -> float:
    """The smallest ε for someone with `size` rows at the given δ; inf if the points have none.

    k steps of an (ε, δ) guarantee give (kε, δ(1 + e^ε + … + e^{(k−1)ε})).
    """
    return min(
        (size * e for e, d in points if d * sum(math.exp(k * e) for k in range(size)) <= delta),
        default=math.inf,
    )
