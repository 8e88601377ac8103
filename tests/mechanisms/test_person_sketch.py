"""wtd-flag for persons: all labels of one, moved together, stay within the law of the claim."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import LocalEngine, Plan, PlanError, plan, verify
from labeldp.accounting import gaussian
from labeldp.accounting.sketch import SketchProfile
from labeldp.data.source import Source
from labeldp.mechanisms.wtd_flag import WtdFlagClaim
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import FLAG, forged_claim, saved, small_plan
from tests.mechanisms.test_person import IDS, ROWS, moved, source_of, with_ids
from tests.mechanisms.test_shaped_flag import Array, codes
from tests.oracles import sketch_law
from tests.tables import RANGE, table

BAGS = 40
GROUPS = {one: [k for k, other in enumerate(IDS) if other == one] for one in set(IDS)}
MOST = max(len(rows) for rows in GROUPS.values())


def made_plan(data: pa.Table | None = None, **options: Any) -> Plan:
    given = {"mechanism": FLAG, "bags": BAGS, "epsilon": 1.0, "delta": 1e-5, "force": True}
    return plan(source_of(with_ids(table(ROWS)) if data is None else data), **given | options)


@pytest.fixture(scope="module")
def made() -> Plan:
    return made_plan()


def claim_of(made: Plan) -> WtdFlagClaim:
    assert isinstance(made.claim, WtdFlagClaim)
    return made.claim


def residual(design: Array, labels: Array) -> float:
    return float(np.linalg.norm(labels - design @ np.linalg.lstsq(design, labels, rcond=None)[0]))


@pytest.mark.parametrize("accountant", ["exact", "exact-worst-case"])
def test_a_persons_labels_moved_together_stay_within_the_claim(accountant: str) -> None:
    """δ of two Gram matrices, the noise of an added floor in both, at the claimed ε and below."""
    made = made_plan(floor="added", accountant=accountant)
    claim, design = claim_of(made), codes(made).astype(float)
    labels, (low, high) = table(ROWS)["label"].to_numpy(), RANGE
    assert claim.protected == MOST
    rng = np.random.default_rng(0)
    largest = [rows for rows in GROUPS.values() if len(rows) == MOST]
    for rows in [*largest[:2], GROUPS[IDS[0]]]:
        for up in (np.ones(len(rows), bool), rng.random(len(rows)) < 0.5):
            one, two = labels.copy(), labels.copy()
            one[rows], two[rows] = np.where(up, high, low), np.where(up, low, high)
            for first, second in ((one, two), (two, one)):
                ratios = sketch_law.eigenvalues(design, first, second, claim.floor)
                for epsilon in (0.3, 1.0):
                    assert sketch_law.delta(BAGS, ratios, epsilon) <= claim.delta_at(epsilon)


def test_the_claim_is_the_law_of_so_many_labels_at_once(made: Plan) -> None:
    claim, single = claim_of(made), made_plan(with_ids(table(ROWS), list(range(ROWS))))
    assert claim.delta_at(1.0) <= claim.delta
    assert claim.delta_at(1.0) > 0.99 * claim.delta
    law = claim.privacy_profile
    assert isinstance(law, SketchProfile)
    assert law.labels == MOST
    assert claim_of(single).protected == 1
    rows = small_plan(FLAG, bags=BAGS)
    assert claim_of(single).floor == pytest.approx(claim_of(rows).floor, rel=1e-9)
    assert claim.floor > MOST * claim_of(single).floor
    assert claim.delta_at(1.0, 2) == law.group(2).delta(1.0).upper


def test_a_measured_floor_is_priced_for_a_person(made: Plan) -> None:
    """The residual's root of a person's move, through the noise that it is published with."""
    claim, design = claim_of(made), codes(made).astype(float)
    assert claim.measurement is not None
    noise, (low, high) = claim.measurement.noise(claim.width), RANGE
    single = claim_of(made_plan(with_ids(table(ROWS), list(range(ROWS))))).measurement
    assert single is not None
    assert noise == pytest.approx(math.sqrt(MOST) * single.noise(claim.width))
    for rows in GROUPS.values():
        one = np.full(ROWS, low)
        two = one.copy()
        two[rows] = high
        shift = abs(residual(design, one) - residual(design, two)) / noise
        for epsilon in (0.1, 1.0):
            assert gaussian.delta(epsilon, shift) <= claim.delta_at(epsilon)


def test_a_release_end_to_end_and_other_persons(made: Plan, tmp_path: Path) -> None:
    data = with_ids(table(ROWS))
    made.release_to(tmp_path / "r", source_of(data))
    assert verify(tmp_path / "r", data).problems == ()
    assert "all rows of a person together" in verify(tmp_path / "r").summary
    crowd = with_ids(table(ROWS), ["one"] * ROWS)
    assert "a person has 400 rows" in " ".join(verify(tmp_path / "r", crowd).problems)
    with pytest.raises(PlanError, match="not those of the plan"):
        made.release(source_of(crowd))
    one, two = (moved(data, GROUPS[IDS[0]], (end,) * len(GROUPS[IDS[0]])) for end in RANGE)
    pair = [
        made.release(source_of(each), randomness=Randomness.experiment(3)) for each in (one, two)
    ]
    assert pair[0].table.select([0]) == pair[1].table.select([0]), "public columns are the same"


def test_persons_are_counted_in_the_pass_that_reads_labels(made: Plan) -> None:
    """Whose rows are summed is not what another pass may show."""
    crowd, rest = (source_of(with_ids(table(ROWS), ids)) for ids in (["one"] * ROWS, IDS))

    class Changing(LocalEngine):
        """A table whose ids are others once labels have been read."""

        @property
        def run_pass(self) -> Any:
            def run_pass(task: str, _source: Source, /, *accumulators: Any) -> Any:
                rows = crowd if task == "label sums" else rest
                return LocalEngine(1).run_pass(task, rows, *accumulators)

            return run_pass

    with pytest.raises(PlanError, match="not those of the plan"):
        made.release(rest, engine=Changing(1))


def test_fewer_rows_than_a_person_has_are_caught(made: Plan, tmp_path: Path) -> None:
    data = with_ids(table(ROWS))
    release = made.release(source_of(data))
    fewer = forged_claim(release, lambda c: c["person"].update(rows=MOST - 1))
    assert verify(saved(fewer, tmp_path / "blind")).problems == ()
    assert "a person has" in " ".join(verify(saved(fewer, tmp_path / "data"), data).problems)
    none = forged_claim(release, lambda c: c["person"].update(rows=2 * MOST))
    assert "more than the claimed" in " ".join(verify(saved(none, tmp_path / "more")).problems)
