"""A guarantee for persons: all labels of one, moved together, stay within what is claimed."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import LocalEngine, Plan, PlanError, scan, verify
from labeldp.accounting import gaussian
from labeldp.data.source import Source
from labeldp.exact import person_norms as persons
from labeldp.mechanisms.registry import mechanisms
from labeldp.mechanisms.shaped_flag import ShapedFlagClaim
from labeldp.passes.engine import Engine
from labeldp.releases.certificate import PERSON_DEFINITION, Person, seal
from labeldp.sampling.streams import Randomness
from tests.console import labeldp as command
from tests.mechanisms.cases import SHAPED, forged_claim, saved, small_plan
from tests.mechanisms.test_shaped_flag import Noiseless, codes, weights_of
from tests.plans import plan
from tests.tables import RANGE, table

ROWS = 400
IDS = [f"p{number}" for number in np.random.default_rng(0).integers(0, 120, ROWS)]


def with_ids(data: pa.Table, ids: Any = IDS) -> pa.Table:
    return data.append_column("id", pa.array(ids))


def source_of(data: pa.Table, **options: Any) -> Source:
    return scan(data, label="label", label_range=RANGE, person="id", **options)


def made_plan(data: pa.Table, engine: Engine | None = None, **options: Any) -> Plan:
    given = {"epsilon": 1.0, "delta": 1e-5, "mechanism": SHAPED, "noise": "gaussian", **options}
    return plan(source_of(data), engine=engine, **given)


@pytest.fixture(scope="module")
def made() -> Plan:
    return made_plan(with_ids(table(ROWS)))


def claim_of(made: Plan) -> ShapedFlagClaim:
    assert isinstance(made.claim, ShapedFlagClaim)
    return made.claim


def moved(data: pa.Table, rows: list[int], ends: tuple[float, ...]) -> pa.Table:
    labels = data["label"].to_numpy().copy()
    labels[rows] = ends
    return data.set_column(data.column_names.index("label"), "label", pa.array(labels))


def realised_mu(made: Plan, data: pa.Table, rows: list[int], signs: Any, share: bool) -> float:
    """Distance of the published means when a person's labels move from end to end."""
    low, high = RANGE
    up = tuple(np.where(np.asarray(signs) > 0, high, low))
    down = tuple(np.where(np.asarray(signs) > 0, low, high))
    with pytest.MonkeyPatch.context() as patch:
        sampler = Noiseless(patch)
        for ends in (up, down):
            rows_now = source_of(moved(data, rows, ends))
            made.release(rows_now, randomness=Randomness.experiment(0))
    parts = 2 if share else 1
    square = 0.0
    for part in range(parts):
        one, two = sampler.means[part], sampler.means[part + parts]
        gap = sum((a - b) ** 2 for a, b in zip(one, two, strict=True))
        square += float(gap) / sampler.stds[part] ** 2
    return math.sqrt(square)


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_a_persons_labels_moved_together_stay_within_the_claim(share: float) -> None:
    """The worst person and some others, all signs alike and at random, through real runs."""
    data = with_ids(table(ROWS))
    made = made_plan(data, residual_share=share)
    lengths = np.linalg.norm(codes(made) @ weights_of(made).matrix.T, axis=1)
    rows = {one: [k for k, other in enumerate(IDS) if other == one] for one in IDS}
    worst = max(rows, key=lambda one: float(lengths[rows[one]].sum()))
    most = max(rows, key=lambda one: len(rows[one]))
    assert claim_of(made).person is not None
    assert len(rows[most]) == made.claim.to_json()["person"]["rows"]
    rng, seen = np.random.default_rng(1), []
    for one in {worst, most, IDS[0]}:
        here = rows[one]
        for signs in (np.ones(len(here)), rng.choice([-1, 1], len(here))):
            seen.append(realised_mu(made, data, here, signs, share > 0))
    assert max(seen) <= math.hypot(*claim_of(made).costs)
    assert max(seen) > 0.3 * math.hypot(*claim_of(made).costs)
    assert 0.999999 * made.claim.delta < made.claim.delta_at(1.0) <= made.claim.delta


