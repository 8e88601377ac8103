"""Cells of the label column decide nothing before the pass that reads labels, whatever they hold.

Excel sheets and columns of Python objects have no types of their own. One that followed from the
values would let a single label stop `plan`.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from labeldp import DataError, verify
from tests.extras import extra
from tests.plans import plan

ROWS = 60
MADE: dict[str, Callable[[dict[str, list[Any]], Path], Any]] = {}


def made(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def kept(make: Callable[..., Any]) -> Callable[..., Any]:
        MADE[name] = make
        return make

    return kept


@made("Excel")
def excel(columns: dict[str, list[Any]], place: Path) -> Path:
    extra("openpyxl")
    from openpyxl import Workbook

    book = Workbook()
    sheet: Any = book.active
    sheet.append(list(columns))
    for row in zip(*columns.values(), strict=True):
        sheet.append(list(row))
    path = place / f"{len(list(place.iterdir()))}.xlsx"
    book.save(path)
    return path


@made("pandas")
def pandas(columns: dict[str, list[Any]], _: Path) -> pd.DataFrame:
    label = pd.Series(columns["y"], dtype=object)
    return pd.DataFrame({**columns, "y": label})


@made("pandas categories")
def categories(columns: dict[str, list[Any]], _: Path) -> pd.DataFrame:
    label = pd.Series(columns["y"], dtype=object).astype("category")
    return pd.DataFrame({**columns, "y": label})


@made("polars")
def polars(columns: dict[str, list[Any]], _: Path) -> pl.DataFrame:
    return pl.DataFrame({**columns, "y": pl.Series(columns["y"], dtype=pl.Object)})


@made("dictionary")
def dictionary(columns: dict[str, list[Any]], _: Path) -> dict[str, list[Any]]:
    return columns


def columns(place: int | None = None, value: Any = None) -> dict[str, list[Any]]:
    """A table of numbers, one of whose labels is another value."""
    rng = np.random.default_rng(0)
    labels: list[Any] = [int(k) if k % 3 else k + 0.5 for k in range(ROWS)]
    if place is not None:
        labels[place] = value
    return {"x": rng.normal(size=ROWS).tolist(), "z": ["a", "b", "c"] * (ROWS // 3), "y": labels}


def planned(data: Any) -> Any:
    return plan(data, 4.0, 0.0, label="y", label_range=(0, 60), mechanism="noisy-rows")


WRONG = {
    "a date": datetime.datetime(2031, 5, 17),
    "a day": datetime.date(2031, 5, 17),
    "a time": datetime.time(17, 31),
    "a text": "seventeen",
    "a text with digits": "17 31",
    "2**63": 2**63,
    "-2**63 - 1": -(2**63) - 1,
    "2**70": 2**70,
    "10**400": 10**400,
    "bytes": b"17",
    "a list": [17],
    "infinite": float("inf"),
    "missing": None,
}
IN_A_CELL = (str, int, datetime.datetime, datetime.date, datetime.time, type(None))


@pytest.mark.parametrize("form", MADE)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_label_stops_the_release_and_not_the_plan(
    form: str, wrong: str, tmp_path: Path
) -> None:
    value = WRONG[wrong]
    if form == "Excel" and (not isinstance(value, IN_A_CELL) or wrong == "10**400"):
        pytest.skip("no cell holds this")
    if form == "pandas categories" and isinstance(value, list):
        pytest.skip("no category is this")
    expected = json.dumps(planned(MADE[form](columns(), tmp_path)).to_json())
    for place in (0, 31, ROWS - 1):
        data = MADE[form](columns(place, value), tmp_path)
        found = planned(data)
        assert json.dumps(found.to_json()) == expected
        with pytest.raises(DataError, match="label column 'y'") as refusal:
            found.release(data, label="y")
        assert "17" not in str(refusal.value)
        assert "seventeen" not in str(refusal.value)


RIGHT = {
    "a number as text": ("12.5", 12.5),
    "true": (True, 1.0),
    "a decimal": (Decimal("12.5"), 12.5),
    "a float of 32 bits": (np.float32(0.1), float(np.float32(0.1))),
    "an integer of 16 bits": (np.int16(7), 7.0),
    "many digits": (0.1 + 0.2, 0.1 + 0.2),
}


@pytest.mark.parametrize("form", MADE)
@pytest.mark.parametrize("right", RIGHT)
def test_labels_of_any_type_are_read_as_the_numbers_they_are(
    form: str, right: str, tmp_path: Path
) -> None:
    from labeldp import scan

    value, number = RIGHT[right]
    if form == "Excel" and right not in ("a number as text", "true", "a decimal"):
        pytest.skip("the writer of Excel files rounds or does not know it")
    data = MADE[form](columns(0, value), tmp_path)
    rows = scan(data, label="y", label_range=(0, 60))
    labels = np.concatenate([batch for _, batch in rows.labelled_batches()])
    expected = np.array([number, *(float(v) for v in columns()["y"][1:])])
    assert np.array_equal(labels, expected)


def test_numbers_beside_decimal_commas_are_numbers(tmp_path: Path) -> None:
    """The decimal sign of the features' texts is not that of typed cells."""
    from labeldp import scan

    table = columns()
    table["x"] = [f"{value:.3f}".replace(".", ",") for value in table["x"]]
    for form in MADE:
        rows = scan(MADE[form](table, tmp_path), label="y", label_range=(0, 60))
        labels = np.concatenate([batch for _, batch in rows.labelled_batches()])
        assert np.array_equal(labels, [float(value) for value in table["y"]])


def test_codes_for_missing_are_found_among_numbers(tmp_path: Path) -> None:
    from labeldp import scan

    for form in MADE:
        data = MADE[form](columns(5, -99.9), tmp_path)
        said: Any = {"label": "y", "label_range": (0, 60), "na": ["y=-99.9"]}
        rows = scan(data, **said, drop_missing_labels=True)
        assert sum(len(batch) for _, batch in rows.labelled_batches()) == ROWS - 1


def test_a_released_workbook_is_verified(tmp_path: Path) -> None:
    place = tmp_path / "books"
    place.mkdir()
    data = excel(columns(), place)
    planned(data).release_to(tmp_path / "r", data, label="y")
    assert verify(tmp_path / "r", data).problems == ()
    assert json.loads((tmp_path / "r" / "certificate.json").read_text())["labels"]["column"] == "y"
