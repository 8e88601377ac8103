"""Files of an earlier version: they load, verify, fit, predict and cost what they did then.

`recorded/recipe.md` says how they were made, `recorded/expected.json` what the code answered.
Everything goes through the public interface, so that the code behind it is free to change.

What is only read from files must be equal. What is computed in floating point may differ in its
last digits, by the order of operations and by the processor's BLAS: it must agree to a relative
1e-12. A search for an optimum stops within a tolerance of its own and gets the looser bounds
named below.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv
import pytest

import labeldp
from tests.console import labeldp as command
from tests.golden import record_releases as recorder
from tests.golden.record import arithmetic

RECORDED = recorder.RECORDED
EXPECTED: dict[str, Any] = json.loads((RECORDED / "expected.json").read_text(encoding="utf-8"))
RELEASES: dict[str, Any] = EXPECTED["releases"]
SAME_ARITHMETIC = arithmetic().items() <= EXPECTED["arithmetic"].items()

LAST_DIGITS = 1e-12 if SAME_ARITHMETIC else 1e-9
SEARCHES = LAST_DIGITS if SAME_ARITHMETIC else 1e-6
"""ε at a given δ, a prior or a penalty by its likelihood: roots and optima that are searched for.

On another processor a search may end at another point within its tolerance.
"""
NETWORK = 1e-6
"""Training in single precision multiplies what is rounded."""

CORRECTED = {
    "sampled-measured": "a ridge penalty counted for the rows of a bag; now for all rows, as said",
    "shaped-splines": "no ridge penalty is chosen any more",
    "shaped-interactions": "no lasso penalty is chosen any more",
}
"""Fits that are not repeated. Their model files still predict what they did."""

REMOVED = {
    "flag-compact": "compact releases are drawn no more; plan again",
    "flag-paper": "the paper's theorem prices releases no more (--accountant exact); plan again",
    "flag-measured": "a floor is measured without added noise no more",
    "sampled-measured": "a floor is measured without added noise no more",
    "lag-column": "no column can say which rows are noisy any more; plan again",
}
"""Plans of what is released no more, and what a release of one says."""

every_release = pytest.mark.parametrize("name", RELEASES)
one_of_each_mechanism = pytest.mark.parametrize(
    "name", ["flag-compact", "sampled-added", "lag-column", "shaped-splines", "rows-laplace"]
)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where the commands were given: their paths are relative."""
    monkeypatch.chdir(RECORDED)


def assert_same(now: Any, then: Any, relative: float, where: str = "") -> None:
    """Compare two JSON values: floats to a relative tolerance, all else to the letter."""
    if isinstance(then, dict):
        # New names may come; those that were there stay.
        assert set(then) <= set(now), where
        for name in then:
            assert_same(now[name], then[name], relative, f"{where}.{name}")
    elif isinstance(then, list):
        assert len(now) == len(then), where
        for place, (one, other) in enumerate(zip(now, then, strict=True)):
            assert_same(one, other, relative, f"{where}[{place}]")
    elif isinstance(then, float):
        assert math.isclose(now, then, rel_tol=relative, abs_tol=1e-300), (where, now, then)
    else:
        assert now == then, (where, now, then)


def assert_same_model(now: dict[str, Any], then: dict[str, Any], relative: float) -> None:
    """Compare coefficients and predictions; a number near zero by the largest beside it."""
    assert set(now) == set(then)
    for name in ("predictions", "coef", "intercept"):
        if name in then:
            scale = np.max(np.abs(then[name]))
            np.testing.assert_allclose(now[name], then[name], relative, relative * scale)
    for one, other in zip(now.get("coefficients", []), then.get("coefficients", []), strict=True):
        assert one[0] == other[0]
        scale = max(abs(number) for number in other[1:] if number is not None)
        for number, before in zip(one[1:], other[1:], strict=True):
            assert (number is None) == (before is None)
            if before is not None:
                assert math.isclose(number, before, rel_tol=relative, abs_tol=relative * scale), (
                    other[0]
                )
    assert_same(now.get("quality"), then.get("quality"), max(relative, 1e-9))  # a difference


def tolerance(name: str) -> float:
    return NETWORK if "hidden" in RELEASES[name]["fit"]["parameters"] else SEARCHES


