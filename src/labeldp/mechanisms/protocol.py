"""What every mechanism does, what it is asked, and what it drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp._random import Randomness
from labeldp.accounting import ACCOUNTANTS
from labeldp.engines import Engine
from labeldp.errors import InputError, at_least, in_range, positive
from labeldp.features import FeatureMap
from labeldp.mechanisms.bags import Draw
from labeldp.mechanisms.forecast import Forecast
from labeldp.mechanisms.survey import Encoding
from labeldp.release import Claim, Drawing, Release
from labeldp.source import Source
from labeldp.statistics import Factor, LabelGrid


@dataclass(frozen=True)
class Request:
    """What is asked of a plan. None leaves a choice to the mechanism."""

    epsilon: float
    delta: float
    accountant: str = "exact"
    floor: str | None = None
    residual_ms: float | None = None
    residual_guess: float | None = None
    bags: int | None = None
    bag_size: int | None = None
    over_draw: bool = False
    min_eigenvalue: float | None = None
    noise_std: float | None = None
    noisy_fraction: float | None = None
    noisy_column: str | None = None
    bag_seed: int | None = None
    compact: bool = False
    max_megabytes: float = 128.0
    encoding: Encoding = field(default_factory=Encoding)

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon, max_megabytes=self.max_megabytes)
        in_range(0, 1, delta=self.delta)
        if self.accountant not in ACCOUNTANTS:
            raise InputError(
                f"accountant {self.accountant!r} is unknown; choose {', '.join(ACCOUNTANTS)}"
            )
        for name in ("residual_ms", "residual_guess", "noise_std", "min_eigenvalue"):
            value = getattr(self, name)
            if value is not None:
                positive(**{name: value})
        for name in ("bags", "bag_size"):
            value = getattr(self, name)
            if value is not None:
                at_least(1, **{name: value})

    def allow(self, mechanism: str, *names: str) -> None:
        """Refuse choices that the mechanism does not have, rather than let them count for nothing.

        `names` are those it has, of the ones that not every mechanism has.
        """
        for name in _CHOICES:
            value = getattr(self, name)
            if name not in names and value is not None and value is not False:  # 0 was given
                option = "--" + name.replace("_", "-")
                raise InputError(f"{option} does not apply to {mechanism}; leave it out")

    def residual(self, width: float) -> float:
        """The residual mean square to plan with: the promise, the guess, or the default guess."""
        return self.residual_ms or self.residual_guess or (width / 10) ** 2


_CHOICES = (
    "floor",
    "residual_ms",
    "bag_size",
    "over_draw",
    "min_eigenvalue",
    "noise_std",
    "noisy_fraction",
    "noisy_column",
    "bag_seed",
    "compact",
)


@dataclass(frozen=True)
class Draft:
    """What will be published and what it promises; every field is public."""

    claim: Claim
    features: FeatureMap = field(repr=False)
    labels: LabelGrid
    feature_sums: str
    """SHA-256 of the exact feature sums (of the bags' rows, if rows are drawn): the release must
    see the same features."""
    forecast: Forecast
    notes: tuple[str, ...] = ()
    factor: Factor | None = field(default=None, repr=False, compare=False)
    """Of those feature sums, where planning has just made it; it is not written to plan files."""


@dataclass(frozen=True, eq=False)
class Imagined:
    """What a simulation needs of a release of bags: no label is involved."""

    draw: Draw
    weights: NDArray[np.float64]
    """One line per bag, one column per row in it."""
    variances: NDArray[np.float64]
    """Of the noise in each aggregate label."""
    weigh: bool
    """Whether the deviations are published, so that a fit divides by them."""


class Mechanism(Protocol):
    """One way to publish: how it is planned, run, read and checked."""

    @property
    def name(self) -> str: ...

    def draft(self, request: Request, source: Source, engine: Engine) -> Draft:
        """What to publish and what it promises, from features and public facts alone."""

    def run(self, draft: Draft, source: Source, engine: Engine, randomness: Randomness) -> Drawing:
        """Read the labels once and draw; nothing of the claim can change."""

    def imagine(self, draft: Draft, source: Source, stream: np.random.Generator) -> Imagined | None:
        """Weights and noise of one release as it might be; None where utility is closed form."""

    def read_claim(self, document: dict[str, Any]) -> Claim:
        """The claim of a plan or certificate; KeyError, TypeError or ValueError if not one."""

    def check(self, release: Release) -> Iterator[str]:
        """Where the published numbers contradict the claim."""

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        """Where a table's features contradict the certificate."""
