"""Budgets that are kept and mean little: noted where they are decided, published and verified."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from labeldp import verify
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.release.certificate import best_guess, weaknesses
from tests.console import labeldp
from tests.plans import plan
from tests.tables import source

SOUND: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "rows": 1000}


def reasons(true_positive_rate: float = 0.01, advantage: float = 0.1, **changed: Any) -> list[str]:
    facts = SOUND | changed
    return list(
        weaknesses(**facts, curve=[[0.0, advantage]], true_positive_rate=true_positive_rate)
    )


def test_an_ordinary_budget_is_not_weak() -> None:
    assert reasons() == []
    assert reasons(epsilon=10.0, delta=1e-4) == [], "at the limits"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"delta": 1.1e-4}, "δ times rows is 0.11"),
        ({"rows": 200_000}, "take δ below 5e-07"),
        ({"epsilon": 10.5}, "ε = 10.5 is above 10"),
        ({"advantage": 0.95}, "97.5%"),
        ({"true_positive_rate": 0.91}, "nearly certain"),
    ],
)
def test_each_weakness_is_named(changed: dict[str, Any], words: str) -> None:
    (reason,) = reasons(**changed)
    assert words in reason


def test_the_success_told_is_that_of_the_best_test() -> None:
    """Two normals μ apart are told apart with probability Φ(μ/2), however one tries."""
    from scipy.stats import norm

    (reason,) = reasons(advantage=GaussianProfile(4.0).delta(0.0).upper)
    assert f"{norm.cdf(2.0):.1%}" in reason


def test_every_point_of_a_curve_bounds_the_best_guess() -> None:
    """A theorem may promise nothing at ε = 0; the least bound counts, and 1-private labels hide."""
    assert best_guess([[0.0, 1.0], [1.0, 1e-6]]) == pytest.approx(math.e / (1 + math.e), abs=1e-6)
    assert best_guess([[0.0, 0.1], [50.0, 0.0]]) == pytest.approx(0.55)
    curve = [[e / 10, GaussianProfile(1.0).delta(e / 10).upper] for e in range(40)]
    assert best_guess(curve) == pytest.approx(best_guess(curve[:1]), rel=1e-9), "ε = 0 is exact"


def test_a_weak_release_is_valid_but_weak(tmp_path: Path) -> None:
    rows = source(500)
    for name, epsilon in (("weak", 30.0), ("sound", 5.0)):
        made = plan(rows, epsilon=epsilon, delta=1e-6, mechanism="shaped-flag")
        made.release_to(tmp_path / name, rows)
    report = verify(tmp_path / "weak")
    assert report.valid
    assert len(report.weak) == 2
    assert verify(tmp_path / "sound").weak == ()
    shown = labeldp("verify", tmp_path / "weak")
    assert shown.code == 0
    assert "is valid, but weak:" in shown.out
    assert "ε = 30 is above 10" in shown.out
    assert labeldp("verify", tmp_path / "weak", "--json").json["weak"] == list(report.weak)
    assert "is valid: " in labeldp("verify", tmp_path / "sound").out