def test_the_claim_is_reached_where_rows_are_parallel() -> None:
    """A person with equal rows: the triangle inequality is tight, and so is δ."""
    data = table(ROWS)
    for column in ("height", "score", "colour", "town"):
        values = data[column].to_pylist()
        values[10:15] = [values[10]] * 5
        data = data.set_column(data.column_names.index(column), column, pa.array(values))
    ids = ["same" if 10 <= k < 15 else f"p{k}" for k in range(ROWS)]
    made = made_plan(with_ids(data, ids), residual_share=0.0)
    claim = claim_of(made)
    assert claim.person is not None
    assert claim.person.rows == 5
    seen = realised_mu(made, with_ids(data, ids), list(range(10, 15)), np.ones(5), False)
    assert 0.99999 * math.hypot(*claim.costs) < seen <= math.hypot(*claim.costs)
    for epsilon in (0.1, 1.0, 2.0):
        assert 0.999 < gaussian.delta(epsilon, seen) / claim.delta_at(epsilon) <= 1
    assert 0.999999 * claim.delta < claim.delta_at(1.0) <= claim.delta


def test_the_certificate_says_whose_labels_are_covered(made: Plan, tmp_path: Path) -> None:
    data = with_ids(table(ROWS))
    made.release_to(tmp_path / "r", source_of(data))
    text = (tmp_path / "r" / "certificate.json").read_text(encoding="utf-8")
    certificate = json.loads(text)
    assert certificate["person"] == {"column": "id", "rows": claim_of(made).person.rows}  # type: ignore[union-attr]
    assert "one person's labels, all rows together" in certificate["unit"]
    assert "the labels of one person" in certificate["definition"]
    assert certificate["groups"][0]["persons"] == 2
    for path in (tmp_path / "r").iterdir():
        assert not any(f'"{one}"'.encode() in path.read_bytes() for one in set(IDS))
    assert verify(tmp_path / "r", data).problems == ()
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_single_rows_cost_what_they_did(made: Plan) -> None:
    """Every row a person: the guarantee for rows, up to rounding."""
    single = claim_of(made_plan(with_ids(table(ROWS), list(range(ROWS)))))
    rows = claim_of(small_plan(SHAPED, noise="gaussian"))
    assert single.length == pytest.approx(rows.length, rel=1e-6)
    assert single.noise_std == pytest.approx(rows.noise_std, rel=1e-6)
    assert single.second_moment_noise_std == rows.second_moment_noise_std
    assert claim_of(made).noise_std > 2 * single.noise_std


def test_other_persons_are_refused_in_the_pass_that_reads_labels(
    made: Plan, tmp_path: Path
) -> None:
    """Equal features, so equal sums: ids alone tell that a person has more than was planned."""
    data = table(ROWS)
    for ids in (["one"] * ROWS, [f"p{k // 40}" for k in range(ROWS)]):
        with pytest.raises(PlanError, match="not those of the plan"):
            made.release(source_of(with_ids(data, ids)))
    made.release_to(tmp_path / "r", source_of(with_ids(data)))
    lengths = np.linalg.norm(codes(made) @ weights_of(made).matrix.T, axis=1)
    longest = set(np.argsort(-lengths)[: made.claim.to_json()["person"]["rows"]].tolist())
    heavy = ["heavy" if k in longest else f"p{k}" for k in range(ROWS)]
    for ids, said in ((["one"] * ROWS, "rows"), (heavy, "weights add up to")):
        assert said in " ".join(verify(tmp_path / "r", with_ids(data, ids)).problems)


def test_a_person_bound_that_is_too_small_is_caught(made: Plan, tmp_path: Path) -> None:
    data = with_ids(table(ROWS))
    release = made.release(source_of(data))

    def shorter(certificate: dict[str, Any]) -> None:
        shape = certificate["shape"]
        certificate["shape"] = shape | {
            "length": 0.999 * shape["length"],
            "noise_std": 0.999 * shape["noise_std"],
            "trace": 0.999**2 * shape["trace"],
        }

    forged = forged_claim(release, shorter)
    assert verify(saved(forged, tmp_path / "blind")).problems == ()
    problems = verify(saved(forged, tmp_path / "data"), data).problems
    assert "a person's weights add up to" in " ".join(problems)

    def fewer_rows(certificate: dict[str, Any]) -> None:
        person, shape = certificate["person"], certificate["shape"]
        shape["second_moment_noise_std"] *= 1 - 1 / person["rows"]
        person["rows"] -= 1

    off_grid = release.certificate | {"second_moment": 0.0}
    fewer = forged_claim(replace(release, certificate=off_grid), fewer_rows)
    assert "a person has" in " ".join(verify(saved(fewer, tmp_path / "rows"), data).problems)
    unnamed = forged_claim(release, lambda c: c.pop("person"))
    assert verify(saved(unnamed, tmp_path / "unnamed")).problems != ()


