"""What holds for every test."""

from __future__ import annotations

import pytest

from labeldp.mechanisms import bags
from tests.seeds import seeds_from


@pytest.fixture(autouse=True)
def same_bags(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test draws the same bags every time it runs: what fails once fails again."""
    monkeypatch.setattr(bags, "fresh_seed", seeds_from(request.node.nodeid))
