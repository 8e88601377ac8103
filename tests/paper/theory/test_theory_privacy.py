"""Theorems 2 and 3 against their conditions in 50 digits, reference sizes, and mended slips.

Every answer is the truth, rounded up by a hair, and every condition holds on its own side of the
line only.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import pytest

from labeldp.errors import InputError, PlanError
from labeldp_paper.theory.privacy import Theorem2, Theorem3

C0 = mp.mpf("0.145")
CENSUS = (131_903_910, (0.0, 51.0), 64.22)
UNIT = (-1.0, 1.0)


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(50):
        yield


def ask(theorem, *question):
    """A number, or the reason why there is none."""
    try:
        return SimpleNamespace(value=theorem(*question), reason="")
    except PlanError as refusal:
        return SimpleNamespace(value=None, reason=str(refusal))


def decimal(number):
    return mp.mpf(repr(float(number)))


def assert_rounded_up(got, true, hair):
    """Above the truth by about `hair`, which is far above what rounding may cost."""
    over = mp.mpf(got) / true - 1
    assert 0.6 * hair < over < 1.4 * hair


def assert_epsilon(theorem, bag_size, delta, true):
    """The least ε passes, and is above the truth by its last digits only."""
    found = theorem.least_epsilon(bag_size, delta)
    assert theorem.least_delta(bag_size, found) <= delta
    assert true <= found <= true * (1 + mp.mpf("1e-12")) + mp.mpf("1e-12")


# --- Theorem 2 -----------------------------------------------------------------------------------

LAMBDA, BOUND, FEATURES = 0.7, 1.5, 3
LABELS2, SQUARE = (-1.0, 2.0), mp.mpf("2.25")


@pytest.mark.parametrize("feature_bound", [1.0, 121.73, 1000.0, 4300.0])
def test_census_needs_128_million_rows_whatever_the_feature_bound_up_to_4300(feature_bound):
    size = Theorem2(*CENSUS, feature_bound, 40).min_bag_size(1.0, 1e-5)
    assert f"{size:.2e}" == "1.28e+08"


def test_the_spectral_term_has_the_factor_of_the_matrix_chernoff_bound():
    """At half the mean (e^{−θ}/(1−θ)^{1−θ}) is (2/e)^{1/2}: the failure chance must be δ/2."""
    rows, bound, features, delta = 10**9, 20_000.0, 40, 1e-5
    k = Theorem2(rows, (0.0, 51.0), 60.0, bound, features).min_bag_size(10.0, delta)
    both = 25.5**2 + bound**2
    mean = (k - 1) * (rows * 60.0 - both) / (rows - 1)
    failure = (features + 1) * math.exp(-mean / both * (0.5 + 0.5 * math.log(0.5)))
    assert delta / 2 * 0.999 < failure <= delta / 2
    assert failure > (features + 1) * (2 / math.e) ** (mean / both) * 1e3  # as printed


def terms2(rows, epsilon, delta):
    both = SQUARE + mp.mpf("2.25")
    q = (rows - 1) / (rows * decimal(LAMBDA) - both)
    log = mp.log(4 / decimal(delta))
    return [
        mp.mpf(2),
        1 + 2 * q * both * mp.log((2 * FEATURES + 2) / decimal(delta)) / (1 - mp.log(2)),
        640 * SQUARE * q / decimal(epsilon),
        1600 * SQUARE * q * log**2 / (C0 * decimal(epsilon)) ** 2,
    ]


def theorem2(rows):
    return Theorem2(rows, LABELS2, LAMBDA, BOUND, FEATURES)


@pytest.mark.parametrize("rows", [60, 10**10])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (10.0, 0.9), (0.03, 0.2)])
def test_theorem_2_asks_for_the_largest_of_its_four_sizes(rows, epsilon, delta):
    terms = terms2(rows, epsilon, delta)
    got = theorem2(rows).terms(epsilon, delta)
    assert [float(term) for term in got] == pytest.approx([float(t) for t in terms], rel=1e-15)
    size, found = int(mp.ceil(max(terms))), ask(theorem2(rows).min_bag_size, epsilon, delta)
    if size > rows:
        assert found.value is None
        assert (
            found.reason == f"Theorem 2 needs bags of {size:,} rows here and the table has {rows:,}"
        )
    else:
        assert found.value == size
        assert theorem2(rows).least_delta(size, epsilon) <= delta * (1 + 1e-9)
        assert theorem2(rows).least_delta(size - 1, epsilon) > delta


@pytest.mark.parametrize("bag_size", [200, 2_000, 2_057, 2_058, 20_000, 10**6, 10**8])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 9.9])
def test_theorem_2_has_the_least_delta_and_epsilon(bag_size, epsilon):
    rows = 10**10
    law, both = theorem2(rows), SQUARE + mp.mpf("2.25")
    q = (rows - 1) / (rows * decimal(LAMBDA) - both)
    share, eps = q * SQUARE / bag_size, decimal(epsilon)
    if bag_size < 640 * SQUARE * q / eps:
        assert law.least_delta(bag_size, epsilon) == 1.0
        return
    by_labels = mp.log(4) - C0 * eps / (40 * mp.sqrt(share))
    by_rows = mp.log(2 * FEATURES + 2) - (bag_size - 1) * (1 - mp.log(2)) / (2 * q * both)
    log = max(by_labels, by_rows)
    if log >= 0:
        assert law.least_delta(bag_size, epsilon) == 1.0
    else:
        assert_rounded_up(law.least_delta(bag_size, epsilon), mp.exp(log), 1e-13 * (1 - log))
    for delta in (0.3, 1e-6):
        true = max(640 * share, 40 * mp.sqrt(share) * mp.log(4 / decimal(delta)) / C0)
        if true > 10:
            assert law.least_epsilon(bag_size, delta) == math.inf
        else:
            assert_epsilon(law, bag_size, delta, true)


def test_a_delta_of_theorem_2_is_below_one_or_one():
    """4·e^{−c0·ε/(40√(B_Y²q/k))} is 1 at ε = 0.6856."""
    law = theorem2(10**10)
    assert law.least_delta(10**6, 0.68) == law.least_delta(10**6, 0.50) == 1.0
    assert 0.9 < law.least_delta(10**6, 0.69) < 1.0
    assert law.least_delta(3 * 10**9, 9.9) == 1e-300


def test_a_bag_of_theorem_2_has_two_rows_at_least():
    law = Theorem2(100, (0.0, 1e-3), 1e6, 1.0, 1)
    assert law.least_delta(1, 1.0) == 1.0
    assert law.least_epsilon(1, 0.1) == math.inf
    assert law.least_delta(2, 1.0) < 1e-9
    assert law.least_epsilon(2, 0.1) < 1.0
    assert law.min_bag_size(1.0, 0.1) == 2


def test_a_spectrum_that_rows_decide_sets_delta_and_epsilon():
    """Many features: the matrix bound is what binds, not the labels."""
    law = Theorem2(10**6, (-0.01, 0.01), 0.7, BOUND, 50)
    both = mp.mpf("0.0001") + mp.mpf("2.25")
    unit = 2 * (10**6 - 1) * both / (10**6 * decimal(0.7) - both) / (1 - mp.log(2))
    true = 102 * mp.exp(-599 / unit)
    assert_rounded_up(law.least_delta(600, 8.0), true, 1e-13 * (1 - mp.log(true)))
    least = int(mp.ceil(1 + unit * mp.log(102 / decimal(1e-9))))
    assert least < 600
    assert law.least_epsilon(least - 1, 1e-9) == math.inf
    assert 0.0 < law.least_epsilon(least, 1e-9) < 10.0


def test_theorem_2_needs_an_eigenvalue_above_what_a_row_may_move():
    """nλ* against B_Y² + B_X² = 2.25 + 4: at the line it says nothing, above it something."""
    at, above = (Theorem2(10, (-1.0, 2.0), ms, 2.0, 3) for ms in (0.625, 0.6251))
    reason = "Theorem 2 needs rows times the smallest eigenvalue, 6.25, above B_Y² + B_X² = 6.25"
    q = Fraction(9) / (Fraction(6251, 1000) - Fraction(625, 100))
    assert above.units()[0] == q * Fraction(9, 4)
    assert ask(at.min_bag_size, 1.0, 0.1).reason == ask(at.terms, 1.0, 0.1).reason == reason
    assert at.least_delta(10, 1.0) == 1.0
    assert at.least_epsilon(10, 0.1) == math.inf


def test_theorem_2_speaks_of_an_epsilon_up_to_ten():
    law = theorem2(10**10)
    assert law.least_delta(10**8, 1e-9) == 1.0
    assert law.least_delta(10**8, 10.0) < 1.0
    assert law.min_bag_size(10.0, 1e-5) > 2
    refused = ask(law.min_bag_size, 10.5, 1e-5)
    assert refused.value is None
    assert refused.reason == "Theorem 2 needs epsilon at most 10, not 10.5"
    assert law.least_delta(10**8, 10.5) == 1.0
    for ask_for in (law.min_bag_size, lambda epsilon, _: law.least_delta(10**8, epsilon)):
        with pytest.raises(InputError, match="`epsilon`"):
            ask_for(0.0, 0.5)


def test_a_bag_of_theorem_2_may_be_the_whole_table():
    size = theorem2(10**10).min_bag_size(10.0, 1e-5)
    shrunk = next(
        law
        for law in (theorem2(rows) for rows in range(int(size), 2 * int(size)))
        if ask(law.min_bag_size, 10.0, 1e-5).value is not None
    )
    assert shrunk.min_bag_size(10.0, 1e-5) == shrunk.rows


def test_theorem_2_refuses_what_is_no_table():
    assert Theorem2(2, (0.0, 1.0), 1.0, 1.0, 1).features == 1
    for rows, labels, eigenvalue, bound, features in [
        (1, (0.0, 1.0), 1.0, 1.0, 1),
        (2, (1.0, 0.0), 1.0, 1.0, 1),
        (2, (0.0, 1.0), 0.0, 1.0, 1),
        (2, (0.0, 1.0), 1.0, 0.0, 1),
        (2, (0.0, 1.0), 1.0, 1.0, 0),
    ]:
        with pytest.raises(InputError):
            Theorem2(rows, labels, eigenvalue, bound, features)


def test_the_rate_of_theorem_2_is_rounded_to_the_safe_side():
    """2q(B_Y²+B_X²)/(1−ln 2): above the truth, in its fiftieth digit."""
    law = theorem2(1000)
    with mp.workdps(80):
        both = mp.mpf("4.5")
        q = mp.mpf(999) / (1000 * decimal(LAMBDA) - both)
        true = 2 * q * both / (1 - mp.log(2))
        got = mp.mpf(law.units()[1].numerator) / law.units()[1].denominator
        assert 0 < got / true - 1 < 1e-48


# --- Theorem 3 -----------------------------------------------------------------------------------

LABELS, WIDTH = (-1.0, 4.0), mp.mpf(5)
THIRD = [(1.0, 10**8, 3, 40.0), (0.25, 10**7, 1, 300.0), (0.02, 4 * 10**6, 7, 900.0)]


def kappa3(fraction, bag_size, std):
    return 2 * WIDTH / (decimal(std) * mp.sqrt(decimal(fraction)) * mp.mpf(bag_size) ** 0.25)


def rare3(fraction, bag_size, bags):
    rho, k = decimal(fraction), mp.mpf(bag_size)
    little = mp.exp(-rho * k * (2 * mp.log(2) - 1) / 8)
    return bags * (
        little + mp.exp(-(rho**2) * k / 2) + k * mp.sqrt(2 / mp.pi) * mp.exp(-mp.sqrt(k) / 2)
    )


def test_theorem3_asks_for_75_billion_rows():
    law = Theorem3(UNIT, 0.1)
    size = law.min_bag_size(1.0, 1e-5)
    assert f"{size:.1e}" == "7.5e+10"
    assert law.least_delta(size, 1.0) <= 1e-5 < law.least_delta(size - 1, 1.0)


def test_the_smallest_bag_of_theorem_3_is_searched_from_16_rows_to_1e18():
    assert Theorem3((0.0, 1e-6), 1.0).min_bag_size(50.0, 0.9999) > 16
    large = Theorem3(UNIT, 1.0, noise_std=1e-3)
    reason = "Theorem 3 has no bag of 1,000,000,000,000,000,000 rows or fewer at this budget"
    assert ask(large.min_bag_size, 0.01, 1e-5).reason == reason
    for budget in ((0.0, 0.1), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(InputError):
            large.min_bag_size(*budget)


def test_little_noise_is_bounded_by_chernoff_and_not_by_the_printed_rate():
    """Pr[χ²_r ≤ r/2] at large r: above e^{−r/8}, below (½e^{½})^{r/2}."""
    for r in (200, 1000):
        chance = mp.gammainc(mp.mpf(r) / 2, 0, mp.mpf(r) / 4, regularized=True)
        assert mp.exp(-mp.mpf(r) / 8) < chance < (mp.sqrt(mp.e) / 2) ** (mp.mpf(r) / 2)
    assert Theorem3(UNIT, 1.0, 1, 1e6).least_delta(10**6, 1e9) < 1e-200


@pytest.mark.parametrize(
    ("fraction", "bag_size", "bags"),
    [(1.0, 40, 1), (0.1, 900, 3), (0.02, 4000, 2), (1e-3, 10**4, 1)],
)
def test_what_is_rare_under_theorem_3(fraction, bag_size, bags):
    law = Theorem3(LABELS, fraction, bags)
    assert_rounded_up(law.rare(bag_size), rare3(fraction, bag_size, bags), 1e-13)


@pytest.mark.parametrize(("fraction", "bag_size", "bags", "std"), THIRD)
@pytest.mark.parametrize("epsilon", [1e-3, 0.02, 0.5, 3.0])
def test_theorem_3_is_what_its_proof_says(fraction, bag_size, bags, std, epsilon):
    """ε = κ² + (2+2√2)κ√l + 2κl with l = ln(2/δ1), solved for l, and δ = δ1 + what is rare."""
    law = Theorem3(LABELS, fraction, bags, std)
    kappa, rare = kappa3(fraction, bag_size, std), rare3(fraction, bag_size, bags)
    assert kappa < 0.5
    assert_rounded_up(law.kappa(bag_size), kappa, 1e-13)
    a, hair = 2 + 2 * mp.sqrt(2), mp.mpf("1e-13")
    over = decimal(epsilon) / kappa - kappa
    root = (-a + mp.sqrt(a * a + 8 * over)) / 4 if over > 0 else mp.mpf(0)
    delta = 2 * mp.exp(-(root**2)) + rare
    answer = law.least_delta(bag_size, epsilon)
    if delta >= 1:
        assert answer == 1.0
    else:
        assert delta < answer
        over = decimal(epsilon) / (kappa * (1 + hair)) - kappa * (1 + hair)
        root = (-a + mp.sqrt(a * a + 8 * over)) / 4
        if delta > 1e-299:
            assert_rounded_up(answer, 2 * mp.exp(-(root**2)), hair * (1 + root**2))
        else:
            assert answer == 1e-300
    for delta in (0.4, 1e-5):
        log = mp.log(2 / (decimal(delta) - rare))
        assert_epsilon(law, bag_size, delta, kappa**2 + a * kappa * mp.sqrt(log) + 2 * kappa * log)


def test_what_is_rare_is_taken_from_delta_first():
    law, rare = Theorem3((0.0, 1e-3), 0.5), rare3(0.5, 900, 1)
    assert 1e-4 < rare < 1e-2
    kappa = mp.mpf("2e-3") / (mp.sqrt(mp.mpf("0.5")) * mp.mpf(900) ** 0.25)
    delta = float(2 * rare)
    log = mp.log(2 / (mp.mpf(delta) - rare))
    true = kappa * (kappa + (2 + 2 * mp.sqrt(2)) * mp.sqrt(log) + 2 * log)
    assert_epsilon(law, 900, delta, true)
    assert rare < law.least_delta(900, 50.0) < rare * (1 + mp.mpf("1e-12"))
    assert law.least_epsilon(900, float(rare)) == math.inf


@pytest.mark.parametrize("first", [0.9, 1.05, 1.6, 1.95])
def test_a_delta_of_theorem_3_is_below_one_or_one(first):
    law = Theorem3(LABELS, 1.0, 3, 40.0)
    kappa, log = kappa3(1.0, 10**8, 40.0), mp.log(2 / mp.mpf(first))
    epsilon = float(kappa * (kappa + (2 + 2 * mp.sqrt(2)) * mp.sqrt(log) + 2 * log))
    assert law.least_delta(10**8, epsilon) == pytest.approx(min(1.0, first), rel=1e-9)


def test_theorem_3_needs_a_kappa_of_at_most_one_half():
    """4B_Y = 8 at k = 16: κ is ½ at a deviation of 8, to the hair that it is rounded up by."""
    assert Theorem3((-2.0, 2.0), 1.0, 1, 8.0 * (1 + 1e-12)).kappa(16) <= 0.5
    law = Theorem3((-2.0, 2.0), 1.0, 1, 4.0)
    assert law.least_delta(16, 1.0) == 1.0
    assert law.least_epsilon(16, 0.5) == math.inf


def test_theorem_3_refuses_what_cannot_be():
    law = Theorem3((0.0, 1.0), 1.0)
    assert (law.bags, law.noise_std) == (1, 1.0)
    for labels, fraction, bags, std in [
        ((1.0, 0.0), 1.0, 1, 1.0),
        ((0.0, 1.0), 0.0, 1, 1.0),
        ((0.0, 1.0), 1.001, 1, 1.0),
        ((0.0, 1.0), 1.0, 0, 1.0),
        ((0.0, 1.0), 1.0, 1, 0.0),
    ]:
        with pytest.raises(InputError):
            Theorem3(labels, fraction, bags, std)
    for asked in (law.least_delta, law.least_epsilon):
        for question in ((0, 0.5), (10**12, 0.0)):
            with pytest.raises(InputError):
                asked(*question)
