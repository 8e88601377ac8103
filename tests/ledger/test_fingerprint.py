"""What a table is known by: the same in any format, order, type and partitioning; never a label."""

from __future__ import annotations

import datetime
import hmac
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

from labeldp import scan
from labeldp.ledger import fingerprint as module
from labeldp.ledger.fingerprint import Fingerprint, PersonIds, TableSums, fingerprint
from labeldp.passes.engine import LocalEngine

KEY = b"k" * 32
ROWS = 500


def of(data: Any, key: bytes = KEY, ids: tuple[str, ...] = (), **options: Any) -> Fingerprint:
    source = scan(data, label="y", label_range=(0, 1), batch_rows=64, **options)
    return fingerprint(source, LocalEngine(2), key, ids)


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    day = datetime.datetime(2020, 1, 1)
    hours = rng.integers(0, 4000, ROWS)
    return pa.table(
        {
            "number": np.round(rng.normal(size=ROWS), 3),
            "whole": rng.integers(0, 50, ROWS),
            "gaps": pa.array([None if k % 7 == 0 else k / 4 for k in range(ROWS)]),
            "text": pa.array([None if k % 9 == 0 else f"Town {k % 5}" for k in range(ROWS)]),
            "flag": rng.integers(0, 2, ROWS).astype(bool),
            "date": pa.array([(day + datetime.timedelta(hours=int(h))).date() for h in hours]),
            "time": pa.array([day + datetime.timedelta(hours=int(h)) for h in hours]),
            "y": rng.random(ROWS),
        }
    )


FORMATS = {
    "parquet": lambda data, path: pq.write_table(data, path),
    "csv": lambda data, path: csv.write_csv(data, path),
    "pandas.csv": lambda data, path: data.to_pandas().to_csv(path, index=False),
    "feather": lambda data, path: feather.write_feather(data, path),
    "xlsx": lambda data, path: data.to_pandas().to_excel(path, index=False),
}


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_is_the_same_in_any_format(form: str, tmp_path: Path) -> None:
    FORMATS[form](table(), tmp_path / f"table.{form}")
    assert of(tmp_path / f"table.{form}") == of(table())


def test_order_names_and_types_of_columns_do_not_matter() -> None:
    data, first = table(), of(table())
    assert first.columns.keys() == {*data.column_names} - {"y"}
    assert len({*first.columns.values()}) == 7
    backwards = data.take(pa.array(np.arange(ROWS)[::-1])).select(data.column_names[::-1])
    assert of(backwards) == first
    renamed = of(data.rename_columns({"number": "x"}))
    assert renamed.columns["x"] == first.columns["number"]
    for kind in (pa.float64(), pa.int16(), pa.decimal128(21, 2), pa.string(), pa.large_string()):
        assert of(data.set_column(1, "whole", data["whole"].cast(kind))) == first
    single = data.set_column(0, "number", data["number"].cast(pa.float32()))
    assert of(single) == first
    for flags in (data["flag"].cast(pa.int8()), [str(each) for each in data["flag"].to_pylist()]):
        assert of(data.set_column(4, "flag", pa.array(flags))) == first
    comma = [str(each).replace(".", ",") for each in data["number"].to_pylist()]
    assert of(data.set_column(0, "number", pa.array(comma))) == first
    coded = data.set_column(3, "text", data["text"].dictionary_encode())
    assert of(coded, features=["text"], categorical=["text"]) == first


def test_one_cell_one_row_or_another_key_make_another() -> None:
    data, first = table(), of(table()).columns
    assert not {*first.values()} & {*of(data, b"other").columns.values()}
    assert not {*first.values()} & {*of(data.slice(1)).columns.values()}
    numbers = data["number"].to_pylist()
    moved = of(data.set_column(0, "number", pa.array([numbers[0] + 0.01, *numbers[1:]]))).columns
    assert {name for name in first if moved[name] != first[name]} == {"number"}
    towns = ["elsewhere", *data["text"].to_pylist()[1:]]
    renamed = of(data.set_column(3, "text", pa.array(towns))).columns
    assert {name for name in first if renamed[name] != first[name]} == {"text"}


def test_the_label_is_left_out_and_all_rows_count() -> None:
    data, first = table(), of(table())
    labels = [None, *data["y"].to_pylist()[1:]]
    without = of(data.set_column(7, "y", pa.array(labels)), drop_missing_labels=True)
    assert without == first
    assert "y" not in first.names


