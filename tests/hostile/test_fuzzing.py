"""Every file that is read, changed at random: a line or an answer, no traceback and no label."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.hostile import mutating
from tests.hostile.counting import Tried
from tests.hostile.world import SLOTS, World, run

ROUNDS = int(os.environ.get("LABELDP_FUZZ", "12"))
"""Changed files of every kind, for every command that reads it."""


def fuzz(world: World, name: str, seed: int, rounds: int, place: Path, commands: int) -> int:
    """Changed files, each read by some commands; how many were read."""
    draw, content, count = random.Random(f"{name} {seed}"), (world.place / name).read_bytes(), 0
    for turn in range(rounds):
        structured = name.endswith(".json") and draw.random() < 0.7
        fresh = (mutating.json_of if structured else mutating.bytes_of)(content, draw)
        file = world.beside(name, place / f"{seed} {turn}".replace(" ", "-"))
        file.write_bytes(fresh)
        file.chmod(0o600)
        for number, command in enumerate(draw.sample(SLOTS[name], min(commands, len(SLOTS[name])))):
            words = world.words(command, name, file, file.parents[0] / f"new{number}")
            outcome = run(words, place)
            assert outcome.fault is None, (seed, turn, words, outcome)
            count += 1
    return count


@pytest.mark.parametrize("name", SLOTS)
def test_a_fixed_sample(name: str, world: World, tmp_path: Path) -> None:
    fuzz(world, name, 0, 2, tmp_path, 1)


@pytest.mark.hostile
@pytest.mark.parametrize("name", SLOTS)
def test_fresh_and_fixed_seeds(name: str, world: World, tmp_path: Path, tried: Tried) -> None:
    fresh = random.SystemRandom().randrange(10**9)
    print(f"{name}: fuzzed with seed {fresh}")
    for seed in (1, 2, fresh):
        count = fuzz(world, name, seed, ROUNDS, tmp_path, 3)
        tried(f"files changed at random, read by commands: {name}", count)
