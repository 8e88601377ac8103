"""One small plan and release of every mechanism, made once, and claims priced once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from labeldp import Release
from labeldp.mechanisms import bags
from labeldp.mechanisms.sampled_noisy_wtd_lag.claim import NoisyLagClaim
from labeldp.mechanisms.sampled_wtd_flag.claim import SampledFlagClaim
from labeldp.mechanisms.wtd_flag.claim import WeightedFlagClaim
from labeldp.planning import Plan
from tests.mechanisms.cases import ROWS, SMALL, small_plan
from tests.seeds import seeds_from
from tests.tables import source


@pytest.fixture(scope="session", autouse=True)
def priced_once() -> Iterator[None]:
    """Equal claims have equal prices: tests that verify one release often need not wait."""
    with pytest.MonkeyPatch.context() as patch:
        for claim in (WeightedFlagClaim, SampledFlagClaim, NoisyLagClaim):
            patch.setattr(claim, "delta_at", cache(claim.delta_at))
            patch.setattr(claim, "epsilon_for", cache(claim.epsilon_for))
        yield


@cache
def _made(mechanism: str) -> tuple[Plan, Release]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bags, "fresh_seed", seeds_from(mechanism))
        made = small_plan(mechanism)
    return made, made.release(source(ROWS))


@pytest.fixture(params=list(SMALL))
def mechanism(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(mechanism: str) -> Plan:
    """Tests must not change it."""
    return _made(mechanism)[0]


@pytest.fixture
def released(mechanism: str) -> Release:
    """Tests must not change it."""
    return _made(mechanism)[1]
