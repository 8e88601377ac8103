"""plan → plan.json → release --plan is the same road as release; a plan reads no labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import LinearRegressor, Plan, PlanError, Release, ReleaseError, scan, verify
from labeldp.mechanisms.options import names
from labeldp.releases.certificate import AddedError, seal
from tests.cli.conftest import LABEL, QUICK, Write
from tests.console import labeldp
from tests.plans import plan
from tests.tables import RANGE, source, table

FREE = {"digests", "seal", "floor", "released_at"}
"""What differs between two releases of one plan: the draw, what was measured, and when."""


def claim(certificate: dict[str, Any]) -> dict[str, Any]:
    outcome = ("measured", "lower_bound", "added_variance")
    floor = {name: v for name, v in certificate["floor"].items() if name not in outcome}
    measured = names(AddedError)
    utility = {n: v for n, v in certificate["utility"].items() if n not in measured}
    rest = {name: value for name, value in certificate.items() if name not in FREE}
    sums = certificate["digests"]["feature_sums"]
    return {**rest, "floor": floor, "utility": utility, "feature_sums": sums}


def planned(data: Path, out: Path, *options: Any) -> Path:
    result = labeldp("plan", "--anyway", data, *LABEL, *options, "--out", out)
    assert result.code == 0, result
    return out


def test_a_plan_file_and_direct_options_promise_the_same(data: Path, tmp_path: Path) -> None:
    """Directly or by way of a file, the same options promise the same."""
    options = ("--bags", 15, "--epsilon", 2, "--accountant", "exact-worst-case")
    path = planned(data, tmp_path / "plan.json", *options)
    by_plan = labeldp(
        "release", "--anyway", data, *LABEL, "--plan", path, "--out", tmp_path / "a", "--json"
    ).json
    direct = labeldp(
        "release", "--anyway", data, *LABEL, *options, "--out", tmp_path / "b", "--json"
    ).json
    assert claim(by_plan["certificate"]) == claim(direct["certificate"])
    assert by_plan["certificate"]["digests"] != direct["certificate"]["digests"]
    features = [(tmp_path / name / "features.json").read_bytes() for name in "ab"]
    assert features[0] == features[1]
    assert labeldp("verify", tmp_path / "a").code == 0


def test_shares_and_logarithms_stand_on_the_command_line(write: Write, tmp_path: Path) -> None:
    """Columns repeated or in one list."""
    wild = np.random.default_rng(1).pareto(1.0, (2, 300))
    data = write("wild.parquet", a=wild[0], b=wild[1])
    once, apart = ("--log", "a,b"), ("--log", "a", "--log", "b")
    plans = [
        planned(data, tmp_path / f"{len(o)}.json", *QUICK, *o, "--winsor", 0.02)
        for o in (once, apart)
    ]
    assert plans[0].read_bytes() == plans[1].read_bytes()
    columns = {c["name"]: c for c in json.loads(plans[0].read_text())["features"]["numeric"]}
    assert columns["b"]["high"] == np.sort(wild[1])[-7]
    assert [columns["b"].get("log"), columns["b"].get("winsorised")] == [True, True]
    choices = {"winsor": 0.02, "log": ["a", "b"]}
    asked = {
        "mechanism": "wtd-flag",
        "accountant": "exact-worst-case",
        "floor": "added",
        "bags": 40,
    }
    rows = scan(data, label="label", label_range=RANGE)
    made = plan(rows, epsilon=1.0, delta=1e-6, **asked, **choices)
    assert made.to_json() == json.loads(plans[0].read_text())


@pytest.mark.parametrize("share", ["much", "a=0.1", "0.7", "-1"])
def test_shares_that_cannot_be(data: Path, share: str) -> None:
    result = labeldp("plan", "--anyway", data, *LABEL, "--winsor", share)
    assert result.code == 2
    assert "--winsor" in result.err


def test_notes_of_a_plan_are_shown_again_at_release(write: Write, tmp_path: Path) -> None:
    data = write("constant.parquet", flat=[1.5] * 300)
    made = labeldp("plan", "--anyway", data, *LABEL, *QUICK, "--out", tmp_path / "plan.json")
    assert "flat: constant, dropped" in made.err
    result = labeldp(
        "release",
        "--anyway",
        data,
        *LABEL,
        "--plan",
        tmp_path / "plan.json",
        "--out",
        tmp_path / "r",
        "--json",
    )
    assert result.err.startswith(made.err)
    assert result.code == 0


@pytest.mark.parametrize("labels", [["31337.25x"] * 300, [31337.25] * 300, [None] * 300])
def test_a_plan_reads_no_labels(write: Write, tmp_path: Path, labels: list[Any]) -> None:
    """Whatever stands in the label column, the plan is the same; the release then refuses."""
    good, bad = write("good.csv"), write("bad.csv", label=labels)
    wanted = labeldp("plan", "--anyway", good, *LABEL, *QUICK, "--json").json
    made = labeldp(
        "plan", "--anyway", bad, *LABEL, *QUICK, "--json", "--out", tmp_path / "plan.json"
    )
    assert (made.code, made.remarks) == (0, "")
    assert made.json == wanted
    out = tmp_path / "r"
    result = labeldp(
        "release", "--anyway", bad, *LABEL, "--plan", tmp_path / "plan.json", "--out", out
    )
    assert "label column 'label'" in result.error
    assert "31337" not in result.error
    assert not out.exists()


def changed(name: str, column: str) -> pa.Table:
    rows = table()
    values = rows[column].to_pylist()
    match name:
        case "value":
            values[7] += 0.5
        case "level":
            values[7] = next(level for level in values if level != values[7])
        case "row":
            return rows.slice(1)
    return rows.set_column(rows.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize(("name", "column"), [("value", "height"), ("level", "town"), ("row", "")])
def test_release_refuses_features_that_changed_since_the_plan(
    data: Path, tmp_path: Path, name: str, column: str
) -> None:
    path = planned(data, tmp_path / "plan.json", *QUICK)
    pq.write_table(changed(name, column or "height"), tmp_path / "changed.parquet")
    out = tmp_path / "r"
    result = labeldp(
        "release", "--anyway", tmp_path / "changed.parquet", *LABEL, "--plan", path, "--out", out
    )
    assert "features are not those of the plan" in result.error
    assert not out.exists()
    again = labeldp("release", "--anyway", data, *LABEL, "--plan", path, "--out", out)
    assert again.code == 0, again


def test_the_order_of_rows_and_of_columns_may_change(data: Path, tmp_path: Path) -> None:
    path = planned(data, tmp_path / "plan.json", *QUICK)
    rows = table()
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = rows.take(order).select(rows.column_names[::-1])
    pq.write_table(shuffled, tmp_path / "shuffled.parquet")
    out = tmp_path / "r"
    result = labeldp(
        "release", "--anyway", tmp_path / "shuffled.parquet", *LABEL, "--plan", path, "--out", out
    )
    assert result.code == 0, result


def test_release_refuses_labels_of_another_range_than_the_plans(data: Path, tmp_path: Path) -> None:
    """A label beyond the plan's range would move more than the certificate says."""
    path = planned(data, tmp_path / "plan.json", *QUICK)
    for ends in ((0, 1000), (-1, 10), (0, 9.5)):
        result = labeldp(
            "release", "--anyway", data, "--label", "label", "--label-range", *ends,
            "--plan", path, "--out", tmp_path / "r",
        )  # fmt: skip
        assert "is for labels from 0 to 10" in result.error
    assert not (tmp_path / "r").exists()


