"""Bags have the law that the accountant prices, in both directions.

Everything expected is computed with numpy from raw rows: β̂_j and σ_j of every bag, weights and
deviations. Seeds are fixed; p > 1e-4 accepts. A deviation 5 % off is rejected (p < 1e-4) by the
χ² tests with 10,000 draws or more; tests with fewer draws reject the larger error they name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from labeldp import Plan, Release, scan
from labeldp.accounting import gaussian
from labeldp.accounting.neighbors import roots
from labeldp.data.source import Source
from labeldp.exact.label_sums import ExactLeastSquares, LabelCrossProducts
from labeldp.mechanisms.bags import BagRows
from labeldp.mechanisms.residual_floor import AggregateLabelSampler
from labeldp.mechanisms.sampled_noisy_wtd_lag import draw_weights, noisy_by_coins
from labeldp.mechanisms.sampled_wtd_flag import bag_factor
from labeldp.passes.engine import LocalEngine
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import NOISY, SAMPLED
from tests.oracles.quadrature import delta_by_quadrature
from tests.plans import plan
from tests.tables import RANGE

Reals = NDArray[np.float64]
DRAWS = 20_000
WRONG = 1.05


def rows_of(count: int, seed: int = 0) -> pa.Table:
    """A number and a category; labels at either end, so that every bag has a large residual."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "x": np.round(rng.normal(size=count), 2),
            "side": rng.choice(["left", "right"], count),
            "label": rng.choice([0.0, 0.5, 9.5, 10.0], count),
        }
    )


def source_of(data: pa.Table) -> Source:
    return scan(data, label="label", label_range=RANGE)


# --- sampled-wtd-FLAg: one bag, many draws -------------------------------------------------


@dataclass(frozen=True)
class Bag:
    """A bag's rows and labels, with its exact β̂ and σ by numpy."""

    design: Reals
    labels: Reals
    added: float

    @property
    def beta(self) -> Reals:
        return np.linalg.lstsq(self.design, self.labels, rcond=None)[0]

    @property
    def std(self) -> float:
        residual = self.labels - self.design @ self.beta
        return math.sqrt(float(residual @ residual) + self.added)

    def log_density(self, design: Reals, labels: Reals) -> Reals:
        return stats.norm.logpdf(labels, design @ self.beta, self.std)

    def roots(self, row: int, step: float) -> tuple[float, float]:
        """u and v for the neighbour whose label of `row` is larger by `step` (theory 3b)."""
        residual = self.labels - self.design @ self.beta
        hat = self.design @ np.linalg.pinv(self.design)
        cosine = math.copysign(1.0, step) * residual[row] / self.std
        u, v = roots(abs(step) / self.std, cosine, min(1.0, hat[row, row]))
        return float(u), float(v)

    def delta(self, row: int, step: float, epsilon: float) -> float:
        """δ(ε) of this very pair of neighbours, the worse direction."""
        u, v = self.roots(row, step)
        return max(
            delta_by_quadrature(1, v / (1 - v), u / (1 + u), epsilon),
            delta_by_quadrature(1, u, v, epsilon),
        )


class Sampler:
    """The first bag of a plan, drawn as a release draws it, many times over."""

    def __init__(self, made: Plan, data: pa.Table, added: float) -> None:
        self._features, self._labels = made.features, made.labels
        claim: Any = made.claim
        rows = BagRows(made.features, claim.draw).read(source_of(data), LocalEngine(1))
        self._bag = rows.bag(0)
        values = data["label"].to_numpy()[claim.draw.members[0]]
        sums = LabelCrossProducts(made.features, made.labels)
        sums.add(self._bag, values)
        factor = bag_factor(made.features, self._bag)
        self._law = AggregateLabelSampler(
            ExactLeastSquares(factor, sums.result()), made.labels, added, True
        )
        self._scales = made.features.kept_scales
        self.truth = Bag(made.features.design(data)[claim.draw.members[0]], values, added)

    def draw(self, count: int, seed: int) -> tuple[Reals, Reals]:
        randomness = Randomness.experiment(seed)
        weights = randomness.features.standard_normal((count, self._bag.rows))
        total = weights @ self._features.integers(self._bag)
        mean, error = self._law.means(total)
        grid = rounded_noise.grid_for(self.truth.std) - self._labels.exponent
        codes = rounded_noise.sample_rounded(
            mean, error, self._law.std, grid, randomness, self._law.exact_at(total)
        )
        return total * self._scales, np.ldexp(codes, self._labels.exponent)


