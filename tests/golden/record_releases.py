"""Record releases, with all that belongs to them, as the code of today makes them.

    python -m tests.golden.record_releases

writes tests/golden/recorded/: small tables, and for every case a plan, a release and a model, each
as the command line writes it; ledgers; public keys; and `expected.json`, what the code answered
about them. Later code must read these files and give the same answers. The directory is never
overwritten: noise comes from the operating system, so another run would make other releases.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import shlex
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

import labeldp
from tests.console import labeldp as command
from tests.golden.record import arithmetic

RECORDED = Path(__file__).with_name("recorded")
EXAMPLE = Path(__file__).parents[2] / "examples" / "doctor_visits.parquet"

TABLES = {
    "people": ("tables/people.parquet", "--label hours --label-range 0 80", "person,night"),
    "visits": ("tables/visits.parquet", "--label visits --label-range 0 77", ""),
    "staff": ("tables/staff.csv", "--label pay --label-range 0 100", ""),
    "answers": ("tables/answers.parquet", "--label yes --label-range 0 1", ""),
    "crowd": ("tables/crowd.parquet", "--label score --label-range 0 10", ""),
    "north": ("tables/north.parquet", "--label hours --label-range 0 80", "person,night"),
    "south": ("tables/south.parquet", "--label hours --label-range 0 80", "person,night"),
}
"""File, options about labels, and columns that are left out unless a case names its own."""

FLAG, SAMPLED, LAG = "wtd-flag", "sampled-wtd-flag", "sampled-noisy-wtd-lag"
SHAPED, ROWS = "shaped-flag", "noisy-rows"

Case = tuple[str, str, str, dict[str, Any]]
CASES: dict[str, Case] = {
    # name: table, mechanism, options of the plan, parameters of the fit
    "flag-measured-added": ("people", FLAG, "--epsilon 2 --bags 80", {}),
    "flag-measured": ("answers", FLAG, "--floor measured --epsilon 6 --bags 12", {}),
    "flag-added": ("people", FLAG, "--floor added --bags 60", {"penalty": 0.01}),
    "flag-declared": (
        "answers",
        FLAG,
        "--floor declared --residual-ms 0.2 --epsilon 3 --bags 60",
        {"clip": False},
    ),
    "flag-compact": ("people", FLAG, "--compact --epsilon 2 --bags 3000", {"confidence": 0.9}),
    "flag-worst-case": ("visits", FLAG, "--accountant exact-worst-case --bags 40", {}),
    "flag-paper": ("people", FLAG, "--accountant paper --floor added --bags 40", {}),
    "flag-person": ("people", FLAG, "--person person --drop night --epsilon 4 --bags 60", {}),
    "flag-no-intercept": (
        "people",
        FLAG,
        "--no-intercept --features age,income --epsilon 2 --bags 40",
        {"max_norm": 20.0},
    ),
    "sampled-measured-added": ("people", SAMPLED, "--bags 12 --bag-size 100 --epsilon 3", {}),
    "sampled-measured": (
        "answers",
        SAMPLED,
        "--floor measured --bags 4 --bag-size 500 --epsilon 12 --delta 1e-4",
        {"penalty": 0.05},
    ),
    "sampled-added": ("people", SAMPLED, "--floor added --bags 15 --bag-size 80", {}),
    "sampled-declared": (
        "answers",
        SAMPLED,
        "--floor declared --residual-ms 0.15 --bags 5 --bag-size 400 --epsilon 3",
        {},
    ),
    "sampled-over-draw": ("people", SAMPLED, "--over-draw --bags 10 --bag-size 60", {}),
    "sampled-seeded": ("people", SAMPLED, "--bag-seed 3 --bags 10 --bag-size 60", {}),
    "lag-given-bags": ("people", LAG, "--bags 40 --bag-size 30 --epsilon 3", {}),
    "lag-over-draw": ("people", LAG, "--over-draw --bags 30 --bag-size 20", {"penalty": 0.01}),
    "lag-fraction": ("people", LAG, "--noisy-fraction 0.5 --bags 20 --bag-size 60", {}),
    "lag-column": (
        "people",
        LAG,
        "--noisy-column night --drop person,night --bags 20 --bag-size 60",
        {"shrink": False},
    ),
    "lag-worst-case": (
        "people",
        LAG,
        "--accountant exact-worst-case --bags 20 --bag-size 60",
        {},
    ),
    "lag-neural": (
        "people",
        LAG,
        "--bags 30 --bag-size 40 --epsilon 4",
        {"model": "neural", "epochs": 3, "hidden": [8], "shrink": False},
    ),
    "shaped-gaussian": ("people", SHAPED, "--noise gaussian", {}),
    "shaped-radial": ("people", SHAPED, "--noise radial --delta 0", {"shrink": False}),
    "shaped-no-residual": ("visits", SHAPED, "--residual-share 0 --epsilon 2", {}),
    "shaped-person": ("people", SHAPED, "--person person --drop night --epsilon 2", {}),
    "shaped-splines": ("people", SHAPED, "--basis splines:3 --epsilon 3", {"penalty": "auto"}),
    "shaped-interactions": (
        "people",
        SHAPED,
        "--interactions age:sex,income:sex --log income --epsilon 3",
        {"lasso": "auto"},
    ),
    "shaped-fourier": (
        "people",
        SHAPED,
        "--basis splines+fourier:6 --features age,income --epsilon 4",
        {},
    ),
    "shaped-basis-auto": ("people", SHAPED, "--basis auto --epsilon 4", {}),
    "shaped-formula": (
        "people",
        SHAPED,
        "--formula 'hours ~ spline(age) + sex*income' --epsilon 3",
        {},
    ),
    "shaped-ridge": ("visits", SHAPED, "--shape-ridge 0.1 --min-count 60 --winsor 0.01", {}),
    "shaped-north": (
        "north",
        SHAPED,
        "--noise gaussian --epsilon 2",
        {"columns": ["age", "income"]},
    ),
    "shaped-south": ("south", SHAPED, "--noise gaussian --epsilon 2", {}),
    "rows-laplace": ("people", ROWS, "--delta 0 --epsilon 2", {}),
    "rows-with-features": (
        "staff",
        ROWS,
        "--with-features --clip --drop-missing-labels --epsilon 4",
        {"shrink": False},
    ),
    "rows-missing-labels": (
        "staff",
        ROWS,
        "--drop-missing-labels --clip --drop start --delta 0",
        {},
    ),
    "rows-person-gaussian": ("crowd", ROWS, "--person person --epsilon 4", {}),
    "rows-neural": (
        "crowd",
        ROWS,
        "--drop person --epsilon 6",
        {"model": "neural", "epochs": 20, "hidden": [8]},
    ),
    "auto-signed": ("visits", "auto", "--epsilon 2", {"penalty": 0.1}),
}
ABOUT = """\
name = "Visits to a doctor"
curator = "Office of Examples"
contact = "data@example.org"
purpose = "a test of old files"
licence = "CC0-1.0"
date = 2025-01-31
why_label_range = "no more were recorded"
why_epsilon = "an example"
"""
SIGNED = {"auto-signed": ("curator", "reviewer"), "shaped-gaussian": ("curator",)}
LEDGERS = {
    "spent": (
        "people",
        ("flag-measured-added", "shaped-gaussian", "rows-laplace", "sampled-over-draw"),
    ),
    "persons": ("people", ("flag-person", "shaped-person")),
    "visits": ("visits", ("auto-signed", "shaped-no-residual", "flag-worst-case")),
}
"""Ledger: the dataset's name in it, and the releases that were debited, in this order."""

