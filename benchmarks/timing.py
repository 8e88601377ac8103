"""Side-by-side timing: every candidate in turn, several rounds, the best of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
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

    def to_json(self) -> dict[str, float]:
        return {"seconds": self.wall, "cpu_seconds": self.cpu}


def once(run: Callable[[], Any]) -> tuple[Timing, Any]:
    """Time one call; its answer too."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = run()
    return Timing(time.perf_counter() - wall, time.process_time() - cpu), answer


def best(timings: Iterable[Timing]) -> Timing:
    """The least of each clock."""
    seen = list(timings)
    return Timing(min(t.wall for t in seen), min(t.cpu for t in seen))


def side_by_side(
    candidates: Mapping[str, Callable[[], Any]], rounds: int
) -> tuple[dict[str, Timing], dict[str, Any]]:
    """Time candidates round by round, so that a busy moment hits all alike; keep answers too."""
    seen: dict[str, list[Timing]] = {name: [] for name in candidates}
    answers: dict[str, Any] = {}
    for _ in range(rounds):
        for name, run in candidates.items():
            timing, answers[name] = once(run)
            seen[name].append(timing)
    return {name: best(timings) for name, timings in seen.items()}, answers
