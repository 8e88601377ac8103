"""The contract of a learner, for every learner and every kind of release it takes.

Fitted on a release it predicts raw rows in any frame; its parameters are scikit-learn's; what it
saves is read back to the last bit, by its estimator and without scikit-learn; what is not its own
it refuses.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from labeldp.data.source import Source, scan
from labeldp.errors import InputError
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.api import BagRegressor, LinearRegressor
from labeldp.learners.models import load_model
from labeldp.releases.files import Release
from tests.drawn import bag_release_of, draw_release, features_of, pay_table
from tests.extras import extra


@cache
def rows() -> Source:
    return scan(pay_table().drop_columns(["pay"]))


@cache
def aggregates() -> tuple[Any, ...]:
    return (draw_release(pay_table(), 60, 3),)


@cache
def bags() -> tuple[Any, ...]:
    """Sums of labels over bags of ten rows, and the source that holds the rows."""
    rng = np.random.default_rng(1)
    bag, row, weight = np.repeat(np.arange(40), 10), rng.permutation(400), rng.normal(size=400)
    sums = np.bincount(bag, weight * pay_table()["pay"].to_numpy()[row])
    return bag_release_of(features_of(pay_table()), (bag, row, weight), sums), rows()


@dataclass(frozen=True)
class Case:
    """A learner, its parameters and what it is fitted on."""

    kind: type[Any]
    data: Callable[[], tuple[Any, ...]]
    parameters: tuple[tuple[str, Any], ...] = ()

    def new(self) -> Any:
        return self.kind(**dict(self.parameters))

    def __str__(self) -> str:
        chosen = "-".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.kind.__name__}-{self.data.__name__}-{chosen}"


QUICK = (("hidden", ()), ("epochs", 3))
CASES = [
    Case(LinearRegressor, aggregates),
    Case(LinearRegressor, aggregates, (("max_norm", 1 / 3), ("confidence", 0.9))),
    Case(LinearRegressor, bags, (("confidence", 0.8),)),
    Case(BagRegressor, bags, (("hidden", (8,)), ("epochs", 3), ("seed", 5))),
    Case(BagRegressor, bags, (*QUICK, ("shrink", False))),
]


@cache
def fitted(case: Case) -> Any:
    return case.new().fit(*case.data())


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    if request.param.kind is BagRegressor:
        extra("torch")
    return request.param  # type: ignore[no-any-return]


def state(model: Any) -> dict[str, Any]:
    """All attributes but the model that has them, arrays as their bytes."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist() if value.dtype == object else value.tobytes()
        if isinstance(value, tuple) and any(isinstance(each, np.ndarray) for each in value):
            return [matrix.tobytes() for matrix in value]
        return value

    return {name: plain(value) for name, value in vars(model).items() if name != "model_"}


# --- fitting ---


def test_fit_learns_and_leaves_the_parameters(case: Case) -> None:
    model = case.new()
    before = model.get_params()
    assert model.fit(*case.data()) is model
    assert model.get_params() == before
    assert {name for name in vars(model) if not name.endswith("_")} == set(before)
    release = case.data()[0]
    assert model.features_ is release.features
    assert model.feature_names_ == release.features.names
    assert tuple(model.feature_names_in_) == release.features.columns
    assert model.n_features_in_ == len(release.features.columns)


def test_parameters_are_the_fields_of_the_options(case: Case) -> None:
    model = fitted(case)
    options = {each.name for each in fields(model.options_)}
    assert set(model.get_params()) - {"progress"} == options
    assert all(getattr(model.options_, name) == getattr(model, name) for name in options)
    assert case.kind().get_params().items() >= vars(type(model.options_)()).items()


def test_clones_and_chosen_parameters_fit_alike(case: Case) -> None:
    copy = clone(fitted(case))
    assert copy.get_params() == case.new().get_params()
    assert not any(name.endswith("_") for name in vars(copy))
    again = case.kind().set_params(**dict(case.parameters)).fit(*case.data())
    assert state(again) == state(copy.fit(*case.data())) == state(fitted(case))
    assert state(pickle.loads(pickle.dumps(again))) == state(again)


