"""Terms of a basis: functions of encoded columns, from whole numbers to whole numbers.

    LinearSpline  max(0, c − k): c the code of a number on its grid, k that of a knot;
    Interaction   c·c'/2**shift, rounded half to even; c where a row has a level, else 0; or 1
                  where it has both of two levels.

A code of a fitted row is at most 2**19 in absolute value, so c·c' is exact in a double, and
`shift` brings it back to 2**19. Both continue beyond the fitted range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.features.columns import CategoricalColumn, NumericColumn, check_fields
from labeldp.io_util import Check, is_count, is_text, is_whole, list_of
from labeldp.kernels import Codes

LARGEST_CODE = 2**19
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class DerivedColumn:
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
class FittedColumns:
    """The columns that terms are made of, by name."""

    numeric: Mapping[str, NumericColumn]
    categorical: Mapping[str, CategoricalColumn]

    @classmethod
    def of(
        cls, numeric: Iterable[NumericColumn], categorical: Iterable[CategoricalColumn]
    ) -> FittedColumns:
        return cls({c.name: c for c in numeric}, {c.name: c for c in categorical})


@dataclass(frozen=True)
class RowValues:
    """Encoded rows by the names of their columns."""

    numbers: Numbers
    codes: Sequence[Codes]
    places: Mapping[str, int]
    groups: Mapping[str, tuple[int, NDArray[np.int32]]]
    """Of every category: its group, and its level at every joint code."""

    def number(self, column: str) -> Numbers:
        """Return the codes of a numeric column."""
        return self.numbers[:, self.places[column]]

    def levels(self, column: str) -> NDArray[np.int32]:
        """Return the level codes of a categorical column."""
        group, table = self.groups[column]
        return table[self.codes[group]]


Writer = Callable[[RowValues, Numbers], None]


class Term(Protocol):
    """Some design columns that are a function of others."""

    @property
    def owners(self) -> frozenset[str]: ...
    def derived(self, fitted: FittedColumns) -> Sequence[DerivedColumn]: ...
    def writer(self, fitted: FittedColumns) -> Writer:
        """Return what writes the codes of its columns, for some rows, into an array."""


@dataclass(frozen=True)
class LinearSpline:
    """A curve of one number: straight lines that bend at knots."""

    column: str
    knots: tuple[int, ...]
    """Codes, increasing."""

    @property
    def owners(self) -> frozenset[str]:
        return frozenset([self.column])

    def derived(self, fitted: FittedColumns) -> Sequence[DerivedColumn]:
        column = fitted.numeric[self.column]
        shown, slope = column.design_names[0], column.scale / column.step
        reach = [column.reach + abs(knot) for knot in self.knots]
        places = [(knot + column.centre) * column.step for knot in self.knots]
        return [
            DerivedColumn(f"max(0, {shown} - {place:.6g})", column.scale, slope, most, self.owners)
            for place, most in zip(places, reach, strict=True)
        ]

    def writer(self, _fitted: FittedColumns) -> Writer:
        return self._write

    def _write(self, rows: RowValues, out: Numbers) -> None:
        codes = rows.number(self.column)
        for place, knot in enumerate(self.knots):
            np.maximum(codes - knot, 0.0, out=out[:, place])

    def to_json(self) -> dict[str, Any]:
        return {"column": self.column, "knots": list(self.knots)}

    @classmethod
    def from_json(cls, entry: Any) -> LinearSpline:
        check_fields(entry, _SPLINE, "features: hinges")
        return cls(entry["column"], tuple(entry["knots"]))


@dataclass(frozen=True)
class Part:
    """A factor of an interaction: a number, or whether a row has a level (by its code)."""

    column: str
    level: int | None = None

    def name(self, fitted: FittedColumns) -> str:
        if self.level is not None:
            return fitted.categorical[self.column].design_names[self.level]
        column = fitted.numeric[self.column]
        return f"({column.design_names[0]} - {column.centre * column.step:.6g})"

    def size(self, fitted: FittedColumns) -> tuple[float, float, float]:
        """Return scale, slope and reach."""
        if self.level is not None:
            return 1.0, 1.0, 1.0
        column = fitted.numeric[self.column]
        return column.scale, column.scale / column.step, column.reach

    def codes(self, rows: RowValues) -> Numbers:
        if self.level is None:
            return rows.number(self.column)
        return np.asarray(rows.levels(self.column) == self.level, np.float64)


@dataclass(frozen=True)
class Interaction:
    """How the effect of one column depends on another's: their product."""

    left: Part
    right: Part
    shift: int = 0

    @classmethod
    def of(cls, left: Part, right: Part, fitted: FittedColumns) -> Interaction:
        """Return the product with the smallest shift that brings its codes within 2**19."""
        most = left.size(fitted)[2] * right.size(fitted)[2]
        shift = 0
        while most / 2**shift + 0.5 > LARGEST_CODE:
            shift += 1
        return cls(left, right, shift)

    @property
    def owners(self) -> frozenset[str]:
        return frozenset([self.left.column, self.right.column])

    def derived(self, fitted: FittedColumns) -> Sequence[DerivedColumn]:
        ours, theirs = self.left.size(fitted), self.right.size(fitted)
        scale, slope, reach = (one * other for one, other in zip(ours, theirs, strict=True))
        name, unit = f"{self.left.name(fitted)} * {self.right.name(fitted)}", 2.0**self.shift
        return [DerivedColumn(name, scale * unit, slope, reach / unit + 0.5, self.owners)]

    def writer(self, _fitted: FittedColumns) -> Writer:
        return self._write

    def _write(self, rows: RowValues, out: Numbers) -> None:
        column = out[:, 0]
        np.multiply(self.left.codes(rows), self.right.codes(rows), out=column)
        if self.shift:
            np.multiply(column, 2.0**-self.shift, out=column)
            np.rint(column, out=column)
        column += 0.0  # no -0.0: equal rows must have equal bytes

    def to_json(self) -> dict[str, Any]:
        parts = [[part.column, part.level] for part in (self.left, self.right)]
        return {"of": parts, "shift": self.shift}

    @classmethod
    def from_json(cls, entry: Any) -> Interaction:
        check_fields(entry, _INTERACTION, "features: a product")
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


_SPLINE: dict[str, Check] = {"column": is_text, "knots": _rises}
_INTERACTION: dict[str, Check] = {
    "of": lambda value: list_of(_is_part)(value) and len(value) == 2,
    "shift": lambda value: is_count(value) and value <= 64,
}
