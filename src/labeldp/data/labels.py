"""The private column: labels as float64, checked without saying anything about them.

What is wrong with labels is reported as one fact about the whole column, and only after the
last batch: an error at the moment of the first bad label would tell, through the progress
bar or the clock, where it stands. Until then bad labels are replaced by the lower end of
the range, so whatever a caller computes meanwhile obeys the public range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_words, no_value
from labeldp.data.columns import NUMBER, floats_of, in_any_case, is_number, is_text, value_type
from labeldp.data.dress import MOST, Dress, letters_behind, same_unit
from labeldp.data.numerals import in_ascii, number_text, numbers_among, units_of
from labeldp.data.spelling import SOFT_BLANKS, Spelling, Wording
from labeldp.errors import DataError
from labeldp.kernels import kernels_for

_UNNAMED = "the rows are not named because labels are private"
_OF_UNIT, _OF_WORD = "unit:", "word:"
"""Flags that labels have this unit, or none, or some word in its place: different ones are refused,
and a word that not all have."""
_MORE = r"[^\d.,\s'’()+−-]"
"""More than digits and what may stand between them."""
_INFINITE = r"^[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"
_NO_NUMBER = "no number (0)"
"""A date or another object. It holds a digit, so that it never counts as missing."""
_TRUE = in_any_case("true|yes|y|ja|oui|sí|si|sim|да|tak|evet")
_FALSE = in_any_case("false|no|n|nein|non|não|нет|nie|hayır")
"""Answers among labels, whatever the others are: 1 and 0."""


_ANSWERS = {
    "*", "/",
    *in_any_case(
        "nil|n.c.|nc|n.d.|nd|n/d|s/d|b.d.|bd|n/s|refused|pending|unavailable|undisclosed|withheld|"
        "keine angabe|not applicable|not stated|not reported|no answer|no response"
    ),
}  # fmt: skip
"""Texts that mean missing among features, but may be an answer where they stand for a label: "nil"
is 0, "b.d." below detection."""
MISSING_LABELS = tuple(word for word in SOFT_BLANKS if word not in _ANSWERS)
"""Texts that mean "missing" among labels, besides those that do everywhere."""


@dataclass
class LabelCheck:
    """Checks the labels of one pass, batch by batch; `finish` refuses.

    Holds flags and no label. They are only ever raised, so threads may share a check.
    """

    column: str
    low: float
    high: float
    clip: bool
    rows: int | None = None
    """Of the table: whether compiled kernels pay."""
    _raised: set[str] = field(default_factory=set, init=False, repr=False)

    def clean(self, values: NDArray[np.float64], found: Collection[str]) -> NDArray[np.float64]:
        """Return labels inside the range, remembering what was found and had to be changed."""
        cleaned = np.empty_like(values)
        wrong = kernels_for(self.rows).confine(cleaned, values, self.low, self.high)
        flags = {
            "missing": wrong & 1,
            "infinite": wrong & 2,
            "outside": wrong & 4 and not self.clip,
        }
        self._raised.update(found, (flag for flag, seen in flags.items() if seen))
        return cleaned

    @property
    def raised(self) -> list[str]:
        """The flags raised so far: as private as labels."""
        return sorted(self._raised)

    def resume(self, raised: list[str]) -> None:
        """Go on from a pass that was interrupted, or from another part of the labels."""
        self._raised.update(raised)

    def finish(self) -> None:
        """Refuse the column if any label was not as declared."""
        who = f"label column {self.column!r}"
        if "text" in self._raised:
            raise DataError(
                f"{who} holds text that is not a number (in a text file it may be a delimiter or "
                f"quote too many in a line); correct it, give answers a number each, or name the "
                f"texts that mean missing (`na`) ({_UNNAMED})"
            )
        units, words = (
            {flag.removeprefix(kind) for flag in self._raised if flag.startswith(kind)}
            for kind in (_OF_UNIT, _OF_WORD)
        )
        alone = len(units | words) == 1 or (not units and same_unit(words))
        if not same_unit(units - {""}) or (("%" in units or words) and not alone):
            raise DataError(f"{who} holds numbers in different units; give them one ({_UNNAMED})")
        if "infinite" in self._raised:
            raise DataError(f"{who} holds infinities; replace or remove those rows ({_UNNAMED})")
        if "missing" in self._raised:
            raise DataError(
                f"{who} has missing values; pass `drop_missing_labels` (the row count then shows "
                f"how many are missing) or remove those rows ({_UNNAMED})"
            )
        if "outside" in self._raised:
            raise DataError(
                f"{who} has values outside the range {self.low:g} to {self.high:g}; widen the "
                f"range or pass `clip=True` ({_UNNAMED})"
            )


def label_texts(values: Iterable[Any]) -> pa.Array:
    """Return cells of any types as texts, from which `to_labels` reads the same numbers.

    Excel sheets and columns of Python objects have no type of their own, and one inferred from the
    values would depend on labels: on the first cell, or on the largest integer. A value that is no
    number becomes a text that is refused with the other labels, after the last row.
    """
    return pa.array([_label_text(value) for value in values], pa.string())


def _label_text(value: Any) -> str | None:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, str | bool):
        return str(value)
    if isinstance(value, Integral):
        value = Decimal(int(value))
    elif isinstance(value, float | np.floating):
        value = Decimal(repr(float(value)))
    if not isinstance(value, Decimal):
        return _NO_NUMBER
    return None if value.is_nan() else number_text(value)


def check_label_type(field: pa.Field) -> None:
    """Refuse a label column whose type is no number and no text, which may spell numbers out."""
    type_ = value_type(field.type)
    number = is_number(type_) or pa.types.is_boolean(type_) or pa.types.is_null(type_)
    if not (number or is_text(type_)):
        raise DataError(
            f"label column {field.name!r} has type {field.type}, which is not numeric; name "
            f"another column or convert it"
        )


def to_labels(array: pa.Array, wording: Wording) -> tuple[NDArray[np.float64], frozenset[str]]:
    """Return labels as float64 with NaN for missing, and what a check is to know of their texts.

    That is whether some were unreadable, and the units of the others.
    """
    found = frozenset[str]()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if is_text(array.type):
        array, found = _parsed(array, wording)
    return floats_of(array), found


def present(array: pa.Array, wording: Wording) -> pa.Array:
    """Return a mask of the rows that have a label: neither null nor NaN nor a word for that.

    Any other text is a label, although no number: it may be an answer (A, U, refused), and to
    leave its row out would show who gave it. The check of labels refuses it.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if is_text(array.type):
        return _without_blanks(pc.utf8_trim_whitespace(array), wording).is_valid()
    return pc.invert(pc.is_null(array, nan_is_null=True))


