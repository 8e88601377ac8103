"""How values show themselves: a title and a few facts, as text or, in a notebook, as HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from html import escape


class ReprMixin(ABC):
    """Give a class a readable repr; dataclasses that use it need `repr=False`.

    Facts must be public: no label, and nothing computed from labels except what was published.
    """

    @abstractmethod
    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        """Return the title and the pairs of name and value to show."""

    def __repr__(self) -> str:
        title, facts = self._repr_facts()
        pairs = list(facts)
        width = max((len(name) for name, _ in pairs), default=0)
        lines = [f"  {name:<{width}}  {value}".rstrip() for name, value in pairs]
        return "\n".join([title, *lines])

    def _repr_html_(self) -> str:
        """Return a table for notebooks; names may come from anyone's file, so all is escaped."""
        title, facts = self._repr_facts()
        rows = (
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in facts
        )
        return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"


class Private:
    """Holds what depends on labels: prints nothing of it, and refuses to be pickled."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"{type(self).__name__} is private and is not written anywhere")


def format_budget(epsilon: float, delta: float) -> str:
    """Return ε and δ as text."""
    return f"ε = {epsilon:g}, δ = {delta:g}"
