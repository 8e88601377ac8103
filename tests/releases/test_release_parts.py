"""Parts of a release one by one: claims, digests, row groups, texts and what is refused."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from labeldp import PlanError, Release, ReleaseError
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.data.source import scan
from labeldp.errors import InputError
from labeldp.features.fit import fit_features
from labeldp.releases import certificate as claims, files, pending as drawings
from labeldp.releases.certificate import Claim, FloorOutcome, Person, best_guess
from labeldp.releases.tables import digest_of, table_digest

MU = 0.5


@dataclass(frozen=True)
class Simple(Claim):
    """One Gaussian number."""

    mechanism: ClassVar[str] = "simple"

    @property
    def privacy_profile(self) -> PrivacyProfile:
        return GaussianProfile(MU)

    basis = "a theorem"

    def utility(self) -> dict[str, Any]:
        return {"excess": 0.1}

    def own_fields(self) -> dict[str, Any]:
        return {"floor": {"kind": "none"}}


def simple(epsilon: float = 1.0, delta: float = 0.1, person: Person | None = None) -> Simple:
    return Simple(
        accountant="exact",
        epsilon=epsilon,
        delta=delta,
        bags=7,
        rows=1000,
        rank=3,
        label_range=(0.0, 1.0),
        intercept=True,
        person=person,
    )


def gaussian_delta(mu: float, epsilon: float) -> float:
    from scipy.stats import norm

    return float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    )


# --- claims --------------------------------------------------------------------------------------


def test_a_curve_is_that_of_the_law_about_the_budget() -> None:
    factors = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
    curve = simple(epsilon=0.8).curve()
    assert [epsilon for epsilon, _ in curve] == [0.8 * factor for factor in factors]
    for epsilon, delta in curve:
        truth = gaussian_delta(MU, epsilon)
        assert truth * (1 - 1e-12) <= delta <= truth * (1 + 1e-6) + 1e-12


def test_groups_are_of_two_three_and_five() -> None:
    """k rows at once are k times as far apart."""
    groups = simple().groups()
    assert [group["rows"] for group in groups] == [2, 3, 5]
    for group in groups:
        assert gaussian_delta(MU * group["rows"], group["epsilon"]) == pytest.approx(0.1, rel=1e-3)
        assert group["delta"] == 0.1
    persons = simple(person=Person("id", 4)).groups()
    assert [(g["persons"], g["rows"]) for g in persons] == [(2, 8), (3, 12), (5, 20)]
    assert simple().delta_at(1.0) == simple().delta_at(1.0, 1) < simple().delta_at(1.0, 2)


def test_who_is_covered() -> None:
    person = Person("id", 4)
    assert (simple().protected, simple(person=person).protected) == (1, 4)
    words = "one person's labels, all rows together: at most 4, of one id in column 'id'"
    assert person.unit == words
    assert Person("id", 1).rows == 1
    with pytest.raises(InputError):
        Person("id", 0)


def test_the_best_attack_is_told_in_words() -> None:
    """Of no false alarm in a thousand, at ε = 0 and δ, at most δ + 0.001 are found."""
    told = simple().attack_risk([[0.0, 0.25]])
    assert told["false_positive_rate"] == 0.001
    assert told["true_positive_rate"] == pytest.approx(0.251)
    assert told["in_words"] == (
        "an attacker who knows everything but one label, and who may be wrong in 0.1% of innocent "
        "cases, finds it in at most 25.10%"
    )
    person = simple(person=Person("id", 4)).attack_risk([[0.0, 0.25]])["in_words"]
    assert "everything but one person's labels" in person
    assert "finds them in at most 25.10%" in person


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, None), ({"delta": 1e-4}, None), ({"delta": 1.1e-4}, "δ times rows is 0.11"),
        ({"epsilon": 10.0}, None), ({"epsilon": 10.5}, "ε = 10.5 is above 10"),
        ({"advantage": 0.8989}, None), ({"advantage": 0.9}, "95.0% of cases"),
        ({"advantage": 0.95}, "97.5% of cases"),
    ],
    ids=str,
)  # fmt: skip
def test_a_budget_is_weak_beyond_its_limits(changed: dict[str, float], words: str | None) -> None:
    """Of 1000 rows: δ·rows above 0.1, ε above 10, an attack right in over 95 %."""
    facts = {"epsilon": 1.0, "delta": 1e-9, "advantage": 0.1} | changed
    curve = [[0.0, facts["advantage"]]]
    weak = simple(facts["epsilon"], facts["delta"]).weaknesses(curve)
    assert len(weak) == (words is not None)
    assert all(str(words) in reason for reason in weak)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("delta", [0.0, 0.2, 1.0])
def test_the_best_guess_is_right_by_the_law_of_both_kinds_of_error(
    epsilon: float, delta: float
) -> None:
    """The largest (1 − a + 1 − b)/2 with 1 − b ≤ e^ε·a + δ and 1 − a ≤ e^ε·b + δ."""
    best = (math.exp(epsilon) + delta) / (math.exp(epsilon) + 1)
    assert best_guess([[epsilon, delta]], 0.5) == pytest.approx(best)
    assert best_guess([[epsilon, delta], [0.0, 1.0]], 0.5) == pytest.approx(best)


def test_what_does_not_hold_is_not_certified() -> None:
    spent = simple().delta_at(0.3)
    certified = claims.certify(simple(0.3, spent), None, {"run": "x"})
    assert certified["run"] == "x"
    assert certified["mu"] == MU
    assert certified["floor"] == {"kind": "none"}
    body = {name: value for name, value in certified.items() if name != "seal"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert certified["seal"] == hashlib.sha256(text.encode()).hexdigest()
    assert claims.seal(certified) == certified
    with pytest.raises(PlanError) as refusal:
        claims.certify(simple(0.3, 0.01), None, {})
    assert str(refusal.value) == (
        f"7 aggregates of this claim have δ = {spent:.3g} at ε = 0.3, more than the plan's 0.01; "
        "plan again"
    )


def test_the_outcome_of_a_floor_is_written_and_read() -> None:
    outcome = FloorOutcome(1.5, 1.25, 0.5)
    certified = claims.certify(simple(), outcome, {})
    assert certified["floor"] == {
        "kind": "none", "measured": 1.5, "lower_bound": 1.25, "added_variance": 0.5,
    }  # fmt: skip
    assert FloorOutcome.of(certified) == outcome
    assert FloorOutcome.of({"floor": None}) is None


def test_a_claim_begins_with_its_budget_and_is_read_again() -> None:
    for person in (None, Person("id", 4)):
        head = simple(person=person).to_json()
        assert head["accountant"] == {"name": "exact", "basis": "a theorem"}
        assert ("person" in head) is (person is not None)
        assert Simple(**claims.read_common_fields(head)) == simple(person=person)
    fields = claims.claimed_fields(simple(person=Person("id", 4)))
    assert "the labels of one person, each by at most label_width," in fields["definition"]
    assert fields["unit"] == Person("id", 4).unit
    assert claims.claimed_fields(simple())["unit"].startswith("one row's label;")
    assert claims.claimed_fields(simple())["definition"] == claims.DEFINITION


# --- digests -------------------------------------------------------------------------------------


def digest_twin(table: pa.Table) -> str:
    """Names, types and counts, and a hash of every column: texts by their lengths and letters."""
    nulls = sum(column.null_count for column in table.columns)
    types = [str(kind) for kind in table.schema.types]
    whole = hashlib.sha256(
        json.dumps([table.num_rows, nulls, *types, *table.column_names]).encode()
    )
    for column in table.columns:
        values = column.to_pylist()
        if pa.types.is_string(column.type):
            lengths = [-1 if text is None else len(text.encode()) for text in values]
            parts = [
                struct.pack(f"<{len(values)}q", *lengths),
                "".join(text or "" for text in values).encode(),
            ]
        else:
            code = "q" if pa.types.is_integer(column.type) else "d"
            parts = [struct.pack(f"<{len(values)}{code}", *values)]
        for part in parts:
            whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


TABLE = pa.table(
    {
        "x": pa.array([1.5, -0.0, 3.25, 1e300]),
        "n": pa.array([1, -2, 2**62, 0]),
        "t": pa.array(["née", None, "", "abc"]),
        "u": pa.array(["a", "b", "cd", "e"]),
    }
)


def test_a_digest_is_that_of_every_value_in_its_place() -> None:
    for part in (TABLE, TABLE.slice(1, 2), TABLE.slice(2), TABLE.slice(0, 0), TABLE.select(["t"])):
        assert table_digest(part) == digest_twin(part)
    pieces = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)])
    assert table_digest(pieces) == digest_twin(TABLE)
    parts = [TABLE.slice(0, 3), TABLE.slice(3)]
    assert digest_of(TABLE.schema, parts) == digest_twin(TABLE)


def test_what_moves_from_one_text_to_the_next_is_seen() -> None:
    texts = [["ab", "c"], ["a", "bc"], ["abc", ""], ["abc", None], [None, "abc"]]
    assert len({table_digest(pa.table({"t": pa.array(each)})) for each in texts}) == 5


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "enough"),
    [(1, 2**20), (16, 2**16), (64, 2**14), (512, 2**14), (1024, 2**13), (2**24, 1)],
)
def test_a_row_group_is_neither_small_nor_larger_than_memory_likes(
    columns: int, enough: int
) -> None:
    """A million numbers and 16,384 rows at least, unless that is more than 8 million numbers."""
    rows = min(enough + 3, 2**20 + 3)
    batch = pa.record_batch({"x": pa.array(np.arange(rows, dtype=np.int32))})
    cut = rows // 3
    parts = [batch.slice(0, cut), batch.slice(cut)] if cut else [batch]
    groups = list(drawings._row_groups(parts, columns))
    assert pa.concat_tables(groups).column(0).to_pylist() == list(range(rows))
    if columns == 2**24:
        assert [group.num_rows for group in groups] == [1] * rows
    else:
        assert [group.num_rows for group in drawings._row_groups([batch], columns)] == [enough, 3]
        assert all(group.num_rows <= 2 * enough for group in groups)
        assert groups[0].num_rows >= enough or len(groups) == 1
    assert list(drawings._row_groups([], columns)) == []


FEATURES = fit_features(scan(pa.table({"a": np.arange(50.0), "b": np.sin(np.arange(50.0))})))


def release(table: pa.Table, certificate: dict[str, Any] | None = None, **more: Any) -> Release:
    said: Any = {"bags": 3, "labels": {"column": "y"}} | (certificate or {})
    return Release(table, FEATURES, said, more)


def numbers(*names: str) -> pa.Table:
    return pa.table({name: pa.array([float(place), 2.0]) for place, name in enumerate(names)})


def test_what_a_release_holds_is_told_by_its_columns() -> None:
    whole = release(numbers(*FEATURES.names, "label:y"))
    assert (whole.aggregates_features, whole.holds_rows, whole.needs_rows) == (True, False, False)
    assert whole.design.tolist() == [[0.0, 1.0, 2.0], [2.0, 2.0, 2.0]]
    assert whole.labels.tolist() == [3.0, 2.0]
    assert whole.bags == 3
    ((design, labels),) = whole.chunks()
    assert (design.tolist(), labels.tolist()) == (whole.design.tolist(), whole.labels.tolist())
    assert [chunk.tolist() for chunk in whole.label_chunks()] == [[3.0, 2.0]]
    alone = release(
        numbers("noise_std", "label:y"), {"mechanism": "sampled-noisy-wtd-lag"}, bags=numbers("bag")
    )
    assert (alone.aggregates_features, alone.holds_rows, alone.needs_rows) == (False, False, True)
    assert alone.noise.tolist() == [0.0, 2.0]
    with pytest.raises(ReleaseError, match="does not hold their features; give the table"):
        _ = alone.design


def test_a_release_of_rows_begins_with_their_numbers() -> None:
    rows = pa.table({"row": pa.array([4, 9]), "label:y": pa.array([1.0, 2.0])})
    said = {"mechanism": "noisy-rows", "row_noise": {"std": 0.25, "law": "laplace"}}
    bare = release(rows, said)
    assert (bare.holds_rows, bare.needs_rows, bare.aggregates_features) == (True, True, False)
    assert bare.noise.tolist() == [0.25, 0.25]
    full = release(rows.add_column(1, "a", pa.array([5.0, 6.0])))
    assert (full.holds_rows, full.needs_rows) == (True, False)
    floats = rows.set_column(0, "row", pa.array([4.0, 9.0]))
    assert not release(floats).holds_rows
    assert not release(rows.rename_columns(["rows", "label:y"])).holds_rows


def test_what_is_no_release_is_refused(tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        with pytest.raises(ReleaseError) as refusal:
            Release.load(path)
        return str(refusal.value)

    words = f"{tmp_path / 'x'} is not a release directory; name the one it was saved in"
    assert refused(tmp_path / "x") == words
    assert refused(Path("/dev/null")).startswith("/dev/null: it is a pipe or a device")
    folder = tmp_path / "r"
    folder.mkdir()
    words = f"{folder / 'certificate.json'} is missing; the release is incomplete"
    assert refused(folder) == words
    (folder / "certificate.json").write_text("[1]")
    words = f"{folder / 'certificate.json'} holds no JSON object; restore the original file"
    assert refused(folder) == words
    (folder / "certificate.json").write_text('"' + "x" * ((1 << 24) - 1) + '"')
    assert "has more than 16,777,216 bytes" in refused(folder)
    (folder / "certificate.json").write_text('"' + "x" * ((1 << 24) - 2) + '"')
    assert "holds no JSON object" in refused(folder)
    (folder / "NOT_PRIVATE.txt").write_text("x")
    words = f"{folder} is NOT private and has no certificate; see NOT_PRIVATE.txt"
    assert refused(folder) == words


@pytest.mark.parametrize("verified", [True, False])
def test_aggregates_end_with_labels(tmp_path: Path, verified: bool) -> None:
    whole = release(numbers(*FEATURES.names, "label:y"))
    whole.save(tmp_path / "good")
    loaded = Release.load(tmp_path / "good", verify=False)
    assert loaded.labels.tolist() == whole.labels.tolist()
    with pytest.raises(ReleaseError):
        Release.load(tmp_path / "good")  # whose certificate says next to nothing
    odd = whole.table.append_column("n", pa.array([1, 2]))
    release(odd).save(tmp_path / "odd")
    with pytest.raises(ReleaseError) as refusal:
        Release.load(tmp_path / "odd", verify=verified)
    path = tmp_path / "odd" / "aggregates.parquet"
    assert str(refusal.value) == f"{path} does not end with a column of labels"


# --- rows ----------------------------------------------------------------------------------------


def test_rows_come_with_their_features_or_from_the_table_they_name() -> None:
    raw = pa.table({"a": np.arange(50.0), "b": np.sin(np.arange(50.0))})
    named = pa.table({"row": pa.array([4, 9]), "label:y": pa.array([1.0, 2.0])})
    bare = release(named, {"labels": {"column": "y", "missing": "rows dropped"}})
    with pytest.raises(InputError, match="names rows and does not hold their features"):
        list(files.labelled_rows(bare))
    assert files.table_rows(bare, None) is None
    frame, labels = bare.training_frame(raw)
    assert frame["a"].tolist() == [4.0, 9.0]
    assert (labels.tolist(), labels.index.tolist(), labels.name) == ([1.0, 2.0], [4, 9], "y")
    own = named.add_column(1, "a", pa.array([7.0, 8.0])).add_column(2, "b", pa.array([0.1, 0.2]))
    ((batch, found),) = files.labelled_rows(release(own))
    assert (batch.column(0).to_pylist(), found.tolist()) == ([7.0, 8.0], [1.0, 2.0])
    assert batch.schema.names == ["a", "b"]
    with pytest.raises(ReleaseError, match="publishes aggregates, of which no single row has"):
        release(numbers(*FEATURES.names, "label:y"), {"mechanism": "m"}).training_frame(raw)
