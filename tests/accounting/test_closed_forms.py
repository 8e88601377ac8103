"""Laws in closed form to their last digits: the margins that are promised, and the edges."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from labeldp.accounting import gaussian
from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import MOST_MU, GaussianProfile
from labeldp.accounting.privacy_profile import (
    LEAST_GROUP_EPSILON,
    MOST_GROUP_EPSILON,
    NO_GUARANTEE,
    Bounds,
    GroupPrivacy,
    LossFactors,
    SearchMethod,
    StatedProfile,
    SubsampledProfile,
    affordable_delta,
    best_true_positive_rate,
    group_delta,
    inclusion_probability,
    most_bags,
    round_up,
)
from labeldp.accounting.radial import LaplaceProfile
from labeldp.accounting.sketch import (
    Measurement,
    added_variance,
    default_measurement,
)
from labeldp.accounting.weighted_bags import RandomWeightsProfile
from labeldp.errors import InputError
from tests.oracles.pure import PureProfile


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(60):
        yield


def gaussian_delta(epsilon, mu):
    e, m = mp.mpf(epsilon), mp.mpf(mu)
    return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


# --- answers -------------------------------------------------------------------------------------


def test_a_slack_is_added_to_all_three_and_the_claim_is_rounded_up():
    found = Bounds(0.1, 0.2, 0.3).plus(0.25)
    assert (found.lower, found.estimate) == (0.35, 0.45)
    assert found.upper == math.nextafter(0.3 + 0.25, 1.0)
    assert Bounds(0.8, 0.85, 0.9).plus(0.5) == Bounds(1.0, 1.0, 1.0)
    same = Bounds(0.1, 0.2, 0.3)
    assert same.plus(0.0) is same


def test_a_chance_scales_all_three_and_the_claim_is_rounded_up():
    found = Bounds(0.1, 0.2, 0.3).times(0.25)
    assert (found.lower, found.estimate) == (0.025, 0.05)
    assert found.upper == math.nextafter(0.3 * 0.25, 1.0)
    same = Bounds(0.1, 0.2, 0.3)
    assert same.times(1.0) is same
    assert round_up(1.0) == 1.0 + 2.0**-52


# --- the Gaussian mechanism ----------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-6, 0.02, 0.49, 0.51, 1.0, 2.5, 9.0])
@pytest.mark.parametrize("place", [-3.0, -1.3, -0.9, -0.4, 0.3, 2.0, 8.0, 30.0])
def test_a_gaussian_is_good_to_twelve_digits_on_every_branch(mu, place):
    epsilon = mu * place + mu * mu / 2
    true = gaussian_delta(epsilon, mu)
    value = gaussian.delta(epsilon, mu)
    if epsilon >= 0.0:
        assert value == pytest.approx(float(true), rel=1e-12 if place < 20 else 2e-12, abs=0.0)
    else:
        assert value == pytest.approx(float(true), rel=1e-9, abs=0.0)
    law = GaussianProfile(mu).delta(epsilon)
    assert law.lower == pytest.approx(value * (1 - 1e-11), rel=1e-12, abs=0.0)
    assert law.estimate == value
    assert law.upper == gaussian.upper(epsilon, mu)
    assert 0.9e-11 < law.upper / value - 1 < 1.1e-11


def test_a_gaussian_at_its_ends():
    assert gaussian.upper(0.5, 0.0) == gaussian.delta(0.5, 0.0) == 0.0
    assert gaussian.delta(-0.5, 0.0) == gaussian.upper(-0.5, 0.0) == -math.expm1(-0.5)
    assert gaussian.upper(0.0, 100.0) == 1.0
    assert gaussian.upper(1.0, 1e-9) == 1e-300
    assert gaussian.delta(1.0, 1e-9) == 0.0
    assert GaussianProfile(1e-9).delta(1.0) == Bounds(0.0, 0.0, 1e-300)
    assert GaussianProfile(0.3).factors() == LossFactors(mu=0.3)
    assert gaussian.delta(1.0, 1e-310) == gaussian.delta(1e-3, 5e-324) == 0.0
    assert GaussianProfile(2 * MOST_MU).mu == 2 * MOST_MU
    for bad in (-1e-9, -1.0, -math.inf, math.inf, math.nan):
        with pytest.raises(InputError, match="mu"):
            GaussianProfile(bad)
    with pytest.raises(InputError, match="mu"):
        gaussian.delta(1.0, -1e-9)
    with pytest.raises(InputError, match="epsilon"):
        calibrate(GaussianProfile(1.0), "mu", -0.1, 0.1)
    with pytest.raises(InputError, match="GaussianProfile has no parameter 'bags' to solve for"):
        GaussianProfile(1.0).parameter_search("bags", 1.0, 0.1)
    with pytest.raises(InputError, match="size"):
        GaussianProfile(1.0).group(0)
    assert GaussianProfile(0.3).group(1) == GaussianProfile(0.3)
    assert GaussianProfile(0.3).group(3).mu == pytest.approx(0.9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.4, 3.0, 150.0])
def test_the_largest_mu_passes_and_is_within_its_last_digits(epsilon):
    for delta in (1e-60, 1e-6, 0.2):
        mu = calibrate(GaussianProfile(1.0), "mu", epsilon, delta)
        assert gaussian_delta(epsilon, mu) <= delta
        assert gaussian_delta(epsilon, mu * (1 + 1e-9)) > delta


@pytest.mark.parametrize(("mu", "delta"), [(1.0, 1e-6), (3.0, 1e-100), (40.0, 0.1), (1e-3, 1e-9)])
def test_the_least_epsilon_passes_and_is_within_its_last_digits(mu, delta):
    epsilon = epsilon_at(GaussianProfile(mu), delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon * (1 - 1e-9), mu) > delta


# --- bounded losses ------------------------------------------------------------------------------


def two_point(epsilon, most):
    """Σ (p − e^ε·q)₊ over the two answers of randomised response."""
    truth = 1 / (1 + mp.exp(-mp.mpf(most)))
    odds = mp.exp(mp.mpf(epsilon))
    return max(mp.mpf(0), truth - odds * (1 - truth)) + max(mp.mpf(0), 1 - truth - odds * truth)


def shifted(epsilon, most):
    """P(x) − e^ε·Q(x) of two Laplace laws that far apart, over the half-line where it is positive.

    The loss |x − a| − |x| is above ε to the left of (a − ε)/2.
    """
    e, a = mp.mpf(epsilon), mp.mpf(most)
    if e >= a:
        return mp.mpf(0)
    place = (a - e) / 2

    def below(x):
        return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2

    return below(place) - mp.exp(e) * below(place - a)


@pytest.mark.parametrize(("law", "twin"), [(PureProfile, two_point), (LaplaceProfile, shifted)])
@pytest.mark.parametrize("most", [1e-7, 0.3, 2.0, 45.0])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.3, 0.9, 0.9999999])
def test_bounded_losses_are_their_definition_with_a_margin_of_1e_14(law, twin, most, part):
    epsilon, found = part * most, law(most).delta(part * most)
    true = twin(epsilon, most)
    if true == 0:
        assert found == Bounds(0.0, 0.0, 0.0)
        return
    if epsilon > 0.99 * most:
        return  # the difference of two doubles is what it is
    assert found.lower <= true <= found.upper
    assert found.lower == pytest.approx(found.estimate * (1 - 1e-14), rel=2e-15, abs=0.0)
    wide = min(1.0, found.estimate * (1 + 1e-14))
    assert found.upper == pytest.approx(wide, rel=2e-15, abs=0.0)
    assert found.upper <= 1.0


@pytest.mark.parametrize("law", [PureProfile, LaplaceProfile])
def test_bounded_losses_end_where_they_end(law):
    assert law(0.7).delta(0.7) == Bounds(0.0, 0.0, 0.0)
    assert law(0.7).delta(0.71) == Bounds(0.0, 0.0, 0.0)
    assert law(0.7).delta(0.7 - 1e-12).lower > 0.0
    assert law(0.7).pure_epsilon() == epsilon_at(law(0.7), 0.0) == 0.7
    assert law(0.7).group(1) == law(0.7)
    assert law(0.7).group(2) == law(1.4)
    where = law(0.7).epsilon_search(0.1)
    assert (where.low, where.high, where.method) == (0.0, 0.7, SearchMethod.SHARP)
    for bad in (0.0, -1.0):
        with pytest.raises(InputError, match="epsilon"):
            law(bad)
    with pytest.raises(InputError, match="epsilon"):
        law(0.7).delta(-0.1)
    with pytest.raises(InputError, match="size"):
        law(0.7).group(0)


@pytest.mark.parametrize("most", [1e-3, 0.3, 2.0])
def test_the_points_of_a_bounded_loss_are_its_law_or_one_above(most):
    """Their sum of (1 − e^{ε−L})₊ is δ for the two-point law, and not below it for cells."""
    for law, tight in ((PureProfile(most), 1e-12), (LaplaceProfile(most), 0.05)):
        values, chances = np.array(law.atoms()).T
        assert chances.sum() == pytest.approx(1.0, rel=1e-14)
        assert values.max() == most
        assert values.min() == -most
        for epsilon in (0.0, 0.5 * most):
            true = law.delta(epsilon).estimate
            got = float(chances @ np.maximum(0.0, -np.expm1(epsilon - values)))
            assert true * (1 - 1e-12) <= got <= true * (1 + tight)
    assert PureProfile(most).factors() == LossFactors(atoms=(PureProfile(most).atoms(),))
    assert LaplaceProfile(most).factors() == LossFactors(atoms=(LaplaceProfile(most).atoms(),))
    assert len(LaplaceProfile(most).atoms()) == 66


# --- curves --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "size"),
    [(0.0, 3), (1e-9, 4), (0.3, 1), (0.3, 5), (100.0, 7), (100.0, 8), (351.0, 2), (699.0, 2)],
)
def test_steps_of_a_group_are_a_geometric_sum(epsilon, size):
    true = 1e-9 * mp.fsum(mp.exp(j * mp.mpf(epsilon)) for j in range(size))
    got = group_delta(epsilon, 1e-9, size)
    assert true <= got * (1 + 1e-15)
    if epsilon:
        assert 0.6e-12 < mp.mpf(got) / true - 1 < 1.4e-12


def test_steps_that_are_too_large_promise_nothing_or_all():
    assert group_delta(701.0, 1e-300, 2) == math.inf
    assert group_delta(701.0, 0.0, 2) == 0.0
    assert group_delta(351.0, 1e-300, 3) == math.inf
    assert group_delta(0.0, 0.25, 2) == 0.5
    assert GroupPrivacy(GaussianProfile(0.1), 2).delta(1500.0) == NO_GUARANTEE
    assert GroupPrivacy(LaplaceProfile(0.1), 2).delta(1500.0) == Bounds(0.0, 0.0, 0.0)


def test_steps_share_epsilon_and_multiply():
    law = GroupPrivacy(GaussianProfile(0.1), 3)
    each = GaussianProfile(0.1).delta(0.6 / 3).upper
    assert law.delta(0.6).upper == group_delta(0.6 / 3, each, 3)
    assert law.delta(0.6).lower == 0.0
    assert law.delta(0.6).estimate == law.delta(0.6).upper
    assert law.group(2) == GroupPrivacy(GaussianProfile(0.1), 6)
    assert GroupPrivacy(LaplaceProfile(0.7), 3).pure_epsilon() == math.nextafter(3 * 0.7, 3.0)
    assert GroupPrivacy(StatedProfile(math.inf, 0.5), 2).delta(1.0) is NO_GUARANTEE
    assert GroupPrivacy(GaussianProfile(0.1)).size == 1
    with pytest.raises(InputError, match="size"):
        GroupPrivacy(GaussianProfile(0.1), 0)
    where = law.epsilon_search(0.1)
    assert (where.low, where.high, where.start, where.method) == (
        LEAST_GROUP_EPSILON,
        MOST_GROUP_EPSILON,
        LEAST_GROUP_EPSILON,
        SearchMethod.STEPS,
    )


def test_steps_are_certified_where_the_group_is():
    bounds = {True: Bounds(0.0, 0.01, 0.02), False: Bounds(0.0, 0.01, 0.01)}
    law = SimpleNamespace(delta=lambda _epsilon, certified: bounds[certified])
    for certified, single in bounds.items():
        found = GroupPrivacy(law, 2).delta(1.0, certified=certified)
        assert found.upper == group_delta(0.5, single.upper, 2)


def test_the_best_attack_is_bounded_from_both_sides():
    """At (ε, δ): e^ε·fpr + δ, and 1 − e^{−ε}(1 − δ − fpr); of several points, the least."""
    assert best_true_positive_rate([(1.0, 0.01)], 0.1) == pytest.approx(0.1 * math.e + 0.01)
    assert best_true_positive_rate([(1.0, 0.01)], 0.5) == pytest.approx(1 - math.exp(-1.0) * 0.49)
    assert best_true_positive_rate([(1.0, 0.9)], 0.5) == 1.0
    assert best_true_positive_rate([(1.0, 0.01)]) == pytest.approx(0.001 * math.e + 0.01)
    assert best_true_positive_rate([(9.0, 0.0), (0.0, 0.3)], 0.1) == pytest.approx(0.4)
    assert best_true_positive_rate([(1e6, 0.0)], 0.1) == 1.0
    for rate in (0.0, 1.0):
        with pytest.raises(InputError, match="false_positive_rate"):
            best_true_positive_rate([(1.0, 0.0)], rate)


# --- draws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "bags", "size"), [(10, 1, 1), (7, 2, 3), (10**9, 3, 7), (3, 1, 1)]
)
def test_the_chance_to_be_in_a_bag_is_rounded_up(rows, bags, size):
    chance, true = Fraction(inclusion_probability(rows, bags, size)), Fraction(bags * size, rows)
    assert true < chance <= true * (1 + Fraction(1, 2**51))


def test_a_table_has_no_more_rows_than_it_has():
    assert inclusion_probability(12, 3, 4) == 1.0
    with pytest.raises(InputError) as refused:
        inclusion_probability(12_000, 3, 4001)
    assert str(refused.value) == (
        "3 disjoint bags of 4,001 rows need 12,003 rows and the table has 12,000; "
        "ask for fewer or smaller bags"
    )
    for rows, bags, size in [(0, 1, 1), (1, 0, 1), (1, 1, 0)]:
        with pytest.raises(InputError):
            inclusion_probability(rows, bags, size)


@pytest.mark.parametrize("delta", [1e-6, 0.003, 0.29])
@pytest.mark.parametrize("chance", [0.3, 0.7, 1 / 3, 0.999])
def test_what_a_bag_may_cost_is_the_most_that_passes(delta, chance):
    most = affordable_delta(delta, chance)
    assert round_up(most * chance) <= delta
    assert round_up(math.nextafter(most, 1.0) * chance) > delta or most == delta / chance
    assert most == pytest.approx(delta / chance, rel=1e-14)


def test_what_a_bag_may_cost_at_the_ends():
    assert affordable_delta(0.1, 1.0) == 0.1
    assert affordable_delta(0.1, 0.1) == 1.0
    assert affordable_delta(0.2, 0.1) == 1.0
    assert affordable_delta(0.1, 0.2) < 0.51


def test_a_draw_multiplies_by_its_chance_and_a_group_by_its_size():
    law = SubsampledProfile(GaussianProfile(0.5), 0.3)
    for answer, given in (
        (law.delta(0.2), GaussianProfile(0.5).delta(0.2)),
        (law.delta(0.2, certified=False), GaussianProfile(0.5).delta(0.2, certified=False)),
    ):
        assert answer == given.times(0.3)
    assert law.group(2) == SubsampledProfile(GaussianProfile(1.0), 0.6)
    assert law.group(4) == SubsampledProfile(GaussianProfile(2.0), 1.0)
    weights = SubsampledProfile(RandomWeightsProfile(500, (-1.0, 1.0), 0.5), 0.3)
    assert weights.group(2) == GroupPrivacy(weights, 2)
    for chance in (0.0, -0.1, 1.0 + 2.0**-52, math.nan):
        with pytest.raises(InputError) as refused:
            SubsampledProfile(GaussianProfile(0.5), chance)
        assert str(refused.value) == f"chance must lie above 0 and not above 1, not {chance}"
    assert SubsampledProfile(GaussianProfile(0.5), 1.0).chance == 1.0


@pytest.mark.parametrize(("rows", "size"), [(1000, 7), (50, 50), (997, 3)])
@pytest.mark.parametrize("delta", [1e-3, 0.04, 0.1, 0.37])
def test_as_many_bags_are_drawn_as_pass_one_by_one(rows, size, delta):
    law = GaussianProfile(0.9)
    passing = [
        bags
        for bags in range(1, rows // size + 1)
        if SubsampledProfile(law, inclusion_probability(rows, bags, size)).delta(0.1).upper <= delta
    ]
    assert most_bags(law, rows, size, 0.1, delta) == max(passing, default=0)


def test_where_rounding_decides_there_is_one_bag_less():
    """½·2/8 = ⅛ exactly, but both the chance and δ are rounded up."""
    half = Bounds(0.5, 0.5, 0.5)
    law = SimpleNamespace(delta=lambda _epsilon: half)
    assert half.times(inclusion_probability(8, 2, 1)).upper > 0.125
    assert most_bags(law, 8, 1, 1.0, 0.125) == 1
    above = SimpleNamespace(delta=lambda _epsilon: Bounds(0.4, 0.4, 0.5))
    assert most_bags(above, 1000, 1, 1.0, 0.3) == 599, "the upper bound counts"


# --- floors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("slack", [1e-12, 1e-6, 0.01, 0.3])
@pytest.mark.parametrize("width", [0.3, 5.0])
def test_a_measured_floor_lies_below_its_bound_by_a_hair(slack, width):
    measured = Measurement(0.7, slack)
    assert Fraction(measured.noise(width)) > Fraction(width) / Fraction(0.7)
    assert measured.noise(width) == pytest.approx(width / 0.7, rel=1e-15)
    quantile = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(slack))
    away = mp.mpf(measured.noise(width)) * quantile
    sigma = float(2 * away)
    short = sigma - away - mp.mpf(0.125) - mp.mpf(measured.lower_bound(sigma, 0.125, width))
    assert 0.6e-12 * away < short < 1.5e-12 * away


def test_a_large_measured_floor_is_rounded_down():
    measured = Measurement(1e9, 0.01)
    got = measured.lower_bound(1.0, 0.0, 1e-9)
    assert 0.5e-15 < 1.0 - got < 1.5e-15
    assert measured.lower_bound(0.0, 0.0, 1.0) == 0.0
    assert Measurement(1.0, 0.01).lower_bound(2.0, 0.0, 1.0) == 0.0
    assert Measurement(1.0, 0.01).lower_bound(2.5, 0.0, 1.0) > 0.0
    assert Measurement(1.0, 0.01).lower_bound(2.5, 0.2, 1.0) == 0.0
    with pytest.raises(InputError, match="grid_half_width"):
        measured.lower_bound(1.0, -0.1, 1.0)
    with pytest.raises(InputError, match="width"):
        measured.lower_bound(1.0, 0.0, 0.0)
    for mu, slack in [(0.0, 0.1), (1.0, 0.0), (1.0, 0.5)]:
        with pytest.raises(InputError):
            Measurement(mu, slack)
    assert Measurement(1.0, 0.499).slack == 0.499


def test_added_noise_reaches_the_floor_by_a_hair():
    generator = np.random.default_rng(3)
    for needed, lower in zip(
        generator.uniform(1.0, 9.0, 300).tolist(),
        generator.uniform(0.0, 1.0, 300).tolist(),
        strict=True,
    ):
        lack = Fraction(needed) - Fraction(lower) ** 2
        added = Fraction(added_variance(needed, lower))
        assert lack < added < lack * (1 + Fraction(1, 2**47))
    assert added_variance(4.0, 2.5) == 0.0
    assert added_variance(4.0, 2.0) > 0.0
    assert added_variance(4.0, 0.0) == math.nextafter(4.0, 5.0)
    with pytest.raises(InputError, match="needed"):
        added_variance(0.0, 1.0)
    with pytest.raises(InputError, match="lower_bound"):
        added_variance(1.0, -0.1)


@pytest.mark.parametrize(("epsilon", "delta", "labels"), [(1.0, 1e-6, 1), (0.3, 1e-4, 4)])
def test_a_tenth_of_the_budget_is_measured_with(epsilon, delta, labels):
    whole = calibrate(GaussianProfile(1.0), "mu", epsilon, delta)
    found = default_measurement(epsilon, delta, labels)
    assert found.mu == pytest.approx(whole / math.sqrt(10 * labels), rel=1e-12)
    assert found.slack == delta / 10
    for bad in [(0.0, 0.1), (1.0, 0.0), (1.0, 1.0), (1.0, 1.5)]:
        with pytest.raises(InputError):
            default_measurement(*bad)
    assert default_measurement(1.0, 1e-6) == default_measurement(1.0, 1e-6, 1)
