"""Terms: functions of encoded columns, from whole numbers to whole numbers.

    Hinges   max(0, c − k): c the code of a number on its grid, k that of a knot;
    Product  c·c'/2**shift, rounded half to even; c where a row has a level, else 0; or 1 where it
             has both of two levels.

A code of a fitted row is at most 2**19 in absolute value, so c·c' is exact in a double, and `shift`
brings it back to 2**19. Hinges and products go on beyond the fitted range as they were within.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.features.columns import CategoricalColumn, NumericColumn, check_fields
from labeldp.io_util import Check, is_count, is_text, is_whole, list_of

LARGEST_CODE = 2**19
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Derived:
    """One design column that a term makes."""

    name: str
    scale: float
    """Design value = code × scale."""
    slope: float
    """What its coefficient is multiplied by to be one in original units."""
    reach: float
    """No code of a fitted row is larger in absolute value."""
    owners: frozenset[str]
    """The raw columns that it is made of."""


@dataclass(frozen=True)
class Fitted:
    """The columns that terms are made of, by name."""

    numeric: Mapping[str, NumericColumn]
    categorical: Mapping[str, CategoricalColumn]

    @classmethod
    def of(
        cls, numeric: Iterable[NumericColumn], categorical: Iterable[CategoricalColumn]
    ) -> Fitted:
        return cls({c.name: c for c in numeric}, {c.name: c for c in categorical})


class Sight(Protocol):
    """Encoded rows, as terms look at them."""

    def number(self, column: str) -> Numbers:
        """The codes of a numeric column."""

    def levels(self, column: str) -> NDArray[np.int32]:
        """The level codes of a categorical column."""


Writer = Callable[[Sight, Numbers], None]


class Term(Protocol):
    """Some design columns that are a function of others."""

    @property
    def owners(self) -> frozenset[str]: ...
    def derived(self, fitted: Fitted) -> Sequence[Derived]: ...
    def writer(self, fitted: Fitted) -> Writer:
        """What puts the codes of its columns, for some rows, into those of an array."""


@dataclass(frozen=True)
class LinearSpline:
    """A curve of one number: straight lines that bend at knots."""

    column: str
    knots: tuple[int, ...]
    """Codes, increasing."""

    @property
    def owners(self) -> frozenset[str]:
        return frozenset([self.column])

    def derived(self, fitted: Fitted) -> Sequence[Derived]:
        column = fitted.numeric[self.column]
        shown, slope = column.design_names[0], column.scale / column.step
        reach = [column.reach + abs(knot) for knot in self.knots]
        places = [(knot + column.centre) * column.step for knot in self.knots]
        return [
            Derived(f"max(0, {shown} - {place:.6g})", column.scale, slope, most, self.owners)
            for place, most in zip(places, reach, strict=True)
        ]

    def writer(self, _fitted: Fitted) -> Writer:
        return self._write

    def _write(self, rows: Sight, out: Numbers) -> None:
        codes = rows.number(self.column)
        for place, knot in enumerate(self.knots):
            np.maximum(codes - knot, 0.0, out=out[:, place])

    def to_json(self) -> dict[str, Any]:
        return {"column": self.column, "knots": list(self.knots)}

    @classmethod
    def from_json(cls, entry: Any) -> LinearSpline:
        check_fields(entry, _HINGES, "features: hinges")
        return cls(entry["column"], tuple(entry["knots"]))


@dataclass(frozen=True)
class Part:
    """A factor of a product: a number, or whether a row has a level (by its code)."""

    column: str
    level: int | None = None

    def name(self, fitted: Fitted) -> str:
        if self.level is not None:
            return fitted.categorical[self.column].design_names[self.level]
        column = fitted.numeric[self.column]
        return f"({column.design_names[0]} - {column.centre * column.step:.6g})"

    def size(self, fitted: Fitted) -> tuple[float, float, float]:
        """Scale, slope and reach."""
        if self.level is not None:
            return 1.0, 1.0, 1.0
        column = fitted.numeric[self.column]
        return column.scale, column.scale / column.step, column.reach

    def codes(self, rows: Sight) -> Numbers:
        if self.level is None:
            return rows.number(self.column)
        return np.asarray(rows.levels(self.column) == self.level, np.float64)


@dataclass(frozen=True)
class Interaction:
    """How the effect of one column depends on another's."""

    left: Part
    right: Part
    shift: int = 0

    @classmethod
    def of(cls, left: Part, right: Part, fitted: Fitted) -> Interaction:
        """With the smallest shift that brings its codes within reach."""
        most = left.size(fitted)[2] * right.size(fitted)[2]
        shift = 0
        while most / 2**shift + 0.5 > LARGEST_CODE:
            shift += 1
        return cls(left, right, shift)

    @property
    def owners(self) -> frozenset[str]:
        return frozenset([self.left.column, self.right.column])

    def derived(self, fitted: Fitted) -> Sequence[Derived]:
        ours, theirs = self.left.size(fitted), self.right.size(fitted)
        scale, slope, reach = (one * other for one, other in zip(ours, theirs, strict=True))
        name, unit = f"{self.left.name(fitted)} * {self.right.name(fitted)}", 2.0**self.shift
        return [Derived(name, scale * unit, slope, reach / unit + 0.5, self.owners)]

    def writer(self, _fitted: Fitted) -> Writer:
        return self._write

    def _write(self, rows: Sight, out: Numbers) -> None:
        column = out[:, 0]
        np.multiply(self.left.codes(rows), self.right.codes(rows), out=column)
        if self.shift:
            np.multiply(column, 2.0**-self.shift, out=column)
            np.rint(column, out=column)
        column += 0.0  # no -0.0

    def to_json(self) -> dict[str, Any]:
        parts = [[part.column, part.level] for part in (self.left, self.right)]
        return {"of": parts, "shift": self.shift}

    @classmethod
    def from_json(cls, entry: Any) -> Interaction:
        check_fields(entry, _PRODUCT, "features: a product")
        left, right = (Part(*part) for part in entry["of"])
        return cls(left, right, entry["shift"])


def _is_part(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and is_text(value[0])
        and (value[1] is None or is_count(value[1]))
    )


def _rises(value: Any) -> bool:
    return list_of(is_whole)(value) and value == sorted(set(value)) and bool(value)


_HINGES: dict[str, Check] = {"column": is_text, "knots": _rises}
_PRODUCT: dict[str, Check] = {
    "of": lambda value: list_of(_is_part)(value) and len(value) == 2,
    "shift": lambda value: is_count(value) and value <= 64,
}
