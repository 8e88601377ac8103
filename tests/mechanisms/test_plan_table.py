"""A plan knows what was said about its table; a release reads the table in the same way."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labeldp
from labeldp import InputError, Plan, PlanError
from labeldp.releases.certificate import seal
from labeldp.sampling.streams import Randomness

ROWS = 3000
SAID = {"label": "pay", "label_range": (0, 2000), "clip": True, "drop_missing_labels": True}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Whole thousands, which are a thousandth if the point is the decimal sign; 999 is missing."""
    rng = np.random.default_rng(1)
    years = rng.integers(0, 40, ROWS)
    pay = 1000 + 20 * years + rng.integers(0, 100, ROWS)
    pay = np.where(rng.random(ROWS) < 0.02, 999, pay)
    spelt = [f"{value:,}".replace(",", ".") for value in pay]
    return pd.DataFrame({"years": years, "town": rng.choice(["A", "B"], ROWS), "pay": spelt})


@pytest.fixture(scope="module")
def files(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as text and as Parquet."""
    place = tmp_path_factory.mktemp("tables")
    frame.to_csv(place / "t.csv", index=False, sep="|")
    frame.to_parquet(place / "t.parquet", index=False)
    return place


def _numbers(plan: Plan, data: object, **said: object) -> np.ndarray:
    made = plan.release(data, randomness=Randomness.experiment(7), again=True, **said)
    return np.asarray(made.labels)


@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_a_plan_file_reads_labels_as_they_were_said_to_be(
    frame: pd.DataFrame, files: Path, form: str, tmp_path: Path
) -> None:
    text = {"decimal": ",", "na": ["pay=999"], "delimiter": "|"}
    made = labeldp.plan(files / "t.csv", 1, **SAID, **text)
    made.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded.table["na"] == ["pay=999"]
    assert loaded.table["clip"] is True
    table = frame if form == "frame" else files / f"t.{form}"
    said = labeldp.scan(files / "t.csv", **SAID, **text)
    assert np.array_equal(_numbers(loaded, table), _numbers(made, said))


def test_what_is_said_for_the_release_counts(frame: pd.DataFrame) -> None:
    made = labeldp.plan(frame, 1, **SAID | {"drop_missing_labels": False}, decimal=",")
    as_thousandths = _numbers(made, frame, decimal=".")
    assert not np.array_equal(as_thousandths, _numbers(made, frame))


def test_other_labels_are_refused(frame: pd.DataFrame) -> None:
    table = frame.assign(other=1.0)
    made = labeldp.plan(table, 1, **SAID, decimal=",", na=["pay=999"], drop=["other"])
    with pytest.raises(PlanError, match="the plan is for the labels 'pay'"):
        made.release(table, label="other")


def test_a_plan_file_without_what_was_said_asks_for_the_label(frame: pd.DataFrame) -> None:
    said = {"decimal": ",", "na": ["pay=999"]}
    made = labeldp.plan(frame, 1, **SAID, **said)
    bare = Plan.from_json(_without_table(made))
    with pytest.raises(InputError, match="`label`"):
        bare.release(frame)
    rest = {name: value for name, value in SAID.items() if name != "label_range"}
    assert np.array_equal(_numbers(bare, frame, **rest, **said), _numbers(made, frame))


@pytest.mark.parametrize(
    ("part", "value"),
    [("labels", 5), ("table", 5), ("table", [1]), ("table", None), ("forecast", []), ("notes", 3)],
)
def test_a_plan_of_other_kinds_is_no_plan(frame: pd.DataFrame, part: str, value: object) -> None:
    document = labeldp.plan(frame, 1, **SAID, decimal=",", na=["pay=999"]).to_json()
    with pytest.raises(InputError, match="the plan lacks a part, or has one of another kind"):
        Plan.from_json(seal(document | {part: value}))
    del document[part]
    if part != "table":  # which earlier plans had not
        with pytest.raises(InputError, match="the plan lacks a part"):
            Plan.from_json(seal(document))


def test_an_unknown_mechanism_is_named(frame: pd.DataFrame) -> None:
    document = labeldp.plan(frame, 1, **SAID, decimal=",", na=["pay=999"]).to_json()
    with pytest.raises(InputError, match="mechanism 'other' is unknown"):
        Plan.from_json(seal(document | {"mechanism": "other"}))


def _without_table(made: Plan) -> dict[str, object]:
    document = made.to_json()
    del document["table"]
    return seal(document)
