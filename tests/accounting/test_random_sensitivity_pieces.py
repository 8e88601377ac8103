"""The mean over a random μ, piece by piece: each against its definition, each bound where it is
needed."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from labeldp.accounting import gaussian, weighted_bags
from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.weighted_bags import (
    RandomWeightsProfile,
    _Integral,
    binomial,
    mean_delta,
    realised_mu,
)
from labeldp.errors import InputError

# E[δ(ε; scale·share)] with so many other noisy rows, by 30-digit quadrature over the law of t
PRECISE = {
    (3, 1.0, 0.5): (0.12365919188386, 0.055366063735994),
    (12, 0.4, 0.1): (0.014509431565822, 0.011582013052193),
    (5, 8.0, 2.0): (0.51793865340912, 0.49066115317544),
    (60, 3.0, 1.0): (0.0092210068068938, 0.0080973450921342),
}
noisy_or_not = pytest.mark.parametrize("noisy", [False, True])


@noisy_or_not
@pytest.mark.parametrize("case", PRECISE)
def test_the_bracket_is_1e_9_wide_on_either_side_of_the_truth(case, noisy):
    others, scale, epsilon = case
    found, true = mean_delta(scale, epsilon, (others, np.ones(1)), noisy), PRECISE[case][noisy]
    assert found.estimate == pytest.approx(true, rel=1e-12)
    assert 0.9e-9 < found.upper / found.estimate - 1 < 1.1e-9
    assert 0.9e-9 < 1 - found.lower / found.estimate < 1.1e-9


@noisy_or_not
@pytest.mark.parametrize("lowest", [0, 1, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_random_number_of_rows_is_a_mean_over_fixed_ones(lowest, size, noisy):
    weights = np.arange(1.0, size + 1.0) / (size * (size + 1) / 2)
    found = mean_delta(1.5, 0.7, (lowest, weights), noisy)
    apart = [mean_delta(1.5, 0.7, (lowest + i, np.ones(1)), noisy).estimate for i in range(size)]
    assert found.estimate == pytest.approx(float(weights @ apart), rel=1e-11)


def test_a_bag_without_other_noise_shows_all_or_what_the_row_itself_hides():
    found = mean_delta(2.0, 1.0, (0, np.ones(1)), False)
    assert (found.lower, found.estimate, found.upper) == (1 - 1e-9, 1.0, 1.0)
    found = mean_delta(2.0, 1.0, (0, np.ones(1)), True)
    alone = gaussian.upper(1.0, 2.0)
    assert found.estimate == alone
    assert found.upper == pytest.approx(alone * (1 + 1e-9), rel=1e-14)
    little = mean_delta(1e-3, 5.0, binomial(3, 0.5), False)
    assert little.estimate == pytest.approx(0.125, rel=1e-3)
    half = mean_delta(2.0, 1.0, (0, np.array([0.5, 0.5])), True)
    one = mean_delta(2.0, 1.0, (1, np.ones(1)), True)
    assert half.estimate == pytest.approx(0.5 * alone + 0.5 * one.estimate, rel=1e-12)


@noisy_or_not
@pytest.mark.parametrize("scale", [1e40, 1e52, 1e60, 1e300])
@pytest.mark.parametrize("others", [1])
def test_next_to_no_noise_is_no_guarantee(others, scale, noisy):
    """What matters then lies far out on the line, beyond where an integrand is looked for."""
    assert mean_delta(scale, 1.0, (others, np.ones(1)), noisy).upper > 1 - 1e-9
    law = RandomWeightsProfile(others + 1, (0.0, 1.0), 1.0 if noisy else 0.9, 1.0 / scale)
    assert law.delta(1.0).upper > 1 - 1e-9
    assert epsilon_at(law, 1e-6) == math.inf


@noisy_or_not
@pytest.mark.parametrize("scale", [1e-50, 1e-52, 1e-60, 1e-200])
def test_next_to_nothing_to_see_is_bounded_by_how_little_others_may_add(scale, noisy):
    """One other row: its weight is below s/ε with a chance of about that, and then μ is above ε."""
    found = mean_delta(scale, 1.0, (1, np.ones(1)), noisy)
    if noisy:
        assert found.upper <= 1.1e-200
    else:
        least = float(2 / mp.pi * mp.atan(mp.mpf(scale) / 100))  # μ ≥ 100
        assert least <= found.upper < 1e-25


@pytest.mark.parametrize(
    ("others", "scale", "true"),
    [
        (1, 1e-3, "0.00038708487025615"),
        (1, 1e-5, "3.8708498584559e-6"),
        (1, 1e-7, "3.8708498585715e-8"),
        (1, 1e-9, "3.8708498585715e-10"),
        (2, 1e-6, "2.4999999999972e-13"),
        (3, 1e-6, "2.312023148608e-19"),
    ],
)
def test_much_noise_beside_few_rows_keeps_its_digits(others, scale, true):
    """Their weights must nearly vanish: δ is small, a power of the scale, and no smaller."""
    found = mean_delta(scale, 1.0, (others, np.ones(1)), False)
    assert found.lower <= float(true) <= found.upper <= found.lower * (1 + 3e-9)
    assert found.estimate == pytest.approx(float(true), rel=1e-12, abs=0.0)


def test_what_is_too_faint_to_compute_is_bounded_all_the_same():
    found = mean_delta(1e-3, 50.0, (400, np.ones(1)), True)
    assert (found.lower, found.estimate, found.upper) == (0.0, 0.0, 1e-200)
    assert mean_delta(1e-3, 50.0, (1, np.ones(1)), True).upper == 1e-200


def _integral(others=3, scale=1.0, epsilon=0.5, noisy=False):
    return _Integral(scale, epsilon, others, np.ones(1), noisy)


@noisy_or_not
@pytest.mark.parametrize("case", PRECISE)
@pytest.mark.parametrize("drop", [1.0, 3.0, 8.0])
def test_what_is_cut_off_is_bounded(case, noisy, drop, monkeypatch):
    """Cut off far too early, the bracket is wide and still one."""
    monkeypatch.setattr(weighted_bags, "_DROP", drop)
    monkeypatch.setattr(weighted_bags, "_LAST", 1024)
    others, scale, epsilon = case
    found, true = mean_delta(scale, epsilon, (others, np.ones(1)), noisy), PRECISE[case][noisy]
    assert found.estimate < true
    assert found.lower <= true <= found.upper
    assert found.upper < 1.0


@noisy_or_not
@pytest.mark.parametrize(("low", "high"), [(-9.0, 9.0), (-1.5, 9.0), (-9.0, 0.4), (-1.0, 1.0)])
def test_the_rest_is_delta_below_and_the_tail_above(low, high, noisy):
    """∫ δ'·T over x < low is at most δ(low), and over x > high at most T(high)·(1 − δ(high))."""
    law = _integral(4, 2.0, 0.6, noisy)
    x, step = np.linspace(-12.0, 12.0, 6_001, retstep=True)
    values = np.exp(law._log_slope(x)) * law._tail(x) * step
    outside = float(values[(x < low) | (x > high)].sum())
    claimed = law._cut_off(low, high)
    first, last = law._mu(np.array([low, high])).tolist()
    rest = (gaussian.delta(0.6, 2.0) if noisy else 1.0) - gaussian.delta(0.6, last)
    tail = float(2 * stats.t.sf(2.0 * math.exp(high), 4))
    least = gaussian.delta(0.6, first) + tail * rest
    assert outside <= claimed * 1.01
    assert least * (1 - 1e-9) <= claimed
    assert claimed <= gaussian.upper(0.6, first) + min(tail, (4.0 if noisy else 2.0) * tail * rest)


