"""A forger with a seed: random changes to the files of releases, each renewed as far as it can be.

A change may be bare (one file, nothing else) or consistent: digests, seal, copies of the
certificate and the description are those of the forged content. What public files cannot refute is
listed in test_forgeries.py and docs/verification.md; nothing else passes.
"""

from __future__ import annotations

import base64
import copy
import functools
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import labeldp.verification as verification
from labeldp import Release, scan, verify
from labeldp.releases.certificate import ABOUT, claimed_fields, seal
from labeldp.releases.pending import CERTIFICATE, FEATURES
from labeldp.releases.side_files import CROISSANT, SIGNATURES, croissant_text
from labeldp.signing import PublicKey, make_key, sign
from tests.extras import extra
from tests.mechanisms.cases import small_plan
from tests.releases.test_forgeries import CASES, ROWS, SAID, UNREFUTED, people
from tests.releases.test_verification import altered, at, leaves
from tests.tables import RANGE, table

Rng = np.random.Generator
NAMES = {("labels", "column"), ("person", "column"), ("noise", "column")}
"""Columns are called whatever they are called."""
FEW = ("shaped", "rows")
"""Kinds that are forged in every run; the slow tests have the others, some 700 cases."""


def made(name: str, place: Path) -> Release:
    """A release of one of the cases, saved there."""
    mechanism, options = CASES[name]
    given = dict(options)
    person = given.pop("person", None)
    data = people() if person else table(ROWS)
    rows = scan(data, label="label", label_range=RANGE, person=person)
    small_plan(mechanism, rows, **given).release(rows).save(place)
    return Release.load(place)


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in CASES],
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two releases of one kind, where they are (`one`, `two`), and the forger's dice."""
    place = tmp_path_factory.mktemp("forger")
    return (
        made(request.param, place / "one"),
        made(request.param, place / "two"),
        place,
        np.random.default_rng([11, list(CASES).index(request.param)]),
    )


