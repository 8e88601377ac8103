"""One small plan and release of every mechanism, made once."""

from __future__ import annotations

from functools import cache

import pytest

from labeldp import Release
from labeldp.mechanisms import bags
from labeldp.mechanisms.planning import Plan
from tests.mechanisms.cases import ROWS, SMALL, small_plan
from tests.seeds import seeds_from
from tests.tables import source


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
