"""`verify` notices whatever was altered, as far as public files can show it.

Two forgers try every field. The careless one edits certificate.json. The consistent one knows
the format: it seals the certificate again and renews the copy in the Parquet metadata, so that
only what a field *says* can give it away.
"""

from __future__ import annotations

import copy
import functools
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp.verification as verification
from labeldp import Release, ReleaseError, plan as labeldp_plan, scan, verify
from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.sketch import added_variance
from labeldp.mechanisms.registry import certificate_schema, mechanisms, read_claim
from labeldp.mechanisms.residual_floor import FloorMode
from labeldp.mechanisms.wtd_flag import WtdFlagClaim
from labeldp.releases.certificate import FloorOutcome, claimed_fields, seal
from labeldp.releases.files import schema_problems
from labeldp.releases.tables import METADATA_KEY, table_digest
from labeldp.sampling.rounded_noise import grid_for
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.forging import write
from tests.plans import plan
from tests.tables import source, table

Certificate = dict[str, Any]
Path_ = tuple[Any, ...]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release by an exact accountant over a measured floor, part of which had to be added."""
    rows = source(noise=3.0)
    folder = tmp_path_factory.mktemp("measured") / "release"
    made = plan(rows, epsilon=8.0, delta=1e-3, bags=300, accountant="exact-worst-case")
    made.release(rows).save(folder)
    floor = json.loads((folder / "certificate.json").read_text())["floor"]
    assert floor["lower_bound"] > 0
    assert floor["added_variance"] > 0
    return folder


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with an added floor, which is quick to verify."""
    rows = source()
    made = plan(rows, epsilon=1, delta=1e-6, accountant="exact-worst-case", floor="added", bags=60)
    folder = tmp_path_factory.mktemp("quick") / "release"
    made.release(rows).save(folder)
    return folder


@pytest.fixture
def forge(tmp_path: Path) -> Callable[..., Path]:
    """forge(folder, certificate, …): a copy by the careless or by the consistent forger."""
    numbers = iter(range(10**6))

    def forge(
        folder: Path,
        certificate: Certificate | None = None,
        rows: pa.Table | None = None,
        consistent: bool = True,
    ) -> Path:
        target = tmp_path / str(next(numbers))
        if consistent:
            honest = Release.load(folder, verify=False)
            forged = seal(certificate or honest.certificate)
            replace(honest, certificate=forged, table=rows or honest.table).save(target)
            return target
        shutil.copytree(folder, target)
        if certificate is not None:
            (target / "certificate.json").write_text(text(certificate) + "\n")
        return target

    return forge


def text(certificate: Certificate) -> str:
    return json.dumps(certificate, indent=2, ensure_ascii=False)


def read(folder: Path) -> Certificate:
    return dict(json.loads((folder / "certificate.json").read_text()))


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Every place of a JSON document, lists and objects themselves included."""
    if path:
        yield path
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield from leaves(value[key], (*path, key))


def at(document: Any, path: Path_) -> Any:
    return functools.reduce(lambda value, key: value[key], path, document)


def altered(certificate: Certificate, path: Path_, value: Any) -> Certificate:
    changed = copy.deepcopy(certificate)
    at(changed, path[:-1])[path[-1]] = value
    return changed


def other(value: Any) -> Any:
    """A value of the same type, so that the schema does not object."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.25 + (value == 0)
        case str():
            return value + "x"
        case list():
            return value[:-1] or ["x"]
        case dict():
            return {name: inner for name, inner in value.items() if name != next(iter(value))}
    return 1.5


# --- honest releases ----------------------------------------------------------------------


def test_honest_releases_are_valid(measured: Path, quick: Path) -> None:
    for folder in (measured, quick):
        report = verify(folder)
        assert report.problems == ()
        assert "label-DP with" in report.summary
        assert verify(str(folder)).valid


def test_a_certificate_conforms_to_its_schema(measured: Path, quick: Path) -> None:
    for each in mechanisms():
        jsonschema.Draft202012Validator.check_schema(certificate_schema(each.name))
    for folder in (measured, quick):
        jsonschema.validate(read(folder), certificate_schema(read(folder)["mechanism"]))
        assert list(schema_problems(read(folder))) == []


