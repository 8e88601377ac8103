"""How texts become values: numbers with separators and units, dates of other orders, blanks.

    "1,234.56"  "1.234,56"  "1 234,56"  "$1,200"  "12 %"  "(1,200)"  →  numbers
    "31/12/2020"  "12/31/2020 10:05"  "3 Jan 2020"                   →  times

What Arrow reads by itself (plain numbers, ISO dates) never passes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, arrow_words, no_value, numpy_numbers
from labeldp.data.columns import NULL_WORDS, NUMBER, in_any_case, is_number, is_text, value_type
from labeldp.data.conversion import in_unit, is_measure
from labeldp.data.dates import digits, of_format, read_clock, read_times
from labeldp.data.dress import Dress, bounds_among, is_dress, is_negative
from labeldp.data.numerals import (
    bare_number,
    in_ascii,
    number_text,
    numbers_among,
    scales,
    surely,
    units_of,
)
from labeldp.data.reading import Reading, is_format
from labeldp.errors import DataError

SOFT_BLANKS = (
    "", "-", "--", "---", "–", "—", "?", "??", "???", ".", "..", "...", "*", "/",
    "<NA>", "NaT", "k.A.", "k. A.",
    "0000-00-00", "0000-00-00 00:00:00", "00/00/0000", "00.00.0000", "00-00-0000",
    "#VALUE!", "#REF!", "#DIV/0!", "#NULL!", "#NUM!", "#NAME?", "(null)", "(blank)", "(empty)",
    *in_any_case(
        "none|nil|missing|unknown|n.a.|n.a|n.c.|nc|n.d.|nd|n/d|s/d|n.v.t.|k.a.|tbd|tba|tbc|b.d.|bd|"
        "n/k|n/s|refused|pending|unavailable|undefined|undisclosed|withheld|fehlt|unbekannt|"
        "inconnu|desconocido|desconhecido|sconosciuto|onbekend|nieznane|неизвестно|"
        "keine angabe|not available|not applicable|not recorded|not stated|not known|"
        "not reported|no data|no answer|no response|sin dato|sin datos|sem dados|non renseigné|"
        "non disponible|non disponibile|no disponible|nicht verfügbar|nicht bekannt|"
        "brak danych|нет данных"
    ),
)  # fmt: skip
"""Texts that mean "missing" among numbers, dates or truth values; among words they are words."""

ANY_TEXT = "*"
"""As a code for missing values: any text that is no number."""


@dataclass(frozen=True)
class Spelling:
    """How the texts of one column become values of one type."""

    type: pa.DataType
    way: Literal["plain", "numbers", "times", "clock"] = "plain"
    """`value_type`: as Arrow casts texts."""
    direct: bool = False
    """Whether Arrow's reader of text files gives the same."""
    decimal: str = "."
    thousands: str | None = None
    date_format: str | None = None
    blanks: tuple[str, ...] = ()
    """Texts that mean missing here."""
    dress: Dress | None = None

    @property
    def told(self) -> dict[str, Any]:
        """What must be known to read further rows in the same way; empty if nothing must."""
        dress = {} if self.dress is None else self.dress.told
        either = self.dress is not None and self.dress.kind == "mixed"
        if self.decimal == "." and self.date_format is None and not either:
            return dress
        return {"decimal": self.decimal, "date_format": self.date_format, **dress}

    def read(self, texts: pa.Array, name: str) -> pa.Array:
        """The values; a text that the spelling does not cover is refused."""
        if pa.types.is_dictionary(texts.type):
            if is_text(self.type):
                return self._without_blanks(texts)
            texts = texts.dictionary_decode()
        if is_text(self.type):
            return _nulled(texts, self.blanks)
        bare = _nulled(pc.utf8_trim_whitespace(texts), self.blanks)
        if self.way == "numbers":
            return self._dressed(bare, name)
        if self.way == "clock":
            return read_clock(bare)
        return self._times(bare, name) if self.way == "times" else _cast(bare, self.type, name)

    def _without_blanks(self, texts: pa.DictionaryArray) -> pa.Array:
        """The same codes; the same object if no value of the dictionary means missing."""
        values = _nulled(texts.dictionary, self.blanks)
        if values.null_count == texts.dictionary.null_count:
            return texts
        return pa.DictionaryArray.from_arrays(texts.indices, values)

    def _dressed(self, texts: pa.Array, name: str) -> pa.Array:
        """Numbers, whatever they are dressed in."""
        texts = in_ascii(texts)
        if self.dress is None:
            return self._numbers(texts, name)
        values, of = self._numbers(self.dress.undressed(texts), name), self.dress.whole(texts)
        if self.dress.unit is not None:
            return pc.multiply(values, arrow_numbers(_factors(self.dress.unit, texts, name)))
        return values if of is None else pc.divide(values, self._numbers(of, name))

    def _numbers(self, texts: pa.Array, name: str) -> pa.Array:
        negative = pc.match_substring_regex(texts, r"^[^0-9.,]*[(\-−]|\d.*-\"?$")
        bare = bare_number(texts)
        if pc.any(pc.match_substring_regex(texts, r"\d[eE]")).as_py():
            bare = pc.replace_substring_regex(bare, "^-|-$", "")
        else:
            bare = pc.replace_substring(bare, "-", "")
        other = "," if self.decimal == "." else "."
        value_type = _pointed(bare, self.decimal, self.thousands or other)
        if self.dress is not None and self.dress.kind == "mixed":
            must = surely(texts, other, self.decimal, self.thousands)
            value_type = pc.if_else(must, _pointed(bare, other, self.decimal), value_type)
        values = numpy_numbers(_cast(value_type, pa.float64(), name)).copy()
        minus = numpy_numbers(pc.if_else(negative.is_null(), _falses(len(texts)), negative))
        values[minus] *= -1
        values *= scales(texts)
        return pc.if_else(texts.is_null(), no_value(pa.float64()), arrow_numbers(values))

    def _times(self, texts: pa.Array, name: str) -> pa.Array:
        """Each text is read once. Days that no calendar has, as a 31st of June, are missing."""
        coded = texts.dictionary_encode()
        texts, forms = coded.dictionary, str(self.date_format).split("|")
        dated = [of_format(texts, form) for form in forms]
        if len(forms) == 1:
            times = read_times(texts, forms[0])
        else:
            times = pc.coalesce(*map(read_times, dated, forms))
        lost = pc.and_(times.is_null(), pc.coalesce(*dated).is_null())
        first = pc.index(lost, _falses(1, True)[0]).as_py()
        if first >= 0:
            raise DataError(
                f"column {name!r} holds dates like {' or '.join(forms)} but also "
                f"{texts[first].as_py()[:40]!r}; correct it, name its format (`date_format`) or "
                f"declare the column categorical"
            )
        return times.take(coded.indices)


