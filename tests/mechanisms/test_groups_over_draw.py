"""Over the draw of the bags, for several rows at once: claims against bags drawn here by numpy.

A row of a group is in a bag with up to group times the chance of one row. With a group this
large and bags this small, a claim that counted the chance of one row would be false.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import Plan, Source, scan
from tests.mechanisms.cases import NOISY, SAMPLED
from tests.oracles import gaussian_law, sketch_law
from tests.oracles.sketch_law import Reals
from tests.plans import plan
from tests.tables import RANGE

ROWS, BAG, GROUP = 400, 20, 20
CHANCE = BAG / ROWS
DRAWS = 4000
Z = 4.5  # two-sided error probability of each statistical test: 7e-6
WIDTH = RANGE[1] - RANGE[0]
OPTIONS: dict[str, dict[str, Any]] = {SAMPLED: {"floor": "added"}, NOISY: {}}


def rows() -> Source:
    """Two sides that alternate; the group are the first rows, and theirs are the high labels."""
    side = np.tile(["left", "right"], ROWS // 2)
    labels = np.where(np.arange(ROWS) < GROUP, RANGE[1], RANGE[0])
    return scan(pa.table({"side": side, "label": labels}), label="label", label_range=RANGE)


def over_draw(mechanism: str, epsilon: float, delta: float) -> Plan:
    return plan(
        rows(), mechanism=mechanism, epsilon=epsilon, delta=delta, bags=1, bag_size=BAG,
        over_draw=True, **OPTIONS[mechanism],
    )  # fmt: skip


def sampled_deltas(claim: Any, epsilon: float) -> Reals:
    """δ(ε) given each of many bags, when all high labels of the group become low.

    A bag's Gram follows from how many of its rows stand left, and how many are of the group.
    """

    @cache
    def given(left: int, high_left: int, high_right: int) -> float:
        on_left = np.arange(BAG) < left
        high = np.arange(BAG) < high_left
        high[left : left + high_right] = True
        design = np.column_stack([on_left, ~on_left]).astype(float)
        labels = np.where(high, WIDTH, 0.0)
        ratios = sketch_law.eigenvalues(design, labels, np.zeros(BAG), claim.floor)
        return sketch_law.delta(1, ratios, epsilon)

    rng = np.random.default_rng(1)
    found = []
    for _ in range(DRAWS):
        bag = rng.permutation(ROWS)[:BAG]
        left, high = bag % 2 == 0, bag < GROUP
        counts = (np.sum(left), np.sum(left & high), np.sum(~left & high))
        found.append(given(*map(int, counts)) if high.any() else 0.0)
    return np.array(found)


def noisy_deltas(claim: Any, epsilon: float) -> Reals:
    """The same of noisy sums: weights are drawn again until no row has more than the claimed μ."""
    rng = np.random.default_rng(2)
    scale = WIDTH / claim.noise_std
    weights = np.empty((0, BAG))
    while len(weights) < DRAWS:
        drawn = rng.normal(size=(DRAWS, BAG))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        kept = drawn[np.abs(drawn).max(axis=1) * scale <= claim.mu]
        weights = np.concatenate([weights, kept])
    hits = rng.hypergeometric(GROUP, ROWS - GROUP, BAG, size=DRAWS)
    shift = (weights[:DRAWS] * (np.arange(BAG) < hits[:, None])).sum(axis=1)
    return gaussian_law.delta(epsilon, np.abs(shift) * scale)


DELTAS = {SAMPLED: sampled_deltas, NOISY: noisy_deltas}


@pytest.mark.parametrize("mechanism", OPTIONS)
def test_a_group_over_the_draw_costs_no_more_than_is_claimed(mechanism: str) -> None:
    """And more than a claim that forgets the group's chance; ε = 0 is where the chance decides."""
    claim: Any = over_draw(mechanism, epsilon=4.0, delta=1e-2).claim
    assert claim.draw.chance == pytest.approx(CHANCE)
    seen = DELTAS[mechanism](claim, 0.0)
    least = seen.mean() - Z * seen.std() / math.sqrt(DRAWS)
    assert CHANCE < least <= claim.delta_at(0.0, GROUP)


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("mechanism", OPTIONS)
def test_the_group_table_over_the_draw_is_what_the_curve_says(mechanism: str, group: int) -> None:
    """The ε of a group is the smallest that its δ allows: one is the other's inverse."""
    claim: Any = over_draw(mechanism, epsilon=0.5, delta=1e-3).claim
    epsilon = claim.epsilon_for(group)
    assert epsilon is not None
    assert claim.delta_at(epsilon, group) <= claim.delta
    assert claim.delta_at(epsilon * (1 - 1e-4), group) > claim.delta
    shown = {row["rows"]: row["epsilon"] for row in claim.groups()}
    assert shown[group] == epsilon


def test_no_leverage_of_the_bags_that_were_drawn_is_used() -> None:
    """The guarantee is the mean over all draws, and others may have a row of more leverage."""
    made = plan(
        rows(), mechanism=SAMPLED, epsilon=1.0, delta=1e-3, bags=1, bag_size=BAG,
        accountant="exact", over_draw=True, floor="added",
    )  # fmt: skip
    claim: Any = made.claim
    assert claim.accountant == "exact"
    assert claim.max_leverage < 1
    profile = replace(claim, max_leverage=None).privacy_profile
    for epsilon in (0.1, 1.0, 2.0):
        assert claim.delta_at(epsilon) == profile.delta(epsilon).upper
