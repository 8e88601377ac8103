"""Side-by-side timing: every candidate in turn, several rounds, the best of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Seconds on the clock and of all processors, each the best of its rounds."""

    wall: float
    cpu: float

    def scaled(self, factor: float) -> Timing:
        """What `factor` times the work would take, if time grows in line."""
        return Timing(self.wall * factor, self.cpu * factor)


def side_by_side(
    candidates: Mapping[str, Callable[[], Any]], rounds: int
) -> tuple[dict[str, Timing], dict[str, Any]]:
    """Time candidates round by round, so that a busy moment hits all alike; keep answers too."""
    walls: dict[str, list[float]] = {name: [] for name in candidates}
    cpus: dict[str, list[float]] = {name: [] for name in candidates}
    answers: dict[str, Any] = {}
    for _ in range(rounds):
        for name, run in candidates.items():
            wall, cpu = time.perf_counter(), time.process_time()
            answers[name] = run()
            cpus[name].append(time.process_time() - cpu)
            walls[name].append(time.perf_counter() - wall)
    return {name: Timing(min(walls[name]), min(cpus[name])) for name in candidates}, answers