def is_told(value: Any) -> bool:
    """Whether a value that was read from JSON is what `Wording.told` gives."""
    return isinstance(value, dict) and all(
        isinstance(told, dict) and all(_TOLD.get(name, _never)(told[name]) for name in told)
        for told in value.values()
    )


def _is_blanks(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _never(_: Any) -> bool:
    return False


_TOLD: dict[str, Callable[[Any], bool]] = {
    "decimal": lambda value: value in (".", ","),
    "date_format": lambda value: value is None or is_format(value),
    "na": _is_blanks,
    "dress": is_dress,
    "negative": is_negative,
    "unit": is_measure,
}


@dataclass(frozen=True)
class Wording:
    """How a table's text is read, as it was found: public, because labels play no part in it."""

    spellings: Mapping[str, Spelling] = field(default_factory=dict)
    decimal: str = "."
    """Of labels that are spelt out in text: the one of the features."""
    thousands: str | None = None
    notes: tuple[str, ...] = ()
    na: tuple[str, ...] = ()
    """Texts that were said to mean missing."""
    nulls: tuple[str, ...] = NULL_WORDS
    """Texts that mean missing, those that were said among them; labels have them too."""
    codes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values that mean missing in one column."""

    @property
    def told(self) -> dict[str, dict[str, Any]]:
        """What predictions must know, by column."""
        found = {name: spelling.told for name, spelling in self.spellings.items()}
        found |= {name: {} for name in self.codes if name not in found}
        blanks = {n: [*self.na, *(f"{n}={word}" for word in self.codes.get(n, ()))] for n in found}
        return {
            name: {**told, **({"na": blanks[name]} if blanks[name] else {})}
            for name, told in sorted(found.items())
            if told or blanks[name]
        }

    def without(self, names: Sequence[str]) -> Wording:
        """The same but for these columns, which are read as they are."""
        kept = {name: each for name, each in self.spellings.items() if name not in names}
        return replace(self, spellings=kept)

    def raw(self, name: str, type_: pa.DataType) -> pa.DataType:
        """The type as which Arrow is to read a column of a text file."""
        spelling = self.spellings.get(name)
        return type_ if spelling is None or spelling.direct else pa.string()

    def read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with values in the place of texts."""
        for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
            value = self.value(name, column)
            if value is not column:
                batch = batch.set_column(place, name, value)
        return batch

    def value(self, name: str, column: pa.Array) -> pa.Array:
        """The column with values in the place of texts; the same object if it has none."""
        column = without_codes(column, self.codes.get(name, ()))
        spelling = self.spellings.get(name)
        if spelling is None:
            return column
        if spelling.way == "times" and is_number(column.type):
            column = digits(column)
        return spelling.read(column, name) if is_text(value_type(column.type)) else column


def without_codes(column: pa.Array, codes: Sequence[str]) -> pa.Array:
    """Null in the place of texts, or of the numbers that they say; other values by their text.

    `ANY_TEXT` among them is every text that is no number.
    """
    if not codes:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text(column.type):
        spelt = pc.utf8_trim_whitespace(column)
    elif is_number(column.type):
        spelt, codes = column.cast(pa.float64(), safe=False), [c for c in codes if _says(c)]
        missing = pc.is_in(spelt, value_set=arrow_numbers(np.array(codes, np.float64)))
        return pc.if_else(missing, no_value(column.type), column)
    else:
        spelt = column.cast(pa.string())
    numbers = [number_text(Decimal(code)) for code in codes if _says(code)]  # as labels have them
    missing = pc.is_in(spelt, value_set=arrow_words([*codes, *numbers], spelt.type))
    if ANY_TEXT in codes and is_text(column.type):
        missing = pc.or_kleene(missing, pc.invert(among_numbers(spelt, Reading())))
    return pc.if_else(missing, no_value(column.type), column)


def among_numbers(texts: pa.Array, reading: Reading) -> pa.Array:
    """Which texts may stand among numbers: those with units and the like, and bounds."""
    found, texts = pc.match_substring_regex(texts, "^$"), in_ascii(texts)
    for sign in reading.decimals():
        for which in (numbers_among, bounds_among):
            found = pc.or_kleene(found, which(texts, sign, reading.thousands))
    return found


def _says(word: str) -> bool:
    return re.fullmatch(NUMBER, word) is not None


def _pointed(numbers: pa.Array, decimal: str, thousands: str) -> pa.Array:
    """The numbers with a point and without separators."""
    for sign in {thousands, "_"} - {decimal}:
        numbers = pc.replace_substring(numbers, sign, "")
    return pc.replace_substring(numbers, decimal, ".")


def _nulled(texts: pa.Array, blanks: Sequence[str]) -> pa.Array:
    if not blanks:
        return texts
    missing = pc.is_in(texts, value_set=arrow_words(blanks, texts.type))
    if not missing.true_count:
        return texts
    return pc.if_else(missing, no_value(texts.type), texts)


def _cast(texts: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    try:
        return texts.cast(type_)
    except pa.ArrowInvalid:
        raise DataError(
            f"column {name!r} holds a text that is no {type_}; correct it, or declare the column "
            f"categorical"
        ) from None


def _factors(unit: str, texts: pa.Array, name: str) -> NDArray[np.float64]:
    """What the units of texts are in this one."""
    factors = in_unit(unit, units_of(texts))
    strange = np.flatnonzero(np.isnan(factors) & ~numpy_numbers(texts.is_null()))
    if len(strange):
        raise DataError(
            f"column {name!r} holds measures that are read in {unit} but also "
            f"{texts[int(strange[0])].as_py()[:40]!r}; give it such a unit, or say that it means "
            f"missing (`na`)"
        )
    return factors


def _falses(count: int, value: bool = False) -> pa.Array:
    return arrow_numbers(np.full(count, value, np.uint8)).cast(pa.bool_())
