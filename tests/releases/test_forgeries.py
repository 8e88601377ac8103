"""Forgers who know the format change one thing and renew all that follows: digests, seal, copies.

Over all mechanisms; none passes that public files can refute. What passes is listed with its
reason, here and in docs/verification.md, so that the list can neither grow nor go stale unseen.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp.verification as verification
from labeldp import FeatureMap, Release, scan, verify
from labeldp.accounting.calibrate import epsilon_at
from labeldp.exact.label_sums import largest_square_move
from labeldp.io_util import json_digest
from labeldp.mechanisms.registry import read_claim
from labeldp.releases.certificate import claimed_fields, seal
from labeldp.releases.tables import table_digest
from tests.mechanisms.cases import (
    EVERY,
    FLAG,
    NOISY,
    SAMPLED,
    SHAPED,
    compacted,
    forged_claim,
    saved,
    small_plan,
)
from tests.releases.test_verification import altered, at, leaves, other
from tests.tables import RANGE, source, table

ROWS = 400
Forgery = tuple[str, Release]
Path_ = tuple[Any, ...]


def people() -> pa.Table:
    return table(ROWS).append_column("who", pa.array(np.arange(ROWS) // 2))


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "shaped": (SHAPED, {}),
    "radial": (SHAPED, {"noise": "radial"}),
    "persons": (SHAPED, {"person": "who", "shape_ridge": 0.5}),
    "whole": (FLAG, {"accountant": "exact-worst-case", "floor": "added"}),
    "compact": (FLAG, {"accountant": "exact-worst-case", "floor": "added"}),
    "measured": (FLAG, {"accountant": "exact-worst-case", "epsilon": 8.0, "delta": 1e-3}),
    "bags": (SAMPLED, {"accountant": "exact-worst-case", "floor": "added"}),
    "noisy bags": (NOISY, {}),
    "rows": (EVERY, {}),
    "rows with features": (EVERY, {"with_features": True}),
}

UNREFUTED: dict[Path_, str] = {
    ("labels", "outside_range"): "whether labels were clipped shows only in the labels",
    ("labels", "missing"): "whether rows were dropped shows only in the table",
    ("anyway",): "the forecast that a plan was judged by is not published",
    ("digests", "feature_sums"): "only who has the features can sum them",
    ("max_leverage",): "accountants that do not use it leave it to who has the features",
    ("second_moment",): "a measurement may come out like this",
    ("draw", "random"): "a seed that was drawn may be called given, which claims less",
    ("shape", "gap"): "how the weights were found does not enter the guarantee",
    ("shape", "passes"): "likewise",
    ("shape", "kind"): "likewise",
    ("shape", "ridge"): "likewise",
}
"""Fields that public files cannot refute when one of them is altered and the rest renewed; the
table in docs/verification.md has them, and what a forger could change together."""


SAID = ("about", "released_at", "software")
"""What the curator says, in words and dates."""


@pytest.fixture(scope="module")
def honest() -> dict[str, Release]:
    made = {}
    for name, (mechanism, options) in CASES.items():
        given = dict(options)
        person = given.pop("person", None)
        data = people() if person else table(ROWS)
        rows = scan(data, label="label", label_range=RANGE, person=person)
        release = small_plan(mechanism, rows, **given).release(rows)
        made[name] = compacted(release) if name == "compact" else release
    return made


@pytest.fixture(autouse=True)
def _remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recompute a claim once, however many certificates make it."""
    monkeypatch.setattr(verification, "claimed_fields", functools.cache(claimed_fields))


# --- the forgers --------------------------------------------------------------------------


def certificates(release: Release, part: int, parts: int) -> Iterator[tuple[Path_, Release]]:
    """One field altered, to a value of its type that the schema allows; a part of all fields."""
    document = release.certificate
    every = [path for path in leaves(document) if path[0] != "seal" and not hidden(path)]
    for path in every[part::parts]:
        forged = with_field(release, path)
        if forged.certificate != document:
            yield path, forged