@pytest.fixture(scope="module")
def neighbours() -> Callable[[float], tuple[Sampler, Sampler, int]]:
    data = rows_of(200)
    made = plan(
        source_of(data),
        epsilon=4,
        delta=1e-2,
        mechanism=SAMPLED,
        bags=1,
        bag_size=20,
        floor="added",
        bag_seed=2,
    )
    claim: Any = made.claim
    row = int(claim.draw.members[0, 4])
    labels = data["label"].to_numpy().copy()
    labels[row] = 10.0 - labels[row]
    other = data.set_column(2, "label", pa.array(labels))
    return lambda added: (Sampler(made, data, added), Sampler(made, other, added), 4)


@pytest.mark.parametrize("added", [0.0, 50.0])
@pytest.mark.parametrize("backward", [False, True])
def test_privacy_losses_of_a_bag_have_the_exact_law(
    neighbours: Callable[[float], tuple[Sampler, Sampler, int]], added: float, backward: bool
) -> None:
    first, second, row = neighbours(added)
    if backward:
        first, second = second, first
    base, other = first.truth, second.truth
    step = float(other.labels[row] - base.labels[row])
    u, v = base.roots(row, step)
    design, labels = first.draw(DRAWS, seed=1)
    mean = design @ base.beta

    def losses(mistake: float) -> Reals:
        drawn = mean + mistake * (labels - mean)
        return base.log_density(design, drawn) - other.log_density(design, drawn)

    g1, g2 = np.random.default_rng(9).gamma(0.5, size=(2, 400_000))
    kappa = 0.5 * (math.log1p(u) + math.log1p(-v))
    expected = kappa + v / (1 - v) * g1 - u / (1 + u) * g2
    assert stats.ks_2samp(losses(1.0), expected).pvalue > 1e-4
    assert stats.ks_2samp(losses(1.2), expected).pvalue < 1e-4
    for epsilon in (0.0, 0.25, 0.5, 1.0):
        exact = delta_by_quadrature(1, v / (1 - v), u / (1 + u), epsilon)
        seen = np.maximum(0.0, -np.expm1(epsilon - losses(1.0)))
        assert abs(seen.mean() - exact) < 4 * seen.std() / math.sqrt(DRAWS) + 1e-4


@pytest.mark.parametrize("added", [0.0, 50.0])
def test_a_bag_has_its_label_law_and_not_one_5_percent_off(
    neighbours: Callable[[float], tuple[Sampler, Sampler, int]], added: float
) -> None:
    sampler, _, _ = neighbours(added)
    truth = sampler.truth
    design, labels = sampler.draw(DRAWS, seed=3)
    z = (labels - design @ truth.beta) / truth.std
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert two_sided(z, DRAWS) > 1e-4
    assert two_sided(WRONG * z, DRAWS) < 1e-4
    assert two_sided(z / WRONG, DRAWS) < 1e-4
    distance = mahalanobis(design, truth.design)
    columns = design.shape[1]
    assert stats.kstest(distance, "chi2", (columns,)).pvalue > 1e-4
    assert two_sided(np.sqrt(distance), DRAWS * columns) > 1e-4
    assert two_sided(WRONG * np.sqrt(distance), DRAWS * columns) < 1e-4
    assert abs(np.corrcoef(z, design[:, 1])[0, 1]) < 4 / math.sqrt(DRAWS)


def two_sided(z: Reals, freedom: int) -> float:
    """The p-value of Σz² under χ²."""
    below = stats.chi2.cdf(float(z @ z), freedom)
    return 2 * min(below, 1 - below)


def mahalanobis(design: Reals, rows: Reals) -> Reals:
    return np.einsum("ij,jk,ik->i", design, np.linalg.inv(rows.T @ rows), design)


# --- sampled-wtd-FLAg: whole releases ------------------------------------------------------

FLOORS: dict[str, dict[str, Any]] = {
    "declared": {"floor": "declared", "residual_ms": 12.0},
    "added": {"floor": "added"},
    "measured+added": {"epsilon": 2.0, "delta": 1e-4},
}


def released_bags(count: int, floor: str) -> tuple[Plan, Release, list[Bag]]:
    data = rows_of(100 * count + 7, seed=1)
    given = {"epsilon": 10.0, "delta": 0.05, **FLOORS[floor]}
    made = plan(source_of(data), mechanism=SAMPLED, bags=count, bag_size=100, bag_seed=4, **given)
    release = made.release(source_of(data), randomness=Randomness.experiment(8))
    design, labels = release.features.design(data), data["label"].to_numpy()
    claim: Any = made.claim
    added = release.certificate["floor"]["added_variance"]
    bags = [Bag(design[rows], labels[rows], added) for rows in claim.draw.members]
    return made, release, bags


