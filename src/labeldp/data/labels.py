"""The private column: labels as float64, checked without saying anything about them.

What is wrong with labels is reported as one fact about the whole column, and only after the last
batch: an error at the moment of the first bad label would tell, through the progress bar or the
clock, where it stands. Until then bad labels are replaced by the lower end of the range, so that
whatever a caller computes meanwhile obeys the public range.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.data.columns import (
    NULL_WORDS,
    NUMBER,
    floats_of,
    is_number_type,
    is_text_type,
    value_type,
)
from labeldp.data.text_types import may_lack, only, parse_numbers, trimmed, without
from labeldp.errors import DataError, InputError

_FAULTS = {
    "text": (
        "holds text that is not a number, or numbers in different units (in a text file it may be "
        "a delimiter or quote too many in a line); correct it, give answers a number each (of two, "
        "name the `classes`), or name the texts that mean missing (`na`)"
    ),
    "class": (
        "holds values that are neither of the two `classes`; correct them, or name the texts that "
        "mean missing (`na`)"
    ),
    "infinite": "holds infinities; replace or remove those rows",
    "missing": (
        "has missing values; pass `drop_missing_labels` (the row count then shows how many are "
        "missing) or remove those rows"
    ),
    "outside": (
        "has values outside the range {low:g} to {high:g}; widen the range or pass `clip=True`"
    ),
}
"""What may be wrong with labels, the gravest first; a refusal names the first that applies."""
_UNIT = "unit:"
"""Flags that labels have this unit, or none: different ones are refused."""
_MOST_UNITS = 8
_MISSING = (
    r"^[-–—?. ]*$|(?i)^(?:none|missing|unknown|n\.a\.?|<na>|nat|tbd|no data|"
    r"not (?:available|known|recorded))$"
)
"""Texts that mean missing among labels, besides those that do everywhere. "nil" is 0, and "refused"
or "not stated" may be an answer."""
MOST_CLASS_LETTERS = 64
_NO_NUMBER = "no number (0)"
"""A date or another object. It holds a digit, so that it never counts as missing."""
_ANSWERS = ((r"(?i)^(?:true|yes|y)$", "1"), (r"(?i)^(?:false|no|n)$", "0"))
"""Answers among labels, in small letters or not, and their numbers."""


@dataclass
class LabelCheck:
    """Checks the labels of one pass, batch by batch; `finish` refuses.

    Holds flags and no label. They are only ever raised, so threads may share a check.
    """

    column: str
    low: float
    high: float
    clip: bool
    raised: set[str] = field(default_factory=set, init=False, repr=False)
    """The flags raised so far, here or for other parts of the table: as private as labels."""

    def clean(self, values: NDArray[np.float64], flags: Collection[str]) -> NDArray[np.float64]:
        """Return labels inside the range, and remember what had to be changed."""
        missing, infinite = np.isnan(values), np.isinf(values)
        outside = ((values < self.low) | (values > self.high)) & ~infinite
        self.raised.update(flags)
        if missing.any():
            self.raised.add("missing")
        if infinite.any():
            self.raised.add("infinite")
        if outside.any() and not self.clip:
            self.raised.add("outside")
        cleaned = np.clip(values, self.low, self.high)
        cleaned[missing | infinite] = self.low
        return cleaned

    def finish(self) -> None:
        """Refuse the column if any label was not as declared."""
        units = {flag.removeprefix(_UNIT) for flag in self.raised if flag.startswith(_UNIT)}
        if len(units - {""}) > 1 or ("" in units and not all(map(may_lack, units - {""}))):
            self.raised.add("text")
        for flag, fault in _FAULTS.items():
            if flag in self.raised:
                fault = fault.format(low=self.low, high=self.high)
                raise DataError(
                    f"label column {self.column!r} {fault} (the rows are not named because labels "
                    "are private)"
                )


def label_texts(values: Iterable[Any]) -> pa.Array:
    """Return cells of any types as texts, from which `LabelParser` reads the same numbers.

    Excel sheets and columns of Python objects have no type of their own, and one inferred from the
    values would depend on labels: on the first cell, or on the largest integer. A value that is no
    number becomes a text that is refused with the other labels, after the last row.
    """
    texts: list[str | None] = []
    for value in values:
        if isinstance(value, str | bool):
            lines = str(value).strip().splitlines()  # one, because a line end may end a row
            texts.append(_NO_NUMBER if len(lines) > 1 else "".join(lines))
        elif value is None or type(value).__name__ in ("NAType", "NaTType"):
            texts.append(None)
        elif isinstance(value, Integral):
            texts.append(_without_point(Decimal(int(value))))
        elif isinstance(value, Decimal | float | np.floating):
            number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
            texts.append(None if number.is_nan() else _without_point(number))
        else:
            texts.append(_NO_NUMBER)
    return pa.array(texts, pa.string())


def _without_point(number: Decimal) -> str:
    """Return a number as digits and a power of ten, so that it has no decimal sign to mistake."""
    if not number.is_finite():
        return str(number)
    sign, digits, exponent = number.normalize().as_tuple()
    return f"{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def check_label_type(field: pa.Field) -> None:
    """Refuse a label column whose type is no number and no text, which may spell numbers out."""
    type_ = value_type(field.type)
    number = is_number_type(type_) or pa.types.is_boolean(type_) or pa.types.is_null(type_)
    if not (number or is_text_type(type_)):
        raise DataError(
            f"label column {field.name!r} has type {field.type}, which is not numeric; name "
            f"another column or convert it"
        )


def check_classes(classes: Any) -> tuple[str, str]:
    """Return two different classes as texts; refuse what makes no sense."""
    texts = () if isinstance(classes, str) else tuple(str(each).strip() for each in classes)
    if len(texts) != 2 or not all(0 < len(text) <= MOST_CLASS_LETTERS for text in texts):
        raise InputError(
            f"`classes` are two values of at most {MOST_CLASS_LETTERS} letters, that which counts "
            "as 0 and that which counts as 1, as in no,yes"
        )
    numbers = [float(text) for text in texts if re.fullmatch(NUMBER, text)]
    if len({text.lower() for text in texts}) < 2 or (len(numbers) == 2 and len(set(numbers)) < 2):
        raise InputError("the two `classes` are the same; name two that differ")
    return texts[0], texts[1]


@dataclass(frozen=True)
class LabelParser:
    """How labels that are text become numbers; no option is inferred from labels."""

    decimal: str = "."
    """The decimal sign of the features."""
    missing: tuple[str, ...] = NULL_WORDS
    """What means missing."""
    classes: tuple[str, str] | None = None
    """The two values of labels, which count as 0 and 1; None: labels are numbers."""

    def parse(self, column: pa.Array) -> tuple[NDArray[np.float64], frozenset[str]]:
        """Return labels as float64 with NaN for missing, and flags for a `LabelCheck`.

        Flags are whether some texts are no numbers, or no classes, and the units of the others.
        """
        if self.classes is not None:
            codes, flags = self._class_codes(column)
            strange = pc.and_(self.has_label(column), codes.is_null())
            # 0 stands for what is refused after the last row.
            values = floats_of(pc.if_else(strange, 0.0, codes))
            return values, (flags - {"text"}) | {"class"} if strange.true_count else flags
        column = self._without_missing(column)
        if not is_text_type(column.type):
            return floats_of(column), frozenset()
        values, units = parse_numbers(column, self.decimal)
        unreadable = pc.and_(column.is_valid(), values.is_null())
        found = units.drop_null().unique()
        if unreadable.true_count or len(found) > _MOST_UNITS:
            return floats_of(values), frozenset(["text"])
        return floats_of(values), frozenset(_UNIT + unit for unit in found.to_pylist())

    def has_label(self, column: pa.Array) -> pa.Array:
        """Return a mask of the rows that have a label: neither null nor NaN nor a word for that.

        Any other text is a label, although no number: it may be an answer (A, U, refused), and to
        leave its row out would show who gave it. The check of labels refuses it. A class is a
        label, whatever it is called.
        """
        found = self._without_missing(column)
        if is_text_type(found.type):
            mask = found.is_valid()
        else:
            mask = pc.invert(pc.is_null(found, nan_is_null=True))
        if self.classes is None:
            return mask
        return pc.or_(mask, self._class_codes(column)[0].is_valid())

    def _class_codes(self, column: pa.Array) -> tuple[pa.Array, frozenset[str]]:
        """Return 0 and 1 for the two classes, null for all else, and flags for units.

        Classes that are both numbers are compared as numbers, others as texts without blanks
        around them, in small letters or not; truth values are the texts true and false.
        """
        assert self.classes is not None
        flags: frozenset[str] = frozenset()
        if all(re.fullmatch(NUMBER, each) for each in self.classes):
            numbers, flags = replace(self, classes=None).parse(column)
            values, (first, second) = arrow_numbers(numbers), map(float, self.classes)
        else:
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            is_spelt = is_text_type(column.type) or pa.types.is_boolean(column.type)
            texts = column.cast(pa.string()) if is_spelt else pa.nulls(len(column), pa.string())
            values = pc.utf8_lower(trimmed(texts))
            first, second = pc.utf8_lower(pa.array(self.classes))
        codes = pc.if_else(pc.equal(values, second), 1.0, pa.scalar(None, pa.float64()))
        return pc.if_else(pc.equal(values, first), 0.0, codes), flags

    def _without_missing(self, column: pa.Array) -> pa.Array:
        """Return the column with null for missing, of texts with 1 and 0 for answers."""
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        numbers = (Decimal(word) for word in self.missing if re.fullmatch(NUMBER, word))
        column = without(column, [*self.missing, *map(_without_point, numbers)])
        if not is_text_type(column.type):
            return column
        texts = trimmed(column)
        texts = only(texts, pc.invert(pc.match_substring_regex(texts, _MISSING)))
        if pc.any(pc.match_substring_regex(texts, r"(?i)^[tfyn]")).as_py():  # quicker than below
            for pattern, number in _ANSWERS:
                texts = pc.replace_substring_regex(texts, pattern, number)
        return texts
