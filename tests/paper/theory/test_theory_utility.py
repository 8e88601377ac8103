"""The utility parts of the theorems: explicit formulas, vacuity, and simulated losses."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp_paper.theory.neural import NeuralClass
from labeldp_paper.theory.utility import (
    covering_number,
    theorem1_utility,
    theorem2_utility,
    theorem3_utility,
)

LINEAR = {
    "label_range": (-1.0, 1.0), "residual_ms": 0.5, "features": 3, "feature_bound": 1.0,
    "weight_bound": 0.5, "theta": 0.4,
}  # fmt: skip
CENSUS = (131_903_910, (0.0, 51.0), 64.22)


def test_theorem1_in_log_space():
    mp.mp.dps = 30
    utility = theorem1_utility(*CENSUS, 10**8, 40, 5.0, 3.0, 1.0)
    net = mp.mpf(192) * 10**16 * 131_903_910 * mp.mpf("40.5") ** 2 / mp.mpf("64.22")
    want = mp.log10(2) + 40 * mp.log10(net) - mp.mpf("0.145") * 10**8 / 256 / mp.log(10)
    assert utility.log10_failure == pytest.approx(float(want), rel=1e-12, abs=0.0)
    assert not utility.vacuous
    assert theorem1_utility(*CENSUS, 247, 40, 5.0, 3.0, 1.0).vacuous
    with pytest.raises(InputError, match="theta"):
        theorem1_utility(*CENSUS, 247, 40, 5.0, 3.0, 2.5)


def test_theorem2_against_its_formula():
    """k√(2/π)e^{−m²/2} + (1 + 48m²kB²/(ηγ))^d·2(e^{−2mkt²γ²/B⁴} + e^{−c0mt²γ²/B⁴})."""
    mp.mp.dps = 30
    for m, k in ((10, 5), (10**6, 100), (10**9, 3)):
        eta = mp.mpf("0.4") / mp.mpf("2.4")
        loss, step = mp.mpf("1.5"), eta / 12 * mp.mpf("0.5") / mp.mpf("2.25")
        net = (1 + 48 * mp.mpf(m) ** 2 * k * loss**2 / (eta * mp.mpf("0.5"))) ** 3
        each = 2 * (mp.exp(-2 * m * k * step**2) + mp.exp(-mp.mpf("0.145") * m * step**2))
        want = mp.log10(k * mp.sqrt(2 / mp.pi) * mp.exp(-(mp.mpf(m) ** 2) / 2) + net * each)
        assert theorem2_utility(m, k, **LINEAR).log10_failure == pytest.approx(float(want))


def test_theorem2_is_vacuous_until_there_are_very_many_bags():
    assert theorem2_utility(10**4, 1000, **LINEAR).vacuous
    assert not theorem2_utility(10**9, 1000, **LINEAR).vacuous
    larger = [theorem2_utility(10**9, 1000, **LINEAR | {"theta": t}) for t in (0.1, 0.2, 0.4)]
    assert [u.log10_failure for u in larger] == sorted(u.log10_failure for u in larger)[::-1]
    with pytest.raises(InputError, match="theta"):
        theorem2_utility(10, 10, **LINEAR | {"theta": 0.6})


def test_larger_bags_do_not_sharpen_what_m_aggregates_say():
    """The statement's e^{−Ω(mkθ²)} is refuted: the loss of m aggregates spreads as χ²_m does."""
    random, m = np.random.default_rng(7), 50
    spreads = []
    for k in (10, 1000):
        residuals = random.uniform(-1, 1, k)
        losses = ((random.standard_normal((2000, m, k)) @ residuals) ** 2).sum(1) if k < 100 else (
            (np.linalg.norm(residuals) * random.standard_normal((2000, m))) ** 2
        ).sum(1)  # fmt: skip
        spreads.append(losses.std() / losses.mean())
    assert spreads == pytest.approx([math.sqrt(2 / m)] * 2, rel=0.1)


NETWORK = NeuralClass(1.0, 2)
DEEP = {
    "noisy_fraction": 0.1, "loss_bound": NETWORK.loss_bound((-1.0, 1.0)), "weights": 20,
    "weight_norm": NETWORK.weight_norm, "lipschitz": NETWORK.lipschitz, "theta": 0.5,
}  # fmt: skip


