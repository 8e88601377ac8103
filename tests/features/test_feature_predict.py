"""Rows at prediction: other types, other order, other values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from labeldp.data.source import scan
from labeldp.errors import DataError
from labeldp.features.fit import fit_features

TABLE = pa.table(
    {
        "x": [1.0, 2.0, 3.0, 6.0],
        "code": [1, 2, 3, 1],
        "member": [True, False, True, True],
        "town": ["a", "b", "a", "b"],
    }
)


@pytest.fixture(scope="module")
def mapped():
    return fit_features(scan(TABLE, categorical=["code"]))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("code", pa.array([1.0, 2.0, 3.0, 1.0])),
        ("code", pa.array(["1", "2", "3", "1"])),
        ("code", pa.array(["1.0", "02", " 3", "1"])),
        ("code", pa.array([1, 2, 3, 1], pa.uint8()).dictionary_encode()),
        ("code", pa.array([1, 2, 3, 1]).cast(pa.decimal128(19, 0))),
        ("member", pa.array(["True", "FALSE", "true", "true"])),
        ("x", pa.array([1, 2, 3, 6])),
        ("x", pa.array(["1", "2.0", " 3", "6e0"])),
        ("x", pa.array([1, 2, 3, 6], pa.float32())),
        ("x", pa.array([1, 2, 3, 6]).cast(pa.decimal128(19, 0))),
        ("town", pa.array(["a", "b", "a", "b"], pa.large_string())),
        ("town", pa.array(["a", "b", "a", "b"], pa.string_view())),
        ("town", pa.array(["a", "b", "a", "b"]).dictionary_encode()),
    ],
)
def test_types_may_drift(mapped, column, values):
    table = TABLE.set_column(TABLE.column_names.index(column), column, values)
    np.testing.assert_array_equal(mapped.design(table), mapped.design(TABLE))


def test_any_frame_any_order_extra_columns(mapped):
    expected = mapped.design(TABLE)
    wide = TABLE.append_column("y", pa.array([9, 9, 9, 9])).select(
        ["y", "town", "member", "x", "code"]
    )
    for rows in (wide, wide.to_pandas(), pl.from_arrow(wide), wide.to_batches()[0]):
        np.testing.assert_array_equal(mapped.design(rows), expected)


def test_batches_do_not_matter(mapped):
    many = TABLE.take(np.tile(np.arange(4), 20_000))
    np.testing.assert_array_equal(mapped.design(many)[-4:], mapped.design(TABLE))


def test_unused_dictionary_values_are_no_levels(mapped):
    town = pa.DictionaryArray.from_arrays([2, 1], ["unknown", "b", "a"])
    design = mapped.design(TABLE.slice(0, 2).set_column(3, "town", town))
    np.testing.assert_array_equal(design, mapped.design(TABLE.slice(0, 2)))


def test_dictionary_larger_than_the_batch():
    levels = [f"l{i}" for i in range(300)]
    mapped = fit_features(scan(pa.table({"k": [*levels * 2, None]})), min_count=1)
    column = pa.DictionaryArray.from_arrays(pa.array([299, None, 0]), levels)
    design = mapped.design(pa.table({"k": column}))
    assert [mapped.names[i] for i in design[:, 1:].argmax(1) + 1] == [
        "k=l299",
        "k=(missing)",
        "k=l0",
    ]


def test_missing_columns_are_named(mapped):
    with pytest.raises(DataError, match="lack the feature columns 'x', 'town'"):
        mapped.design(TABLE.select(["code", "member"]))
    with pytest.raises(DataError, match="'x'"):
        mapped.encode(pa.record_batch({"code": [1]}))


def test_unknown_level_without_a_place(mapped):
    for value, shown in (("zz", "level 'zz'"), (None, "a missing value")):
        town = pa.array([value, "a", "b", "a"])
        with pytest.raises(DataError, match=f"column 'town' has {shown}.*min_count"):
            mapped.design(TABLE.set_column(3, "town", town))


def test_values_outside_the_fitted_range_are_not_clipped(mapped):
    rows = pa.table({"x": [-100.0, 500.0], "code": [1, 1], "member": [True] * 2, "town": ["a"] * 2})
    column = mapped.numeric[0]
    expected = (np.array([-100.0, 500.0]) - column.imputed) * column.scale / column.step
    np.testing.assert_allclose(mapped.design(rows)[:, 1], expected)


def test_missing_at_prediction_only_is_the_mean(mapped):
    rows = TABLE.slice(0, 1).set_column(0, "x", pa.array([None], pa.float64()))
    assert mapped.design(rows)[0, 1] == 0


def test_infinity_is_refused_and_text_is_missing(mapped):
    def rows(values):
        return TABLE.slice(0, 2).set_column(0, "x", pa.array(values))

    with pytest.raises(DataError, match="infinity at row 2"):
        mapped.design(rows([1.0, float("inf")]))
    np.testing.assert_array_equal(
        mapped.design(rows(["1.5", "six"])), mapped.design(rows([1.5, None]))
    )


def test_no_rows(mapped):
    assert mapped.design(TABLE.slice(0, 0)).shape == (0, len(mapped.names))


def test_dates_as_categories_read_alike():
    days = pd.DatetimeIndex(["2020-01-01 00:00", "2020-01-02 00:00", "2020-01-01 06:30"])
    for unit in ("s", "ms", "us", "ns"):
        column = pa.array(days.as_unit("ns")).cast(pa.timestamp(unit))
        mapped = fit_features(scan(pa.table({"d": column}), categorical=["d"]))
        assert mapped.categorical[0].levels == ("2020-01-01", "2020-01-01 06:30:00", "2020-01-02")
    column = pa.array(days.date, pa.date32())
    mapped = fit_features(scan(pa.table({"d": column}), categorical=["d"]))
    assert mapped.categorical[0].levels == ("2020-01-01", "2020-01-02")
