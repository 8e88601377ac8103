"""One small plan and release of every mechanism, made once."""

from __future__ import annotations

import pytest

from labeldp import Plan, Release
from tests.mechanisms.cases import CASES, small_release


@pytest.fixture(params=list(CASES))
def mechanism(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(mechanism: str) -> Plan:
    """Tests must not change it."""
    return small_release(mechanism)[0]


@pytest.fixture
def released(mechanism: str) -> Release:
    """Tests must not change it."""
    return small_release(mechanism)[1]
