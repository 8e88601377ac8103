"""Notes on a plan, sorted by importance: people read the first few."""

from __future__ import annotations

from collections.abc import Iterable

ROWS_LEFT_OUT = "rows without a label"


class Note(str):
    """A note with its importance; plain text, such as on a column's encoding, comes last."""

    CHOICE, COLUMN, NOISE = 1, 2, 3
    """A choice that was made for the user; a column left out; noise that can be avoided."""

    cost: int

    def __new__(cls, text: str, cost: int) -> Note:
        self = super().__new__(cls, text)
        self.cost = cost
        return self

    def __reduce__(self) -> tuple[type[Note], tuple[str, int]]:
        return type(self), (str(self), self.cost)


def unused_delta_note(law: str, pure: bool, delta: float) -> list[str]:
    """Say that δ was asked for, but the claim does not need it."""
    if not pure or delta == 0:
        return []
    words = f"{law} noise is the smaller here and has pure ε: nothing of δ is spent"
    return [Note(words, Note.CHOICE)]


def left_out_note(left_out: int | None, rows: int) -> list[str]:
    """Say how many rows without a label are left out, of those and the `rows` that have one."""
    if left_out is None:
        return []
    return [Note(f"{ROWS_LEFT_OUT}: {left_out_words(left_out, rows)}", Note.NOISE + 1)]


def left_out_words(left_out: int, rows: int) -> str:
    """How many rows are left out, of those and the `rows` that have a label."""
    total = left_out + rows
    share = f"{left_out / total:.1%}"
    return f"{left_out:,} of {total:,} ({share}) left out; who lacks a label becomes visible"


def sort_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Return the notes with the most important first, else in the order given."""
    return tuple(sorted(notes, key=lambda note: -getattr(note, "cost", 0)))