def test_what_any_table_of_as_many_rows_may_have_is_no_sign() -> None:
    data = pa.table({"one": [1] * ROWS, "none": pa.nulls(ROWS), "y": [0.5] * ROWS})
    for name, start in (("row", 0), ("far", 10**6), ("below", -7)):
        numbers = np.random.default_rng(0).permutation(np.arange(start, start + ROWS))
        data = data.append_column(name, pa.array(numbers))
    assert of(data).columns == {}
    twice = [*range(ROWS - 2), 0, ROWS - 1]  # the same ends, and no numbering
    assert of(data.append_column("twice", pa.array(twice))).columns.keys() == {"twice"}
    assert of(data.append_column("two", pa.array([1] * (ROWS - 1) + [2]))).columns.keys() == {"two"}


def test_a_ledger_of_today_knows_its_tables_tomorrow() -> None:
    """The digest by hand, in whole numbers: entries hold it, so it must never change."""
    cells = [1.5, -0.0, 1e300, math.nan, 0.1]
    words = [struct.unpack("<Q", struct.pack("<d", c))[0] for c in (1.5, 0.0, math.inf)]
    words += [0x7FF8000000000000, struct.unpack("<Q", struct.pack("<d", np.float32(0.1)))[0]]
    sums = []
    for place in range(2):
        mask = int.from_bytes(hmac.digest(KEY, f"column:{place}".encode(), "sha256")[:8], "little")
        sums.append(sum(splitmix(word ^ mask) for word in words) % 2**64)
    expected = hmac.digest(KEY, f"column:5:{sums}".encode(), "sha256").hex()[:32]
    assert of(pa.table({"x": cells, "y": [0.5] * 5})).columns == {"x": expected}
    texts = ["a", " A ", "née", "1,5", "Longer than eight bytes", "n/a", "", "07", "2020-01-01"]
    digests = of(pa.table({"x": texts, "y": [0.5] * 9})).columns
    assert digests == {"x": "2557eb7b070bd8bb54e196679c9836c6"}


def splitmix(word: int) -> int:
    word = (word + 0x9E3779B97F4A7C15) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        word = (word ^ (word >> shift)) * factor % 2**64
    return word


def test_parts_are_merged_in_any_order() -> None:
    batch = pa.record_batch(
        {"x": pa.array(range(40)), "who": pa.array([k // 3 for k in range(40)])}
    )

    def sums(*parts: pa.RecordBatch) -> TableSums:
        accumulator = TableSums(["x", "who"], KEY, ["who"])
        for part in parts:
            accumulator.add(part, None, 0)
        return accumulator

    def plain(accumulator: TableSums) -> Any:
        result = accumulator.result(None)
        return result.columns, {name: each.to_json() for name, each in result.persons.items()}

    one, other = batch.slice(0, 13), batch.slice(13)
    merged = sums(other)
    merged.merge(sums(one).state())
    fresh = merged.new()
    fresh.merge(merged.state())
    assert plain(sums(batch)) == plain(sums(other, one)) == plain(merged) == plain(fresh)
    assert plain(sums(one)) != plain(sums(batch))


# --- persons -------------------------------------------------------------------------------------


def persons(ids: list[Any], key: bytes = KEY) -> PersonIds:
    data = pa.table({"x": np.arange(len(ids)) % 7, "who": pa.array(ids), "y": [0.5] * len(ids)})
    return of(data, key, ("who",), person="who").persons["who"]


def test_every_person_in_common_is_found() -> None:
    some = persons([f"p{k}" for k in range(300)])
    assert len(some.ids) == 300
    assert some.in_common(persons([f"p{k}" for k in range(299, 600)])) == 1
    assert some.in_common(persons([f"p{k}" for k in range(300, 600)])) == 0
    assert some.in_common(persons([f"p{k}" for k in range(300)], b"another key")) == 0
    numbers = persons([k // 2 for k in range(100)])
    assert numbers.in_common(persons([f" {k:04d}.0" for k in range(50)])) == 50
    again = PersonIds.from_json(some.to_json())
    assert again.in_common(some) == 300


def test_whose_rows_they_are_is_part_of_the_digest() -> None:
    twos = persons([k // 2 for k in range(100)])
    assert twos.digest == persons([k % 50 for k in range(100)]).digest
    assert twos.digest != persons([min(k, 49) for k in range(100)]).digest


def test_the_largest_number_of_rows_of_a_person_is_counted() -> None:
    ids = [k // 3 for k in range(300)] + [7] * 5
    assert persons(ids).most_rows == 8
    assert persons(list(range(300))).most_rows == 1


def test_of_many_persons_those_of_the_smallest_digests_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = persons(list(range(1000)))
    monkeypatch.setattr(module, "MOST_IDS", 100)
    some, others = persons(list(range(1000))), persons(list(range(500, 1500)))
    assert every.complete
    assert not some.complete
    assert some.most_rows is None
    assert some.ids.tolist() == every.ids[:100].tolist()
    assert 20 <= some.in_common(others) <= 80, "half of the persons are in both"
    assert some.in_common(every) == 100
    assert every.in_common(some) == 100
    assert some.in_common(persons(list(range(2000, 2050)))) == 0
