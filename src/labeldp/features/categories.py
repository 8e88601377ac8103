"""Categorical columns: their levels as text, the merging of rare levels, and the codes of rows.

A value has one text, whatever type its column arrives in. A level needs `min_count` rows to have a
design column: rare levels have high leverage, which costs privacy. Levels that have them are never
merged for the sake of others.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, numpy_numbers
from labeldp.data.columns import NULL_WORDS, is_moment
from labeldp.errors import DataError
from labeldp.features.columns import DesignColumn
from labeldp.kernels import Codes

LevelCounts = Counter[str | None]
Form = Callable[[str], str]
Missing = Literal["own", "other", "none"]

OTHER = "(other)"
MISSING = "(missing)"
MOST_CODES = 4096
"""Whole numbers are counted up to so many where a name hints at codes; no category has more."""
_FEWEST_ON_A_SCALE = 4  # fewer whole numbers are names rather than a scale with neighbours
_WORD = 4  # letters from which capitals make no other word: AA, Aa and aa may be three things
_ACCENTS = re.compile("[\u0300-\u036f]")
"""Those of Latin, Greek and Cyrillic letters, once they stand alone."""


def codes_of(array: pa.Array) -> tuple[pa.Array, Codes]:
    """Return a dictionary and, per row, the position in it; null is the position past the end."""
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = array.indices
    if indices.null_count:
        past = arrow_numbers(np.array([len(array.dictionary)], np.int32))[0]
        indices = pc.fill_null(indices.cast(pa.int32()), past)
    places = numpy_numbers(indices)
    # NumPy neither counts nor indexes by unsigned integers of 64 bits.
    return array.dictionary, places.view(np.int64) if places.dtype == np.uint64 else places


def names_of(dictionary: pa.Array) -> list[str | None]:
    """Return the text of every value of a dictionary; None where the value means missing."""
    if not is_moment(dictionary.type):
        return [_level_name(value) for value in dictionary.to_pylist()]
    names = list[str | None]()
    for text in dictionary.cast(pa.string()).to_pylist():
        if text is not None:  # without what a finer unit adds: fractions of zero, then midnight
            text = text.rstrip("Z")
            text = text.rstrip("0").rstrip(".") if "." in text else text
            text = text.removesuffix(" 00:00:00")
        names.append(text)
    return names


def _level_name(value: Any) -> str | None:
    """Return the one text of a value: 3, 3.0 and Decimal("3.00") are all "3"; NaN is missing."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, float | Decimal):
        raise DataError(
            f"a category holds a value of type {type(value).__name__}, which is neither text nor a "
            f"number; turn its column into text first"
        )
    if math.isnan(value):
        return None
    whole = math.isfinite(value) and value == int(value)
    return str(int(value)) if whole else repr(float(value))


def _whole_number(text: str) -> int | None:
    """Return the whole number that a level is the name of: 7 of "7", but None of "007"."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        return None
    return int(text) if str(int(text)) == text else None


def _nearest(numbers: Sequence[int], number: int) -> int:
    """Return the nearest of ascending numbers; halfway, the lower."""
    above = bisect_left(numbers, number)
    return min(numbers[max(0, above - 1) : above + 1], key=lambda each: abs(each - number))


def _spaced(text: str) -> str:
    """Return a text without repeated spaces and spaces at its ends."""
    return " ".join(text.split())


def _folded(text: str) -> str:
    """Return a text without capitals, accents and repeated spaces."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return _spaced(text.casefold())


def _grouped(levels: Iterable[str | None], form: Form) -> dict[str, list[str]]:
    """Return the levels by their form; missing is left out."""
    groups: dict[str, list[str]] = {}
    for level in levels:
        if level is not None:
            groups.setdefault(form(level), []).append(level)
    return groups


@lru_cache(maxsize=64)
def _spellings(levels: tuple[str, ...]) -> list[tuple[Form, dict[str, list[str]]]]:
    """Return the ways in which texts may be spellings of a level, and the levels by their form."""
    return [(form, _grouped(levels, form)) for form in (_spaced, _folded)]