PLAUSIBLE: dict[Path_, Any] = {
    ("labels", "outside_range"): "clipped",
    ("labels", "missing"): "rows dropped",
    ("software", "version"): "0.1.1",
    ("ledger",): {"total": 1.0},
    ("digests", "feature_sums"): "ab" * 32,
    ("shape", "kind"): "isotropic",
    ("shape", "noise_law"): "radial",
}
"""What the schema allows where any other text would break it."""


def with_field(release: Release, path: Path_) -> Release:
    value = at(release.certificate, path)
    if path == ("second_moment",) and value is not None:
        value = 2 * value  # which stands on the grid
    else:
        value = PLAUSIBLE.get(path, other(value))
    return replace(release, certificate=seal(altered(release.certificate, path, value)))


def hidden(path: Path_) -> bool:
    """All but some of the points of lists, which are alike."""
    return path[0] in ("curve", "groups", "not_protected") and path[1:2] not in ((), (1,))


def maps(release: Release) -> Iterator[Forgery]:
    """A feature map with another field."""
    document = release.features.to_json()
    changes: dict[str, Callable[[dict[str, Any]], Any]] = {
        "other rows": lambda d: d.update(rows=d["rows"] + 1),
        "no intercept": lambda d: d.update(intercept=False, kept=None),
        "a column less": lambda d: d["numeric"].pop(),
        "a level more": lambda d: d["categorical"][0]["levels"].append("zzz"),
        "all columns": lambda d: d.update(kept=None),
        "fewer columns": lambda d: d.update(kept=d["kept"][:-1] if d["kept"] else [0, 1]),
        "a column twice": lambda d: d["numeric"].append(dict(d["numeric"][0])),
    }
    for name, change in changes.items():
        forged = copy.deepcopy(document)
        change(forged)
        digests = release.certificate["digests"] | {"features": json_digest(forged)}
        certificate = seal(release.certificate | {"digests": digests})
        yield name, replace(release, features=FeatureMap.from_json(forged), certificate=certificate)


def tables(release: Release) -> Iterator[Forgery]:
    """Other numbers in one of the tables."""
    for file, whole in {"aggregates": release.table, **release.files}.items():
        for place, column in enumerate(whole.schema):
            if place in (0, 1, len(whole.schema) - 1):
                for name, change in changes_of(column.type).items():
                    values = whole.column(place).to_numpy(zero_copy_only=False).copy()
                    forged = whole.set_column(place, column, pa.array(change(values), column.type))
                    if not forged.equals(whole):
                        yield f"{file}.{column.name} {name}", with_table(release, file, forged)
        for name, change in ROW_CHANGES.items():
            yield f"{file} {name}", with_table(release, file, change(whole))


def changes_of(kind: pa.DataType) -> dict[str, Callable[[Any], Any]]:
    if pa.types.is_floating(kind):
        return {
            "not a number": lambda v: put(v, 0, np.nan),
            "infinite": lambda v: put(v, -1, np.inf),
            "huge": lambda v: put(v, 1, 1e300),
            "a bit": lambda v: put(v, 0, np.nextafter(v[0], np.inf)),
        }
    return {"reversed": lambda v: v[::-1], "the first again": lambda v: put(v, 1, v[0])}


def put(values: Any, place: int, value: Any) -> Any:
    values[place] = value
    return values


ROW_CHANGES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a row less": lambda whole: whole.slice(1),
    "a row twice": lambda whole: pa.concat_tables([whole, whole.slice(0, 1)]),
    "no rows": lambda whole: whole.slice(0, 0),
}


def with_table(release: Release, file: str, forged: pa.Table) -> Release:
    digests = release.certificate["digests"] | {file: table_digest(forged)}
    certificate = seal(release.certificate | {"digests": digests})
    if file == "aggregates":
        return replace(release, table=forged, certificate=certificate)
    return replace(release, files={**release.files, file: forged}, certificate=certificate)


