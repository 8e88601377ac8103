"""sampled-wtd-FLAg: smallest bags to the unit, inverses, and simulated draws of bags."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.privacy_profile import (
    SubsampledProfile,
    inclusion_probability,
)
from labeldp.accounting.sketch import (
    DatasetBounds,
    SketchProfile,
    spans_labels,
)
from labeldp.errors import InputError

CENSUS = ((0.0, 51.0), 64.22)
BAG = DatasetBounds(12_000, (0.0, 51.0))
FLOOR = 64.22 * 12_000


def law(facts, floor, mu=0.0, slack=0.0, group=1, chance=1.0):
    bag = SketchProfile(facts, 1, floor, mu, slack, disjoint=True)
    return SubsampledProfile(bag, chance).group(group)


def delta_of(facts, floor, epsilon, *extra, **more):
    return law(facts, floor, *extra, **more).delta(epsilon)


def epsilon_of(facts, floor, delta, **more):
    return epsilon_at(law(facts, floor, **more), delta)


def min_floor(facts, epsilon, delta, **more):
    return calibrate(law(facts, 1.0, **more), "floor", epsilon, delta)


def min_bag_size(label_range, residual_ms, epsilon, delta, features=None, leverage_factor=None):
    """The fewest rows; no leverage is above so many times the average, features over rows."""

    def is_private(rows):
        leverage = None if leverage_factor is None else min(1.0, leverage_factor * features / rows)
        facts = DatasetBounds(rows, label_range, features, leverage)
        return SketchProfile(facts, 1, residual_ms * rows).delta(epsilon).upper <= delta

    return 1 + bisect_left(range(1, 10**6), True, key=is_private)


def worst_case(bag_size, epsilon):
    """Closed form of the worst neighbour, u = 0 and 1−v = (1−τ)², by incomplete gammas."""
    mp.mp.dps = 60
    half, tau = mp.mpf(1) / 2, 51 / mp.sqrt(mp.mpf("64.22") * bag_size)
    v = 1 - (1 - tau) ** 2
    alpha, z = v / (1 - v), epsilon - mp.log(1 - v) / 2

    def tail(x):
        return mp.gammainc(half, x, mp.inf, regularized=True)

    return tail(z / alpha) - mp.exp(z) * mp.sqrt(1 - v) * tail(z * (1 + alpha) / alpha)


def test_smallest_bag_is_10321_and_10320_is_not_private():
    assert worst_case(10_320, 1) > mp.mpf("1.00015e-5")
    assert worst_case(10_321, 1) < mp.mpf("0.99971e-5")
    assert min_bag_size(*CENSUS, 1.0, 1e-5) == 10_321


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_smallest_bag_against_60_digits(epsilon):
    found = min_bag_size(*CENSUS, epsilon, 1e-5)
    assert worst_case(found, epsilon) <= 1e-5 < worst_case(found - 1, epsilon)


def test_public_features_need_smaller_bags():
    """About 3,900 with a leverage somewhat above three times the average."""
    sizes = [
        min_bag_size(*CENSUS, 1.0, 1e-5, features=40, leverage_factor=factor)
        for factor in (1.0, 3.0, 3.2, 10.0, 1000.0)
    ]
    assert sizes == sorted(sizes)
    assert sizes[1:3] == [3_805, 3_909]
    assert sizes[-1] <= 10_321


def test_larger_bags_stay_private():
    """What the search relies on: δ falls with k although the cosine's bound involves k."""
    for factor in (1.0, 3.0, 100.0):
        deltas = []
        for bag_size in np.unique(np.geomspace(60, 20_000, 14).astype(int)).tolist():
            leverage = min(1.0, factor * 40 / bag_size)
            facts = DatasetBounds(bag_size, (0.0, 51.0), 40, leverage)
            deltas.append(delta_of(facts, 64.22 * bag_size, 1.0).upper)
        assert all(b <= a * (1 + 1e-8) for a, b in pairwise(deltas))


