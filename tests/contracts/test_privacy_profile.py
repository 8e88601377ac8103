"""Every law is a curve: δ falls with ε, ε and δ are inverse on the private side, groups cost more,
and what is released together costs at least what its parts do."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numpy as np
import pytest

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.compose import compose
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import (
    GroupPrivacy,
    PrivacyProfile,
    StatedProfile,
    SubsampledProfile,
    inclusion_probability,
)
from labeldp.accounting.radial import LaplaceProfile, RadialProfile, TwoPointProfile
from labeldp.accounting.sketch import (
    DatasetBounds,
    SketchProfile,
)
from labeldp.accounting.weighted_bags import RandomWeightsProfile
from labeldp.errors import InputError
from tests.oracles import gaussian_law, groups
from tests.oracles.pure import PureProfile

TABLE = DatasetBounds(100_000, (-1.0, 1.0), 20, 60 / 100_000)
UNKNOWN = DatasetBounds(100_000, (-1.0, 1.0))
SKETCH = SketchProfile(UNKNOWN, 40, 20_000.0)
BAG = SketchProfile(DatasetBounds(12_000, (0.0, 51.0)), 1, 64.22 * 12_000, disjoint=True)
WEIGHTS = RandomWeightsProfile(500, (-1.0, 1.0), 0.5)

LAWS: dict[str, PrivacyProfile] = {
    "gaussian": GaussianProfile(0.4),
    "pure": PureProfile(0.7),
    "laplace": LaplaceProfile(0.7),
    "two points": TwoPointProfile(0.7),
    "radial": RadialProfile(0.7, 5),
    "sketch": SKETCH,
    "sketch, public features": SketchProfile(TABLE, 5000, 2_000.0),
    "sketch, measured floor": SketchProfile(UNKNOWN, 40, 20_000.0, 0.1, 1e-9),
    "bags": BAG,
    "bags over the draw": SubsampledProfile(BAG, inclusion_probability(10**6, 10, 12_000)),
    "random weights": WEIGHTS,
    "random weights over the draw": SubsampledProfile(WEIGHTS, 0.05),
    "gaussian over the draw": SubsampledProfile(GaussianProfile(0.4), 0.3),
    "steps": GroupPrivacy(WEIGHTS, 2),
    "sketch and gaussian": compose([SKETCH, GaussianProfile(0.2)]),
    "unlike sketches": compose([SKETCH, SketchProfile(TABLE, 2000, 20_000.0)]),
    "sketch and pure": compose([SKETCH, PureProfile(0.2)]),
    "laplace and gaussian": compose([LaplaceProfile(0.3), GaussianProfile(0.2)]),
    "stated and sketch": compose([StatedProfile(0.5, 1e-7), SKETCH]),
}
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)
laws = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


@laws
def test_delta_is_a_bracket_and_falls_with_epsilon(law: PrivacyProfile) -> None:
    found = [law.delta(epsilon) for epsilon in EPSILONS]
    for bounds in found:
        assert 0.0 <= bounds.lower <= bounds.estimate <= bounds.upper
    for before, after in pairwise(found):
        assert after.lower <= before.upper
        assert after.upper <= before.upper * (1 + 1e-8)


@laws
def test_the_guess_is_never_above(law: PrivacyProfile) -> None:
    for epsilon in (0.1, 1.0):
        quick = law.delta(epsilon, certified=False).upper
        assert quick <= law.delta(epsilon).upper * (1 + 1e-12)


@laws
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_epsilon_and_delta_are_inverse_on_the_private_side(
    law: PrivacyProfile, delta: float
) -> None:
    epsilon = epsilon_at(law, delta)
    if epsilon == math.inf:  # growing steps may jump over the ε of single steps: too careful
        assert isinstance(law, GroupPrivacy) or law.delta(100.0).upper > delta
        return
    assert law.delta(epsilon).upper <= delta * (1 + 1e-9)
    if epsilon > 1e-5:
        assert law.delta(epsilon * (1 - 1e-6)).upper > delta * (1 - 1e-9)


PURE = {
    "pure": (PureProfile(0.7), 0.7),
    "laplace": (LaplaceProfile(0.7), 0.7),
    "two points": (TwoPointProfile(0.7), 0.7),
    "radial": (RadialProfile(0.7, 5), 0.7),
    "radial and laplace": (compose([RadialProfile(0.7, 5), LaplaceProfile(0.1)]), 0.8),
    "several": (
        compose([LaplaceProfile(0.3), PureProfile(0.1), LaplaceProfile(0.7), LaplaceProfile(0.2)]),
        1.3,
    ),
    "steps": (GroupPrivacy(LaplaceProfile(0.7), 3), 2.1),
    "a group of several": (compose([LaplaceProfile(0.3), PureProfile(0.1)]).group(3), 1.2),
}


@pytest.mark.parametrize(("law", "epsilon"), PURE.values(), ids=PURE)
def test_without_delta_losses_add_up_to_the_most_there_can_be(
    law: PrivacyProfile, epsilon: float
) -> None:
    found = epsilon_at(law, 0.0)
    assert found == pytest.approx(epsilon, rel=1e-11)
    assert law.delta(found).upper == 0.0
    assert law.delta(found * (1 - 1e-9)).upper > 0.0


@pytest.mark.parametrize(
    "law", [GaussianProfile(0.4), SKETCH, compose([LaplaceProfile(0.3), GaussianProfile(0.2)])]
)
def test_a_loss_without_an_end_has_no_epsilon_without_delta(law: PrivacyProfile) -> None:
    assert epsilon_at(law, 0.0) == math.inf


@laws
def test_groups_cost_at_least_as_much_as_one(law: PrivacyProfile) -> None:
    for epsilon in (0.1, 1.0):
        one, same, three = (each.delta(epsilon) for each in (law, law.group(1), law.group(3)))
        assert same.upper == pytest.approx(one.upper, rel=1e-9, abs=0.0)
        assert same.upper >= one.upper * (1 - 1e-12)
        assert three.upper >= one.upper * (1 - 1e-9)
    with pytest.raises(InputError):
        law.group(0).delta(1.0)


@laws
def test_a_law_says_which_parameters_it_has(law: PrivacyProfile) -> None:
    with pytest.raises(InputError, match="has no parameter 'colour' to solve for"):
        calibrate(law, "colour", 1.0, 1e-6)


LIMITS = [
    (SKETCH, "bags", 1),
    (SKETCH, "floor", -1e-7),
    (BAG, "floor", -1e-7),
    (WEIGHTS, "noise_std", -1e-6),
    (GaussianProfile(1.0), "mu", 1e-8),
]


@pytest.mark.parametrize(("law", "name", "further"), LIMITS)
def test_a_limit_passes_and_what_lies_beyond_does_not(
    law: PrivacyProfile, name: str, further: float
) -> None:
    epsilon, delta = 1.0, 1e-5
    found = calibrate(law, name, epsilon, delta)
    beyond = found + further if abs(further) == 1 else found * (1 + further)
    assert law.with_parameter(name, found).delta(epsilon).upper <= delta * (1 + 1e-9)
    assert law.with_parameter(name, beyond).delta(epsilon).upper > delta * (1 - 1e-9)


# --- groups against twins ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 5])
def test_a_group_of_a_gaussian_moves_it_that_much(size: int) -> None:
    true = float(gaussian_law.delta(0.8, np.array(size * 0.4)))
    assert GaussianProfile(0.4).group(size).delta(0.8).estimate == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_group_of_laplace_noise_is_its_total_variation_by_integration(size: int) -> None:
    """∫ (p(x) − e^ε·q(x))₊ of two Laplace densities that far apart."""
    x, step = np.linspace(-60.0, 60.0, 2_000_001, retstep=True)
    shift, epsilon = 0.7 * size, 0.4
    p, q = (0.5 * np.exp(-np.abs(x - m)) for m in (0.0, shift))
    true = float(np.maximum(0.0, p - math.exp(epsilon) * q).sum() * step)
    law = LaplaceProfile(0.7).group(size)
    assert law.delta(epsilon).estimate == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_group_of_a_pure_release_is_randomised_response(size: int) -> None:
    total, epsilon = 0.7 * size, 0.4
    truth = math.exp(total) / (1 + math.exp(total))
    law = PureProfile(0.7).group(size)
    true = max(0.0, truth - math.exp(epsilon) * (1 - truth))
    assert law.delta(epsilon).estimate == pytest.approx(true, rel=1e-9)
    assert law.delta(total).upper == 0.0


def test_single_steps_are_what_the_points_say() -> None:
    point = (0.4, WEIGHTS.delta(0.4).upper)
    claimed = WEIGHTS.group(3).delta(1.2).upper
    assert groups.group([point], 3, claimed) == pytest.approx(1.2)
    assert groups.group([point], 3, claimed * (1 - 1e-9)) == math.inf


# --- composition ---------------------------------------------------------------------------------

PARTS = (SKETCH, SketchProfile(TABLE, 2000, 20_000.0), GaussianProfile(0.2), PureProfile(0.2))


def test_gaussians_compose_to_the_root_of_the_sum_of_squares() -> None:
    together = compose([GaussianProfile(0.3), GaussianProfile(0.4)])
    assert isinstance(together, GaussianProfile)
    assert together.mu == pytest.approx(0.5, rel=1e-15)
    assert together.mu >= 0.5


def test_two_releases_of_a_budget_cost_less_than_twice_the_epsilon() -> None:
    """Theory §13: two Gaussian-like releases at (1, 1e-6)."""
    mu = calibrate(GaussianProfile(1.0), "mu", 1.0, 1e-6)
    together = compose([GaussianProfile(mu), GaussianProfile(mu)])
    assert epsilon_at(together, 1e-6) == pytest.approx(1.455, abs=5e-4)
    assert epsilon_at(together, 2e-6) == pytest.approx(1.403, abs=5e-4)


def test_order_and_brackets_do_not_matter() -> None:
    first = compose(PARTS).delta(1.0)
    for order in list(permutations(PARTS))[::5]:
        assert compose(order).delta(1.0).estimate == pytest.approx(first.estimate, rel=1e-8)
    a, b, c, d = PARTS
    nested = compose([compose([a, b]), compose([c, compose([d])])])
    assert nested.delta(1.0).estimate == pytest.approx(first.estimate, rel=1e-8)


@pytest.mark.parametrize(
    "other", [PureProfile(0.3), LaplaceProfile(0.3), GaussianProfile(0.3), WEIGHTS, SKETCH]
)
def test_together_never_costs_less_than_a_part(other: PrivacyProfile) -> None:
    for law in (SKETCH, GaussianProfile(0.2), WEIGHTS):
        together = compose([law, other])
        for epsilon in (0.2, 1.0):
            found = together.delta(epsilon)
            assert found.lower <= found.upper
            assert found.upper >= max(law.delta(epsilon).lower, other.delta(epsilon).lower)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_unlike_sketches_are_certified_to_the_digit(epsilon: float) -> None:
    """Boxes are halved until the bound is the value: the first ones are several times too high."""
    facts = DatasetBounds(1000, (-1.0, 1.0), features=5, max_leverage=0.2)
    other = DatasetBounds(1000, (-1.0, 1.0), features=5, max_leverage=0.4)
    found = compose([SketchProfile(facts, 40, 200.0), SketchProfile(other, 20, 300.0)]).delta(
        epsilon
    )
    assert found.estimate <= found.upper <= found.estimate * (1 + 1e-6)


def test_a_sketch_with_a_gaussian_is_the_sketch_over_a_measured_floor() -> None:
    measured = SketchProfile(UNKNOWN, 40, 20_000.0, 0.2, 1e-9)
    apart = compose([SketchProfile(UNKNOWN, 40, 20_000.0, slack=1e-9), GaussianProfile(0.2)])
    assert apart.delta(1.0) == measured.delta(1.0)


def test_sketches_under_one_floor_are_one_with_their_bags_added() -> None:
    together = compose([SKETCH, SketchProfile(UNKNOWN, 25, 20_000.0)])
    assert together.delta(1.0) == SketchProfile(UNKNOWN, 65, 20_000.0).delta(1.0)


def test_pure_releases_are_all_the_coins_together() -> None:
    """Every outcome of three coins, and the sum of (p − e^ε·q)₊."""
    coins, epsilon, true = (0.2, 0.5, 0.7), 0.6, 0.0
    for signs in np.ndindex(2, 2, 2):
        told = [c if s else -c for c, s in zip(coins, signs, strict=True)]
        p, q = (math.prod(1 / (1 + math.exp(-way * x)) for x in told) for way in (1, -1))
        true += max(0.0, p - math.exp(epsilon) * q)
    found = compose([PureProfile(c) for c in coins]).delta(epsilon)
    assert found.lower <= true <= found.upper
    assert found.estimate == pytest.approx(true, rel=1e-9)


def test_a_pure_part_is_conditioned_on() -> None:
    """δ(ε) = Σ p·δ(ε − L) with a Gaussian, by the textbook's formula for both values of L."""
    epsilon, mu, chance = 0.1, 0.5, 1 / (1 + math.exp(-0.3))
    ahead = float(gaussian_law.delta(epsilon - 0.3, np.array(mu)))
    behind = float(gaussian_law.delta(epsilon + 0.3, np.array(mu)))
    found = compose([PureProfile(0.3), GaussianProfile(mu)]).delta(epsilon)
    assert found.estimate == pytest.approx(chance * ahead + (1 - chance) * behind, rel=1e-8)