def test_refitting_forgets(case: Case) -> None:
    X, y = np.random.default_rng(5).normal(size=(20, 2)), np.arange(20.0)
    model = clone(fitted(case)).fit(X, y)
    assert model.predict(X).shape == (20,)
    assert not hasattr(model, "feature_names_in_")
    assert state(model.fit(*case.data())) == state(fitted(case))


# --- predicting ---


def test_predict_takes_raw_rows_in_any_frame(case: Case) -> None:
    pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    table, model = pay_table(), fitted(case)
    expected = model.predict(table)
    assert expected.shape == (400,)
    batch = table.combine_chunks().to_batches()[0]
    shuffled = table.select(["pay", "job", "hours", "age"])
    for frame in (batch, shuffled, table.to_pandas(), polars.from_arrow(table)):
        np.testing.assert_array_equal(model.predict(frame), expected)
    assert model.predict(table.slice(0, 0)).shape == (0,)
    in_two = [model.predict(table.slice(0, 150)), model.predict(table.slice(150))]
    np.testing.assert_allclose(np.concatenate(in_two), expected, rtol=1e-12)


# --- refusals ---


def test_refusals(case: Case) -> None:
    with pytest.raises(InputError, match="'hours'"):
        fitted(case).predict(pay_table().drop_columns(["hours"]))
    with pytest.raises(InputError, match="is not fitted yet; call fit with a release first"):
        case.new().predict(pay_table())
    with pytest.raises(NotFittedError):
        case.new().save("never-written")
    with pytest.raises(ValueError, match="requires y to be passed"):
        case.new().fit(pay_table())


def test_rows_that_a_release_names_are_asked_for(case: Case) -> None:
    release: Release = case.data()[0]
    if release.aggregates_features:
        with_rows = case.new().fit(release, rows())  # which are not needed
        assert state(with_rows) == state(fitted(case))
        return
    with pytest.raises(InputError, match=r"fit\(release, table\)"):
        case.new().fit(release, None)
    twice = scan(pa.concat_tables([pay_table(), pay_table()]))
    with pytest.raises(InputError, match="rows but the release was made from"):
        case.new().fit(release, twice)


# --- files ---


def test_save_then_load_is_identity(case: Case, tmp_path: Path) -> None:
    model, path = fitted(case), tmp_path / "model"
    model.save(path)
    loaded = case.kind.load(path)
    assert state(loaded) == state(model)
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict(pay_table()), model.predict(pay_table()))
    loaded.save(str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["again", "model"]
    bare = load_model(path)  # without the estimator
    assert isinstance(bare.features, FeatureMap)
    assert bare.options == model.options_
    np.testing.assert_array_equal(bare.predict(pay_table()), model.predict(pay_table()))


def test_an_altered_model_predicts_nothing(case: Case, tmp_path: Path) -> None:
    """Whatever field it is, if what stands there could have been."""
    path = tmp_path / "model"
    fitted(case).save(path)
    load_model(path)
    raw = path.read_bytes()
    rows = fitted(case).features_.rows
    altered = raw.replace(f'"rows": {rows}'.encode(), f'"rows": {rows + 1}'.encode())
    assert altered != raw
    path.write_bytes(altered)
    with pytest.raises(InputError, match=r"altered model file|damaged one"):
        load_model(path)


def test_a_failed_save_leaves_nothing(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(InputError, match="the disk is full"):
            fitted(case).save(path)
    assert os.listdir(tmp_path) == []
    path.write_text("old")
    with pytest.raises(InputError, match="is not a directory"):
        fitted(case).save(path / "below" / "a-file")
    with pytest.raises(InputError, match="already exists; choose another name"):
        fitted(case).save(path)
    assert path.read_text() == "old"


def test_a_learner_refuses_files_that_are_not_its_own(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "model"
    fitted(case).save(path)
    other = LinearRegressor if case.kind is BagRegressor else BagRegressor
    with pytest.raises(InputError, match="is not a model file"):
        other.load(path)
    for content in (b"", b"{}", b"[1]", b"PK", b"\xff\xfe", path.read_bytes()[:200]):
        path.write_bytes(content)
        for load in (case.kind.load, load_model):
            with pytest.raises(InputError, match="is not a model file"):
                load(path)
    with pytest.raises(InputError, match="is missing; check the path"):
        load_model(tmp_path / "absent")
