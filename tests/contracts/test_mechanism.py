"""What every certified mechanism keeps: one suite for all of them, one entry each in `cases`."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numpy.typing import NDArray

import labeldp.mechanisms
from labeldp import DataError, InputError, Plan, PlanError, Release, scan, verify
from labeldp.data.source import Source
from labeldp.mechanisms.base import BagLabels, RowLabels
from labeldp.mechanisms.options import Encoding
from labeldp.mechanisms.registry import (
    certificate_schema,
    mechanism_named,
    mechanism_names,
    read_claim,
)
from labeldp.releases.certificate import Claim, seal
from labeldp.releases.tables import table_digest
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import (
    CASES,
    DRAWN,
    ROWS,
    Certificate,
    forged_claim,
    forged_tables,
    saved,
    small_plan,
    small_release,
)
from tests.plans import plan
from tests.releases.test_verification import altered, at, leaves, other
from tests.tables import RANGE, source, table, with_label

OUTCOME = ("measured", "lower_bound", "added_variance")


def test_the_suite_covers_every_mechanism() -> None:
    assert set(CASES) == set(mechanism_names())


# --- declarations -------------------------------------------------------------------------


def test_every_option_is_a_keyword_of_plan(mechanism: str) -> None:
    declared = mechanism_named(mechanism)
    keywords = inspect.signature(plan).parameters
    for each in (*fields(declared.Options), *fields(Encoding)):
        assert each.name in keywords
        assert re.search(rf"\b{each.name}\b", str(plan.__doc__))


def test_no_mechanism_knows_another() -> None:
    folder = Path(labeldp.mechanisms.__file__).parent
    modules = {name.replace("-", "_") for name in CASES}
    for module in modules:
        code = (folder / f"{module}.py").read_text(encoding="utf-8")
        for other_module in modules - {module}:
            assert f"labeldp.mechanisms.{other_module} import" not in code


# --- plans --------------------------------------------------------------------------------


def test_a_plan_survives_json(made: Plan) -> None:
    document = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert Plan.from_json(document) == made
    assert Plan.from_json(document).to_json() == document


def test_a_plan_with_the_factor_of_other_features_shows_no_other_leverages() -> None:
    """Put together by hand: the facts of one table, the factor of another, the sums of a third."""

    def planned(values: NDArray[np.float64]) -> tuple[Source, Plan]:
        data = pa.table({"x": values, "label": table(3000)["label"]})
        rows = scan(data, label="label", label_range=RANGE)
        asked = {"epsilon": 1.0, "delta": 1e-6, "bags": 40, "floor": "added", "winsor": 0.0}
        return rows, plan(rows, **asked)

    rng = np.random.default_rng(1)
    far, made = planned(np.append(500.0, rng.normal(size=2999)))  # one row has all the leverage
    _, common = planned(np.where(rng.random(3000) < 0.1, 1.0, -1.0))
    _, rare = planned(np.where(rng.random(3000) < 0.02, 1.0, -1.0))
    forged = replace(made, factor=common.factor, claim=rare.claim)
    with pytest.raises(PlanError, match="not those of the plan"):
        forged.release(far, randomness=Randomness.experiment(0))


@pytest.mark.parametrize(
    "change", [{"epsilon": 0.5}, {"delta": 1e-7}, {"bags": 2}, {"feature_sums": "0"}, {"seal": ""}]
)
def test_an_altered_plan_is_refused(made: Plan, change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="altered"):
        Plan.from_json(made.to_json() | change)


def test_a_plan_from_a_file_releases(made: Plan) -> None:
    again = Plan.from_json(json.loads(json.dumps(made.to_json())))
    assert again.release(source(ROWS)).bags == made.claim.bags


def test_a_plan_does_not_look_at_labels(mechanism: str) -> None:
    absurd = table(ROWS).set_column(4, "label", pa.array(np.full(ROWS, 1e9)))
    seed = {"bag_seed": 5} if mechanism in DRAWN else {}
    plans = [
        small_plan(mechanism, scan(data, label="label", label_range=RANGE), **seed).to_json()
        for data in (table(ROWS), absurd)
    ]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 0.0}, "delta"),
        ({"bags": 0}, "bags"),
        ({"accountant": "guess"}, "accountant"),
    ],
)
def test_senseless_budgets_are_refused(mechanism: str, options: dict[str, Any], words: str) -> None:
    if options == {"delta": 0.0} and mechanism_named(mechanism).allows_pure:
        assert small_plan(mechanism, **options).claim.delta_at(1.0) == 0.0
        return
    with pytest.raises(InputError, match=words):
        small_plan(mechanism, **options)


def test_a_table_without_rows_is_refused(mechanism: str) -> None:
    with pytest.raises(DataError, match="no rows"):
        small_plan(mechanism, scan(table(ROWS).slice(0, 0), label="label", label_range=RANGE))


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, case in CASES.items() for option in case.foreign]
)
def test_options_that_do_not_apply_are_refused_by_name(name: str, option: str) -> None:
    with pytest.raises(InputError, match=f"`{option}` does not apply to {name}"):
        small_plan(name, **{option: CASES[name].foreign[option]})


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bags": 100, "bag_size": 5}, "disjoint"),
        ({"bag_size": 0}, "bag_size"),
        ({"over_draw": True, "bag_seed": 1}, "drawn at random"),
        ({"over_draw": True, "bags": 1, "bag_size": 20, "delta": 0.1}, "without any protection"),
    ],
)
def test_senseless_bags_are_refused(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, PlanError), match=words):
        small_plan(name, **options)


@pytest.mark.parametrize("name", DRAWN)
def test_a_number_of_bags_alone_is_enough(name: str) -> None:
    """The size is then chosen among those that leave so many bags."""
    claim = small_plan(name, bags=15, bag_size=None).claim
    assert claim.bags == 15
    assert 15 * claim.to_json()["bag_size"] <= ROWS


# --- claims -------------------------------------------------------------------------------


def test_the_claim_keeps_its_budget_and_its_curve_falls(made: Plan) -> None:
    claim = made.claim
    assert claim.delta_at(claim.epsilon) <= claim.delta
    deltas = [delta for _, delta in claim.curve()]
    assert deltas == sorted(deltas, reverse=True)
    assert all(0.0 <= delta <= 1.0 for delta in deltas)
    assert deltas[0] > deltas[-1]


def test_groups_cost_more_than_one_row(made: Plan) -> None:
    claim = made.claim
    spent = [claim.epsilon, *(group["epsilon"] for group in claim.groups())]
    assert all(cost is not None for cost in spent)
    assert spent == sorted(spent)
    assert spent[1] > 1.2 * spent[0]
    assert claim.delta_at(claim.epsilon, 2) > claim.delta_at(claim.epsilon)
    for group in claim.groups():
        assert claim.delta_at(group["epsilon"], group["rows"]) <= claim.delta


@pytest.mark.parametrize("name", DRAWN)
def test_over_the_draw_delta_is_mk_over_n_times_smaller(name: str) -> None:
    """The same claim with and without: the factor is the chance, rounded up.

    Over the draw, the leverages of the bags drawn are no fact to rely on; given the bags they
    are, and δ falls with them. So neither claim is given any here.
    """
    over = small_plan(name, over_draw=True).claim
    if hasattr(over, "facts"):
        over = replace(over, max_leverage=None)
    given = replace(over, draw=replace(over.draw, over_draw=False))
    chance = over.bags * over.to_json()["bag_size"] / ROWS
    for epsilon in (0.5, 1.0, 2.0):
        assert over.delta_at(epsilon) == pytest.approx(chance * given.delta_at(epsilon), rel=1e-9)
    assert over.delta_at(1.0) <= over.delta
    assert over.to_json()["draw"]["guarantee"] == "over-draw"


# --- releases -----------------------------------------------------------------------------


def test_a_release_verifies_with_and_without_its_table(released: Release, tmp_path: Path) -> None:
    folder = saved(released, tmp_path / "r")
    assert verify(folder).problems == ()
    assert verify(folder, table(ROWS)).problems == ()
    other_labels = table(ROWS).set_column(4, "label", pa.array(np.zeros(ROWS)))
    assert verify(folder, other_labels).problems == ()
    loaded = Release.load(folder)
    assert loaded.certificate == released.certificate
    assert loaded.table.read().equals(released.table)
    assert loaded.features == released.features
    assert loaded.files == released.files


def test_another_table_is_noticed(released: Release, tmp_path: Path) -> None:
    folder = saved(released, tmp_path / "r")
    row = 0
    if released.bag_table is not None:
        row = released.bag_table.column("row")[0].as_py()
    heights = table(ROWS)["height"].to_numpy().copy()
    heights[row] += 1.0
    changed = table(ROWS).set_column(0, "height", pa.array(heights))
    for data in (changed, table(ROWS).slice(1), table(ROWS + 1)):
        report = verify(folder, data)
        assert not report.valid
        assert len(report.problems) == 1


def test_the_certificate_conforms_to_its_schema(released: Release) -> None:
    jsonschema.validate(released.certificate, certificate_schema(released.certificate["mechanism"]))
    json.dumps(released.certificate, allow_nan=False)


def test_neighbours_with_the_same_randomness_differ_in_labels_alone(mechanism: str) -> None:
    data = table(ROWS)
    seed = {"bag_seed": 3} if mechanism in DRAWN else {}
    made = small_plan(mechanism, scan(data, label="label", label_range=RANGE), **seed)
    row = 17 if mechanism not in DRAWN else int(made.claim.draw.members[0, 0])  # type: ignore[attr-defined]
    value = 0.0 if data["label"][row].as_py() > 5 else 10.0
    releases = []
    for labelled in (data, with_label(data, row, value)):
        rows = scan(labelled, label="label", label_range=RANGE)
        again = small_plan(mechanism, rows, **seed)
        assert again.to_json() == made.to_json()
        releases.append(again.release(rows, randomness=Randomness.experiment(4)))
    first, second = releases
    assert first.features == second.features
    assert first.table.column_names == second.table.column_names
    for name in first.table.column_names[:-1]:
        assert first.table[name].equals(second.table[name]), name
    assert not np.array_equal(first.labels, second.labels)
    assert first.files == second.files
    moved = np.flatnonzero(first.labels != second.labels).tolist()
    if isinstance(first.label_model, RowLabels):
        assert moved == [row]
    if isinstance(first.label_model, BagLabels):
        assert moved == [0], "one label is in one bag"
    assert public(first.certificate) == public(second.certificate)


def public(certificate: Certificate) -> Certificate:
    """All but the measured residual, what follows from it, and the digest of the aggregates."""
    private = ("seal", *CASES[certificate["mechanism"]].drawn)
    fields = {name: value for name, value in certificate.items() if name not in private}
    fields["digests"] = {k: v for k, v in fields["digests"].items() if k != "aggregates"}
    if fields["floor"] is not None:
        fields["floor"] = {k: v for k, v in fields["floor"].items() if k not in OUTCOME}
    return fields


def test_an_experiment_is_refused_by_verify(made: Plan, tmp_path: Path) -> None:
    release = made.release(source(ROWS), randomness=Randomness.experiment(1))
    report = verify(saved(release, tmp_path / "r"))
    assert ["not private" in problem for problem in report.problems] == [True]


def test_randomness_is_spent_once(made: Plan) -> None:
    randomness = Randomness.from_os()
    made.release(source(ROWS), randomness=randomness)
    with pytest.raises(InputError, match="used before"):
        made.release(source(ROWS), randomness=randomness)


def test_two_releases_of_one_plan_differ_in_every_aggregate(made: Plan, released: Release) -> None:
    again = made.release(source(ROWS))
    assert (again.labels != released.labels).mean() > 0.9
    assert again.files == released.files


@pytest.mark.parametrize("value", [10.5, -0.01, float("inf"), None])
def test_labels_outside_the_range_or_missing_are_refused(made: Plan, value: float | None) -> None:
    """Whether or not the row is in a bag; the value is not told."""
    for row in (0, ROWS - 1):
        labels = table(ROWS)["label"].to_pylist()
        labels[row] = value
        data = table(ROWS).set_column(4, "label", pa.array(labels, pa.float64()))
        with pytest.raises(DataError) as refusal:
            made.release(scan(data, label="label", label_range=RANGE))
        assert "10.5" not in str(refusal.value)


def test_another_label_range_or_table_is_refused(made: Plan) -> None:
    with pytest.raises(PlanError, match="from 0 to 10"):
        made.release(scan(table(ROWS), label="label", label_range=(0.0, 11.0)))
    with pytest.raises((PlanError, DataError)):
        made.release(source(ROWS, seed=1))
    with pytest.raises((PlanError, DataError)):
        made.release(source(ROWS + 1))


def test_other_rows_within_all_bounds_of_the_plan_are_refused(made: Plan) -> None:
    """Half of the rows twice: no row is larger than those that were planned for.

    What a run measures of its rows is then within the claim, and only their sums differ.
    """
    half = np.arange(ROWS) % (ROWS // 2)
    twice = table(ROWS).take(half).set_column(4, "label", table(ROWS)["label"])
    with pytest.raises(PlanError, match="not those of the plan"):
        made.release(scan(twice, label="label", label_range=RANGE))


def too_much(claim: Claim) -> list[dict[str, float]]:
    """Smaller budgets than a claim has spent; of pure ε any δ is true."""
    smaller = {"epsilon": 0.8 * claim.epsilon}, {"delta": 0.1 * claim.delta}
    return list(smaller[:1] if claim.privacy_profile.pure_epsilon() <= claim.epsilon else smaller)


def test_a_plan_that_promises_too_much_is_refused_before_labels_are_read(made: Plan) -> None:
    unreadable = table(ROWS).set_column(4, "label", pa.array(np.full(ROWS, np.nan)))
    rows = scan(unreadable, label="label", label_range=RANGE)
    for change in too_much(made.claim):
        forged = replace(made, claim=replace(made.claim, **change))
        with pytest.raises(PlanError, match="contradicts itself"):
            forged.release(rows)


@pytest.mark.parametrize("name", list(CASES))
def test_rows_without_a_label_can_be_dropped(name: str, tmp_path: Path) -> None:
    """Bags then count the rows that are left, and `verify --data` counts them again."""
    labels = table(ROWS + 40)["label"].to_pylist()
    labels[::11] = [None] * len(labels[::11])
    data = table(ROWS + 40).set_column(4, "label", pa.array(labels))
    rows = scan(data, label="label", label_range=RANGE, drop_missing_labels=True)
    folder = saved(small_plan(name, rows).release(rows), tmp_path / "r")
    assert verify(folder, data).problems == ()


# --- forgers ------------------------------------------------------------------------------


def problems(release: Release, folder: Path, data: pa.Table | None = None) -> tuple[str, ...]:
    return verify(saved(release, folder), data).problems


def test_a_smaller_epsilon_or_delta_is_caught(released: Release, tmp_path: Path) -> None:
    for number, change in enumerate(too_much(read_claim(released.certificate))):
        forged = forged_claim(released, lambda c, change=change: c.update(change))
        found = problems(forged, tmp_path / str(number))
        assert any("more than the claimed" in problem for problem in found)


def test_another_seed_is_caught(released: Release, tmp_path: Path) -> None:
    if released.certificate["draw"] is None:
        pytest.skip("no bags are drawn")
    forged = forged_claim(released, lambda c: c["draw"].update(seed="1" * 64))
    assert any("seed gives" in problem for problem in problems(forged, tmp_path / "r"))


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_another_floor_or_noise_is_caught(released: Release, factor: float, tmp_path: Path) -> None:
    part, field = CASES[released.certificate["mechanism"]].hides
    forged = forged_claim(released, lambda c: c[part].update({field: factor * c[part][field]}))
    assert problems(forged, tmp_path / "r")


def test_another_mechanism_is_caught(released: Release, tmp_path: Path) -> None:
    for name in set(CASES) - {released.certificate["mechanism"]}:
        changed = released.certificate | {"mechanism": name}
        forged = replace(released, certificate=seal(changed))
        assert problems(forged, tmp_path / name)


def test_altered_aggregates_are_caught(released: Release, tmp_path: Path) -> None:
    """Off the grid by less than a step: the low bits could carry anything."""
    last = released.table.num_columns - 1
    labels = released.labels.copy()
    labels[3] += 2.0**-40
    column = released.table.schema.field(last)
    table_ = released.table.set_column(last, column, pa.array(labels))
    found = problems(forged_tables(released, table_), tmp_path / "r")
    assert any("grid" in problem for problem in found)
    careless = replace(released, table=table_)
    assert any("altered" in problem for problem in problems(careless, tmp_path / "s"))


def bag_forgeries(bags: pa.Table) -> dict[str, pa.Table]:
    """Tables of bags that look like one and are another."""

    def put(name: str, values: Any) -> pa.Table:
        place = bags.column_names.index(name)
        return bags.set_column(
            place, bags.schema.field(name), pa.array(values, bags.schema.field(name).type)
        )

    row = bags.column("row").to_numpy().copy()
    outside = next(r for r in range(ROWS) if r not in set(row))
    row[0] = outside
    found = {
        "row": put("row", row),
        "order": bags.take(np.arange(len(bags))[::-1]),
        "short": bags.slice(1),
    }
    if "weight" in bags.column_names:
        weight = bags.column("weight").to_numpy().copy()
        weight[0] += 1e-3
        noisy = pc.invert(bags.column("noisy"))
        gap = [None, *bags.column("noisy").to_pylist()[1:]]
        found |= {
            "weight": put("weight", weight),
            "noisy": put("noisy", noisy.combine_chunks()),
            "gap": put("noisy", gap),
        }
    return found


@pytest.mark.parametrize("name", DRAWN)
def test_altered_bags_are_caught(name: str, tmp_path: Path) -> None:
    release = small_plan(name, **CASES[name].mixed).release(source(ROWS))
    assert release.bag_table is not None
    assert problems(release, tmp_path / "honest") == ()
    for kind, bags in bag_forgeries(release.bag_table).items():
        found = problems(forged_tables(release, bags=bags), tmp_path / kind)
        assert any("bags.parquet" in problem for problem in found), kind


def test_missing_and_extra_files_are_caught(released: Release, tmp_path: Path) -> None:
    folder = saved(released, tmp_path / "r")
    (folder / "notes.txt").write_text("x")
    assert any("notes.txt is not part" in problem for problem in verify(folder).problems)
    (folder / "notes.txt").unlink()
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        path.unlink()
        assert not verify(folder).valid, path.name
        path.write_bytes(content)
    assert verify(folder).valid
    foreign = {n: file for each in CASES for n, file in small_release(each)[1].files.items()}
    assert foreign
    for name in foreign.keys() - released.files.keys():
        extra = replace(released, files={**released.files, name: foreign[name]})
        for said in ({}, {name: table_digest(foreign[name])}):
            digests = released.certificate["digests"] | said
            certificate = seal(released.certificate | {"digests": digests})
            forged = replace(extra, certificate=certificate)
            found = problems(forged, tmp_path / f"{name} {len(said)}")
            words = (f"{name}.parquet is not part", f"'{name}' was unexpected")
            assert any(word in problem for problem in found for word in words)


ALTERED = [
    pytest.param(name, marks=pytest.mark.slow if case.slow else ())
    for name, case in CASES.items()
    if case.unnoticed is not None
]


@pytest.mark.parametrize("name", ALTERED)
def test_no_field_of_the_claim_can_be_altered_alone(name: str, tmp_path: Path) -> None:
    """By a forger who seals the certificate again."""
    release = small_plan(name, **CASES[name].tried).release(source(ROWS))
    certificate, sections = release.certificate, mechanism_named(name).sections
    parts = {"epsilon", "delta", "rows", "bag_size", "label_range", "label_width", "rank"}
    parts |= {"floor", "inflation", "draw", "noise", "numerics", "accountant", *sections}
    parts -= {*CASES[name].drawn}
    unnoticed = set()
    for number, path in enumerate(p for p in leaves(certificate) if p[0] in parts):
        changed = altered(certificate, path, other(at(certificate, path)))
        forged = replace(release, certificate=seal(changed))
        if verify(saved(forged, tmp_path / str(number))).valid:
            unnoticed.add(path)
    assert unnoticed == CASES[name].unnoticed


# --- layout -------------------------------------------------------------------------------
