"""Seeds for tests: what fails once fails again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import count

from labeldp.sampling.streams import Randomness


def seeds_from(name: str) -> Callable[[], str]:
    """In place of `fresh_seed`: other seeds at every call, the same for the same name."""
    numbers = count()
    return lambda: hashlib.sha256(f"{name} {next(numbers)}".encode()).hexdigest()


def streams_from(name: str) -> Callable[[], Randomness]:
    """In place of `Randomness.from_os`: streams that call themselves private and can be repeated.

    Certificates, plans and files are those of a private release.
    """
    seeds = seeds_from(name)

    def streams() -> Randomness:
        made = Randomness.experiment(int(seeds(), 16))
        made.private = True
        return made

    return streams
