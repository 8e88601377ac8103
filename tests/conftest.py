"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from labeldp.mechanisms import bags
from labeldp.release import Claim
from tests.seeds import seeds_from

PRICES = {name: getattr(Claim, name) for name in ("delta_at", "epsilon_for")}
WHERE_PRICES_ARE_TESTED = ("tests/accounting/", "tests/golden/", "tests/contracts/test_curve.py")


@pytest.fixture(autouse=True)
def same_bags(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test draws the same bags every time it runs: what fails once fails again."""
    monkeypatch.setattr(bags, "fresh_seed", seeds_from(request.node.nodeid))


@pytest.fixture(scope="session", autouse=True)
def priced_once() -> Iterator[None]:
    """Equal claims have equal prices: tests that verify one release often need not wait."""
    with pytest.MonkeyPatch.context() as patch:
        for name, price in PRICES.items():
            patch.setattr(Claim, name, cache(price))
        yield


@pytest.fixture(autouse=True)
def priced_anew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where prices are what is tested, none is remembered."""
    if request.node.nodeid.startswith(WHERE_PRICES_ARE_TESTED):
        for name, price in PRICES.items():
            monkeypatch.setattr(Claim, name, price)
