"""The notation page names every public field of facts, claims and forecasts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from labeldp.accounting.sketch import DatasetBounds, Measurement
from labeldp.mechanisms.bags import Draw
from labeldp.mechanisms.forecast import Forecast
from labeldp.mechanisms.registry import mechanism_names
from labeldp.releases.certificate import Claim

PAGE = Path(__file__).parents[1] / "docs" / "notation.md"


def claims(kind: type[Any]) -> Iterator[type[Any]]:
    """The claims of our mechanisms."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("labeldp."):
            yield each
            yield from claims(each)


def documented() -> list[type[Any]]:
    for name in mechanism_names():
        import_module(f"labeldp.mechanisms.{name.replace('-', '_')}")
    return [DatasetBounds, Measurement, Draw, Forecast, *claims(Claim)]


@pytest.mark.parametrize("kind", documented(), ids=lambda kind: kind.__name__)
def test_every_public_field_is_named(kind: type[Any]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = [each.name for each in fields(kind) if not each.name.startswith("_")]
    assert names
    for name in names:
        assert re.search(rf"`(?:\w+\.)?{name}`", text), f"{kind.__name__}.{name}"
