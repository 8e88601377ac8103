"""Units beside numbers in text files."""

from __future__ import annotations

import pytest

from labeldp import scan
from tests.tables import csv_of


@pytest.mark.parametrize("unit", ["R$ {}", "US${}", "{} kr", "{} zł", "{} kg", "{} °C", "€{}"])
def test_units(unit: str) -> None:
    """One unit beside every number is left out."""
    values = [k * 37.25 for k in range(60)]
    texts = [unit.format(f"{v:,.2f}".translate({44: ".", 46: ","})) for v in values]
    source = scan(csv_of({"x": texts, "y": values}), label="y")
    assert [v for b in source.feature_batches() for v in b.column(0).to_pylist()] == values
    assert "decimal sign ','" in source.notes[0]


@pytest.mark.parametrize(
    "unit", ["{} ans", "{}m", "{} m", "{} mg/dL", "{} GB", "{} Jahre", "{}歳", "{} h ", "{} pcs"]
)
def test_units_behind_numbers(unit: str) -> None:
    values = [k * 37.25 for k in range(60)]
    source = scan(csv_of({"x": [unit.format(v) for v in values], "y": values}), label="y")
    assert [v for b in source.feature_batches() for v in b.column(0).to_pylist()] == values
    assert source.notes[0].endswith(f"without {unit.format('').strip()}")


@pytest.mark.parametrize("code", ["m{}", "h{}", "s {}", "{}A", "{}e", "T{}"])
def test_letters_that_are_no_units(code: str) -> None:
    table = {"x": [code.format(k % 20) for k in range(60)], "y": [1.0] * 60}
    assert scan(table, label="y").columns[0].kind == "categorical"


def test_numbers_of_two_units_stay_text() -> None:
    table = {"x": [f"{k} {'kg' if k % 2 else 'km'}" for k in range(60)], "y": [1.0] * 60}
    source = scan(csv_of(table), label="y")
    assert source.columns[0].kind == "categorical"
    assert "different spellings or units" in source.notes[0]
