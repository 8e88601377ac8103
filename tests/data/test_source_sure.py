"""Numbers and dates that are read as one thing only if they can be nothing else."""

import datetime

import pyarrow as pa
import pytest

from labeldp import scan
from tests.tables import csv_of


def values_of(texts: list[str]) -> pa.Array:
    table = {"d": texts, "x": list(range(len(texts)))}
    (batch,) = scan(csv_of(table), features=["d"]).feature_batches()
    return batch.column(0)


@pytest.mark.parametrize(
    ("most", "one", "value"),
    [
        ("2.75", "0,123", 0.123),
        ("2.75", "1.234,567", 1234.567),
        ("2.75", "12345,678", 12345.678),
        ("2.75", "1,5e3", 1500.0),
        ("12.5 m2", "14,5 m2", 14.5),
        ("12.5 руб.", "14,5 руб.", 14.5),
        ("6.5 l/100km", "8,5 l/100km", 8.5),
        ("12,5", "1,234,567", 1234567.0),
        ("12,5", "0.123", 0.123),
        ('="6"', '="5-"', -5.0),
    ],
)
def test_the_sign_that_it_must_be(most: str, one: str, value: float) -> None:
    assert values_of([*[most] * 90, one])[-1].as_py() == value


@pytest.mark.parametrize("form", ["10.20.30.{}", "1.12.{}", "12 34 {}"])
def test_addresses_and_versions_are_no_numbers(form: str) -> None:
    assert pa.types.is_string(values_of([form.format(k) for k in range(100, 200)]).type)


def test_november_is_not_march() -> None:
    assert values_of(["2. marraskuuta 2019"] * 30)[0].as_py() == datetime.datetime(2019, 11, 2)


@pytest.mark.parametrize("words", [["Marathon 2019", "Junction 2018"], ["Janet-05", "Mark-12"]])
def test_words_that_begin_like_months(words: list[str]) -> None:
    assert pa.types.is_string(values_of(words * 30).type)


@pytest.mark.parametrize("day", ["31.06.19", "29.02.19"])
def test_days_of_no_calendar_with_two_digits(day: str) -> None:
    assert values_of(["30.05.19", "01.03.29", day] * 30)[:3].to_pylist() == [
        datetime.datetime(2019, 5, 30), datetime.datetime(2029, 3, 1), None,
    ]  # fmt: skip
