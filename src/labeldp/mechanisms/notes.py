"""Notes on a plan, ranked: people read the first few."""

from __future__ import annotations

from collections.abc import Iterable


class Note(str):
    """A note that says how much it matters; plain text, such as on a column's encoding, is last."""

    CHOICE, COLUMN, NOISE = 1, 2, 3
    """A choice that was made for you; a column that is gone; noise that can be avoided."""

    cost: int

    def __new__(cls, text: str, cost: int) -> Note:
        self = super().__new__(cls, text)
        self.cost = cost
        return self

    def __reduce__(self) -> tuple[type[Note], tuple[str, int]]:
        return type(self), (str(self), self.cost)


def spared(law: str, pure: bool, delta: float) -> list[str]:
    """That δ was asked for, and a claim without it is made: the strongest that is true."""
    if not pure or delta == 0:
        return []
    words = f"{law} noise is the smaller here and has pure ε: nothing of δ is spent"
    return [Note(words, Note.CHOICE)]


def ranked(notes: Iterable[str]) -> tuple[str, ...]:
    """What costs most first; in the order given where it costs the same."""
    return tuple(sorted(notes, key=lambda note: -getattr(note, "cost", 0)))