COMPOSED = [
    ["flag-measured-added", "flag-added", "flag-compact"],
    ["flag-measured", "flag-declared", "sampled-measured", "sampled-declared"],
    ["shaped-gaussian", "shaped-radial", "rows-laplace"],
    ["sampled-measured-added", "sampled-over-draw", "lag-given-bags", "lag-over-draw"],
    ["flag-person", "shaped-person"],
    ["auto-signed", "shaped-no-residual", "flag-worst-case"],
]
FITTED_TOGETHER = ["shaped-north", "shaped-south"]
ACCOUNT = [
    f"{mechanism} --rows 100000 --label-range 0 50 {rest}"
    for mechanism, rest in [
        (FLAG, "--residual-ms 64 --features 12 --max-leverage 0.002"),
        (FLAG, "--residual-ms 64 --features 12 --max-leverage 0.002 --bags 500"),
        (FLAG, "--residual-ms 64 --epsilon 0.5 --delta 1e-8 --no-intercept"),
        (SAMPLED, "--residual-ms 64 --features 12 --max-leverage 0.002 --bag-size 20000 --bags 3"),
        (LAG, "--noisy-fraction 1 --noise-std 200 --bag-size 50 --bags 20"),
        (SHAPED, "--features 12 --max-leverage 0.01"),
        (SHAPED, "--features 40 --max-leverage 0.01 --noise gaussian --residual-share 0.1"),
        (SHAPED, "--features 5 --max-leverage 0.01 --noise radial --delta 0"),
        (ROWS, "--features 12"),
        (ROWS, "--features 12 --person-rows 20 --delta 1e-5"),
    ]
]


