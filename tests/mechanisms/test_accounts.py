"""What `labeldp account` answers from public quantities, against the laws themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest

from labeldp import InputError
from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from labeldp.accounting.weighted_bags import RandomWeightsProfile
from labeldp.mechanisms.options import AccountQuestion
from labeldp.mechanisms.registry import mechanism_named
from tests.mechanisms.cases import EVERY, FLAG, NOISY, SAMPLED, SHAPED


def ask(name: str, **asked: Any) -> dict[str, Any]:
    given = {"rows": 1000, "label_range": (0.0, 4.0), "epsilon": 1.0, "delta": 1e-5}
    return mechanism_named(name).account(AccountQuestion(**given | asked))


def mu() -> float:
    return calibrate(GaussianProfile(3.0), "mu", 1.0, 1e-5)


def test_shaped_noise_has_the_deviation_of_its_budget() -> None:
    answer = ask(SHAPED, residual_share=0.25, features=8, noise="gaussian")
    assert answer["noise_law"] == "gaussian"
    assert answer["noise_std"] == pytest.approx(4 / (mu() * math.sqrt(0.75)), rel=1e-8)
    assert answer["second_moment_noise_std"] == pytest.approx(4 / (mu() * 0.5), rel=1e-8)
    pure = ask(SHAPED, residual_share=0.25, delta=0.0, features=8)
    assert pure["noise_law"] == "radial"
    assert pure["noise_std"] == pytest.approx(3 * 4 / 0.75, rel=1e-8)
    assert pure["least_error"] == pytest.approx(pure["noise_std"] * 8 / 1000)
    known = ask(SHAPED, features=8, max_leverage=0.02, noise="gaussian")
    assert known["isotropic_error"] == pytest.approx(known["noise_std"] * math.sqrt(0.16 / 1000))


def test_noisy_rows_answer_for_both_laws() -> None:
    answer = ask(EVERY, features=10)
    assert answer["law"] == "laplace"
    assert answer["noise_std"] == answer["laplace_std"] == pytest.approx(math.sqrt(2) * 4)
    assert answer["gaussian_std"] == pytest.approx(4 / mu(), rel=1e-8)
    assert answer["added_error"] == pytest.approx(answer["noise_std"] * 0.1)
    assert ask(EVERY, delta=0.0)["gaussian_std"] is None
    many = ask(EVERY, person_rows=9)
    assert many["laplace_std"] == pytest.approx(9 * answer["laplace_std"])
    assert many["gaussian_std"] == pytest.approx(3 * answer["gaussian_std"])


def test_most_aggregates_and_the_cost_of_some() -> None:
    asked = {"rows": 10**6, "residual_ms": 3.0}
    answer = ask(FLAG, **asked)["accountants"]
    assert list(answer) == ["exact-worst-case"]
    facts = DatasetBounds(10**6, (0.0, 4.0), None, None, True)
    most = calibrate(SketchProfile(facts, 5, 3e6), "bags", 1.0, 1e-5)
    assert answer["exact-worst-case"] == {"max_bags": most}
    known = ask(FLAG, **asked, max_leverage=2e-5, features=10)["accountants"]
    assert known["exact"]["max_bags"] > most > 0
    profile = SketchProfile(facts, 7, 3e6)
    cost = ask(FLAG, **asked, bags=7)["accountants"]["exact-worst-case"]
    assert cost == {"epsilon": epsilon_at(profile, 1e-5), "delta": profile.delta(1.0).upper}
    none = ask(FLAG, residual_ms=0.004)["accountants"]["exact-worst-case"]
    assert none["max_bags"] == 0
    assert none["reason"].startswith("one label can move the residual norm by 4, and the floor on")


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        (SHAPED, {}, "^`features` is needed for this mechanism"),
        (FLAG, {}, "^`residual_ms` is needed"),
        (FLAG, {"residual_ms": 3.0, "max_leverage": 0.02}, "`features` is needed"),
        (SAMPLED, {"residual_ms": 3.0}, "^`bag_size` is needed"),
        (
            SAMPLED,
            {"residual_ms": 3.0, "bag_size": 9, "max_leverage": 0.9},
            "`features` is needed",
        ),
        (SAMPLED, {"residual_ms": 3.0, "features": 5, "bag_size": 5}, "determine their labels"),
        (SAMPLED, {"residual_ms": 3.0, "bags": 11, "bag_size": 100}, "ask for fewer or smaller"),
        (NOISY, {"noise_std": 1.0}, "^`noisy_fraction` is needed"),
        (NOISY, {"noisy_fraction": 1.0}, "^`noise_std` is needed"),
        (NOISY, {"noisy_fraction": 1.0, "noise_std": 1.0}, "^`bag_size` is needed"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    name: str, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        ask(name, **asked)


def test_a_bag_with_a_known_leverage() -> None:
    given = {"residual_ms": 3.0, "features": 5, "bag_size": 100, "bags": 10}
    answer = ask(SAMPLED, **given, max_leverage=0.2)["accountants"]
    for name, known in (("exact", 0.2), ("exact-worst-case", None)):
        profile = SketchProfile(DatasetBounds(100, (0.0, 4.0), 5, known, True), 1, 300.0)
        assert answer[name]["conditional"]["delta"] == profile.delta(1.0).upper
    assert list(ask(SAMPLED, **given)["accountants"]) == ["exact-worst-case"]


def test_noisy_bags_before_and_after_the_draw() -> None:
    given = {"noisy_fraction": 1.0, "bag_size": 16}
    narrow = ask(NOISY, **given, noise_std=1.0, label_range=(-1.0, 1.0))["accountants"]["exact"]
    profile = RandomWeightsProfile(16, (-1.0, 1.0), 1.0)
    assert narrow["a_priori"]["conditional"]["delta"] == profile.delta(1.0).upper
    assert narrow["realised"] == {"target_mu": pytest.approx(mu(), rel=1e-9)}
