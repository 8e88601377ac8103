"""Numbers in a dress: rates, scales, sides, bounds, shares; durations in letters; months."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import DataError
from labeldp.data.columns import to_float
from labeldp.data.source import scan
from labeldp.features.fit import fit_features
from tests.tables import csv_of

NUMBERS: list[tuple[list[str], list[float]]] = [
    (["$250/mo", "$1,300/mo"], [250, 1300]),
    (["10 €/m²", "12,5 €/m²"], [10, 12.5]),
    (["6.5 l/100km", "7 l/100km"], [6.5, 7]),
    (["45 km/h", "7 km/h"], [45, 7]),
    (["$12 per hour", "$15.5 per hour"], [12, 15.5]),
    (["25/h", "30/h"], [25, 30]),
    (["12,5 % vol", "13 % vol"], [12.5, 13]),
    (["3 sq meters", "4 sq meters"], [3, 4]),
    (["1.5k", "200", "2M"], [1500, 200, 2e6]),
    (["$349k", "-$1.2M", "$2,000"], [349_000, -1.2e6, 2000]),
    (["1,5 Mio. €", "2 Tsd. €"], [1.5e6, 2000]),
    (["120k km", "15k km"], [120_000, 15_000]),
    (["5 kg", "6 kg"], [5, 6]),
    (["2 BR", "1 BR"], [2, 1]),
    (["1 bed", "2 beds"], [1, 2]),
    (["1 year", "2 years"], [1, 2]),
    (["3rd", "1st", "2nd", "4th"], [3, 1, 2, 4]),
    (["52.5°N", "3.25° S"], [52.5, -3.25]),
    (["13.4E", "71.04W"], [13.4, -71.04]),
    (["500W", "40W"], [500, 40]),
    (["1,200.00 CR", "80.50 DR"], [-1200, 80.5]),
    (["<5", "12.3", "4", "5", ">200"], [5, 12.3, 4, 5, 200]),
    (["0", "1", "2", "3", "4+"], [0, 1, 2, 3, 4]),
    (["< 1,5 mg/L", "2,5 mg/L", "7 mg/L"], [1.5, 2.5, 7]),
    (["1 day", "12 days", "90+ days"], [1, 12, 90]),
    (["6.5", "7 hours", "8.5 hrs", "6 h"], [6.5, 7, 8.5, 6]),
    (["1,250 sqft", "900 sq ft"], [1250, 900]),
    (["1.5 kg", "250 g", "-2 lb"], [1.5, 0.25, -0.90718474]),
    (["1.80m", "180 cm", "6 ft"], [1.8, 1.8, 1.8288]),
    (["0,5 ha", "1.250 m²"], [5000, 1250]),
    (["90 min", "2 hours", "1 day"], [1.5, 2, 24]),
    (["18 months", "2 yrs"], [1.5, 2]),
    (["1", "2", "3 or more", "more than 9"], [1, 2, 3, 9]),
    (
        ["1968", "ca. 1950", "ca 1951", "1970", "about 1990", "1980", "7"],
        [1968, 1950, 1951, 1970, 1990, 1980, 7],
    ),
    (["1,886", "1,221 km", "900 KM", "7 km"], [1886, 1221, 900, 7]),
    (["Rs. 5,14,248.00", "₹1,000", "12,500"], [514248, 1000, 12500]),
    (["172/180", "3/4", "1"], [172 / 180, 0.75, 1]),
    (["4,5/5", "5/5"], [0.9, 1]),
    (["1,200/5,000", "3/4"], [0.24, 0.75]),
]
HOURS = [
    (["1h 25m", "25m", "2h"], [85 / 60, 25 / 60, 2]),
    (["1 hr 30 mins", "2 hrs"], [1.5, 2]),
    (["1h05", "14h30"], [65 / 60, 14.5]),
    (["07:30 Uhr", "12:00 Uhr"], [7.5, 12]),
]
MONTHS = [
    (["Mar-21", "Apr-22"], [18687, 19083]),
    (["2021-03", "2022-11"], [18687, 19297]),
    (["03/2021", "11/2022"], [18687, 19297]),
    (["März 2021", "Nov 2022"], [18687, 19297]),
    (["Mon 1 Mar 2021", "Tue 1 Nov 2022"], [18687, 19297]),
    (["Monday, March 1, 2021", "Tuesday, November 1, 2022"], [18687, 19297]),
    (["Mo., 01.03.2021", "Di., 01.11.2022"], [18687, 19297]),
    (["Mar 1 2021", "Nov 1 2022"], [18687, 19297]),
    (["01mar2021", "01nov2022"], [18687, 19297]),
]


def _kept(texts: list[str], form: str, folder: Path) -> Any:
    table = pa.table({"x": texts * 5, "y": [1.0] * 5 * len(texts)})
    if form == "csv":
        lines = [f"{x}\t{y}" for x, y in zip(*table.to_pydict().values(), strict=True)]
        (folder / "t.tsv").write_text("\n".join(["x\ty", *lines]))
        return folder / "t.tsv"
    pq.write_table(table, folder / "t.parquet")
    return {"parquet": folder / "t.parquet", "arrow": table, "pandas": table.to_pandas()}[form]


def _numbers(source: Any) -> list[float]:
    found = [to_float(batch.column(0), "x") for batch in source.feature_batches()]
    return np.concatenate(found).tolist()


@pytest.mark.parametrize(("texts", "values"), [*NUMBERS, *HOURS, *MONTHS])
def test_numbers_in_a_dress(texts: list[str], values: list[float], tmp_path: Path) -> None:
    source = scan(_kept(texts, "csv", tmp_path), label="y")
    assert source.columns[0].kind == "numeric"
    assert _numbers(source)[: len(values)] == pytest.approx(values, rel=1e-12)
    assert source.notes[0].startswith("x: ")


@pytest.mark.parametrize(
    "texts",
    [
        ["<=50K", ">50K"],  # bounds alone are levels
        ["18-25", "26-35"],
        ["<1 year", "1-2 years"],
        ["120/80", "90/60"],  # two numbers, not one
        ["3/A", "4/B"],
        ["12 km", "13 km/h"],
        ["12 km", "13 kg"],
        ["1.5 kg", "500 g", "3"],  # of what?
        ["$12", "€13"],
        ["2 BR", "3 bath"],
        ["12N", "14E"],
        ["5A", "6A"],
        ["Model 2020", "Item 2021"],
        ["2019-20", "2020-21"],
        ["2 BR", "3"],
        ["1", "2", "5+3"],
        ["over", "under", "3"],
    ],
)
def test_what_is_no_number_in_any_dress(texts: list[str], tmp_path: Path) -> None:
    for form in ("csv", "arrow"):
        source = scan(_kept(texts, form, tmp_path), label="y")
        assert source.columns[0].kind == "categorical", form


@pytest.mark.parametrize(
    ("fitted", "further", "value"),
    [
        (["<5", "12", "4", "5", "6", ">200"], "<5", 5),
        (["3/4", "1/2", "1"], "5/4", 1.25),
        (["13.4E", "71.04W"], "50.5W", -50.5),
        (["1,200 CR", "80 DR"], "7 CR", -7),
        (["1.5 kg", "250 g"], "2 lb", 0.90718474),
    ],
)
def test_one_row_more_is_read_as_the_fitted_ones(
    fitted: list[str], further: str, value: float
) -> None:
    """What only a whole column can tell is kept with the features."""
    table = {"x": fitted * 20, "y": [1.0] * (20 * len(fitted))}
    features = fit_features(scan(csv_of(table), label="y", label_range=(0, 2)))
    again = type(features).from_json(features.to_json())
    source = scan({"x": [further]}, spelt=again.spelt)
    assert _numbers(source) == [value]


def test_a_measure_without_its_unit_is_refused() -> None:
    table = {"x": ["1.5 kg", "250 g"] * 60, "y": [1.0] * 120}
    source = scan(csv_of(table), label="y", label_range=(0, 2))
    assert source.notes == ("x: texts read as numbers, decimal sign '.', all in kg",)
    features = fit_features(source)
    for text in ("7", "7 km"):
        with pytest.raises(DataError, match=rf"read in kg but also '{text}'; give it such a unit"):
            list(features.batches({"x": [text]}))


def test_a_unit_that_differs_in_one_row_of_many_batches(tmp_path: Path) -> None:
    texts = [f"{k} blips" for k in range(100_000)] + ["7 blops"]
    pq.write_table(pa.table({"x": texts, "y": [1.0] * len(texts)}), tmp_path / "t.parquet")
    assert scan(tmp_path / "t.parquet", label="y").columns[0].kind == "categorical"


@pytest.mark.parametrize(("texts", "word"), [(["3/4", "1/2"], "gone"), (["2 BR", "3 BR"], "Loft")])
def test_a_few_words_among_numbers_in_a_dress_are_found(texts: list[str], word: str) -> None:
    table = {"x": [*texts * 60, word, word], "y": [1.0] * 122}
    source = scan(csv_of(table), label="y")
    assert source.notes[0].startswith(f"x: texts such as {word!r} count as missing")
    assert source.columns[0].kind == "numeric"
    assert len(fit_features(source).spelt["x"]["na"]) == 1
