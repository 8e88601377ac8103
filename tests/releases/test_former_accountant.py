"""Certificates that state what Theorem 1 gave: the law of today confirms them, or they fail."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from labeldp import Release, verify
from labeldp.accounting.privacy_profile import group_delta
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from labeldp.mechanisms.registry import read_claim
from labeldp.releases.certificate import seal
from labeldp_paper.theory.privacy import Theorem1

RECORDED = Path(__file__).parents[1] / "golden" / "recorded" / "flag-paper" / "release"
RATIOS = (16.0, 16.5, 36.0, 144.0, 1e4, 1e8)
"""γn/B_Y²; the theorem says nothing below 16."""
EPSILONS = (1e-3, 0.1, 1.0, 12.0, 100.0)


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_law_never_gives_more_than_the_theorem(ratio: float) -> None:
    """At the most aggregates that the theorem knows at ε, at fewer, and for groups."""
    compared = 0
    for epsilon, share, size in product(EPSILONS, (1.0, 0.03), (1, 2, 3, 5)):
        bags = math.floor(epsilon * ratio / 160 * share)
        left = math.sqrt(ratio) - 2 * (size - 1)  # of the residual's norm, in units of B_Y
        if bags < 1 or left < 4:
            continue
        stated = Theorem1(1, (-1.0, 1.0), left**2, bags).least_delta(epsilon)
        stated = min(1.0, group_delta(epsilon, stated, size))
        law = SketchProfile(DatasetBounds(1, (-1.0, 1.0)), bags, ratio).group(size)
        assert law.delta(size * epsilon).upper <= max(stated, 1e-300)
        compared += stated < 1.0
    assert compared or ratio < 1e4


def altered(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """Return what is said of the recorded release after a consistent forger's change."""
    certificate = json.loads((RECORDED / "certificate.json").read_text(encoding="utf-8"))
    change(certificate)
    forged = replace(Release.load(RECORDED), certificate=seal(certificate))
    tmp_path.mkdir(exist_ok=True)
    forged.save(tmp_path / "r")
    return " ".join(verify(tmp_path / "r").problems)


def test_what_was_stated_holds_and_lower_numbers_do_not(tmp_path: Path) -> None:
    assert verify(RECORDED).valid
    claim = read_claim(Release.load(RECORDED).certificate)
    least = claim.delta_at(1.25)
    for place, (delta, words) in enumerate(
        (
            (least * (1 - 1e-5), "certificate.curve[6][1] is"),
            (2e-6, ""),
            (0.0, "certificate.curve[6][1] is"),
        )
    ):
        said = altered(tmp_path / str(place), lambda c: c["curve"][6].__setitem__(1, delta))  # noqa: B023
        assert words in said
        assert bool(words) == bool(said)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["curve"].pop(), "makes no sense"),
        (lambda c: c["groups"].pop(), "makes no sense"),
        (lambda c: c["curve"][3].__setitem__(0, 0.4), "certificate.curve[3][0] is 0.4"),
        (lambda c: c["groups"][0].update(epsilon=1e-6), "certificate.groups[0].epsilon is 1e-06"),
        (lambda c: c["groups"][0].update(rows=9), "certificate.groups[0].rows is 9"),
        (lambda c: c.update(epsilon=1e-5), "more than the claimed"),
        (lambda c: c.update(delta=1e-20), "certificate"),
        (lambda c: c["attack_risk"].update(true_positive_rate=0.001), "true_positive_rate"),
    ],
)
def test_no_other_number_may_be_better_than_the_law(
    change: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    assert words in altered(tmp_path, change)


def test_a_group_may_be_stated_as_far_as_the_law_goes(tmp_path: Path) -> None:
    found = read_claim(Release.load(RECORDED).certificate).epsilon_for(2)
    assert found is not None
    for place, (epsilon, fine) in enumerate(((found * 1.5, True), (found * 0.99, False))):
        said = altered(tmp_path / str(place), lambda c: c["groups"][0].update(epsilon=epsilon))  # noqa: B023
        assert (said == "") == fine
