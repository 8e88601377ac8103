"""Public functions take what Python people pass, and name the argument that is of another kind."""

from __future__ import annotations

import inspect
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import InputError, LinearRegressor
from labeldp.errors import to_bool, to_float, to_int, to_path, to_range, to_str, to_str_tuple
from labeldp.mechanisms.options import AUTO, AccountantName, MechanismName
from labeldp.mechanisms.registry import make_request, mechanism_named, mechanism_names
from tests.tables import RANGE, table

TABLE = table(300)
ROWS = TABLE.drop_columns(["label"])
LABEL: dict[str, Any] = {"label": "label", "label_range": RANGE}
QUICK: dict[str, Any] = {"mechanism": "shaped-flag", "force": True}


def planned(data: Any = TABLE, **choices: Any) -> labeldp.Plan:
    return labeldp.plan(data, **{"epsilon": 1, "delta": 1e-4} | QUICK | LABEL | choices)


@pytest.mark.parametrize(
    ("convert", "value", "expected"),
    [
        (to_int, np.int64(5), 5),
        (to_int, 5.0, 5),
        (to_int, 2**60 + 1, 2**60 + 1),
        (to_float, np.float32(0.5), 0.5),
        (to_float, Fraction(1, 2), 0.5),
        (to_float, Decimal("0.5"), 0.5),
        (to_bool, np.True_, True),
        (to_range, np.array([0, 1]), (0.0, 1.0)),
        (to_range, pd.Series([0.0, 1.0], index=[7, 8]), (0.0, 1.0)),
        (to_str_tuple, pd.Index(["a", "b"]), ("a", "b")),
        (to_path, "a", Path("a")),
    ],
)
def test_values_become_plain(convert: Any, value: Any, expected: Any) -> None:
    plain = convert("x", value)
    assert plain == expected
    assert type(plain) is type(expected)


WRONG: dict[Any, list[Any]] = {
    to_int: [5.5, "5", None, True, [5], float("nan"), float("inf"), np.array([5, 6])],
    to_float: ["1", None, True, [1.0], 1j, 10**400, np.array([1.0]), pd.Series([1.0])],
    to_bool: [1, "yes", None, np.array([True])],
    to_str: [1, None, b"a", ["a"]],
    to_str_tuple: ["a", None, 5, ["a", 1], {"a": 1}],
    to_range: [5, "ab", (1, 2, 3), (1,), ("a", "b"), None, {"a": 1, "b": 2}],
    to_path: [5, None, ["a"], TABLE],
}


@pytest.mark.parametrize("convert", WRONG)
def test_other_types_are_refused_by_name(convert: Any) -> None:
    for value in WRONG[convert]:
        with pytest.raises(InputError, match="`size` must be"):
            convert("size", value)


def test_a_column_passed_by_mistake_is_not_shown() -> None:
    with pytest.raises(InputError) as refusal:
        planned(epsilon=pd.Series([31337.25]))
    assert "31337" not in str(refusal.value)
    assert "a pandas Series" in str(refusal.value)


def test_an_unknown_option_of_plan_has_a_suggestion() -> None:
    with pytest.raises(InputError, match="no argument `bagz`; did you mean `bags`"):
        planned(bagz=5)


@pytest.mark.parametrize("bags", [40, np.int64(40), np.uint8(40), 40.0])
def test_numbers_of_numpy_reach_the_release(bags: Any) -> None:
    made = planned(mechanism="wtd-flag", accountant="exact-worst-case", floor="added", bags=bags)
    assert made.release(TABLE, label="label").bags == 40


def test_names_for_editors_are_those_of_the_registry() -> None:
    assert set(get_args(MechanismName)) == {AUTO, *mechanism_names()}
    accountants = {name for each in mechanism_names() for name in mechanism_named(each).accountants}
    assert set(get_args(AccountantName)) == accountants


def test_what_is_said_of_a_table_and_of_a_plan_have_different_names() -> None:
    """`plan` takes both."""
    known = set(inspect.signature(labeldp.plan).parameters)
    said = set(inspect.signature(labeldp.scan).parameters)
    assert known & said == {"label", "label_range"}