def test_bags_never_fewer_than_the_features():
    assert "71" in spans_labels(64, 71)
    assert spans_labels(72, 71) == ""


def test_given_the_bags_it_is_one_aggregate_of_wtd_flag():
    for extra in ((), (0.05, 1e-9)):
        assert delta_of(BAG, FLOOR, 1.0, *extra) == SketchProfile(BAG, 1, FLOOR, *extra).delta(1.0)


def test_groups_cost_more_and_several_bags_can_cost_more_than_one():
    one, two, three = (delta_of(BAG, FLOOR, 0.5, group=g) for g in (1, 2, 3))
    assert one.upper < two.upper < three.upper
    together = SketchProfile(BAG, 1, FLOOR).group(2).delta(0.5)
    assert two.lower == together.lower <= together.upper < two.upper
    assert two.upper <= 2 * delta_of(BAG, FLOOR, 0.25).upper * (1 + 1e-12)
    epsilon = epsilon_of(BAG, FLOOR, 1e-5, group=2)
    assert delta_of(BAG, FLOOR, epsilon, group=2).upper <= 1e-5
    assert delta_of(BAG, FLOOR, epsilon * 0.999, group=2).upper > 1e-5
    assert epsilon_of(BAG, 60.0**2, 1e-5, group=2) == math.inf  # √2·Δ > σ
    drawn = delta_of(BAG, FLOOR, 0.5, group=3, chance=0.1)
    assert drawn.upper == pytest.approx(0.3 * three.upper)


def test_two_labels_in_two_bags_at_epsilon_zero():
    """Total variation of two independent bags, 200,000 draws: above that of both in one bag."""
    random, sigma = np.random.default_rng(4), math.sqrt(FLOOR)
    ratio = 1.0 - 51.0 / sigma
    z = random.standard_normal((200_000, 2))
    loss = (math.log(ratio) + 0.5 * z**2 * (ratio**-2 - 1.0)).sum(axis=1)
    gains = np.maximum(0.0, -np.expm1(-loss))
    error = 4 * gains.std() / math.sqrt(len(gains))
    spread = delta_of(BAG, FLOOR, 0.0, group=2)
    assert SketchProfile(BAG, 1, FLOOR).group(2).delta(0.0).upper < gains.mean() - error
    assert gains.mean() + error < spread.upper


def test_what_cannot_be_done_says_so():
    with pytest.raises(InputError, match="disjoint bags"):
        inclusion_probability(100, 11, 10)
    with pytest.raises(InputError, match="chance"):
        delta_of(BAG, FLOOR, 1.0, chance=0.0)
    assert epsilon_of(BAG, 50.0**2, 1e-5) == math.inf  # τ > 1
    assert epsilon_of(BAG, 50.0**2, 1e-5, chance=1e-5) == 0.0
    assert min_floor(BAG, 1.0, 1e-5, chance=1e-5) == 0.0
    assert inclusion_probability(100, 10, 10) == 1.0
    assert inclusion_probability(30, 1, 10) > 1 / 3


class Table:
    """60 rows with an intercept and one feature; draws bags and the law of what is released."""

    rows, bags, bag_size, width = 60, 2, 20, 6.0

    def __init__(self):
        random = np.random.default_rng(1)
        feature = random.standard_normal(self.rows)
        self.design = np.column_stack([np.ones(self.rows), feature])
        self.labels = np.clip(feature + 2.0 * random.standard_normal(self.rows), -3, 3)
        self.row = int(np.argmax(np.abs(self.labels)))
        self.other = self.labels.copy()
        self.other[self.row] -= math.copysign(self.width, self.labels[self.row])

    def replicate(self, random, epsilon):
        """(1 − e^{ε−L})₊ of one release in both directions, and the facts of its bags."""
        order = random.permutation(self.rows)
        bags = order[: self.bags * self.bag_size].reshape(self.bags, self.bag_size)
        gains, floor, leverage = np.zeros(2), math.inf, 0.0
        for bag in bags:
            if self.row not in bag:
                continue
            design = self.design[bag]
            tables = [np.column_stack([design, y[bag]]) for y in (self.labels, self.other)]
            q = np.linalg.qr(design)[0]
            leverage = float((q**2).sum(axis=1).max())
            for y in (self.labels[bag], self.other[bag]):
                floor = min(floor, float(np.sum((y - q @ (q.T @ y)) ** 2)))
            weights = random.standard_normal(self.bag_size)
            for way in (0, 1):
                point = weights @ tables[way]
                logs = [_log_density(point, table.T @ table) for table in tables]
                gains[way] = max(0.0, -math.expm1(epsilon - (logs[way] - logs[1 - way])))
        return gains, floor, leverage