def test_every_mechanism_floor_and_noise_is_recorded() -> None:
    certificates = [
        json.loads((RECORDED / name / "release" / "certificate.json").read_text(encoding="utf-8"))
        for name in RELEASES
    ]
    assert {each["mechanism"] for each in certificates} == {
        "wtd-flag",
        "sampled-wtd-flag",
        "sampled-noisy-wtd-lag",
        "shaped-flag",
        "noisy-rows",
    }
    floors = {(each["mechanism"], each["floor"]["mode"]) for each in certificates if each["floor"]}
    modes = ("declared", "measured", "added", "measured+added")
    assert floors >= {(x, mode) for x in ("wtd-flag", "sampled-wtd-flag") for mode in modes}
    laws = {each["row_noise"]["law"] for each in certificates if each.get("row_noise")}
    shapes = {each["shape"]["noise_law"] for each in certificates if each.get("shape")}
    assert laws == {"laplace", "gaussian"}
    assert shapes == {"radial", "gaussian"}
    assert {each["accountant"]["name"] for each in certificates} == {
        "exact",
        "exact-worst-case",
        "paper",
    }


@every_release
def test_a_release_loads(name: str) -> None:
    release = labeldp.Release.load(f"{name}/release")
    then = RELEASES[name]["certificate"]
    assert recorder.observe_certificate(release) == then  # read from files, so equal
    assert len(release.labels) == release.table.num_rows


@every_release
@pytest.mark.parametrize("kind", ["verify", "verify with data"])
def test_verify_says_what_it_said(name: str, kind: str) -> None:
    then = RELEASES[name][kind]
    data = ["--data", RELEASES[name]["table"]] if kind == "verify with data" else []
    now = recorder.observe_verify(f"{name}/release", *data)
    assert (now["code"], now["valid"]) == (then["code"], then["valid"]), now["problems"]
    assert bool(now["weak"]) == bool(then["weak"])  # in which words may change


@pytest.mark.parametrize("name", [name for name in RELEASES if RELEASES[name]["keys"]])
def test_signatures_hold(name: str) -> None:
    then = RELEASES[name]["verify with keys"]
    now = recorder.observe_verify(f"{name}/release", *RELEASES[name]["keys"])
    assert (now["code"], now["valid"], now["signed_by"]) == (0, True, then["signed_by"])
    stranger = recorder.observe_verify(f"{name}/release", "--key", "keys/stranger.key.pub")
    assert (stranger["code"], stranger["valid"]) == (1, False)


@one_of_each_mechanism
def test_another_table_is_noticed(name: str) -> None:
    other = recorder.other_table(RELEASES[name]["table"])
    now = recorder.observe_verify(f"{name}/release", "--data", other)
    then = RELEASES[name]["verify with other data"]
    assert (now["code"], now["valid"]) == (then["code"], then["valid"]) == (1, False)


