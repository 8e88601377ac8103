"""A release rechecks the facts its plan rests on, and randomness serves one release."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import InputError, Plan, PlanError, scan
from labeldp.accounting.calibrate import calibrate
from labeldp.data.source import Source
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.plans import plan
from tests.tables import RANGE, source, table


def cube(corners: list[str]) -> Source:
    """200 rows at the origin of a cube and three at each of four corners, as categories."""
    rows = list(chain(repeat("000", 200), *(repeat(corner, 3) for corner in corners)))
    columns = {name: [row[k] for row in rows] for k, name in enumerate("abc")}
    labels = np.tile([0.0, 10.0], len(rows) // 2)
    data = pa.table({**columns, "label": labels})
    return scan(data, label="label", label_range=RANGE)


def test_equal_sums_do_not_hide_a_larger_leverage() -> None:
    """The two tables have the same Gram matrix, but a row of one has more leverage."""
    even, odd = cube(["000", "011", "101", "110"]), cube(["111", "100", "010", "001"])
    made = plan(odd, epsilon=1, delta=1e-5, bags=20, min_count=1)
    other = plan(even, epsilon=1, delta=1e-5, bags=20, min_count=1)
    assert made.feature_sums == other.feature_sums
    low, high = made.claim.max_leverage, other.claim.max_leverage
    assert low is not None
    assert high is not None
    assert low < high
    made.release(odd)
    other.release(odd)  # a plan for more leverage than there is stays true
    with pytest.raises(PlanError, match="not those of the plan"):
        made.release(even)


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan(source(400), epsilon=1, delta=1e-5, bags=30)


@pytest.mark.parametrize(
    "change",
    [
        {"max_leverage": 0.03},
        {"label_range": (0.0, 9.0)},
        {"rows": 300},
        {"rank": 3},
        {"inflation": 0.0},
    ],
)
def test_a_plan_whose_facts_were_changed_is_refused(made: Plan, change: dict[str, Any]) -> None:
    """Consistently: the floor is recomputed, so that only the facts themselves are wrong."""
    claim = replace(made.claim, **change)
    needed = calibrate(claim.privacy_profile, "floor", 1, 1e-5)
    forged = replace(made, claim=replace(claim, floor=needed))
    with pytest.raises(PlanError):
        forged.release(source(400))
    made.release(source(400))


def test_a_plan_that_promises_too_much_is_refused_before_labels_are_read(made: Plan) -> None:
    forged = replace(made, claim=replace(made.claim, epsilon=0.5))
    labels_unread = scan(table(400).set_column(4, "label", pa.array(["text"] * 400)), label="score")
    with pytest.raises(PlanError, match="contradicts itself; plan again"):
        forged.release(replace(labels_unread, label="label", label_range=RANGE))


def test_an_altered_plan_file_is_refused(made: Plan) -> None:
    document = made.to_json()
    assert Plan.from_json(document) == made
    with pytest.raises(InputError, match="altered"):
        Plan.from_json({**document, "epsilon": 0.1})


def test_options_that_a_plan_has_settled_are_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "table.parquet"
    pq.write_table(table(400), path)
    label = ("--label", "label", "--label-range", 0, 10)
    assert (
        labeldp(
            "plan", "--anyway", path, *label, "--bags", 30, "--out", tmp_path / "plan.json"
        ).code
        == 0
    )
    planned = ("release", path, *label, "--plan", tmp_path / "plan.json", "--out", tmp_path / "out")
    for option in (("--epsilon", 0.1), ("--floor", "added"), ("--no-intercept",), ("--bags", 5)):
        result = labeldp(*planned, *option)
        assert result.code == 2
        named = option[0].replace("--no-", "--")
        assert f"{named} is settled by the plan" in result.err
    assert not (tmp_path / "out").exists()
    assert labeldp(*planned).code == 0


def test_randomness_serves_one_release(made: Plan) -> None:
    randomness = Randomness.from_os()
    made.release(source(400), randomness=randomness)
    with pytest.raises(InputError, match="used before"):
        made.release(source(400), randomness=randomness)


def test_randomness_does_not_survive_a_fork() -> None:
    randomness = Randomness.from_os()
    child = os.fork()
    if child == 0:
        try:
            randomness.spend()
        except InputError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    randomness.spend()
