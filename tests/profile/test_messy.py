"""Synthetic tables as people export them: `look`, one release with its options, and a good fit."""

from __future__ import annotations

import csv
import datetime
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from labeldp import LinearRegressor, look, scan
from labeldp.data.columns import to_float
from labeldp.features.fit import fit_features
from tests.console import labeldp as run

ROWS, HELD_OUT = 8_000, 2_000
Numbers = NDArray[np.float64]
QUESTION = "How are you, all in all?"


class Export:
    """A table in two forms: as a program exports it, and the columns of a clean design."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        n = ROWS + HELD_OUT
        day, minute = datetime.datetime(2021, 3, 1, 8), datetime.timedelta(minutes=1)
        when = rng.integers(0, 500 * 24 * 60, n)
        net = rng.normal(2_000, 9_000, n)
        area = rng.gamma(6, 20, n) + 20
        dept = rng.choice(["Sales", "Engineering", "Legal"], n, p=[0.5, 0.4, 0.1])
        remote = rng.random(n) < 0.4
        mood = rng.integers(0, 3, n)
        blank = rng.random(n) < 0.03
        y = 40 + 4 * net / 9_000 + 0.05 * area + 6 * (dept == "Legal") + 5 * remote + 2 * mood
        self.y = np.clip(y + rng.normal(0, 5, n), 0, 100)
        self.clean = np.column_stack(
            [
                np.ones(n), when, np.where(blank, 2_000, net), blank, area, dept == "Legal",
                dept == "Sales", remote, mood == 1, mood == 2,
            ]
        )  # fmt: skip
        self.raw: dict[str, list[Any]] = {
            "Ticket": [f"T-{k:06d}" for k in rng.permutation(n)],
            "Full name": [f"{rng.choice(['Al', 'Bo'])} Smith{k % 5000}" for k in range(n)],
            "Opened": [(day + m * minute).strftime("%m/%d/%Y %I:%M:%S %p") for m in when.tolist()],
            "Net": [
                str(rng.choice(["forty", "n/a", "-", "see Ann, HR"])) if b else _accounted(v)
                for v, b in zip(net, blank, strict=True)
            ],
            "Area": [f"{v:.2f} m²" for v in area],
            "Dept.": [str(rng.choice([d, d.upper(), d + " "])) for d in dept],
            "Remote?": [str(rng.choice(["Y", "yes"] if r else ["N", "NO"])) for r in remote],
            QUESTION: [("bad", "so-so", "good")[k] for k in mood],
            "Score": ["" if rng.random() < 0.01 else f"{v:.1f}" for v in self.y],
            "empty": [""] * n,
        }  # fmt: skip

    def part(self, place: slice) -> dict[str, list[Any]]:
        return {name: values[place] for name, values in self.raw.items()}

    def least_squares(self) -> float:
        """Mean square error, on rows held out, of a fit with all labels on the clean table."""
        fit = np.linalg.lstsq(self.clean[:ROWS], self.y[:ROWS], rcond=None)[0]
        return self.error(self.clean[ROWS:] @ fit)

    def error(self, predicted: Numbers) -> float:
        return float(np.mean((predicted - self.y[ROWS:]) ** 2))


def _accounted(value: float) -> str:
    return f"({-value:,.0f})" if value < 0 else f"{value:,.0f}"


def _text(columns: dict[str, list[Any]], delimiter: str = ",") -> str:
    text = io.StringIO()
    out = csv.writer(text, delimiter=delimiter, lineterminator="\r\n")
    out.writerow(columns)
    out.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def as_text(columns: dict[str, list[Any]], path: Path) -> Path:
    """With a title, a remark and a total."""
    text = "Tickets, all of them\r\n# made by a program\r\n" + _text(columns, ";")
    path.with_suffix(".txt").write_bytes((text + "Total;;;;;;;;;\r\n").encode("utf-16"))
    return path.with_suffix(".txt")


def as_excel(columns: dict[str, list[Any]], path: Path) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(["Tickets"])
    sheet.append(list(columns))
    for row in zip(*columns.values(), strict=True):
        sheet.append([value or None for value in row])
    book.save(path.with_suffix(".xlsx"))
    return path.with_suffix(".xlsx")


@pytest.mark.parametrize("write", [as_text, as_excel])
def test_two_commands_to_a_good_fit(write: Any, tmp_path: Path) -> None:
    """Within 10 % of least squares with all labels on the clean table, at ε = 1."""
    export = Export(seed=3)
    table = write(export.part(slice(0, ROWS)), tmp_path / "t.parquet")
    found = look(table, label="Score")
    assert {facts["name"]: facts["kind"] for facts in found["columns"]} == {
        "Ticket": "id",
        "Full name": "id",
        "Opened": "date",
        "Net": "number",
        "Area": "number",
        "Dept.": "category",
        "Remote?": "category",
        QUESTION: "category",
        "empty": "constant",
    }
    asked = ["--label-range", "0", "100", "--epsilon", "1", "--out", str(tmp_path / "r")]
    done = run("release", str(table), *found["options"], *asked)
    assert done.code == 0, done.err
    rows = write(export.part(slice(ROWS, None)), tmp_path / "u.parquet")
    predicted = LinearRegressor().fit(str(tmp_path / "r")).predict(rows)
    assert export.error(predicted) < 1.1 * export.least_squares()


def test_a_column_in_many_spellings(tmp_path: Path) -> None:
    export = Export(seed=4)
    found = look(as_text(export.part(slice(0, ROWS)), tmp_path / "t"), label="Score")
    assert "Dept.: 6 of 9 levels differ only in capitals, accents or spaces" in found["findings"]
    told = "Remote?: 4 words for yes and no, taken as "
    assert any(finding.startswith(told) for finding in found["findings"])


def test_lists_may_be_repeated_and_names_have_commas(tmp_path: Path) -> None:
    export = Export(seed=5)
    table = as_text(export.part(slice(0, ROWS)), tmp_path / "t")
    options = look(table, label="Score", drop=[QUESTION])["options"]
    assert options[options.index("--drop") + 1] == f'"{QUESTION}",Ticket'
    assert options[options.index("--person") + 1] == "Full name"
    asked = ["--label-range", "0", "100", "--drop", "Area", "--json"]
    done = run("plan", str(table), *options, *asked)
    assert done.code == 0, done.err
    used = done.json["features"]["numeric"] + done.json["features"]["categorical"]
    assert [column["name"] for column in used] == ["Opened", "Net", "Dept.", "Remote?"]
    assert used[2]["levels"] == ["Engineering", "Legal", "Sales"]
    wrong = run("plan", str(table), "--label", "Score", *asked, "--categorical", QUESTION)
    assert wrong.code == 2
    assert f"a name that has a comma stands in double quotes: '\"{QUESTION}\"'" in wrong.err


def test_a_column_of_nothing() -> None:
    table = pa.table({"x": [1.5, 2.5, 3.5], "none": pa.nulls(3), "y": [1.0, 2.0, 3.0]})
    found = look(table, label="y")
    assert [facts["kind"] for facts in found["columns"]] == ["number", "constant"]


def test_a_label_among_the_features_has_a_cure() -> None:
    rng = np.random.default_rng(6)
    y = rng.normal(size=200)
    found = look({"a": rng.normal(size=200), "y, cents": 100 * y, "y": y}, label="y")
    (finding,) = [text for text in found["findings"] if "other units" in text]
    assert finding.endswith("""`drop='"y, cents"'`""")


def test_numbers_that_stand_for_no_answer(tmp_path: Path) -> None:
    """99 beside 1 to 5, 999 beside hours, −999 beside amounts: not 99 among ages."""
    rng = np.random.default_rng(7)
    n = 4_000
    columns: dict[str, Any] = {f"q{k}": rng.integers(1, 6, n) for k in range(20)}
    hours, amount = rng.integers(0, 60, n), rng.gamma(3, 9, n).round(2)
    y = 5 + sum(columns[f"q{k}"] - 3 for k in range(4)) / 2 + hours / 20 + amount / 20
    columns |= {"age": rng.integers(18, 100, n), "hours": hours, "amount": amount}
    for name, code in {**{f"q{k}": 99 for k in range(20)}, "hours": 999, "amount": -999}.items():
        columns[name] = np.where(rng.random(n) < 0.05, code, columns[name])
    columns |= {"debt": rng.normal(0, 9, n).round(), "y": np.clip(y + rng.normal(0, 1, n), 0, 20)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = look(tmp_path / "t.parquet", label="y")
    codes = {c["name"]: c["no_answer"] for c in found["columns"] if c["no_answer"]}
    assert codes == {f"q{k}": [99] for k in range(20)} | {"hours": [999], "amount": [-999]}
    assert any(text.startswith("hours: 999 far from all") for text in found["findings"])
    assert "--na" not in found["options"]
    again = look(tmp_path / "t.parquet", label="y", na=["hours=999"])
    assert again["options"][again["options"].index("--na") + 1] == "hours=999"
    assert not next(c for c in again["columns"] if c["name"] == "hours")["no_answer"]


@pytest.mark.parametrize(
    "values",
    [
        [*range(60, 100)],
        [1, 2, 3, 4, 5, 9],
        [-1, 0, 1],
        [-9, -8, -7, -2, 0, 4],
        [0.5, 99.5, 1.5],
        [99, 98],
        [77, 78, 79, 88],
        [-1, 0, 1, 2, 3],
        [*range(-1, 40), -2],
        [*range(40)],
        [0, *range(10, 60)],
        [0, 100, 101],
    ],
)
def test_numbers_that_stand_for_themselves(values: list[float]) -> None:
    table = {"x": values * 20, "y": [1.0] * (20 * len(values))}
    assert look(table, label="y")["columns"][0]["no_answer"] == []


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "pandas", "gaps", "excel"])
def test_digits_that_are_days(form: str, tmp_path: Path) -> None:
    """`look` finds them, its option reads them in every format, and predictions know."""
    days = [datetime.date(2019, 12, 1) + datetime.timedelta(days=7 * k % 900) for k in range(400)]
    numbers = [int(f"{day:%Y%m%d}") for day in days]
    table = pa.table({"sold": numbers, "size": [k * 11 % 37 for k in range(400)], "y": [1.0] * 400})
    frame = table.to_pandas()
    if form == "gaps":
        frame.loc[5, "sold"] = np.nan
    if form == "csv":
        frame.to_csv(tmp_path / "t.csv", index=False)
    if form == "excel":
        frame.to_excel(tmp_path / "t.xlsx", index=False)
    pq.write_table(table, tmp_path / "t.parquet")
    kept: dict[str, Any] = {"csv": tmp_path / "t.csv", "parquet": tmp_path / "t.parquet"}
    data = kept.get(form, {"arrow": table, "excel": tmp_path / "t.xlsx"}.get(form, frame))
    found = look(data, label="y")
    assert found["options"][found["options"].index("--date-format") + 1] == "%Y%m%d"
    assert {c["name"]: c["kind"] for c in found["columns"]} == {"sold": "date", "size": "number"}
    source = scan(data, label="y", label_range=(0, 2), date_format="%Y%m%d")
    epoch = datetime.date(1970, 1, 1)
    read = np.concatenate([to_float(b.column(0), "sold") for b in source.feature_batches()])
    assert read[:4].tolist() == [(day - epoch).days for day in days[:4]]
    further = scan({"sold": [20200229], "size": [3]}, column_formats=fit_features(source).spelt)
    batch = next(further.feature_batches())
    assert to_float(batch.column(0), "sold").tolist() == [18321.0]


def test_digits_that_are_no_days() -> None:
    table = {"x": [20_210_000 + 37 * k for k in range(60)], "y": [1.0] * 60}
    assert "--date-format" not in look(table, label="y")["options"]
