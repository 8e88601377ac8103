"""What `labeldp account` answers from public quantities, against the laws themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest

from labeldp import InputError
from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.sketch import ACCOUNTANTS, DatasetBounds, SketchProfile
from labeldp.accounting.weighted_bags import RandomWeightsProfile
from labeldp.mechanisms.options import AccountQuestion
from labeldp.mechanisms.registry import mechanism_named
from tests.mechanisms.cases import EVERY, FLAG, NOISY, SAMPLED, SHAPED


def ask(name: str, **asked: Any) -> dict[str, Any]:
    given = {"rows": 1000, "label_range": (0.0, 4.0), "epsilon": 1.0, "delta": 1e-5}
    return mechanism_named(name).account(AccountQuestion(**given | asked))


def mu() -> float:
    return calibrate(GaussianProfile(3.0), "mu", 1.0, 1e-5)


# --- shaped sums and noisy rows ------------------------------------------------------------


def test_shaped_noise_has_the_deviation_of_its_budget() -> None:
    found = ask(SHAPED, residual_share=0.25)
    assert (found["noise_law"], found["residual_share"]) == ("gaussian", 0.25)
    assert found["mu"] == pytest.approx(mu() * math.sqrt(0.75), rel=1e-8)
    assert found["aggregate_epsilon"] is None
    assert found["noise_std"] == pytest.approx(4 / found["mu"])
    assert found["residual_noise_std"] == pytest.approx(4 / (mu() * 0.5), rel=1e-8)
    assert "least_error" not in found
    pure = ask(SHAPED, residual_share=0.25, delta=0.0, features=8)
    assert (pure["noise_law"], pure["mu"]) == ("radial", None)
    assert pure["aggregate_epsilon"] == pytest.approx(0.75, rel=1e-8)
    assert pure["noise_std"] == pytest.approx(3 * 4 / 0.75, rel=1e-8)
    assert pure["least_error"] == pytest.approx(pure["noise_std"] * 8 / 1000)
    assert pure["isotropic_error"] is None
    known = ask(SHAPED, features=8, max_leverage=0.02, noise="gaussian")
    assert known["isotropic_error"] == pytest.approx(known["noise_std"] * math.sqrt(0.16 / 1000))
    with pytest.raises(InputError, match=r"^shaped-flag needs `features`$"):
        ask(SHAPED, delta=0.0)
    with pytest.raises(InputError, match=r"^shaped-flag needs `features`$"):
        ask(SHAPED, noise="radial")


def test_noisy_rows_tell_both_laws() -> None:
    found = ask(EVERY, features=10)
    assert found["law"] == "laplace"
    assert found["laplace_std"] == pytest.approx(math.sqrt(2) * 4)
    assert found["gaussian_std"] == pytest.approx(4 / mu(), rel=1e-8)
    assert found["noise_std"] == found["laplace_std"]
    assert found["added_error"] == pytest.approx(found["noise_std"] * 0.1)
    assert ask(EVERY, delta=0.0)["gaussian_std"] is None
    many = ask(EVERY, person_rows=9)
    assert many["laplace_std"] == pytest.approx(9 * found["laplace_std"])
    assert many["gaussian_std"] == pytest.approx(3 * found["gaussian_std"])


# --- sums of all rows ----------------------------------------------------------------------


def test_the_most_aggregates_or_the_price_of_so_many() -> None:
    found = ask(FLAG, rows=10**6, residual_ms=3.0)["accountants"]
    assert list(found) == ["paper", "exact-worst-case"]
    facts = DatasetBounds(10**6, (0.0, 4.0), None, None, True)
    most = calibrate(ACCOUNTANTS["exact-worst-case"](facts, 5, 3e6), "bags", 1.0, 1e-5)
    assert found["exact-worst-case"] == {"max_bags": most}
    assert most > 0
    known = ask(FLAG, rows=10**6, residual_ms=3.0, max_leverage=2e-5, features=10)["accountants"]
    assert known["exact"]["max_bags"] > most
    law = ACCOUNTANTS["exact-worst-case"](facts, 7, 3e6)
    priced = ask(FLAG, rows=10**6, residual_ms=3.0, bags=7)["accountants"]["exact-worst-case"]
    assert priced["epsilon"] == epsilon_at(law, 1e-5)
    assert priced["delta"] == law.delta(1.0).upper
    for one in ({"max_leverage": 0.02}, {"features": 10}):
        with pytest.raises(InputError, match=r"^`max_leverage` and `features` go together: give"):
            ask(FLAG, rows=10**6, residual_ms=3.0, **one)
    with pytest.raises(InputError, match=r"^wtd-flag needs `residual_ms`$"):
        ask(FLAG)


# --- bags ----------------------------------------------------------------------------------


def test_leverages_of_bags_go_with_what_they_need() -> None:
    given = {"residual_ms": 3.0, "features": 5}
    with pytest.raises(InputError, match=r"^`leverage_factor` and `max_leverage` need `features`$"):
        ask(SAMPLED, residual_ms=3.0, leverage_factor=2.0)
    with pytest.raises(InputError, match=r"say the same: give one of them$"):
        ask(SAMPLED, **given, leverage_factor=2.0, max_leverage=0.1, bag_size=100)
    with pytest.raises(InputError, match=r"is of bags of one size: give `bag_size` with it$"):
        ask(SAMPLED, **given, max_leverage=0.1)
    with pytest.raises(InputError, match=r"^`bags` needs `bag_size`: the chance of being in a bag"):
        ask(SAMPLED, **given, bags=3)
    with pytest.raises(InputError):
        ask(SAMPLED, **given, bags=11, bag_size=100)
    ask(SAMPLED, **given, bags=10, bag_size=100)


def test_a_bag_with_a_known_leverage_is_priced_by_it() -> None:
    given = {"residual_ms": 3.0, "features": 5, "bag_size": 100}
    for extra, leverage in (
        ({"max_leverage": 0.3}, 0.3),
        ({"leverage_factor": 4.0}, 0.2),
        ({"leverage_factor": 40.0}, 1.0),
    ):
        found = ask(SAMPLED, **given, **extra)["accountants"]
        for name, known in (("exact", leverage), ("exact-worst-case", None)):
            law = SketchProfile(DatasetBounds(100, (0.0, 4.0), 5, known, True), 1, 300.0)
            assert found[name]["conditional"]["delta"] == law.delta(1.0).upper
    hopeless = ask(SAMPLED, residual_ms=3.0, features=5, bag_size=5, bags=2)["accountants"]
    worst = hopeless["exact-worst-case"]
    assert worst["max_bags"] == 0
    assert "determine their labels" in worst["reason"]
    assert worst["unconditional"]["delta"] == pytest.approx(0.01)
    assert ask(SAMPLED, residual_ms=3.0, features=5)["accountants"]["paper"] == {
        "reason": "Theorem 2 needs `min_eigenvalue`, `feature_bound`"
    }


def test_noise_is_asked_for_where_labels_are_wider_than_the_papers() -> None:
    words = (
        r"^sampled-noisy-wtd-lag needs `noise_std`, in the units of labels from 0 to 4; the "
        "paper's 1 is for labels scaled to -1 … 1$"
    )
    with pytest.raises(InputError, match=words):
        ask(NOISY, noisy_fraction=1.0)
    given = {"noisy_fraction": 1.0, "bag_size": 16}
    narrow = ask(NOISY, **given, label_range=(-1.0, 1.0))["accountants"]["exact"]
    said = ask(NOISY, **given, label_range=(-1.0, 1.0), noise_std=1.0)["accountants"]["exact"]
    assert narrow == said
    law = RandomWeightsProfile(16, (-1.0, 1.0), 1.0, 1.0, 1000)
    assert narrow["a_priori"]["conditional"]["delta"] == law.delta(1.0).upper
    assert narrow["realised"]["target_mu"] == pytest.approx(mu(), rel=1e-9)
    assert "unconditional_target_mu" not in narrow["realised"]
    drawn = ask(NOISY, **given, bags=6, noise_std=9.0)["accountants"]["exact"]["realised"]
    assert drawn["unconditional_target_mu"] > drawn["target_mu"]
    with pytest.raises(InputError, match=r"^sampled-noisy-wtd-lag needs `noisy_fraction`$"):
        ask(NOISY, noise_std=1.0)
