"""Sums over the rows of a person: exact, the same in any order, and upper bounds at any moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp.data.persons import PERSON_COLUMN, person_hashes
from labeldp.data.source import Source, scan
from labeldp.errors import DataError, InputError
from labeldp.exact import person_norms as persons
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.person_norms import PersonNorms, PersonScan
from labeldp.exact.row_norms import Weights
from labeldp.features.encoder import Encoder
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.passes.engine import LocalEngine
from tests.tables import RANGE, table

ROWS = 3000


def with_ids(ids: Any, rows: int = ROWS) -> pa.Table:
    return table(rows).append_column("id", pa.array(ids))


def of(data: pa.Table, batch_rows: int = 700) -> Source:
    return scan(data, label="label", label_range=RANGE, person="id", batch_rows=batch_rows)


def found(rows: Source, features: FeatureMap, weights: Weights | None = None) -> PersonNorms:
    return LocalEngine(2).run_pass("persons", rows, PersonScan(features, weights))


def prepared(rows: Source, **options: Any) -> tuple[FeatureMap, Weights]:
    """The isotropic weights, scaled so that no row is longer than 1."""
    engine = LocalEngine()
    features = fit_features(rows, run_pass=engine.run_pass, **options)
    factor = verified_cholesky(engine.run_pass("sums", rows, GramAccumulator(features)), features)
    return features.keep(factor.kept), Weights.rounded(factor, factor.inverse / 2)


def lengths(data: pa.Table, features: FeatureMap, weights: Weights) -> np.ndarray:
    (batch,) = data.drop_columns(["label", "id"]).combine_chunks().to_batches()
    dense = features.integers(Encoder(features)(batch))
    return np.asarray(np.linalg.norm(dense @ weights.matrix.T, axis=1))


def sums(ids: list[Any], values: np.ndarray) -> Iterator[float]:
    total: dict[Any, float] = defaultdict(float)
    for one, value in zip(ids, values, strict=True):
        total[one] += float(value)
    return iter(total.values())


IDS = np.random.default_rng(3).integers(0, 500, ROWS)
KINDS = {
    "integers": IDS.astype(np.int16),
    "large integers": IDS.astype(np.uint64) + np.uint64(2**63),
    "text": [f"person {number}" for number in IDS],
    "categories": pa.array([f"née-{number:040d}" for number in IDS]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_sums_are_found(kind: str) -> None:
    data = with_ids(KINDS[kind])
    rows = of(data)
    features, weights = prepared(rows)
    seen = found(rows, features, weights)
    truth = max(sums(IDS.tolist(), lengths(data, features, weights)))
    assert truth <= seen.length <= truth * (1 + 1e-8)
    assert seen.rows == max(Counter(IDS.tolist()).values())
    assert found(rows, features) == PersonNorms(0.0, seen.rows)


@pytest.mark.parametrize("waiting", [1, 50, 700])
def test_the_sums_do_not_depend_on_when_rows_are_sorted(
    waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = with_ids(IDS)
    features, weights = prepared(of(data))
    whole = found(of(data), features, weights)
    monkeypatch.setattr(persons, "_WAITING", waiting)
    for batch_rows in (100, 5000):
        assert found(of(data, batch_rows), features, weights) == whole


def test_no_more_rows_wait_than_there_are_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory follows the number of persons, and every row is sorted a bounded number of times."""
    monkeypatch.setattr(persons, "_WAITING", 512)
    data = with_ids(np.arange(ROWS) % 700)
    features, _ = prepared(of(data))
    accumulator = PersonScan(features)
    encode = Encoder(features)
    for _ in range(3):
        for batch in of(data, 256).feature_batches():
            accumulator.add(encode(batch))
            (hashes, _), *waiting = accumulator._parts
            assert len(hashes) <= 700
            assert sum(len(some) for some, _ in waiting) <= 512


def test_persons_who_share_a_mark_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = with_ids(IDS)
    features, weights = prepared(of(data))
    whole = found(of(data), features, weights)
    monkeypatch.setattr(
        "labeldp.data.persons.mixed", lambda values: (values % np.uint64(50)) << np.uint64(58)
    )
    shared = found(of(data), features, weights)
    assert shared.length > 3 * whole.length
    assert shared.rows > 3 * whole.rows


def test_equal_ids_have_equal_marks_and_different_ids_have_not() -> None:
    texts = [
        *(f"{number}" for number in range(5000)),
        "a" * 8,
        "a" * 16,
        "a" * 17,
        "",
        "é",
        "a\0",
        "a",
        "\0",
    ]
    marks = person_hashes(pa.array(texts), "id")
    assert len(set(marks.tolist())) == len(texts)
    for kind in (pa.large_string(), pa.string_view()):
        again = person_hashes(pa.array(texts).cast(pa.large_string()).cast(kind), "id")
        assert (again == marks).all()
    shuffled = pa.array(texts * 2).dictionary_encode()[3:]
    assert (person_hashes(shuffled, "id") == np.tile(marks, 2)[3:]).all()
    sliced = pa.array(texts).slice(100, 50)
    assert (person_hashes(sliced, "id") == marks[100:150]).all()
    numbers = np.arange(-3000, 3000)
    assert len(set(person_hashes(pa.array(numbers), "id").tolist())) == 6000
    short = person_hashes(pa.array(numbers.astype(np.int16)), "id")
    assert (short == person_hashes(pa.array(numbers), "id")).all()


