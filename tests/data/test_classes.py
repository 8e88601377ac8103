"""Labels of two declared classes: read as 0 and 1, never told, and remembered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import (
    DataError,
    InputError,
    LogisticRegression,
    Plan,
    PlanError,
    Release,
    scan,
    verify,
)
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.plans import plan

ROWS = 400


def labels_of(data: Any, classes: Any = ("no", "yes"), **options: Any) -> list[float]:
    source = scan(data, label="y", classes=classes, **options)
    return [float(y) for _, part in source.labelled_batches() for y in part]


def table(labels: Any, type_: pa.DataType | None = None) -> pa.Table:
    return pa.table({"x": np.arange(len(labels)), "y": pa.array(labels, type_)})


def survey(yes: str = "yes", no: str = "no", seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    x = random.normal(size=ROWS)
    return pa.table({"x": x, "y": np.where(random.random(ROWS) < 1 / (1 + np.exp(-x)), yes, no)})


@pytest.mark.parametrize(
    ("labels", "type_", "classes"),
    [
        (["no", "yes", "yes"], None, ("no", "yes")),
        (["No ", " YES", "yes"], None, ("no", "yes")),
        (["no", "yes", "yes"], pa.dictionary(pa.int8(), pa.string()), ("no", "yes")),
        (["yes", "no", "no"], None, ("yes", "no")),
        (["A", "U", "U"], pa.large_string(), ("a", "u")),
        (["none", "NA", "NA"], None, ("none", "NA")),
        ([False, True, True], None, ("false", "true")),
        ([True, False, False], None, (True, False)),
        (["False", "True", "TRUE"], None, ("false", "true")),
        ([1, 2, 2], pa.int8(), (1, 2)),
        ([1.0, 2.0, 2.0], None, ("1", "2")),
        (["1", "2.0", "2"], None, ("1", "2")),
        ([0, -1, -1], None, ("0", "-1")),
        ([False, True, True], None, (0, 1)),
    ],
)
def test_the_first_class_is_0_and_the_second_1(labels: Any, type_: Any, classes: Any) -> None:
    assert labels_of(table(labels, type_), classes) == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("form", ["csv", "parquet", "pandas"])
def test_in_every_format(form: str, tmp_path: Path) -> None:
    data: Any = table(["no", "yes", "yes", "no"])
    if form == "csv":
        data.to_pandas().to_csv(tmp_path / "t.csv", index=False)
        data = tmp_path / "t.csv"
    elif form == "parquet":
        pq.write_table(data, tmp_path / "t.parquet")
        data = tmp_path / "t.parquet"
    else:
        data = data.to_pandas()
    assert labels_of(data) == [0.0, 1.0, 1.0, 0.0]


def test_objects_of_python_are_classes_by_their_values() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3], "y": pd.Series([True, False, True], dtype=object)})
    assert labels_of(frame, ("False", "True")) == [1.0, 0.0, 1.0]
    frame["y"] = pd.Series([1, 0, 1], dtype=object)
    assert labels_of(frame, ("0", "1")) == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("stranger", ["maybe", "7319", "yes!", "yes no"])
@pytest.mark.parametrize("place", [0, 5, 9])
def test_others_are_refused_after_the_last_row_without_a_word_of_them(
    stranger: str, place: int
) -> None:
    labels = ["no", "yes"] * 5
    labels[place] = stranger
    seen = list[int]()
    source = scan(table(labels), label="y", classes=("no", "yes"), batch_rows=2)
    with pytest.raises(DataError) as caught:
        seen.extend(x for batch, _ in source.labelled_batches() for x in batch[0].to_pylist())
    assert "neither of the two `classes`" in str(caught.value)
    assert stranger not in str(caught.value)
    assert len(seen) == 10


def test_numbers_that_are_no_class_are_refused() -> None:
    for labels in ([1, 2, 3], [0.5, 1, 2], ["one", "1", "2"], [True, True, False]):
        with pytest.raises(DataError, match="neither"):
            labels_of(table([str(each) for each in labels]), (1, 2))
    with pytest.raises(DataError, match="neither"):
        labels_of(table([1, 2, 2]), ("no", "yes"))


@pytest.mark.parametrize("units", [2, 5, 9, 40])
def test_numbers_in_different_units_are_refused(units: int) -> None:
    labels = [f"1 {chr(97 + unit % 26)}{unit // 26 * 'x'}g" for unit in range(units)]
    with pytest.raises(DataError, match="different units"):
        labels_of(table([*labels, "2"]), (1, 2))


def test_missing_ones_are_refused_or_dropped() -> None:
    data = table(["no", None, "yes", "NA", "", "unknown"])
    with pytest.raises(DataError, match="missing values"):
        labels_of(data)
    assert labels_of(data, drop_missing_labels=True) == [0.0, 1.0]
    # A class is a label, whatever it is called, and a stranger is no missing value.
    assert labels_of(
        table(["unknown", "no", None]), ("no", "unknown"), drop_missing_labels=True
    ) == [
        1.0,
        0.0,
    ]
    with pytest.raises(DataError, match="neither"):
        labels_of(table(["no", "refused"]), drop_missing_labels=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"classes": ("no", "NO")}, "are the same"),
        ({"classes": ("1", "1.0")}, "are the same"),
        ({"classes": ("no",)}, "two values"),
        ({"classes": "no,yes"}, "two values"),
        ({"classes": ("no", "")}, "two values"),
        ({"classes": ("no", "y" * 65)}, "two values"),
        ({"classes": ("no", "yes"), "label_range": (0, 2)}, "leave `label_range` out"),
        ({"classes": ("no", "yes"), "clip": True}, "leave one of them out"),
        ({"classes": ("no", "yes"), "label": None}, "name it"),
    ],
)
def test_classes_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        scan(table(["no", "yes"]), **{"label": "y"} | options)


def test_a_plan_and_its_release_remember_them(tmp_path: Path) -> None:
    data = survey()
    made = plan(data, 2, 1e-6, label="y", classes=("no", "yes"))
    assert "predicted probabilities of 'yes' will be off by" in dict(made.facts)["error"]
    made.save(tmp_path / "plan.json")
    read = Plan.load(tmp_path / "plan.json")
    release = read.release(data)
    assert release.certificate["labels"]["classes"] == ["no", "yes"]
    assert release.certificate["label_range"] == [0.0, 1.0]
    release.save(tmp_path / "published")
    assert not verify(tmp_path / "published", data).problems
    with pytest.raises(PlanError, match="the classes 'no' and 'yes'"):
        read.release(scan(data, label="y", classes=("yes", "no")), again=True)
    numbers = data.set_column(1, "y", pa.array((np.array(data["y"]) == "yes") * 1.0))
    with pytest.raises(PlanError, match="the classes 'no' and 'yes'"):
        read.release(scan(numbers, label="y", label_range=(0, 1)), again=True)


def test_how_classes_are_called_changes_their_names_alone() -> None:
    """The same rows drawn by the same keys, with texts, numbers or truth values as labels."""

    def released(data: pa.Table, **labels: Any) -> Release:
        source = scan(data, label="y", **labels)
        made = plan(source, 1, 1e-6, residual_share=0.0)  # as it is for classes
        return made.release(source, randomness=Randomness.experiment(3))

    texts = released(survey(), classes=("no", "yes"))
    other = released(survey("U", "A"), classes=("A", "U"))
    numbers = survey().set_column(1, "y", pa.array((np.array(survey()["y"]) == "yes") * 1.0))
    plain = released(numbers, label_range=(0, 1))
    assert texts.table.equals(other.table)
    assert texts.table.equals(plain.table)
    different = {
        name for name, value in texts.certificate.items() if plain.certificate[name] != value
    }
    assert different == {"labels", "seal"}


@pytest.mark.parametrize("change", [lambda y: "yes" if y == "no" else "no", lambda y: y.upper()])
def test_a_label_changes_drawn_numbers_alone(change: Callable[[str], str], tmp_path: Path) -> None:
    """Plan, schema and certificate but for its digests of drawn numbers."""
    certificates = []
    for number, place in enumerate((None, 11)):
        data = survey().to_pandas()
        if place is not None:
            data.loc[place, "y"] = change(data.loc[place, "y"])
        path = tmp_path / f"{number}.csv"
        data.to_csv(path, index=False)
        source = scan(path, label="y", classes=("no", "yes"))
        made = plan(source, 1, 1e-6)
        certificate = made.release(source, randomness=Randomness.experiment(3)).certificate
        for name in ("seal", "released_at", "residual_root"):
            certificate.pop(name, None)
        certificate["digests"].pop("aggregates")
        certificates.append(json.dumps([certificate, made.to_json()]))
    assert certificates[0] == certificates[1]


def forged(folder: Path, change: Callable[[dict[str, Any]], Any]) -> str:
    release = Release.load(folder)
    certificate = json.loads(json.dumps(release.certificate))
    change(certificate)
    bad = Release(release.table, release.features, certificate, release.files)
    target = folder.with_name("forged")
    bad.save(target)
    return " ".join(verify(target).problems)


def test_verify_checks_them(tmp_path: Path) -> None:
    folder = tmp_path / "published"
    data = survey()
    plan(data, 2, 1e-6, label="y", classes=("no", "yes")).release(data, directory=folder)

    def same(certificate: dict[str, Any]) -> None:
        certificate["labels"]["classes"] = ["no", "No"]

    assert "two classes must differ" in forged(folder, same)


def test_a_fit_calls_them_by_their_names(tmp_path: Path) -> None:
    data = survey()
    release = plan(data, 8, 1e-6, label="y", classes=("no", "yes")).release(data)
    model = LogisticRegression().fit(release, data)
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(data)) == {"no", "yes"}
    assert model.score(data, data["y"].to_pylist()) > 0.6
    model.save(tmp_path / "model.json")
    loaded = LogisticRegression.load(tmp_path / "model.json")
    assert loaded.predict(data).tolist() == model.predict(data).tolist()


def test_on_the_command_line(tmp_path: Path) -> None:
    path, folder, model = (tmp_path / name for name in ("t.csv", "published", "model.json"))
    survey().to_pandas().to_csv(path, index=False)
    made = labeldp(
        "release", path, "--label", "y", "--classes", "no,yes", "--epsilon", 4, "--out", folder
    )
    assert not made.code, made.error
    assert "--data TABLE" in made.out
    fitted = labeldp("fit", folder, "--data", path, "--out", model)
    assert "a logistic fit" in fitted.err
    assert "family logistic" in fitted.out
    assert labeldp("predict", model, path, "--out", tmp_path / "p.csv").code == 0
    found = pd.read_csv(tmp_path / "p.csv")["prediction"]
    assert found.between(0, 1).all()
    assert "posterior mean (prior" in labeldp("fit", folder).out
    assert "give it (--data TABLE)" in labeldp("fit", folder, "--family", "logistic").error
    linear = labeldp("fit", folder, "--data", path, "--family", "linear")
    assert "family" not in linear.out
    both = labeldp("plan", path, "--label", "y", "--classes", "no,yes", "--label-range", 0, 2)
    assert "--label-range" in both.error


def test_counts_of_two_tables_on_the_command_line(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    folders, options = [], list[Any]()
    for number in range(2):
        x = random.normal(size=2000)
        data = pd.DataFrame({"x": x, "n": random.poisson(np.exp(0.5 + 0.5 * x)).clip(0, 30)})
        path, folder = tmp_path / f"{number}.csv", tmp_path / f"published{number}"
        data.to_csv(path, index=False)
        labels = ("--label", "n", "--label-range", 0, 30, "--epsilon", 8)
        assert labeldp("release", path, *labels, "--out", folder).code == 0
        folders.append(folder)
        options += ["--data", path]
    model = tmp_path / "model.json"
    found = labeldp("fit", *folders, *options, "--family", "poisson", "--out", model, "--json").json
    assert found["model"] == "poisson"
    assert found["rule"]["family"] == "poisson"
    assert [each["value"] for each in found["coefficients"]] == pytest.approx([0.5, 0.5], abs=0.1)
    assert labeldp("predict", model, options[1], "--out", tmp_path / "p.csv").code == 0
    means = pd.read_csv(tmp_path / "p.csv")["prediction"]
    assert means.mean() == pytest.approx(np.exp(0.625), rel=0.1)
    one = labeldp("fit", *folders, *options[:2], "--family", "poisson")
    assert "once for each release" in one.error
    assert (
        "--ridge"
        in labeldp("fit", folders[0], *options[:2], "--family", "poisson", "--ridge", 1).error
    )
    more = labeldp("fit", folders[0], *options, "--family", "poisson")
    assert "more often than there are releases" in more.error