def _without_blanks(words: pa.Array, wording: Wording) -> pa.Array:
    """Null in the place of "NA", "-", "?" and their like."""
    return Spelling(words.type, blanks=(*wording.nulls, *MISSING_LABELS)).read(words, "label")


def _answered(text: pa.Array) -> pa.Array:
    """The texts without space around them, and 1 and 0 where they are answers."""
    text = pc.utf8_trim_whitespace(text)
    one, zero = arrow_words("10", text.type)
    truths = (pc.is_in(text, value_set=arrow_words(words, text.type)) for words in (_TRUE, _FALSE))
    return pc.case_when(pc.make_struct(*truths), one, zero, text)


def _parsed(text: pa.Array, wording: Wording) -> tuple[pa.Array, frozenset[str]]:
    """Labels spelt out in text: as the features' decimal sign has it, in any unit or none."""
    words = in_ascii(_without_blanks(_answered(text), wording))
    plain_numbers = pc.match_substring_regex(words, NUMBER)
    signs = wording.decimal, wording.thousands
    if wording.decimal == "." and pc.all(plain_numbers).as_py() in (True, None):
        return words, frozenset([_OF_UNIT] if plain_numbers.true_count else [])
    readable = pc.or_(numbers_among(words, *signs), pc.match_substring_regex(words, _INFINITE))
    found = {_OF_UNIT + unit for unit in _units(words.filter(readable))}
    if pc.any(pc.invert(readable)).as_py():
        behind = letters_behind(words, *signs)
        dressed = pc.and_not(pc.match_substring_regex(behind, "."), readable)
        found |= {_OF_WORD + word for word in behind.filter(dressed).unique().to_pylist()}
        words = pc.if_else(dressed, Dress("unit").undressed(words), words)
        readable = pc.or_(readable, dressed)
    if pc.any(pc.invert(readable)).as_py() or len(found) > MOST:
        found = {"text"}
    words = pc.if_else(readable, words, no_value(words.type))
    numbers = Spelling(pa.float64(), "numbers", False, *signs).read(words, "label")
    return numbers, frozenset(found)


def _units(numbers: pa.Array) -> set[str]:
    """The units of numbers, those without one among them."""
    numbers = numbers.drop_null()
    more = numbers.filter(pc.match_substring_regex(numbers, _MORE))
    none = {""} if len(more) < len(numbers) else set[str]()
    return none | {*units_of(more).unique().to_pylist()}
