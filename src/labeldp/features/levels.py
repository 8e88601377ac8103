"""Values of a category as text, the same text whatever type the column arrives in."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrow_util import arrow_numbers, integer_kind, numpy_numbers
from labeldp.data.columns import is_clock, is_moment, is_text
from labeldp.errors import DataError
from labeldp.kernels import Positions, positions

_BEGINS_NUMBER = frozenset("0123456789+-.")
_ACCENTS = re.compile("[\u0300-\u036f]")
"""Those of Latin, Greek and Cyrillic letters, once they stand alone."""


def codes_of(array: pa.Array) -> tuple[pa.Array, Positions]:
    """Return a dictionary and, per row, the position in it; null is the position past the end."""
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = array.indices
    if indices.null_count:
        past = len(array.dictionary)
        if past > np.iinfo(integer_kind(indices.type)).max:
            indices = indices.cast(pa.int64())
        end = arrow_numbers(np.array([past], integer_kind(indices.type)))[0]
        indices = pc.fill_null(indices, end)
    return array.dictionary, positions(numpy_numbers(indices))


def names_of(dictionary: pa.Array) -> list[str | None]:
    """Return the text of every value of a dictionary; None where the value means missing."""
    if is_text(dictionary.type):
        return list(dictionary.to_pylist())
    if is_moment(dictionary.type):
        return [None if text is None else _moment(text) for text in _as_text(dictionary)]
    if is_clock(dictionary.type):
        return [None if value is None else str(value) for value in dictionary.to_pylist()]
    return [level_name(value) for value in dictionary.to_pylist()]


def place_name(dictionary: pa.Array, place: int) -> str | None:
    """Return the text at a position that `codes_of` gave."""
    return None if place >= len(dictionary) else names_of(dictionary.slice(place, 1))[0]


def level_name(value: Any) -> str | None:
    """Return the one text of a value: 3, 3.0 and Decimal("3.00") are all "3"; NaN is missing."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise DataError(
            f"a category holds a value of type {type(value).__name__}, which is neither text nor a "
            f"number; turn its column into text first"
        ) from None
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def other_spelling(text: str) -> str | None:
    """Return how an unknown text would be spelt as a number or truth value: "3.0" as "3"."""
    if text.lower() in ("true", "false"):
        return text.lower()
    if text.strip()[:1] not in _BEGINS_NUMBER:  # most unknown levels; saves the exception
        return None
    try:
        return level_name(float(text))
    except (ValueError, OverflowError):
        return None


def whole_number(text: str) -> int | None:
    """Return the whole number that a level is the name of: 7 of "7", but None of "007"."""
    bare = text.removeprefix("-")
    whole = bare.isascii() and bare.isdigit() and (bare == "0" or bare[0] != "0")
    return int(text) if whole and len(bare) < 19 else None


def nearest_places(levels: Sequence[int], numbers: Iterable[int]) -> list[int]:
    """Return for each number the place of the nearest of ascending levels; halfway, the lower."""
    places = []
    for number in numbers:
        above = bisect_left(levels, number)
        nearer = above and (
            above == len(levels) or number - levels[above - 1] <= levels[above] - number
        )
        places.append(above - 1 if nearer else above)
    return places


def spaced(text: str) -> str:
    """Return a text without repeated spaces and spaces at its ends."""
    return " ".join(text.split())


def folded(text: str) -> str:
    """Return a text without capitals, accents and repeated spaces."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return spaced(text.casefold())


YES_AND_NO = (("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("1", "0"), ("on", "off"))
_TRUTHS = {word: pair[0] for pair in zip(*YES_AND_NO, strict=True) for word in pair}


def truth(text: str) -> str | None:
    """Return "yes" or "no" if a text is a word for one of them."""
    return _TRUTHS.get(folded(text))


class Spellings:
    """Finds the level of which a text is another spelling, if it is one of a single level.

    First spaces are ignored, then capitals and accents too. Where the levels are a word for yes
    and one for no, other words for these are spellings of them.
    """

    def __init__(self, levels: Iterable[str]) -> None:
        known = list(levels)
        truths = _once(known, truth) if len(known) == 2 else {}
        self._forms: list[tuple[Callable[[str], str | None], dict[str | None, str]]] = [
            (spaced, _once(known, spaced)),
            (folded, _once(known, folded)),
            (truth, truths if len(truths) == 2 else {}),
        ]

    def of(self, text: str) -> str | None:
        """Return the level, if there is one."""
        matches = (levels.get(form(text)) for form, levels in self._forms)
        return next((level for level in matches if level is not None), None)


def _once(levels: Iterable[str], form: Callable[[str], str | None]) -> dict[str | None, str]:
    """Return the level of every form that only one of them has."""
    groups = grouped(levels, form)
    return {shape: group[0] for shape, group in groups.items() if len(group) == 1}


def grouped(
    levels: Iterable[str], form: Callable[[str], str | None]
) -> dict[str | None, list[str]]:
    """Return the levels by their form; those that have none are left out."""
    groups: dict[str | None, list[str]] = {}
    for level in levels:
        shape = form(level)
        if shape is not None:
            groups.setdefault(shape, []).append(level)
    return groups


def _decimal(value: Decimal) -> str | None:
    if value.is_nan():
        return None
    if value == value.to_integral_value():
        return str(int(value))
    return repr(float(value))


def _as_text(dictionary: pa.Array) -> list[str | None]:
    texts: list[str | None] = dictionary.cast(pa.string()).to_pylist()
    return texts


def _moment(text: str) -> str:
    """Drop what a finer unit adds: fractions of zero, then midnight."""
    text = text.rstrip("Z")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.removesuffix(" 00:00:00")