@pytest.mark.parametrize(
    ("ends", "intercept"),
    [((0.1, 64.1), True), ((-0.3, 1.7), False), ((0.0, 2.0**-30), True), ((-1e12, 3e12), False)],
)
def test_every_label_range_verifies(
    ends: tuple[float, float], intercept: bool, tmp_path: Path
) -> None:
    """Ranges that rounding to the label grid widens, across a power of two or not."""
    low, high = ends
    data = table(400)
    labels = low + (high - low) * data["label"].to_numpy() / 10
    rows = scan(
        data.set_column(data.num_columns - 1, "label", pa.array(np.clip(labels, low, high))),
        label="label",
        label_range=ends,
    )
    made = plan(
        rows,
        epsilon=1,
        delta=1e-6,
        accountant="exact-worst-case",
        floor="added",
        bags=40,
        intercept=intercept,
    )
    made.release(rows).save(tmp_path / "r")
    assert verify(tmp_path / "r").problems == ()


def test_an_experiment_does_not_verify(tmp_path: Path) -> None:
    rows = source()
    made = plan(rows, epsilon=1, delta=1e-6, accountant="exact-worst-case", floor="added", bags=60)
    release = made.release(rows, randomness=Randomness.experiment(1))
    release.save(tmp_path / "r")
    report = verify(tmp_path / "r")
    assert not report.valid
    assert ["not private" in problem for problem in report.problems] == [True]
    assert "NOT private" in report.summary
    assert labeldp("verify", tmp_path / "r").code == 1


def test_no_certificate_for_a_claim_that_does_not_hold() -> None:
    rows = source()
    made = plan(rows, epsilon=1, delta=1e-6, accountant="exact-worst-case", floor="added", bags=60)
    for claim in (
        replace(made.claim, bags=70),
        replace(made.claim, floor=made.claim.floor * 0.9),
        replace(made.claim, epsilon=0.9),
        replace(made.claim, delta=1e-7),
    ):
        with pytest.raises(ValueError, match="plan again"):
            replace(made, claim=claim).release(rows)


# --- the careless forger ------------------------------------------------------------------


def test_any_field_altered_in_the_json_alone_is_noticed(
    quick: Path, forge: Callable[..., Path]
) -> None:
    certificate = read(quick)
    places = list(leaves(certificate))
    assert len(places) > 100
    for number, path in enumerate(places):
        value = at(certificate, path)
        new = other(value) if number % 2 or value is None else None
        folder = forge(quick, altered(certificate, path, new), consistent=False)
        assert not verify(folder).valid, path
        shutil.rmtree(folder)


def test_removed_and_added_fields_are_noticed(quick: Path, forge: Callable[..., Path]) -> None:
    certificate = read(quick)
    for path in [(), *leaves(certificate)]:
        value = at(certificate, path)
        if not isinstance(value, dict):
            continue
        removable = [name for name in value if name != "seal"]  # the forger adds a seal
        changes = [{k: v for k, v in value.items() if k != name} for name in removable]
        for new in (*changes, value | {"extra": 1}):
            forged = new if path == () else altered(certificate, path, new)
            folder = forge(quick, forged)
            assert not verify(folder).valid, path
            shutil.rmtree(folder)


# --- the consistent forger ----------------------------------------------------------------


SMALL = {
    ("epsilon",): 1 - 1e-5,
    ("delta",): 1 - 1e-5,
    ("label_width",): 1 - 1e-5,
    ("floor", "needed"): 1 + 1e-5,
    ("floor", "measurement_mu"): 1 - 1e-5,
    ("floor", "measurement_slack"): 1 - 1e-5,
    ("floor", "lower_bound"): 1 + 1e-5,
    ("floor", "added_variance"): 1 - 1e-5,
    ("inflation",): 0.9,
    ("groups", 0, "epsilon"): 1 - 1e-5,
    ("attack_risk", "true_positive_rate"): 1 - 1e-5,
    ("curve", 0, 1): 1 - 1e-5,
    ("utility", "excess_mean"): 1 - 1e-5,
}
"""Fields and the factor by which a forger would flatter the release."""


