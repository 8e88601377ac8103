"""Tables over m and k: for each number of bags a line for every kind of number.

Why there is no ε is told once below the table; a cell has its letter and what differs from cell to
cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from labeldp_paper.experiments.result import Row, Table, shown, spread

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
PRINTED = "as printed"
"""The form whose noise is the paper's."""
Place = tuple[int, int]
"""Number of bags and bag size."""


@dataclass(frozen=True)
class Line:
    """One kind of number, a text for each place of the grid."""

    title: str
    texts: Mapping[Place, str]


class Reasons:
    """Sentences that differ in their numbers only share a letter."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self._numbers: dict[tuple[str, ...], list[list[str]]] = {}
        for reason in reasons:
            self._numbers.setdefault(_words(reason), []).append(_NUMBER.findall(reason))

    def mark(self, reason: str) -> str:
        """What stands in a cell instead of the sentence."""
        words, numbers = _words(reason), _NUMBER.findall(reason)
        own = [numbers[place] for place in self._differing(words)]
        letter = self._letter(words)
        return f"none ({letter}: {', '.join(own)})" if own else f"none ({letter})"

    def legend(self) -> tuple[str, ...]:
        """Every sentence, an ellipsis for a number that stands in the cells."""
        return tuple(f"({self._letter(words)}) {self._sentence(words)}" for words in self._numbers)

    def _letter(self, words: tuple[str, ...]) -> str:
        return chr(ord("a") + list(self._numbers).index(words))

    def _differing(self, words: tuple[str, ...]) -> list[int]:
        columns = zip(*self._numbers[words], strict=True)
        return [place for place, values in enumerate(columns) if len(set(values)) > 1]

    def _sentence(self, words: tuple[str, ...]) -> str:
        differing, numbers = self._differing(words), self._numbers[words][0]
        said = ["…" if place in differing else number for place, number in enumerate(numbers)]
        return "".join(a + b for a, b in zip(words, [*said, ""], strict=True))


def _words(reason: str) -> tuple[str, ...]:
    return tuple(_NUMBER.split(reason))


def square(caption: str, kinds: Mapping[str, Sequence[Row]]) -> Table:
    """A column for each bag size; for each number of bags the paper's line, one a kind, and ε."""
    rows = [row for mine in kinds.values() for row in mine]
    printed = [row for row in rows if row["form"] == PRINTED]
    reasons = Reasons(row["reason"] for row in rows if row["epsilon"] is None)
    lines = [
        Line("paper", {_place(row): _paper(row) for row in printed if "paper_mse" in row}),
        *(Line(title, _errors(mine, reasons)) for title, mine in kinds.items()),
        Line("ε as printed", {_place(row): _epsilon(row, reasons) for row in printed}),
    ]
    return _table(caption, [line for line in lines if line.texts], reasons.legend())


def _table(caption: str, lines: Sequence[Line], below: tuple[str, ...]) -> Table:
    places = {place for line in lines for place in line.texts}
    sizes = sorted({size for _, size in places})
    shown_lines = [
        (shown(bags), line.title, *(line.texts.get((bags, size), "–") for size in sizes))
        for bags in sorted({bags for bags, _ in places})
        for line in lines
    ]
    header = ("m", "test MSE", *(f"k = {size}" for size in sizes))
    return Table(caption, header, tuple(shown_lines), below)


def _place(row: Row) -> Place:
    return row["bags"], row["bag_size"]


def _paper(row: Row) -> str:
    return spread(row["paper_mse"], row["paper_mse_std"])


def _errors(rows: Sequence[Row], reasons: Reasons) -> dict[Place, str]:
    return {_place(row): _error(row, reasons) for row in rows}


def _error(row: Row, reasons: Reasons) -> str:
    if row["mse"] is None:
        return reasons.mark(row["reason"])
    return spread(row["mse"], row["mse_std"]) if row["seeds"] > 1 else f"{row['mse']:,.2f}"


def _epsilon(row: Row, reasons: Reasons) -> str:
    if row["epsilon"] is None:
        return reasons.mark(row["reason"])
    text = f"{row['epsilon']:.3g}"
    a_priori = row.get("epsilon_a_priori")
    return f"{text} (a priori {a_priori:.3g})" if a_priori else text