# --- what verify says ---------------------------------------------------------------------


def passes(release: Release, folder: Path) -> bool:
    report = verify(saved(release, folder))
    assert all("\n" not in problem and len(problem) < 700 for problem in report.problems)
    return report.valid


def test_honest_releases_pass(honest: dict[str, Release], tmp_path: Path) -> None:
    assert [name for name in CASES if not passes(honest[name], tmp_path / name)] == []


def test_a_field_of_a_certificate(honest: dict[str, Release], tmp_path: Path) -> None:
    """Every field that there is, in one of the mechanisms that have it; more than 200 in all."""
    count, passed = 0, set()
    for place, (case, release) in enumerate(honest.items()):
        for path, forged in certificates(release, place % 3, 3):
            count += 1
            if passes(forged, tmp_path / str(count)):
                passed.add((case, path))
    assert count >= 200
    told = [found for found in passed if found[1][0] not in SAID]
    assert [found for found in told if found[1] not in UNREFUTED] == []


def test_a_rank_that_no_bag_can_have(honest: dict[str, Release], tmp_path: Path) -> None:
    """A smaller one than there is only who has the features can refute."""
    release = honest["bags"]
    columns = release.certificate["rank"]
    for number, rank in enumerate((-1, columns + 1, release.certificate["bag_size"] + 1)):
        document = altered(release.certificate, ("draw", "bag_rank"), rank)
        assert not passes(replace(release, certificate=seal(document)), tmp_path / str(number))


@pytest.mark.parametrize("case", ["whole", "bags"])
def test_a_leverage_that_no_row_can_have(
    honest: dict[str, Release], case: str, tmp_path: Path
) -> None:
    document = altered(honest[case].certificate, ("max_leverage",), 1.5)
    assert not passes(replace(honest[case], certificate=seal(document)), tmp_path / "forged")


@pytest.mark.parametrize(("field", "value"), [("gap", 0.9), ("gap", 0.0), ("passes", 0)])
def test_a_search_that_cannot_have_been(
    honest: dict[str, Release], field: str, value: float, tmp_path: Path
) -> None:
    """No weights are better than the best, and none were found without a look at the features."""
    document = altered(honest["shaped"].certificate, ("shape", field), value)
    assert not passes(replace(honest["shaped"], certificate=seal(document)), tmp_path / "forged")


def test_the_list_of_what_is_not_refuted_is_not_too_long(
    honest: dict[str, Release], tmp_path: Path
) -> None:
    for number, path in enumerate(UNREFUTED):
        having = [case for case in CASES if path in set(leaves(honest[case].certificate))]
        found = (
            passes(with_field(honest[case], path), tmp_path / f"{number}-{case}") for case in having
        )
        assert any(found), path


DOCS = Path(__file__).parents[2] / "docs" / "verification.md"


def listed() -> str:
    """What the docs say that public files cannot refute."""
    text = DOCS.read_text(encoding="utf-8")
    return text[text.index("## What verify cannot refute") : text.index("## Audit")]


def test_what_is_not_refuted_is_in_the_docs() -> None:
    for path in (*UNREFUTED, *[("shape", name) for name in TOGETHER]):
        assert f"{path[-1]}`" in listed(), path


