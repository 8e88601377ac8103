"""Text columns: numbers, dates, truth values or categories, by the rules of docs/reading.md.

    count_texts(batches, …)        count what all texts of each column look like; parts add up
    infer_parsers(counts, …)       decide from the counts how each column is read
    ColumnParser.parse(column)     read it so

A text that the parser of a column does not understand becomes missing; labels are not read here.
What Arrow's own reader of delimited text gives in the same way is left to it (`direct`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrow_util import arrow_numbers, arrow_words, no_value, numpy_numbers
from labeldp.data.columns import NUMBER, is_number, is_text, value_type
from labeldp.data.dates import (
    ISO,
    MOMENT,
    count_formats,
    digits_of,
    other_order,
    parse_dates,
)
from labeldp.errors import DataError

Counts: TypeAlias = pa.Array | None
"""How often different texts stand in a column; None: once each."""
MOST_WORDS = 20
"""Different texts without a digit that may stand among numbers or dates, as words for missing."""
_SHARE_BESIDE_WORDS, _SHARE = 0.8, 0.99
"""Least share of numbers or dates if the rest are such words, and if they are anything."""

_INTEGER = r"^-?(?:0|[1-9]\d{0,17})$"
_PADDED = r"^-?0\d+$"  # 007 is not 7
_LONG = r"^[+-]?\d{19,}$"  # a name, not a quantity
_BOOLEAN = "^(?:true|True|TRUE|false|False|FALSE)$"
_DECIMAL = r"^[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_GROUPED_BY_POINT = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"
_NO_WORD = r"^[^\pL\pN]*$"
_ARROW_DATE = r"^\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?$"
_MOST_UNITS = 1000

_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|BRL|SEK|NOK|DKK|PLN|CZK|ZAR|MXN|kr|Rs"
_CURRENCY = rf"\p{{Sc}}|[A-Z]{{1,2}}\$|{_CODES}"
_UNIT = r"[\pL°µ][\pL°²³/.]{1,11}"
_MARK = r"[*†‡§]{1,3}|\[\w{1,3}\]|\([a-z]\)"
_POWER = r"[eE][+-]?\d{1,3}"
_PLAIN = {
    ".": NUMBER,
    ",": rf"^[+-]?(?:(?:\d+,?\d*|,\d+)(?:{_POWER})?|[iI][nN][fF]|[iI]nfinity|INFINITY)$",
}
_UNPAIRED = r"^[^(]*\)|\([^)]*$|[(\-−].*[-−]|[-−].*\("
"""A bracket without its other half, or two signs for minus."""
_SPACES = " \u00a0\u2009\u202f"
_BESIDE_DIGITS = rf"[0-9.,{_SPACES}'’()+−-]+"


@cache
def _number_pattern(decimal: str) -> str:
    """Numbers with groups of digits, currency or unit, footnote marks, and brackets for minus."""
    point, other = (r"\.", ",") if decimal == "." else (",", r"\.")
    groups = (other, f"[{_SPACES}]", "['’]")
    grouped = "|".join(rf"[1-9]\d{{0,2}}(?:{sign}\d{{3}})+" for sign in groups)
    if decimal == ".":
        grouped += r"|[1-9]\d?(?:,\d\d)+,\d{3}"  # in India
    body = rf"(?:(?:{grouped}|\d+)(?:{point}\d*)?|{point}\d+)(?:{_POWER})?"
    return (
        rf"^\(?[-+−]?\s?(?:{_CURRENCY})?\s?[-−]?{body}\s?(?:%|{_CURRENCY}|{_UNIT})?"
        rf"\s?(?:{_MARK})?-?\)?$"
    )


def parse_numbers(texts: pa.Array, decimal: str) -> tuple[pa.Array, pa.Array]:
    """Return the numbers that trimmed texts say, null for others, and their units.

    The unit is a currency, % or a word in small letters without plural and dot; "" for none.
    """
    plain = pc.match_substring_regex(texts, _PLAIN[decimal])
    bare = pc.if_else(plain, texts, no_value(texts.type))
    if decimal == ",":
        bare = pc.replace_substring(bare, ",", ".")
    values = bare.cast(pa.float64())
    units = pc.if_else(plain, arrow_words([""], pa.string())[0], no_value(pa.string()))
    if pc.all(plain).as_py() is not False:
        return values, units
    fits = pc.match_substring_regex(texts, _number_pattern(decimal))
    others = _known(pc.and_not(fits, plain))
    if not others.true_count:
        return values, units
    formatted, their_units = _parse_formatted(texts.filter(others), decimal)
    return (
        pc.replace_with_mask(values, others, formatted),
        pc.replace_with_mask(units, others, their_units),
    )


def _parse_formatted(texts: pa.Array, decimal: str) -> tuple[pa.Array, pa.Array]:
    """Parse texts that have the pattern of numbers; regular expressions with groups are slow."""
    bare = pc.replace_substring_regex(texts, rf"\s?(?:{_MARK})(-?\)?)$", r"\1")
    has_power = bool(pc.any(pc.match_substring_regex(bare, rf"\d[.,]?{_POWER}")).as_py())
    if has_power:
        power = pc.extract_regex(bare, rf"\d[.,]?(?P<power>{_POWER})").field("power")
        bare = pc.replace_substring_regex(bare, rf"(\d[.,]?){_POWER}", r"\1")
    units = pc.replace_substring_regex(bare, _BESIDE_DIGITS, "")
    digits = pc.replace_substring_regex(bare, rf"[^\d{decimal}]+", "")
    digits = pc.replace_substring(digits, decimal, ".")
    if has_power:
        digits = pc.binary_join_element_wise(digits, power, arrow_words([""], digits.type)[0])
    values = numpy_numbers(digits.cast(pa.float64()))
    negative = numpy_numbers(pc.match_substring_regex(bare, r"^\D*[(\-−]|-$"))
    right = pc.invert(pc.match_substring_regex(bare, _UNPAIRED))
    values = arrow_numbers(np.where(negative, -values, values))
    units = pc.utf8_lower(pc.replace_substring_regex(units, r"(\pL{2})s$", r"\1"))
    return (
        pc.if_else(right, values, no_value(pa.float64())),
        pc.if_else(right, units.cast(pa.string()), no_value(pa.string())),
    )


def _known(mask: pa.Array) -> pa.Array:
    """Return the mask with False for null."""
    return pc.if_else(mask.is_valid(), mask, mask.is_valid())


def may_lack(unit: str) -> bool:
    """Whether numbers with this unit may stand beside numbers without: it is a currency."""
    is_sign = unit != "" and unicodedata.category(unit[-1]) == "Sc"
    return is_sign or unit in _CODES.lower().split("|")


@dataclass
class TextCounts:
    """How many texts of a column look like what; counts of parts add up in any order."""

    values: int = 0
    """All but those that are missing or empty."""
    empty: int = 0
    """Texts without a letter or a digit, such as - or ?: missing among numbers and dates."""
    integer: int = 0
    padded: int = 0
    boolean: int = 0
    decimals: int = 0
    """Other plain numbers, with a decimal point if any."""
    numbers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Numbers that are not whole, by decimal sign and unit; some are numbers with either sign."""
    separated: int = 0
    """Of those, numbers that hold a point or a comma."""
    many_units: bool = False
    """Whether there are so many units that none is one."""
    dates: Counter[str] = field(default_factory=Counter)
    """Dates by format; some have two."""
    arrow_dates: int = 0
    """ISO dates that Arrow reads in the same way."""
    declared: int = 0
    """Dates of the format that was declared, whatever else they are."""
    words: Counter[str] = field(default_factory=Counter)
    """Different texts that are nothing of all this and hold no digit; one more at most than may
    stand among numbers."""
    word_count: int = 0

    def add(self, column: pa.Array, date_format: str | None = None) -> None:
        """Count the texts of one batch."""
        texts = column.drop_null()
        if date_format is not None:
            times = parse_dates(_trimmed(texts), date_format)
            self.declared += len(times) - times.null_count
        if pa.types.is_dictionary(texts.type):
            counted = texts.value_counts()
            texts, counts = self._add_plain(_trimmed(counted.field(0)), counted.field(1))
        else:  # plain numbers are many and different: only others are counted together
            texts, _ = self._add_plain(_trimmed(texts), None)
            counted = texts.value_counts()
            texts, counts = counted.field(0), counted.field(1)
        for name in ("empty", "padded", "boolean"):
            matches = pc.match_substring_regex(texts, _PATTERNS[name])
            count = _total(counts, matches)
            setattr(self, name, getattr(self, name) + count)
            self.values += count if name != "empty" else 0
            texts, counts = _others(texts, counts, matches)
        self.values += _total(counts)
        dated = count_formats(texts, counts, self.dates)
        if dated:
            self.dates += dated
            if dated[ISO]:
                self._add_arrow_dates(texts, counts)
        self._add_words(*self._add_numbers(texts, counts))

    def _add_plain(self, texts: pa.Array, counts: Counts) -> tuple[pa.Array, Counts]:
        """Count whole numbers and numbers with a decimal point; return the rest."""
        whole = pc.match_substring_regex(texts, _INTEGER)
        found = _total(counts, whole)
        self.integer += found
        self.values += found
        texts, counts = _others(texts, counts, whole)
        plain = pc.match_substring_regex(texts, _DECIMAL)
        if plain.true_count:
            found = _total(counts, plain)
            self.decimals += found
            self.values += found
            self.numbers[".", ""] += found
            grouped = pc.match_substring_regex(texts, _GROUPED_BY_POINT)
            self.separated += found
            self.numbers[",", ""] += _total(counts, grouped)
            texts, counts = _others(texts, counts, plain)
        return texts, counts

    def _add_numbers(self, texts: pa.Array, counts: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Count other numbers by sign and unit; return the rest."""
        number = pc.match_substring_regex(texts, "^$")
        for sign in ".,":
            values, units = parse_numbers(texts, sign)
            right = pc.and_not(values.is_valid(), pc.match_substring_regex(texts, _LONG))
            number = pc.or_(number, right)
            if sign == ".":
                plain = pc.match_substring_regex(texts, NUMBER)
                self.decimals += _total(counts, pc.and_(right, plain))
            if right.true_count:
                coded = units.filter(right).dictionary_encode()
                totals = np.bincount(
                    numpy_numbers(coded.indices), numpy_numbers(counts.filter(right))
                )
                for unit, total in zip(coded.dictionary.to_pylist(), totals, strict=True):
                    self.numbers[sign, unit] += int(total)
        self._limit_units()
        self.separated += _total(
            counts, pc.and_(number, pc.match_substring_regex(texts, r"\d[.,]"))
        )
        return _others(texts, counts, number)

    def _add_words(self, texts: pa.Array, counts: pa.Array) -> None:
        """Count texts that are nothing and hold no digit."""
        wordy = pc.match_substring_regex(texts, r"^\PN*$")
        self.word_count += _total(counts, wordy)
        if len(self.words) <= MOST_WORDS:
            words, often = texts.filter(wordy), counts.filter(wordy)
            for word, count in zip(words[: MOST_WORDS + 1], often, strict=False):
                self.words[word.as_py()] += count.as_py()

    def _add_arrow_dates(self, texts: pa.Array, counts: pa.Array) -> None:
        iso = pc.match_substring_regex(texts, _ARROW_DATE)
        try:
            texts.filter(iso).cast(MOMENT)
        except pa.ArrowInvalid:  # a day of no calendar
            return
        self.arrow_dates += _total(counts, iso)

    def _limit_units(self) -> None:
        self.many_units = bool(self.many_units or len(self.numbers) > _MOST_UNITS)
        if self.many_units:
            self.numbers = Counter({k: n for k, n in self.numbers.items() if not k[1].isalpha()})

    def __add__(self, other: TextCounts) -> TextCounts:
        both: dict[str, Any] = {name: a + getattr(other, name) for name, a in vars(self).items()}
        total = TextCounts(**both)
        total._limit_units()
        return total

    def with_decimal(self, sign: str, unit: str | None = None) -> tuple[int, str]:
        """Return how many numbers there are with a decimal sign and a unit, and the unit.

        Without a unit it is the one of most numbers.
        """
        counts = Counter({key: n for (each, key), n in self.numbers.items() if each == sign})
        plain = self.integer + counts.pop("", 0)
        best = unit or max(counts, key=counts.__getitem__, default="")
        if may_lack(best):
            return counts[best] + plain, best
        if unit is None and plain >= counts[best]:
            return plain, ""
        return counts[best], best

    def enough(self, parsed: int) -> bool:
        """Whether a column with so many numbers or dates is one of numbers or dates."""
        rest = self.values - parsed
        beside_words = rest == self.word_count + self.boolean and len(self.words) <= MOST_WORDS
        share = _SHARE_BESIDE_WORDS if beside_words else _SHARE
        return parsed > 0 and parsed >= share * self.values


_PATTERNS = {"integer": _INTEGER, "empty": _NO_WORD, "padded": _PADDED, "boolean": _BOOLEAN}


def _total(counts: Counts, which: pa.Array | None = None) -> int:
    """Return how many texts are meant, each of which stands so often, or once."""
    if counts is None:
        return 0 if which is None else int(which.true_count)
    return pc.sum(counts if which is None else counts.filter(which)).as_py() or 0


def _others(texts: pa.Array, counts: Counts, which: pa.Array) -> tuple[pa.Array, Counts]:
    if not which.true_count:
        return texts, counts
    others = pc.invert(which)
    return texts.filter(others), None if counts is None else counts.filter(others)


def _trimmed(texts: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    return pc.utf8_trim_whitespace(texts.cast(pa.string()))


def count_texts(
    batches: Iterable[pa.RecordBatch],
    names: Sequence[str],
    date_format: str | None,
    null_words: Sequence[str],
    codes: Mapping[str, Sequence[str]],
) -> tuple[int, dict[str, TextCounts]]:
    """Return the rows, and what the texts (or digits) of these columns look like."""
    rows, counts = 0, {name: TextCounts() for name in names}
    for batch in batches:
        rows += batch.num_rows
        for name, count in counts.items():
            column = without_codes(batch.column(name), codes.get(name, ()))
            if is_number(column.type):
                column = digits_of(column)
            count.add(_nulled(column, null_words), date_format)
    return rows, counts


def add_counts(
    parts: Iterable[tuple[int, dict[str, TextCounts]]],
) -> tuple[int, dict[str, TextCounts]]:
    """Return the sums of what `count_texts` gives of the parts of a table."""
    total, counts = 0, dict[str, TextCounts]()
    for rows, part in parts:
        total += rows
        counts |= {name: counts.get(name, TextCounts()) + count for name, count in part.items()}
    return total, counts


@dataclass(frozen=True)
class ColumnParser:
    """How the texts of one column become values."""

    kind: Literal["category", "number", "date", "boolean", "stored"]
    """`stored`: the values of a typed column as they are, but for `codes`."""
    type: pa.DataType
    decimal: str = "."
    unit: str = ""
    date_format: str | None = None
    formatted: bool = False
    """Whether numbers have separators, units or the like: then they are quantities, not codes."""
    direct: bool = False
    """Whether Arrow's own reader of delimited text gives the same."""
    null_words: tuple[str, ...] = ()
    """Texts that mean missing in every column, and"""
    codes: tuple[str, ...] = ()
    """texts or numbers that mean missing in this one."""
    unparsed: int = field(default=0, compare=False)
    """Texts that were inferred to be missing here, and"""
    examples: tuple[str, ...] = field(default=(), compare=False)
    """some of those without a digit."""

    def parse(self, column: pa.Array) -> pa.Array:
        """Return the values; the same object if nothing is to be done."""
        column = without_codes(column, self.codes)
        if self.kind == "stored" or (self.kind == "category" and not self.null_words):
            return column
        if self.kind == "category":
            return _nulled(column, self.null_words) if is_text(value_type(column.type)) else column
        if is_number(column.type) and self.kind == "date":
            column = digits_of(column)
        if not is_text(value_type(column.type)):
            return column
        texts = _nulled(_trimmed(column), self.null_words)
        if self.kind == "date":
            return parse_dates(texts, str(self.date_format))
        if self.kind == "boolean":
            return _matching(texts, _BOOLEAN).cast(pa.bool_())
        if pa.types.is_integer(self.type):
            return _matching(texts, _INTEGER).cast(pa.int64())
        values, units = parse_numbers(texts, self.decimal)
        allowed = ["", self.unit] if may_lack(self.unit) else [self.unit]
        right = pc.is_in(units, value_set=arrow_words(allowed, units.type))
        right = pc.and_not(right, pc.match_substring_regex(texts, _LONG))
        return pc.if_else(right, values, no_value(values.type))

    def to_json(self, name: str, na: Sequence[str]) -> dict[str, Any]:
        """Return what must be known to read further rows in the same way; {} for nothing."""
        told: dict[str, Any] = {}
        date_format = None if self.date_format == ISO else self.date_format
        if self.decimal != "." or date_format is not None:
            told = {"decimal": self.decimal, "date_format": date_format}
        if self.unit:
            told["unit"] = self.unit
        words = [*na, *(f"{name}={code}" for code in self.codes)]
        return told | ({"na": words} if words else {})

    def notes(self, name: str, counts: TextCounts, *, doubtful: bool) -> Iterator[str]:
        """Yield what people should know about the reading of a column."""
        if self.kind == "number" and self.formatted:
            unit = f", without {self.unit}" if self.unit else ""
            signs = [counts.with_decimal(sign)[0] for sign in ".,"]
            other = "," if self.decimal == "." else "."
            both = doubtful and signs[0] == signs[1] and counts.separated > 0
            doubt = f"; both signs would do: `decimal='{other}'` to change" if both else ""
            yield f"{name}: texts read as numbers, decimal sign {self.decimal!r}{unit}{doubt}"
        if self.kind == "date" and self.date_format != ISO:
            form = str(self.date_format)
            other_form = other_order(form)
            both = (
                doubtful
                and other_form is not None
                and counts.dates[other_form] >= counts.dates[form]
            )
            doubt = f"; {other_form} would do as well: `date_format` to change" if both else ""
            yield f"{name}: dates read as {form}{doubt}"
        if self.unparsed and self.kind in ("number", "date"):
            shown = f"such as {', '.join(map(repr, self.examples))}" if self.examples else "in it"
            many = f"count as missing ({self.unparsed} rows)"
            yield f"{name}: texts {shown} {many}; `categorical` to change"
        numbers = max(counts.with_decimal(sign)[0] for sign in ".,")
        if self.kind == "category" and doubtful and numbers >= _SHARE_BESIDE_WORDS * counts.values:
            yield f"{name}: numbers and texts, read as a category"


def infer_parsers(
    counts: Mapping[str, TextCounts],
    *,
    numeric: Collection[str] = (),
    categorical: Collection[str] = (),
    decimal: str | None = None,
    date_format: str | None = None,
    column_formats: Mapping[str, Mapping[str, Any]] | None = None,
    null_words: tuple[str, ...] = (),
    codes: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> tuple[dict[str, ColumnParser], str, list[str]]:
    """Return the parsers of text columns, the decimal sign of the table, and notes."""
    known = column_formats or {}
    sign = decimal or _common_decimal(counts, [n for n in counts if n not in categorical])
    parsers, notes = {}, list[str]()
    for name, count in counts.items():
        said = known.get(name, {})
        signs = said.get("decimal") or decimal or (".," if sign == "." else ",.")
        kind: Literal["number", "category"] | None = None
        if name in numeric or name in categorical:
            kind = "number" if name in numeric else "category"
        parser = _infer(count, kind, signs, date_format, said, null_words, codes.get(name, ()))
        if name in numeric and column_formats is None and 2 * parser.unparsed > count.values:
            shown = f" such as {min(count.words)[:40]!r}" if count.words else ""
            raise DataError(
                f"column {name!r} should be numeric, but most values are texts{shown}; correct "
                f"them, or declare the column categorical"
            )
        parsers[name] = parser
        doubtful = decimal is date_format is None and name not in (*known, *categorical)
        notes += parser.notes(name, count, doubtful=doubtful)
    return parsers, sign, notes


def _common_decimal(counts: Mapping[str, TextCounts], names: Sequence[str]) -> str:
    """Return the decimal sign that most cells of numeric columns have."""
    points = commas = 0
    for name in names:
        with_point, with_comma = (counts[name].with_decimal(sign)[0] for sign in ".,")
        if counts[name].enough(max(with_point, with_comma)):
            points, commas = points + with_point, commas + with_comma
    return "," if commas > points else "."


def _infer(
    counts: TextCounts,
    kind: Literal["number", "category"] | None,
    signs: str,
    declared: str | None,
    said: Mapping[str, Any],
    null_words: tuple[str, ...],
    codes: tuple[str, ...],
) -> ColumnParser:
    """Decide how one column is read.

    `kind` and `declared`, a format of dates, are what somebody said; `said` is how the column was
    read when features were fitted; `signs` are the decimal signs to try, the likelier first.
    """
    kind = "number" if "*" in codes else kind
    common: dict[str, Any] = {
        "null_words": null_words,
        "codes": tuple(c for c in codes if c != "*"),
    }
    clean = all(re.fullmatch(NUMBER, code) for code in common["codes"]) and not counts.empty
    category = ColumnParser("category", pa.string(), direct=True, **common)
    if kind == "category":
        return category
    if said.get("date_format") is not None:
        form = f"{said['date_format']}|{ISO}"
        return ColumnParser("date", MOMENT, date_format=form, **common)
    if declared is not None and counts.enough(counts.declared):
        common["unparsed"] = counts.values - counts.declared
        return ColumnParser("date", MOMENT, date_format=declared, **common)
    if counts.boolean == counts.values > 0:
        return ColumnParser("boolean", pa.bool_(), direct=clean, **common)
    sign = max(signs, key=lambda each: counts.with_decimal(each)[0])
    numbers, unit = counts.with_decimal(sign, said.get("unit"))
    numbers += counts.padded if kind == "number" else 0
    form = max(counts.dates, key=lambda each: (counts.dates[each], each[:2] != "%m"), default=ISO)
    parsed = max(numbers, counts.dates[form])
    nothing = not counts.values and not counts.empty
    accepted = kind == "number" or nothing or counts.enough(parsed)
    if not accepted or (counts.padded and kind != "number"):
        return category
    common |= {"unparsed": counts.values - parsed, "examples": tuple(sorted(counts.words))[:3]}
    whole = clean and parsed == counts.values
    if counts.dates[form] > numbers:
        direct = whole and counts.arrow_dates == counts.values
        return ColumnParser("date", MOMENT, date_format=form, direct=direct, **common)
    if numbers == counts.integer > 0 and not (unit or counts.padded):
        return ColumnParser("number", pa.int64(), direct=whole, **common)
    plain = sign == "." and not unit and numbers == counts.integer + counts.decimals + counts.padded
    formatted = not plain and counts.values > 0
    return ColumnParser(
        "number", pa.float64(), sign, unit, formatted=formatted, direct=whole and plain, **common
    )


def without_codes(column: pa.Array, codes: Sequence[str]) -> pa.Array:
    """Return the column with null for these texts, or for the numbers that they say."""
    if not codes:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_number(column.type):
        numbers = [float(code) for code in codes if re.fullmatch(NUMBER, code)]
        values = column.cast(pa.float64(), safe=False)
        missing = pc.is_in(values, value_set=arrow_numbers(np.array(numbers, np.float64)))
    else:
        texts = _trimmed(column) if is_text(column.type) else column.cast(pa.string())
        missing = pc.is_in(texts, value_set=arrow_words(codes, texts.type))
    return pc.if_else(missing, no_value(column.type), column)


def _nulled(texts: pa.Array, words: Sequence[str]) -> pa.Array:
    """Return null in the place of these words; the same object if there are none."""
    if not words:
        return texts
    if pa.types.is_dictionary(texts.type):
        values = _nulled(texts.dictionary, words)
        if values is texts.dictionary:
            return texts
        return pa.DictionaryArray.from_arrays(texts.indices, values)
    missing = pc.is_in(texts, value_set=arrow_words(words, texts.type))
    return pc.if_else(missing, no_value(texts.type), texts) if missing.true_count else texts


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    matches = pc.match_substring_regex(texts, pattern)
    return pc.if_else(matches, texts, no_value(texts.type))