def test_theorem3_is_vacuous_until_there_are_astronomically_many_bags():
    assert theorem3_utility(10**12, 10**6, 100, **DEEP).vacuous
    assert not theorem3_utility(10**28, 10**22, 100, **DEEP).vacuous
    small = theorem3_utility(10**28, 10**22, 100, **DEEP)
    more = theorem3_utility(10**30, 10**24, 100, **DEEP)
    assert more.log10_failure < small.log10_failure
    wider = theorem3_utility(10**28, 10**22, 100, **DEEP | {"theta": 1.0})
    assert wider.log10_failure < small.log10_failure
    with pytest.raises(InputError, match="noisy_fraction"):
        theorem3_utility(10**6, 10, 10, **DEEP | {"noisy_fraction": 1.5})
    with pytest.raises(InputError, match="more than"):
        theorem3_utility(99, 10, 10, **DEEP)


@pytest.mark.parametrize(("m", "k", "std"), [(10**6, 100, 1.0), (10**22, 100, 0.7), (10, 3, 2.0)])
def test_theorem3_against_its_formula(m, k, std):
    """Every step of the proof written out: rows, bags, noise in bags, weights, net."""
    n, c0, b = 10**6 * m, 0.145, DEEP["loss_bound"]
    rho, t, s2 = 0.1, DEEP["theta"] / 12, std**2
    cap = min(1.0, math.sqrt(2 / math.pi) * m**-0.125 * math.exp(-(m**0.25) / 2))
    always = [
        math.log(2) - c0 * min((t / 2 / s2) ** 2 * n / rho, t / 2 * n / s2),
        math.log(2 * m * k * cap) if cap else -math.inf,
        math.log(2) - 2 * m * k * (t / 9 / s2) ** 2,
        math.log(2) - c0 * m * k * min((t / 9 / s2) ** 2, t / 9 / s2),
        math.log(2) - c0 * min(m**0.5 * (t / 9 / s2) ** 2, m**0.75 * t / 9 / s2),
    ]
    each = [
        math.log(2) - n * t**2 / (32 * b * rho * s2),
        math.log(2) - 2 * m * k * (t / 6 / b) ** 2,
        math.log(2) - c0 * m * min((t / 6 / b) ** 2, t / 6 / b),
        math.log(2) - (t / 3) ** 2 * m**0.5 / (8 * s2 * k * b),
    ]
    level = math.sqrt(rho * (rho * s2 + t / 2))
    slope = 2 * DEEP["lipschitz"] * max(
        math.sqrt(b) + level, k * m**0.25 * (math.sqrt(b) + std * m**0.125)
    )  # fmt: skip
    net = 20 * math.log1p(2 * DEEP["weight_norm"] * slope / (DEEP["theta"] / 6))
    logs = [*always, *(net + log for log in each)]
    want = max(logs) + math.log(sum(math.exp(log - max(logs)) for log in logs))
    found = theorem3_utility(n, m, k, **DEEP, noise_std=std).log10_failure
    assert found == pytest.approx(want / math.log(10), rel=1e-9)


def test_theorem3_decomposition_is_what_it_bounds():
    """Bag loss and row loss of a fixed function agree in the mean: clean loss plus ρs²."""
    random, n, m, k, rho, std = np.random.default_rng(8), 400, 40, 10, 0.25, 0.8
    residual = random.uniform(-1, 1, n)
    noisy = np.arange(n) < rho * n
    bag_loss, row_loss = [], []
    for _ in range(1500):
        e = residual + np.where(noisy, std * random.standard_normal(n), 0.0)
        bags = random.permutation(n)[: m * k].reshape(m, k)
        bag_loss.append(np.mean((random.standard_normal((m, k)) * e[bags]).sum(1) ** 2) / k)
        row_loss.append(np.mean(e**2))
    want = np.mean(residual**2) + rho * std**2
    assert np.mean(bag_loss) == pytest.approx(want, rel=0.03)
    assert np.mean(row_loss) == pytest.approx(want, rel=0.01)


def test_covering_number():
    assert covering_number(3, 1.0, 0.5) == pytest.approx(3 * math.log(5))
    assert covering_number(3, 0.0, 0.5) == 0.0
    with pytest.raises(InputError, match="mesh"):
        covering_number(3, 1.0, 0.0)