@one_of_each_mechanism
def test_an_altered_release_is_refused(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "release"
    shutil.copytree(f"{name}/release", copy)
    certificate = copy / "certificate.json"
    document = json.loads(certificate.read_text(encoding="utf-8"))
    document["epsilon"] /= 2
    certificate.write_text(json.dumps(document), encoding="utf-8")
    assert not labeldp.verify(copy).valid
    with pytest.raises(labeldp.ReleaseError):
        labeldp.Release.load(copy)


@every_release
def test_a_fit_in_python_is_what_it_was(name: str) -> None:
    fit = RELEASES[name]["fit"]
    if name in CORRECTED:
        pytest.skip(CORRECTED[name])
    release = labeldp.Release.load(f"{name}/release")
    data = Path(fit["data"]) if fit["data"] else None
    now = recorder.observe_fit(fit["parameters"], release, data, Path(fit["new"]))
    assert_same_model(now, RELEASES[name]["model"], tolerance(name))


@every_release
def test_a_model_file_predicts_what_it_did(name: str) -> None:
    fit, then = RELEASES[name]["fit"], RELEASES[name]["model"]
    model = type(recorder.learner(fit["parameters"])).load(f"{name}/model.json")
    now = recorder.observe_model(model, Path(fit["new"]))
    relative = NETWORK if "hidden" in fit["parameters"] else LAST_DIGITS  # nothing is searched
    assert_same_model(now, then, relative)


@pytest.mark.parametrize("name", [n for n in RELEASES if "fit" in RELEASES[n]["commands"]])
def test_fit_and_predict_on_the_command_line(name: str, tmp_path: Path) -> None:
    then, new = RELEASES[name]["model"], RELEASES[name]["fit"]["new"]
    if name in CORRECTED:
        pytest.skip(CORRECTED[name])
    given = RELEASES[name]["commands"]["fit"]
    model, out = tmp_path / "model.json", tmp_path / "predictions.csv"
    fitted = command("fit", f"{name}/release", *given, "--out", model, "--json")
    assert fitted.code == 0, fitted.err
    values = [[each["name"], each["value"]] for each in fitted.json["coefficients"]]
    assert_same(values, [each[:2] for each in then["coefficients"]], max(tolerance(name), 1e-10))
    predicted = command("predict", model, new, "--out", out)
    assert predicted.code == 0, predicted.err
    predictions = csv.read_csv(out).column("prediction").to_numpy()
    np.testing.assert_allclose(predictions, then["predictions"], tolerance(name))


def test_releases_fitted_together() -> None:
    then = EXPECTED["together"]
    releases = [labeldp.Release.load(f"{name}/release") for name in then["releases"]]
    now = recorder.observe_fit({}, releases, None, Path(recorder.new_rows("people")))
    assert_same_model(now, then["model"], SEARCHES)


@pytest.mark.parametrize("name", [name for name in RELEASES if "training frame" in RELEASES[name]])
def test_a_training_frame_is_what_it_was(name: str) -> None:
    data = RELEASES[name]["fit"]["data"]
    release = labeldp.Release.load(f"{name}/release")
    now = recorder.observe_training_frame(release, Path(data) if data else None)
    assert now == RELEASES[name]["training frame"]  # the table's numbers and the file's


@every_release
def test_a_plan_file_loads_and_its_claim_costs_the_same(name: str, tmp_path: Path) -> None:
    """The claim is fixed before labels are read: a new release of a plan has the same curve."""
    document = json.loads(Path(name, "plan.json").read_text(encoding="utf-8"))
    plan = labeldp.Plan.load(f"{name}/plan.json")
    assert labeldp.Plan.from_json(document) == plan
    assert labeldp.Plan.from_json(plan.to_json()) == plan
    copy, out = tmp_path / "plan.json", tmp_path / "release"
    shutil.copy(f"{name}/plan.json", copy)
    given = ["release", RELEASES[name]["table"], "--plan", copy, "--anyway", "--out", out]
    made = command(*given)
    if name in REMOVED:
        assert (made.code, made.err.count(REMOVED[name])) == (2, 1)
        return
    assert made.code == 0, made.err
    certificate = labeldp.Release.load(out).certificate
    then = RELEASES[name]["certificate"]
    drawn = ("digests", "seal", "label_noise_std", "attack_risk")
    promised = {key: value for key, value in then.items() if key not in drawn}
    assert_same(certificate, promised, SEARCHES)
    assert certificate["digests"]["features"] == then["digests"]["features"]
    assert certificate["digests"]["feature_sums"] == then["digests"]["feature_sums"]
    checked = recorder.observe_verify(str(out), "--data", RELEASES[name]["table"])
    assert checked["valid"], checked["problems"]


def test_a_plan_that_was_released_is_known_to_be(tmp_path: Path) -> None:
    for file in ("plan.json", "plan.json.released"):
        shutil.copy(f"shaped-gaussian/{file}", tmp_path)
    given = ["release", "tables/people.parquet", "--plan", tmp_path / "plan.json", "--anyway"]
    assert "--again" in command(*given, "--out", tmp_path / "release").error
    assert command(*given, "--again", "--out", tmp_path / "release").code == 0


def ledger_copy(name: str, folder: Path) -> Path:
    """Return a copy that may be written and that only its owner reads, as a ledger must be."""
    copy = folder / f"{name}.ledger"
    shutil.copyfile(f"ledgers/{name}.ledger", copy)
    copy.chmod(0o600)
    return copy


@pytest.mark.parametrize("name", ["spent", "visits"])
def test_ledger_show_says_what_it_said(name: str, tmp_path: Path) -> None:
    shown = command("ledger", "show", ledger_copy(name, tmp_path), "--json").json
    assert_same(shown, EXPECTED["ledgers"][name], SEARCHES)


def test_a_ledger_reads_as_it_did_in_python(tmp_path: Path) -> None:
    ledger = labeldp.Ledger(ledger_copy("persons", tmp_path))
    assert_same(ledger.to_json(), EXPECTED["ledgers"]["persons"], SEARCHES)


@pytest.mark.parametrize(
    ("name", "case"), [("persons", "shaped-person"), ("visits", "shaped-ridge")]
)
def test_a_ledger_goes_on(name: str, case: str, tmp_path: Path) -> None:
    """It knows its tables by digests of their columns, and adds the new release to the old."""
    copy, table = ledger_copy(name, tmp_path), EXPECTED["ledgers"][name]["tables"][0]
    shutil.copy(f"{case}/plan.json", tmp_path)
    given = ["release", RELEASES[case]["table"], "--plan", tmp_path / "plan.json", "--anyway"]
    given += ["--ledger", copy, "--out", tmp_path / "release"]
    assert table["dataset"] in command(*given, "--dataset", "another").error
    made = command(*given, "--dataset", table["dataset"])
    assert made.code == 0, made.err
    account = labeldp.Release.load(tmp_path / "release").certificate["ledger"]
    assert account["ledger"] == EXPECTED["ledgers"][name]["ledger"]
    assert account["releases"] == table["releases"] + 1
    assert account["epsilon"] > table["epsilon"]


@pytest.mark.parametrize("then", EXPECTED["compose"][:4], ids=lambda then: then["releases"][0])
def test_releases_cost_together_what_they_did(then: dict[str, Any]) -> None:
    assert_same(command("compose", *then["releases"], "--json").json, then, SEARCHES)


@pytest.mark.slow
@pytest.mark.parametrize("then", EXPECTED["compose"][4:], ids=lambda then: then["releases"][0])
def test_releases_that_a_ledger_composes_as_well(then: dict[str, Any]) -> None:
    assert_same(command("compose", *then["releases"], "--json").json, then, SEARCHES)


def test_releases_cost_together_what_they_did_in_python() -> None:
    then = EXPECTED["compose"][0]
    together = labeldp.compose(then["releases"])
    assert_same(together.epsilon(then["delta"]), then["epsilon"], SEARCHES)


ANSWERED = [
    then
    for then in EXPECTED["account"]
    if not then["arguments"].startswith("sampled-") or "--bag-size" in then["arguments"]
]
"""Bags are priced at a given size alone."""


@pytest.mark.parametrize("then", ANSWERED, ids=lambda then: str(then["arguments"]))
def test_account_answers_as_it_did(then: dict[str, Any]) -> None:
    # leverages of bags were a multiple of features/bag-size
    asked = then["arguments"].replace("--leverage-factor 3", "--max-leverage 0.0018")
    now, answer = command("account", *asked.split(), "--json").json, then["answer"]
    if answer["mechanism"] == "sampled-noisy-wtd-lag":
        # Before the draw, the law was of a fixed number of noisy rows in the table; now it is of
        # coins, as releases toss them. Two answers are given no more.
        then_known, now_known = answer["accountants"]["exact"], now["accountants"]["exact"]
        a_priori = then_known.pop("a_priori")
        del a_priori["min_noisy_fraction"], then_known["realised"]["unconditional_target_mu"]
        assert_same(now_known.pop("a_priori"), a_priori, 1e-2)
    answer.get("accountants", {}).pop("paper", None)  # the theorems, which it asks no more
    if answer["mechanism"] == "shaped-flag":
        # A second moment has taken the place of the residual's root, and radial noise uses δ. What
        # the aggregates cost is not answered any more: the noise says it.
        del answer["mu"], answer["aggregate_epsilon"]
        assert (now["second_moment_noise_std"] is None) is (
            answer.pop("residual_noise_std") is None
        )
        if answer["noise_law"] == "radial" and answer["delta"] > 0:
            for name in ("noise_std", "least_error", "isotropic_error"):
                assert now[name] < answer.pop(name)
    if answer["mechanism"] == "sampled-wtd-flag":  # which has no such options any more
        for name in ("leverage_factor", "max_leverage", "min_eigenvalue", "feature_bound"):
            answer.pop(name)
        del now["max_leverage"]
    assert_same(now, answer, SEARCHES)
