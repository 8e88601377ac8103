"""labeldp account: what the exact law allows, from public quantities alone."""

from __future__ import annotations

from typing import Any

import pytest

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from tests.console import labeldp

CENSUS = ("--rows", 131903910, "--label-range", 0, 51, "--residual-ms", 64.22, "--delta", 1e-8)
CRITEO = ("--rows", 1732721, "--label-range", 0, 254, "--residual-ms", 195.5, "--delta", 1e-5)


def account(*arguments: Any) -> dict[str, Any]:
    result = labeldp("account", "wtd-flag", *arguments, "--json")
    assert (result.code, result.err) == (0, ""), result
    return dict(result.json)


def test_census() -> None:
    answer = account(*CENSUS, "--epsilon", 1)
    assert answer["mechanism"] == "wtd-flag"
    assert answer["accountants"] == {"exact-worst-case": {"max_bags": 61364}}


def test_census_with_features_has_the_exact_answer_too() -> None:
    answers = account(*CENSUS, "--max-leverage", 0.0012, "--features", 396)["accountants"]
    assert list(answers) == ["exact-worst-case", "exact"]
    facts = DatasetBounds(131903910, (0.0, 51.0), 396, 0.0012)
    most = calibrate(SketchProfile(facts, floor=131903910 * 64.22), "bags", 1.0, 1e-8)
    assert answers["exact"]["max_bags"] == most > answers["exact-worst-case"]["max_bags"]


def test_a_floor_that_carries_no_bag_has_a_reason() -> None:
    answers = account(*CRITEO, "--epsilon", 1)["accountants"]
    assert answers["exact-worst-case"] == {"max_bags": 140}
    few = account("--rows", 100, "--label-range", 0, 10, "--residual-ms", 1)["accountants"]
    assert all(answer["max_bags"] == 0 and answer["reason"] for answer in few.values())


def test_bags_are_priced_at_that_delta_and_at_that_epsilon() -> None:
    answers = account(*CENSUS, "--epsilon", 1, "--bags", 61364)["accountants"]
    exact = answers["exact-worst-case"]
    assert exact["epsilon"] <= 1 < exact["epsilon"] * 1.001
    assert exact["delta"] <= 1e-8 < exact["delta"] * 1.01
    beyond = account(*CENSUS, "--epsilon", 1, "--bags", 61365)["accountants"]
    assert beyond["exact-worst-case"]["delta"] > 1e-8


def test_bags_without_any_epsilon_have_a_reason() -> None:
    few = ("--rows", 10, "--label-range", 0, 100, "--residual-ms", 1e-6, "--bags", 5)
    answer = account(*few)["accountants"]["exact-worst-case"]
    assert answer["epsilon"] is None
    assert answer["reason"].startswith("no ε is enough for 5 aggregates")


def test_the_answer_depends_on_the_width_of_the_range_alone() -> None:
    rest = ("--rows", 10**6, "--residual-ms", 4e4)
    below = account("--label-range", -86, 1272, *rest)
    above = account("--label-range", 0, 1358, *rest)
    assert below["label_range"] == [-86, 1272]
    assert below["accountants"] == above["accountants"]


def test_numbers_may_be_negative_and_options_have_equals_signs() -> None:
    result = labeldp(
        "account", "wtd-flag", "--rows=1000000", "--residual-ms=4e4", "--label-range", "-1e3", "-5"
    )
    assert result.code == 0
    assert "exact-worst-case" in result.out


@pytest.mark.parametrize("bags", [(), ("--bags", 100)])
def test_people_see_a_table(bags: tuple[Any, ...]) -> None:
    result = labeldp("account", "wtd-flag", *CRITEO, *bags)
    assert (result.code, result.err) == (0, "")
    assert all(name in result.out for name in ("exact-worst-case", "ε = 1", "δ = 1e-05"))
