"""Theorem 1 of the paper: its table, and its conditions in 50 digits: every answer is the truth,
rounded up by a hair, and every condition holds on its own side of the line only."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import pytest

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.privacy_profile import NO_GUARANTEE, Bounds, NonPrivate
from labeldp.accounting.theorem1 import Theorem1, exact, log_ratio
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


# --- the paper's table and what it lacks ---------------------------------------------------------

CENSUS = (131_903_910, (0.0, 51.0), 64.22)


@pytest.mark.parametrize(
    ("epsilon", "bags"), [(1, 247), (2, 988), (4, 3953), (6, 8894), (10, 24_706)]
)
def test_table_1_census(epsilon, bags):
    assert Theorem1(*CENSUS).max_bags(epsilon, 1e-8) == bags


def test_criteo_lacks_rows_and_says_how_many():
    with pytest.raises(PlanError, match="has 1,732,721") as refusal:
        Theorem1(1_732_721, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5)
    rows = int(str(refusal.value).split("needs ")[1].split(" rows")[0].replace(",", ""))
    assert 6_400_000 < rows < 6_600_000
    assert Theorem1(rows, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5) > 0
    with pytest.raises(PlanError):
        Theorem1(rows - 1, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5)


def test_floor_at_an_exact_integer_neither_gains_nor_loses():
    """εγn/160B² is an exact integer of decimals here; in floats 0.03·32.8·… falls short."""
    for tenth in range(300, 400):  # εγn/160B² = 300ε with the minimum at 1
        epsilon = tenth / 10
        answer = Theorem1(1_600_000, (0.0, 2.0), 0.03).max_bags(epsilon, 0.5)
        assert answer == 30 * tenth


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
