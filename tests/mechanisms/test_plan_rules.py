"""What a plan must be before labels are read, and that a file of it is released once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import InputError, Plan, PlanError, Release, scan
from labeldp.mechanisms.design_summary import most_rows
from labeldp.mechanisms.registry import (
    make_request,
    mechanism_named,
)
from labeldp.passes.engine import LocalEngine
from labeldp.planning import mark_plan_released
from labeldp.releases.certificate import Person, read_about
from labeldp.releases.files import content_problems, form_problems
from labeldp.releases.pending import CERTIFICATE, FEATURES
from labeldp.releases.side_files import CROISSANT
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import EVERY, FLAG, NOISY, SAMPLED, SHAPED, saved, small_plan
from tests.plans import plan
from tests.tables import RANGE, source, table

# --- once ----------------------------------------------------------------------------------


def is_noted(path: Path) -> bool:
    return path.with_name(path.name + ".released").exists()


def run(path: Path | None, out: Path | None, *, again: bool = False, problem: Any = None) -> None:
    with mark_plan_released(path, out, again=again):
        if problem is not None:
            raise problem


def test_a_plan_file_is_released_once_unless_again_is_said(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with mark_plan_released(path, None, again=False):
        assert is_noted(path), "before a label is read"
    with pytest.raises(InputError, match=r"^.*plan\.json was released before \(plan\.json\.rel"):
        run(path, None)
    run(path, None, again=True)
    assert is_noted(path)
    run(None, None)
    run(None, None)


@pytest.mark.parametrize("problem", [PlanError("no"), KeyboardInterrupt(), MemoryError()])
def test_a_run_that_published_nothing_takes_its_note_back(tmp_path: Path, problem: Any) -> None:
    path, out = tmp_path / "plan.json", tmp_path / "out"
    for target in (None, out):
        with pytest.raises(type(problem)):
            run(path, target, problem=problem)
        assert not is_noted(path)
    out.mkdir()
    with pytest.raises(type(problem)):
        run(path, out, problem=problem)
    assert is_noted(path), "what is there has been released"
    with pytest.raises(type(problem)):
        run(path, None, problem=problem, again=True)
    assert is_noted(path), "an earlier run has released it"


def test_an_unknown_end_leaves_its_note(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(RuntimeError):
        run(path, None, problem=RuntimeError("unknown"))
    assert is_noted(path)


def test_notes_that_cannot_be_written_stop_the_run(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    (tmp_path / "plan.json.released").mkdir()
    with pytest.raises(InputError, match="was released before"):
        run(path, None)
    missing = tmp_path / "none" / "plan.json"
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\), so"):
        run(missing, None)


# --- bound to its labels -------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> Plan:
    return small_plan(FLAG, source(400), floor="added")


CONTRADICTION = "^the plan contradicts itself; plan again$"


def test_a_plan_is_bound_to_the_label_its_range_and_its_persons(made: Plan) -> None:
    made.check_source(source(400))
    made.check_source(source(400), True, True)
    with pytest.raises(PlanError, match=CONTRADICTION):
        made.check_source(source(400), True, False)
    other = scan(table(400), label="score", label_range=RANGE)
    with pytest.raises(PlanError, match=r"^the plan is for the labels 'label'; name these, or"):
        made.check_source(other)
    wider = scan(table(400), label="label", label_range=(0.0, 11.0))
    words = r"^the plan is for labels from 0 to 10; scan the table with that label range$"
    with pytest.raises(PlanError, match=words):
        made.check_source(wider)
    persons = scan(table(400), label="label", label_range=RANGE, person="score")
    words = (
        r"^the plan is for single rows \(no `person`\); scan the table with that, or plan again$"
    )
    with pytest.raises(PlanError, match=words):
        made.check_source(persons)
    held = replace(made, claim=replace(made.claim, person=Person("score", 3)))
    words = r"^the plan is for persons \(`person='score'`\); scan the table with that, or plan"
    with pytest.raises(PlanError, match=words):
        held.check_source(source(400))


def test_each_field_of_a_plan_agrees_with_the_others(made: Plan) -> None:
    claim: Any = made.claim
    grid = made.labels
    wrong: list[Plan] = [
        replace(made, labels=replace(grid, exponent=grid.exponent + 1)),
        replace(made, labels=replace(grid, centre=grid.centre + 1)),
        replace(made, features=replace(made.features, rows=401)),
        replace(made, claim=replace(claim, epsilon=claim.epsilon * (1 - 1e-6))),
        replace(made, claim=replace(claim, delta=claim.delta * (1 - 1e-6))),
    ]
    wrong.append(replace(made, claim=replace(claim, label_range=(0.0, 9.0))))
    for each in wrong:
        with pytest.raises(PlanError, match=CONTRADICTION):
            each.check_source(source(400))
    made.check_feature_sums(made.feature_sums)
    with pytest.raises(PlanError, match=r"^the features are not those of the plan"):
        made.check_feature_sums("0" * 64)


@pytest.mark.parametrize(
    ("mechanism", "change"),
    [
        (SAMPLED, {"bags": 11}),
        (SAMPLED, {"rank": 9}),
        (SAMPLED, {"rank": 11}),
        (NOISY, {"bags": 19}),
        (NOISY, {"rank": 9}),
        (NOISY, {"rank": 11}),
        (SHAPED, {"bags": 9}),
        (SHAPED, {"intercept": False}),
        (EVERY, {"bags": 399}),
        (EVERY, {"rank": 9}),
        (EVERY, {"intercept": False}),
    ],
)
def test_a_plan_edited_against_itself_is_refused_before_labels_are_read(
    mechanism: str, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"floor": "added"} if mechanism in (FLAG, SAMPLED) else {}
    held = small_plan(mechanism, source(400), **options)
    assert len(held.features.names) == 10
    forged = replace(held, claim=replace(held.claim, **change))
    spent: list[int] = []
    monkeypatch.setattr(Randomness, "spend", lambda _: spent.append(1))
    monkeypatch.setattr(type(held.claim), "delta_at", lambda *_: 0.0)
    with pytest.raises((PlanError, ValueError)):
        forged.release(source(400))
    assert not spent


def test_infinite_forecasts_and_all_fields_survive_a_file(made: Plan, tmp_path: Path) -> None:
    forecast = replace(made.forecast, excess_mean=np.inf, excess_high=np.inf)
    endless = replace(made, forecast=forecast)
    document = endless.to_json()
    assert document["forecast"]["added_ms"] is None
    assert Plan.from_json(document) == endless
    endless.save(tmp_path / "plan.json")
    read = Plan.load(tmp_path / "plan.json")
    assert read == endless
    assert read.path == tmp_path / "plan.json"
    assert read.table == endless.table
    for wrong in ({}, [], {"format": "labeldp-plan/1"}, None):
        with pytest.raises(InputError, match=r"^this is not a plan of format labeldp-plan/2; make"):
            Plan.from_json(wrong)  # type: ignore[arg-type]


def test_a_ledger_and_what_the_table_is_called_in_it_go_together(made: Plan) -> None:
    ledger: Any = SimpleNamespace()
    for asked in ({"ledger": ledger}, {"dataset": "t"}):
        with pytest.raises(InputError, match=r"^`ledger` and `dataset` go together: the file, and"):
            made.release(source(400), **asked)


def test_a_released_plan_is_known_by_what_its_file_says(made: Plan, tmp_path: Path) -> None:
    """Elsewhere the last digit of a forecast may differ, and with it a digest computed anew."""
    made.save(tmp_path / "plan.json")
    Plan.load(tmp_path / "plan.json").release(source(400))
    again = Plan.load(tmp_path / "plan.json")
    elsewhere = replace(again, forecast=replace(again.forecast, excess_mean=1.0))
    assert elsewhere.to_json()["seal"] != again.to_json()["seal"]
    with pytest.raises(InputError, match="was released before"):
        elsewhere.release(source(400))


@pytest.mark.parametrize("mechanism", [FLAG, SHAPED])
def test_a_factor_of_another_table_is_not_used(mechanism: str) -> None:
    """A plan may have been put together by hand; what it publishes is of the table at hand."""
    first, second = (
        scan(
            table(400, seed).select(["height", "score", "label"]), label="label", label_range=RANGE
        )
        for seed in (0, 9)
    )
    held, other = small_plan(mechanism, first), small_plan(mechanism, second)
    assert held.factor is not None
    assert other.factor is not None
    assert held.factor.kept == other.factor.kept
    expected = held.release(first, randomness=Randomness.experiment(3))
    for factor in (other.factor, None):
        mixed = replace(held, factor=factor)
        release = mixed.release(first, randomness=Randomness.experiment(3))
        assert release.table.equals(expected.table)
        told = ("floor", "second_moment")
        assert [release.certificate.get(each) for each in told] == [
            expected.certificate.get(each) for each in told
        ]


# --- requests ------------------------------------------------------------------------------


def test_what_a_mechanism_does_not_have_is_refused_by_name() -> None:
    flag, every = mechanism_named(FLAG), mechanism_named(EVERY)
    budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
    request = make_request(flag, **budget, bags=7, min_count=3)
    assert request.options.bags == 7
    assert (request.epsilon, request.delta, request.accountant) == (1.0, 1e-5, "exact")
    with pytest.raises(InputError, match=r"^`bag_size` does not apply to wtd-flag; leave it out$"):
        make_request(flag, **budget, bag_size=7)
    with pytest.raises(
        InputError, match=r"^wtd-flag has no accountant 'none'; plan with exact-worst-case, exact"
    ):
        make_request(flag, **budget, accountant="none")
    with pytest.raises(InputError, match="nonsense"):
        make_request(flag, **budget, nonsense=1)
    assert make_request(every, epsilon=1.0, delta=0.0).delta == 0.0
    with pytest.raises(
        InputError, match=r"^mechanism 'none' is unknown; choose auto, shaped-flag, "
    ):
        mechanism_named("none")


def test_persons_are_refused_where_single_rows_are_priced() -> None:
    mechanism_named(SAMPLED).check_person(None)
    mechanism_named(FLAG).check_person("id")
    words = r"^sampled-wtd-flag cannot price all rows of a person together; use `mechanism='shaped"
    with pytest.raises(PlanError, match=words):
        mechanism_named(SAMPLED).check_person("id")
    rows = scan(table(400), label="label", label_range=RANGE, person="score")
    with pytest.raises(PlanError, match=words):
        plan(rows, mechanism=SAMPLED, bags=12, bag_size=32)


# --- what a plan tells of its use, and of its work -----------------------------------------


def test_what_is_kept_is_what_noise_leaves_of_what_features_explain(made: Plan) -> None:
    """Half of labels spread evenly over a range of 10: 100/24."""
    assert made.explained_mse == pytest.approx(100 / 24)
    for fitted, worthwhile in ((0.5 * 100 / 24, True), (0.91 * 100 / 24, False)):
        held = replace(made, forecast=replace(made.forecast, added_mse_default_fit=fitted))
        assert held.explained_share_kept == pytest.approx(1 - fitted * 24 / 100)
        assert held.is_useful is worthwhile
    for kept, poor in ((0.51, False), (0.49, True)):
        fitted = (1 - kept) * 100 / 24
        held = replace(made, forecast=replace(made.forecast, added_mse_default_fit=fitted))
        assert (held.utility_message in held.warnings) is poor
    spread = replace(made.forecast, residual_source="stated", residual_ms=25.0)
    assert replace(made, forecast=spread).explained_share_kept == -np.inf
    almost = replace(spread, residual_ms=24.0, added_mse_default_fit=0.25)
    assert replace(made, forecast=almost).explained_share_kept == pytest.approx(0.75)


def test_the_most_rows_of_a_person_are_counted() -> None:
    ids = pa.array(["a"] * 3 + ["b"] * 5 + [f"p{k}" for k in range(392)])
    data = table(400).append_column("id", ids)
    rows = scan(data, label="label", label_range=RANGE, person="id")
    features = small_plan(FLAG, rows).features
    assert most_rows(features, rows, LocalEngine(1)) == Person("id", 5)
    assert most_rows(features, source(400), LocalEngine(1)) is None


@pytest.mark.parametrize("mechanism", [FLAG, SAMPLED])
def test_a_residual_is_stated_or_guessed(mechanism: str) -> None:
    assert small_plan(mechanism, source(400), floor="added").forecast.residual_source == "guess"
    stated: dict[str, Any] = {"floor": "declared", "residual_ms": 24.0, "epsilon": 60.0}
    held = small_plan(mechanism, source(400), bags=12, **stated | {"delta": 0.1})
    assert held.forecast.residual_source == "stated"
    assert held.forecast.residual_ms == 24.0


# --- what no plan can beat -----------------------------------------------------------------


# --- the files of a release ----------------------------------------------------------------


def test_rows_and_columns_are_as_many_as_the_certificate_says(made: Plan, tmp_path: Path) -> None:
    release = made.release(source(400), randomness=Randomness.experiment(0))
    folder = saved(release, tmp_path / "r")

    def asked(**changes: Any) -> list[str]:
        other = replace(release, certificate=release.certificate | changes)
        # the certificate in the Parquet file is the true one
        return [told for told in form_problems(folder, other) if "other metadata" not in told]

    assert asked() == []
    assert asked(bags=41) == ["aggregates.parquet has 40 rows, the certificate says 41"]
    assert asked(rank=9) == ["features.json has 10 columns, not 9"]
    assert asked(rows=399) == ["features.json was fitted on 400 rows, not 399"]
    assert asked(form="compact") == ["aggregates.parquet has 40 rows, the certificate says 11"]
    assert len(asked(bags=40.0)) == 1
    assert len(asked(released_at="2026-13-01T00:00:00Z")) == 1
    said: Any = read_about({"name": "Wages", "curator": "The office"})
    assert asked(about=said) == []
    told = ["certificate.about is not as labeldp writes it"]
    assert asked(about=said | {"name": " Wages "}) == told
    assert asked(about=said | {"missing": said["missing"][1:]}) == told
    short = replace(release, table=release.table.drop_columns([release.table.column_names[0]]))
    (line,) = form_problems(folder, short)
    assert line.startswith("aggregates.parquet does not have the columns that it should: ")
    assert "(double, never missing)" in line or "(double)" in line
    other = pa.table({"x": [1.0]})
    assert form_problems(folder, replace(release, table=other)) == [line]


def test_files_are_as_they_were_written_to_the_byte(made: Plan, tmp_path: Path) -> None:
    """Of the same length, and all the same another text."""
    release = made.release(source(400), randomness=Randomness.experiment(0))
    folder = saved(release, tmp_path / "r")
    held = Release.load(folder)
    assert content_problems(folder, held) == []
    for name, words in (
        (CROISSANT, "does not describe these files as labeldp does"),
        (CERTIFICATE, "is not as it was written (other spacing or order)"),
        (FEATURES, "is not as it was written (other spacing or order)"),
    ):
        path = folder / name
        text = path.read_bytes()
        path.write_bytes(text.replace(b"\n ", b" \n", 1))
        assert len(path.read_bytes()) == len(text)
        assert path.read_bytes() != text
        assert content_problems(folder, held) == [f"{name} {words}"]
        path.write_bytes(text + b"\n")
        assert content_problems(folder, held) == [f"{name} {words}"]
        path.write_bytes(text)


def test_a_formula_names_the_label_of_a_frame() -> None:
    held = plan(table(400), 1.0, 1e-5, label_range=RANGE, formula="label ~ height", mechanism=EVERY)
    assert held.table["label"] == "label"
    assert held.features.columns == ("height",)
