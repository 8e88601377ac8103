"""What people read of plans and releases, from their JSON alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Fact = tuple[str, str]
WORDS = "words"
"""The heading of a column of remarks; it is not shown."""


@dataclass(frozen=True)
class Shown:
    """A table for people; without a header, names and what they are."""

    title: str
    rows: Sequence[Sequence[Any]]
    header: Sequence[str] | None = None


@dataclass(frozen=True)
class Words:
    """What a mechanism says of itself, beside what is said of every mechanism."""

    plan: tuple[Fact, ...] = ()
    """Lines of `labeldp plan`."""
    release: tuple[Fact, ...] = ()
    """Lines of `labeldp release`: what hides the labels."""
    summary: tuple[str, ...] = ()
    """The same in a few words, for `labeldp verify`."""

    def __add__(self, other: Words) -> Words:
        return Words(
            self.plan + other.plan, self.release + other.release, self.summary + other.summary
        )


def number(value: float | None, digits: int = 4) -> str:
    """A number for people: thousands separated, few digits."""
    if value is None:
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.{digits}g}" if abs(value) < 1e5 else f"{value:,.0f}"


def floor_words(document: dict[str, Any]) -> Words:
    """The residual floor of a plan, or of a certificate."""
    floor, rows = document["floor"], document["bag_size"]
    needed = number(floor["needed"] / rows)
    added = floor.get("added_variance", 0.0) / rows
    text = f"noise of variance {number(added)} per row added" if added else "no noise needed"
    return Words(
        plan=(("floor", f"{floor['mode']}: residual plus noise ≥ {needed} per row"),),
        release=(("floor", f"{floor['mode']}: {text}"),),
        summary=(f"floor {floor['mode']}",),
    )


def draw_words(document: dict[str, Any]) -> Words:
    """The bags that were drawn, and what the guarantee is about."""
    draw = document["draw"]
    chance = f"a row is in a bag with probability {draw['chance']:.3g}"
    return Words(
        plan=(("guarantee", f"{draw['guarantee']} ({chance})"),),
        release=(("holds", draw["holds"]),),
        summary=(draw["guarantee"],),
    )
