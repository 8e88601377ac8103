"""Profiles of sampled-noisy-wtd-LAg: a weighted sum of labels from each of m disjoint bags.

Bags, weights and the set of noisy rows are published and do not depend on the labels. Given
them, the aggregate label of a bag is Gaussian with variance s²·Σw² over its noisy rows, and
changing the label of row i shifts its mean by at most |w_i|Δ: a Gaussian mechanism (theory §4)

    μ_i = |w_i|Δ / (s√(Σ w² over the bag's noisy rows)).

Two laws:

realised   from the weights drawn: `GaussianProfile(max(realised_mu(…)))`: a label is in one bag.
           Weights know nothing of the labels, so a bag may be redrawn until it passes.
a priori   before any draw: `RandomWeightsProfile`, the mean of δ(ε; μ_i) over weights and bags,
           for the worse of a row with noise and a row without.

Both given that the row is in a bag at all (`SubsampledProfile`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labeldp.accounting import random_sensitivity
from labeldp.accounting.bounds import Bounds
from labeldp.accounting.decimals import exact
from labeldp.accounting.limits import (
    LEAST_NOISY_FRACTION,
    MOST_LOG_NOISE,
    MOST_MEAN_EPSILON,
    MOST_NOISY_BAG_SIZE,
)
from labeldp.accounting.privacy_profile import PrivacyProfile, SearchMethod, SearchRange
from labeldp.errors import InputError, at_least, ordered, positive

Reals = npt.NDArray[np.float64]

_ROUNDING = 1e-12  # relative, of a sum of 1e9 squares and a root


@dataclass(frozen=True)
class RandomWeightsProfile(PrivacyProfile):
    """Bags of `bag_size` rows, labels in `label_range`, noise N(0, noise_std²), before any draw.

    noisy_fraction: ρ, the part of the rows whose labels carry noise.
    rows: n, or None for the limit of many rows. It decides the law of the number of noisy rows in
    a bag. Known: ⌊ρn⌋ noisy rows, bags without replacement, hypergeometric. None: every row is
    noisy by its own coin of probability ρ, binomial; also the limit of many rows.
    """

    bag_size: int
    label_range: tuple[float, float]
    noisy_fraction: float
    noise_std: float = 1.0
    rows: int | None = None

    def __post_init__(self) -> None:
        at_least(1, bag_size=self.bag_size)
        ordered(*self.label_range, name="label_range")
        positive(noise_std=self.noise_std, noisy_fraction=self.noisy_fraction)
        if self.noisy_fraction > 1.0:
            raise InputError(f"`noisy_fraction` must be at most 1, not {self.noisy_fraction}")
        if self.bag_size > self._largest_bag:
            raise InputError(
                f"`bag_size` {self.bag_size:,} is above the {self.rows or MOST_NOISY_BAG_SIZE:,} "
                "rows there may be; ask for smaller bags"
            )

    @property
    def width(self) -> float:
        """Δ, the most one label can change."""
        return self.label_range[1] - self.label_range[0]

    @property
    def noisy_rows(self) -> int | None:
        """Return ⌊ρn⌋; None if n is unknown."""
        return None if self.rows is None else math.floor(exact(self.noisy_fraction) * self.rows)

    @property
    def _largest_bag(self) -> int:
        return min(self.rows or MOST_NOISY_BAG_SIZE, MOST_NOISY_BAG_SIZE)

    def delta(self, epsilon: float) -> Bounds:
        at_least(0.0, epsilon=epsilon)
        return max(self.kinds(epsilon), key=lambda bounds: bounds.upper)

    def kinds(self, epsilon: float) -> list[Bounds]:
        """Return δ of a row without noise and of a row with noise, as far as they exist.

        If the other rows are noisy by their own coins, a row without noise is never the better
        off: the others are the same and its own noise is missing.
        """
        scale, others = self.width / self.noise_std, self.bag_size - 1
        if self.rows is None:
            counts = random_sensitivity.binomial(others, self.noisy_fraction)
            return [
                random_sensitivity.mean_delta(scale, epsilon, counts, self.noisy_fraction == 1.0)
            ]
        noisy, population, found = self.noisy_rows or 0, self.rows - 1, []
        if noisy < self.rows:
            counts = random_sensitivity.hypergeometric(others, noisy, population)
            found.append(random_sensitivity.mean_delta(scale, epsilon, counts, False))
        if noisy > 0:
            counts = random_sensitivity.hypergeometric(others, noisy - 1, population)
            found.append(random_sensitivity.mean_delta(scale, epsilon, counts, True))
        return found

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        return SearchRange(0.0, MOST_MEAN_EPSILON, 1.0, method=SearchMethod.DOUBLING)

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:
        if name == "bag_size":
            return self._bag_sizes(epsilon, delta)
        if name == "noise_std":
            return self._deviations()
        if name == "noisy_fraction":
            return self._fractions(epsilon, delta)
        return super().parameter_search(name, epsilon, delta)

    def _bag_sizes(self, epsilon: float, delta: float) -> SearchRange:
        """δ falls with the number of noisy rows in a bag, so every larger bag passes too."""
        cap = self._largest_bag
        return SearchRange(
            1,
            cap,
            min(cap, 2 + round(16.0 / self.noisy_fraction)),
            integer=True,
            error_message=f"no bag of up to {cap:,} rows has epsilon {epsilon}, delta {delta}; "
            "add more noise or make more rows noisy",
        )

    def _deviations(self) -> SearchRange:
        most, width = MOST_LOG_NOISE, self.width
        return SearchRange(
            -most,
            most,
            1.0,
            lambda log_ratio: width * math.exp(log_ratio),
            error_message=f"with probability {{least}} a bag of {self.bag_size:,} rows holds no "
            "noisy row, whatever the noise; make bags larger or more rows noisy",
        )

    def _fractions(self, epsilon: float, delta: float) -> SearchRange:
        """With known rows ρ is searched by counts of rows; else it is any real number."""
        hopeless = (
            f"bags of {self.bag_size:,} rows are not private at epsilon {epsilon}, delta {delta} "
            "even if every row is noisy; make bags larger or add more noise"
        )
        rows = self.rows
        if rows is None:
            least = LEAST_NOISY_FRACTION
            return SearchRange(least, 1.0, 1.0, method=SearchMethod.HALVING, error_message=hopeless)
        return SearchRange(
            1, rows, 2, lambda count: fraction_of(count, rows), integer=True, error_message=hopeless
        )


def realised_mu(
    weights: npt.ArrayLike, noisy: npt.ArrayLike, width: float, noise_std: float
) -> Reals:
    """Return the largest μ_i of every bag, rounded up; inf for a bag without noise.

    `weights` and the mask `noisy` have one row per bag and one column per row in it.
    """
    positive(width=width, noise_std=noise_std)
    w, mask = np.atleast_2d(np.asarray(weights, float)), np.atleast_2d(np.asarray(noisy))
    if w.shape != mask.shape or mask.dtype != np.bool_:
        raise InputError(
            f"noisy must be a mask of the shape of weights, {w.shape}, "
            f"not {mask.dtype} of {mask.shape}"
        )
    if not np.isfinite(w).all():
        raise InputError("weights must be finite numbers; draw them again")
    noise = np.sqrt(np.square(w).sum(axis=1, where=mask))
    largest = np.abs(w).max(axis=1, initial=0.0)
    mu = np.full(len(w), np.inf)
    np.divide(largest, noise, out=mu, where=noise > 0.0)
    return np.asarray(mu * (width / noise_std) * (1.0 + _ROUNDING))


def fraction_of(count: int, rows: int) -> float:
    """Return a number ρ with ⌊ρ·rows⌋ = count."""
    fraction = count / rows
    while math.floor(exact(fraction) * rows) < count:
        fraction = math.nextafter(fraction, 2.0)
    return min(1.0, fraction)
