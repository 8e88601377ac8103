"""Claims that rest on noise alone, and the noise laws of sums.

The amount of noise does not depend on labels, so that the error it adds to the predictions of a
least-squares fit is the same for all labels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from scipy.special import chdtri

from labeldp.accounting.calibrate import largest_cost
from labeldp.accounting.compose import compose
from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.radial import LaplaceProfile, product_quantile, radial_profile
from labeldp.errors import InputError
from labeldp.mechanisms.checks import FAR
from labeldp.mechanisms.forecast import Forecast, Spread
from labeldp.mechanisms.options import AUTO, GAUSSIAN, RADIAL
from labeldp.releases.certificate import GAUSSIANS, AddedError, Claim, FloorOutcome
from labeldp.sampling import rounded_noise

# ---- noise laws of sums

_BUDGET_USED = 1 - 1e-9
"""A budget is used up to this share, so that rounding never breaks it."""
_MOST_RADIAL_COLUMNS = 2000
"""With more columns radial noise has at most some 1 % less variance than Gaussian noise."""


class SumNoise(ABC):
    """A noise law for the aggregates and for Σ(y − c)², and what each costs.

    The cost is the most that labels can move the numbers over the scale of the noise: μ of Gaussian
    noise, and for radial noise the ε from which on δ is 0.
    """

    name: ClassVar[str]
    basis: ClassVar[str]
    """Of the guarantee, in the certificate's words."""
    sampler_description: ClassVar[str]
    single_law: ClassVar[rounded_noise.NoiseLaw]
    """The noise on a single number: that of an aggregate, if there were one column."""
    single_reach: ClassVar[float]
    """Deviations that it exceeds with a chance below 1e-12."""

    @abstractmethod
    def single_cost(self, epsilon: float, delta: float, share: float) -> float:
        """Return what a single number may cost for its share of (ε, δ)."""

    @abstractmethod
    def aggregate_cost(
        self, epsilon: float, delta: float, single_cost: float, columns: int
    ) -> float:
        """Return the most that the aggregates may cost within (ε, δ), beside a single number."""

    @abstractmethod
    def profile(self, aggregates: float, single: float, columns: int) -> PrivacyProfile:
        """Return the guarantee at these costs; a number that is not published costs 0."""

    @abstractmethod
    def std(self, columns: int) -> float:
        """Return the deviation of the noise on each of so many aggregates, at scale 1."""

    @abstractmethod
    def error_quantile(self, directions: float, columns: int, probability: float) -> float:
        """Return a quantile of the squared error of predictions over its mean.

        A weighted sum of χ² is approximated by one χ² with the same mean and variance.
        """

    def needed_std(self, reach: float, cost: float, columns: int) -> float:
        """Return the deviation on each aggregate if all move by at most `reach`; rounded up."""
        return math.nextafter(self.std(columns) * reach / cost, math.inf)

    def needed_single_std(self, reach: float, cost: float) -> float | None:
        """Return the same for a single number; None if it is not published."""
        return self.needed_std(reach, cost, 1) if cost else None


class GaussianNoise(SumNoise):
    """Normal noise on every number; squares of costs add (theory §6, §13)."""

    name = GAUSSIAN
    basis = "Gaussian mechanism"
    sampler_description = GAUSSIANS
    single_law = rounded_noise.NORMAL
    single_reach = FAR

    def single_cost(self, epsilon: float, delta: float, share: float) -> float:
        return largest_mu(epsilon, delta) * _BUDGET_USED * math.sqrt(share)

    def aggregate_cost(
        self,
        epsilon: float,
        delta: float,
        single_cost: float,
        columns: int,  # noqa: ARG002
    ) -> float:
        whole = largest_mu(epsilon, delta) * _BUDGET_USED
        return math.sqrt(max(0.0, whole**2 - single_cost**2))

    def profile(self, aggregates: float, single: float, columns: int) -> PrivacyProfile:  # noqa: ARG002
        return GaussianProfile(math.hypot(aggregates, single))

    def std(self, columns: int) -> float:  # noqa: ARG002
        return 1.0

    def error_quantile(self, directions: float, columns: int, probability: float) -> float:  # noqa: ARG002
        return float(chdtri(directions, 1 - probability)) / directions


