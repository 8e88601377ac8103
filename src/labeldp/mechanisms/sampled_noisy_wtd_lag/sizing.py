"""How large bags and how much noise, when the user leaves it open: from public facts alone.

m = n/k bags have an excess of (γ + ρs²)·d/(m−d−1), and the s that the budget needs falls like
1/√(ρk) times the largest of k weights: small bags do best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.limits import MOST_TRIED_BAG_SIZE
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.weighted_bags import realised_mu
from labeldp.errors import PlanError
from labeldp.mechanisms.forecast import bag_sizes, mean_excess
from labeldp.sampling.streams import normals, public_stream, words

_TRIES = 1024
_ACCEPTED = 0.5
"""The share of bags whose first weights should pass; the others are drawn again."""
_MOST_EMPTY = 0.01
"""The most bags without any noisy row, which no weights can help, that a choice may expect."""


def may_be_empty(bag_size: int, bags: int, fraction: float) -> bool:
    """Whether some bag might hold no noisy row, so that its plan would be refused."""
    return bags * (1.0 - fraction) ** bag_size > _MOST_EMPTY


def realised_std(bag_size: int, fraction: float, width: float, target_mu: float) -> float:
    """The noise at which half of the bags pass with their first weights, by simulation.

    Bags without any noisy row never pass and count as such.
    """
    stream = public_stream("sizes", f"{bag_size} {fraction!r}")
    values = normals(stream, _TRIES * bag_size).reshape(_TRIES, bag_size)
    noisy = words(stream, values.size).reshape(values.shape) <= fraction * 2.0**64
    mu = realised_mu(values, noisy, width, 1.0)
    needed = float(np.quantile(mu, _ACCEPTED, method="higher")) / target_mu
    return round_up(needed) if math.isfinite(needed) else math.inf


def least_std(law: PrivacyProfile, epsilon: float, delta: float) -> float:
    """The noise that a law needs before any draw; infinite if none is enough."""
    try:
        return round_up(calibrate(law, "noise_std", epsilon, delta))
    except PlanError:
        return math.inf


def round_up(value: float) -> float:
    """To three figures, upwards: a number people can read back."""
    if value <= 0.0:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step * (1 - 1e-12)) * step:.3g}")


def candidates(rows: int, fewest: int) -> Iterator[int]:
    """Sizes of bags that leave at least so many bags."""
    return bag_sizes(2, 2.0, min(MOST_TRIED_BAG_SIZE, rows // fewest))


def best_size(
    rows: int,
    rank: int,
    residual_ms: float,
    fraction: float,
    noise: Callable[[int], float],
    bags: Callable[[int], int],
    wanted: int | None,
) -> int:
    """The size with the smallest forecast error, given what a size needs and how many it leaves.

    `wanted` is a number of bags that was asked for.
    """

    def error(size: int) -> float:
        std = noise(size)
        if not math.isfinite(std):
            return math.inf
        return (residual_ms + fraction * std**2) * mean_excess(rank, bags(size))

    best = min(candidates(rows, wanted or rank + 2), key=error, default=None)
    if best is None or error(best) == math.inf:
        raise PlanError(
            f"no size of bags gives a private fit of {rank} columns on {rows:,} rows at this "
            "budget; raise ε or δ, make more rows noisy, or use `mechanism='wtd-flag'`"
        )
    return best


def size_for_noise(rows: int, std: float, noise: Callable[[int], float]) -> int:
    """The smallest size, up to doubling, whose bags this noise makes private.

    A choice among the same sizes, no limit for `invert`: noise that is found by simulation need not
    fall with the size, and the claim that is made of the chosen size is certified.
    """
    for size in candidates(rows, 1):
        if noise(size) <= std:
            return size
    raise PlanError(
        f"noise of deviation {std:g} makes no bag of up to {min(rows, MOST_TRIED_BAG_SIZE):,} rows "
        "private at this budget; add more noise or make more rows noisy"
    )
