"""Which mutations are tried: a seeded sample, so that a run can be repeated and widened."""

from __future__ import annotations

import math
import random
from pathlib import Path

from tools.mutants.operators import Mutation, mutations

PACKAGE = Path("src/labeldp")

ROOMS = {
    "accounting": ("accounting",),
    "door": ("door.py",),
    "randomness": ("_random.py",),
    "mechanisms": ("mechanisms", "planning/verbs.py", "planning/bases.py"),
    "statistics": ("statistics",),
    "release": ("release",),
    "checkpoints": ("engines/checkpoint.py",),
    "labels": ("source/labels.py",),
    "ledger": ("ledger/ledger.py", "ledger/chain.py", "ledger/fingerprint.py"),
}
"""Where a slip would cost privacy without a word."""

ELSEWHERE = (
    *(f"mechanisms/workbench/{name}.py" for name in ("notes", "forecasting", "trial")),
    "mechanisms/options.py",
    *("mechanisms/wtd_flag/trial.py", "mechanisms/shaped_flag/trial.py"),
    *("mechanisms/noisy_rows/trial.py", "release/about.py", "release/croissant.py"),
    *("mechanisms/sampled_wtd_flag/trial.py", "mechanisms/sampled_noisy_wtd_lag/trial.py"),
    *(f"statistics/{name}.py" for name in ("shape", "shape_dual", "shape_routes", "stacked_fits")),
)
"""In these rooms, but no part of a guarantee: advice, forecasts, descriptions, the audit's own
trials, and the search for a good shape (any shape is priced by what is measured of it)."""


def files(root: Path, room: str) -> list[Path]:
    """The modules of a room."""
    found = []
    for name in ROOMS[room]:
        place = root / PACKAGE / name
        found += [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [path for path in found if _name(root, path) not in ELSEWHERE]


def sample(root: Path, rooms: list[str], count: int, seed: int) -> list[Mutation]:
    """`count` mutations, each room in the share of its square root, at most one at a place."""
    drawn: list[Mutation] = []
    pools = {room: _shuffled(root, room, seed) for room in rooms}
    weights = {room: math.sqrt(len(pool)) for room, pool in pools.items()}
    for room, pool in pools.items():
        share = count * weights[room] / sum(weights.values())
        drawn += pool[: max(1, round(share))]
    return drawn


def _shuffled(root: Path, room: str, seed: int) -> list[Mutation]:
    """A longer sample begins with the shorter one of the same seed."""
    every = [m for path in files(root, room) for m in mutations(_name(root, path), _read(path))]
    random.Random(f"{seed} {room}").shuffle(every)
    places: dict[tuple[str, int, int], Mutation] = {}
    for mutation in every:
        places.setdefault((mutation.path, mutation.start, mutation.end), mutation)
    return list(places.values())


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root / PACKAGE).as_posix()
