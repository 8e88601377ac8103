"""Spark's part of what every reader owes (see tests/contracts/test_reader.py)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from labeldp import InputError, SparkEngine, scan
from labeldp.engines import engine_for
from labeldp.spark.reader import over_parts
from tests.contracts import test_reader as contract
from tests.tables import RANGE


def test_a_data_frame_has_the_same_names_kinds_and_rows(spark: Any) -> None:
    frame = spark.createDataFrame(contract.TABLE).repartition(3)
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
    assert not source.numbered
    assert isinstance(engine_for(source), SparkEngine)
    assert source.state() is None
    assert source.reader.units() == (source.reader,)
    assert scan(source.reader).columns == source.columns
    with pytest.raises(InputError, match="stay on the cluster"):
        list(source.reader.batches(["height"], 10))


def test_other_things_of_spark_are_no_tables(spark: Any) -> None:
    with pytest.raises(Exception, match="cannot be read"):
        scan(spark)
