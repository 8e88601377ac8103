"""Whoever holds the features can recheck what a certificate says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import scan, verify
from labeldp.mechanisms.registry import read_claim
from labeldp.mechanisms.wtd_flag import WtdFlag
from labeldp.passes.engine import LocalEngine
from labeldp.releases.certificate import FloorOutcome, claimed_fields, seal
from labeldp.releases.files import Release, public_rows
from tests.plans import plan
from tests.tables import RANGE, table


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    data = table(3000)
    labels = data["label"].to_pylist()
    labels[5] = None
    data = data.set_column(4, "label", pa.array(labels))
    source = scan(data, label="label", label_range=RANGE, drop_missing_labels=True)
    folder = tmp_path_factory.mktemp("releases") / "release"
    plan(source, epsilon=1, delta=1e-6, bags=300).release(source).save(folder)
    return folder, data


def test_the_right_table_passes_and_its_labels_do_not_matter(
    released: tuple[Path, pa.Table],
) -> None:
    folder, data = released
    assert verify(folder, data).valid
    other = [None if value is None else 9.0 for value in data["label"].to_pylist()]
    assert verify(folder, data.set_column(4, "label", pa.array(other))).valid


def test_a_table_with_other_features_or_rows_does_not_pass(
    released: tuple[Path, pa.Table],
) -> None:
    folder, data = released
    heights = data["height"].to_numpy().copy()
    heights[0] += 1
    changed = verify(folder, data.set_column(0, "height", pa.array(heights)))
    assert changed.problems == ("the table's features are not those of the release",)
    shorter = verify(folder, data.slice(0, 2000))
    assert "1999 rows" in shorter.problems[0]


@pytest.mark.parametrize(
    ("field", "factor", "words"),
    [("max_leverage", 0.5, "largest leverage"), ("inflation", 0.25, "inflation")],
)
def test_a_consistent_forgery_of_facts_about_features_is_caught(
    released: tuple[Path, pa.Table], field: str, factor: float, words: str
) -> None:
    """The forger recomputes all that follows from the claim and seals it again."""
    folder, data = released
    genuine = Release.load(folder)
    forged: dict[str, Any] = {**genuine.certificate, field: genuine.certificate[field] * factor}
    floor = forged["floor"]
    forged |= claimed_fields(read_claim(forged), FloorOutcome.of(forged))
    forged = seal({**forged, "floor": floor})
    release = Release(genuine.table, genuine.features, forged)
    problems = list(WtdFlag().check_features(release, public_rows(release, data), LocalEngine(1)))
    assert len(problems) == 1
    assert words in problems[0]
    assert not list(WtdFlag().check_features(genuine, public_rows(genuine, data), LocalEngine(1)))


def test_facts_do_not_depend_on_the_order_of_rows(released: tuple[Path, pa.Table]) -> None:
    folder, data = released
    order = np.random.default_rng(0).permutation(data.num_rows)
    assert verify(folder, data.take(pa.array(order))).valid