@pytest.mark.parametrize("intercept", [True, False])
def test_the_second_moment_is_about_what_labels_count_from(intercept: bool, tmp_path: Path) -> None:
    """About the middle of the range one label moves it by a fourth of what it can about 0."""
    rows = source(300)
    made = small_plan(SHAPED, rows, intercept=intercept, noise="gaussian")
    release = made.release(rows)
    claim, (low, high) = made.claim, made.claim.label_range
    assert verify(saved(release, tmp_path / "r")).valid

    def about(centre: float) -> Release:
        """About another centre, with the noise that it asks for there."""

        def change(certificate: dict[str, Any]) -> None:
            shape = certificate["shape"]
            noise = (
                shape["second_moment_noise_std"]
                * largest_square_move((low, high), centre)
                / largest_square_move((low, high), shape["second_moment_centre"])
            )
            step = 2.0 ** (math.floor(math.log2(noise)) - 10)
            shape |= {"second_moment_noise_std": noise, "second_moment_centre": centre}
            certificate["second_moment"] = round(certificate["second_moment"] / step) * step

        return forged_claim(release, change)

    told = "certificate: shape.second_moment_centre is not what labels count from"
    middle = (low + high) / 2
    exponent = release.certificate["numerics"]["label_exponent"]
    others = (middle + 2.0 ** (exponent + 1), 0.0) if intercept else (middle, 2.0**exponent)
    for number, centre in enumerate((*others, claim.second_moment_centre + 2.0 ** (exponent - 1))):
        assert told in verify(saved(about(centre), tmp_path / str(number))).problems


def test_a_second_moment_that_is_not_published_has_no_centre(tmp_path: Path) -> None:
    rows = source(300)
    release = small_plan(SHAPED, rows, residual_share=0.0).release(rows)
    shape = release.certificate["shape"] | {"second_moment_centre": 1.5}
    forged = replace(release, certificate=seal(release.certificate | {"shape": shape}))
    (problem,) = verify(saved(forged, tmp_path / "r")).problems
    assert "has no centre" in problem


TOGETHER = ("noise_law", "second_moment_noise_std")
"""Fields of shaped-flag that a forger can change together with ε and all that follows."""


def test_what_a_forger_can_change_together(honest: dict[str, Release], tmp_path: Path) -> None:
    """More noise on the second moment than it had, or normal noise called radial, claims more
    privacy than there is; the docs say so."""
    release = honest["shaped"]
    noise = 4 * release.certificate["shape"]["second_moment_noise_std"]
    step = 2.0 ** (math.floor(math.log2(noise)) - 10)

    def quieter(certificate: dict[str, Any]) -> None:
        certificate["shape"]["second_moment_noise_std"] = noise
        certificate["second_moment"] = round(certificate["second_moment"] / step) * step
        claim = read_claim(certificate)
        certificate["epsilon"] = epsilon_at(claim.privacy_profile, claim.delta)

    def radial(certificate: dict[str, Any]) -> None:
        certificate["shape"]["noise_law"] = "radial"
        certificate["delta"] = 0.0
        certificate["epsilon"] = math.nextafter(
            read_claim(certificate).privacy_profile.pure_epsilon(), math.inf
        )

    less = forged_claim(release, quieter)
    assert less.certificate["epsilon"] < release.certificate["epsilon"]
    for place, forged in enumerate((less, forged_claim(release, radial))):
        drawn = read_claim(forged.certificate).sampler_description
        document = altered(forged.certificate, ("numerics", "aggregate_labels"), drawn)
        assert passes(replace(forged, certificate=seal(document)), tmp_path / str(place))


@pytest.mark.parametrize("case", ["shaped", "whole", "rows with features"])
def test_a_feature_map(honest: dict[str, Release], case: str, tmp_path: Path) -> None:
    passed = [
        name
        for name, forged in maps(honest[case])
        if forged.features != honest[case].features and passes(forged, tmp_path / name)
    ]
    assert passed == []


TOLERATED = {"a bit"}
"""Aggregated features are doubles of a sampler: no bit of them is refuted without the table, and
weights of a row are checked to their rounding."""


@pytest.mark.parametrize("case", CASES)
def test_a_table(honest: dict[str, Release], case: str, tmp_path: Path) -> None:
    passed = []
    for place, (name, forged) in enumerate(tables(honest[case])):
        if passes(forged, tmp_path / str(place)):
            passed.append(name)
    design = [name for name in passed if not name.endswith(tuple(TOLERATED))]
    assert design == []
    assert not any("label:" in name for name in passed), passed
