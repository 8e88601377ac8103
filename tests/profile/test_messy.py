"""Tables as programs and people export them: `look`, one release with its options, a good fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labeldp import LinearRegressor, look
from tests.console import labeldp as run
from tests.extras import extra

ROWS, HELD_OUT = 6_000, 2_000
QUESTION = "How are you, all in all?"


class Survey:
    """A typed table, and the columns of a clean design."""

    def __init__(self, seed: int) -> None:
        rng, n = np.random.default_rng(seed), ROWS + HELD_OUT
        day = rng.integers(0, 900, n)
        net = rng.normal(2_000, 9_000, n).round(2)
        area = (rng.gamma(6, 20, n) + 20).round(1)
        dept = rng.choice(["Köln", "São Paulo", "Legal"], n, p=[0.5, 0.4, 0.1])
        remote = rng.random(n) < 0.4
        mood = rng.integers(0, 3, n)
        blank = rng.random(n) < 0.03
        y = 40 + 4 * net / 9_000 + 0.05 * area + 6 * (dept == "Legal") + 5 * remote + 2 * mood
        self.y = np.clip(y + rng.normal(0, 5, n), 0, 100).round(2)
        columns = (np.ones(n), day, np.where(blank, 2_000, net), blank, area, dept == "Legal",
                   dept == "Köln", remote, mood == 1, mood == 2)  # fmt: skip
        self.clean = np.column_stack(columns)
        self.frame = pd.DataFrame({
            "Ticket": [f"T-{k:06d}" for k in rng.permutation(n)],
            "Opened": pd.Timestamp("2021-03-01") + pd.to_timedelta(day, unit="D"),
            "Net": np.where(blank, np.nan, net),
            "Area": area,
            "Dept.": dept,
            "Remote?": remote,
            "Zip": rng.choice(np.arange(10_000, 10_030), n),
            QUESTION: np.array(["bad", "so-so", "good"])[mood],
            "empty": [None] * n,
            "Score": np.where(rng.random(n) < 0.01, np.nan, self.y),
        })  # fmt: skip

    def least_squares(self) -> float:
        """Mean square error, on rows held out, of a fit with all labels on the clean table."""
        fit = np.linalg.lstsq(self.clean[:ROWS], self.y[:ROWS], rcond=None)[0]
        return self.error(self.clean[ROWS:] @ fit)

    def error(self, predicted: Any) -> float:
        return float(np.mean((predicted - self.y[ROWS:]) ** 2))


def parquet(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def pandas_csv(frame: pd.DataFrame, path: Path) -> Path:
    """With its index, a column without a name."""
    frame.to_csv(path.with_suffix(".csv.gz"))
    return path.with_suffix(".csv.gz")


def r_csv(frame: pd.DataFrame, path: Path) -> Path:
    """As write.csv has it: row names, quoted texts, NA, TRUE and FALSE."""
    texts = frame.assign(Opened=frame["Opened"].dt.strftime("%Y-%m-%d"))
    texts["Remote?"] = np.where(frame["Remote?"], "TRUE", "FALSE")
    texts.index = texts.index.astype(str)
    texts.to_csv(path.with_suffix(".csv"), na_rep="NA", quoting=2)
    return path.with_suffix(".csv")


def german_csv(frame: pd.DataFrame, path: Path) -> Path:
    """Latin-1, semicolons, decimal commas, groups by points, day-first dates, a title, a sum."""
    texts = frame.assign(Opened=frame["Opened"].dt.strftime("%d.%m.%Y"))
    for name in ("Net", "Area", "Score"):
        signs = str.maketrans(",.", ".,")
        texts[name] = ["" if np.isnan(v) else f"{v:,.2f}".translate(signs) for v in frame[name]]
    text = texts.to_csv(index=False, sep=";", lineterminator="\r\n")
    text = f"Umfrage\r\n{text}Summe;;;;;;;;;\r\n"
    path.with_suffix(".csv").write_bytes(text.encode("latin-1"))
    return path.with_suffix(".csv")


def us_text(frame: pd.DataFrame, path: Path) -> Path:
    """UTF-16, tabs, dollars, brackets for minus, units, words for missing, month-first dates."""
    words = ["forty", "n/a", "-", "see Ann, HR"]
    texts = frame.assign(Opened=frame["Opened"].dt.strftime("%m/%d/%Y %I:%M:%S %p"))
    texts["Net"] = [
        words[k % 4] if np.isnan(v) else f"(${-v:,.0f})" if v < 0 else f"${v:,.0f}"
        for k, v in enumerate(frame["Net"])
    ]
    texts["Area"] = [f"{v:.2f} m²" for v in frame["Area"]]
    texts["Dept."] = [(d, d.upper(), d + " ")[k % 3] for k, d in enumerate(frame["Dept."])]
    texts["Remote?"] = [
        ("Y", "yes")[k % 2] if r else ("N", "NO")[k % 2] for k, r in enumerate(frame["Remote?"])
    ]
    text = "Tickets, all of them\n# made by a program\n" + texts.to_csv(index=False, sep="\t")
    path.with_suffix(".txt").write_bytes(text.encode("utf-16"))
    return path.with_suffix(".txt")


def excel(frame: pd.DataFrame, path: Path) -> Path:
    extra("openpyxl")
    frame.to_excel(path.with_suffix(".xlsx"), index=False, startrow=2)
    return path.with_suffix(".xlsx")


@pytest.fixture(scope="module")
def survey() -> Survey:
    return Survey(seed=3)


@pytest.mark.parametrize("write", [parquet, pandas_csv, r_csv, german_csv, us_text, excel])
def test_two_commands_to_a_good_fit(
    write: Callable[[pd.DataFrame, Path], Path], survey: Survey, tmp_path: Path
) -> None:
    """Within 10 % of least squares with all labels; at ε = 6 noise adds about 1 %."""
    table = write(survey.frame[:ROWS], tmp_path / "t")
    found = look(table, label="Score")
    assert {facts["name"]: facts["kind"] for facts in found["columns"]} == {
        "Ticket": "id",
        "Opened": "date",
        "Net": "number",
        "Area": "number",
        "Dept.": "category",
        "Remote?": "category",
        "Zip": "category",
        QUESTION: "category",
        "empty": "constant",
    }
    assert found["options"] == [
        "--label", "Score", "--drop", "Ticket", "--drop-missing-labels", "--clip",
    ]  # fmt: skip
    asked = ["--label-range", "0", "100", "--epsilon", "6", "--out", str(tmp_path / "r")]
    done = run("release", str(table), *found["options"], *asked)
    assert done.code == 0, done.err
    rows = write(survey.frame[ROWS:], tmp_path / "u")
    predicted = LinearRegressor().fit(str(tmp_path / "r")).predict(rows)
    assert survey.error(predicted) < 1.1 * survey.least_squares()


def test_names_with_commas_and_levels_in_many_spellings(survey: Survey, tmp_path: Path) -> None:
    table = us_text(survey.frame[:ROWS], tmp_path / "t")
    found = look(table, label="Score", drop=[QUESTION])
    assert found["options"][found["options"].index("--drop") + 1] == f'"{QUESTION}",Ticket'
    said = "\n".join(found["findings"])
    assert "Dept.: 6 of 9 levels differ only in capitals, accents or spaces" in said
    asked = ["--label-range", "0", "100", "--drop", "Area", "--json"]
    done = run("plan", str(table), *found["options"], *asked)
    assert done.code == 0, done.err
    used = done.json["features"]["numeric"] + done.json["features"]["categorical"]
    assert [column["name"] for column in used] == ["Opened", "Net", "Dept.", "Remote?", "Zip"]
    assert used[2]["levels"] == ["Köln", "Legal", "São Paulo"]
    wrong = run("plan", str(table), "--label", "Score", *asked, "--categorical", QUESTION)
    assert "categorical: there is no column 'How are you'" in wrong.error
