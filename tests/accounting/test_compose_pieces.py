"""What composition is made of: sets of releases, shares of ε, points of a loss, boxes."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from labeldp.accounting import contour, gaussian, neighbors
from labeldp.accounting.compose import ComposedProfile, compose, gaussian_mu
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.neighbors import NeighborFamily
from labeldp.accounting.privacy_profile import (
    Bounds,
    GroupPrivacy,
    LossFactors,
    StatedProfile,
    SubsampledProfile,
)
from labeldp.accounting.radial import LaplaceProfile
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from labeldp.errors import InputError
from tests.oracles.pure import PureProfile

inner = importlib.import_module("labeldp.accounting.compose")

SOME = DatasetBounds(100, (0.0, 1.0), 4, 0.1)
STATED = StatedProfile(0.5, 1e-7)


def test_gaussians_become_one_that_is_rounded_up():
    found = compose([GaussianProfile(0.3), GaussianProfile(0.4), GaussianProfile(1.2)])
    assert isinstance(found, GaussianProfile)
    assert found.mu == math.nextafter(math.sqrt(math.fsum([0.3**2, 0.4**2, 1.2**2])), 2.0)
    assert compose([GaussianProfile(0.3)]) == GaussianProfile(0.3)
    assert isinstance(compose([GaussianProfile(0.3), PureProfile(0.1)]), ComposedProfile)
    nested = compose([compose([GaussianProfile(0.3), PureProfile(0.1)]), PureProfile(0.2)])
    assert nested == ComposedProfile((GaussianProfile(0.3), PureProfile(0.1), PureProfile(0.2)))
    assert gaussian_mu(GaussianProfile(0.3)) == 0.3
    for other in (
        PureProfile(0.1),
        SketchProfile(SOME, 3, 50.0),
        STATED,
    ):
        assert gaussian_mu(other) is None
    with pytest.raises(InputError) as refused:
        compose([])
    assert str(refused.value) == "there is nothing to compose: give at least one privacy profile"


def test_losses_that_end_end_together_by_a_hair_later():
    found = compose([PureProfile(0.3), LaplaceProfile(0.5)])
    assert 0.5e-12 < found.pure_epsilon() / 0.8 - 1 < 1.5e-12
    assert compose([PureProfile(0.3), GaussianProfile(0.1)]).pure_epsilon() == math.inf
    assert found.group(2) == ComposedProfile((PureProfile(0.6), LaplaceProfile(1.0)))


@pytest.mark.parametrize("times", [1, 2, 5])
def test_of_equal_releases_the_number_that_took_the_label_is_binomial(times):
    chances = stats.binom.pmf(np.arange(times + 1), times, 0.3)
    drawn = SubsampledProfile(GaussianProfile(0.6), 0.3)
    found = ComposedProfile((drawn,) * times).delta(0.2)
    several = [gaussian.delta(0.2, 0.6 * math.sqrt(k)) for k in range(times + 1)]
    assert found.estimate == pytest.approx(chances @ several, rel=1e-12)


def test_a_mean_over_draws_has_a_margin_of_1e_12():
    six, nine, epsilon = SketchProfile(SOME, 3, 50.0), SketchProfile(SOME, 5, 90.0), 0.2
    first, other = SubsampledProfile(six, 0.3), SubsampledProfile(nine, 0.1)
    found = compose([first, other]).delta(epsilon)
    sides = dict.fromkeys(("lower", "estimate", "upper"), 0.0)
    for a, b in product((0, 1), repeat=2):
        chance = (0.3 if a else 0.7) * (0.1 if b else 0.9)
        laws = [law for law, took in ((six, a), (nine, b)) if took]
        if laws:
            given = inner._given(tuple(laws), epsilon, True)
            for side in sides:
                sides[side] += chance * getattr(given, side)
    assert found.estimate == pytest.approx(sides["estimate"], rel=1e-14)
    assert 0.5e-12 < found.upper / sides["upper"] - 1 < 1.5e-12
    assert 0.5e-12 < 1 - found.lower / sides["lower"] < 1.5e-12
    assert inner._given((), epsilon, True) == Bounds(0.0, 0.0, 0.0)
    alone = ComposedProfile((six, nine))
    assert alone.delta(epsilon) == inner._given((six, nine), epsilon, True)
    sure = ComposedProfile(
        (
            SubsampledProfile(GaussianProfile(30.0), 0.9),
            SubsampledProfile(GaussianProfile(40.0), 1.0),
        )
    )
    assert sure.delta(0.1).upper <= 1.0


def test_epsilon_is_dealt_out_in_the_best_plan_its_shares():
    laws = [
        GroupPrivacy(GaussianProfile(0.3), 2),
        GroupPrivacy(GaussianProfile(0.1), 2),
        GroupPrivacy(GaussianProfile(0.2), 2),
    ]
    for epsilon in (0.5, 2.0):
        found = inner._given(tuple(laws), epsilon, True)
        best = min(
            math.fsum(
                law.delta(share / 16 * epsilon).upper
                for law, share in zip(laws, shares, strict=True)
            )
            for shares in product(range(17), repeat=3)
            if sum(shares) == 16
        )
        assert found.upper == pytest.approx(min(1.0, best), rel=3e-12)
        assert found.upper >= min(1.0, best)
        if best < 0.9:
            assert 0.5e-12 < found.upper / best - 1 < 1.5e-12
        assert found.estimate == found.upper
        assert found.lower == max(law.delta(epsilon).lower for law in laws)
    assert inner._given(tuple(laws[:1]), 0.5, True) == laws[0].delta(0.5)
    assert inner._given(tuple(laws[:1]), 0.5, False) == laws[0].delta(0.5, certified=False)
    assert inner._given((GroupPrivacy(GaussianProfile(9.0), 2),) * 2, 0.1, True).upper == 1.0


def test_a_claim_rests_on_what_is_certified():
    class Rough(GroupPrivacy):
        def delta(self, epsilon, *, certified=True):
            return super().delta(epsilon) if certified else Bounds(0.0, 1e-9, 2e-9)

    laws = [Rough(GaussianProfile(0.3), 2), Rough(GaussianProfile(0.1), 2)]
    plain = [GroupPrivacy(GaussianProfile(0.3), 2), GroupPrivacy(GaussianProfile(0.1), 2)]
    for count in (1, 2):
        sure = inner._given(tuple(laws[:count]), 0.5, True)
        assert sure == inner._given(tuple(plain[:count]), 0.5, True)
        rough = inner._given(tuple(laws[:count]), 0.5, False)
        assert rough.upper == pytest.approx(count * 2e-9)
    assert compose(laws).delta(0.5) == compose(plain).delta(0.5)
    assert compose(laws).delta(0.5, certified=False).upper == pytest.approx(4e-9)


# --- points --------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [16, 40])
def test_fewer_points_keep_both_sums_and_lie_above(most):
    """Σ p and Σ p·e^{−L} stay; δ of any ε is no smaller, and hardly larger."""
    generator = np.random.default_rng(4)
    values, weights = generator.uniform(-1.0, 2.0, 500), generator.uniform(0.0, 1.0, 500)
    values[:2] = -1.0, 2.0
    weights /= weights.sum()
    grid, shared = inner._fewer(values, weights, most)
    assert len(grid) == most
    assert (grid[0], grid[-1]) == (values.min(), values.max())
    assert np.diff(grid) == pytest.approx(np.full(most - 1, 3.0 / (most - 1)))
    assert shared.sum() == pytest.approx(1.0, rel=1e-13)
    assert shared @ np.exp(-grid) == pytest.approx(weights @ np.exp(-values), rel=1e-13)
    for epsilon in (-0.8, 0.0, 0.77, 1.9):
        true = weights @ np.maximum(0.0, -np.expm1(epsilon - values))
        got = shared @ np.maximum(0.0, -np.expm1(epsilon - grid))
        assert true * (1 - 1e-13) <= got <= true * 1.05 + 2e-3
    assert (shared >= 0.0).all()


def test_bounded_losses_alone_and_beside_a_gaussian():
    points, epsilon = ((0.5, 0.6), (-0.2, 0.4)), 0.1
    alone = product_delta(LossFactors(atoms=(points,)), epsilon)
    true = 0.6 * -math.expm1(0.1 - 0.5)
    beside = product_delta(LossFactors(mu=0.7, atoms=(points,)), epsilon)
    both = 0.6 * gaussian.delta(-0.4, 0.7) + 0.4 * gaussian.delta(0.3, 0.7)
    for found, want in ((alone, true), (beside, both)):
        assert found.estimate == pytest.approx(want, rel=1e-14)
        assert 0.9e-9 < found.upper / found.estimate - 1 < 1.1e-9
        assert found.lower == 0.0
    assert product_delta(LossFactors(atoms=(points,)), 0.5) == Bounds(0.0, 0.0, 0.0)
    assert product_delta(LossFactors(mu=1e-9), 1.0) == Bounds(0.0, 0.0, 1e-300)
    assert product_delta(LossFactors(mu=90.0), 0.0).upper == 1.0


def product_delta(loss, epsilon, certified=True):
    return inner._ProductProfile(loss).delta(epsilon, certified=certified)


# --- sketches ------------------------------------------------------------------------------------


def test_sketches_of_one_kind_are_merged():
    one, other = NeighborFamily(3, 0.2, 0.1, 0.3, 0.01), NeighborFamily(4, 0.2, 0.1, 0.3, 0.01)
    unlike = [
        NeighborFamily(5, 0.25, 0.1, 0.3, 0.01),
        NeighborFamily(5, 0.2, 0.15, 0.3, 0.01),
        NeighborFamily(5, 0.2, 0.1, 0.35, 0.01),
        NeighborFamily(5, 0.2, 0.1, 0.3, 0.02),
    ]
    found = inner._merge((one, *unlike, other))
    assert sorted(found, key=repr) == sorted(
        [NeighborFamily(7, 0.2, 0.1, 0.3, 0.01), *unlike], key=repr
    )
    assert inner._merge(()) == ()


def test_a_sketch_beside_one_point_is_the_sketch_at_what_is_left_of_epsilon():
    each = NeighborFamily(30, 0.1)
    whole = LossFactors((each,), 0.2, (((0.3, 1.0),),))
    for certified in (True, False):
        found = product_delta(whole, 0.8, certified=certified)
        assert found == replace(each.delta(0.8 - 0.3, 0.2, certified=certified), lower=0.0)
    at = product_delta(whole, 0.3)
    assert at == replace(each.delta(0.0, 0.2), lower=0.0)
    below = product_delta(whole, 0.1)
    assert below.upper > at.upper
    far = LossFactors((each,), 0.2, (((3.0, 1.0),),))
    assert product_delta(far, 2.0).upper > product_delta(far, 3.0).upper


def test_points_and_kinds_of_sketches_all_count():
    each, other = NeighborFamily(30, 0.1), NeighborFamily(20, 0.12)
    two = product_delta(LossFactors((each, other), 0.2), 0.4)
    assert two.lower > max(each.delta(0.4, 0.2).upper, other.delta(0.4, 0.2).upper)
    points = LossFactors((each,), 0.2, (((0.3, 0.5), (-0.3, 0.5)),))
    mean = 0.5 * each.delta(0.1, 0.2).estimate + 0.5 * each.delta(0.7, 0.2).estimate
    assert product_delta(points, 0.4).estimate == pytest.approx(mean, rel=1e-6)


FAMILIES = (NeighborFamily(30, 0.1, inflation=0.01), NeighborFamily(9, 0.2))


def boxes_value(families, points, epsilon, left, right):
    charts = [each.charts()[0] for each in families]
    return neighbors._delta_of_boxes(families, charts, epsilon, 0.1, points, left, right, 0.0)


def test_a_box_of_two_families_is_the_worse_direction_of_both():
    left, right = np.array([[0.02], [0.05]]), np.array([[0.03], [0.2]])
    found = boxes_value(FAMILIES, ((0.2, 0.6), (-0.1, 0.4)), 0.4, left, right)[:, 0]
    sides = []
    for each, low, high in zip(FAMILIES, left, right, strict=True):
        u, v = (x[0] * (1.0 + each.inflation) for x in each.charts()[0].cells(low, high))
        sides.append((each.bags, u, v))
    there = contour.joint_loss([(m, v / (1 - v), u / (1 + u)) for m, u, v in sides], 0.1)
    back = contour.joint_loss([(m, u, v) for m, u, v in sides], 0.1)
    ways = [
        0.6 * contour.loss_delta(loss, 0.4 - 0.2)[:, 0]
        + 0.4 * contour.loss_delta(loss, 0.4 + 0.1)[:, 0]
        for loss in (there, back)
    ]
    np.testing.assert_allclose(found, np.max(ways, axis=0), rtol=1e-12)


def test_a_box_in_which_a_neighbour_is_ruled_out_promises_nothing():
    families = [NeighborFamily(1, 0.999, inflation=0.5), NeighborFamily(1, 0.2)]
    left, right = np.array([[0.0, 0.9], [0.0, 0.0]]), np.array([[0.1, 0.99], [0.1, 0.1]])
    found = boxes_value(families, ((0.0, 1.0),), 3.0, left, right)
    assert found[:, 1].tolist() == [1.0, 1.0, 1.0]
    assert 0.0 < found[2, 0] < 1.0
    none = boxes_value(families, ((0.0, 1.0),), 3.0, left[:, 1:], right[:, 1:])
    assert none.tolist() == [[1.0], [1.0], [1.0]]


def bump(factor=1.0, shift=0.0):
    """Π 4x(1 − x) of a box at most: the sup is `factor`, in the middle."""

    def value(left, right, enough):  # noqa: ARG001
        total = factor * np.prod(right * (1.0 - left) * 4.0, axis=0)
        above = np.where(right[0] < 0.3, shift, 0.0)
        return np.minimum(np.array([total, total, total + above]), 9.0)

    return value


@pytest.mark.parametrize("count", [1, 2])
def test_branch_and_bound_finds_the_sup_of_boxes(count):
    charts = [neighbors.Chart(0.0, 1.0, None)] * count
    nothing = Bounds(0.0, 0.0, 0.0)
    found = neighbors._certify(charts, bump(), nothing)
    assert 1.0 - 1e-9 <= found.upper <= 1.2
    assert found.estimate == pytest.approx(1.0, rel=1e-3)
    # boxes near 0 have a high upper end, though their estimate is low and they are left early
    assert neighbors._certify(charts, bump(0.2, 0.5), nothing).upper >= 0.5
    wide = neighbors._certify(charts, bump(1e-3), Bounds(0.1, 0.2, 0.9))
    assert wide == Bounds(0.1, 0.2, 0.9)
    rough = neighbors._certify(charts, bump(0.2), Bounds(0.01, 0.02, 0.03), 0)
    assert (rough.lower, rough.estimate) == (0.01, 0.02)
    assert rough.upper >= 0.2
    negligible = neighbors._certify(charts, bump(1e-14), nothing, slack=1.0)
    assert negligible.estimate == 0.0
    assert negligible.upper >= 1e-14