def check_release(release: Release, bags: list[Bag], wrong: float) -> None:
    assert release.bag_table is not None
    pairs = zip(release.design, release.labels, bags, strict=True)
    z = np.array([(t - line @ bag.beta) / bag.std for line, t, bag in pairs])
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert two_sided(z, len(z)) > 1e-4
    assert two_sided(wrong * z, len(z)) < 1e-4
    distance = np.array(
        [
            mahalanobis(line[None], bag.design)[0]
            for line, bag in zip(release.design, bags, strict=True)
        ]
    )
    columns = release.design.shape[1]
    assert stats.kstest(distance, "chi2", (columns,)).pvalue > 1e-4
    assert two_sided(np.sqrt(distance), columns * len(bags)) > 1e-4
    assert two_sided(wrong * np.sqrt(distance), columns * len(bags)) < 1e-4


@pytest.mark.parametrize("floor", FLOORS)
def test_every_bag_of_a_release_has_its_own_law(floor: str) -> None:
    """60 bags show a deviation that is off by half; the slow test below one that is 5 % off."""
    _, release, bags = released_bags(60, floor)
    outcome = release.certificate["floor"]
    assert outcome["mode"] == floor
    assert (outcome["added_variance"] > 0) == ("added" in floor)
    smallest = min(bag.std**2 - bag.added for bag in bags) ** 0.5
    if outcome["measured"] is not None:
        noise = outcome["measurement_noise"]
        assert abs(outcome["measured"] - smallest) < 4.5 * noise
    check_release(release, bags, wrong=1.6)


@pytest.mark.slow
def test_a_large_release_shows_a_deviation_5_percent_off() -> None:
    _, release, bags = released_bags(6000, "added")
    check_release(release, bags, WRONG)


@pytest.mark.parametrize("floor", ["declared", "added"])
def test_no_neighbour_costs_more_than_is_claimed(
    floor: str, record_property: Callable[[str, object], None]
) -> None:
    """150 random pairs (any row of any bag, its label to either end) by the exact pair law."""
    made, _, bags = released_bags(20, floor)
    claim: Any = made.claim
    rng = np.random.default_rng(5)
    if floor == "added":  # labels that leave no residual: the noise is all there is
        flat = [Bag(bag.design, np.full(100, end), bag.added) for bag in bags for end in RANGE]
        bags = [*bags, *flat]
    ratios = []
    for _ in range(150):
        bag, row = bags[rng.integers(len(bags))], int(rng.integers(100))
        step = RANGE[int(rng.integers(2))] - bag.labels[row]
        if step == 0.0:
            continue
        epsilon = float(rng.choice([0.5, 1.0, 1.5]) * claim.epsilon)
        true, claimed = bag.delta(row, step, epsilon), claim.delta_at(epsilon)
        assert true <= claimed
        ratios.append(true / claimed)
    record_property("largest share of the claim", max(ratios))
    assert len(ratios) > 60


def test_the_claim_is_nearly_attained_by_some_labels(
    record_property: Callable[[str, object], None],
) -> None:
    """Labels at the ends of the range, chosen to give a row its largest residual, over a floor
    that is just reached: a good part of the claimed δ, and never more."""
    data = rows_of(200, seed=3)
    made = plan(
        source_of(data), epsilon=4, delta=1e-2, mechanism=SAMPLED, bags=4, bag_size=20,
        floor="added", bag_seed=0,
    )  # fmt: skip
    claim: Any = made.claim
    design, best = made.features.design(data), 0.0
    for rows in claim.draw.members:
        part = design[rows]
        rest = np.eye(20) - part @ np.linalg.pinv(part)
        for row in range(20):
            for end in (1.0, -1.0):
                labels = 5.0 + 5.0 * end * np.where(rest[row] >= 0, 1.0, -1.0)
                missing = claim.floor - Bag(part, labels, 0.0).std ** 2
                bag = Bag(part, labels, max(0.0, missing))
                best = max(best, bag.delta(row, -10.0 * end, claim.epsilon))
    record_property("share of the claim", best / claim.delta)
    assert 0.1 * claim.delta < best <= claim.delta_at(claim.epsilon) * (1 + 1e-6)


