"""A mechanism from outside the package plans, releases, verifies and is fitted like ours.

`noisy_moments` is the mechanism of docs/own-mechanism.md, to the letter.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import (
    BagRegressor,
    InputError,
    LinearRegressor,
    Plan,
    PlanError,
    Release,
    ReleaseError,
    verify,
)
from labeldp.mechanisms.registry import certificate_schema, forget, register
from labeldp.releases.certificate import claimed_fields, seal
from labeldp.sampling.streams import Randomness
from tests.console import labeldp as command
from tests.contracts import noisy_moments, renamed_rows
from tests.contracts.noisy_moments import MECHANISM, NAME, MomentsClaim, NoisyMoments
from tests.plans import plan
from tests.tables import RANGE, source, table, with_label

ROWS = 400
LABEL = ("--label", "label", "--label-range", *RANGE)
PAGE = Path(__file__).parents[2] / "docs" / "own-mechanism.md"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(MECHANISM)
    yield
    forget(NAME)


@pytest.fixture
def made() -> Plan:
    return plan(source(ROWS), epsilon=1.0, delta=1e-5, mechanism=NAME)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pq.write_table(table(ROWS), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_the_page_shows_this_very_code() -> None:
    code = Path(noisy_moments.__file__).read_text(encoding="utf-8")
    assert f"```python\n{code}```\n" in PAGE.read_text(encoding="utf-8")


def test_it_plans_and_its_plan_survives_json(made: Plan) -> None:
    claim = made.claim
    assert claim.delta_at(claim.epsilon) <= claim.delta < 1.01 * claim.delta_at(claim.epsilon)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
    with pytest.raises(InputError, match="does not apply to noisy-moments"):
        plan(source(ROWS), epsilon=1, delta=1e-5, mechanism=NAME, bag_size=3)
    with pytest.raises(InputError, match="does not apply to wtd-flag"):
        plan(source(ROWS), epsilon=1, delta=1e-5, mechanism="wtd-flag", moment_std=3.0)
    with pytest.raises(InputError, match="moment_std"):
        plan(source(ROWS), epsilon=1, delta=1e-5, mechanism=NAME, moment_std=-1.0)


def test_it_releases_and_verifies(made: Plan, tmp_path: Path) -> None:
    release = made.release_to(tmp_path / "r", source(ROWS))
    assert verify(tmp_path / "r").problems == ()
    assert verify(tmp_path / "r", table(ROWS)).problems == ()
    assert not verify(tmp_path / "r", table(ROWS, seed=1)).valid
    jsonschema.validate(release.certificate, certificate_schema(NAME))


def test_what_is_published_is_the_normal_equations(made: Plan) -> None:
    """Means over releases are Xᵀy within 5 standard errors, and the noise is what was said."""
    claim = made.claim
    assert isinstance(claim, MomentsClaim)
    drawn = [
        made.release(source(ROWS), randomness=Randomness.experiment(seed)) for seed in range(200)
    ]
    labels = np.array([release.labels for release in drawn])
    std = claim.stds(made.features)
    from labeldp.features.encoder import Encoder

    encoded = Encoder(made.features)(table(ROWS).drop_columns(["label"]).to_batches()[0])
    design = made.features.integers(encoded)
    truth = design.T @ table(ROWS)["label"].to_numpy()
    assert (np.abs(labels.mean(axis=0) - truth) < 5 * std / np.sqrt(200)).all()
    assert labels.std(axis=0) == pytest.approx(std, rel=0.3)
    expected = design.T @ (design * made.features.kept_scales)
    assert drawn[0].design == pytest.approx(expected, rel=1e-12)


def test_a_fit_of_the_release_is_a_noisy_fit_of_the_table(made: Plan) -> None:
    """β̃ − β̂ = (XᵀX)⁻¹ times the noise on Xᵀy: unbiased, of the covariance that is told."""
    rows, claim = table(ROWS), made.claim
    assert isinstance(claim, MomentsClaim)
    design = made.features.design(rows)
    best = np.linalg.lstsq(design, rows["label"].to_numpy())[0]
    models = [
        LinearRegressor(shrink=False, clip=False).fit(
            made.release(source(ROWS), randomness=Randomness.experiment(seed))
        )
        for seed in range(100)
    ]
    errors = np.array([model.predict(rows) - design @ best for model in models])
    inverse = np.linalg.inv(design.T @ design)
    std = claim.noise_std * np.linalg.norm(design @ inverse, axis=1)
    assert (np.abs(errors.mean(axis=0)) < 5 * std / np.sqrt(100)).all()
    assert np.sqrt(np.mean(errors**2, axis=0)) == pytest.approx(std, rel=0.3)
    names, matrix = made.features.to_original_units()
    told = claim.noise_std * np.linalg.norm(matrix @ inverse, axis=1)
    shown = [each.privacy_error for each in models[0].coefficients_]
    assert [each.name for each in models[0].coefficients_] == list(names)
    assert shown == pytest.approx(told, rel=1e-6)


def test_its_releases_are_fitted_as_any_others(data: Path, tmp_path: Path) -> None:
    first, second = (
        plan(source(ROWS, seed=s), epsilon=1e4, delta=1e-5, mechanism=NAME).release(
            source(ROWS, seed=s)
        )
        for s in (0, 1)
    )
    first.save(tmp_path / "r")
    assert command("fit", tmp_path / "r", "--out", tmp_path / "m.json").code == 0
    assert command("predict", tmp_path / "m.json", data, "--out", tmp_path / "p.csv").code == 0
    both = LinearRegressor(shrink=False).fit([first, second])
    assert both.features_.rows == 2 * ROWS


def test_a_mechanism_that_does_not_say_what_its_labels_are_can_be_released_but_not_fitted(
    made: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(NAME)
    monkeypatch.delattr(NoisyMoments, "label_model")
    register(MECHANISM)
    release = made.release_to(tmp_path / "r", source(ROWS))
    assert verify(tmp_path / "r").valid
    words = "noisy-moments does not say what the labels of its releases are"
    for learn in (LinearRegressor(), BagRegressor(hidden=())):
        with pytest.raises(ReleaseError, match=words):
            learn.fit(release)
    assert words in command("fit", tmp_path / "r", "--out", tmp_path / "m.json").error


def test_learners_know_no_mechanism_by_its_name_or_its_section(tmp_path: Path) -> None:
    """noisy-rows by another name is fitted to the same numbers."""
    register(renamed_rows.MECHANISM)
    try:
        ours, veiled = (
            plan(source(ROWS), epsilon=4, delta=1e-5, mechanism=name).release(
                source(ROWS), randomness=Randomness.experiment(3)
            )
            for name in ("noisy-rows", renamed_rows.NAME)
        )
        assert "row_noise" not in veiled.certificate
        assert veiled.table.equals(ours.table)
        assert np.array_equal(veiled.noise, ours.noise)
        first, second = (LinearRegressor().fit(each, source(ROWS)) for each in (ours, veiled))
        assert np.array_equal(first.coef_, second.coef_)
        assert first.quality_ == second.quality_
        drawn = plan(source(ROWS), epsilon=4, delta=1e-5, mechanism=renamed_rows.NAME)
        drawn.release_to(tmp_path / "r", source(ROWS))
        assert verify(tmp_path / "r", table(ROWS)).problems == ()
        pq.write_table(table(ROWS), tmp_path / "t.parquet")
        asked = (tmp_path / "r", "--data", tmp_path / "t.parquet", "--out", tmp_path / "m.json")
        assert command("fit", *asked).code == 0
    finally:
        forget(renamed_rows.NAME)


def test_neighbours_differ_in_labels_alone_and_by_no_more_than_claimed(made: Plan) -> None:
    claim = made.claim
    assert isinstance(claim, MomentsClaim)
    std = claim.stds(made.features)
    data, mu = table(ROWS), claim.privacy_profile.mu  # type: ignore[attr-defined]
    for row in range(0, ROWS, 40):
        first, second = (
            made.release(
                labeldp.scan(with_label(data, row, value), label="label", label_range=RANGE),
                randomness=Randomness.experiment(1),
            )
            for value in RANGE
        )
        assert np.array_equal(first.design, second.design)
        shift = np.linalg.norm((second.labels - first.labels) / std)
        assert 0.0 < shift <= mu * 1.01, "a grid step is a thousandth of the noise"


def test_forgers_are_caught(made: Plan, tmp_path: Path) -> None:
    release = made.release(source(ROWS))

    def forged(name: str, change: dict[str, Any]) -> tuple[str, ...]:
        certificate = copy.deepcopy(release.certificate)
        certificate |= {k: v for k, v in change.items() if k != "moments"}
        certificate["moments"] |= change.get("moments", {})
        claimed = claimed_fields(MECHANISM.claim_from_json(certificate))
        other = Release(release.table, release.features, seal(certificate | claimed))
        other.save(tmp_path / name)
        return verify(tmp_path / name).problems

    assert forged("honest", {}) == ()
    assert forged("epsilon", {"epsilon": 0.5})
    assert forged("noise", {"moments": {"noise_std": 0.5 * made.claim.noise_std}})  # type: ignore[attr-defined]
    assert forged("bound", {"moments": {"feature_bound": 0.1}})
    missing = {k: v for k, v in release.certificate.items() if k != "moments"}
    Release(release.table, release.features, seal(missing)).save(tmp_path / "m")
    assert not verify(tmp_path / "m").valid


def test_a_plan_that_promises_too_much_is_refused(made: Plan) -> None:
    for change in ({"epsilon": 0.5}, {"noise_std": 1.0}, {"feature_bound": 0.1}, {"rows": 3}):
        forged = replace(made, claim=replace(made.claim, **change))  # type: ignore[arg-type]
        with pytest.raises(PlanError, match="contradicts itself"):
            forged.release(source(ROWS))


def test_a_plan_sees_no_labels(made: Plan) -> None:
    absurd = table(ROWS).set_column(4, "label", pa.array(np.full(ROWS, 1e9)))
    rows = labeldp.scan(absurd, label="label", label_range=RANGE)
    assert plan(rows, epsilon=1.0, delta=1e-5, mechanism=NAME) == made
    with pytest.raises(labeldp.DataError):
        made.release(rows)


def test_the_command_line_knows_it(data: Path, tmp_path: Path) -> None:
    asked = (data, *LABEL, "--mechanism", NAME, "--delta", "1e-5", "--force")
    assert command("plan", *asked, "--out", tmp_path / "plan.json").code == 0
    plan_file = ("--plan", tmp_path / "plan.json", "--out", tmp_path / "r", "--force")
    assert command("release", data, *LABEL, *plan_file).code == 0
    own = ("-o", "moment_std=1e9", "--out", tmp_path / "s")
    assert command("release", *asked, *own).code == 0
    assert command("verify", tmp_path / "r", "--data", data).code == 0
    refused = command("plan", *asked, "--bag-size", "3")
    assert "--bag-size does not apply to noisy-moments" in refused.error
    facts = ("account", NAME, "--rows", "1000", "--label-range", "0", "10")
    assert "no accountant that works without data" in command(*facts).error


def test_its_name_is_taken() -> None:
    with pytest.raises(InputError, match="already"):
        register(MECHANISM)


ENTRY = f"[labeldp.mechanisms]\n{NAME} = tests.contracts.noisy_moments:MECHANISM\n"
PROGRAM = """
from labeldp.mechanisms.registry import mechanism_names
assert "noisy-moments" in mechanism_names()
"""


def test_another_package_offers_it_by_an_entry_point(tmp_path: Path) -> None:
    """As an installed package would, with nothing but its metadata on the path."""
    metadata = tmp_path / "noisy_moments-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy-moments\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(ENTRY)
    paths = [str(tmp_path), str(PAGE.parents[1]), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