def test_python_release_refuses_labels_of_another_range_than_the_plans() -> None:
    made = plan(
        source(), epsilon=1, delta=1e-6, accountant="exact-worst-case", floor="added", bags=20
    )
    wide = scan(table(), label="label", label_range=(0, 1000))
    with pytest.raises(PlanError):
        made.release(wide)


DAMAGE: dict[str, Any] = {
    "bags": 41,
    "epsilon": 0.1,
    "delta": 0.5,
    "mechanism": "naive",
    "label_range": [0, 1],
    "max_leverage": None,
    "inflation": 0.0,
    "feature_sums": "0",
    "curve": [],
    "format": "labeldp-plan/1",
    "seal": "0",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_plan_edited_by_hand_is_refused(data: Path, tmp_path: Path, name: str) -> None:
    path = planned(data, tmp_path / "plan.json", *QUICK)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {name: DAMAGE[name]}))
    result = labeldp("release", "--anyway", data, *LABEL, "--plan", path, "--out", tmp_path / "r")
    assert ("format" if name == "format" else "altered") in result.error
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '{"format": NaN}', "\udcff", "[" * 100_000]
)
def test_a_damaged_plan_file_is_refused(data: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    result = labeldp("release", "--anyway", data, *LABEL, "--plan", path, "--out", tmp_path / "r")
    assert str(path) in result.error
    assert not (tmp_path / "r").exists()


def test_a_plan_cut_short_is_refused(data: Path, tmp_path: Path) -> None:
    path = planned(data, tmp_path / "plan.json", *QUICK)
    whole = path.read_bytes()
    for size in (1, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:size])
        result = labeldp(
            "release", "--anyway", data, *LABEL, "--plan", path, "--out", tmp_path / "r"
        )
        assert "cannot be read as JSON" in result.error


def test_a_sealed_plan_that_does_not_keep_its_budget_gets_no_certificate(
    data: Path, tmp_path: Path
) -> None:
    """The last guard: even a plan sealed again after an edit publishes nothing it cannot claim."""
    worst = ("--accountant", "exact-worst-case", "--floor", "added", "--bags", 15)
    path = planned(data, tmp_path / "plan.json", *worst)
    document = json.loads(path.read_text())
    document["bags"] = 30
    path.write_text(json.dumps(seal(document)))
    result = labeldp("release", "--anyway", data, *LABEL, "--plan", path, "--out", tmp_path / "r")
    assert "contradicts itself" in result.error
    assert not (tmp_path / "r").exists()


def test_a_release_end_to_end_in_python(tmp_path: Path) -> None:
    rows = scan(table(), label="label", label_range=RANGE)
    made = plan(rows, epsilon=1, delta=1e-6, accountant="exact-worst-case", floor="added", bags=40)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
    release = made.release(rows)
    release.save(tmp_path / "r")
    loaded = Release.load(tmp_path / "r")
    assert loaded.certificate == release.certificate
    assert loaded.features == release.features
    assert loaded.table.read().equals(release.table)
    assert np.array_equal(loaded.design, release.design)
    assert np.array_equal(loaded.labels, release.labels)
    checked = verify(tmp_path / "r")
    assert checked.valid
    assert checked.problems == ()
    first, second = (LinearRegressor().fit(r) for r in (release, loaded))
    assert np.array_equal(first.predict(table()), second.predict(table().to_pandas()))
    with pytest.raises(ReleaseError, match="already exists"):
        release.save(tmp_path / "r")
