"""Theorem 1 of the paper: its table, and its conditions in 50 digits: every answer is the truth,
rounded up by a hair, and every condition holds on its own side of the line only."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import pytest

from labeldp.errors import InputError, PlanError
from labeldp_paper.theory.privacy import Theorem1, exact, log_ratio

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


def decimal(number):
    return mp.mpf(repr(float(number)))


def assert_rounded_up(got, true, hair):
    """Above the truth by about `hair`, which is far above what rounding may cost."""
    over = mp.mpf(got) / true - 1
    assert 0.6 * hair < over < 1.4 * hair


def assert_epsilon(law, delta, true):
    """The smallest ε passes, and is above the truth by its last digits only."""
    found = law.least_epsilon(delta)
    assert law.least_delta(found) <= delta * (1 + 1e-11)
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
        assert law.least_delta(epsilon) == 1.0
    elif log > 600:
        assert law.least_delta(epsilon) == 1e-300
    else:
        assert_rounded_up(law.least_delta(epsilon), 2 * mp.exp(-log), 1e-13 * (1 + log))


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


def test_theorem_1_loses_no_bag_and_gains_none_where_the_number_is_whole():
    """γn/B² = 320 at ε = 100: 200 bags to the digit, which binary fractions may miss."""
    law = Theorem1(800, (0.0, 0.2), 0.004)
    assert law.max_bags(100.0, 0.01) == 200
    assert Theorem1(800, (0.0, 0.2), 0.00399999).max_bags(100.0, 0.01) == 199
    assert replace(law, bags=200).least_delta(100.0) < 1.0
    assert replace(law, bags=201).least_delta(100.0) == 1.0


def test_theorem_1_has_an_epsilon_that_bags_alone_set():
    """160m ≤ ε·γn/B², where δ is large enough to ask for less."""
    law = Theorem1(800, (0.0, 0.2), 0.004, 200)
    assert_epsilon(law, 0.9, mp.mpf(100))
    assert_epsilon(replace(law, bags=100), 0.9, mp.mpf(50))


def test_theorem_1_needs_sixteen_in_any_case():
    enough, short = Theorem1(16, (-1.0, 1.0), 1.0), Theorem1(15, (-1.0, 1.0), 1.0)
    assert enough.least_delta(100.0) == pytest.approx(2 * math.exp(-0.145 * 20), rel=1e-12)
    assert 0.0 < enough.least_epsilon(0.5) < math.inf
    refused = ask(short.max_bags, 100.0, 0.5)
    assert not refused.value
    assert refused.reason == "Theorem 1 needs 16 rows here and has 15"
    assert short.least_delta(100.0) == 1.0
    assert short.least_epsilon(0.5) == math.inf


def test_theorem_1_promises_nothing_where_epsilon_is_not_above_zero():
    law = Theorem1(10**9, LABELS, 64.0)
    assert law.least_delta(0.0) == law.least_delta(-1.0) == law.least_delta(1e-9) == 1.0
    assert law.least_delta(1e-3) < 1.0
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
