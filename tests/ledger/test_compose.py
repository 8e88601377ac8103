"""Several releases together: laws are composed, for one row of a table or one person in several."""

from __future__ import annotations

import math
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import InputError, Release, ReleaseError, compose, scan
from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.compose import compose as compose_laws
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import SubsampledProfile
from labeldp.ledger.compose import claim_of_debit, compose_claims
from labeldp.mechanisms import bags
from labeldp.mechanisms.registry import read_claim
from tests.console import labeldp
from tests.mechanisms.cases import NOISY, SHAPED, small_plan
from tests.plans import plan
from tests.tables import RANGE, source, table

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def shaped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows, folder = source(), tmp_path_factory.mktemp("joint") / "shaped"
    asked: dict[str, Any] = {"mechanism": "shaped-flag", "noise": "gaussian"}
    plan(rows, **BUDGET, **asked).release(rows).save(folder)
    return folder


def released(rows: Any = None, **asked: Any) -> Release:
    rows = source() if rows is None else rows
    return plan(rows, **(BUDGET | asked)).release(rows)


def test_two_shaped_releases_cost_less_than_twice(shaped: Path) -> None:
    """Theory §13; the share of the second moment is in."""
    certificate = Release.load(shaped).certificate
    assert certificate["shape"]["second_moment_noise_std"] is not None
    together = compose([shaped, shaped])
    assert together.epsilon(1e-6) == pytest.approx(1.455, abs=5e-4)
    assert together.epsilon(2e-6) == pytest.approx(1.403, abs=5e-4)
    assert together.mu == pytest.approx(math.sqrt(2) * certificate["mu"], rel=1e-12)
    assert together.sum_of_epsilons == 2.0
    assert together.delta(together.epsilon(1e-6)) <= 1e-6


def test_a_certificate_says_mu_where_its_curve_is_a_gaussian(shaped: Path) -> None:
    found = Release.load(shaped).certificate
    for epsilon, delta in found["curve"]:
        assert GaussianProfile(found["mu"]).delta(epsilon).upper == pytest.approx(delta, rel=1e-9)
    for other in ({"mechanism": "wtd-flag", "bags": 20}, {"mechanism": "noisy-rows", "delta": 0.0}):
        assert released(**other).certificate["mu"] is None


def test_unlike_laws_are_composed_and_never_below_their_parts(shaped: Path) -> None:
    sketch = released(mechanism="wtd-flag", bags=20, floor="added")
    pure = released(mechanism="shaped-flag", noise="radial", delta=0.0, epsilon=0.3)
    parts = [compose([each]) for each in (shaped, sketch, pure)]
    together = compose([shaped, sketch, pure])
    assert together.mu is None
    assert max(part.epsilon(1e-6) for part in parts) < together.epsilon(1e-6)
    assert together.epsilon(3e-6) < together.sum_of_epsilons


def test_releases_of_one_plan_share_their_bags() -> None:
    """As if they were independent would promise too much."""
    rows = source(5000)
    asked: dict[str, Any] = {"bags": 20, "bag_size": 60, "epsilon": 2.0, "delta": 1e-3}
    noisy = partial(plan, rows, mechanism="sampled-noisy-wtd-lag", over_draw=True, **asked)
    made, other = noisy(), noisy()
    shared, apart = (
        compose_claims([made.claim, each], [1, 1]) for each in (made.claim, other.claim)
    )
    drawn = made.claim.privacy_profile
    assert isinstance(drawn, SubsampledProfile)
    expected = SubsampledProfile(compose_laws([drawn.curve, drawn.curve]), drawn.chance)
    assert shared.delta(2.5) == expected.delta(2.5).upper
    assert shared.delta(2.5) > apart.delta(2.5)


def test_draws_of_one_seed_and_different_sizes_cost_no_less_than_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No honest plan repeats a seed, but certificates may: a row that is in the larger draw alone
    is in a bag with that draw's probability, and may be in the other one as well."""
    monkeypatch.setattr(bags, "fresh_seed", lambda: "5a2c9e7104f3b86d" * 4)
    rows = source(5000)
    asked: dict[str, Any] = {"bag_size": 60, "epsilon": 2.0, "delta": 1e-3, "over_draw": True}
    few, many = (
        plan(rows, mechanism="sampled-noisy-wtd-lag", bags=count, **asked).claim
        for count in (2, 40)
    )
    for claims in ([few, many], [many, few]):
        together = compose_claims(claims, [1, 1])
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            assert together.delta(epsilon) >= many.privacy_profile.delta(epsilon).upper
            assert together.delta(epsilon) >= few.privacy_profile.delta(epsilon).upper
    given = compose_laws([each.privacy_profile.curve for each in (few, many)])
    either = 42 * 60 / 5000
    assert together.delta(1.0) >= either * given.delta(1.0).lower