def test_a_plan_is_for_persons_or_for_rows(made: Plan) -> None:
    rows = scan(table(ROWS), label="label", label_range=RANGE)
    with pytest.raises(PlanError, match="persons"):
        made.release(rows)
    with pytest.raises(PlanError, match="single rows"):
        small_plan(SHAPED).release(source_of(with_ids(table(ROWS))))


@pytest.mark.parametrize("name", [m.name for m in mechanisms() if not m.covers_persons])
def test_nobody_claims_persons_of_a_mechanism_that_prices_rows(name: str, tmp_path: Path) -> None:
    """Neither a certificate that was altered and sealed again, nor a plan put together by hand."""
    made = small_plan(name)
    release = made.release(scan(table(ROWS), label="label", label_range=RANGE))
    person = Person("id", 5)
    words = {"person": asdict(person), "definition": PERSON_DEFINITION, "unit": person.unit}
    told = json.loads(json.dumps(release.certificate)) | words
    for group in told["groups"]:
        group |= {"persons": group["rows"], "rows": 5 * group["rows"]}
    forged = replace(release, certificate=seal(told))
    found = " ".join(verify(saved(forged, tmp_path / "r")).problems)
    assert "cannot price all rows of a person together" in found
    by_hand = replace(made, claim=replace(made.claim, person=person))
    with pytest.raises(PlanError, match="cannot price all rows of a person together"):
        by_hand.release(source_of(with_ids(table(ROWS))))
    with pytest.raises(PlanError, match="cannot price all rows of a person together"):
        Plan.from_json(json.loads(json.dumps(by_hand.to_json())))


def test_a_person_has_a_row(made: Plan, tmp_path: Path) -> None:
    """Nobody's residual would cost nothing."""
    release = made.release(source_of(with_ids(table(ROWS))))
    told = release.certificate | {"person": {"column": "id", "rows": 0}}
    found = " ".join(
        verify(saved(replace(release, certificate=seal(told)), tmp_path / "r")).problems
    )
    assert "`rows` must be at least 1" in found


def test_threads_batches_and_sorting_change_nothing(
    made: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = with_ids(table(ROWS))
    for threads, batch_rows, waiting in ((3, 50, 1 << 18), (2, 65536, 9)):
        monkeypatch.setattr(persons, "_WAITING", waiting)
        rows = source_of(data, batch_rows=batch_rows)
        engine = LocalEngine(threads)
        again = plan(rows, 1.0, 1e-5, mechanism=SHAPED, noise="gaussian", engine=engine)
        assert again.to_json() == made.to_json()


def test_the_command_line_knows_persons(tmp_path: Path) -> None:
    pq.write_table(with_ids(table(ROWS)), tmp_path / "t.parquet")
    asked = (tmp_path / "t.parquet", "--label", "label", "--label-range", *RANGE)
    shaped = ("--person", "id", "--mechanism", SHAPED)
    done = command("release", "--anyway", *asked, *shaped, "--out", tmp_path / "r")
    assert done.code == 0, done
    assert "all labels of one person" in done.out
    checked = command("verify", tmp_path / "r", "--data", tmp_path / "t.parquet")
    assert checked.code == 0, checked
    pq.write_table(table(ROWS), tmp_path / "bare.parquet")
    lost = command("verify", tmp_path / "r", "--data", tmp_path / "bare.parquet")
    assert lost.code == 1
    assert "no column 'id'" in lost.out
    other = command("plan", "--anyway", *asked, "--person", "id", "--mechanism", "sampled-wtd-flag")
    assert other.code == 2
    assert "--person" in other.err
