"""The two laws of noise, and which of them a budget asks for (theory §11).

One label moves by at most Δ, and with it one published number. Laplace noise of scale b then is
pure ε with ε = Δ/b, Gaussian noise of deviation s a Gaussian mechanism with μ = Δ/s. The k labels
of a person move k numbers by Δ each: by kΔ in sum, which is what Laplace noise pays for, and by
√k·Δ in length, which is what Gaussian noise does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.accounting.laplace import LaplaceProfile
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.sampling import rounded_noise as door

_GAUSSIAN_ROOM = 1 - 1e-9
"""μ is used up to this, and ε up to the next, so that rounding never breaks the budget."""
_LAPLACE_ROOM = 1 - 2.0**-48
_UP = 1 + 2.0**-50


@dataclass(frozen=True)
class Law:
    """Noise of scale 1, and what it costs to move a number by 1."""

    title: str
    pure: bool
    """Whether it spends no δ."""
    door: door.NoiseLaw
    deviation: float
    norm: Callable[[int], float]
    """Of as many moves by 1, in the norm that counts."""
    price: Callable[[float], PrivacyProfile]
    """The guarantee where labels move by so many scales."""
    most: Callable[[float, float], float]
    """The largest such move within (ε, δ), but for rounding."""


LAWS = {
    "laplace": Law(
        "Laplace",
        True,
        door.LAPLACE,
        math.sqrt(2.0),
        float,
        LaplaceProfile,
        lambda epsilon, _delta: epsilon * _LAPLACE_ROOM,
    ),
    "gaussian": Law(
        "Gaussian",
        False,
        door.NORMAL,
        1.0,
        math.sqrt,
        GaussianProfile,
        lambda epsilon, delta: largest_mu(epsilon, delta) * _GAUSSIAN_ROOM,
    ),
}


@dataclass(frozen=True)
class RowNoise:
    """The noise on every label."""

    name: str
    scale: float
    """In label units."""

    @property
    def law(self) -> Law:
        return LAWS[self.name]

    @property
    def std(self) -> float:
        return self.law.deviation * self.scale

    @property
    def grid(self) -> int:
        """The exponent of the public grid's step."""
        return door.grid_for(self.scale)

    def curve(self, width: float, rows: int) -> PrivacyProfile:
        """What is guaranteed to so many rows together, rounded up."""
        return self.law.price(width * self.law.norm(rows) / self.scale * _UP)


def needed(name: str, width: float, rows: int, epsilon: float, delta: float) -> RowNoise | None:
    """The least noise of a law; None if no noise is enough."""
    law = LAWS[name]
    most = law.most(epsilon, delta)
    return RowNoise(name, width * law.norm(rows) / most) if most > 0 else None


def least_noise(width: float, rows: int, epsilon: float, delta: float) -> RowNoise:
    """Of both laws the one of less variance; with δ = 0 always Laplace's."""
    offers = (needed(name, width, rows, epsilon, delta) for name in LAWS)
    return min((noise for noise in offers if noise), key=lambda noise: noise.std)


def of_range(rows: int, epsilon: float, delta: float) -> float:
    """The least deviation, of the label range, for persons of so many rows."""
    return least_noise(1.0, rows, epsilon, delta).std