def test_an_id_that_two_files_spell_in_two_ways_is_one_person(tmp_path: Path) -> None:
    """Where ids had gaps, pandas writes 7.0: a person in both files would have two halves."""
    sevens = ["7", " 7", "7 ", "007", "7.0", "7.", "7.00", "+7", "\N{FULLWIDTH DIGIT SEVEN}"]
    accents = ["Jos\N{LATIN SMALL LETTER E WITH ACUTE}", "Jose\N{COMBINING ACUTE ACCENT}"]
    large = ["10000000000000000", "1e+16", "1E16", "1.0e16", "10.e+15", "100000000000000000e-1"]
    larger = ["1" + 30 * "0", "1e30", "10e+29"]
    alike = [sevens, ["0", "000", "0.0", "-0"], ["-7", "-07.0", "-7e0"], accents, large, larger]
    apart = ["7", "70", "7.5", "7.07", "a7", "a07", "7 7", "0", "-7", "A", "a", "1e400", "7e-1"]
    for texts in alike:
        assert len(set(person_hashes(pa.array(texts), "id").tolist())) == 1
    assert len(set(person_hashes(pa.array(apart), "id").tolist())) == len(apart)
    numbers = [7, 0, -7, 10**16]
    spelt_out = person_hashes(pa.array([str(number) for number in numbers]), "id")
    assert (spelt_out == person_hashes(pa.array(numbers), "id")).all()
    lines = ["x,id,label", *(f"{k % 9}.5,{k % 50},{k % 10}" for k in range(100))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    spelt = [line.replace(f",{k % 50},", f",{k % 50}.0,") for k, line in enumerate(lines[1:])]
    (tmp_path / "b.csv").write_text("\n".join([lines[0], *spelt]) + "\n")
    both = scan(tmp_path, label="label", label_range=RANGE, person="id")
    features, _ = prepared(both)
    assert found(both, features).rows == 4


def test_ids_go_nowhere() -> None:
    rows = of(with_ids(IDS))
    assert "id" not in rows.names
    batch = next(iter(rows.feature_batches()))
    assert batch.schema.names == [*rows.names, PERSON_COLUMN]
    assert not set(batch[PERSON_COLUMN].to_pylist()) & set(IDS.tolist())
    assert batch.num_rows == len(next(rows.labelled_batches())[1])


def test_a_row_outside_the_feature_map_has_no_bound() -> None:
    """Its rounding is not bounded by the map: nothing is certified."""
    data = with_ids(IDS)
    features, weights = prepared(of(data), winsor=0)
    far = data.set_column(0, "height", pa.array(np.append(np.full(ROWS - 1, 170.0), 9e5)))
    assert found(of(far), features, weights).length == np.inf


def test_a_row_just_outside_the_feature_map_has_no_bound_however_short() -> None:
    data = with_ids(IDS)
    features, weights = prepared(of(data), winsor=0)
    heights = data["height"].to_numpy().copy()
    heights[0] = heights.max() + 100.0
    far = data.set_column(0, "height", pa.array(heights))
    small = Weights(weights.kept, weights.matrix / 64)
    assert found(of(data), features, small).length < np.inf
    assert found(of(far), features, small).length == np.inf


def test_more_rows_than_the_feature_map_knows_have_no_bound() -> None:
    """Units are as small as sums of so many rows allow: those of more might overflow."""
    rows = of(with_ids(IDS))
    features, weights = prepared(rows)
    fewer = replace(features, rows=ROWS - 1)
    assert found(rows, fewer, weights).length == np.inf


def test_what_cancels_in_a_length_is_allowed_for() -> None:
    """Two columns that are nearly one, and weights of their difference: doubles lose its digits.

    Squares of 2**17 make up a length of about 1, so that rounding far exceeds a unit.
    """
    random = np.random.default_rng(0)
    first = random.integers(0, 2**18, 200)
    second = first + random.integers(1, 3, 200)
    data = pa.table({"x": first, "z": second, "id": np.arange(200), "label": np.ones(200)})
    features = fit_features(of(data), intercept=False, winsor=0)
    weights = Weights((0, 1), np.array([[2.0**-30, 0.0], [-0.3, 0.3]]))
    (batch,) = of(data).feature_batches()
    rows = Encoder(features)(batch)
    for place, codes in enumerate(features.integers(rows)):
        accumulator, whole = PersonScan(features, weights), PersonScan(features, weights)
        accumulator.add(rows.take(slice(place, place + 1)))
        whole.merge(accumulator.state())
        square = sum(sum(map(mul, row, map(int, codes))) ** 2 for row in exact(weights.matrix))
        assert square <= Fraction(whole.result().length) ** 2


def exact(matrix: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(entry) for entry in row] for row in matrix.tolist()]


def test_ids_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(DataError, match="ids must be integers or text"):
        of(with_ids(IDS.astype(float)))
    missing = of(with_ids([None, *IDS[1:].tolist()]))
    with pytest.raises(DataError, match="missing ids"):
        prepared(missing)
    with pytest.raises(InputError, match="is the person and cannot also stand in features"):
        scan(with_ids(IDS), label="label", label_range=RANGE, person="id", features=["id"])
    with pytest.raises(InputError, match="is the person and cannot also stand in label"):
        scan(with_ids(IDS), label="label", label_range=RANGE, person="label")
    with pytest.raises(DataError, match="person: there is no column"):
        scan(with_ids(IDS), label="label", label_range=RANGE, person="idd")
