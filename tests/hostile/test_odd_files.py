"""A table of cases: every file that is read, in every odd form, with what is said of it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.hostile.counting import Tried
from tests.hostile.oddities import HARMLESS, ODDITIES, expected, put
from tests.hostile.world import SLOTS, World, run


def ends_well(world: World, name: str, odd: str, command: str, place: Path) -> None:
    file = world.beside(name, place)
    put(odd, file)
    outcome = run(world.words(command, name, file, place / "new"), place)
    assert outcome.fault is None, (command, outcome)
    if outcome.result.code == 0:
        assert (name, odd) in HARMLESS, outcome
        return
    said, words = outcome.result.err + outcome.result.out, expected(name, odd)
    assert any(word in said for word in words), (words, said)


PAIRS = list(product(SLOTS, ODDITIES))


@pytest.mark.parametrize(("name", "odd"), PAIRS[::11])
def test_some_cases(name: str, odd: str, world: World, tmp_path: Path) -> None:
    ends_well(world, name, odd, SLOTS[name][0], tmp_path / "case")


@pytest.mark.hostile
@pytest.mark.parametrize(("name", "odd"), PAIRS)
def test_every_case(name: str, odd: str, world: World, tmp_path: Path, tried: Tried) -> None:
    for number, command in enumerate(SLOTS[name]):
        ends_well(world, name, odd, command, tmp_path / str(number))
    tried("odd files, each with the line it must bring", len(SLOTS[name]))