# --- sampled-noisy-wtd-LAg -----------------------------------------------------------------


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_noisy_sums_have_the_gaussian_law(fraction: float) -> None:
    """Labels and privacy losses in both directions, 2,000 bags at once."""
    data = rows_of(40_000)
    given = {"epsilon": 1.0, "delta": 1e-5, "bags": 2000, "bag_size": 20, "bag_seed": 1}
    made = plan(source_of(data), mechanism=NOISY, noisy_fraction=fraction, **given)
    claim: Any = made.claim
    release = made.release(source_of(data), randomness=Randomness.experiment(2))
    assert release.bag_table is not None
    shape = (2000, 20)
    row, weight, noisy = (
        release.bag_table.column(name).to_numpy(zero_copy_only=False).reshape(shape)
        for name in ("row", "weight", "noisy")
    )
    assert abs(noisy.mean() - fraction) < 0.02
    labels = data["label"].to_numpy()
    std = claim.noise_std * np.sqrt((weight**2 * noisy).sum(axis=1))
    assert np.allclose(release.noise, std, rtol=1e-12)
    z = (release.labels - (weight * labels[row]).sum(axis=1)) / std
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert two_sided(z, 2000) > 1e-4
    assert two_sided(1.1 * z, 2000) < 1e-4
    mu = np.abs(weight).max(axis=1) * 10.0 / std
    assert mu.max() <= claim.mu * (1 + 1e-9)
    assert mu.max() >= claim.mu * (1 - 1e-6)
    for sign in (1.0, -1.0):  # the neighbour's mean is sign·μ deviations away
        losses = stats.norm.logpdf(z) - stats.norm.logpdf(z - sign * mu)
        assert stats.kstest((losses - mu**2 / 2) / mu, "norm").pvalue > 1e-4
        for epsilon in (0.0, 0.25, 0.5):
            seen = np.maximum(0.0, -np.expm1(epsilon - losses))
            exact = np.mean([gaussian.delta(epsilon, m) for m in mu])
            assert abs(seen.mean() - exact) < 4 * seen.std() / math.sqrt(2000) + 1e-6


def test_noisy_sums_reject_5_percent() -> None:
    data = rows_of(40_000)
    given = {"epsilon": 1.0, "delta": 1e-5, "bags": 10_000, "bag_size": 4, "bag_seed": 1}
    made = plan(source_of(data), mechanism=NOISY, **given)
    release = made.release(source_of(data), randomness=Randomness.experiment(2))
    assert release.bag_table is not None
    row, weight = (
        release.bag_table.column(name).to_numpy().reshape(-1, 4) for name in ("row", "weight")
    )
    mean = (weight * data["label"].to_numpy()[row]).sum(axis=1)
    z = (release.labels - mean) / release.noise
    assert two_sided(z, 10_000) > 1e-4
    assert two_sided(WRONG * z, 10_000) < 1e-4
    assert two_sided(z / WRONG, 10_000) < 1e-4


def test_no_neighbour_of_noisy_sums_costs_more_than_is_claimed() -> None:
    """Every row of every bag, to the other end of the range: the dearest attains the claim."""
    data = rows_of(2000)
    given = {"epsilon": 1.0, "delta": 1e-5, "bags": 40, "bag_size": 20, "noisy_fraction": 0.7}
    claim: Any = plan(source_of(data), mechanism=NOISY, **given).claim
    weights = draw_weights(
        claim.draw, noisy_by_coins(claim.draw, 0.7), claim.width, claim.noise_std, claim.mu
    )
    deviation = claim.noise_std * np.sqrt((weights.values**2 * weights.noisy).sum(axis=1))
    mu = np.abs(weights.values) * 10.0 / deviation[:, None]
    true = np.array([gaussian.delta(1.0, m) for m in mu.reshape(-1)])
    assert true.max() <= claim.delta_at(1.0) <= 1e-5
    assert true.max() > 0.99 * claim.delta_at(1.0)


@pytest.mark.parametrize("fraction", [1.0, 0.4])
def test_the_a_priori_claim_is_the_mean_over_weights_and_coins(fraction: float) -> None:
    """A row without noise (with, if all have it) in a million bags; δ is heavy-tailed."""
    data = rows_of(2000)
    given = {"epsilon": 1.0, "delta": 1e-3, "bags": 40, "bag_size": 32}
    made = plan(
        source_of(data),
        mechanism=NOISY,
        accountant="exact-worst-case",
        noisy_fraction=fraction,
        **given,
    )
    claim: Any = made.claim
    assert claim.mu is None
    rng = np.random.default_rng(3)
    own = rng.normal(size=1_000_000)
    others = rng.binomial(31, fraction, size=own.size)
    square = rng.chisquare(np.maximum(others, 1)) + own**2 * (fraction == 1.0)
    mu = np.abs(own) * 10.0 / (claim.noise_std * np.sqrt(square))
    true = stats.norm.cdf(mu / 2 - 1 / mu) - math.e * stats.norm.cdf(-mu / 2 - 1 / mu)
    true[others == 0] = 1.0
    error = true.std() / math.sqrt(len(true))
    assert abs(true.mean() - claim.delta_at(1.0)) < 4.5 * error
    assert 4.5 * error < 0.06 * claim.delta_at(1.0)
    assert claim.delta_at(1.0) <= 1e-3
