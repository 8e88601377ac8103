"""Further rows: of other types, in other order, with values that were not fitted; and raw rows."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

from labeldp import InputError, LinearRegressor, plan, scan
from labeldp.errors import DataError
from labeldp.features.encoder import UnseenValues
from labeldp.features.feature_map import FeatureMap, raw_columns, raw_schema
from labeldp.features.fit import fit_features
from labeldp.releases.tables import table_digest
from tests.console import labeldp as run

TABLE = pa.table(
    {
        "x": [1.0, 2.0, 3.0, 6.0],
        "code": [1, 2, 3, 1],
        "member": [True, False, True, True],
        "town": ["a", "b", "a", "b"],
    }
)
ROWS = 600


@pytest.fixture(scope="module")
def features() -> FeatureMap:
    return fit_features(scan(TABLE, categorical=["code"]))


def with_column(name: str, values: Any, rows: int = 4) -> pa.Table:
    place = TABLE.column_names.index(name)
    return TABLE.slice(0, rows).set_column(place, name, pa.array(values))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("code", pa.array([1.0, 2.0, 3.0, 1.0])),
        ("code", pa.array(["1.0", "02", " 3", "1"])),
        ("code", pa.array([1, 2, 3, 1], pa.uint8()).dictionary_encode()),
        ("code", pa.array([1, 2, 3, 1]).cast(pa.decimal128(19, 0))),
        ("member", pa.array(["True", "FALSE", "true", "true"])),
        ("x", pa.array(["1", "2.0", " 3", "6e0"])),
        ("x", pa.array([1, 2, 3, 6], pa.float32())),
        ("x", pa.array([1, 2, 3, 6]).cast(pa.decimal128(19, 0))),
        ("town", pa.array(["a", "b", "a", "b"], pa.string_view())),
        ("town", pa.array(["a", "b", "a", "b"]).dictionary_encode()),
        ("town", pa.DictionaryArray.from_arrays([2, 1, 2, 1], ["unused", "b", "a"])),
    ],
)
def test_types_may_differ(features: FeatureMap, column: str, values: pa.Array) -> None:
    table = TABLE.set_column(TABLE.column_names.index(column), column, values)
    np.testing.assert_array_equal(features.design(table), features.design(TABLE))


def test_any_frame_any_order_any_number_of_rows(features: FeatureMap) -> None:
    expected = features.design(TABLE)
    wide = TABLE.append_column("y", pa.array([9] * 4)).select(["y", "town", "member", "x", "code"])
    for rows in (wide, wide.to_pandas(), pl.from_arrow(wide), wide.to_batches()[0]):
        np.testing.assert_array_equal(features.design(rows), expected)
    many = TABLE.take(np.tile(np.arange(4), 20_000))
    np.testing.assert_array_equal(features.design(many)[-4:], expected)
    assert features.design(TABLE.slice(0, 0)).shape == (0, len(features.names))


def test_a_dictionary_larger_than_the_batch() -> None:
    levels = [f"l{i}" for i in range(300)]
    features = fit_features(scan(pa.table({"k": [*levels * 2, None]})), min_count=1)
    column = pa.DictionaryArray.from_arrays(pa.array([299, None, 0]), levels)
    design = features.design(pa.table({"k": column}))
    names = [features.names[i] for i in design[:, 1:].argmax(1) + 1]
    assert names == ["k=l299", "k=(missing)", "k=l0"]


def test_what_is_refused(features: FeatureMap) -> None:
    with pytest.raises(DataError, match="there is no column 'x'; the columns are 'code', 'member'"):
        features.design(TABLE.select(["code", "member"]))
    with pytest.raises(DataError, match="no single column 'x'"):
        features.encode(pa.record_batch({"code": [1]}))
    for value, shown in (("zz", "level 'zz'"), (None, "a missing value")):
        with pytest.raises(DataError, match=f"column 'town' has {shown}.*min_count"):
            features.design(with_column("town", [value, "a", "b", "a"]))
    with pytest.raises(DataError, match="infinity at row 2"):
        features.design(with_column("x", [1.0, float("inf")], 2))


def test_numbers_beyond_the_range_and_missing_ones(features: FeatureMap) -> None:
    """Not clipped unless the column is winsorised; missing is the mean, and so is a text."""
    column = features.numeric[0]
    expected = (np.array([-100.0, 500.0]) - column.imputed) * column.scale / column.step
    far = features.design(with_column("x", [-100.0, 500.0], 2))[:, 1]
    np.testing.assert_allclose(far, expected)
    for values in ([1.5, None], ["1.5", "six"]):
        assert features.design(with_column("x", values, 2))[1, 1] == 0


def test_dates_as_categories_read_alike() -> None:
    days = pd.DatetimeIndex(["2020-01-01 00:00", "2020-01-02 00:00", "2020-01-01 06:30"])
    moments = pa.array(days.as_unit("ns"))
    for column in (moments, moments.cast(pa.timestamp("s")), moments.cast(pa.timestamp("us"))):
        fitted = fit_features(scan(pa.table({"d": column}), categorical=["d"]))
        assert fitted.categorical[0].levels == ("2020-01-01", "2020-01-01 06:30:00", "2020-01-02")
    column = pa.array(days.date, pa.date32())
    fitted = fit_features(scan(pa.table({"d": column}), categorical=["d"]))
    assert fitted.categorical[0].levels == ("2020-01-01", "2020-01-02")


def test_raw_columns_have_one_form_and_encode_as_the_table_does() -> None:
    rng, some = np.random.default_rng(0), range(300)
    data = pa.table(
        {
            "few": pa.array(rng.integers(0, 3, 300), pa.int8()),
            "gaps": pa.array([None if k % 7 == 0 else float(k) for k in some]),
            "text": pa.array([None if k % 9 == 0 else f"t{k % 4}é" for k in some]),
            "flag": pa.array(rng.random(300) < 0.5),
            "money": pa.array([decimal.Decimal(int(k)) / 4 for k in rng.integers(0, 99, 300)]),
            "day": pa.array([datetime.date(2020, 1, 1 + k % 20) for k in some]),
            "codes": pa.array([float("nan") if k % 11 == 0 else k % 3 + 0.5 for k in some]),
        }
    )
    digests = set()
    for table in (data, data.set_column(2, "text", data["text"].dictionary_encode())):
        rows = scan(table, categorical=["codes"], batch_rows=64)
        fitted = fit_features(rows)
        raw = [raw_columns(fitted, batch) for batch in rows.feature_batches(fitted.columns)]
        whole = pa.Table.from_batches(raw, schema=raw_schema(fitted))
        np.testing.assert_array_equal(fitted.design(whole), fitted.design(rows))
        again = [raw_columns(fitted, batch) for batch in raw]
        digests |= {table_digest(whole), table_digest(pa.Table.from_batches(again))}
    assert len(digests) == 1
    assert whole["flag"][0].as_py() in ("true", "false")
    assert whole["codes"].null_count == len(range(0, 300, 11))
    assert np.isnan(whole["gaps"].to_numpy()).sum() == len(range(0, 300, 7))
    assert whole["day"][1].as_py() == 18263.0


def test_a_digest_covers_texts_however_they_are_cut() -> None:
    table = pa.table({"a": ["x", None, "", "yzé", "q"], "b": [1.0, 2.0, 3.0, 4.0, 5.0]})
    whole = table_digest(table)
    parts = pa.concat_tables([table.slice(0, 1), table.slice(1, 3), table.slice(4)])
    assert table_digest(parts) == whole
    others = (["x", "", None, "yzé", "q"], ["xy", None, "", "zé", "q"], ["x", None, "", "yze", "q"])
    for other in others:
        assert table_digest(table.set_column(0, "a", pa.array(other))) != whole


def towns(*names: str | None) -> pa.Table:
    return pa.table(
        {
            "x": (np.arange(ROWS) % 91) / 4,
            "town": pa.array([names[k % len(names)] for k in range(ROWS)]),
            "code": np.arange(ROWS) % 5,
        }
    )


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


ABC = fit_features(scan(towns("a", "b", "c")))


def test_known_rows_are_left_alone() -> None:
    rows, unseen = towns("a", "b", "c").to_batches()[0], UnseenValues()
    np.testing.assert_array_equal(ABC.design(rows, unseen), ABC.design(rows))
    assert not unseen.unknown_levels + unseen.outside_range


@pytest.mark.parametrize("unknown", ["base", "error"])
def test_numbers_outside_are_clipped_and_counted(unknown: str) -> None:
    unseen, column = UnseenValues(unknown), ABC.numeric[0]
    rows = batch(x=[-5.0, 1.0, 1e9, None], town=["a"] * 4, code=[1] * 4)
    like = batch(x=[column.low, 1.0, column.high, None], town=["a"] * 4, code=[1] * 4)
    np.testing.assert_array_equal(ABC.design(rows, unseen), ABC.design(like))
    assert unseen.outside_range == {"x": 2}


@pytest.mark.parametrize("town", [["z", "a", None], pa.array(["z", "a", None]).dictionary_encode()])
def test_an_unknown_level_is_the_pruned_one(town: Any) -> None:
    left_out = [ABC.all_names.index(name) for name in ("town=b", "code=0")]
    features = ABC.keep([place for place in range(ABC.width) if place not in left_out])
    rows = batch(x=[1.0] * 3, town=town, code=pa.array([9, 1, 2]))
    unseen = UnseenValues()
    like = batch(x=[1.0] * 3, town=["b", "a", "b"], code=[0, 1, 2])
    np.testing.assert_array_equal(features.design(rows, unseen), features.design(like))
    assert unseen.unknown_levels == {"town": 2, "code": 1}  # a missing town is unknown as well


def test_unknown_levels_may_be_refused() -> None:
    rows = batch(x=[1.0, 1.0], town=["z", "a"], code=[1, 1])
    with pytest.raises(DataError, match="level 'z'"):
        ABC.design(rows, UnseenValues("error"))
    with pytest.raises(InputError, match="`unknown` must be 'base' or 'error'"):
        UnseenValues("skip")


def test_the_command_does_not_stop(tmp_path: Any) -> None:
    rows = towns("a", "b", "c").append_column("y", pa.array(np.arange(ROWS) % 10 / 1.0))
    source = scan(rows, label="y", label_range=(0, 10))
    release = plan(source, epsilon=5, delta=1e-4).release(source)
    LinearRegressor().fit(release).save(tmp_path / "m.json")
    new = pa.table({"id": ["007", "008"], "x": [1.0, 1e7], "town": ["z", "a"], "code": [1, 2]})
    pa.csv.write_csv(new, tmp_path / "new.csv")
    command = ["predict", tmp_path / "m.json", tmp_path / "new.csv", "--keep", "id"]
    done = run(*command, "--out", tmp_path / "p.csv", "--json")
    assert done.code == 0, done.err
    assert done.json["unknown_levels"] == {"town": 1}
    assert done.json["outside_range"] == {"x": 1}
    lines = (tmp_path / "p.csv").read_text().replace('"', "").splitlines()
    assert lines[0] == "id,prediction"
    assert [line.split(",")[0] for line in lines[1:]] == ["007", "008"]
    refused = run(*command, "--unknown", "error", "--out", tmp_path / "q.csv")
    assert "level 'z'" in refused.error
    assert not (tmp_path / "q.csv").exists()
