"""Spark's part of what every reader owes (see tests/contracts/test_reader.py)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from labeldp import InputError, SparkEngine, scan
from labeldp.features.fit import fit_features
from labeldp.spark.engine import engine_for, over_parts
from tests.contracts import test_reader as contract
from tests.data import test_same_design as same
from tests.tables import RANGE


def test_a_data_frame_has_the_same_names_kinds_and_rows(spark: Any) -> None:
    instants = spark.createDataFrame(contract.TABLE)  # in the zone of the session
    frame = instants.withColumn("seen", instants["seen"].cast("timestamp_ntz")).repartition(2)
    source = scan(frame, label="label", label_range=RANGE)
    assert list(source.reader.schema.names) == contract.TABLE.column_names
    kinds = [(column.name, column.kind) for column in source.columns]
    assert kinds == list(zip(contract.FEATURES, contract.KINDS, strict=True))
    for names in (contract.FEATURES, ["town", "height"]):
        parts = over_parts(source, names, partial(_rows, names))
        found = [row for part in parts for row in part]
        assert sorted(found, key=repr) == sorted(contract.expected(names), key=repr)


def _rows(names: list[str], part: Any) -> list[tuple[Any, ...]]:
    return contract.rows_of(part.feature_batches(names))


def test_it_names_its_engine_and_is_read_nowhere_else(spark: Any) -> None:
    source = scan(spark.createDataFrame(contract.TABLE))
    assert source.reader.on_cluster
    assert isinstance(engine_for(source), SparkEngine)
    assert source.state() is None
    assert source.reader.units() == (source.reader,)
    assert scan(source.reader).columns == source.columns
    with pytest.raises(InputError, match="stay on the cluster"):
        list(source.reader.batches(["height"], 10))
    with pytest.raises(InputError, match="SparkEngine reads Spark data frames"):
        fit_features(scan(contract.TABLE), run_pass=SparkEngine().run_pass)


def test_other_things_of_spark_are_no_tables(spark: Any) -> None:
    with pytest.raises(Exception, match="cannot be read"):
        scan(spark)


def test_the_same_rows_make_the_same_features(spark: Any) -> None:
    """Every kind of column.

    Spark takes times without a zone for instants in its session's zone unless it is told not to.
    """
    whole = same.table(7)
    expected = fit_features(scan(whole, label="y")).to_json()
    instants = spark.createDataFrame(whole)
    frame = instants.withColumn("times", instants["times"].cast("timestamp_ntz")).repartition(2)
    source = scan(frame, label="y")
    assert fit_features(source, run_pass=SparkEngine().run_pass).to_json() == expected


def test_texts_are_categories(spark: Any) -> None:
    codes = ["250.83", "428", "V57", "401.9"] * 60
    frame = spark.createDataFrame(pa.table({"code": codes, "x": [k / 7 for k in range(240)]}))
    assert scan(frame).columns[0].kind == "categorical"
