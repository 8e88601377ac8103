"""What every engine owes: the bytes of the sums do not depend on where or how rows lie.

Engines know no statistics: accumulators that this file defines are run as those of the package are.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import DataError, Ledger, LocalEngine, SparkEngine, scan, verify
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid
from labeldp.exact.quadratic_form import LeverageScan
from labeldp.features.feature_map import FeatureMap
from labeldp.ledger.fingerprint import fingerprint
from labeldp.passes.accumulator import Accumulator, states_of
from labeldp.sampling.streams import Randomness
from tests.contracts.own_accumulators import LabelledLevels, Levels, Spread, WeightedGram, digest
from tests.passes.conftest import Home
from tests.passes.fitting import fitted
from tests.plans import plan
from tests.tables import RANGE, table

GRID = LabelGrid.for_range(RANGE, intercept=True)
LOCAL = LocalEngine(threads=1)


def mixed(rows: int = 1500) -> pa.Table:
    """The test table with holes, an undecided integer column, a truth value and a date."""
    rng = np.random.default_rng(5)
    made = table(rows)
    height = made["height"].to_numpy().copy()
    height[rng.random(rows) < 0.1] = np.nan
    town = [None if rng.random() < 0.05 else name for name in made["town"].to_pylist()]
    made = made.set_column(0, "height", pa.array(height, from_pandas=True))
    made = made.set_column(3, "town", pa.array(town))
    made = made.append_column("grade", pa.array(rng.integers(1, 6, rows)))
    made = made.append_column("member", pa.array(rng.random(rows) < 0.3))
    days = rng.integers(0, 9000, rows).astype("datetime64[D]")
    return made.append_column("since", pa.array(days))


MIXED = mixed()
SOURCE = scan(MIXED, label="label", label_range=RANGE)
FEATURES = fitted(SOURCE)


def dense(features: FeatureMap, rows: pa.Table) -> np.ndarray[Any, Any]:
    """The slow obvious twin: every design column in whole numbers, one-hot made dense."""
    encoded = features.encode(rows.combine_chunks().to_batches()[0])
    design = np.zeros((encoded.rows, features.width), dtype=object)
    design[:, 0] = 1
    design[:, list(features.number_columns)] = encoded.numbers.astype(int)
    for offset, codes in zip(features.category_offsets, encoded.categories, strict=True):
        design[np.arange(encoded.rows), offset + codes] = 1
    return design


DESIGN = dense(FEATURES, MIXED)
CODES = GRID.codes(MIXED["label"].to_numpy()).astype(int).astype(object)


def factor() -> VerifiedCholesky:
    return verified_cholesky(
        LOCAL.run_pass("feature sums", SOURCE, GramAccumulator(FEATURES)), FEATURES
    )


def test_the_feature_map_is_the_same(home: Home) -> None:
    assert fitted(home.scan(MIXED)) == FEATURES


def test_quantiles_and_logarithms_are_the_same(either: Home) -> None:
    """Order statistics of all rows, whichever part they lie in; numbers of rows known or not."""
    asked: dict[str, Any] = {"winsor": 0.02, "log": ["score"]}
    here = fitted(SOURCE, **asked)
    assert {column.name for column in here.numeric if column.winsorised} >= {"height", "score"}
    assert json.dumps(fitted(either.scan(MIXED), **asked).to_json()) == json.dumps(here.to_json())


CURVES: list[dict[str, Any]] = [
    {
        "basis": "splines:4+fourier:7",
        "interactions": ["height:score", "town:height", "all"],
    },
    {"formula": "label ~ spline(height, 40) + town*height + spline(log(score), 30) + fourier(9)"},
]


@pytest.mark.parametrize("asked", CURVES, ids=["options", "formula"])
def test_curves_are_the_same_bytes(either: Home, asked: dict[str, Any]) -> None:
    """Hinges, products and waves: the map, and the digest of the sums of its columns."""
    here, there = fitted(SOURCE, **asked), fitted(either.scan(MIXED), **asked)
    assert sum(column.degree > 0 for column in here.design_columns) > 60
    assert json.dumps(there.to_json()) == json.dumps(here.to_json())
    source = either.scan(MIXED)
    sums = either.engine.run_pass("feature sums", source, GramAccumulator(there))
    assert sums.digest() == LOCAL.run_pass("feature sums", SOURCE, GramAccumulator(here)).digest()


def test_feature_sums_are_those_of_the_dense_design(either: Home) -> None:
    gram = either.engine.run_pass("feature sums", either.scan(MIXED), GramAccumulator(FEATURES))
    assert gram.rows == len(DESIGN)
    assert np.array_equal(gram.exact(range(FEATURES.width)), DESIGN.T @ DESIGN)
    assert (
        gram.digest() == LOCAL.run_pass("feature sums", SOURCE, GramAccumulator(FEATURES)).digest()
    )


def test_label_sums_are_those_of_the_dense_design(home: Home) -> None:
    gram, moments = home.engine.run_pass(
        "label sums",
        home.scan(MIXED),
        GramAccumulator(FEATURES),
        LabelCrossProducts(FEATURES, GRID),
    )
    assert np.array_equal(gram.exact(range(FEATURES.width)), DESIGN.T @ DESIGN)
    assert np.array_equal(moments.cross, DESIGN.T @ CODES)
    assert (moments.rows, moments.total, moments.square) == (
        len(CODES),
        CODES.sum(),
        CODES @ CODES,
    )
    assert repr(moments) == "LabelMoments(private)"
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(moments)


def test_leverages_are_the_same_to_the_last_bit(either: Home) -> None:
    found = either.engine.run_pass(
        "leverages", either.scan(MIXED), LeverageScan(FEATURES, factor())
    )
    expected = LOCAL.run_pass("leverages", SOURCE, LeverageScan(FEATURES, factor()))
    assert found.maximum == expected.maximum
    assert found.column == expected.column


def test_a_release_is_the_same_bytes(home: Home) -> None:
    """Same plan, and with the randomness of an experiment the same numbers and certificate."""
    options: dict[str, Any] = {
        "epsilon": 2,
        "delta": 1e-3,
        "accountant": "exact-worst-case",
        "bags": 30,
    }
    expected = plan(SOURCE, floor="added", **options)
    source = home.scan(MIXED)
    made = plan(source, floor="added", engine=home.engine, **options)
    assert (made.claim, made.features) == (expected.claim, expected.features)
    assert made.feature_sums == expected.feature_sums
    ours = made.release(source, engine=home.engine, randomness=Randomness.experiment(1))
    theirs = expected.release(SOURCE, randomness=Randomness.experiment(1))
    assert ours.table.equals(theirs.table)
    assert ours.certificate == theirs.certificate


def test_a_shape_is_the_same_to_the_last_bit(home: Home) -> None:
    """Weights follow from the rows alone, wherever they lie; so does the release."""
    options: dict[str, Any] = {"mechanism": "shaped-flag", "epsilon": 1.0, "delta": 1e-4}
    source = home.scan(MIXED)
    made, here = plan(source, engine=home.engine, **options), plan(SOURCE, **options)
    assert (made.claim, made.features, made.feature_sums) == (
        here.claim,
        here.features,
        here.feature_sums,
    )
    assert made.weights.to_json() == here.weights.to_json()
    ours = made.release(source, engine=home.engine, randomness=Randomness.experiment(1))
    theirs = here.release(SOURCE, randomness=Randomness.experiment(1))
    assert ours.table.equals(theirs.table)
    assert ours.files == theirs.files
    assert ours.certificate == theirs.certificate


@pytest.mark.parametrize(
    "own", [{"mechanism": "shaped-flag"}, {"mechanism": "wtd-flag", "bags": 40}]
)
def test_persons_are_priced_the_same(either: Home, own: dict[str, Any]) -> None:
    numbers = np.random.default_rng(2).integers(0, 300, MIXED.num_rows)
    data = MIXED.append_column("id", pa.array([f"p{number}" for number in numbers]))
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-4, **own}
    here = plan(scan(data, label="label", label_range=RANGE, person="id"), **options)
    source = either.scan(data, person="id")
    made = plan(source, engine=either.engine, **options)
    assert here.claim.person is not None
    assert (made.claim, made.features, made.notes) == (here.claim, here.features, here.notes)
    release = made.release(source, engine=either.engine)
    assert release.certificate["person"]["rows"] == np.bincount(numbers).max()


def test_ties_between_columns_do_not_depend_on_where_rows_lie(either: Home) -> None:
    """Two levels with one row each cost the same; which is named must be settled."""
    rare = ["x", "y", *["common"] * 398]
    data = table(400).append_column("rare", pa.array(rare)).select(["rare", "town", "label"])
    options: dict[str, Any] = {
        "epsilon": 2, "delta": 1e-3, "accountant": "exact-worst-case", "floor": "added", "bags": 10,
        "min_count": 1,
    }  # fmt: skip
    expected = plan(scan(data, label="label", label_range=RANGE), **options)
    made = plan(either.scan(data), engine=either.engine, **options)
    assert made.features == expected.features
    assert made.claim == expected.claim
    assert any("because of 'rare=y'" in note for note in made.notes)


def labelled(labels: Any) -> pa.Table:
    return table(300).drop_columns(["label"]).append_column("label", pa.array(labels))


WRONG: dict[str, dict[int, Any]] = {
    "has missing values": {299: None, 3: 77.25},
    "holds infinities": {0: float("inf"), 150: None, 299: 77.25},
    "outside the range": {150: 77.25},
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_labels_are_refused_in_the_same_words(either: Home, fault: str) -> None:
    labels = table(300)["label"].to_pylist()
    for row, value in WRONG[fault].items():
        labels[row] = value
    source = either.scan(labelled(labels))
    features = fitted(source)
    with pytest.raises(DataError, match=fault) as refusal:
        either.engine.run_pass(
            "label sums", source, GramAccumulator(features), LabelCrossProducts(features, GRID)
        )
    assert "77" not in str(refusal.value)
    assert str(refusal.value).startswith("label column 'label'")
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__


def test_labels_are_clipped_and_rows_without_one_dropped(either: Home) -> None:
    labels = table(300)["label"].to_pylist()
    labels[7], labels[8], labels[9] = None, float("nan"), 77.25
    source = either.scan(labelled(labels), clip=True, drop_missing_labels=True)
    features = fitted(source)
    gram, moments = either.engine.run_pass(
        "label sums", source, GramAccumulator(features), LabelCrossProducts(features, GRID)
    )
    kept = np.array([v for v in labels if v is not None and v == v]).clip(*RANGE)
    codes = GRID.codes(kept).astype(int)
    assert (features.rows, gram.rows, moments.rows) == (298, 298, 298)
    assert moments.total == codes.sum()
    assert moments.square == codes @ codes
    assert either.engine.run_pass("feature sums", source, GramAccumulator(features)).rows == 298


BAD_FEATURES: dict[str, tuple[Any, str]] = {
    "infinity": ([*[0.5] * 150, float("inf"), *[1.5] * 149], "'odd' holds an infinity at row"),
    "text": ([*["1"] * 100, *["tall"] * 200], "should be numeric, but most .* such as 'tall'"),
    "identifier": ([2**60 + k for k in range(300)], "'odd' holds integers beyond 2\\*\\*53"),
    "list": ([[1.0]] * 300, "neither a number nor a category"),
}


@pytest.mark.parametrize("fault", BAD_FEATURES)
def test_wrong_features_are_refused_in_the_same_words(either: Home, fault: str) -> None:
    values, message = BAD_FEATURES[fault]
    if fault == "text" and isinstance(either.engine, SparkEngine):
        message = "is no number or date on Spark"
    data = table(300).append_column("odd", pa.array(values))
    with pytest.raises(DataError, match=message):
        fitted(either.scan(data, numeric=["odd"]))


def test_a_level_that_the_plan_did_not_see_is_refused(either: Home) -> None:
    features = fitted(scan(table(300), label="label", label_range=RANGE))
    strange = table(300).set_column(2, "colour", pa.array(["mauve"] * 300))
    with pytest.raises(DataError, match="column 'colour' has level 'mauve'"):
        either.engine.run_pass("feature sums", either.scan(strange), GramAccumulator(features))


def test_no_rows_are_refused(either: Home) -> None:
    with pytest.raises(DataError, match="no rows"):
        fitted(either.scan(table(300).slice(0, 0)))
    features = fitted(scan(table(300), label="label", label_range=RANGE))
    none = pa.array([None] * 300, pa.float64())
    source = either.scan(labelled(none), drop_missing_labels=True)
    with pytest.raises(DataError, match="no rows"):
        either.engine.run_pass("feature sums", source, GramAccumulator(features))
    with pytest.raises(DataError, match="no rows"):
        either.engine.run_pass(
            "label sums", source, GramAccumulator(features), LabelCrossProducts(features, GRID)
        )


def test_a_release_verifies_and_its_features_are_rechecked(either: Home, tmp_path: Any) -> None:
    """Without naming an engine: a source knows who can read it."""
    data = either.hold(MIXED)
    source = scan(data, label="label", label_range=RANGE)
    made = plan(
        source, epsilon=2, delta=1e-3, accountant="exact-worst-case", floor="added", bags=30
    )
    made.release(source).save(tmp_path / "r")
    assert verify(tmp_path / "r").valid
    assert verify(tmp_path / "r", data).valid
    other = verify(tmp_path / "r", either.hold(MIXED.slice(1)))
    assert other.problems == ("the table has 1499 rows, the certificate says 1500",)


def from_outside(kind: str) -> Accumulator[Any]:
    """An accumulator that the package does not know, of each kind of rows."""
    return {
        "rows as they come": Levels(("colour", "town")),
        "encoded rows": WeightedGram(FEATURES),
        "encoded rows with labels": LabelledLevels(FEATURES, "town"),
    }[kind]


OUTSIDE = ["rows as they come", "encoded rows", "encoded rows with labels"]


@pytest.mark.parametrize("kind", OUTSIDE)
def test_a_statistic_of_ones_own_edits_no_engine(home: Home, kind: str) -> None:
    """The same bytes wherever rows lie, and those of the obvious loop."""
    found = home.engine.run_pass("my own", home.scan(MIXED), from_outside(kind))
    assert digest(found) == digest(LOCAL.run_pass("my own", SOURCE, from_outside(kind)))
    obvious = from_outside(kind)
    check = SOURCE.label_check() if obvious.requirements.labels else None
    batches = SOURCE.numbered_batches(obvious.requirements.columns, check)
    numbered = ((int(numbers[0]), (rows, labels)) for numbers, rows, labels in batches)
    obvious.merge(*states_of([obvious], obvious.requirements.features, numbered))
    assert digest(found) == digest(obvious.result(int))


def test_the_weighted_gram_is_that_of_the_dense_design(either: Home) -> None:
    found = either.engine.run_pass("my own", either.scan(MIXED), WeightedGram(FEATURES))
    weights = DESIGN[:, FEATURES.number_columns[0]] % 5
    assert np.array_equal(found, (DESIGN * weights[:, None]).T @ DESIGN)


def test_accumulators_share_one_pass(either: Home) -> None:
    """Each gives what it gives alone."""
    source = either.scan(MIXED)
    gram, weighted = either.engine.run_pass(
        "both", source, GramAccumulator(FEATURES), WeightedGram(FEATURES)
    )
    assert gram.digest() == LOCAL.run_pass("one", SOURCE, GramAccumulator(FEATURES)).digest()
    assert digest(weighted) == digest(LOCAL.run_pass("other", SOURCE, WeightedGram(FEATURES)))
    with pytest.raises(ValueError, match="the same columns in the same form"):
        either.engine.run_pass("both", source, GramAccumulator(FEATURES), Levels(("colour",)))


def test_wrong_labels_are_refused_by_every_accumulator(either: Home) -> None:
    labels = table(300)["label"].to_pylist()
    source = either.scan(labelled([77.25, *labels[1:]]))
    features = fitted(source)
    with pytest.raises(DataError, match="outside the range"):
        either.engine.run_pass("my own", source, LabelledLevels(features, "town"))
    here = scan(labelled([77.25, *labels[1:]]), label="label", label_range=RANGE)
    with pytest.raises(DataError, match="outside the range"):
        LOCAL.run_pass("my own", here, LabelledLevels(features, "town"))


def test_rows_have_numbers_where_they_are_read_here() -> None:
    assert LOCAL.run_pass("my own", SOURCE, Spread(FEATURES, 700)) == [700, 1400]


def test_a_debit_on_every_engine(either: Home, tmp_path: Path) -> None:
    rows, engine = either.scan(MIXED), either.engine
    assert fingerprint(rows, engine, b"key") == fingerprint(SOURCE, LOCAL, b"key")
    book = Ledger.create(tmp_path / "book", epsilon=3.0)
    made = plan(rows, epsilon=1.0, delta=1e-6, mechanism="shaped-flag", engine=engine)
    released = made.release(rows, engine=engine, ledger=book, dataset="t")
    assert released.certificate["ledger"]["entry"] == 2
    assert [entry.kind for entry in book.entries()] == ["create", "debit", "done"]