def test_budgets_beyond_any_use() -> None:
    for budget in ({"epsilon": 1e308}, {"delta": 1e-320}):
        with pytest.raises(InputError, match=f"`{next(iter(budget))}` must be at"):
            planned(**budget)
    mechanism = mechanism_named("shaped-flag")
    assert make_request(mechanism, epsilon=1e6, delta=1e-100).epsilon == 1e6


FORMS: dict[str, Any] = {
    "pandas": lambda rows, _: rows.to_pandas(),
    "polars": lambda rows, _: pl.from_arrow(rows),
    "arrow": lambda rows, _: rows,
    "batches": lambda rows, _: rows.to_reader(),
    "dictionary": lambda rows, _: rows.to_pydict(),
    "path": lambda rows, place: written(rows, place),
    "text path": lambda rows, place: str(written(rows, place)),
    "bytes path": lambda rows, place: bytes(written(rows, place)),
    "source": lambda rows, _: labeldp.scan(rows, **LABEL),
}


def written(rows: pa.Table, place: Path) -> Path:
    pq.write_table(rows, place / "rows.parquet")
    return place / "rows.parquet"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_is_taken_everywhere(form: str, tmp_path: Path) -> None:
    """Plan, release, verify, predict and inspect; a form that can be read once is made anew."""

    def data() -> Any:
        return FORMS[form](TABLE, tmp_path)

    said = {} if form == "source" else LABEL
    name = {} if form == "source" else {"label": "label"}
    made = labeldp.plan(data(), 1, 1e-4, **QUICK, **said)
    assert made.feature_sums == planned().feature_sums
    release = made.release(data(), **name)
    assert labeldp.verify(release, data()).valid
    predicted = LinearRegressor().fit(release).predict(data())
    assert np.array_equal(predicted, LinearRegressor().fit(release).predict(ROWS))


def test_a_source_has_been_told() -> None:
    with pytest.raises(InputError, match="`label` is settled by the source"):
        planned(labeldp.scan(TABLE, **LABEL))


def test_releases_by_their_directories(tmp_path: Path) -> None:
    release = planned().release_to(tmp_path / "one", TABLE, label="label")
    by_name = LinearRegressor().fit(str(tmp_path / "one"))
    assert np.array_equal(by_name.coef_, LinearRegressor().fit(release).coef_)
    assert labeldp.verify(release).valid
    with pytest.raises(InputError, match="is not a release directory"):
        LinearRegressor().fit(tmp_path / "none")
    with pytest.raises(InputError, match="leave `y` out"):
        LinearRegressor().fit(release, [1.0, 2.0])


def test_rows_for_learners_and_frames_are_any_table() -> None:
    release = planned(mechanism="noisy-rows").release(TABLE, label="label")
    frame, labels = release.training_frame(TABLE.to_pandas())
    assert len(frame) == len(labels) == 300
    of_frame = LinearRegressor().fit(release, TABLE.to_pandas())
    of_source = LinearRegressor().fit(release, labeldp.scan(TABLE, **LABEL))
    assert np.array_equal(of_frame.coef_, of_source.coef_)


def test_a_look_at_itself_is_short_and_holds_no_label() -> None:
    made = planned()
    release = made.release(TABLE, label="label")
    for value in (made, release, labeldp.verify(release)):
        text = repr(value)
        assert 1 <= len(text.splitlines()) <= 15
        assert not any(f"{label:.6g}" in text for label in release.labels)


def test_a_plan_remembers_what_was_said_of_the_labels(tmp_path: Path) -> None:
    made = planned(TABLE, label_range=(2, 8), clip=True)
    released = made.release(TABLE)
    assert released.certificate["labels"]["column"] == "label"
    assert released.certificate["labels"]["outside_range"] == "clipped"
    again = made.release_to(tmp_path / "r", TABLE)
    assert again.certificate["labels"]["column"] == "label"
    made.save(tmp_path / "plan.json")
    again = labeldp.Plan.load(tmp_path / "plan.json").release(TABLE)
    assert again.certificate["labels"]["outside_range"] == "clipped"


@pytest.mark.parametrize(("noise", "gaussian"), [("gaussian", True), ("radial", False)])
def test_a_certificate_has_its_mu_where_it_is_gaussian(noise: str, gaussian: bool) -> None:
    made = planned(mechanism="shaped-flag", noise=noise).release(TABLE, label="label")
    assert made.certificate["mu"] == labeldp.compose(made).mu
    assert (made.certificate["mu"] is not None) == gaussian