@pytest.fixture
def remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recompute a claim once, however many certificates make it."""
    monkeypatch.setattr(verification, "claimed_fields", functools.cache(claimed_fields))


@pytest.mark.usefixtures("remembering")
def test_a_little_less_is_noticed(measured: Path, forge: Callable[..., Path]) -> None:
    """Also a change that flatters the release by one in 100,000."""
    certificate = read(measured)
    for path, factor in SMALL.items():
        flattered = altered(certificate, path, at(certificate, path) * factor)
        assert not verify(forge(measured, flattered)).valid, path


def test_the_leverage_that_the_exact_accountant_used_is_noticed(
    tmp_path: Path, forge: Callable[..., Path]
) -> None:
    rows = source()
    plan(rows, epsilon=4, delta=1e-2, bags=30, floor="added").release(rows).save(tmp_path / "r")
    certificate = read(tmp_path / "r")
    assert verify(tmp_path / "r").valid
    for factor in (0.98, 1.02):
        flattered = certificate | {"max_leverage": certificate["max_leverage"] * factor}
        problems = verify(forge(tmp_path / "r", flattered)).problems
        assert any("curve" in problem for problem in problems)


NONSENSE: dict[Path_, tuple[Any, ...]] = {
    ("rows",): (0, -5, 10**400),
    ("bags",): (0, -5, 10**15),
    ("rank",): (0, -1, 10**9),
    ("label_range",): ([], [0.0], [0.0, 1.0, 2.0], [10.0, 0.0], [-1e308, 1e308], [0.0, 5e-324]),
    ("max_leverage",): (0.0, -1.0, 1e-9),
    ("epsilon",): (0.0, -1.0, 5e-324),
    ("delta",): (0.0, 1.0, -1.0, 2.0),
    ("inflation",): (0.0, -1.0, 1.0, 1e308),
    ("floor", "needed"): (0.0, -1.0, 1e-308, 1e308),
    ("floor", "measurement_mu"): (None, 0.0, -1.0, 1e-308, 1e308),
    ("floor", "measurement_slack"): (None, 0.0, 0.6),
    ("floor", "measured"): (None, 1e308, -1e308, 0.1),
    ("floor", "lower_bound"): (None, 1e308, -1.0),
    ("floor", "added_variance"): (-1.0, 1e308),
    ("numerics", "grid_exponent"): (-(10**9), 10**9, -2000),
    ("numerics", "label_exponent"): (-(10**9), 10**9),
    ("randomness", "key_bits"): (0, 64),
    ("randomness", "warning"): ("none",),
}
MEASURED = {path for path in NONSENSE if path[0] in ("floor", "inflation")}
"""What is tried on the release with a measured floor."""


@pytest.mark.usefixtures("remembering")
def test_nonsense_is_a_problem_and_no_crash(
    quick: Path, measured: Path, forge: Callable[..., Path]
) -> None:
    for honest, paths in ((quick, set(NONSENSE) - MEASURED), (measured, MEASURED)):
        certificate = read(honest)
        for path in paths:
            for value in NONSENSE[path]:
                forged = forge(honest, altered(certificate, path, value))
                assert not verify(forged).valid, (path, value)


def test_half_a_character_is_a_problem_and_no_crash(
    quick: Path, forge: Callable[..., Path]
) -> None:
    """JSON may hold one as an escape; UTF-8 may not."""
    folder = forge(quick)
    raw = (folder / "certificate.json").read_text()
    (folder / "certificate.json").write_text(raw.replace('"label"', '"\\ud800"'))
    assert not verify(folder).valid
    assert labeldp("verify", folder).code == 1


# --- forgers of whole claims --------------------------------------------------------------


def claimed_again(certificate: Certificate, claim: WtdFlagClaim) -> Certificate:
    """Every field that follows from another claim, as `certify` would write it."""
    forged = certificate | claimed_fields(claim, FloorOutcome.of(certificate))
    outcome = ("measured", "lower_bound", "added_variance")
    forged["floor"] |= {name: certificate["floor"][name] for name in outcome}
    forged["numerics"] = certificate["numerics"] | {"grid_exponent": grid_for(claim.floor**0.5)}
    return forged


def test_a_smaller_epsilon_over_a_higher_floor_is_noticed(
    quick: Path, forge: Callable[..., Path]
) -> None:
    """A forger who recomputes everything must claim a floor; the labels' scatter shows it."""
    certificate = read(quick)
    claim = read_claim(certificate)
    floor = calibrate(claim.privacy_profile, "floor", 0.3, claim.delta)
    better = replace(claim, epsilon=0.3, floor=floor)
    forged = claimed_again(certificate, better)
    forged["floor"]["added_variance"] = floor
    problems = verify(forge(quick, forged)).problems
    assert any("vary less about their fit than the floor demands" in text for text in problems)


