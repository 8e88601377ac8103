"""What `look` prints can be copied: it drops copies of the label, and no answer."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp import look
from tests.console import labeldp

N = 3_000
RNG = np.random.default_rng(11)
X = RNG.normal(size=N)
Y = np.clip(RNG.gamma(3, 10, N) + 4 * X, 0.1, None).round(2)
ZERO = np.where(RNG.random(N) < 0.7, 0.0, Y)
"""A label that is 0 for most."""


def bins(values: Any, edges: list[float]) -> list[str]:
    return (
        pd.cut(pd.Series(values), edges, labels=[*"zebra"[: len(edges) - 1]]).astype(str).tolist()
    )


COPIES: dict[str, tuple[Any, Any]] = {
    "in other units": (Y, -1000 * Y + 3),
    "with a little noise": (Y, Y + RNG.normal(0, 0.02, N)),
    "logarithm": (Y, np.log(Y).round(3)),
    "rank": (Y, pd.Series(Y).rank(method="first").to_numpy()),
    "rank downwards": (Y, pd.Series(-Y).rank().to_numpy()),
    "percentile": (Y, pd.Series(Y).rank(pct=True).round(2).to_numpy()),
    "threshold": (Y, Y > 40),
    "threshold in text": (Y, np.where(Y > 40, "high", "low").tolist()),
    "threshold that few pass": (Y, (np.sort(Y)[-20] < Y).astype(int)),
    "bins in text": (Y, bins(Y, [0, 20, 30, 40, 1e9])),
    "bins in numbers": (Y, np.digitize(Y, [10, 20, 30])),
    "rounded": (Y, np.round(Y, -1)),
    "missing above a threshold": (Y, np.where(Y > 40, np.nan, X)),
    "missing where the label is 0": (ZERO, np.where(ZERO == 0, np.nan, X)),
    "0 where the label is 0": (ZERO, np.where(ZERO == 0, 0, RNG.integers(1, 5, N))),
    "a word where the label is 0": (
        ZERO,
        np.where(ZERO == 0, "none", RNG.choice(["fire", "theft"], N)).tolist(),
    ),
    "levels that tell yes from no": (
        (Y > 40).astype(int),
        np.where(Y > 40, RNG.choice(["a", "b"], N), RNG.choice(["c", "d"], N)).tolist(),
    ),
    "a number that decides the label": ((Y > 40).astype(int), Y),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_the_label_is_dropped(name: str) -> None:
    labels, copy = COPIES[name]
    found = look(pa.table({"x": X, "copy": copy, "y": labels}), label="y")
    assert [*found["label"]["copies"]] == ["copy"]
    assert found["options"][:4] == ["--label", "y", "--drop", "copy"]
    assert found["findings"][0].startswith("THE LABEL LEAKS: copy "), "the gravest first"
    assert "(for the curator only)" in found["findings"][0]


HONEST: dict[str, Any] = {
    "a good feature": Y + RNG.normal(0, 3, N),
    "a good feature in bins": np.digitize(Y + RNG.normal(0, 3, N), [20, 30]),
    "a rare flag": np.arange(N) < 3,
    "a flag of those above": (Y > 40) & (RNG.random(N) < 0.5),
    "many rare levels": [f"k{k % 700}" for k in range(N)],
    "missing at random": np.where(RNG.random(N) < 0.3, np.nan, X),
    "noise": RNG.normal(size=N),
}


@pytest.mark.parametrize("labels", [Y, ZERO, (Y > 70).astype(int)])
def test_other_columns_are_not(labels: Any) -> None:
    found = look(pa.table({"x": X, **HONEST, "y": labels}), label="y")
    assert found["label"]["copies"] == {}
    assert found["label"]["parts"] == []


A, B, C = RNG.lognormal(2, 1.5, (3, N)).round(2)
DAYS = RNG.integers(0, 3_000, N)
STAYS = RNG.integers(1, 15, N)
MADE: dict[str, dict[str, Any]] = {
    "sum": {"a": A, "b": B, "c": C, "y": A + B + C},
    "sum without what is missing": {"a": A, "b": np.where(B > 9, B, np.nan), "y": A + B * (B > 9)},
    "product": {"a": A, "b": B, "y": A * B},
    "ratio": {"a": A, "b": B, "y": A / B},
    "difference of dates": {
        "a": np.datetime64("2015-01-01") + DAYS,
        "b": np.datetime64("2015-01-01") + DAYS + STAYS,
        "y": STAYS,
    },
}


@pytest.mark.parametrize("name", MADE)
def test_columns_of_which_the_label_is_made_are_dropped(name: str) -> None:
    table = {"x": X, **MADE[name]}
    found = look(pa.table(table), label="y")
    dropped = found["label"]["parts"]
    assert dropped
    assert {*dropped} < {"a", "b", "c"}
    assert found["options"][2:4] == ["--drop", ",".join(dropped)]
    again = look(pa.table(table), label="y", drop=dropped)["label"]
    assert again["parts"] == []
    assert again["copies"] == {}


def test_answers_among_labels_are_not_called_missing(tmp_path: Path) -> None:
    answers = np.array(["Y", "N", "U", "A", ""])[np.arange(N) % 5]
    pd.DataFrame({"x": X, "y": answers}).to_csv(tmp_path / "t.csv", index=False)
    found = look(tmp_path / "t.csv", label="y")
    assert found["label"]["missing"] == N // 5
    assert found["label"]["unreadable"] == 2 * N // 5
    assert any("to leave an answer out shows who gave it" in text for text in found["findings"])
    assert "--na" not in found["options"]
    asked = ["--label-range", "0", "1", "--anyway", "--out", str(tmp_path / "r")]
    error = labeldp("release", tmp_path / "t.csv", *found["options"], *asked).error
    assert "holds text that is not a number" in error
    assert not (tmp_path / "r").exists()


def payroll() -> pd.DataFrame:
    """Ids that repeat, copies of every kind, missing labels."""
    salary = pd.Series(np.where(np.arange(N) % 90 == 0, np.nan, 1_000 * Y))
    return pd.DataFrame({
        "employee_id": RNG.integers(10_000, 11_500, N),
        "x": X,
        "dept": RNG.choice(["HR", "IT", "Ops"], N),
        "log": np.log(salary),
        "rank": salary.rank(),
        "band": pd.cut(salary, [0, 20_000, 40_000, 1e9], labels=["A", "B", "C"]).astype(str),
        "salary": salary,
    })  # fmt: skip


def test_the_printed_command_runs_and_publishes_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "payroll.csv"
    payroll().to_csv(path, index=False)
    asks = labeldp("look", path).out.splitlines()[-1]
    assert asks == f"labeldp look {path} --label COLUMN", "only then are copies found"
    printed = labeldp("look", path, "--label", "salary").out.splitlines()[-1]
    words = shlex.split(printed.replace("LO HI", "0 150000").replace("DIR", str(tmp_path / "r")))
    done = labeldp(*words[1:], "--anyway")
    assert done.code == 0, done.err
    assert "34 of 3,000 (1.1%) left out" in done.err
    features = json.loads((tmp_path / "r" / "features.json").read_text())
    names = [column["name"] for column in features["numeric"] + features["categorical"]]
    assert names == ["x", "dept"]
    certificate = json.loads((tmp_path / "r" / "certificate.json").read_text())
    assert certificate["person"]["column"] == "employee_id"


def test_a_column_that_follows_the_label_closely_is_named() -> None:
    table = {"x": X, "near": Y + RNG.normal(0, 2, N), "far": Y + RNG.normal(0, 20, N), "y": Y}
    found = look(pa.table(table), label="y")
    assert found["label"]["close"] == ["near"]
    assert found["options"] == ["--label", "y", "--clip"]
    assert any(text.startswith("near follows the label closely") for text in found["findings"])