def _spelling_of(text: str, levels: tuple[str, ...]) -> str | None:
    """Return the level of which a text is another spelling, if it is one of a single level."""
    groups = (groups.get(form(text), []) for form, groups in _spellings(levels))
    return next((group[0] for group in groups if len(group) == 1), None)


@dataclass(frozen=True)
class CategoricalColumn:
    """A category: one code per kept level, then one for missing, then one for all others.

    `missing` says where nulls go: a level of their "own", with the "other" levels, or "none"
    when the fitted rows had no nulls. Where the others are too few for a code they count as the
    level `rest`; with `nearest` levels are whole numbers, and any other counts as the nearest.
    """

    name: str
    levels: tuple[str, ...]
    missing: Missing
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
        labels = [
            json.dumps(level, ensure_ascii=False)
            if level in (OTHER, MISSING) or level.startswith('"')
            else level
            for level in self.levels
        ]
        return (*labels, *[MISSING] * (self.missing == "own"), *[OTHER] * self.other)

    @cached_property
    def design_columns(self) -> tuple[DesignColumn, ...]:
        """One column for every code."""
        owners = frozenset([self.name])
        return tuple(DesignColumn(f"{self.name}={label}", owners) for label in self.labels)

    def table(self, dictionary: pa.Array) -> NDArray[np.int32]:
        """Return the code of every value of a dictionary, then of null; −1 for unknown ones."""
        index = self._index
        codes = [
            index[name] if name in index else self._code(name)
            for name in (*names_of(dictionary), None)
        ]
        return np.array(codes, dtype=np.int32)

    def refuse_unknown(self, dictionary: pa.Array, place: int) -> NoReturn:
        """Refuse the value at a place of a dictionary, which is no level that rows may have."""
        level = (*names_of(dictionary.slice(place, 1)), None)[0]  # null is past the end
        shown = "a missing value" if level is None else f"level {level[:40]!r}"
        raise DataError(
            f"column {self.name!r} has {shown}, which the fitted rows did not have; remove those "
            f"rows, or fit with a `min_count` that leaves a level for others"
        )

    @cached_property
    def _index(self) -> dict[str | None, int]:
        return {level: code for code, level in enumerate(self.levels)}

    def _code(self, level: str | None) -> int:
        """Return the code of a value that is not spelt as a level is, −1 if there is none."""
        rest = self._index.get(self.rest, self.size - 1 if self.other else -1)
        if level is None or level in NULL_WORDS:
            return len(self.levels) if self.missing == "own" else rest
        typed = level.lower() if level.lower() in ("true", "false") else level
        if level.strip()[:1] in tuple("0123456789+-."):  # "3.0" is spelt as "3"
            with suppress(ValueError):
                typed = _level_name(float(level)) or level
        if typed in self._index:
            return self._index[typed]
        number = _whole_number(typed) if self.nearest else None
        if number is not None:
            return self._index[str(_nearest(sorted(map(int, self.levels)), number))]
        return self._index.get(_spelling_of(level, self.levels), rest)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values; `rest` and `nearest` only where there is one."""
        entry = asdict(self) | {"levels": list(self.levels)}
        return {n: value for n, value in entry.items() if n not in ("rest", "nearest") or value}

    @classmethod
    def from_json(cls, entry: Any) -> CategoricalColumn:
        """Read what `to_json` wrote; the feature map has checked types."""
        levels = entry["levels"]
        is_scale = bool(levels) and None not in map(_whole_number, levels)
        sound = levels == sorted(set(levels)) and entry.get("rest") in (*levels, None)
        if not sound or (entry.get("nearest") and not is_scale):
            raise DataError("features has malformed levels; restore the original file")
        return cls(**{**entry, "levels": tuple(levels)})


def merge_levels(
    name: str, counts: LevelCounts, min_count: int, notes: list[str]
) -> CategoricalColumn:
    """Merge levels with fewer than `min_count` rows; missing counts as a level.

    Spellings of one word are one level: texts that differ in spaces or, from four letters on, in
    capitals and accents; and a rare text that is a spelling of one level. The other rare levels
    together are "(other)"; where even that has too few rows, it is missing and the others, and
    where missing is rare too, they count as the most frequent level, the `rest`. Of whole numbers
    there are no others: each joins the level it is nearest to.
    """
    if all(level is None or _whole_number(level) is not None for level in counts):
        column = _join_neighbours(name, counts, min_count, notes)
        if column is not None:
            return column
    respelt = Counter(counts)
    for form in (_spaced, _folded):
        for shape, group in _grouped(respelt, form).items():
            if len(group) > 1 and (form is _spaced or len(shape) >= _WORD):
                proper = shape if form is _spaced else _most_frequent(respelt, group)
                respelt[proper] = sum([respelt.pop(level) for level in group])
    kept = {level for level, rows in respelt.items() if rows >= min_count}
    levels = tuple(sorted(level for level in kept if level is not None))
    rare = respelt.keys() - kept
    merged = {level for level in rare if level is None or _spelling_of(level, levels) is None}
    rows = sum(respelt[level] for level in merged)
    own, rest = None in kept, None
    if merged and rows < min_count:
        rest = _most_frequent(respelt, levels) if levels and not own else None
        own = False
    if spellings := len(rare) - len(merged) + len(counts) - len(respelt):
        same = "levels differ only in capitals, accents or spaces"
        notes.append(f"{name}: {spellings} of {len(counts)} {same}")
    if merged:
        where = f"too few to be told apart, taken as {rest}" if rest else f"merged into {OTHER}"
        notes.append(
            f"{name}: {len(merged)} of {len(counts)} levels {where}, {rows} rows; a level needs "
            f"{min_count} rows"
        )
    missing: Missing = "none" if None not in counts else "own" if own else "other"
    return CategoricalColumn(name, levels, missing, other=bool(merged) and rest is None, rest=rest)


def _join_neighbours(
    name: str, counts: LevelCounts, min_count: int, notes: list[str]
) -> CategoricalColumn | None:
    """Join rare whole numbers to their neighbours; None if none is rare, or of too few or many.

    The levels are all numbers that are frequent by themselves, and of every run of rare ones
    between them as many as it has rows for: its median, by rows, where it has rows for one.
    """
    numbers = {int(level): rows for level, rows in counts.items() if level is not None}
    rare = sum(rows < min_count for rows in numbers.values())
    if not rare or not _FEWEST_ON_A_SCALE <= len(numbers) <= MOST_CODES:
        return None
    chosen, run = list[int](), list[int]()
    for number, rows in sorted(numbers.items()):
        is_frequent = rows >= min_count
        run = [number] if is_frequent else run + [number] * rows
        if is_frequent or len(run) >= min_count:
            chosen.append(run[(len(run) - 1) // 2])
            run = []
    while chosen:  # until each has rows enough with those nearest to it
        joined = dict.fromkeys(chosen, 0)
        for number, rows in numbers.items():
            joined[_nearest(chosen, number)] += rows
        poorest = min(chosen, key=lambda level: (joined[level], level))
        if joined[poorest] >= min_count:
            break
        chosen.remove(poorest)
    if len(chosen) < 2:
        return None
    notes.append(
        f"{name}: {rare} of {len(numbers)} whole numbers are rare and join the nearest of "
        f"{len(chosen)} levels; a level needs {min_count} rows"
    )
    levels, nulls = tuple(sorted(map(str, chosen))), counts[None]
    missing: Missing = "none" if not nulls else "own" if nulls >= min_count else "other"
    rest = _most_frequent(counts, levels) if missing == "other" else None
    return CategoricalColumn(name, levels, missing, other=False, rest=rest, nearest=True)


def _most_frequent(counts: LevelCounts, levels: Iterable[str]) -> str:
    """Return the most frequent level; ties go by name."""
    return min(levels, key=lambda level: (-counts[level], level))