class RadialNoise(SumNoise):
    """Radial noise on the aggregates and Laplace noise on a single number.

    With δ = 0 the costs add up to ε. With δ > 0 the aggregates may cost more than ε: their loss
    exceeds it with a small probability only, which the exact δ(ε) of both together tells
    (theory §16).
    """

    name = RADIAL
    basis = "radial noise"
    sampler_description = "exactly rounded radial noise on a public grid"
    single_law = rounded_noise.LAPLACE
    single_reach = 28.0

    def single_cost(self, epsilon: float, delta: float, share: float) -> float:  # noqa: ARG002
        return epsilon * _BUDGET_USED * share

    def aggregate_cost(
        self, epsilon: float, delta: float, single_cost: float, columns: int
    ) -> float:
        pure = epsilon * _BUDGET_USED - single_cost
        if delta == 0 or columns > _MOST_RADIAL_COLUMNS:
            return pure
        return largest_radial_cost(epsilon, delta, single_cost, columns, pure)

    def profile(self, aggregates: float, single: float, columns: int) -> PrivacyProfile:
        noise = radial_profile(aggregates, columns)
        return compose([noise, LaplaceProfile(single)]) if single else noise

    def std(self, columns: int) -> float:
        # A radial vector of scale b in d dimensions has the variance (d+1)·b² in each.
        return math.sqrt(columns + 1)

    def error_quantile(self, directions: float, columns: int, probability: float) -> float:
        # All directions share the radius, which multiplies the χ² by another, of d+1 degrees.
        freedom = columns + 1.0
        return product_quantile(directions, freedom, probability) / (directions * freedom)


NOISE_LAWS: dict[str, SumNoise] = {law.name: law for law in (GaussianNoise(), RadialNoise())}


@lru_cache(maxsize=64)  # every shape that a plan tries asks the same
def largest_radial_cost(
    epsilon: float, delta: float, single_cost: float, columns: int, pure: float
) -> float:
    """Return the largest cost of radial noise within (ε, δ), δ > 0; at least `pure`, as δ = 0."""
    noise = NOISE_LAWS[RADIAL]
    cost = largest_cost(
        lambda cost: noise.profile(cost, single_cost, columns), epsilon, delta, least=pure
    )
    return max(pure, cost * _BUDGET_USED)


def choose_noise(
    asked: str, epsilon: float, delta: float, single_share: float, columns: int
) -> tuple[SumNoise, float, float]:
    """Return the law asked for, or with "auto" the one of least variance (step 4).

    With it come the costs of the aggregates and of a single number beside them.
    """
    offers = []
    for law in [law for law in NOISE_LAWS.values() if asked in (AUTO, law.name)]:
        single = law.single_cost(epsilon, delta, single_share)
        cost = law.aggregate_cost(epsilon, delta, single, columns)
        if cost > 0:
            offers.append((law, cost, single))
    if not offers:
        raise InputError(f"{asked} noise has no guarantee with δ = 0; leave `noise` out")
    return min(offers, key=lambda offer: offer[0].std(columns) / offer[1])


# ---- claims


@dataclass(frozen=True, kw_only=True)
class NoiseClaim(Claim):
    """Noise on published labels, for all labels in their range."""

    @property
    @abstractmethod
    def excess_spread(self) -> Spread:
        """The sum of squares that noise adds to the predictions of all rows."""

    @property
    def excess(self) -> float:
        """The expectation of that sum."""
        return self.excess_spread.mean

    @abstractmethod
    def label_noise_std(self, outcome: FloorOutcome | None) -> float: ...

    def utility(self) -> dict[str, Any]:
        unit = self.rows * self.width**2
        return {
            "relative_to": "the label range: mean square over all rows of what the noise adds to "
            "the predictions of a least-squares fit, over label_width squared",
            **Spread(*(each / unit for each in self.excess_spread)).to_json(),
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:  # noqa: ARG002
        """Return the error in label units; it holds whatever the labels are."""
        mean, low, _, high = (math.sqrt(each / self.rows) for each in self.excess_spread)
        basis = "the noise alone, whatever the labels are"
        return AddedError(mean, low, high, mean / self.width, None, basis)

    def forecast(self, residual_ms: float, residual_source: str) -> Forecast:
        """Return the forecast: what noise adds, whatever the labels are, beside a residual."""
        excess = self.excess_spread.times(1 / (self.rows * residual_ms))
        added_variance = self.label_noise_std(None) ** 2
        return Forecast.of(excess, residual_ms, added_variance, residual_source, exact=True)