@pytest.mark.parametrize(("scale", "epsilon"), [(2.0, 0.6), (2.0, 3.0), (0.5, 2.0), (9.0, 2.0)])
@pytest.mark.parametrize("high", [-2.0, 0.0, 1.0, 3.0, 9.0])
def test_a_row_with_noise_has_little_left_above(scale, epsilon, high):
    """μ may rise from μ(high) to the scale, whether or not μ/2 − ε/μ changes its sign there."""
    law = _integral(4, scale, epsilon, True)
    with mp.workdps(40):
        root = mp.exp(high)
        mu, end, e = scale * root / mp.sqrt(1 + root**2), mp.mpf(scale), mp.mpf(epsilon)

        def delta(m):
            return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)

        rest = float(delta(end) - delta(mu))
    tail = float(law._tail(np.array([high]))[0])
    claimed = law._cut_off(-60.0, high)
    assert tail * rest <= claimed <= 60.0 * tail * rest + 1e-300


def test_the_error_is_ten_times_the_last_change(monkeypatch):
    law = _integral(3, 1.0, 0.5)
    totals = []
    for first, last in ((4, 4), (4, 8)):
        monkeypatch.setattr(weighted_bags, "_FIRST", first)
        monkeypatch.setattr(weighted_bags, "_LAST", last)
        totals.append(law.value())
    assert totals[0][1] == math.inf
    change = abs(totals[1][0] - totals[0][0])
    low, high = law._range()
    assert totals[1][1] == pytest.approx(10 * change + law._cut_off(low, high), rel=1e-12)
    nodes = np.linspace(low, high, 9)
    assert totals[1][0] == pytest.approx(
        float((np.exp(law._log_slope(nodes)) * law._tail(nodes)).sum()) * (high - low) / 8,
        rel=1e-13,
    )
    monkeypatch.setattr(weighted_bags, "_LAST", 32_768)
    assert abs(law.value()[0] - totals[1][0]) < totals[1][1]