def test_laplace_noise_with_a_gaussian_is_bounded_closely() -> None:
    """Both losses on a grid of one Laplace draw: the claim is above, by less than 2 %."""
    x, step = np.linspace(-40.0, 40.0, 400_001, retstep=True)
    weight = 0.5 * np.exp(-np.abs(x)) * step
    loss = np.clip(0.5 - 2.0 * x, -0.5, 0.5)
    shifted = np.interp(0.4 - loss, *_gaussian_table(0.3))
    true, found = (
        float(weight @ shifted),
        compose([LaplaceProfile(0.5), GaussianProfile(0.3)]).delta(0.4),
    )
    assert found.lower <= true <= found.upper <= 1.02 * true


def _gaussian_table(mu: float) -> tuple[np.ndarray, np.ndarray]:
    epsilons = np.linspace(-1.2, 1.2, 4001)
    return epsilons, np.array([float(gaussian_law.delta(e, np.array(mu))) for e in epsilons])


def test_unlike_sketches_against_draws() -> None:
    """Worst neighbours of both at once, 400,000 draws: the claim is not below, nor far above."""
    first, second = SketchProfile(UNKNOWN, 30, 9_000.0), SketchProfile(UNKNOWN, 60, 30_000.0)
    generator, total = np.random.default_rng(5), np.zeros(400_000)
    for law in (first, second):
        tau = 2.0 / math.sqrt(law.floor)
        v = 1 - (1 - tau) ** 2
        draws = generator.standard_gamma(law.bags / 2, total.size)
        total += v / (1 - v) * draws + law.bags / 2 * math.log1p(-v)
    gains = np.maximum(0.0, -np.expm1(0.1 - total))
    error = 5 * gains.std() / math.sqrt(gains.size)
    found = compose([first, second]).delta(0.1)
    assert gains.mean() - error <= found.upper
    assert found.lower <= gains.mean() + error
    assert error < 0.05 * gains.mean()