def test_a_smaller_epsilon_over_the_same_floor_is_noticed(
    quick: Path, forge: Callable[..., Path]
) -> None:
    certificate = read(quick)
    claim = read_claim(certificate)
    for better in (
        replace(claim, epsilon=0.5),
        replace(claim, delta=1e-9),
        replace(claim, label_range=(0.0, 20.0)),
        replace(claim, bags=claim.bags - 1),
        replace(claim, rows=10**6),
        replace(claim, intercept=False),
        replace(claim, mode=FloorMode.DECLARED),
        replace(claim, mode=FloorMode.MEASURED_ADDED),
    ):
        assert not verify(forge(quick, claimed_again(certificate, better))).valid, better


def test_labels_with_too_little_noise_are_noticed(quick: Path, forge: Callable[..., Path]) -> None:
    """The same features, the same certificate, but labels drawn with a tenth of the noise."""
    release = Release.load(quick)
    step = 2.0 ** release.certificate["numerics"]["grid_exponent"]
    slope = np.linalg.lstsq(release.design, release.labels, rcond=None)[0]
    fitted = release.design @ slope
    quiet = np.rint((fitted + 0.1 * (release.labels - fitted)) / step) * step
    problems = verify(forge(*with_labels(release, quick, quiet))).problems
    assert problems == (
        "aggregates.parquet has labels that vary less about their fit than the floor demands",
    )


def with_labels(release: Release, folder: Path, labels: Any) -> tuple[Path, Certificate, pa.Table]:
    """Other aggregate labels, with the digest that goes with them."""
    table = release.table.read()
    last = table.num_columns - 1
    rows = table.set_column(last, table.schema.field(last), pa.array(labels))
    digests = release.certificate["digests"] | {"aggregates": table_digest(rows)}
    return folder, release.certificate | {"digests": digests}, rows


