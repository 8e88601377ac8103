"""What is kept between passes takes little room and gives the same rows."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from labeldp import DataError
from labeldp.data import readers
from labeldp.data.source import scan
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid
from labeldp.exact.row_norms import RowNormScan, Weights
from labeldp.features.column_stats import ColumnStatistics, Extremes
from labeldp.features.encoder import Encoder, Packed, Rows
from labeldp.features.fit import fit_features
from labeldp.passes.accumulator import PassRequirements
from labeldp.passes.engine import LocalEngine, Memory, narrow_columns
from tests.plans import plan


def test_narrow_batches_hold_the_same_values() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "text": pa.array(["a", None, "b"]),
            "codes": pa.array(["x", "y", None]).dictionary_encode(),
            "small": pa.array([1, None, -3], pa.int64()),
            "large": pa.array([1, 2**40, None], pa.int64()),
            "wide": pa.array([0, 2**32 - 1, 1], pa.uint32()),
            "none": pa.array([None, None, None], pa.int32()),
            "real": pa.array([0.5, None, 2.0]),
        }
    )
    narrow = narrow_columns(batch)
    assert narrow.to_pydict() == batch.to_pydict()
    assert pa.types.is_dictionary(narrow.column(0).type)
    assert narrow.column(2).type == pa.int8()
    assert narrow.nbytes < batch.nbytes


def test_a_dictionary_of_256_values_and_null_still_fits() -> None:
    values = [f"v{k:03d}" for k in range(256)] + [None]
    data = pa.table({"c": pa.array(values * 4).dictionary_encode(), "x": np.arange(1028.0)})
    narrow = pa.Table.from_batches([narrow_columns(batch) for batch in data.to_batches()])
    plain, kept = scan(data), scan(narrow)
    assert fit_features(kept, min_count=1) == fit_features(plain, min_count=1)


KINDS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]


@given(
    levels=st.lists(st.sampled_from([1, 2, 5, 60, 400]), min_size=1, max_size=4),
    numbers=st.lists(st.sampled_from(KINDS), max_size=4),
    gaps=st.booleans(),
    indicators=st.booleans(),
    far=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60)
def test_packed_rows_encode_to_the_same(
    levels: list[int],
    numbers: list[pa.DataType],
    gaps: bool,
    indicators: bool,
    far: bool,
    seed: int,
) -> None:
    """Also rows that are far outside what was fitted: their codes may need more than four bytes."""
    rng = np.random.default_rng(seed)
    count = 1000
    mask = rng.random(count) < 0.2 if gaps else None
    columns = {
        f"c{k}": pa.array(rng.integers(0, size, count).astype(str), mask=mask)
        for k, size in enumerate(levels)
    }
    columns["y"] = pa.array(rng.normal(size=count), mask=mask)
    for k, kind in enumerate(numbers):
        values = rng.integers(-9, 100, count) + (0 if pa.types.is_integer(kind) else 0.3)
        columns[f"x{k}"] = pa.array(values, mask=mask).cast(kind)
    data = pa.table(columns)
    features = fit_features(scan(data), min_count=1, indicators=indicators)
    if far:
        place = data.schema.get_field_index("y")
        beyond = np.where(np.arange(count) % 50 == 7, 1e9, 0.5)
        data = data.set_column(place, "y", pa.array(beyond, mask=mask))
    for batch in data.to_batches(max_chunksize=300):
        packed = Encoder(features).pack(batch)
        want, found = features.encode(batch), Encoder(features)(packed)
        assert packed.num_rows == found.rows == want.rows
        assert np.array_equal(found.numbers, want.numbers)
        taken = [column.nbytes / batch.num_rows for column in packed.numbers]
        assert sum(size > 4.2 for size in taken) <= far
        assert all(map(np.array_equal, found.codes, want.codes))
        widths = features.joint_codes.widths
        sizes = [codes.itemsize for codes in packed.codes]
        assert sizes == [1 if width <= 256 else 2 for width in widths]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, False, None, True] * 50),
        pa.array(np.array([0.5, -1.5, 3.0, 2.0] * 50, np.float16)),
        pa.array(["0.5", "-1.5", None, "2"] * 50),
        pa.array([1, 2, None, 300] * 50),
    ],
    ids=["truth values", "halves", "text", "integers"],
)
def test_numbers_that_take_less_room_than_codes_stay_as_they_came(column: pa.Array) -> None:
    source = scan(pa.table({"x": column}), numeric=["x"])
    features = fit_features(source)
    (batch,) = source.feature_batches()
    narrow = narrow_columns(batch)
    packed = Encoder(features).pack(narrow)
    assert packed.nbytes <= narrow.nbytes
    assert np.array_equal(Encoder(features)(packed).numbers, features.encode(batch).numbers)


@pytest.mark.parametrize("code", [2**31 - 1, 2**31, 2**40, -(2**31) + 1, -(2**31), -(2**40)])
@pytest.mark.parametrize("indicators", [True, False])
def test_no_code_is_taken_for_a_missing_one(code: int, indicators: bool) -> None:
    """Around the ends of what four bytes hold; one of these codes stands for a missing value."""
    data = pa.table({"x": pa.array([0.0, 1.0, None, 2.0] * 50)})
    features = fit_features(scan(data, numeric=["x"]), indicators=indicators)
    column = features.numeric[0]
    far = (code + column.centre) * column.step
    batch = pa.RecordBatch.from_pydict({"x": pa.array([1.0, None, far])})
    found = Encoder(features)(Encoder(features).pack(batch)).numbers
    assert found[2, 0] == code
    assert np.array_equal(found, features.encode(batch).numbers)


def batches_of(memory: Memory) -> list[Rows]:
    return [batch for part in memory._kept.values() for batch in part.batches]


class Failing(ColumnStatistics):
    """Stops half-way through the first part, and at once in others."""

    def add(self, _batch: object, _labels: object, first: int) -> None:
        if first >= 60:
            raise InterruptedError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(readers, "_PART_ROWS", 100)
    rng = np.random.default_rng(0)
    columns = {f"c{k}": rng.choice(["a", "b", "c"], 1000) for k in range(6)}
    data = pa.table({**columns, "x": rng.normal(size=1000)})
    pq.write_table(data, tmp_path / "rows.parquet", row_group_size=100)
    return tmp_path / "rows.parquet"


def test_the_first_pass_that_encodes_packs_what_the_fit_kept(path: Path) -> None:
    source, engine = scan(path), LocalEngine(2)
    features = fit_features(source, run_pass=engine.run_pass)
    loose = engine.memory._spent
    engine.run_pass("feature sums", source, GramAccumulator(features))
    kept = batches_of(engine.memory)
    assert len(kept) == 10
    assert all(isinstance(batch, Packed) for batch in kept)
    assert engine.memory._spent == sum(batch.nbytes for batch in kept)
    assert engine.memory._spent < loose
    assert not engine.memory.holds_all(PassRequirements(features.columns))
    # other levels have other codes: these rows are read again, and take the others' place
    other = fit_features(source, min_count=350)
    assert other.categorical != features.categorical
    assert not engine.memory.holds_all(GramAccumulator(other).requirements)
    want = (
        LocalEngine(1, memory=Memory(0))
        .run_pass("feature sums", source, GramAccumulator(other))
        .digest()
    )
    assert engine.run_pass("feature sums", source, GramAccumulator(other)).digest() == want
    assert engine.memory.holds_all(GramAccumulator(other).requirements)
    assert not engine.memory.holds_all(GramAccumulator(features).requirements)


def test_labels_are_not_summed_beside_what_is_known_of_rows_that_were_let_go(path: Path) -> None:
    """Read again, the rows might be others: sums of features must then be of these very rows."""
    source, engine = scan(path, label="x", label_range=(-9, 9)), LocalEngine(1)
    features = fit_features(source, run_pass=engine.run_pass)
    engine.run_pass("feature sums", source, GramAccumulator(features))
    grid = LabelGrid.for_range((-9, 9), intercept=True)
    plain, labelled = (
        GramAccumulator(features).requirements,
        LabelCrossProducts(features, grid).requirements,
    )
    assert plain.cache_keys[0] in engine.memory.known_results(plain)
    assert plain.cache_keys[0] in engine.memory.known_results(labelled)
    engine.run_pass("feature sums", source, GramAccumulator(fit_features(source, min_count=350)))
    assert plain.cache_keys[0] in engine.memory.known_results(plain)
    assert not engine.memory.known_results(labelled)


def test_the_longest_row_of_a_search_is_known_to_those_who_ask_for_no_more(path: Path) -> None:
    source, engine = scan(path), LocalEngine(1)
    features = fit_features(source, run_pass=engine.run_pass)
    factor = verified_cholesky(
        engine.run_pass("feature sums", source, GramAccumulator(features)), features
    )
    weights = Weights.rounded(factor, factor.inverse)
    search, alone = RowNormScan(features, weights, keep=9, sample=9), RowNormScan(features, weights)
    seen = engine.run_pass("rows", source, search)
    assert engine.run_pass("rows", source, alone) is seen
    fresh = LocalEngine(1)
    fit_features(source, run_pass=fresh.run_pass)
    only = fresh.run_pass("rows", source, alone)
    assert only.maximum == seen.maximum
    assert fresh.run_pass("rows", source, search).rows.rows > only.rows.rows == 0
    other = RowNormScan(features, weights.scaled(1))
    assert engine.run_pass("rows", source, other).maximum == 4 * seen.maximum


def test_packing_makes_room_for_more(path: Path) -> None:
    source, plenty = scan(path), LocalEngine(1)
    features = fit_features(source, run_pass=plenty.run_pass)
    room = sum(plenty.memory._sizes[part] for part in range(6)) + 99  # the seventh is too large
    engine = LocalEngine(1, memory=Memory(room))
    fit_features(source, run_pass=engine.run_pass)
    assert len(engine.memory._kept) == 6
    engine.run_pass("feature sums", source, GramAccumulator(features))
    assert engine.memory.holds_all(GramAccumulator(features).requirements)
    assert engine.memory._spent <= room


def test_numbers_take_half_the_room_once_they_are_codes(path: Path) -> None:
    source, engine = scan(path, drop=[f"c{k}" for k in range(6)]), LocalEngine(1)
    features = fit_features(source, run_pass=engine.run_pass)
    assert engine.memory._spent >= 8 * 1000
    engine.run_pass("feature sums", source, GramAccumulator(features))
    assert engine.memory.holds_all(GramAccumulator(features).requirements)
    assert engine.memory._spent == 4 * 1000
    # on another grid they have other codes: what is kept does not serve
    finer = replace(features.numeric[0], exponent=features.numeric[0].exponent - 1)
    assert not engine.memory.holds_all(
        GramAccumulator(replace(features, numeric=(finer,))).requirements
    )


def test_passes_that_fail_half_way_spend_nothing_for_good(path: Path) -> None:
    source = scan(path, batch_rows=20)
    engine = LocalEngine(1, memory=Memory(60_000))

    for _ in range(30):
        with pytest.raises(InterruptedError):
            engine.run_pass(
                "half", source, Failing({name: Extremes(name) for name in source.names})
            )
    features = fit_features(source, run_pass=engine.run_pass)
    assert engine.memory.holds_all(GramAccumulator(features).requirements)
    engine.run_pass("feature sums", source, GramAccumulator(features))
    assert engine.memory._spent == sum(batch.nbytes for batch in batches_of(engine.memory))


def test_packing_lets_go_of_what_it_has_packed(path: Path) -> None:
    """Both forms of a part at once would take twice the room."""
    source, engine = scan(path, batch_rows=10), LocalEngine(1)
    features = fit_features(source, run_pass=engine.run_pass)
    held = engine.memory._kept[0].batches
    needs = GramAccumulator(features).requirements
    assert [len(held) for _ in engine.memory.read(0, needs, None)] == list(range(9, -1, -1))


@pytest.mark.parametrize("how", ["cut in half", "of the same size and time"])
def test_files_that_changed_after_they_were_looked_at_are_refused(how: str, tmp_path: Path) -> None:
    """Even where whoever changed them set the time back."""
    path = tmp_path / "t.csv"
    path.write_text("x,label\n" + "".join(f"{k % 9},{k % 7}\n" for k in range(200)))
    source = scan(path, label="label", label_range=(0, 10))
    before, text = path.stat(), path.read_text()
    path.write_text(text[: len(text) // 2 + 1] if how == "cut in half" else text.replace("8", "3"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match="the files changed while they were read"):
        plan(source, epsilon=1, delta=1e-6, accountant="exact-worst-case", floor="added", bags=10)
