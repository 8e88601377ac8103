"""How a value shows itself: a title and a few facts, as text or, in a notebook, as HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape

__all__ = ["Card", "Shown", "budget"]


@dataclass(frozen=True)
class Card:
    """Public facts alone: no label, and nothing computed from labels but what was published."""

    title: str
    facts: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """A few lines."""
        width = max((len(name) for name, _ in self.facts), default=0)
        lines = [f"  {name:<{width}}  {value}".rstrip() for name, value in self.facts]
        return "\n".join([self.title, *lines])

    def html(self) -> str:
        """The same as a table; names may come from anyone's file."""
        rows = (
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self.facts
        )
        return f"<table><caption>{escape(self.title)}</caption>{''.join(rows)}</table>"


class Shown(ABC):
    """What shows itself as its card, printed or in a notebook; of dataclasses, `repr=False`."""

    @property
    @abstractmethod
    def _card(self) -> Card: ...

    def __repr__(self) -> str:
        return self._card.text()

    def _repr_html_(self) -> str:
        return self._card.html()


def budget(epsilon: float, delta: float) -> str:
    """ε and δ."""
    return f"ε = {epsilon:g}, δ = {delta:g}"
