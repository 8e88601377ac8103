"""The posterior where noise is radial: normal noise of a size that nobody knows.

Radial noise in k dimensions is χ_{k+1}·N(0, I), so b̃ ~ N(b, uN) with u ~ χ²_{k+1}/(k+1), which is
one more thing to average over. Taken for normal, a large draw would look like a signal that is
beyond doubt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labeldp.learners.shrinkage import Array, Bayes, Posterior

_TRIED, _LEAST, _FARTHEST = 12, 1e-4, 1e-12
"""Sizes, and the chances of smaller and of larger ones."""
_MANY = 200
"""Dimensions in which the size is known to a tenth: such noise is taken for normal."""


@dataclass(frozen=True, eq=False)
class NoiseSizes:
    """One `Bayes` for every size of the noise, and how likely that size is."""

    parts: tuple[Bayes, ...]
    logs: Array

    @classmethod
    def of(cls, dimensions: int | None, sized: Callable[[float], Bayes]) -> NoiseSizes:
        """Of noise that is radial in so many dimensions, or normal."""
        values, logs = _chances(dimensions)
        return cls(tuple(sized(float(value)) for value in values), logs)

    def mean(self, estimate: Array) -> Array:
        """The posterior mean alone."""
        means, likelihoods = zip(*(each.mean(estimate) for each in self.parts), strict=True)
        return np.asarray(self._weights(likelihoods)[0] @ np.array(means))

    def posterior(self, estimate: Array) -> Posterior:
        """With all that is known about it."""
        found = [each.posterior(estimate) for each in self.parts]
        weights, likelihood = self._weights([each.log_likelihood for each in found])
        means = np.array([each.mean for each in found])
        mean = weights @ means
        apart = means - mean
        likeliest = found[int(np.argmax(weights))]
        return Posterior(
            mean=mean,
            covariance=np.tensordot(weights, [each.covariance for each in found], 1)
            + (apart.T * weights) @ apart,
            smoother=np.tensordot(weights, [each.smoother for each in found], 1),
            signal=float(weights @ [each.signal for each in found]),
            prior=likeliest.prior,
            log_likelihood=likelihood,
            kept=float(weights @ [each.kept for each in found]),
            models={
                name: float(weights @ [each.models[name] for each in found])
                for name in likeliest.models
            },
        )

    def _weights(self, likelihoods: Sequence[float]) -> tuple[Array, float]:
        """The probability of every size, and the likelihood that they share."""
        logs = self.logs + np.array(likelihoods)
        parts = np.exp(logs - logs.max())
        return parts / parts.sum(), float(logs.max()) + math.log(parts.sum())


def _chances(dimensions: int | None) -> tuple[Array, Array]:
    """Sizes of the noise, and the logarithms of their chances."""
    if dimensions is None or dimensions > _MANY:
        return np.ones(1), np.zeros(1)
    from scipy.special import gammainccinv, gammaincinv

    half = (dimensions + 1) / 2
    ends = float(gammaincinv(half, _LEAST)), float(gammainccinv(half, _FARTHEST))
    values = np.geomspace(*ends, _TRIED)
    logs = half * np.log(values) - values  # the density of the logarithm, at even steps
    logs -= logs.max()
    return values / half, logs - math.log(np.exp(logs).sum())
