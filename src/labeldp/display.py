"""How values show themselves: a title and a few facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable


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
