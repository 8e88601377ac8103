"""One encoded column: what a value becomes, as an exact integer."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.data.columns import NULL_WORDS, to_float
from labeldp.errors import DataError
from labeldp.features.grid import Grid
from labeldp.features.levels import (
    Spellings,
    names_of,
    nearest_places,
    other_spelling,
    place_name,
    whole_number,
)
from labeldp.io_util import (
    Check,
    is_count,
    is_flag,
    is_number,
    is_positive,
    is_text,
    is_whole,
    list_of,
)
from labeldp.kernels import Kernels, Positions

OTHER = "(other)"
MISSING = "(missing)"


@dataclass(frozen=True)
class NumericColumn:
    """A quantity on the grid of multiples of 2**exponent.

    The code of x is rint(x / 2**exponent) − centre, an integer of at most 2**19 in absolute
    value on the fitted rows; a missing x has the code `fill`, the mean. The design value is
    code · scale. If the column is `winsorised`, x outside [low, high] counts as the nearest end,
    at prediction too; if not, it gets a code beyond. With `log`, sign(x)·log(1 + |x|) stands for x.
    """

    name: str
    exponent: int
    centre: int
    fill: int
    scale: float
    low: float
    high: float
    missing: int
    indicator: bool
    winsorised: bool = False
    log: bool = False

    @cached_property
    def grid(self) -> Grid:
        """Where x enters."""
        return Grid(self.exponent, self.log, (self.low, self.high) if self.winsorised else None)

    @property
    def step(self) -> float:
        """The grid's spacing in units of x, or of its logarithm."""
        return self.grid.step

    @property
    def imputed(self) -> float:
        """The x, or the logarithm, that a missing value counts as."""
        return (self.centre + self.fill) * self.step

    @property
    def reach(self) -> float:
        """No code of a fitted row is larger in absolute value."""
        ends = (self.grid.entering(self.low), self.grid.entering(self.high), self.imputed)
        return max(abs(end / self.step - self.centre) + 0.5 for end in ends)

    @property
    def design_names(self) -> tuple[str, ...]:
        """Names of the design columns: the quantity and, if it has one, its indicator."""
        shown = f"log({self.name})" if self.log else self.name
        return (shown, f"{self.name} is missing") if self.indicator else (shown,)

    @classmethod
    def from_json(cls, entry: Any) -> NumericColumn:
        """The column of which this has the fields, strictly."""
        check_fields(entry, _NUMERIC, "features: a numeric column", _SINCE)
        numbers = {name: float(entry[name]) for name in ("scale", "low", "high")}
        return cls(**{**entry, **numbers})

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values; flags that are not set are left out, as they once were."""
        return {n: value for n, value in asdict(self).items() if n not in _SINCE or value}

    def encode(self, array: pa.Array, out: NDArray[np.float64], kernels: Kernels) -> None:
        """Write the codes, and the indicator if there is one, into the columns of `out`."""
        codes, values = out[:, 0], to_float(array, self.name)
        finite = self.grid.put(codes, values, self.centre, kernels)
        if self.indicator:
            out[:, 1] = 0.0 if finite else np.isnan(codes)
        if not finite:
            codes[np.isnan(codes)] = self.fill


@dataclass(frozen=True)
class CategoricalColumn:
    """A category: one code per kept level, then one for missing, then one for all others.

    `missing` says where nulls go: a level of their "own", with the "other" levels, or "none"
    when the fitted rows had no nulls. Where the others are too few for a code they count as the
    level `rest`; with `nearest` levels are whole numbers, and any other counts as the nearest.
    """

    name: str
    levels: tuple[str, ...]
    missing: Literal["own", "other", "none"]
    other: bool
    rest: str | None = None
    nearest: bool = False

    @property
    def size(self) -> int:
        """Number of codes, and of design columns."""
        return len(self.labels)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The levels as shown, all different; a level named like a special one is quoted."""
        special = ([MISSING] if self.missing == "own" else []) + ([OTHER] if self.other else [])
        return (*map(_shown, self.levels), *special)

    @property
    def design_names(self) -> tuple[str, ...]:
        """Names of the design columns."""
        return tuple(f"{self.name}={label}" for label in self.labels)

    @classmethod
    def from_json(cls, entry: Any) -> CategoricalColumn:
        """The column of which this has the fields, strictly."""
        what = "features: a categorical column"
        check_fields(entry, _CATEGORICAL, what, _REST)
        if entry.get("rest") not in (*entry["levels"], None):
            raise DataError(f"{what} has a malformed 'rest'; restore the original file")
        if entry.get("nearest") and None in map(whole_number, entry["levels"]):
            raise DataError(f"{what} has a malformed 'nearest'; restore the original file")
        return cls(**{**entry, "levels": tuple(entry["levels"])})

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values; `rest` and `nearest` only where there is one."""
        entry = asdict(self) | {"levels": list(self.levels)}
        return {name: value for name, value in entry.items() if name not in _REST or value}

    def table(self, dictionary: pa.Array) -> NDArray[np.int32]:
        """Return the code of every value of a dictionary, then of null; −1 for unknown ones."""
        index = self._index
        codes = [
            index[name] if name in index else self._code(name)
            for name in (*names_of(dictionary), None)
        ]
        return np.array(codes, dtype=np.int32)

    def check_known(
        self, dictionary: pa.Array, positions: Positions, codes: NDArray[np.int32]
    ) -> None:
        """Refuse rows of unknown levels; a dictionary may hold some that no row has."""
        if codes.min(initial=0) < 0:
            place = int(positions[int(np.argmin(codes))])
            raise self._unknown(place_name(dictionary, place))

    @cached_property
    def _index(self) -> dict[str | None, int]:
        return {level: code for code, level in enumerate(self.levels)}

    def _code(self, level: str | None) -> int:
        """Return the code of a value that is not spelt as a level is, −1 if there is none."""
        if level is None:
            return len(self.levels) if self.missing == "own" else self._rest
        if level in NULL_WORDS:
            return self._code(None)
        spelt = other_spelling(level) or level
        code = self._index.get(spelt)
        if code is None and self.nearest:
            code = self._nearest_code(spelt)
        return self._index.get(self._spellings.of(level), self._rest) if code is None else code

    def _nearest_code(self, level: str) -> int | None:
        number = whole_number(level)
        if number is None:
            return None
        order, codes = self._order
        (place,) = nearest_places(order, [number])
        return codes[place]

    @cached_property
    def _order(self) -> tuple[list[int], list[int]]:
        """The levels as ascending numbers, and their codes."""
        known = sorted((int(level), code) for code, level in enumerate(self.levels))
        return [number for number, _ in known], [code for _, code in known]

    @cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self.levels)

    @property
    def _rest(self) -> int:
        if self.rest is not None:
            return self._index[self.rest]
        return self.size - 1 if self.other else -1

    def _unknown(self, level: str | None) -> DataError:
        shown = "a missing value" if level is None else f"level {level[:40]!r}"
        return DataError(
            f"column {self.name!r} has {shown}, which the fitted rows did not have; remove those "
            f"rows, or fit with a `min_count` that leaves a level for others"
        )


def _shown(level: str) -> str:
    quote = level in (OTHER, MISSING) or level.startswith('"')
    return json.dumps(level, ensure_ascii=False) if quote else level


def check_fields(
    entry: Any, checks: dict[str, Check], what: str, optional: dict[str, Check] | None = None
) -> None:
    """Refuse what was read from JSON if a field is missing, unknown or malformed."""
    every = checks | (optional or {})
    if not isinstance(entry, dict) or not set(checks) <= set(entry) <= set(every):
        raise DataError(f"{what} has missing or unknown fields; restore the original file")
    for name, check in every.items():
        if name in entry and not check(entry[name]):
            raise DataError(f"{what} has a malformed {name!r}; restore the original file")


def _sorted_levels(value: Any) -> bool:
    return list_of(is_text)(value) and value == sorted(set(value))


_NUMERIC: dict[str, Check] = {
    "name": is_text,
    "exponent": lambda value: is_whole(value) and abs(value) <= 1000,
    "centre": is_whole,
    "fill": is_whole,
    "scale": is_positive,
    "low": is_number,
    "high": is_number,
    "missing": is_count,
    "indicator": is_flag,
}
_SINCE: dict[str, Check] = {"winsorised": is_flag, "log": is_flag}
"""Fields that columns have had since: left out where they are False."""
_CATEGORICAL: dict[str, Check] = {
    "name": is_text,
    "levels": _sorted_levels,
    "missing": lambda value: value in ("own", "other", "none"),
    "other": is_flag,
}

_REST: dict[str, Check] = {"rest": is_text, "nearest": is_flag}

assert set(_NUMERIC | _SINCE) == {field.name for field in fields(NumericColumn)}
assert set(_CATEGORICAL | _REST) == {field.name for field in fields(CategoricalColumn)}