def test_a_label_off_the_grid_is_noticed(quick: Path, forge: Callable[..., Path]) -> None:
    release = Release.load(quick)
    labels = release.labels.copy()
    labels[3] += 2.0 ** (release.certificate["numerics"]["grid_exponent"] - 1)
    problems = verify(forge(*with_labels(release, quick, labels))).problems
    assert problems == (
        "aggregates.parquet has labels off the public grid: their low bits may leak",
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_noticed(
    quick: Path, forge: Callable[..., Path], value: float
) -> None:
    release = Release.load(quick)
    labels = release.labels.copy()
    labels[3] = value
    problems = verify(forge(*with_labels(release, quick, labels))).problems
    assert problems == ("aggregates.parquet has values that are not numbers",)


def test_a_measured_number_off_its_grid_is_noticed(
    measured: Path, forge: Callable[..., Path]
) -> None:
    """The low bits of what was measured could carry anything."""
    certificate = read(measured)
    claim = read_claim(certificate)
    assert claim.measurement is not None
    floor = certificate["floor"]
    step = 2.0 ** grid_for(claim.measurement.noise(claim.width))
    off = floor["measured"] + 0.25 * step
    bound = claim.measurement.lower_bound(off, step / 2, claim.width)
    forged = {"measured": off, "lower_bound": bound}
    forged["added_variance"] = added_variance(claim.floor, bound)
    renewed = claimed_again(certificate | {"floor": floor | forged}, claim)
    problems = verify(forge(measured, renewed)).problems
    assert problems == (
        "certificate: floor.measured is off its public grid: its low bits may leak",
    )


# --- the other files ----------------------------------------------------------------------


def test_altered_aggregates_are_noticed(quick: Path, forge: Callable[..., Path]) -> None:
    """One value, one row, one column: by the careless forger, who leaves the certificate alone."""
    rows = pq.read_table(quick / "aggregates.parquet")
    metadata = rows.schema.metadata
    first = rows.column(0).to_numpy().copy()
    first[5] = np.nextafter(first[5], np.inf)
    changes = {
        "a value": rows.set_column(0, rows.column_names[0], pa.array(first)),
        "a row less": rows.slice(1),
        "a row more": pa.concat_tables([rows, rows.slice(0, 1)]),
        "no rows": rows.slice(0, 0),
        "two rows exchanged": rows.take([1, 0, *range(2, rows.num_rows)]),
        "a column more": rows.append_column("note", pa.array([1.0] * rows.num_rows)),
        "a column less": rows.drop_columns([rows.column_names[2]]),
        "columns exchanged": rows.select([1, 0, *range(2, rows.num_columns)]),
        "another name": rows.rename_columns([*rows.column_names[:-1], "label:other"]),
        "another type": rows.set_column(
            0, rows.column_names[0], rows.column(0).cast(pa.float32(), safe=False)
        ),
        "a value missing": rows.set_column(
            0, rows.column_names[0], pa.array([None, *first[1:].tolist()])
        ),
    }
    for name, changed in changes.items():
        folder = forge(quick, consistent=False)
        stamped = changed.replace_schema_metadata(metadata)
        write(stamped, folder / "aggregates.parquet")
        result = labeldp("verify", folder, "--json")
        assert (result.code, result.err) == (1, ""), name
        assert any("aggregates.parquet" in problem for problem in result.json["problems"]), name


def test_another_layout_of_the_parquet_file_is_noticed_and_can_be_read_all_the_same(
    quick: Path, forge: Callable[..., Path]
) -> None:
    folder = forge(quick, consistent=False)
    rows = pq.read_table(folder / "aggregates.parquet")
    pq.write_table(rows, folder / "aggregates.parquet", row_group_size=7, compression="zstd")
    (problem,) = verify(folder).problems
    assert "is not as labeldp writes Parquet files" in problem
    with pytest.raises(ReleaseError, match="`verify=False` reads it all the same"):
        Release.load(folder)
    assert Release.load(folder, verify=False).labels.tolist() == Release.load(quick).labels.tolist()


def test_metadata_that_says_more_or_less_is_noticed(
    quick: Path, forge: Callable[..., Path]
) -> None:
    rows = pq.read_table(quick / "aggregates.parquet")
    honest = rows.schema.metadata
    for metadata in ({}, {METADATA_KEY: b"{}"}, honest | {b"labels": b"31337.25"}):
        folder = forge(quick, consistent=False)
        stamped = rows.replace_schema_metadata(metadata)
        write(stamped, folder / "aggregates.parquet")
        problems = verify(folder).problems
        assert len(problems) == 1
        assert "aggregates.parquet" in problems[0]
        assert "carries" in problems[0]


def test_an_altered_feature_map_is_noticed(quick: Path, forge: Callable[..., Path]) -> None:
    features = json.loads((quick / "features.json").read_text())
    for path in leaves(features):
        folder = forge(quick, consistent=False)
        changed = altered(features, path, other(at(features, path)))
        (folder / "features.json").write_text(json.dumps(changed))
        assert not verify(folder).valid, path
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["aggregates.parquet", "certificate.json", "features.json"])
def test_a_missing_file_is_noticed(quick: Path, forge: Callable[..., Path], name: str) -> None:
    folder = forge(quick, consistent=False)
    (folder / name).unlink()
    problems = verify(folder).problems
    assert len(problems) == 1
    assert name in problems[0]


