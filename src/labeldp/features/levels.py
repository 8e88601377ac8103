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

_ACCENTS = re.compile("[\u0300-\u036f]")
"""Those of Latin, Greek and Cyrillic letters, once they stand alone."""
_YES_AND_NO = {"yes": "no", "y": "n", "true": "false", "t": "f", "1": "0", "on": "off"}
OPPOSITES = _YES_AND_NO | {no: yes for yes, no in _YES_AND_NO.items()}


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
    kind = dictionary.type
    if is_text(kind):
        return list(dictionary.to_pylist())
    if is_moment(kind):
        texts = dictionary.cast(pa.string()).to_pylist()
        return [None if text is None else _moment(text) for text in texts]
    if is_clock(kind):
        return [None if value is None else str(value) for value in dictionary.to_pylist()]
    return [level_name(value) for value in dictionary.to_pylist()]


def _moment(text: str) -> str:
    """Drop what a finer unit adds: fractions of zero, then midnight."""
    text = text.rstrip("Z")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.removesuffix(" 00:00:00")


def level_name(value: Any) -> str | None:
    """Return the one text of a value: 3, 3.0 and Decimal("3.00") are all "3"; NaN is missing."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    try:
        number = value if isinstance(value, Decimal) else float(value)
    except (TypeError, ValueError):
        raise DataError(
            f"a category holds a value of type {type(value).__name__}, which is neither text nor a "
            f"number; turn its column into text first"
        ) from None
    if math.isnan(number):
        return None
    whole = math.isfinite(number) and number == int(number)
    return str(int(number)) if whole else repr(float(number))


def other_spelling(text: str) -> str | None:
    """Return how an unknown text would be spelt as a number or truth value: "3.0" as "3"."""
    if text.lower() in ("true", "false"):
        return text.lower()
    if text.strip()[:1] not in "0123456789+-.":  # most unknown levels; saves the exception
        return None
    try:
        return level_name(float(text))
    except ValueError:
        return None


def whole_number(text: str) -> int | None:
    """Return the whole number that a level is the name of: 7 of "7", but None of "007"."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        return None
    return int(text) if str(int(text)) == text else None


def nearest_number(numbers: Sequence[int], number: int) -> int:
    """Return the nearest of ascending numbers; halfway, the lower."""
    above = bisect_left(numbers, number)
    return min(numbers[max(0, above - 1) : above + 1], key=lambda each: abs(each - number))


def spaced(text: str) -> str:
    """Return a text without repeated spaces and spaces at its ends."""
    return " ".join(text.split())


def folded(text: str) -> str:
    """Return a text without capitals, accents and repeated spaces."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return spaced(text.casefold())


def yes_or_no(text: str) -> str | None:
    """Return "yes" or "no" if a text is a word for one of them."""
    word = folded(text)
    if word not in OPPOSITES:
        return None
    return "yes" if word in _YES_AND_NO else "no"


Form = Callable[[str], str | None]


def grouped(levels: Iterable[str], form: Form) -> dict[str, list[str]]:
    """Return the levels by their form; those that have none are left out."""
    groups: dict[str, list[str]] = {}
    for level in levels:
        shape = form(level)
        if shape is not None:
            groups.setdefault(shape, []).append(level)
    return groups


class Spellings:
    """Finds the level of which a text is another spelling, if it is one of a single level.

    First spaces are ignored, then capitals and accents too. Where the levels are a word for yes
    and one for no, other words for these are spellings of them.
    """

    def __init__(self, levels: Iterable[str]) -> None:
        known = list(levels)
        self._forms: list[tuple[Form, dict[str, list[str]]]] = [
            (form, grouped(known, form)) for form in (spaced, folded)
        ]
        answers = grouped(known, yes_or_no)
        if len(known) == len(answers) == 2:
            self._forms.append((yes_or_no, answers))

    def level_of(self, text: str) -> str | None:
        """Return the level, if there is one."""
        for form, groups in self._forms:
            levels = groups.get(form(text) or "", [])
            if len(levels) == 1:
                return levels[0]
        return None
