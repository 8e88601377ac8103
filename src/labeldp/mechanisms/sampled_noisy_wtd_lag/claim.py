"""What sampled-noisy-wtd-LAg promises of each bag's noisy weighted sum, and how that is checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.theorems import Theorem3
from labeldp.accounting.weighted_bags import RandomWeightsProfile
from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPError, PlanError
from labeldp.exact.stacked import bags_at_once, stacked_design
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.bags import BAGS, BagRows, Draw, check_bag_rows, check_members
from labeldp.mechanisms.checks import check_grid, check_label_exponent, check_numbers
from labeldp.mechanisms.forecast import relative_excess, sketched_error
from labeldp.mechanisms.noise_checks import check_bag_labels
from labeldp.mechanisms.sampled_noisy_wtd_lag.published import NOISE
from labeldp.mechanisms.sampled_noisy_wtd_lag.weights import (
    BagWeights,
    chosen_rows,
    coins,
    draw_weights,
    label_grid,
)
from labeldp.passes.engine import Engine
from labeldp.release.claim import AddedError, Claim, FloorOutcome, read_head
from labeldp.release.files import Release
from labeldp.release.pending import AGGREGATES, FEATURES

Reals = NDArray[np.float64]

_ROUNDING = 1e-9
BASIS = {
    "exact": "exact law of the Gaussian mechanism with the weights that were drawn (realised); "
    "bags whose mu was above the plan's were drawn again, without looking at labels",
    "exact-worst-case": "exact law of the Gaussian mechanism, averaged over weights and noisy rows "
    "before they are drawn (a priori)",
    "paper": "Theorem 3 of 'Label Differential Privacy via Aggregation' with the constants of its "
    "proof, mended",
}


@dataclass(frozen=True)
class SampledNoisyWtdLagClaim(Claim):
    """Bags of `draw`, noise N(0, noise_std²) on some rows' labels, in label units."""

    mechanism: ClassVar[str] = "sampled-noisy-wtd-lag"

    rank: int
    label_range: tuple[float, float]
    centred: bool
    draw: Draw
    noise_std: float
    noisy_fraction: float | None
    """ρ: every row is noisy by its own coin; None if a column says which are."""
    noisy_column: str | None
    mu: float | None
    """No bag that was drawn has more (over the draw: no draw has); None where the claim does not
    rest on it."""

    def __post_init__(self) -> None:
        if self.accountant != "exact" and not self.draw.random:
            raise InputError(
                "an a priori claim averages over weights drawn at random; leave `bag_seed` out, or "
                "use the accountant exact"
            )
        if self.noisy_fraction is not None and not 0.0 < self.noisy_fraction <= 1.0:
            raise InputError(
                f"the noisy fraction must be above 0 and at most 1, not {self.noisy_fraction:g}"
            )

    @property
    def width(self) -> float:
        """Δ, the most one label can change."""
        return self.label_range[1] - self.label_range[0]

    @property
    def law(self) -> PrivacyProfile:
        """Realised: the shifts of a group add up to at most size·μ, in one bag or in several."""
        if self.accountant == "exact":
            if self.mu is None:
                raise ValueError("a realised claim needs the mu of the weights drawn")
            return self.draw.over(GaussianProfile(self.mu))
        size, fraction = self.draw.bag_size, self.noisy_fraction
        if fraction is None:
            raise ValueError("an a priori claim needs the fraction of noisy rows")
        if self.accountant == "paper":
            return Theorem3(self.label_range, fraction, size, self.bags, self.noise_std)
        return self.draw.over(
            RandomWeightsProfile(size, self.label_range, fraction, self.noise_std)
        )

    def weights(self, source: Source | None) -> BagWeights:
        """The weights and noisy rows that the seed gives; a column of them stands in the table."""
        if self.noisy_column is None:
            noisy = coins(self.draw, self.noisy_fraction or 0.0)
        elif source is not None:
            noisy = chosen_rows(self.draw, source, self.noisy_column)
        else:
            raise PlanError("which rows are noisy stands in the table; give it (`data`)")
        return draw_weights(self.draw, noisy, self.width, self.noise_std, self.mu)

    def utility(self) -> dict[str, Any]:
        return {
            "relative_to": "residual sum of squares per row of the fit with all labels, plus the "
            "noise variance times the fraction of noisy rows; approximate, since bags differ",
            **relative_excess(self.rank, self.bags),
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:  # noqa: ARG002
        """The same for bags of k rows, a part of which carry noise; a column does not say which."""
        if self.noisy_fraction is None:
            return AddedError(added_basis="not known: which rows are noisy stands in a column")
        reach = self.width / 2 if self.centred else max(map(abs, self.label_range))
        return sketched_error(
            self.rank,
            self.bags,
            (0.0, reach**2),
            width=self.width,
            noise_ms=self.noisy_fraction * self.noise_std**2,
            basis="bounds for any residual that the label range allows, and the noise on labels; "
            "approximate, since bags differ",
        )

    def to_json(self) -> dict[str, Any]:
        return {
            **self.head(BASIS[self.accountant]),
            "form": "rows",
            "bag_size": self.draw.bag_size,
            "rows": self.draw.rows,
            "rank": self.rank,
            "label_range": list(self.label_range),
            "label_width": self.width,
            "max_leverage": None,
            "constant_in_span": self.centred,
            "floor": None,
            "inflation": None,
            "draw": {
                **self.draw.to_json(),
                "bag_rank": None,
                "min_eigenvalue": None,
                "feature_bound": None,
                "theorem2_terms": None,
            },
            "noise": {
                "std": self.noise_std,
                "fraction": self.noisy_fraction,
                "column": self.noisy_column,
                "mu": self.mu,
            },
        }


def read_claim(document: dict[str, Any]) -> SampledNoisyWtdLagClaim:
    """The inverse of `to_json`."""
    low, high = document["label_range"]
    noise = document["noise"]
    fraction, mu = noise["fraction"], noise["mu"]
    if (mu is None) == (document["accountant"]["name"] == "exact"):
        raise ValueError("realised accounting and mu go together")
    if (fraction is None) == (noise["column"] is None):
        raise ValueError("noisy rows follow from a fraction or from a column")
    return SampledNoisyWtdLagClaim(
        **read_head(document),
        rank=int(document["rank"]),
        label_range=(float(low), float(high)),
        centred=bool(document["constant_in_span"]),
        draw=Draw.from_json(document),
        noise_std=float(noise["std"]),
        noisy_fraction=None if fraction is None else float(fraction),
        noisy_column=noise["column"],
        mu=None if mu is None else float(mu),
    )


def check(release: Release) -> Iterator[str]:
    """Bags and weights are those of the seed, and their noise is what the claim says."""
    claim, numerics = read_claim(release.certificate), release.certificate["numerics"]
    if claim.centred is not release.features.intercept:
        yield f"{FEATURES} and the certificate differ on whether there is an intercept"
    bags = release.files["bags"]
    problems = list(check_members(bags, claim.draw))
    yield from problems
    if problems:
        return
    weights = BagWeights.from_table(bags, claim.draw)
    if not np.isfinite(weights.values).all() or bags.column("noisy").null_count:
        yield f"{BAGS} has gaps, or weights that are not numbers"
        return
    if claim.mu is not None:
        mu = weights.largest_mu(claim.width, claim.noise_std)
        if not mu <= claim.mu * (1 + _ROUNDING):
            yield f"{BAGS}: some bag has μ = {mu:.6g}, the certificate says {claim.mu:.6g}"
    if claim.noisy_column is None:
        yield from _planned(claim, weights, None)
    noise = weights.noise(claim.noise_std)
    shown = release.noise
    if len(shown) != len(noise) or not np.allclose(shown, noise, rtol=_ROUNDING, atol=0.0):
        yield f"{AGGREGATES}: {NOISE} is not the noise of the bags"
        return
    centred, exponent = release.features.intercept, numerics["label_exponent"]
    yield from check_label_exponent(claim.label_range, centred, exponent)
    unsound = list(check_numbers(release))
    yield from unsound or check_grid(release, label_grid(noise))
    if not unsound:
        total = weights.values.sum(axis=1)[:, None]  # the design of a constant label
        yield from _check_labels(release, claim, weights, total)


def _check_labels(
    release: Release, claim: SampledNoisyWtdLagClaim, weights: BagWeights, design: Reals
) -> Iterator[str]:
    """Whether labels vary about their fit to public columns of the bags as their noise does."""
    noise, (low, high) = weights.noise(claim.noise_std), claim.label_range
    ends = np.sort([weights.values * low, weights.values * high], axis=0).sum(axis=2)
    rounding = _ROUNDING * np.abs(ends).max(axis=0)
    ends += np.array([-rounding, rounding])
    for problem in check_bag_labels(
        release.labels, noise, label_grid(noise), (ends[0], ends[1]), design
    ):
        yield f"{AGGREGATES} has {problem}"


def untested(release: Release) -> Iterator[str]:  # noqa: ARG001
    """What `check` cannot see."""
    yield (
        "whether labels of bags carry all of their noise: labels that vary widely within bags "
        "can take its place"
    )


def _planned(
    claim: SampledNoisyWtdLagClaim, weights: BagWeights, source: Source | None
) -> Iterator[str]:
    """Whether weights and noisy rows follow from the seed: they could carry labels otherwise."""
    try:
        expected = claim.weights(source)
    except LabelDPError as problem:
        yield f"{BAGS}: with these noisy rows the draw cannot be repeated: {problem}"
        return
    if not np.array_equal(weights.noisy, expected.noisy):
        yield f"{BAGS} does not mark the noisy rows that the plan chose"
    elif not np.allclose(weights.values, expected.values, rtol=_ROUNDING, atol=_ROUNDING):
        yield f"{BAGS} does not hold the weights that the certificate's seed gives"


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether the bags' rows have the features of the release, and the noisy ones are right."""
    claim = read_claim(release.certificate)
    rows = BagRows(release.features, claim.draw)
    problems = list(check_bag_rows(rows, release, source, engine))
    if problems:
        yield from problems
        return
    weights = BagWeights.from_table(release.files["bags"], claim.draw)
    if claim.noisy_column is not None:
        yield from _planned(claim, weights, source)
    yield from _check_labels(release, claim, weights, _weighted(rows, release.features, weights))


def _weighted(rows: BagRows, features: FeatureMap, weights: BagWeights) -> Reals:
    """Σ w·x of every bag, in integer design columns."""
    sums = np.zeros((len(weights.values), len(features.names)))
    for numbers, encoded in rows.blocks(bags_at_once(features, weights.values.shape[1])):
        design = stacked_design(features, encoded, numbers.stop - numbers.start)
        sums[numbers] = np.einsum("br,brc->bc", weights.values[numbers], design)
    return sums