def _log_density(point, covariance):
    return -0.5 * (point @ np.linalg.solve(covariance, point) + np.linalg.slogdet(covariance)[1])


def test_simulated_draws_stay_below_the_claim_and_expose_a_wrong_one():
    """Both directions, 6,000 draws of bags and weights, four deviations."""
    table, random, epsilon = Table(), np.random.default_rng(2), 0.2
    found = [table.replicate(random, epsilon) for _ in range(6_000)]
    gains = np.array([g for g, _, _ in found])
    floor, leverage = min(f for _, f, _ in found), max(h for _, _, h in found)
    means, errors = gains.mean(axis=0), 4 * gains.std(axis=0) / math.sqrt(len(gains))
    facts = DatasetBounds(table.bag_size, (-3.0, 3.0), 2, leverage)
    chance = inclusion_probability(table.rows, table.bags, table.bag_size)
    claim = delta_of(facts, floor, epsilon, chance=chance).upper
    assert (means - errors <= claim).all()
    wrong = delta_of(facts, 100 * floor, epsilon, chance=chance).upper
    assert (means - errors > wrong).any()


def test_the_worst_neighbour_attains_the_claim():
    """All of a bag's residual in the changed row: 200,000 draws agree, 10 % off would not."""
    random, rows, bag_size, bags = np.random.default_rng(3), 40, 8, 3
    sigma, width, epsilon = 10.0, 3.0, 0.5
    in_a_bag = random.permuted(np.tile(np.arange(rows), (200_000, 1)), axis=1)[:, : bags * bag_size]
    drawn = (in_a_bag == 0).any(axis=1)
    z, ratio = random.standard_normal(len(drawn)), 1.0 - width / sigma
    loss = math.log(ratio) + 0.5 * z**2 * (ratio**-2 - 1.0)  # N(0, σ²) to N(0, (σ−Δ)²)
    gains = np.where(drawn, np.maximum(0.0, -np.expm1(epsilon - loss)), 0.0)
    mean, error = gains.mean(), 4 * gains.std() / math.sqrt(len(gains))
    chance = inclusion_probability(rows, bags, bag_size)
    facts = DatasetBounds(bag_size, (0.0, width))
    claim = delta_of(facts, sigma**2, epsilon, chance=chance)
    assert claim.lower - error <= mean <= claim.upper + error
    assert error < 0.05 * mean
    larger = replace(facts, label_range=(0.0, 1.1 * width))
    assert mean + error < delta_of(larger, sigma**2, epsilon, chance=chance).lower


def test_a_measurement_that_fails_costs_groups_as_much_as_one_label():
    facts = DatasetBounds(400, (0.0, 1.0), features=3, max_leverage=0.05)
    law = SketchProfile(facts, 1, 400.0, mu=0.05, slack=1e-3, disjoint=True)
    sure = replace(law, slack=0.0)
    for size in (1, 2, 5):
        with_slack, without = (each.group(size).delta(1.0) for each in (law, sure))
        assert with_slack.upper >= without.upper + 1e-3
        assert with_slack.upper == pytest.approx(without.upper + 1e-3, rel=1e-9)
