"""plan → release → verify → fit → predict on the command line, with every mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from labeldp.learners.models import load_model
from tests.cli.conftest import LABEL, QUICK
from tests.console import labeldp
from tests.extras import extra
from tests.tables import table

BUDGET = ("--epsilon", 4, "--delta", 1e-3)
CASES: dict[str, tuple[Any, ...]] = {
    "wtd-flag": QUICK[2:],
    "shaped-flag": BUDGET,
    "sampled-wtd-flag": (*BUDGET, "--floor", "added", "--bags", 40, "--bag-size", 30),
    "sampled-noisy-wtd-lag": (*BUDGET, "--bags", 60, "--bag-size", 20),
}


@pytest.fixture(scope="module", params=CASES)
def road(
    request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """plan --out and release --plan: the mechanism and the folder."""
    name, folder = str(request.param), tmp_path_factory.mktemp("road")
    planned = labeldp(
        "plan",
        "--anyway",
        data,
        *LABEL,
        "--mechanism",
        name,
        *CASES[name],
        "--out",
        folder / "plan.json",
    )
    assert planned.code == 0, planned
    assert name in planned.out
    result = labeldp(
        "release",
        "--anyway",
        data,
        *LABEL,
        "--plan",
        folder / "plan.json",
        "--out",
        folder / "r",
        "--json",
    )
    assert result.code == 0, result
    assert result.json["certificate"]["mechanism"] == name
    return name, folder / "r"


def test_a_release_of_every_mechanism_verifies(road: tuple[str, Path], data: Path) -> None:
    name, folder = road
    result = labeldp("verify", folder, "--data", data)
    assert result.code == 0, result
    assert name in result.out


def test_a_linear_fit_and_its_predictions(
    road: tuple[str, Path], data: Path, tmp_path: Path
) -> None:
    name, folder = road
    extra = ("--data", data) if name == "sampled-noisy-wtd-lag" else ()
    model = tmp_path / "model.json"
    result = labeldp("fit", folder, *extra, "--out", model, "--json")
    assert result.code == 0, result
    assert result.json["model"] == "linear"
    assert {c["name"] for c in result.json["coefficients"]} >= {"intercept", "height"}
    assert labeldp("predict", model, data, "--out", tmp_path / "p.csv", "--json").json == {
        "predictions": str(tmp_path / "p.csv"),
        "rows": 2000,
        "unknown_levels": {},
        "outside_range": {},
    }
    predictions = csv.read_csv(tmp_path / "p.csv")["prediction"].to_numpy()
    assert predictions == pytest.approx(load_model(model).predict(table()), rel=1e-9)


def test_labels_alone_cannot_be_fitted_without_their_rows(
    road: tuple[str, Path], tmp_path: Path
) -> None:
    name, folder = road
    result = labeldp("fit", folder)
    if name != "sampled-noisy-wtd-lag":
        assert result.code == 0
        assert (
            "cannot be learnt from aggregated features"
            in labeldp("fit", folder, "--model", "neural").error
        )
        return
    assert "made from: --data" in result.error
    pq.write_table(table(1999), tmp_path / "short.parquet")
    assert "rows" in labeldp("fit", folder, "--data", tmp_path / "short.parquet").error
    assert "'linear', 'neural'" in labeldp("fit", folder, "--model", "tree").error


def test_a_network_is_fitted_on_bags_and_predicts(data: Path, tmp_path: Path) -> None:
    extra("torch")
    folder, model = tmp_path / "r", tmp_path / "net.json"
    name = "sampled-noisy-wtd-lag"
    assert labeldp(
        "release", "--anyway", data, *LABEL, "--mechanism", name, *CASES[name], "--out", folder
    ).code == 0  # fmt: skip
    result = labeldp(
        "fit", folder, "--data", data, "--model", "neural", "--epochs", 2, "--out", model, "--json"
    )
    assert result.code == 0, result
    assert result.json["model"] == "neural"
    assert result.json["coefficients"] == []
    assert labeldp("predict", model, data, "--out", tmp_path / "p.parquet").code == 0
    predictions = pq.read_table(tmp_path / "p.parquet")["prediction"].to_numpy()
    assert len(predictions) == 2000
    assert np.isfinite(predictions).all()
    shown = labeldp("fit", folder, "--data", data, "--model", "neural", "--epochs", 2)
    assert "a network was fitted on 60 bags in 2 epochs" in shown.out


def test_fit_drops_the_rows_that_the_release_dropped(tmp_path: Path) -> None:
    """Bags number the rows that have a label; the fit must count the same rows."""
    labels = table(900)["label"].to_pylist()
    labels[::10] = [None] * 90
    full = table(900).set_column(4, "label", pa.array(labels))
    pq.write_table(full, tmp_path / "full.parquet")
    kept = full.filter(full["label"].is_valid())
    pq.write_table(kept, tmp_path / "kept.parquet")
    folder = tmp_path / "r"
    released = labeldp(
        "release", "--anyway", tmp_path / "full.parquet", *LABEL, "--drop-missing-labels", *BUDGET,
        "--mechanism", "sampled-noisy-wtd-lag", "--bags", 60, "--bag-size", 10, "--out", folder,
    )  # fmt: skip
    assert released.code == 0, released
    assert "fit" in released.out
    fits = [
        labeldp("fit", folder, "--data", tmp_path / name, "--json").json["coefficients"]
        for name in ("full.parquet", "kept.parquet")
    ]
    assert fits[0] == fits[1]


def test_an_option_of_some_mechanisms_is_enough_to_choose_them(data: Path) -> None:
    result = labeldp("plan", "--anyway", data, *LABEL, "--bags", 40, "--json")
    assert result.json["mechanism"] == "wtd-flag"
    assert "auto looked at wtd-flag only" in result.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mechanism", "wtd-flag", "--bag-size", 5), "--bag-size does not apply to wtd-flag"),
        (("--mechanism", "wtd-flag", "--bag-seed", 0), "--bag-seed does not apply to wtd-flag"),
        (("--bag-seed", 0, "--shape-ridge", 0.1), "does not apply to"),
        (("--mechanism", "sampled-wtd-flag", "--noise-std", 2), "--noise-std does not apply"),
        (("--mechanism", "sampled-noisy-wtd-lag", "--floor", "added"), "--floor does not apply"),
        (("--mechanism", "laplace"), "unknown"),
        (("--mechanism", "sampled-wtd-flag", "--accountant", "paper"), "exact-worst-case"),
    ],
)
def test_wrong_requests_are_one_line(data: Path, options: tuple[Any, ...], words: str) -> None:
    assert words in labeldp("plan", "--anyway", data, *LABEL, *options).error


def test_an_a_priori_claim_is_one_line_too(data: Path) -> None:
    result = labeldp(
        "plan", "--anyway", data, *LABEL, "--mechanism", "sampled-noisy-wtd-lag",
        "--accountant", "exact-worst-case", "--bags", 10, "--bag-size", 40, "--bag-seed", 1,
    )  # fmt: skip
    assert "leave --bag-seed out" in result.error


def test_a_plan_for_people_says_what_hides_the_labels(data: Path) -> None:
    shown = labeldp(
        "plan", "--anyway", data, *LABEL, "--mechanism", "sampled-noisy-wtd-lag",
        "--bags", 20, "--bag-size", 20, "--noisy-fraction", 0.5, "--verbose",
    )  # fmt: skip
    assert "50% of the labels" in shown.out
    assert "given-bags" in shown.out
