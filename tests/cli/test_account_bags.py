"""labeldp account for the mechanisms that draw bags."""

from __future__ import annotations

from typing import Any

import pytest

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import SubsampledProfile, inclusion_probability, most_bags
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from labeldp.accounting.weighted_bags import RandomWeightsProfile
from tests.console import labeldp

CENSUS = ("--rows", 131903910, "--label-range", 0, 51, "--residual-ms", 64.22, "--delta", 1e-5)
UNIT = (
    "--rows", 10**6, "--label-range", -1, 1, "--noisy-fraction", 0.1, "--noise-std", 1,
    "--delta", 1e-5,
)  # fmt: skip


def account(mechanism: str, *arguments: Any) -> dict[str, Any]:
    result = labeldp("account", mechanism, *arguments, "--json")
    assert (result.code, result.err) == (0, ""), result
    return dict(result.json)


def test_a_bag_size_is_priced_given_the_bags_and_over_the_draw() -> None:
    sized = (*CENSUS, "--bag-size", 9000)
    found = account("sampled-wtd-flag", *sized, "--bags", 100)["accountants"]["exact-worst-case"]
    law = SketchProfile(DatasetBounds(9000, (0.0, 51.0)), 1, 64.22 * 9000)
    chance = inclusion_probability(131903910, 100, 9000)
    over = SubsampledProfile(law, chance)
    assert found["conditional"] == {
        "epsilon": epsilon_at(law, 1e-5),
        "delta": law.delta(1.0).upper,
    }
    assert found["unconditional"] == {
        "chance": chance,
        "epsilon": epsilon_at(over, 1e-5),
        "delta": over.delta(1.0).upper,
    }
    assert found["max_bags"] == most_bags(law, 131903910, 9000, 1.0, 1e-5)
    given = account("sampled-wtd-flag", *sized)["accountants"]["exact-worst-case"]
    assert "unconditional" not in given


def test_leverage_within_bags() -> None:
    sized = (*CENSUS, "--bag-size", 9000, "--features", 40, "--max-leverage", 120 / 9000)
    found = account("sampled-wtd-flag", *sized)["accountants"]["exact"]
    law = SketchProfile(DatasetBounds(9000, (0.0, 51.0), 40, 3 * 40 / 9000), 1, 64.22 * 9000)
    assert found["conditional"]["delta"] == law.delta(1.0).upper
    assert found["conditional"]["epsilon"] < 0.5


def test_noisy_labels() -> None:
    sized = account("sampled-noisy-wtd-lag", *UNIT, "--bag-size", 2000, "--bags", 10)
    exact = sized["accountants"]["exact"]
    law = RandomWeightsProfile(2000, (-1.0, 1.0), 0.1)
    a_priori = exact["a_priori"]
    assert a_priori["conditional"]["delta"] == law.delta(1.0).upper
    assert a_priori["unconditional"]["delta"] < 0.021 * a_priori["conditional"]["delta"]
    assert a_priori["max_bags"] == most_bags(law, 10**6, 2000, 1.0, 1e-5)
    assert a_priori["min_noise_std"] == calibrate(law, "noise_std", 1.0, 1e-5)
    assert exact["realised"]["target_mu"] == calibrate(GaussianProfile(1.0), "mu", 1.0, 1e-5)
    hopeless = account("sampled-noisy-wtd-lag", *UNIT, "--bag-size", 32)["accountants"]["exact"]
    assert hopeless["a_priori"]["min_noise_std"] is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("sampled-wtd-flag", *CENSUS[:5]), "--residual-ms"),
        (("wtd-flag", *CENSUS[:5]), "--residual-ms"),
        (("sampled-noisy-wtd-lag", *UNIT[:5]), "--noisy-fraction"),
        (("sampled-noisy-wtd-lag", *UNIT[:7]), "--noise-std"),
        (("sampled-wtd-flag", *CENSUS, "--bags", 3), "--bag-size"),
        (("sampled-wtd-flag", *CENSUS, "--bag-size", 9000, "--max-leverage", 0.1), "--features"),
        (("sampled-wtd-flag", *CENSUS, "--bag-size", 32, "--features", 71), "need more than 71"),
        (("sampled-noisy-wtd-lag", *UNIT), "--bag-size"),
        (("sampled-wtd-flag", *CENSUS, "--noise-std", 3), "--noise-std"),
        (("sampled-noisy-wtd-lag", *UNIT, "--bag-size", 1, "--residual-ms", 1), "--residual-ms"),
        (("wtd-flag", *CENSUS, "--bag-size", 3), "--bag-size"),
        (("sampled-noisy-wtd-lag", *UNIT, "--bag-size", 10, "--bags", 10**6), "disjoint"),
        (
            (
                "sampled-noisy-wtd-lag",
                *UNIT[:5],
                "--noisy-fraction",
                1.5,
                *UNIT[7:],
                "--bag-size",
                9,
            ),
            "--noisy-fraction",
        ),
        (("sampled-wtd-flag", *CENSUS, "--bag-size", -5), "--bag-size"),
        (("bag-flag", *CENSUS), "sampled-wtd-flag"),
    ],
)
def test_wrong_requests_name_the_option(arguments: tuple[Any, ...], named: str) -> None:
    result = labeldp("account", *arguments)
    assert (result.code, result.out) == (2, "")
    assert named in result.err
    assert result.err.count("\n") == 1


def test_tables_for_people() -> None:
    sized = labeldp("account", "sampled-noisy-wtd-lag", *UNIT, "--bag-size", 2000, "--bags", 10)
    assert "1.162" in sized.out
