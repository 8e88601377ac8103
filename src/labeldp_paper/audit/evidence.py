"""What simulated releases of a known table say of their law, and of its neighbour's (safety §6)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from labeldp_paper.audit.audit_spec import KnownDataset, NoiseComponent, Observation, Reals

ALARM = 1e-5
"""A smaller p-value of a test is a failure."""
CONFIDENCE = 0.999
"""Of the lower bound of ε."""
_KEPT = 1_000_000
"""Numbers of a part that are held for the test of their shape."""
_FEW = 20
"""Releases whose losses need an exact test: the asymptotic one calls three of them impossible."""
_DIGITS = 9
"""Of a loss: Laplace noise has a few losses again and again, but for rounding."""


@dataclass
class Record:
    """Of one part: sizes, shapes and losses, as releases come."""

    part: NoiseComponent = field(repr=False)
    size: float = 0.0
    freedom: float = 0.0
    numbers: int = 0
    moved: float = 0.0
    """The largest difference of the means, in the law's norm."""
    narrowest: float = math.inf
    """The smallest scale."""
    uniforms: list[Reals] = field(default_factory=list, repr=False)
    ranks: list[Reals] = field(default_factory=list, repr=False)
    losses: list[Reals] = field(default_factory=list, repr=False)
    ideal: list[Reals] = field(default_factory=list, repr=False)

    def add(self, mine: NoiseComponent, theirs: NoiseComponent, rng: np.random.Generator) -> Reals:
        """Note what a part of some releases shows; its losses are returned.

        A number is spread over its cell of the grid, whose width is 2⁻¹⁰ of the scale.
        """
        step = math.ldexp(1.0, mine.grid)
        shown = mine.shown + rng.uniform(-0.5 * step, 0.5 * step, mine.shown.shape)
        noise, law, count = mine.noise_of(shown), mine.law, mine.shown.shape[1]
        sizes, shape = law.size(noise), law.shape(count)
        self.size += float(sizes.sum())
        self.freedom += shape * len(sizes)
        if self.numbers < _KEPT:
            self.uniforms.append(law.uniforms(noise, rng).ravel())
            self.ranks.append(special.gammainc(shape, sizes))
        self.numbers += noise.size
        self.narrowest = min(self.narrowest, float(np.min(mine.scale)))
        self.moved = max(self.moved, mine.apart(theirs))
        ideal = mine.mean + mine.scale * law.draw(rng, (len(noise), count))
        self.ideal.append(loss_of(mine, theirs, ideal))
        self.losses.append(loss_of(mine, theirs, shown))
        return self.losses[-1]

    def p_values(self) -> Iterator[tuple[str, float]]:
        """Of the scale, of single numbers, of whole releases, and of the privacy loss."""
        below = float(special.gammainc(self.freedom, self.size))
        above = float(special.gammaincc(self.freedom, self.size))
        yield "scale", min(1.0, 2 * min(below, above))
        yield "numbers", _uniform(np.concatenate(self.uniforms))
        yield "sizes", _uniform(np.concatenate(self.ranks))
        losses, ideal = np.concatenate(self.losses), np.concatenate(self.ideal)
        yield "loss", _alike(losses, ideal)

    @property
    def notices(self) -> float:
        """The relative error of the scale that would be noticed in 99.9 % of audits."""
        errors = -float(special.ndtri(0.5 * ALARM)) - float(special.ndtri(0.001))
        return errors / (self.part.law.power * math.sqrt(self.freedom))

    @property
    def priced(self) -> bool:
        """Whether neighbours are as near, and noise as wide, as the claim says."""
        part = self.part
        near = part.most is None or self.moved <= part.most * (1 + 1e-9)
        return near and self.narrowest >= part.least


def loss_of(mine: NoiseComponent, theirs: NoiseComponent, shown: Reals) -> Reals:
    """log of the ratio of the densities of every release, of a part given those before it."""
    return np.round(theirs.surprise(shown) - mine.surprise(shown), _DIGITS)


def _uniform(values: Reals) -> float:
    return float(stats.kstest(values, "uniform").pvalue)


def _alike(one: Reals, other: Reals) -> float:
    with warnings.catch_warnings():  # near 1 the exact p-value may fail by rounding, and says so
        warnings.simplefilter("ignore", RuntimeWarning)
        method = "exact" if len(one) <= _FEW else "asymp"
        return float(stats.ks_2samp(one, other, method=method).pvalue)


class Evidence:
    """Of releases of one table, against its neighbour."""

    def __init__(self, mine: KnownDataset, theirs: KnownDataset, rng: np.random.Generator) -> None:
        self.mine, self.theirs, self._rng = mine, theirs, rng
        self.records: dict[str, Record] = {}
        self._losses: list[Reals] = []

    def add(self, shown: Observation) -> None:
        """Note what some releases show."""
        pairs = zip(self.mine.parts(shown), self.theirs.parts(shown), strict=True)
        total: float | Reals = 0.0
        for mine, theirs in pairs:
            record = self.records.setdefault(mine.name, Record(mine))
            total = total + record.add(mine, theirs, self._rng)
        self._losses.append(np.asarray(total))

    @property
    def releases(self) -> int:
        return sum(map(len, self._losses))

    @property
    def numbers(self) -> int:
        return sum(record.numbers for record in self.records.values())

    @property
    def losses(self) -> Reals:
        return np.concatenate(self._losses)


def lower_bound(mine: Reals, theirs: Reals, delta: float, attacks: int) -> float:
    """ε is at least this, as the releases of two tables show, at the level of `CONFIDENCE`.

    `mine` are the losses of releases of the one table, `theirs` the same ratios of releases of the
    other. A release is taken for the first table's if its loss is above a cut, which is chosen by
    the one half of them; the other half bounds how often that is right and wrong (Clopper and
    Pearson), so that hits ≤ e^ε·alarms + δ bounds ε. `attacks` share the level.
    """
    level = (1 - CONFIDENCE) / (2 * attacks)
    half = min(len(mine), len(theirs)) // 2
    cuts = np.unique(np.quantile(mine[:half], np.linspace(0.001, 0.999, 199)))
    found = _bounds(mine[:half], theirs[:half], cuts, delta, level)
    cut = cuts[[int(np.argmax(found))]]
    return float(_bounds(mine[half:], theirs[half:], cut, delta, level)[0])


def _bounds(mine: Reals, theirs: Reals, cuts: Reals, delta: float, level: float) -> Reals:
    hits, alarms = _above(mine, cuts), _above(theirs, cuts)
    least = np.where(hits > 0, stats.beta.ppf(level, hits, len(mine) - hits + 1), 0.0)
    miss = len(theirs) - alarms
    most = np.where(miss > 0, stats.beta.ppf(1 - level, alarms + 1, miss), 1.0)
    return np.log(np.maximum(least - delta, most) / most)


def _above(losses: Reals, cuts: Reals) -> NDArray[np.intp]:
    return len(losses) - np.searchsorted(np.sort(losses), cuts, side="left")
