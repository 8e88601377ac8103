"""What hostile tests share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import data, published, write
from tests.hostile import counting
from tests.hostile.world import World, make

__all__ = ["data", "published", "tried", "world", "write"]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """One of every file; tests must not change it."""
    return make(tmp_path_factory.mktemp("world"))


@pytest.fixture
def tried() -> counting.Tried:
    """Counts trials, which are printed at the end."""
    return counting.tried


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How often every condition was tried."""
    if counting.COUNTS:
        terminalreporter.section("hostile conditions: times tried, all ended as they must")
        for line in counting.table():
            terminalreporter.write_line(line)
