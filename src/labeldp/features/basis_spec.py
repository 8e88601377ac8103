"""`BasisSpec`: which basis is asked for, in words that people write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labeldp.errors import InputError

LINEAR, AUTO = "linear", "auto"
SPLINES, FOURIER = "splines", "fourier"
ALL = "all"
KNOTS, WAVES = 10, 100
"""How many where none are named."""
PAIR_COLUMNS = 300
_USUAL = {SPLINES: KNOTS, FOURIER: WAVES}
_MOST = {SPLINES: 1000, FOURIER: 4000}
_FORMS = "linear, splines, splines:KNOTS, splines+fourier:N or auto"

Pair = tuple[str, str]


@dataclass(frozen=True)
class BasisSpec:
    """How many knots and waves; which pairs of columns."""

    knots: int = 0
    waves: int = 0
    pairs: tuple[Pair, ...] = ()
    all_pairs: bool = False
    """All pairs besides, as far as the columns allowed suffice."""
    columns: int = PAIR_COLUMNS
    """At most so many for all pairs together."""
    bent: tuple[tuple[str, int], ...] = ()
    """Columns with knots of their own number."""
    argument: str = "interactions"
    """Where the pairs are named."""

    @classmethod
    def of(cls, basis: str, interactions: Iterable[str], columns: int) -> BasisSpec:
        """As written: "splines+fourier:100", and "age:sex" or "all"."""
        if basis == AUTO:
            raise InputError("`basis` auto is chosen by `plan`; name one here")
        parts = _parts(basis)
        named = [text.strip() for text in interactions]
        pairs = tuple(_pair(text) for text in named if text != ALL)
        return cls(parts.get(SPLINES, 0), parts.get(FOURIER, 0), pairs, ALL in named, columns)

    @property
    def empty(self) -> bool:
        return not (self.knots or self.waves or self.pairs or self.all_pairs or self.bent)


def _parts(basis: str) -> dict[str, int]:
    """The parts of a basis and how many of each; none of the linear one."""
    parts = dict[str, int]()
    for text in basis.split("+"):
        name, _, count = text.strip().partition(":")
        if name == LINEAR and not count:
            continue
        if name not in _USUAL or name in parts or not (count or "1").isdigit():
            raise InputError(f"`basis` is {basis!r}; write {_FORMS}")
        parts[name] = counted("basis", name, count or str(_USUAL[name]))
    return parts


def counted(argument: str, part: str, text: str) -> int:
    """How many, as written; refused beyond what makes sense."""
    if not 1 <= int(text) <= _MOST[part]:
        raise InputError(f"`{argument}` asks for {part}:{text}; take 1 to {_MOST[part]:,}")
    return int(text)


def _pair(text: str) -> Pair:
    left, _, right = text.partition(":")
    if not left.strip() or not right.strip() or left.strip() == right.strip():
        raise InputError(
            f"`interactions` holds {text!r}; write pairs of different columns, age:sex, or {ALL}"
        )
    return left.strip(), right.strip()
