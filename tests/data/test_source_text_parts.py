"""Numbers and words within texts, as columns in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import DataError, InputError, scan
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features

TEXTS = ["120/80", "95/60", "not taken", None, "131 / 84 mmHg"]
FORMS = ["csv", "parquet", "arrow", "dictionary", "pandas", "polars"]


def _kept(columns: dict[str, Any], form: str, folder: Path) -> Any:
    table = pa.table(columns)
    if form == "csv":
        table.to_pandas().to_csv(folder / "t.csv", index=False)
        return folder / "t.csv"
    if form == "parquet":
        pq.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"
    coded = table.set_column(0, table.schema.names[0], table.column(0).dictionary_encode())
    frames = {"arrow": table, "dictionary": coded, "pandas": table.to_pandas()}
    return frames.get(form, pl.DataFrame(columns))


def _read(data: Any, parts: list[str]) -> dict[str, list[Any]]:
    batches = list(scan(data, label="y", text_parts=parts).feature_batches())
    return pa.Table.from_batches(batches).to_pydict()


@pytest.mark.parametrize("form", FORMS)
def test_the_same_parts_from_every_format(form: str, tmp_path: Path) -> None:
    data = _kept({"BP": TEXTS, "y": [1.0] * 5}, form, tmp_path)
    assert _read(data, ["BP:number1", "BP:number2", "BP:word1"]) == {
        "BP:number1": [120, 95, None, None, 131],
        "BP:number2": [80, 60, None, None, 84],
        "BP:word1": [None, None, "not", None, "mmHg"],
    }


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("5'11\"", 5, 11),
        ("3 bd / 2.5 ba", 3, 2.5),
        ("1,250 sqft, 2 baths", 1250, 2),
        ("1,234,567.5 of 8", 1234567.5, 8),
        ("3,5 x 4,25 m", 3.5, 4.25),
        ("52.5, -13.4", 52.5, -13.4),
        ("-2 (−3)", -2, -3),
        ("2–1", 2, 1),
        ("25-34", 25, 34),
        ("v1", 1, None),
    ],
)
def test_numbers_within_texts(text: str, first: float, second: float | None) -> None:
    found = _read({"x": [text], "y": [1.0]}, ["x:number1", "x:number2"])
    assert found == {"x:number1": [first], "x:number2": [second]}


def test_words_within_texts() -> None:
    found = _read({"x": ["Ełk-12 O'Hara", "W 3–1"], "y": [1.0, 2.0]}, ["x:word1", "x:word2"])
    assert found == {"x:word1": ["Ełk", "W"], "x:word2": ["O'Hara", None]}


def test_further_rows_need_only_the_names(tmp_path: Path) -> None:
    rows = [f"{'WDL'[k % 3]} {k % 17}–{k % 5}" for k in range(300)]
    parts = ["x:number1", "x:number2", "x:word1"]
    table = {"x": rows, "z": [float(k % 23) for k in range(300)], "y": [1.0] * 300}
    features = fit_features(scan(table, label="y", text_parts=parts))
    again = FeatureMap.from_json(features.to_json())
    assert "x" not in again.columns
    for form in FORMS:
        further = _kept({"x": ["L 7–3"], "z": [2.5]}, form, tmp_path)
        (batch,) = again.batches(further)
        found = batch.to_pydict()
        assert [found[name] for name in parts] == [[7], [3], ["L"]], form


def test_shares_are_parts_where_somebody_says_so() -> None:
    assert _read({"x": ["1/2", "3/4"], "y": [1.0, 2.0]}, ["x:number2"]) == {"x:number2": [2, 4]}


def test_parts_of_what_has_none() -> None:
    table = {"x": [1.0, 2.0], "a": ["1/2", "3/4"]}
    with pytest.raises(DataError, match="'x' holds double, not text; leave it out of `text_parts`"):
        scan(table, text_parts=["x:number1"])
    with pytest.raises(InputError, match="takes names such as 'x:number1' and 'x:word2', not 'a'"):
        scan(table, text_parts=["a"])
    with pytest.raises(DataError, match="text_parts: there is no column 'b'"):
        scan(table, text_parts=["b:number1"])
    with pytest.raises(InputError, match="'a' is the label and cannot also stand in text_parts"):
        scan(table, label="a", text_parts=["a:number1"])
    with pytest.raises(DataError, match="no column 'a:number1'"):
        scan(table, label="a", features=["a:number1"])


def test_a_column_may_be_named_like_a_part() -> None:
    found = scan(pd.DataFrame({"a:number1": [1.5, 2.5], "a": ["7/8", "9/8"]}))
    assert found.names == ("a:number1", "a")