def test_rows_of_different_tables_do_not_meet(shaped: Path) -> None:
    with pytest.raises(InputError, match="not of one table"):
        compose([shaped, released(source(1500), mechanism="shaped-flag")])
    with pytest.raises(InputError, match="nothing to compose"):
        compose([])


def persons(rows: int, each: int, column: str = "id") -> Any:
    data = table(rows).append_column(column, pa.array(np.arange(rows) // each))
    return scan(data, label="label", label_range=RANGE, person=column)


def test_other_ids_of_one_table_are_not_composed() -> None:
    """Whoever has two rows in one release has twice the other's cost."""
    two, one = (persons(1000, each) for each in (2, 1))
    releases = [released(rows, mechanism="shaped-flag") for rows in (two, one)]
    with pytest.raises(InputError, match="up to 2 and up to 1 rows"):
        compose(releases)


def test_persons_are_protected_across_tables() -> None:
    one = released(persons(2000, 2), mechanism="shaped-flag", noise="gaussian")
    two = released(persons(1500, 3), mechanism="shaped-flag", noise="gaussian")
    together = compose([one, two])
    assert "2 tables" in together.unit
    assert "'id'" in together.unit
    assert together.epsilon(1e-6) == pytest.approx(1.455, abs=5e-4)


def test_releases_that_protect_other_units_are_not_composed(shaped: Path) -> None:
    """A ledger does it: it knows how many rows a person has."""
    person = released(persons(2000, 2), mechanism="shaped-flag", noise="gaussian")
    with pytest.raises(InputError, match="single rows and others persons"):
        compose([shaped, person])
    with pytest.raises(InputError, match="ids of another column"):
        compose([person, released(persons(1500, 3, "who"), mechanism="shaped-flag")])


def test_what_does_not_verify_is_refused(shaped: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged"
    shutil.copytree(shaped, forged)
    path = forged / "certificate.json"
    path.write_text(path.read_text().replace('"noise_std": ', '"noise_std": 9'))
    with pytest.raises(ReleaseError, match="does not verify"):
        compose([shaped, forged])


def test_the_command_says_what_the_library_does(shaped: Path, tmp_path: Path) -> None:
    answer = labeldp("compose", shaped, shaped, "--delta", "1e-6", "--json").json
    together = compose([shaped, shaped])
    assert answer["epsilon"] == together.epsilon(1e-6)
    assert answer["mu"] == together.mu
    assert answer["curve"][5] == [answer["epsilon"], together.delta(answer["epsilon"])]
    assert "1.455" in labeldp("compose", shaped, shaped).out
    assert "does not verify" in labeldp("compose", tmp_path).error


def test_the_claims_are_those_of_the_certificates(shaped: Path) -> None:
    claim = read_claim(Release.load(shaped).certificate)
    assert compose([shaped]).privacy_profile == claim.privacy_profile
    assert compose([shaped]).epsilon(1e-6) == epsilon_at(claim.privacy_profile, 1e-6)


def test_a_debit_whose_accountant_is_gone_counts_as_it_was_stated() -> None:
    """Neither is it forgotten nor does it make the ledger useless; of groups nothing is known."""
    noisy: Any = small_plan(NOISY, epsilon=3.0, delta=1e-4).claim
    document = noisy.to_json()
    assert claim_of_debit(document) == noisy
    document["accountant"]["name"] = "paper"
    stated = claim_of_debit(document)
    assert (stated.epsilon, stated.delta, stated.rows) == (3.0, 1e-4, noisy.rows)
    alone = compose_claims([stated], [1])
    assert alone.delta(3.0) == 1e-4
    assert alone.delta(2.999) == 1.0
    assert (alone.epsilon(1e-4), alone.epsilon(1e-5)) == (3.0, math.inf)
    other: Any = small_plan(SHAPED, epsilon=0.5, noise="radial").claim
    together = compose_claims([stated, other], [1, 1])
    assert 3.0 < together.epsilon(1e-3) < 4.5
    assert compose_claims([stated], [2]).delta(100.0) == 1.0
