"""δ = 0: who has such a guarantee gives it, the others refuse and name who does."""

from __future__ import annotations

import pytest

from labeldp import InputError
from labeldp.mechanisms.registry import mechanisms
from tests.console import labeldp
from tests.mechanisms.cases import SHAPED, small_plan
from tests.tables import source

IMPURE = [mechanism.name for mechanism in mechanisms() if not mechanism.allows_pure]
PURE = [mechanism.name for mechanism in mechanisms() if mechanism.allows_pure]


@pytest.mark.parametrize("name", IMPURE)
def test_a_mechanism_that_has_none_refuses_and_names_those_that_have(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} has no guarantee with δ = 0; give `delta`"):
        small_plan(name, delta=0.0)
    told = labeldp("account", name, "--rows", 1000, "--label-range", 0, 10, "--delta", 0)
    assert told.code == 2
    assert "--delta above 0" in told.error


@pytest.mark.parametrize("name", PURE)
def test_a_claim_that_spends_no_delta_says_so(name: str) -> None:
    """The strongest that is true, whatever was asked for: here δ is too small to be of use."""
    asked, without = small_plan(name, delta=1e-90), small_plan(name, delta=0.0)
    assert asked.claim == without.claim
    assert asked.claim.delta == 0.0
    certificate = asked.release(source(400)).certificate
    assert certificate["delta"] == 0.0
    assert [group["delta"] for group in certificate["groups"]] == [0.0] * 3
    impure = small_plan(name, delta=0.1, **({"noise": "gaussian"} if name == SHAPED else {}))
    assert impure.claim.delta == 0.1
