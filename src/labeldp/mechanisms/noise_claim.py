"""Claims that rest on noise alone, and the noise laws of sums.

The amount of noise does not depend on labels, so that the error it adds to the predictions of a
least-squares fit is the same for all labels.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from scipy.special import chdtri

from labeldp.accounting.compose import compose
from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.radial import LaplaceProfile, product_quantile, radial_profile
from labeldp.errors import InputError
from labeldp.mechanisms.checks import FAR
from labeldp.mechanisms.forecast import Forecast, Spread
from labeldp.mechanisms.options import AUTO, GAUSSIAN, RADIAL
from labeldp.release.certificate import GAUSSIANS, AddedError, Claim, FloorOutcome
from labeldp.sampling import rounded_noise

# ---- noise laws of sums

_BUDGET_USED = 1 - 1e-9
"""A budget is used up to this share, so that rounding never breaks it."""


@dataclass(frozen=True)
class SumNoise:
    """A noise law for the aggregates and the residual's root, and what each costs.

    The cost is μ of Gaussian noise and ε of radial noise.
    """

    name: str
    is_pure: bool
    """Whether it is radial, which spends no δ."""
    power: float
    """The costs of two parts add in this power: μ² add, ε add."""
    basis: str
    """Of the guarantee, in the certificate's words."""
    sampler_description: str
    residual_law: rounded_noise.NoiseLaw
    """The noise on the residual's root: that of an aggregate, if there were one column."""
    residual_reach: float
    """Deviations that it exceeds with a chance below 1e-12."""

    def budget(self, epsilon: float, delta: float) -> float:
        """Return the whole cost that (ε, δ) allows; 0 if there is no such guarantee."""
        return epsilon if self.is_pure else largest_mu(epsilon, delta)

    def split(self, epsilon: float, delta: float, residual_share: float) -> tuple[float, float]:
        """Return what the aggregates and the residual may cost within (ε, δ)."""
        whole, root = self.budget(epsilon, delta) * _BUDGET_USED, 1 / self.power
        return whole * (1 - residual_share) ** root, whole * residual_share**root

    def total_cost(self, aggregates: float, residual: float) -> float:
        """Return what both cost together."""
        return float((aggregates**self.power + residual**self.power) ** (1 / self.power))

    def profile(self, aggregates: float, residual: float, columns: int) -> PrivacyProfile:
        """Return the guarantee at these costs; a residual that is not published costs 0."""
        if not self.is_pure:
            return GaussianProfile(math.hypot(aggregates, residual))
        noise = radial_profile(aggregates, columns)
        return compose([noise, LaplaceProfile(residual)]) if residual else noise

    def std(self, columns: int) -> float:
        """Return the deviation of the noise on each of so many aggregates, at scale 1."""
        # A radial vector of scale b in d dimensions has the variance (d+1)·b² in each.
        return math.sqrt(columns + 1) if self.is_pure else 1.0

    def needed_std(self, reach: float, cost: float, columns: int) -> float:
        """Return the deviation on each aggregate if all move by at most `reach`; rounded up."""
        return math.nextafter(self.std(columns) * reach / cost, math.inf)

    def needed_residual_std(self, reach: float, cost: float) -> float | None:
        """Return the same for the residual's root; None if it is not published."""
        return self.needed_std(reach, cost, 1) if cost else None

    def error_quantile(self, directions: float, columns: int, probability: float) -> float:
        """Return a quantile of the squared error of predictions over its mean.

        A weighted sum of χ² is approximated by one χ² with the same mean and variance. Radial noise
        multiplies it by a χ² of d+1 degrees of freedom, which all directions share.
        """
        if not self.is_pure:
            return float(chdtri(directions, 1 - probability)) / directions
        freedom = columns + 1.0
        return product_quantile(directions, freedom, probability) / (directions * freedom)


NOISE_LAWS = {
    GAUSSIAN: SumNoise(
        name=GAUSSIAN,
        is_pure=False,
        power=2.0,
        basis="Gaussian mechanism",
        sampler_description=GAUSSIANS,
        residual_law=rounded_noise.NORMAL,
        residual_reach=FAR,
    ),
    RADIAL: SumNoise(
        name=RADIAL,
        is_pure=True,
        power=1.0,
        basis="radial noise, with delta = 0,",
        sampler_description="exactly rounded radial noise on a public grid",
        residual_law=rounded_noise.LAPLACE,
        residual_reach=28.0,
    ),
}


def choose_noise(
    asked: str, epsilon: float, delta: float, residual_share: float, columns: int
) -> SumNoise:
    """Return the law asked for, or with "auto" the one of least variance (step 4)."""
    stds = {
        law.name: law.std(columns) / law.split(epsilon, delta, residual_share)[0]
        for law in NOISE_LAWS.values()
        if asked in (AUTO, law.name) and law.budget(epsilon, delta) > 0
    }
    if not stds:
        raise InputError(f"{asked} noise has no guarantee with δ = 0; leave `noise` out")
    return NOISE_LAWS[min(stds, key=lambda name: stds[name])]


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
        added = Spread(*(each / self.rows for each in self.excess_spread))
        return Forecast.of(
            Spread(*(each / residual_ms for each in added)),
            added,
            residual_ms=residual_ms,
            mean_mse=residual_ms + added.mean,
            added_variance=self.label_noise_std(None) ** 2,
            added_exact=True,
            residual_source=residual_source,
        )
