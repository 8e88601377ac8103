"""What a draw of bags may decide, what it may not, and where aggregates are drawn to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from labeldp import PlanError
from labeldp.mechanisms import bags
from labeldp.sampling import streams
from tests.mechanisms.cases import SAMPLED, small_plan


def test_over_the_draw_no_leverage_of_one_draw_counts() -> None:
    """Another draw has other leverages, and the claim is about all of them."""
    claim: Any = small_plan(SAMPLED, bag_seed=1).claim
    leverages = (0.4, 1.0)
    given = [replace(claim, max_leverage=each).delta_at(1.0) for each in leverages]
    assert given[0] < given[1]
    draw = replace(claim.draw, random=True, over_draw=True)
    over = [replace(claim, max_leverage=each, draw=draw).delta_at(1.0) for each in leverages]
    assert over[0] == over[1]


def test_over_the_draw_no_draw_is_refused_for_its_rows() -> None:
    """Bags of six rows may have five independent columns or six: tried until they have five, some
    rows would be met more often than others (theory §14)."""

    declared = {"floor": "declared", "residual_ms": 20.0}

    def refused(**options: Any) -> bool:
        try:
            small_plan(SAMPLED, bags=1, bag_size=6, epsilon=9.0, **declared, **options)
        except PlanError as problem:
            return "determine their labels" in str(problem)
        return False

    assert {refused(bag_seed=seed) for seed in range(12)} == {True, False}
    assert all(refused(over_draw=True) for _ in range(12))


def test_bags_are_drawn_anew_from_256_bits_of_the_operating_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Elsewhere tests put seeds of their own in the place of these (see tests/conftest.py)."""
    monkeypatch.setattr(bags, "fresh_seed", streams.fresh_seed)
    draws = [bags.Draw.new(1000, 5, 20, over_draw=False, seed=None) for _ in range(20)]
    assert len({draw.seed for draw in draws}) == 20
    assert len({draw.members.tobytes() for draw in draws}) == 20
    assert all(len(bytes.fromhex(draw.seed)) == 32 for draw in draws)
    asked: list[int] = []
    monkeypatch.setattr(
        streams.secrets, "token_hex", lambda size: asked.append(size) or "00" * size
    )
    assert bags.Draw.new(1000, 5, 20, over_draw=False, seed=None).seed == "00" * 32
    assert asked == [32]