def test_groups_of_what_is_together_are_groups_of_the_parts() -> None:
    together = compose([SKETCH, GaussianProfile(0.1)]).group(2)
    apart = compose([SKETCH.group(2), GaussianProfile(0.2)])
    assert together.delta(2.0) == apart.delta(2.0)


def test_nothing_stays_nothing() -> None:
    assert compose([StatedProfile(math.inf, 0.5), GaussianProfile(0.1)]).delta(3.0).upper == 1.0
    assert epsilon_at(StatedProfile(math.inf, 0.5), 0.1) == math.inf
    with pytest.raises(InputError, match="nothing to compose"):
        compose([])


# --- composition over draws ----------------------------------------------------------------------

DRAWN = (SubsampledProfile(GaussianProfile(0.6), 0.3), SubsampledProfile(GaussianProfile(0.9), 0.1))


def test_independent_draws_are_a_mean_over_who_is_in_a_bag() -> None:
    """Twice the same release and another one, against all eight sets of releases by hand."""
    releases, epsilon, true = (DRAWN[0], *DRAWN), 0.4, 0.0
    for took in np.ndindex(2, 2, 2):
        pairs = list(zip(releases, took, strict=True))
        chance = math.prod(r.chance if t else 1 - r.chance for r, t in pairs)
        mu = math.sqrt(sum(r.curve.mu**2 for r, t in pairs if t))  # type: ignore[attr-defined]
        true += chance * (float(gaussian_law.delta(epsilon, np.array(mu))) if mu else 0.0)
    found = compose(releases).delta(epsilon)
    assert found.lower <= true * (1 + 1e-12) <= found.upper * (1 + 1e-9)
    assert found.upper == pytest.approx(true, rel=1e-8)