def write_tables() -> None:
    """Write the tables: made up from fixed seeds, but for a tenth of the public example."""
    Path("tables").mkdir()
    people = _people(np.random.default_rng(2024), 1500)
    pq.write_table(people, "tables/people.parquet")
    pq.write_table(people.slice(0, 800), "tables/north.parquet")
    pq.write_table(people.slice(800), "tables/south.parquet")
    visits = pq.read_table(EXAMPLE)
    pq.write_table(visits.take(list(range(0, visits.num_rows, 10))), "tables/visits.parquet")
    csv.write_csv(_staff(np.random.default_rng(7), 400), "tables/staff.csv")
    answers = _answers(np.random.default_rng(5), 2000)
    pq.write_table(answers, "tables/answers.parquet")
    pq.write_table(_crowd(np.random.default_rng(11), 360), "tables/crowd.parquet")
    _write_new_rows(people, visits, answers)


def _people(random: np.random.Generator, rows: int) -> pa.Table:
    age = random.integers(18, 80, rows)
    income = np.round(random.lognormal(3, 0.5, rows), 2)
    sex = random.choice(["female", "male"], rows)
    region = random.choice(["east", "north", "south", "west"], rows, p=[0.2, 0.3, 0.4, 0.1])
    hours = 10 + 0.3 * age + 0.4 * income + 4 * (sex == "male") + random.normal(0, 8, rows)
    return pa.table(
        {
            "person": random.permutation(np.arange(rows) // 3),  # every person has three rows
            "age": age,
            "income": income,
            "sex": sex,
            "region": region,
            "night": random.random(rows) < 0.6,
            "hours": np.clip(np.round(hours, 1), 0, 80),
        }
    )


def _staff(random: np.random.Generator, rows: int) -> pa.Table:
    """Blanks in a number, in a category and in labels, ISO dates, labels beyond their range."""
    years = np.round(random.gamma(3, 4, rows), 1)
    start = np.datetime64("1990-01-01") + random.integers(0, 9000, rows)
    grade = random.choice(["junior", "lead", "senior"], rows, p=[0.5, 0.2, 0.3])
    pay = np.round(30 + 2 * years + 8 * (grade == "lead") + random.normal(0, 10, rows), 2)
    return pa.table(
        {
            "years": pa.array(years, mask=random.random(rows) < 0.1),
            "start": pa.array(start.astype("datetime64[D]")),
            "grade": pa.array(grade, mask=random.random(rows) < 0.05),
            "pay": pa.array(pay, mask=random.random(rows) < 0.02),
        }
    )


def _answers(random: np.random.Generator, rows: int) -> pa.Table:
    """Answers that features hardly explain, so that a residual can be measured."""
    score, group = np.round(random.normal(size=rows), 2), random.choice(["a", "b", "c"], rows)
    yes = random.random(rows) < 0.5 + 0.05 * score.clip(-3, 3)
    return pa.table({"score": score, "group": group, "yes": yes.astype(int)})


def _crowd(random: np.random.Generator, rows: int) -> pa.Table:
    """Fifteen rows of every person, so many that Gaussian noise is the smaller."""
    heat, dose = np.round(random.normal(20, 5, rows), 1), np.round(random.random(rows), 3)
    score = np.clip(np.round(2 + 0.1 * heat + 3 * dose + random.normal(0, 1, rows), 1), 0, 10)
    return pa.table({"person": np.arange(rows) // 15, "heat": heat, "dose": dose, "score": score})


def _write_new_rows(people: pa.Table, visits: pa.Table, answers: pa.Table) -> None:
    """Rows to predict: some as they are, one with an unknown level, a blank, a number far out."""
    one = {
        "person": [1],
        "age": [130],
        "income": [None],
        "sex": ["other"],
        "region": ["north"],
        "night": [True],
    }
    features = people.drop_columns(["hours"])
    odd = pa.Table.from_pylist(
        [{name: values[0] for name, values in one.items()}], schema=features.schema
    )
    new = {
        "people": pa.concat_tables([features.slice(0, 9), odd]),
        "visits": visits.drop_columns(["visits"]).take([5, 1000, 7003, 20_000]),
        "answers": answers.drop_columns(["yes"]).slice(0, 5),
        "crowd": pa.table({"person": [1, 2], "heat": [17.5, 99.0], "dose": [0.25, 0.5]}),
    }
    for name, table in new.items():
        pq.write_table(table, f"tables/new_{name}.parquet")
    rows = ["years,start,grade", "3.5,2001-02-03,lead", ",1999-12-31,", "40,2010-06-15,junior"]
    Path("tables/new_staff.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def arguments(name: str) -> dict[str, list[str]]:
    """Return the arguments of plan, release and fit, as the command line took them."""
    table, mechanism, options, fit = CASES[name]
    path, labels, dropped = TABLES[table]
    own = any(word in options for word in ("--drop ", "--features", "--formula"))
    drop = ["--drop", dropped] if dropped and not own else []
    label = shlex.split(labels)
    if "--formula" in options:
        label = label[2:]  # the formula names the label
    plan = [path, *label, "--mechanism", mechanism, *drop, *shlex.split(options), "--anyway"]
    release = [path, "--plan", f"{name}/plan.json", "--anyway"]
    if name in SIGNED:
        release += ["--about", "tables/about.toml"]
    for ledger, (dataset, debited) in LEDGERS.items():
        if name in debited:
            release += ["--ledger", f"ledgers/{ledger}.ledger", "--dataset", dataset]
    data = ["--data", path] if needs_table(mechanism, options) else []
    found = {"plan": plan, "release": release}
    return found if "hidden" in fit else found | {"fit": [*fit_arguments(fit), *data]}


def needs_table(mechanism: str, options: str) -> bool:
    """Whether a fit reads features from the table, since the release has none."""
    return mechanism == LAG or (mechanism == ROWS and "--with-features" not in options)


def fit_arguments(fit: Mapping[str, Any]) -> list[str]:
    """Return the parameters of a learner as options of `labeldp fit`."""
    options = {"penalty": "--ridge", "lasso": "--lasso", "max_norm": "--max-norm"}
    options |= {"confidence": "--confidence"}
    found: list[str] = []
    for name, value in fit.items():
        if name == "columns":
            found += ["--columns", ",".join(value)]
        elif name in ("shrink", "clip"):
            found.append(f"--no-{name}")
        else:
            found += [options[name], str(value)]
    return found


def run(*given: str) -> Any:
    """Run a command that must succeed; return its JSON document."""
    result = command(*given, "--json")
    assert result.code == 0, (given, result.err)
    return result.json


def make(name: str) -> None:
    """Plan, release, sign and fit one case, by the command line."""
    given = arguments(name)
    Path(name).mkdir()
    run("plan", *given["plan"], "--out", f"{name}/plan.json")
    run("release", *given["release"], "--out", f"{name}/release")
    for signer in SIGNED.get(name, ()):
        run("sign", f"{name}/release", "--key", f"{signer}.key")
    fit = CASES[name][3]
    if "hidden" in fit:  # the command has no option for the size of a network
        data = TABLES[CASES[name][0]][0]
        learner(fit).fit(f"{name}/release", data).save(f"{name}/model.json")
    else:
        run("fit", f"{name}/release", *given["fit"], "--out", f"{name}/model.json")


def observe_verify(*given: str) -> dict[str, Any]:
    """Return the exit code of `labeldp verify` and what it said."""
    result = command("verify", *given, "--json")
    return {"code": result.code, **result.json}


def observe_certificate(release: labeldp.Release) -> dict[str, Any]:
    """Return what a certificate promises."""
    names = (
        "mechanism",
        "epsilon",
        "delta",
        "unit",
        "rows",
        "bags",
        "bag_size",
        "rank",
        "label_range",
        "mu",
        "curve",
        "groups",
        "label_noise_std",
        "attack_risk",
        "digests",
        "seal",
    )
    return {name: release.certificate[name] for name in names}


def learner(fit: Mapping[str, Any]) -> Any:
    """Return the learner with these parameters, not yet fitted."""
    parameters = {name: value for name, value in fit.items() if name != "model"}
    return (
        labeldp.BagRegressor(**parameters)
        if fit.get("model") == "neural"
        else labeldp.LinearRegressor(**parameters)
    )


def observe_model(model: Any, new: Path) -> dict[str, Any]:
    """Return coefficients, if there are any, and predictions of new rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", labeldp.LabelDPWarning)  # levels and numbers not seen
        found = {"predictions": model.predict(str(new)).tolist()}
    if not isinstance(model, labeldp.LinearRegressor):
        return found
    names = ("name", "value", "low", "high", "privacy_error", "sampling_error", "total_error")
    return found | {
        "coef": model.coef_.tolist(),
        "intercept": float(model.intercept_),
        "coefficients": [[getattr(each, name) for name in names] for each in model.coefficients_],
        "quality": [model.quality_.gain, model.quality_.r2, model.quality_.residual_std]
        if model.quality_
        else None,
    }


def observe_fit(fit: Mapping[str, Any], release: Any, table: Path | None, new: Path) -> Any:
    """Fit a release and return what `observe_model` tells."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", labeldp.LabelDPWarning)  # a gain that is not shown
        data = () if table is None else (str(table),)
        return observe_model(learner(fit).fit(release, *data), new)


def new_rows(table: str) -> str:
    """Return the file of rows to predict after a fit on this table."""
    name = {"north": "people", "south": "people"}.get(table, table)
    return f"tables/new_{name}.{'csv' if name == 'staff' else 'parquet'}"


def other_table(path: str) -> str:
    """Return a table that is not the one at this path."""
    return TABLES["people" if path == TABLES["visits"][0] else "visits"][0]


def observe(name: str) -> dict[str, Any]:
    """Return what the code says of one case."""
    table, mechanism, options, fit = CASES[name]
    path = TABLES[table][0]
    directory = f"{name}/release"
    keys = [word for signer in SIGNED.get(name, ()) for word in ("--key", f"keys/{signer}.key.pub")]
    release = labeldp.Release.load(directory)
    data = Path(path) if needs_table(mechanism, options) else None
    found = {
        "table": path,
        "commands": arguments(name),
        "fit": {"parameters": fit, "data": str(data) if data else None, "new": new_rows(table)},
        "keys": keys,
        "verify": observe_verify(directory),
        "verify with data": observe_verify(directory, "--data", path),
        "verify with other data": observe_verify(directory, "--data", other_table(path)),
        "certificate": observe_certificate(release),
        "model": observe_fit(fit, release, data, Path(new_rows(table))),
    }
    if keys:
        found["verify with keys"] = observe_verify(directory, *keys)
    if mechanism == ROWS:
        found["training frame"] = observe_training_frame(release, data)
    return found


def observe_training_frame(release: labeldp.Release, table: Path | None) -> dict[str, Any]:
    """Return names, types, sums and the first rows of what noisy-rows gives other learners."""
    X, y = release.training_frame(*(() if table is None else (str(table),)))
    return {
        "columns": list(map(str, X.columns)),
        "rows": len(y),
        "first": [list(map(str, row)) for row in X.head(5).to_numpy().tolist()],
        "labels": y.head(5).tolist(),
    }


def main() -> None:
    """Record everything into a new directory."""
    if RECORDED.exists():
        sys.exit(f"{RECORDED.name} is there: what it holds is what later code is held to")
    RECORDED.mkdir()
    with contextlib.chdir(RECORDED), threadpool_limits(1):  # no path of a machine gets recorded
        write_tables()
        Path("tables/about.toml").write_text(ABOUT, encoding="utf-8")
        Path("keys").mkdir()
        for signer in ("curator", "reviewer", "stranger"):
            run("keygen", f"{signer}.key")
            shutil.move(f"{signer}.key.pub", "keys")
        Path("ledgers").mkdir()
        for ledger in LEDGERS:
            run("ledger", "create", f"ledgers/{ledger}.ledger", "--epsilon", "20")
        run("ledger", "limit", "ledgers/visits.ledger", "visits", "--epsilon", "12")
        for name in CASES:
            print(name, flush=True)
            make(name)
        refuse()
        for signer in ("curator", "reviewer", "stranger"):
            os.remove(f"{signer}.key")
        write_expected()


def refuse() -> None:
    """Leave a failed run in a ledger: its measured floor is refused after the debit."""
    plan = ["--floor", "measured", "--epsilon", "0.7", "--bags", "400", "--anyway"]
    path, labels, _ = TABLES["visits"]
    given = ["release", path, *shlex.split(labels), "--mechanism", FLAG, *plan, "--out", "refused"]
    ledger = ["--ledger", "ledgers/visits.ledger", "--dataset", "visits"]
    assert command(*given, *ledger).code == 2


def write_expected() -> None:
    """Write what the code answers about all that was recorded."""
    together = [f"{name}/release" for name in FITTED_TOGETHER]
    releases = [labeldp.Release.load(each) for each in together]
    document = {
        "version": version("labeldp"),
        "arithmetic": {"python": platform.python_version(), **arithmetic()},
        "releases": {name: observe(name) for name in CASES},
        "together": {
            "releases": FITTED_TOGETHER,
            "model": observe_fit({}, releases, None, Path(new_rows("people"))),
        },
        "ledgers": {name: run("ledger", "show", f"ledgers/{name}.ledger") for name in LEDGERS},
        "compose": [run("compose", *(f"{name}/release" for name in names)) for names in COMPOSED],
        "account": [
            {"arguments": given, "answer": run("account", *shlex.split(given))} for given in ACCOUNT
        ],
    }
    text = json.dumps(_plain(document), indent=1, allow_nan=False, ensure_ascii=False)
    Path("expected.json").write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """Return the same with words in place of infinities, which JSON has not."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    return value


if __name__ == "__main__":
    main()
