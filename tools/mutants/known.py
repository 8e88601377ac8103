"""Mutations that are known to change nothing, or to be noticed by nothing, and why."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.operators import Mutation

FILE = Path(__file__).with_name("known.toml")


@dataclass(frozen=True)
class Known:
    """`equivalent`: nothing that is promised changes. Otherwise no test notices it, yet."""

    path: str
    inside: str
    code: str
    before: str
    after: str
    equivalent: bool
    why: str

    def is_about(self, mutation: Mutation) -> bool:
        """Whether this is that change, on whichever line it stands now."""
        names = ("path", "inside", "code", "before", "after")
        return all(getattr(self, name) == getattr(mutation, name) for name in names)


def known(file: Path = FILE) -> list[Known]:
    """The list, as people keep it."""
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["mutation"]
    return [Known(**entry) for entry in entries]


def find(mutation: Mutation, entries: list[Known]) -> Known | None:
    """What is known about a mutation."""
    return next((entry for entry in entries if entry.is_about(mutation)), None)
