"""The paper's theorems against their conditions in 50 digits: every answer is the truth, rounded
up by a hair, and every condition holds on its own side of the line only."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import pytest

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.privacy_profile import NO_GUARANTEE, Bounds, NonPrivate
from labeldp.accounting.theorems import Theorem1, Theorem2, Theorem3, exact, log_ratio
from labeldp.errors import InputError, PlanError

C0 = mp.mpf("0.145")
LABELS = (-1.0, 4.0)
WIDTH = mp.mpf(5)


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


def delta_at(law, epsilon):
    return law.delta(epsilon).upper


def decimal(number):
    return mp.mpf(repr(float(number)))


def assert_rounded_up(got, true, hair):
    """Above the truth by about `hair`, which is far above what rounding may cost."""
    over = mp.mpf(got) / true - 1
    assert 0.6 * hair < over < 1.4 * hair


def assert_epsilon(law, delta, true):
    """The smallest ε that is found passes, and is above the truth by its last digits only."""
    found = epsilon_at(law, delta)
    assert delta_at(law, found) <= delta
    assert true <= found <= true * (1 + mp.mpf("1e-12")) + mp.mpf("1e-12")


def test_decimals_are_read_as_written():
    assert exact(64.22) == Fraction(6422, 100)
    assert exact(1e-9) == Fraction(1, 10**9)
    for numerator, delta in [(2, 1e-5), (4, 0.3), (42, 1e-300)]:
        got = log_ratio(numerator, delta)
        with mp.workdps(70):
            true = mp.log(numerator / decimal(delta))
            assert 0 < mp.mpf(got.numerator) / got.denominator - true < 3e-49 * true
    for delta in (0.0, 1.0):
        with pytest.raises(InputError, match="delta"):
            log_ratio(2, delta)


# --- Theorem 1 -----------------------------------------------------------------------------------

FIRST = [
    (2_000, 3.5, 1, 0.7),
    (2_000, 3.5, 20, 6.0),
    (10**6, 0.3, 40, 1.0),
    (10**8, 64.22, 9, 0.4),
    (10**8, 64.22, 9, 40.0),
]


def ratio1(rows, ms):
    return decimal(ms) * rows / (WIDTH / 2) ** 2


@pytest.mark.parametrize(("rows", "ms", "bags", "epsilon"), FIRST)
def test_theorem_1_has_the_least_delta_of_its_two_conditions(rows, ms, bags, epsilon):
    """n ≥ 16B²/γ·25ln²(2/δ)/(c0²ε²) and m ≤ εγn/160B²·2c0ε/(5ln(2/δ)), solved for δ."""
    ratio, eps = ratio1(rows, ms), decimal(epsilon)
    by_rows = C0 * eps * mp.sqrt(ratio / 400)
    by_bags = eps * ratio / 160 * 2 * C0 * eps / (5 * bags)
    log = min(by_rows, by_bags)
    law = Theorem1(rows, LABELS, ms, bags)
    if 2 * mp.exp(-log) >= 1:
        assert law.delta(epsilon) == Bounds(1.0, 1.0, 1.0)
    elif log > 600:
        assert delta_at(law, epsilon) == 1e-300
    else:
        assert_rounded_up(delta_at(law, epsilon), 2 * mp.exp(-log), 1e-14 * (1 + log))
        assert law.delta(epsilon).upper == law.delta(epsilon).lower


@pytest.mark.parametrize(("rows", "ms", "bags", "epsilon"), FIRST)
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-40])
def test_theorem_1_has_the_least_epsilon_and_the_most_bags(rows, ms, bags, epsilon, delta):
    ratio, log, eps = ratio1(rows, ms), mp.log(2 / decimal(delta)), decimal(epsilon)
    true = max(
        20 * log / (C0 * mp.sqrt(ratio)),
        160 * bags / ratio,
        mp.sqrt(400 * bags * log / (C0 * ratio)),
    )
    law = Theorem1(rows, LABELS, ms, bags)
    assert_epsilon(law, delta, true)
    most = ask(law.max_bags, epsilon, delta)
    wanted = max(mp.mpf(16), 400 * (log / (C0 * eps)) ** 2)
    if ratio < wanted:
        needed = int(mp.ceil(wanted * rows / ratio))
        assert most.value is None
        assert most.reason == f"Theorem 1 needs {needed:,} rows here and has {rows:,}"
    else:
        factor = min(mp.mpf(1), 2 * C0 * eps / (5 * log))
        assert most.value == int(mp.floor(eps * ratio / 160 * factor))
        assert calibrate(law, "bags", epsilon, delta) == most.value


def test_theorem_1_loses_no_bag_and_gains_none_where_the_number_is_whole():
    """γn/B² = 320 at ε = 100: 200 bags to the digit, which binary fractions may miss."""
    law = Theorem1(800, (0.0, 0.2), 0.004)
    assert law.max_bags(100.0, 0.01) == 200
    assert Theorem1(800, (0.0, 0.2), 0.00399999).max_bags(100.0, 0.01) == 199
    assert delta_at(law.with_parameter("bags", 200), 100.0) < 1.0
    assert delta_at(law.with_parameter("bags", 201), 100.0) == 1.0


def test_theorem_1_has_an_epsilon_that_bags_alone_set():
    """160m ≤ ε·γn/B², where δ is large enough to ask for less."""
    law = Theorem1(800, (0.0, 0.2), 0.004, 200)
    assert_epsilon(law, 0.9, mp.mpf(100))
    assert_epsilon(law.with_parameter("bags", 100), 0.9, mp.mpf(50))


def test_theorem_1_needs_sixteen_in_any_case():
    enough, short = Theorem1(16, (-1.0, 1.0), 1.0), Theorem1(15, (-1.0, 1.0), 1.0)
    assert delta_at(enough, 100.0) == pytest.approx(2 * math.exp(-0.145 * 20), rel=1e-12)
    assert 0.0 < epsilon_at(enough, 0.5) < math.inf
    refused = ask(short.max_bags, 100.0, 0.5)
    assert not refused.value
    assert refused.reason == "Theorem 1 needs 16 rows here and has 15"
    assert short.delta(100.0).upper == 1.0
    assert epsilon_at(short, 0.5) == math.inf
    assert calibrate(short, "bags", 100.0, 0.5) == 0


def test_theorem_1_promises_nothing_where_epsilon_is_not_above_zero():
    law = Theorem1(10**9, LABELS, 64.0)
    assert law.delta(0.0) is law.delta(-1.0) is NO_GUARANTEE
    assert law.delta(1e-9) is NO_GUARANTEE
    assert law.delta(1e-3).upper < 1.0
    with pytest.raises(InputError, match="epsilon"):
        law.max_bags(0.0, 0.5)


def test_theorem_1_refuses_what_is_no_table():
    assert Theorem1(1, (0.0, 1.0), 1e-9, 1).bags == 1
    assert Theorem1(5, (0.0, 1.0), 1.0).bags == 1
    for rows, labels, ms, bags in [
        (0, (0.0, 1.0), 1.0, 1),
        (5, (0.0, 1.0), 0.0, 1),
        (5, (1.0, 1.0), 1.0, 1),
        (5, (0.0, 1.0), 1.0, 0),
    ]:
        with pytest.raises(InputError):
            Theorem1(rows, labels, ms, bags)


def test_each_of_several_steps_of_theorem_1_has_what_the_others_left_of_the_floor():
    """‖residual‖ = 12 may fall by Δ = 5 with every label but one."""
    law = Theorem1(9, LABELS, 16.0)
    assert law.step(1).residual_ms == pytest.approx(16.0, rel=1e-15)
    for steps, left in ((2, 49.0 / 9), (3, 4.0 / 9)):
        assert 0.0 < 1 - law.step(steps).residual_ms / left < 2e-14
    assert isinstance(law.step(4), NonPrivate)
    assert isinstance(Theorem1(1, (0.0, 5.0), 25.0).step(2), NonPrivate)


def test_the_least_floor_of_theorem_1_is_the_least():
    """At ε = 100 one bag needs sixteen times B², and δ the rest."""
    for labels in (LABELS, (1.0, 4.0), (0.0, 1e-8), (0.0, 1e8), (1e6, 1e6 + 1)):
        half = (labels[1] - labels[0]) / 2
        found = calibrate(Theorem1(1000, labels, 1.0), "floor", 100.0, 0.5)
        assert found == pytest.approx(16 * half**2, rel=1e-8, abs=0.0)
        assert found >= 16 * half**2
        found = calibrate(Theorem1(1000, labels, 1.0), "floor", 1.0, 1e-5)
        assert found == pytest.approx(
            float((20 * mp.log(mp.mpf("2e5")) / C0) ** 2) * half**2, rel=1e-8, abs=0.0
        )
    with pytest.raises(InputError, match="Theorem1 has no parameter 'rows' to solve for"):
        Theorem1(1000, LABELS, 1.0).parameter_search("rows", 1.0, 0.1)
    assert Theorem1(1000, LABELS, 1.0).with_parameter("floor", 500.0).residual_ms == 0.5


# --- Theorem 2 -----------------------------------------------------------------------------------

LAMBDA, BOUND, FEATURES = 0.7, 1.5, 3
LABELS2, SQUARE = (-1.0, 2.0), mp.mpf("2.25")


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


def theorem2(rows, bag_size=2):
    return Theorem2(rows, LABELS2, LAMBDA, BOUND, FEATURES, bag_size)


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
        assert delta_at(theorem2(rows, size), epsilon) <= delta * (1 + 1e-9)
        assert delta_at(theorem2(rows, size - 1), epsilon) > delta


@pytest.mark.parametrize("bag_size", [200, 2_000, 2_057, 2_058, 20_000, 10**6, 10**8])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 9.9])
def test_theorem_2_has_the_least_delta_and_epsilon(bag_size, epsilon):
    rows = 10**10
    law, both = theorem2(rows, bag_size), SQUARE + mp.mpf("2.25")
    q = (rows - 1) / (rows * decimal(LAMBDA) - both)
    share, eps = q * SQUARE / bag_size, decimal(epsilon)
    if bag_size < 640 * SQUARE * q / eps:
        assert law.delta(epsilon) == Bounds(1.0, 1.0, 1.0)
        return
    by_labels = mp.log(4) - C0 * eps / (40 * mp.sqrt(share))
    by_rows = mp.log(2 * FEATURES + 2) - (bag_size - 1) * (1 - mp.log(2)) / (2 * q * both)
    log = max(by_labels, by_rows)
    if log >= 0:
        assert law.delta(epsilon) == Bounds(1.0, 1.0, 1.0)
    else:
        assert_rounded_up(delta_at(law, epsilon), mp.exp(log), 1e-13 * (1 - log))
    for delta in (0.3, 1e-6):
        true = max(640 * share, 40 * mp.sqrt(share) * mp.log(4 / decimal(delta)) / C0)
        if true > 10:
            assert epsilon_at(law, delta) == math.inf
        else:
            assert_epsilon(law, delta, true)


def test_a_delta_of_theorem_2_is_below_one_or_none():
    """4·e^{−c0·ε/(40√(B_Y²q/k))} is 1 at ε = 0.6856."""
    law = theorem2(10**10, 10**6)
    assert delta_at(law, 0.68) == delta_at(law, 0.50) == 1.0
    assert 0.9 < delta_at(law, 0.69) < 1.0
    assert delta_at(theorem2(10**10, 3 * 10**9), 9.9) == 1e-300


def test_a_bag_of_theorem_2_has_two_rows_at_least():
    law = Theorem2(100, (0.0, 1e-3), 1e6, 1.0, 1, 1)
    assert delta_at(law, 1.0) == 1.0
    assert epsilon_at(law, 0.1) == math.inf
    assert delta_at(law.with_parameter("bag_size", 2), 1.0) < 1e-9
    assert epsilon_at(law.with_parameter("bag_size", 2), 0.1) < 1.0
    assert law.min_bag_size(1.0, 0.1) == 2


def test_a_spectrum_that_rows_decide_sets_delta_and_epsilon():
    """Many features: the matrix bound is what binds, not the labels."""
    law = Theorem2(10**6, (-0.01, 0.01), 0.7, BOUND, 50, 600)
    both = mp.mpf("0.0001") + mp.mpf("2.25")
    unit = 2 * (10**6 - 1) * both / (10**6 * decimal(0.7) - both) / (1 - mp.log(2))
    true = 102 * mp.exp(-599 / unit)
    assert_rounded_up(delta_at(law, 8.0), true, 1e-13 * (1 - mp.log(true)))
    least = int(mp.ceil(1 + unit * mp.log(102 / decimal(1e-9))))
    assert least < 600
    assert epsilon_at(law.with_parameter("bag_size", least - 1), 1e-9) == math.inf
    assert 0.0 < epsilon_at(law.with_parameter("bag_size", least), 1e-9) < 10.0


def test_theorem_2_needs_an_eigenvalue_above_what_a_row_may_move():
    """nλ* against B_Y² + B_X² = 2.25 + 4: at the line it says nothing, above it something."""
    at, above = (Theorem2(10, (-1.0, 2.0), ms, 2.0, 3) for ms in (0.625, 0.6251))
    reason = "Theorem 2 needs rows times the smallest eigenvalue, 6.25, above B_Y² + B_X² = 6.25"
    q = Fraction(9) / (Fraction(6251, 1000) - Fraction(625, 100))
    assert above.units()[0] == q * Fraction(9, 4)
    assert ask(at.min_bag_size, 1.0, 0.1).reason == ask(at.terms, 1.0, 0.1).reason == reason
    assert at.delta(1.0).upper == 1.0
    assert epsilon_at(at, 0.1) == math.inf


def test_theorem_2_speaks_of_an_epsilon_up_to_ten():
    law = theorem2(10**10, 10**8)
    assert law.delta(1e-9) is NO_GUARANTEE
    assert delta_at(law, 10.0) < 1.0
    assert law.min_bag_size(10.0, 1e-5) > 2
    refused = ask(law.min_bag_size, 10.5, 1e-5)
    assert refused.value is None
    assert refused.reason == "Theorem 2 needs epsilon at most 10, not 10.5"
    assert delta_at(law, 10.5) == delta_at(law, 0.0) == delta_at(law, -1.0) == 1.0
    with pytest.raises(InputError, match="`epsilon`"):
        law.min_bag_size(0.0, 0.5)


def test_a_bag_of_theorem_2_may_be_the_whole_table():
    size = theorem2(10**10).min_bag_size(10.0, 1e-5)
    shrunk = next(
        law
        for law in (theorem2(rows) for rows in range(int(size), 2 * int(size)))
        if ask(law.min_bag_size, 10.0, 1e-5).value is not None
    )
    assert shrunk.min_bag_size(10.0, 1e-5) == shrunk.rows


def test_theorem_2_refuses_what_is_no_table():
    assert Theorem2(2, (0.0, 1.0), 1.0, 1.0, 1).bag_size == 2
    for rows, labels, eigenvalue, bound, features in [
        (1, (0.0, 1.0), 1.0, 1.0, 1),
        (2, (1.0, 0.0), 1.0, 1.0, 1),
        (2, (0.0, 1.0), 0.0, 1.0, 1),
        (2, (0.0, 1.0), 1.0, 0.0, 1),
        (2, (0.0, 1.0), 1.0, 1.0, 0),
    ]:
        with pytest.raises(InputError):
            Theorem2(rows, labels, eigenvalue, bound, features)


def test_each_of_several_steps_of_theorem_2_has_what_the_others_left():
    """σ_min = 12 may fall by Δ = 3 with every label but one."""
    law = Theorem2(9, LABELS2, 16.0, BOUND, FEATURES)
    assert law.step(1).min_eigenvalue == pytest.approx(16.0, rel=1e-15)
    for steps, left in ((3, 4.0), (4, 1.0)):
        assert 0.0 < 1 - law.step(steps).min_eigenvalue / left < 2e-14
    assert isinstance(law.step(5), NonPrivate)
    assert isinstance(law.step(6), NonPrivate)


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

THIRD = [(1.0, 10**8, 3, 40.0), (0.25, 10**7, 1, 300.0), (0.02, 4 * 10**6, 7, 900.0)]


def kappa3(fraction, bag_size, std):
    return 2 * WIDTH / (decimal(std) * mp.sqrt(decimal(fraction)) * mp.mpf(bag_size) ** 0.25)


def rare3(fraction, bag_size, bags):
    rho, k = decimal(fraction), mp.mpf(bag_size)
    little = mp.exp(-rho * k * (2 * mp.log(2) - 1) / 8)
    return bags * (
        little + mp.exp(-(rho**2) * k / 2) + k * mp.sqrt(2 / mp.pi) * mp.exp(-mp.sqrt(k) / 2)
    )


@pytest.mark.parametrize(
    ("fraction", "bag_size", "bags"),
    [(1.0, 40, 1), (0.1, 900, 3), (0.02, 4000, 2), (1e-3, 10**4, 1)],
)
def test_what_is_rare_under_theorem_3(fraction, bag_size, bags):
    law = Theorem3(LABELS, fraction, bag_size, bags)
    assert_rounded_up(law.rare, rare3(fraction, bag_size, bags), 1e-13)


@pytest.mark.parametrize(("fraction", "bag_size", "bags", "std"), THIRD)
@pytest.mark.parametrize("epsilon", [1e-3, 0.02, 0.5, 3.0])
def test_theorem_3_is_what_its_proof_says(fraction, bag_size, bags, std, epsilon):
    """ε = κ² + (2+2√2)κ√l + 2κl with l = ln(2/δ1), solved for l, and δ = δ1 + what is rare."""
    law = Theorem3(LABELS, fraction, bag_size, bags, std)
    kappa, rare = kappa3(fraction, bag_size, std), rare3(fraction, bag_size, bags)
    assert kappa < 0.5
    assert_rounded_up(law.kappa, kappa, 1e-13)
    a, hair = 2 + 2 * mp.sqrt(2), mp.mpf("1e-13")
    over = decimal(epsilon) / kappa - kappa
    root = (-a + mp.sqrt(a * a + 8 * over)) / 4 if over > 0 else mp.mpf(0)
    delta = 2 * mp.exp(-(root**2)) + rare
    answer = delta_at(law, epsilon)
    if delta >= 1:
        assert law.delta(epsilon) == Bounds(1.0, 1.0, 1.0)
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
        assert_epsilon(law, delta, kappa**2 + a * kappa * mp.sqrt(log) + 2 * kappa * log)


def test_what_is_rare_is_taken_from_delta_first():
    law = Theorem3((0.0, 1e-3), 0.5, 900, 1)
    rare = rare3(0.5, 900, 1)
    assert 1e-4 < rare < 1e-2
    kappa = mp.mpf("2e-3") / (mp.sqrt(mp.mpf("0.5")) * mp.mpf(900) ** 0.25)
    delta = float(2 * rare)
    log = mp.log(2 / (mp.mpf(delta) - rare))
    true = kappa * (kappa + (2 + 2 * mp.sqrt(2)) * mp.sqrt(log) + 2 * log)
    assert_epsilon(law, delta, true)
    assert rare < delta_at(law, 50.0) < rare * (1 + mp.mpf("1e-12"))
    assert epsilon_at(law, float(rare)) == math.inf


@pytest.mark.parametrize("first", [0.9, 1.05, 1.6, 1.95])
def test_a_delta_of_theorem_3_is_below_one_or_none(first):
    law = Theorem3(LABELS, 1.0, 10**8, 3, 40.0)
    kappa, log = kappa3(1.0, 10**8, 40.0), mp.log(2 / mp.mpf(first))
    epsilon = float(kappa * (kappa + (2 + 2 * mp.sqrt(2)) * mp.sqrt(log) + 2 * log))
    assert delta_at(law, epsilon) == pytest.approx(min(1.0, first), rel=1e-9)


def test_theorem_3_needs_a_kappa_of_at_most_one_half():
    """4B_Y = 8 at k = 16: κ is ½ at a deviation of 8, to the hair that it is rounded up by."""
    assert Theorem3((-2.0, 2.0), 1.0, 16, 1, 8.0 * (1 + 1e-12)).kappa <= 0.5
    law = Theorem3((-2.0, 2.0), 1.0, 16, 1, 4.0)
    assert law.delta(1.0).upper == 1.0
    assert epsilon_at(law, 0.5) == math.inf


def test_theorem_3_refuses_what_cannot_be():
    law = Theorem3((0.0, 1.0), 1.0)
    assert (law.bag_size, law.bags, law.noise_std) == (1, 1, 1.0)
    assert law.delta(0.0).upper == law.delta(-1.0).upper == 1.0
    for labels, fraction, size, bags, std in [
        ((1.0, 0.0), 1.0, 1, 1, 1.0),
        ((0.0, 1.0), 0.0, 1, 1, 1.0),
        ((0.0, 1.0), 1.001, 1, 1, 1.0),
        ((0.0, 1.0), 1.0, 0, 1, 1.0),
        ((0.0, 1.0), 1.0, 1, 0, 1.0),
        ((0.0, 1.0), 1.0, 1, 1, 0.0),
    ]:
        with pytest.raises(InputError):
            Theorem3(labels, fraction, size, bags, std)


@pytest.mark.parametrize("labels", [(1.0, 4.0), (-1.0, 2.0)])
def test_theorem_3_finds_the_least_noise_whatever_its_size(labels):
    small = Theorem3(labels, 1.0, 10**12)
    found = calibrate(small, "noise_std", 100.0, 0.5)
    assert delta_at(small.with_parameter("noise_std", found), 100.0) <= 0.5
    assert delta_at(small.with_parameter("noise_std", found * (1 - 1e-8)), 100.0) > 0.5
    assert found == pytest.approx(2 * 3 * 2 / 1e3, rel=1e-9)  # κ = ½
    large = calibrate(Theorem3(labels, 1.0, 10**4), "noise_std", 1e-5, 1e-10)
    assert 1e5 < large < 3e9
