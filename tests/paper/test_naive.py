"""Naive sums: only on demand, without a certificate, and the attack that shows why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import InputError, verify
from labeldp.mechanisms.registry import mechanism_names
from labeldp_paper.commands.attack import _on_private
from labeldp_paper.datasets.demo_table import census_like
from labeldp_paper.naive.sums import NAIVE, NaiveSums, naive_sums, recover
from tests.console import labeldp
from tests.tables import RANGE, source, table

LABEL = ("--label", "label", "--label-range", *RANGE)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pq.write_table(table(300), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def sums_of(mechanism: str, not_private: bool = True) -> NaiveSums:
    return naive_sums(
        source(300), mechanism=mechanism, bags=10, bag_size=12, not_private=not_private, bag_seed=1
    )


@pytest.mark.parametrize("mechanism", NAIVE)
def test_naive_sums_are_plain_sums_and_the_attack_is_exact(mechanism: str) -> None:
    """Every row of every bag: labels on a grid of 1/64 add up without rounding."""
    sums, labels = sums_of(mechanism), table(300)["label"].to_numpy()
    rows = sums.bag_table.column("row").to_numpy().reshape(10, 12)
    assert len(np.unique(rows)) == 120
    assert np.array_equal(sums.labels, labels[rows].sum(axis=1))
    for total, bag in zip(sums.labels, rows, strict=True):
        for row in bag:
            assert recover(float(total), labels[bag[bag != row]]) == labels[row]
    if mechanism == "naive-flag":
        design = sums.features.design(table(300))
        shown = np.column_stack([sums.table[name].to_numpy() for name in sums.features.names])
        assert np.allclose(shown, design[rows].sum(axis=1), rtol=1e-12, atol=1e-9)
    else:
        assert sums.table.num_columns == 1
    assert "not private" in repr(sums)


@pytest.mark.parametrize("mechanism", NAIVE)
def test_naive_sums_are_refused_unless_demanded(mechanism: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="never private"):
        sums_of(mechanism, not_private=False)
    assert mechanism not in mechanism_names()
    out = ("--out", tmp_path / "r")
    result = labeldp("release", "--anyway", data, *LABEL, "--mechanism", mechanism, *out)
    assert "unknown" in result.error


@pytest.mark.parametrize("mechanism", NAIVE)
def test_naive_sums_have_a_warning_in_place_of_a_certificate(
    mechanism: str, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    sums_of(mechanism).save(out)
    for name in ("aggregates.parquet", "bags.parquet"):
        metadata = pq.read_schema(out / name).metadata
        assert metadata[b"labeldp.warning"].startswith(b"NOT PRIVATE")
    report = verify(out)
    assert not report.valid
    assert "NOT private" in report.problems[0]
    assert labeldp("verify", out).code == 1
    assert "NOT private" in labeldp("fit", out).error


def test_the_attack_succeeds_on_sums_and_fails_on_a_private_release() -> None:
    result = labeldp("attack", "--json")
    assert result.code == 0, result
    document = result.json
    assert set(document) == {"data", "label_range", "attacks"}
    assert document["data"] == "synthetic"
    attacks = {one["mechanism"]: one for one in document["attacks"]}
    assert list(attacks) == [*NAIVE, "sampled-noisy-wtd-lag"]
    for one in attacks.values():
        assert set(one) == {"mechanism", "true_label", "recovered", "error", "succeeded"}
        assert one["error"] == abs(one["recovered"] - one["true_label"])
    for name in NAIVE:
        assert attacks[name]["succeeded"]
        assert attacks[name]["error"] < 1e-9


def test_the_attack_on_private_releases_is_a_guess() -> None:
    """30 attacks at ε = 1: at most three come within half a label of the truth."""
    successes = 0
    for seed in range(30):
        rows = pa.Table.from_batches(census_like(2000, seed)).select(["AGE", "WKSWORK1"])
        successes += _on_private(rows, 1.0, 1e-6, seed)["succeeded"]
    assert successes <= 3


def test_the_attack_is_told_in_a_table() -> None:
    result = labeldp("attack", "--seed", 1)
    assert result.code == 0
    assert result.out.count("recovered") >= 3
    assert "synthetic table" in result.out


def test_senseless_naive_sums_are_refused() -> None:
    with pytest.raises(InputError, match="is not naive"):
        naive_sums(source(300), mechanism="wtd-flag", bags=1, bag_size=2, not_private=True)
    with pytest.raises(InputError, match="disjoint"):
        naive_sums(source(300), mechanism="naive-lag", bags=100, bag_size=12, not_private=True)