# --- the law of noisy labels ---------------------------------------------------------------------


def test_a_row_without_noise_is_the_worse_kind_where_there_is_one():
    law = RandomWeightsProfile(5, (-1.0, 2.0), 0.5, 2.0)
    assert law.width == 3.0
    assert law.delta(0.7) == mean_delta(1.5, 0.7, binomial(4, 0.5), False)
    assert law.delta(0.7).upper > mean_delta(1.5, 0.7, binomial(4, 0.5), True).upper
    only = RandomWeightsProfile(5, (-1.0, 2.0), 1.0, 2.0)
    assert only.delta(0.7) == mean_delta(1.5, 0.7, (4, np.ones(1)), True)
    assert RandomWeightsProfile(5, (-1.0, 2.0), 1.0).noise_std == 1.0
    with pytest.raises(InputError, match="epsilon"):
        law.delta(-0.1)


# --- weights that were drawn ---------------------------------------------------------------------


def test_the_share_of_a_label_in_its_noise_is_rounded_up():
    weights = np.array([[3.0, -4.0, 12.0], [1.0, 2.0, -2.0], [0.5, 0.5, 0.5]])
    noisy = np.array([[True, True, False], [False, True, True], [False, False, False]])
    found = realised_mu(weights, noisy, 2.0, 0.5)
    true = np.array([12 / 5 * 4, 2 / math.sqrt(8) * 4, math.inf])
    assert found[2] == math.inf
    np.testing.assert_allclose(found[:2] / true[:2] - 1, 1e-12, rtol=0.01)
    assert realised_mu([3.0, 4.0], [True, True], 1.0, 1.0)[0] == pytest.approx(0.8, rel=1e-11)
    assert realised_mu([[0.0, 0.0]], [[True, True]], 1.0, 1.0)[0] == math.inf


def test_weights_and_noise_must_be_numbers():
    for bad in (math.nan, math.inf):
        with pytest.raises(InputError, match="weights must be finite numbers; draw them again"):
            realised_mu([[1.0, bad]], [[True, True]], 1.0, 1.0)
    for width, std in ((0.0, 1.0), (1.0, 0.0)):
        with pytest.raises(InputError):
            realised_mu([[1.0]], [[True]], width, std)
