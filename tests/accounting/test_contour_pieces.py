"""The pieces of the contour integral, each against its definition."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from labeldp.accounting import contour, gaussian

FACTORS = [(7, [0.2, 0.05, 0.0], [0.1, 0.3, 0.4]), (40, [0.02, 0.1, 0.0], [0.0, 0.01, 0.2])]
MU = 0.6
CELLS = range(3)


def three():
    """A loss in three cells."""
    return contour.joint_loss(FACTORS, MU)


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40), np.errstate(all="ignore"):
        yield


def log_mgf(cell, z, mu=MU, factors=FACTORS):
    """log E[e^{zL}] of gamma variables and a normal one, from their moment functions."""
    z = mp.mpmathify(z)
    total = mp.mpf(mu) ** 2 * z * (z + 1) / 2
    for bags, alphas, betas in factors:
        a, b = mp.mpf(alphas[cell]), mp.mpf(betas[cell])
        total -= mp.mpf(bags) / 2 * (z * mp.log1p(a) + mp.log(1 - a * z))
        total -= mp.mpf(bags) / 2 * (z * mp.log1p(-b) + mp.log(1 + b * z))
    return total


@pytest.mark.parametrize("epsilon", [-1.3, -0.9, 0.2, 2.0, 9.0])
def test_the_quick_bound_is_that_of_chernoff_with_a_margin(epsilon):
    saddle, left, chernoff, _ = contour._crossings(three(), epsilon)
    exact = contour.loss_delta(three(), epsilon)
    for cell in CELLS:
        z = mp.mpf(saddle[cell])
        if left[cell]:
            assert chernoff[cell] == 1.0
            continue
        ratio = z * mp.log(z) - (1 + z) * mp.log(1 + z)
        true = mp.exp(log_mgf(cell, z) - z * epsilon + ratio)
        assert chernoff[cell] >= exact[1, cell]
        if true < 1:
            over = mp.mpf(chernoff[cell]) / true - 1
            assert 0.9e-9 < over < 1.1e-9
    assert left.tolist() == (three().mean() > epsilon + 1.0).tolist()


@pytest.mark.parametrize("epsilon", [-2.0, 2.0])
def test_rounding_is_that_of_what_cancels(epsilon):
    saddle, _, _, rounding = contour._crossings(three(), epsilon)
    for cell in CELLS:
        z = abs(float(saddle[cell]))
        drift = float(three().drift[cell])
        bent = abs(float(three().curved(saddle[:, None])[cell, 0]))
        terms = z * (abs(drift) + MU**2 * (1.0 + z) + abs(epsilon)) + bent
        assert rounding[cell] == pytest.approx(1e-15 * (1.0 + terms), rel=1e-9, abs=0.0)


def by_contour(monkeypatch, integral, change, mass, *, left=False, chernoff=0.5, rounding=1e-14):
    """What is made of an integral, its last change and its mass; the peak is e^{−1}."""

    def told(loss, epsilon, saddle, slope):  # noqa: ARG001
        return tuple(np.array([each]) for each in (integral, change, mass, -1.0))

    monkeypatch.setattr(contour, "_integral", told)
    crossings = np.array([[0.5], [left], [chernoff], [rounding]])
    return contour._by_contour(three().take(np.array([0])), 1.0, crossings, 0.6)[:, 0]


def test_an_integral_that_settles_is_claimed_with_ten_changes_its_rounding_and_1e_9(monkeypatch):
    scale = math.exp(-1.0)
    lower, estimate, upper = by_contour(monkeypatch, 0.3, 1e-10, 200.0)
    error = scale * (1e-9 + 2e-12)
    assert estimate == pytest.approx(0.3 * scale, rel=1e-15)
    assert upper - estimate == pytest.approx(estimate * 1e-9 + error, rel=1e-6)
    assert estimate - lower == pytest.approx(estimate * 1e-9 + error, rel=1e-6)
    lower, estimate, upper = by_contour(monkeypatch, 0.3, 0.0, 1e6)
    assert upper - estimate == pytest.approx(estimate * 1e-9 + scale * 1e-8, rel=1e-6)


def test_left_of_the_pole_its_residue_is_added(monkeypatch):
    lower, estimate, upper = by_contour(monkeypatch, -0.3, 0.0, 1.0, left=True, chernoff=1.0)
    true = 1.0 - 0.3 * math.exp(-1.0)
    assert lower < estimate < upper
    assert estimate == pytest.approx(true, rel=1e-15)
    lower, estimate, upper = by_contour(monkeypatch, -1e-12, 0.0, 1.0, left=True, chernoff=1.0)
    assert estimate == pytest.approx(1.0, abs=1e-11)
    assert upper == 1.0


def test_an_integral_that_does_not_settle_is_worth_its_quick_bound(monkeypatch):
    bound = [0.0, 0.5, 0.5]
    assert by_contour(monkeypatch, 0.3, 1e-6, 1.0).tolist() == bound
    assert by_contour(monkeypatch, math.nan, math.nan, 1.0).tolist() == bound
    assert by_contour(monkeypatch, -0.3, 1e-12, 1.0).tolist() == bound
    assert by_contour(monkeypatch, 9.0, 1e-12, 1.0).tolist() == bound
    assert by_contour(monkeypatch, 0.3, 1e-8, 1.0)[0] > 0.0
    scale = math.exp(-1.0)
    within = by_contour(monkeypatch, 0.3, 0.9e-7 * 0.3, 1.0)
    beyond = by_contour(monkeypatch, 0.3, 1.1e-7 * 0.3, 1.0)
    assert within[1] == pytest.approx(0.3 * scale)
    assert beyond.tolist() == bound


def test_a_number_above_one_settles_only_within_its_error(monkeypatch):
    def near(integral):
        return by_contour(monkeypatch, integral, 0.0, 200.0, left=True, chernoff=1.0)

    lower, estimate, upper = near(1e-12)
    assert (estimate, upper) == (1.0, 1.0)
    assert 1 - 2e-9 < lower < 1.0
    assert near(1e-10).tolist() == near(0.5).tolist() == [0.0, 1.0, 1.0]


def test_nothing_is_claimed_above_the_quick_bound(monkeypatch):
    found = by_contour(monkeypatch, 0.3, 0.0, 1.0, chernoff=0.1)
    assert found[2] == found[1] == 0.1
    assert 0.0 < found[0] < 0.1


@pytest.mark.parametrize("epsilon", [0.05, 1.5])
def test_many_cells_are_as_many_single_ones(epsilon):
    """More than a block of them, some without any loss and some below what is asked for."""
    generator = np.random.default_rng(8)
    alpha = generator.uniform(0.0, 0.3, 170)
    alpha[::10] = 0.0
    beta = generator.uniform(0.0, 0.3, 170)
    beta[::20] = 0.0
    together = contour.loss_delta(contour.joint_loss([(9, alpha, beta)]), epsilon)
    for cell in range(0, 170, 13):
        one = contour.loss_delta(contour.joint_loss([(9, alpha[cell], beta[cell])]), epsilon)[:, 0]
        np.testing.assert_allclose(together[:, cell], one, rtol=1e-12)
    assert (together[:, ::20] == 0.0).all()
    enough = float(np.median(together[2]))
    quick = contour.loss_delta(contour.joint_loss([(9, alpha, beta)]), epsilon, enough)
    left = (quick[1] == 0.0) & (together[1] > 0.0)
    assert left.any()
    assert (quick[2][left] <= enough).all()
    assert (quick[2][left] >= together[2][left]).all()
    np.testing.assert_array_equal(quick[:, ~left], together[:, ~left])


def test_a_loss_that_has_a_most_costs_nothing_from_there_on():
    loss = contour.joint_loss([(6, [0.0, 0.0, 0.1], [0.2, 0.3, 0.2])])
    kappa = loss.offset()
    found = contour.loss_delta(loss, float(kappa[0]))
    assert found[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert (found[1, 1:] > 0.0).all()
    beside = contour.loss_delta(contour.joint_loss([(6, 0.0, 0.2)], 0.1), float(kappa[0]))
    assert beside[0, 0] > 0.0
    below = contour.loss_delta(loss, float(kappa[0]) * (1 - 1e-3))
    assert below[2, 0] > 0.0


REFERENCES = json.loads(Path(__file__).with_name("references.json").read_text())


@pytest.mark.parametrize("first", range(12))
def test_some_references_are_met_to_twelve_digits(first):
    """Cells of all sizes at once, as neighbours are."""
    for bags, alpha, beta, epsilon, told in REFERENCES[first::12]:
        value = float(told)
        lower, estimate, upper = contour.loss_delta(
            contour.joint_loss([(bags, alpha, beta)]), epsilon
        )[:, 0]
        assert estimate == pytest.approx(value, rel=1e-12, abs=0.0)
        assert value * (1 - 3e-9) <= lower < value < upper <= value * (1 + 3e-9)


@pytest.mark.parametrize("mu", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("epsilon", [-2.0, 0.0, 0.1, 3.0])
def test_a_gaussian_alone_is_met_to_ten_digits(mu, epsilon):
    lower, estimate, upper = contour.loss_delta(contour.joint_loss([(1, 0.0, 0.0)], mu), epsilon)[
        :, 0
    ]
    exact = gaussian.delta(epsilon, mu)
    if exact > 1e-290:
        assert estimate == pytest.approx(exact, rel=1e-10, abs=0.0)
        assert exact * (1 - 3e-9) <= lower < exact < upper <= exact * (1 + 3e-9)


def test_a_release_with_an_end_beside_one_without_has_none():
    """One sketch alone costs nothing from its κ on; the other goes on."""
    ends, goes_on = (6, 0.0, 0.2), (6, 0.1, 0.0)
    both = contour.joint_loss([ends, goes_on])
    epsilon = max(float(each.offset()[0]) for each in (both, contour.joint_loss([ends]))) + 0.1
    assert contour.loss_delta(contour.joint_loss([ends]), epsilon)[2, 0] == 0.0
    assert contour.loss_delta(both, epsilon)[0, 0] > 1e-3
    assert contour.loss_delta(both, epsilon).shape == (3, 1)
    assert contour.loss_delta(contour.joint_loss([(6, [0.1, 0.2], 0.3)]), epsilon).shape == (3, 2)
    assert contour.loss_delta(contour.joint_loss([(6, 0.1, [0.2, 0.3])]), epsilon).shape == (3, 2)
    assert contour.loss_delta(contour.joint_loss([(60_000, 0.0015, 0.0)]), 12.0)[2, 0] == 1e-300


@pytest.mark.parametrize(("bags", "alpha", "beta"), [(2, 0.001, 0.1), (5, 0.1, 0.01)])
def test_where_the_contour_bends_the_wrong_way_a_straight_one_settles(bags, alpha, beta):
    loss = contour.joint_loss([(bags, alpha, beta)])
    kappa = float(loss.offset()[0])
    lower, estimate, upper = contour.loss_delta(loss, kappa)[:, 0]
    near = contour.loss_delta(loss, kappa * (1 - 1e-7))[1, 0]
    assert estimate == pytest.approx(near, rel=1e-4)
    assert estimate * (1 - 3e-9) <= lower <= upper <= estimate * (1 + 3e-9)


def test_the_quick_bound_of_a_huge_loss_has_room_for_what_cancels():
    """Terms of 5e6 leave nine digits: more than the margin alone."""
    mu = 3e5
    epsilon = 0.5 * mu**2 + 30.0 * mu
    loss = contour.joint_loss([(1, 0.0, 0.0)], mu)
    (saddle,), _, (chernoff,), (rounding,) = contour._crossings(loss, epsilon)
    with mp.workdps(60):
        z, m = mp.mpf(saddle), mp.mpf(mu)
        ratio = z * mp.log(z) - (1 + z) * mp.log(1 + z)
        true = mp.exp(m * m * z * (z + 1) / 2 - z * mp.mpf(epsilon) + ratio)
        assert true < mp.mpf(chernoff) < true * (1 + mp.mpf("1e-6"))
    assert rounding > 5e-9