@pytest.fixture(autouse=True)
def _remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recompute a claim once, however many certificates make it."""
    monkeypatch.setattr(verification, "claimed_fields", functools.cache(claimed_fields))


# --- changes to JSON ----------------------------------------------------------------------


def other_values(value: Any, rng: Rng) -> list[Any]:
    """What a forger might write instead, of the same kind or not."""
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, int):
        return [value + 1, max(0, value - 1), 2 * value + 1, -value - 1, float(value), str(value)]
    if isinstance(value, float):
        nudged = value * (1 + 10.0 ** -rng.integers(1, 5))
        return [nudged, 0.5 * value, -value - 1.0, 0.0 if value else 1.0, 1e300]
    if isinstance(value, str):
        return [
            value + " ",
            value + "\n",
            value[:-1],
            value.upper() + "x",
            f"row 7: 31.25; {value}",
        ]
    return ["31.25", [31.25], {"row": 7}]


def certificates(release: Release, rng: Rng, count: int) -> Iterator[tuple[Any, Release]]:
    """One field, or an object with a field more or less; all that follows is renewed."""
    document = dict(release.certificate)
    every = [path for path in leaves(document) if path[0] != "seal"]
    for path in (every[place] for place in rng.permutation(len(every))[:count]):
        values = other_values(at(document, path), rng)
        value = values[rng.integers(len(values))]
        forged = seal(altered(document, path, value))
        if forged != document:
            yield path, replace(release, certificate=forged)
    objects = [path[:-1] for path in every if isinstance(path[-1], str) and path[:-1]]
    for path in (objects[place] for place in rng.permutation(len(objects))[: count // 5]):
        more = copy.deepcopy(document)
        at(more, path)["remark"] = "row 7 has 31.25"
        yield (*path, "remark"), replace(release, certificate=seal(more))


def refused(forged: Release, place: Path) -> bool:
    try:
        forged.save(place)
    except (TypeError, ValueError, KeyError):
        return True  # not even our writer takes it
    try:
        return not verify(place).valid
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_a_field_of_a_certificate(case: Any) -> None:
    release, _, place, rng = case
    passed = [
        path
        for path, forged in certificates(release, rng, 20)
        if path[0] not in SAID
        and path not in NAMES
        and path not in {*UNREFUTED, ("floor", "measured"), ("draw", "bag_rank")}
        and not refused(forged, place / "forged")
    ]
    assert passed == []


# --- changes to files ---------------------------------------------------------------------


def flipped(path: Path, rng: Rng) -> None:
    data = bytearray(path.read_bytes())
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(data))


def cut(path: Path, rng: Rng) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.integers(len(data))])


def padded(path: Path, rng: Rng) -> None:
    data = path.read_bytes()
    at_byte = int(rng.integers(len(data) + 1))
    path.write_bytes(data[:at_byte] + rng.bytes(3) + data[at_byte:])


def test_bytes_of_any_file(case: Any) -> None:
    """Bare, and with the description made anew, which holds the digests of all bytes: then some
    bits of a packed page say the same as others, and nothing else passes."""
    release, _, place, rng = case
    passed, folder = [], place / "bytes"
    for path in sorted((place / "one").iterdir()):
        for change in (flipped, cut, padded, flipped):
            for again in (False, True):
                shutil.copytree(place / "one", folder)
                change(folder / path.name, rng)
                if again and path.name != CROISSANT:
                    renew(folder, release)
                if verify(folder).valid and not (again and same_table(folder, place, path.name)):
                    passed.append((path.name, change.__name__, again))
                shutil.rmtree(folder)
    assert passed == []


def test_ends_of_lines(case: Any) -> None:
    """One that a reader takes for another could spell a bit in every line."""
    release, _, place, _ = case
    folder = place / "lines"
    for name in (CERTIFICATE, FEATURES, CROISSANT):
        shutil.copytree(place / "one", folder)
        path = folder / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n", 3))
        if name != CROISSANT:
            renew(folder, release)
        assert not verify(folder).valid, name
        shutil.rmtree(folder)


def same_table(folder: Path, place: Path, name: str) -> bool:
    if not name.endswith(".parquet"):
        return False
    one, two = (pq.read_table(each / name) for each in (folder, place / "one"))
    return bool(one.equals(two, check_metadata=True))


def renew(folder: Path, release: Release) -> None:
    """The description of whatever is there now, where that can be read at all."""
    try:
        text = croissant_text(folder, release.certificate)
    except Exception:
        return
    (folder / CROISSANT).write_text(text, encoding="utf-8")


def test_files_of_another_release(case: Any) -> None:
    """Of the same plan and table, so that all but the draws is the same."""
    release, _, place, _ = case
    names = sorted(path.name for path in (place / "one").iterdir())
    for name in names:
        if (place / "one" / name).read_bytes() == (place / "two" / name).read_bytes():
            continue
        folder = place / "swapped"
        shutil.copytree(place / "one", folder)
        shutil.copy(place / "two" / name, folder / name)
        if name != CROISSANT:
            renew(folder, release)
        assert not verify(folder).valid, name
        shutil.rmtree(folder)


# --- claims that hold together ------------------------------------------------------------


@pytest.mark.parametrize("field", ["epsilon", "delta"])
def test_a_better_budget_with_all_that_follows(case: Any, field: str) -> None:
    release, _, place, _ = case
    certificate = release.certificate
    if certificate[field] == 0:
        return
    claim = verification.read_claim(certificate)
    better = replace(claim, **{field: 0.9 * getattr(claim, field)})
    if better.delta_at(better.epsilon) <= better.delta:
        return  # weights that were drawn well promise more than was asked for, and it is true
    outcome = verification.FloorOutcome.of(certificate)
    told = claimed_fields(better, outcome)
    if certificate["floor"] is not None:
        told["floor"] = {**certificate["floor"], **told["floor"]}
    assert refused(replace(release, certificate=seal(certificate | told)), place / "better")


FACTS = {
    ("max_leverage",), ("inflation",), ("draw", "bag_rank"), ("shape", "length"), ("rows",),
    ("person", "rows"), ("label_range", 0), ("label_range", 1),
}  # fmt: skip
"""About features, which `--data` shows, and the range, which only the labels show."""
ONE_NUMBER = {("floor", "measured"), ("floor", "measurement_mu"), ("floor", "measurement_slack")}
"""What was measured is one number: it does not show with how much noise."""
NOT_CLAIMED = {
    "curve", "groups", "attack_risk", "utility", "weak", "seal", "digests", "numerics",
    "randomness", "epsilon", "delta", *SAID,
}  # fmt: skip
"""What follows, is said elsewhere, or (a budget) has a test above."""


def held_together(certificate: Any, path: Any, value: Any) -> Any:
    """The certificate with another value, and with all that follows from it; None if nobody could
    have made such a claim."""
    document = altered(certificate, path, value)
    try:
        claim = verification.read_claim(document)
        told = claimed_fields(claim, verification.FloorOutcome.of(document))
    except (ValueError, ArithmeticError):
        return None
    if document["floor"] is not None:
        told["floor"] = {**document["floor"], **told["floor"]}
    return seal(document | told)


def test_another_claim_with_all_that_follows(case: Any) -> None:
    """Numbers of the claim, one at a time, up and down."""
    release, _, place, _ = case
    certificate = dict(release.certificate)
    listed = {*UNREFUTED, *FACTS, *ONE_NUMBER}
    if certificate["form"] == "compact":
        listed.add(("bags",))  # m degrees of freedom look like m + 1
    for path in leaves(certificate):
        value = at(certificate, path)
        if path[0] in NOT_CLAIMED or path in listed or isinstance(value, bool):
            continue
        for factor in (0.5, 0.9, 1.1, 2) if isinstance(value, int | float) else ():
            forged = held_together(certificate, path, type(value)(factor * value))
            if forged is None or forged == seal(certificate):
                continue
            assert refused(replace(release, certificate=forged), place / "other"), (path, factor)


LEDGER = {"ledger": "0" * 16, "entry": 7, "digest": "f" * 64, "releases": 3, "delta": 1e-6}


@pytest.mark.parametrize(
    "section",
    [
        {"ledger": LEDGER | {"epsilon": 1e-3}},
        {"ledger": LEDGER | {"epsilon": 50.0, "releases": 7}},
        {"ledger": LEDGER | {"epsilon": 50.0, "entry": 0, "releases": 0}},
        {"ledger": LEDGER | {"epsilon": 50.0, "digest": "f" * 64 + "\n"}},
        {"about": {"name": "x", "missing": []}},
        {"released_at": "2026-02-31T00:00:00Z"},
        {"released_at": "2026-02-01T00:00:00Z\n"},
    ],
)
def test_what_no_curator_and_no_ledger_say(case: Any, section: dict[str, Any]) -> None:
    release, _, place, _ = case
    forged = replace(release, certificate=seal(release.certificate | section))
    assert refused(forged, place / "said")


def test_an_about_that_hides_what_is_missing(case: Any) -> None:
    release, _, place, _ = case
    for said, lost in (({"name": "x"}, []), ({"name": "x\u0007"}, None), ({"name": " x "}, None)):
        about = dict.fromkeys(release.certificate["about"] or ABOUT) | said
        about["missing"] = [n for n in ABOUT if about[n] is None] if lost is None else lost
        forged = replace(release, certificate=seal(release.certificate | {"about": about}))
        assert refused(forged, place / "about")


# --- signatures ---------------------------------------------------------------------------


def test_signatures(case: Any) -> None:
    """Moved to another release, of another payload type, of other bytes, of another key."""
    extra("cryptography")
    _, _, place, rng = case
    keys = place / "keys"
    keys.mkdir()
    make_key(keys / "ann")
    make_key(keys / "eve")
    ann = PublicKey.read(keys / "ann.pub")
    for name in ("one", "two"):
        shutil.copytree(place / name, keys / name)
    sign(keys / "one", keys / "ann")
    sign(keys / "two", keys / "eve")
    text = (keys / "one" / SIGNATURES).read_text()
    assert verify(keys / "one", keys=[ann]).valid
    theirs = json.loads((keys / "two" / SIGNATURES).read_text())
    for change in envelopes(json.loads(text), theirs, rng):
        (keys / "one" / SIGNATURES).write_text(json.dumps(change, indent=1) + "\n")
        assert not verify(keys / "one", keys=[ann]).valid, change
    (keys / "two" / SIGNATURES).write_text(text)
    assert not verify(keys / "two").valid
    (keys / "one" / SIGNATURES).write_text(text)
    assert verify(keys / "one", keys=[ann]).valid


def envelopes(honest: Any, other: Any, rng: Rng) -> Iterator[Any]:
    (mine,), (theirs,) = honest["signatures"], other["signatures"]
    yield other
    yield honest | {"payload": other["payload"]}
    yield honest | {"payloadType": "application/json"}
    yield honest | {"signatures": [theirs]}
    yield honest | {"signatures": [theirs | {"keyid": mine["keyid"]}]}
    yield honest | {"signatures": []}
    yield honest | {"signatures": [mine, mine]}
    yield honest | {"remark": "row 7 has 31.25"}
    for _ in range(8):
        raw = bytearray(base64.b64decode(mine["sig"]))
        raw[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
        yield honest | {"signatures": [mine | {"sig": base64.b64encode(bytes(raw)).decode()}]}
    payload = bytearray(base64.b64decode(honest["payload"]))
    payload[rng.integers(len(payload))] ^= 1
    yield honest | {"payload": base64.b64encode(bytes(payload)).decode()}
