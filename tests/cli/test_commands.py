"""Every command does what it says, for people and as one JSON document."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from labeldp import LinearRegressor, Release
from tests.cli.conftest import LABEL, QUICK, Write
from tests.console import labeldp
from tests.tables import RANGE, table

FLAG = ("--mechanism", "wtd-flag", "--bags", "50")


def test_plan(data: Path, tmp_path: Path) -> None:
    result = labeldp(
        "plan", "--anyway", data, *LABEL, *FLAG, "--json", "--out", tmp_path / "plan.json"
    )
    assert (result.code, result.remarks) == (0, "")
    made = result.json
    assert (made["mechanism"], made["epsilon"], made["delta"]) == ("wtd-flag", 1.0, 1e-6)
    assert (made["bags"], made["bag_size"]) == (50, 2000)
    assert made["floor"]["mode"] == "measured+added"
    assert made["curve"][5][0] == 1.0
    assert made["curve"][5][1] <= 1e-6
    assert made["forecast"]["excess_mean"] > 0
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written == made


def test_plan_for_people(data: Path) -> None:
    result = labeldp("plan", "--anyway", data, *LABEL, *QUICK)
    assert (result.code, result.remarks) == (0, "")
    title, *facts = result.out.strip().splitlines()
    assert title == "Plan, made without reading a label"
    sentences = [line for line in facts if not line.startswith(" ")]
    assert [line.split()[0] for line in sentences] == ["guarantee", "error", "gain"]
    assert "ε = 1, δ = 1e-06 for one row's label, by wtd-flag" in sentences[0]
    assert "will be" in sentences[1]
    more = labeldp("plan", "--anyway", data, *LABEL, *QUICK, "--verbose").out
    for text in ("error in 90 % of releases", "Privacy curve", "exact-worst-case"):
        assert text in more


def test_the_forecast_at_other_budgets(data: Path) -> None:
    asked = ("plan", "--anyway", data, *LABEL)
    found = labeldp(*asked, "--curve", "--json").json
    points = found["forecast_curve"]
    assert [point["epsilon"] for point in points] == [0.125, 0.25, 0.5, 1, 2, 4, 8]
    errors = [point["error"] for point in points]
    assert errors == sorted(errors, reverse=True)
    assert errors[3] == pytest.approx(found["forecast"]["added_ms"] ** 0.5)
    assert "at other ε" in labeldp(*asked, "--curve").out
    assert "forecast_curve" not in labeldp(*asked, "--json").json


def test_a_plan_whose_mean_error_is_infinite_is_still_json(data: Path, tmp_path: Path) -> None:
    few = ("--accountant", "exact-worst-case", "--floor", "added", "--bags", 5)
    result = labeldp(
        "plan", "--anyway", data, *LABEL, *few, "--json", "--out", tmp_path / "plan.json"
    )
    assert result.code == 0
    assert result.json["forecast"]["excess_mean"] is None
    released = labeldp(
        "release",
        "--anyway",
        data,
        *LABEL,
        "--plan",
        tmp_path / "plan.json",
        "--out",
        tmp_path / "r",
    )
    assert released.code == 0
    assert labeldp("verify", tmp_path / "r").code == 0


def test_the_default_number_of_bags(data: Path, tmp_path: Path) -> None:
    """Without --bags: a number that pays, capped by the size of the file."""
    small = ("--accountant", "exact-worst-case", "--floor", "added", "--max-megabytes", 0.01)
    result = labeldp("release", "--anyway", data, *LABEL, *small, "--out", tmp_path / "r", "--json")
    assert result.code == 0
    bags, rank = (result.json["certificate"][name] for name in ("bags", "rank"))
    assert rank + 2 <= bags <= 0.01e6 / (8 * (rank + 1))


def test_release_and_verify(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    result = labeldp("release", "--anyway", data, *LABEL, *QUICK, "--out", out, "--json")
    assert (result.code, result.remarks) == (0, "")
    assert result.json["release"] == str(out)
    assert result.json["certificate"] == json.loads((out / "certificate.json").read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r"]
    assert sorted(path.name for path in out.iterdir()) == [
        "aggregates.parquet",
        "certificate.json",
        "croissant.json",
        "features.json",
    ]
    checked = labeldp("verify", out, "--json")
    assert (checked.code, checked.err) == (0, "")
    nothing = {name: [] for name in ("problems", "weak", "untested", "signed_by")}
    assert checked.json == {"valid": True} | nothing


def test_release_and_verify_for_people(data: Path, tmp_path: Path) -> None:
    result = labeldp("release", "--anyway", data, *LABEL, *QUICK, "--out", tmp_path / "r")
    assert (result.code, result.remarks) == (0, "")
    lines = [line for line in result.out.splitlines() if not line.startswith(" ")]
    names = ["guarantee", "error", "gain", "", "release", "check it", "use it", ""]
    assert [line.partition("  ")[0] for line in lines] == names
    assert "ε = 1, δ = 1e-06 for one row's label, by wtd-flag" in lines[0]
    assert " are off " in lines[1]
    again = (*LABEL, *QUICK, "--out", tmp_path / "v", "--verbose")
    more = labeldp("release", "--anyway", data, *again).out
    for text in ("exact-worst-case", "best attack"):
        assert text in more
    checked = labeldp("verify", tmp_path / "r")
    assert checked.code == 0
    assert "is valid: 40 aggregates of 2,000 rows" in checked.out
    (tmp_path / "r" / "features.json").unlink()
    checked = labeldp("verify", tmp_path / "r")
    assert (checked.code, checked.err) == (1, "")
    assert "is NOT valid:\n  - " in checked.out


@pytest.mark.parametrize(
    ("accountant", "mode"),
    [
        ("exact", "measured+added"),
        ("exact", "declared"),
        ("exact-worst-case", "measured+added"),
        ("exact-worst-case", "added"),
    ],
)
def test_every_accountant_and_floor_verifies(
    data: Path, tmp_path: Path, accountant: str, mode: str
) -> None:
    promise = ("--residual-ms", 0.5) if mode == "declared" else ()
    budget = ("--epsilon", 30, "--delta", 0.01, "--bags", 20)
    result = labeldp(
        "release", "--anyway", data, *LABEL, *budget, "--floor", mode, *promise,
        "--accountant", accountant, "--out", tmp_path / "r", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert result.json["certificate"]["floor"]["mode"] == mode
    assert labeldp("verify", tmp_path / "r", "--json").json["problems"] == []


def test_fit_and_predict(published: Path, data: Path, tmp_path: Path) -> None:
    """The command line gives the numbers that Python gives."""
    model = tmp_path / "model.json"
    result = labeldp("fit", published, "--out", model, "--json")
    assert (result.code, result.err) == (0, "")
    python = LinearRegressor().fit(Release.load(published))
    assert result.json["coefficients"] == [asdict(c) for c in python.coefficients_]
    expected = python.predict(table().drop_columns(["label"]))

    predicted = labeldp("predict", model, data, "--out", tmp_path / "p.parquet", "--json")
    assert (predicted.code, predicted.err) == (0, "")
    assert predicted.json == {
        "predictions": str(tmp_path / "p.parquet"),
        "rows": 2000,
        "unknown_levels": {},
        "outside_range": {},
    }
    assert pq.read_table(tmp_path / "p.parquet")["prediction"].to_numpy().tolist() == pytest.approx(
        expected.tolist(), rel=1e-12
    )
    people = labeldp("predict", model, data, "--out", tmp_path / "p.csv")
    assert (people.code, people.err) == (0, "")
    assert "2,000 predictions" in people.out
    assert csv.read_csv(tmp_path / "p.csv")["prediction"].to_numpy() == pytest.approx(expected)
    again = LinearRegressor.load(model).predict(table())
    assert np.array_equal(again, expected)


def test_fit_for_people_and_without_intervals(published: Path) -> None:
    result = labeldp("fit", published)
    assert (result.code, result.err) == (0, "")
    assert "95% intervals" in result.out
    assert "colour=blue" in result.out
    for option in (("--ridge", 0.5), ("--max-norm", 1.0)):
        shrunk = labeldp("fit", published, *option, "--json")
        assert shrunk.code == 0
        assert all(entry["low"] is None for entry in shrunk.json["coefficients"])


def test_predict_reads_only_the_columns_it_needs(
    published: Path, write: Write, tmp_path: Path
) -> None:
    """A file to predict may hold anything besides: labels that are text, say."""
    labeldp("fit", published, "--out", tmp_path / "model.json")
    text = ["31337.25x", *["3.5"] * 299]
    rows = write("new.csv", label=text, extra=text)
    result = labeldp("predict", tmp_path / "model.json", rows, "--out", tmp_path / "p.csv")
    assert (result.code, result.err) == (0, "")
    assert "300 predictions" in result.out


@pytest.mark.parametrize("suffix", ["csv", "tsv", "arrow"])
def test_other_formats_give_the_same_plan(data: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table.{suffix}"
    if suffix == "arrow":
        import pyarrow.feather

        pyarrow.feather.write_feather(table(), path, compression="uncompressed")
    else:
        options = csv.WriteOptions(delimiter="," if suffix == "csv" else "\t")
        csv.write_csv(table(), path, options)
    plans = [
        labeldp("plan", "--anyway", file, *LABEL, *QUICK, "--json").json for file in (data, path)
    ]
    assert plans[0] == plans[1]


def test_clip_and_drop_missing_labels_are_on_the_certificate(write: Write, tmp_path: Path) -> None:
    low, high = RANGE
    labels = [high + 5, None, *[0.5 * (low + high)] * 298]
    rows = write("flawed.parquet", label=labels)
    chosen = ("--clip", "--drop-missing-labels", *QUICK, "--json", "--out", tmp_path / "r")
    result = labeldp("release", "--anyway", rows, *LABEL, *chosen)
    assert result.code == 0, result.err
    certificate = result.json["certificate"]
    assert certificate["rows"] == 299
    assert certificate["labels"] == {
        "column": "label",
        "outside_range": "clipped",
        "missing": "rows dropped",
        "rows_left_out": 1,
    }
    assert labeldp("verify", tmp_path / "r").code == 0


def test_no_label_is_printed_or_published(write: Write, tmp_path: Path) -> None:
    """One label of its own kind: it shows nowhere, wherever labels are used."""
    rows = write("secret.csv", label=[31337.25, *[25000.5] * 150, *[25001.5] * 149])
    wide = ("--label", "label", "--label-range", 0, 40000)
    shown = [
        labeldp("plan", "--anyway", rows, *wide, *QUICK, "--out", tmp_path / "plan.json"),
        labeldp(
            "release",
            "--anyway",
            rows,
            *wide,
            "--plan",
            tmp_path / "plan.json",
            "--out",
            tmp_path / "r",
        ),
        labeldp("look", rows, "--label", "label", "--json"),
        labeldp("verify", tmp_path / "r"),
        labeldp("fit", tmp_path / "r", "--json"),
    ]
    assert [result.code for result in shown] == [0] * 5, shown
    texts = [result.out + result.err for result in shown]
    texts += [(tmp_path / "r" / name).read_text() for name in ("certificate.json", "features.json")]
    assert not any("31337.25" in text for text in texts)


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    budget = ("--rows", 5000, "--epsilon", 100, "--delta", 0.01)
    result = labeldp("demo", *budget, "--out", tmp_path / "r", "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json["verified"] is True
    assert labeldp("verify", tmp_path / "r").code == 0
    people = labeldp("demo", *budget)
    assert people.code == 0
    assert "The default mechanism: shaped-flag" in people.out