def test_a_draw_that_all_releases_share_costs_more_than_independent_ones() -> None:
    """Given the bags first, then the chance: which is what releases of one plan need."""
    given, chance = GaussianProfile(0.6), 0.3
    shared, apart = (
        SubsampledProfile(compose([given, given]), chance),
        compose([SubsampledProfile(given, chance)] * 2),
    )
    assert shared.delta(1.5).upper > apart.delta(1.5).upper


def test_many_draws_are_not_looked_into_and_still_bounded() -> None:
    draws = [SubsampledProfile(GaussianProfile(0.1 + 0.01 * k), 0.1) for k in range(9)]
    some, many = compose(draws[:5]).delta(1.0), compose(draws).delta(1.0)
    assert some.lower <= many.upper < 1.0


def test_laws_without_factors_are_dealt_shares_of_epsilon() -> None:
    """Forty of them at once, and never above equal shares."""
    step = GroupPrivacy(GaussianProfile(0.02), 2)
    found = compose([step] * 40).delta(4.0).upper
    assert found <= 40 * step.delta(0.1).upper * (1 + 1e-9)
    assert found >= step.delta(4.0).lower


def test_fewer_points_of_a_bounded_loss_are_a_bound_and_a_close_one() -> None:
    """Twelve coins have 4,096 outcomes, on far fewer points: against all of them by hand."""
    coins, epsilon = np.linspace(0.1, 0.32, 12), 1.1
    signs = np.array(list(np.ndindex(*[2] * 12))) * 2 - 1
    p = np.prod(1 / (1 + np.exp(-signs * coins)), axis=1)
    loss = signs @ coins
    true = float(p @ np.maximum(0.0, -np.expm1(epsilon - loss)))
    found = compose([PureProfile(float(coin)) for coin in coins]).delta(epsilon)
    assert true <= found.upper <= 1.001 * true
    beside = float(p @ [float(gaussian_law.delta(epsilon - x, np.array(0.2))) for x in loss])
    found = compose([GaussianProfile(0.2), *(PureProfile(float(coin)) for coin in coins)]).delta(
        epsilon
    )
    assert beside <= found.upper <= 1.001 * beside
