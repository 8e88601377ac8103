"""Terms of a basis: functions of encoded columns, from whole numbers to whole numbers.

    LinearSpline  max(0, c − k): c the code of a number on its grid, k that of a knot;
    Interaction   c·c'/2**shift, rounded half to even; c where a row has a level, else 0; or 1
                  where it has both of two levels.

A code of a fitted row is at most 2**19 in absolute value, so c·c' is exact in a double, and
`shift` brings it back to 2**19. Both continue beyond the fitted range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.features.columns import (
    LARGEST_CODE,
    CategoricalColumn,
    DesignColumn,
    NumericColumn,
    check_fields,
)
from labeldp.io_util import Check, is_count, is_text, is_whole, list_of

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class FittedColumns:
    """The columns that terms are made of, by name."""

    numeric: Mapping[str, NumericColumn]
    categorical: Mapping[str, CategoricalColumn]


CodesOf = Callable[[str], NDArray[Any]]
"""Returns the codes of some rows in a column: of a number, or of the levels of a category."""
Writer = Callable[[CodesOf, Numbers], None]
"""Writes the codes of a term's columns, for some rows, into an array."""


@dataclass(frozen=True)
class LinearSpline:
    """A curve of one number: straight lines that bend at knots."""

    column: str
    knots: tuple[int, ...]
    """Codes, increasing."""

    @property
    def owners(self) -> frozenset[str]:
        return frozenset([self.column])

    def design_columns(self, fitted: FittedColumns) -> list[DesignColumn]:
        column = fitted.numeric[self.column]
        number = column.design_columns[0]
        return [
            DesignColumn(
                f"max(0, {number.name} - {(knot + column.centre) * column.step:.6g})",
                self.owners,
                number.scale,
                number.slope,
                reach=number.reach + abs(knot),
                degree=1,
            )
            for knot in self.knots
        ]

    def writer(self, _fitted: FittedColumns) -> Writer:
        def write(codes_of: CodesOf, out: Numbers) -> None:
            codes = codes_of(self.column)
            for place, knot in enumerate(self.knots):
                np.maximum(codes - knot, 0.0, out=out[:, place])

        return write

    def to_json(self) -> dict[str, Any]:
        return {"column": self.column, "knots": list(self.knots)}

    @classmethod
    def from_json(cls, entry: Any) -> LinearSpline:
        check_fields(entry, {"column": is_text, "knots": rises}, "features: hinges")
        return cls(entry["column"], tuple(entry["knots"]))


@dataclass(frozen=True)
class Part:
    """A factor of an interaction: a number, or whether a row has a level (by its code)."""

    column: str
    level: int | None = None

    def design_column(self, fitted: FittedColumns) -> DesignColumn:
        """Return the design column that the factor is."""
        if self.level is None:
            return fitted.numeric[self.column].design_columns[0]
        return fitted.categorical[self.column].design_columns[self.level]

    def name(self, fitted: FittedColumns) -> str:
        """Return how the factor is shown: numbers are less their means."""
        name = self.design_column(fitted).name
        if self.level is not None:
            return name
        column = fitted.numeric[self.column]
        return f"({name} - {column.centre * column.step:.6g})"

    def codes(self, codes_of: CodesOf) -> Numbers:
        codes = codes_of(self.column)
        return codes if self.level is None else np.asarray(codes == self.level, np.float64)


@dataclass(frozen=True)
class Interaction:
    """How the effect of one column depends on another's: their product."""

    left: Part
    right: Part
    shift: int = 0

    @classmethod
    def of(cls, left: Part, right: Part, fitted: FittedColumns) -> Interaction:
        """Return the product with the smallest shift that brings its codes within 2**19."""
        most = left.design_column(fitted).reach * right.design_column(fitted).reach
        shift = 0
        while most / 2**shift + 0.5 > LARGEST_CODE:
            shift += 1
        return cls(left, right, shift)

    @property
    def owners(self) -> frozenset[str]:
        return frozenset([self.left.column, self.right.column])

    def design_columns(self, fitted: FittedColumns) -> list[DesignColumn]:
        ours, theirs = self.left.design_column(fitted), self.right.design_column(fitted)
        unit = 2.0**self.shift
        return [
            DesignColumn(
                f"{self.left.name(fitted)} * {self.right.name(fitted)}",
                self.owners,
                ours.scale * theirs.scale * unit,
                ours.slope * theirs.slope,
                reach=ours.reach * theirs.reach / unit + 0.5,
                degree=2,
            )
        ]

    def writer(self, _fitted: FittedColumns) -> Writer:
        def write(codes_of: CodesOf, out: Numbers) -> None:
            column = out[:, 0]
            np.multiply(self.left.codes(codes_of), self.right.codes(codes_of), out=column)
            if self.shift:
                np.multiply(column, 2.0**-self.shift, out=column)
                np.rint(column, out=column)
            column += 0.0  # no -0.0: equal rows must have equal bytes

        return write

    def to_json(self) -> dict[str, Any]:
        parts = [[part.column, part.level] for part in (self.left, self.right)]
        return {"of": parts, "shift": self.shift}

    @classmethod
    def from_json(cls, entry: Any) -> Interaction:
        check_fields(entry, _INTERACTION, "features: a product")
        left, right = (Part(*part) for part in entry["of"])
        return cls(left, right, entry["shift"])


def rises(value: Any) -> bool:
    """Return whether a JSON value is a list of increasing whole numbers, one at least."""
    return list_of(is_whole)(value) and value == sorted(set(value)) and bool(value)


def _are_parts(value: Any) -> bool:
    return (
        list_of(lambda part: isinstance(part, list) and len(part) == 2)(value)
        and len(value) == 2
        and all(is_text(column) for column, _ in value)
        and all(level is None or is_count(level) for _, level in value)
    )


_INTERACTION: dict[str, Check] = {
    "of": _are_parts,
    "shift": lambda value: is_count(value) and value <= 64,
}
