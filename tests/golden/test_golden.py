"""What the code gave when it was recorded, it gives today: every number to its last digit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.golden import record

recorded = cache(record.recorded)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, cases in record.KINDS.items() for name in cases]
)
def test_as_recorded(kind: str, name: str) -> None:
    found = list(differences(recorded(kind)[name], record.computed(kind, name)))
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("kind", record.KINDS)
def test_every_record_has_its_case(kind: str) -> None:
    assert list(recorded(kind)) == list(record.KINDS[kind])


def test_hundreds_of_answers_are_recorded() -> None:
    assert len(recorded("tables")) >= 12
    assert sum(map(len, recorded("accounting").values())) >= 300


def differences(then: Any, now: Any, where: str = "") -> Iterator[str]:
    """Where two JSON values differ, in type as well; floats by their shortest exact form."""
    if isinstance(then, dict) and isinstance(now, dict) and set(then) == set(now):
        for name in then:
            yield from differences(then[name], now[name], f"{where}.{name}")
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for place, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from differences(one, other, f"{where}[{place}]")
    elif repr(then) != repr(now):
        yield f"{where or 'it'} was {then!r} and is {now!r}"


def test_differences_are_seen_to_the_last_bit() -> None:
    then = {"a": [1.0, {"b": 0.1}], "c": None}
    assert not list(differences(then, {"c": None, "a": [1.0, {"b": 0.1}]}))
    for now in (
        {"a": [1, {"b": 0.1}], "c": None},
        {"a": [1.0, {"b": 0.10000000000000002}], "c": None},
        {"a": [1.0, {"b": 0.1}, 2], "c": None},
        {"a": [1.0, {"b": 0.1}]},
        {"a": [1.0, {"b": 0.1}], "c": "None"},
    ):
        assert list(differences(then, now))
