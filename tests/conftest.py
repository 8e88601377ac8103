"""What holds for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version

import pytest
from hypothesis import settings

from labeldp.mechanisms import bags
from labeldp.releases.certificate import Claim
from labeldp.sampling.streams import Randomness
from tests.seeds import seeds_from, streams_from

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # a busy machine is no reason to fail

PRICES = {name: getattr(Claim, name) for name in ("delta_at", "epsilon_for")}
WHERE_KEYS_ARE_TESTED = ("tests/sampling/test_rounded_noise.py", "tests/sampling/test_streams.py")
FROM_OS = Randomness.from_os
WHERE_PRICES_ARE_TESTED = (
    "tests/accounting/",
    "tests/golden/",
    "tests/contracts/test_privacy_profile.py",
)


@pytest.fixture(autouse=True)
def same_bags(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test draws the same bags every time it runs: what fails once fails again."""
    monkeypatch.setattr(bags, "fresh_seed", seeds_from(request.node.nodeid))


@pytest.fixture(autouse=True)
def same_noise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the same noise, but where the keys themselves are what is tested."""
    keyed = request.node.nodeid.startswith(WHERE_KEYS_ARE_TESTED)
    streams = FROM_OS if keyed else streams_from(request.node.nodeid)
    monkeypatch.setattr(Randomness, "from_os", streams)


@pytest.fixture(scope="session", autouse=True)
def shared_noise() -> Iterator[None]:
    """Releases that many tests share are drawn before any of them begins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "from_os", streams_from("shared"))
        yield


@pytest.fixture(scope="session", autouse=True)
def priced_once() -> Iterator[None]:
    """Equal claims have equal prices: tests that verify one release often need not wait."""
    with pytest.MonkeyPatch.context() as patch:
        for name, price in PRICES.items():
            patch.setattr(Claim, name, cache(price))
        yield


@pytest.fixture(scope="session", autouse=True)
def same_software() -> Iterator[None]:
    """No package is replaced while tests run: which versions there are is read once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labeldp.releases.certificate.version", cache(version))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """What is written is read again while the machine runs: the disk may take its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)
        yield


@pytest.fixture(autouse=True)
def priced_anew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where prices are what is tested, none is remembered."""
    if request.node.nodeid.startswith(WHERE_PRICES_ARE_TESTED):
        for name, price in PRICES.items():
            monkeypatch.setattr(Claim, name, price)