@pytest.mark.parametrize("name", ["labels.csv", ".labels.csv", "folder/"])
def test_an_added_file_is_noticed(quick: Path, forge: Callable[..., Path], name: str) -> None:
    folder = forge(quick, consistent=False)
    if name.endswith("/"):
        (folder / name).mkdir()
    else:
        (folder / name).write_text("")
    problems = verify(folder).problems
    assert len(problems) == 1
    assert "is not part of the release" in problems[0]


# --- the schema ------------------------------------------------------------


def test_we_are_stricter_about_whole_numbers(quick: Path) -> None:
    """JSON Schema takes 60.0 for an integer; a certificate says 60."""
    forged = altered(read(quick), ("bags",), 60.0)
    assert jsonschema.Draft202012Validator(certificate_schema(forged["mechanism"])).is_valid(forged)
    assert list(schema_problems(forged)) == ["certificate.bags: 60.0 is not of type 'integer'"]


def test_what_breaks_the_schema_is_said_in_a_line_each(quick: Path) -> None:
    certificate = read(quick)
    del certificate["epsilon"], certificate["software"]["name"]
    forged = certificate | {"rows": "many", "extra": 1, "form": "other"}
    assert sorted(schema_problems(forged)) == [
        "certificate.form: 'other' is not one of ['rows', 'compact']",
        "certificate.rows: 'many' is not of type 'integer'",
        "certificate.software: 'name' is a required property",
        "certificate: 'epsilon' is a required property",
        "certificate: Additional properties are not allowed ('extra' was unexpected)",
    ]


def test_every_field_of_the_schema_is_required_and_nothing_else_allowed() -> None:
    def objects(rule: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "properties" in rule:
            yield rule
        for inner in (*rule.get("properties", {}).values(), rule.get("items")):
            yield from objects(inner) if inner else ()

    optional = {"weights", "person", "persons", "ridge", "na", "rows_left_out", "classes"}
    # Of releases of shaped-flag: what one number beside the aggregates is, now or in earlier ones.
    optional |= {"second_moment", "second_moment_noise_std", "second_moment_centre"}
    optional |= {"residual_root", "residual_noise_std"}
    used = {"$schema", "title", "description", "type", "properties", "required", "items", "enum"}
    for mechanism in mechanisms():
        schema = certificate_schema(mechanism.name)
        for rule in objects(schema):
            needed = [name for name in rule["properties"] if name not in optional]
            assert sorted(rule["required"]) == sorted(needed)
            assert rule["additionalProperties"] is False
        assert set().union(*map(set, objects(schema))) <= used | {"additionalProperties"}


def test_metadata_of_a_column_is_noticed(measured: Path, tmp_path: Path) -> None:
    forged = tmp_path / "copy"
    shutil.copytree(measured, forged)
    data = pq.read_table(forged / "aggregates.parquet")
    told: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("labels", {"store_schema": True}, "carries other metadata than the certificate"),
        ("PARQUET:field_id", {}, "other bytes than its table is written in"),
    )
    for name, writing, words in told:
        field = data.schema.field(0).with_metadata({name: "31337"})
        altered = data.cast(data.schema.set(0, field))
        write(altered, forged / "aggregates.parquet", **writing)
        assert any(words in problem for problem in verify(forged).problems)


@pytest.mark.parametrize("level", ["A", "NA"])
def test_rows_dropped_for_a_code_among_labels_are_dropped_again(level: str) -> None:
    """The table is rechecked with what was said of its label, also where NA is a level."""
    rng = np.random.default_rng(3)
    y = np.where(np.arange(600) % 50 == 0, 999.0, rng.uniform(0, 9, 600))
    data = pa.table(
        {"x": rng.normal(size=600), "k": [("B", level)[k % 2] for k in range(600)], "y": y}
    )
    said = {"na": ["", "y=999"] if level == "NA" else ["y=999"], "drop_missing_labels": True}
    made = labeldp_plan(data, label="y", label_range=(0, 9), epsilon=4.0, **said).release(data)
    assert made.certificate["rows"] == 588
    assert made.certificate["labels"]["na"] == ["y=999"]
    assert verify(made, data=data).valid
    other = data.set_column(2, "y", pa.array(np.where(y == 999, 998.0, y)))
    assert not verify(made, data=other).valid
