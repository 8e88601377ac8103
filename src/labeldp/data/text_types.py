"""Text columns: numbers, dates, truth values or categories, by the rules of docs/reading.md.

    TextOptions                    what can be said of the text of a table
    TextCounts.add(texts)          count what all texts of a column look like; parts add up
    infer_parsers(counts, …)       decide from the counts how each column is read
    ColumnParser.parse(column)     read it so

A text that the parser of a column does not understand becomes missing; labels are not read here.
What Arrow's own reader of delimited text gives in the same way is left to it (`direct`).

A format of dates is written as `strptime` has it. Texts may have a time of day and a zone behind
the date whether the format names them or not. Names of months are English, short or long.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, arrow_words, no_value, numpy_numbers
from labeldp.data.columns import NUMBER, is_number_type, is_text_type, value_type
from labeldp.errors import DataError, InputError, one_of, to_int, to_str

MOST_WORDS = 20
"""Different texts without a digit that may stand among numbers or dates, as words for missing."""
_SHARE_BESIDE_WORDS, _SHARE = 0.8, 0.99
"""Least share of numbers or dates if the rest are such words, and if they are anything."""
_MOST_UNITS = 1000
_SAMPLE = 1000
"""Texts by which it is judged whether those of a batch repeat."""
_FALSE = arrow_numbers(np.zeros(1, np.uint8)).cast(pa.bool_())[0]

_INTEGER = r"^-?(?:0|[1-9]\d{0,17})$"
_DECIMAL = r"^[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_GROUPED_BY_POINT = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"
_LONG = r"^[+-]?\d{19,}$"  # a name, not a quantity
_BOOLEAN = "^(?:true|True|TRUE|false|False|FALSE)$"

_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|BRL|SEK|NOK|DKK|PLN|CZK|ZAR|MXN|kr|Rs"
_CURRENCY = rf"\p{{Sc}}|[A-Z]{{1,2}}\$|{_CODES}"
# All signs beyond ASCII in the place of \pL, which takes milliseconds to compile for every batch.
_UNIT = r"[A-Za-z\x{80}-\x{10FFFF}][A-Za-z/.,\x{80}-\x{10FFFF}]{1,11}"
_MARK = r"[*†‡§]{1,3}|\[\w{1,3}\]|\([a-z]\)"
_SPACES = " \u00a0\u2009\u202f"
_GAP = f"[{_SPACES}]?"
_GROUPED = rf"[1-9]\d{{0,2}}(?:(?:,\d{{3}})+|(?:[{_SPACES}]\d{{3}})+|(?:['’]\d{{3}})+)"
_IN_WORDS = (
    rf"^\(?[-+−]?{_GAP}(?:{_CURRENCY})?{_GAP}[-−]?(?:(?:{_GROUPED}|\d+)(?:\.\d*)?|\.\d+){_GAP}"
    rf"(?:%|{_CURRENCY}|{_UNIT})?{_GAP}(?:{_MARK})?-?\)?$"
)
"""Numbers with groups of digits, currency or unit, footnote marks, and brackets for minus."""
_UNPAIRED = r"^[^(]*\)|\([^)]*$|[(\-−].*[-−]|[-−].*\("
"""A bracket without its other half, or two signs for minus."""
_BESIDE_DIGITS = rf"[0-9.,{_SPACES}'’()+−-]+"

ISO = "%Y-%m-%d"
MOMENT = pa.timestamp("us")

_DATE_FORMATS: tuple[tuple[str, ...], ...] = (
    (ISO,), ("%Y/%m/%d",), ("%Y.%m.%d",),
    ("%d.%m.%Y",), ("%d.%m.%y",),
    ("%d/%m/%Y", "%m/%d/%Y"), ("%d-%m-%Y", "%m-%d-%Y"),
    ("%d/%m/%y", "%m/%d/%y"), ("%d-%m-%y", "%m-%d-%y"),
    ("%d %b %Y",), ("%d %b %y",), ("%d-%b-%Y",), ("%d-%b-%y",), ("%d%b%Y",), ("%d/%b/%Y",),
    ("%b %d, %Y",), ("%b %d %Y",),
    ("%Y-%m",), ("%Y/%m",), ("%m/%Y",), ("%b %Y",), ("%b-%Y",), ("%b-%y",),
)  # fmt: skip
"""Formats that are inferred. A text may have both formats of a pair."""
OTHER_ORDER = {a: b for forms in _DATE_FORMATS for a in forms for b in forms if a != b}
"""The format that differs in the order of day and month alone."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NAME = (
    "(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_FIELDS = {
    "%Y": r"(?P<Y>\d{4})",
    "%y": r"(?P<y>\d{2})",
    "%m": "(?P<m>0?[1-9]|1[0-2])",
    "%d": "(?P<d>0?[1-9]|[12][0-9]|3[01])",
    "%b": f"(?P<b>{_MONTH_NAME})",
    "%H": r"(?P<H>[01]?\d|2[0-3])",
    "%I": "(?P<H>0?[1-9]|1[0-2])",
    "%M": r"(?P<M>[0-5]\d)",
    "%S": r"(?P<S>[0-5]\d(?:\.\d{1,9})?)",
    "%p": r"(?P<p>[AaPp]\.?[Mm]\.?)",
}
_TIME = (
    f"(?:[ T]{_FIELDS['%H']}:{_FIELDS['%M']}(?::{_FIELDS['%S']})?(?: ?{_FIELDS['%p']})?"
    r"(?: ?(?:Z|UTC|GMT|(?P<zs>[+-])(?P<zh>\d\d):?(?P<zm>\d\d)?))?)?"
)
_MAYBE_DATE = r"^(?:\d{1,4}[-/. ]|\d{1,2}[A-Za-z]{3}\d|[A-Za-z]{3,9}\.?[- ]).{0,40}\d"
_MOST_LINES = 1000


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Keywords of `scan` about text, which explains them."""

    delimiter: str | None = None
    encoding: str | None = None
    skip_lines: int | None = None
    skip_footer: int | None = None
    decimal: str | None = None
    na: tuple[str, ...] | None = None
    date_format: str | None = None
    column_formats: Mapping[str, Mapping[str, Any]] | None = None
    """`FeatureMap.column_formats`: how columns were read when features were fitted; None before."""

    def __post_init__(self) -> None:
        for name in ("delimiter", "encoding", "date_format"):
            if getattr(self, name) is not None:
                to_str(name, getattr(self, name))
        sign = self.delimiter
        if sign is not None and (len(sign) != 1 or not sign.isascii() or sign in '\0\r\n"'):
            raise InputError(f"`delimiter` must be one ASCII character, not {sign!r}")
        for name in ("skip_lines", "skip_footer"):
            lines = getattr(self, name)
            if lines is not None and not 0 <= to_int(name, lines) <= _MOST_LINES:
                raise InputError(f"`{name}` must be 0 to {_MOST_LINES} lines, not {lines}")
        one_of("decimal", self.decimal, (None, ".", ","))
        if self.date_format is not None and not is_date_format(self.date_format):
            raise InputError(
                f"`date_format` {self.date_format!r} is none; write it like %d.%m.%Y or %Y%m%d"
            )
        try:
            b" ".decode(self.encoding or "utf-8", errors="ignore")
        except (LookupError, ValueError):  # ValueError: a zero byte in the name
            raise InputError(
                f"`encoding` {self.encoding!r} is unknown; try utf-8, cp1252 or utf-16"
            ) from None
        for name, form in (self.column_formats or {}).items():
            date = form.get("date_format")
            unit_alone = form.get("dress", "unit") == "unit" and "negative" not in form
            if not unit_alone or (date is not None and not is_date_format(date)):
                raise DataError(
                    f"column {name!r} was fitted by an earlier version that read texts which this "
                    "version does not; convert the column to plain numbers or ISO dates, and fit "
                    "again"
                )

    @property
    def keywords(self) -> dict[str, Any]:
        """The options that are not None, as keywords of `scan` of the same table again."""
        options = {name: value for name, value in vars(self).items() if value is not None}
        options.pop("column_formats", None)
        return options

    def codes(self, column: str) -> list[str]:
        """Return what `na` says of one column alone: 999 where it has age=999."""
        start = f"{column}="
        return [word.removeprefix(start) for word in self.na or () if word.startswith(start)]

    def words(self, columns: Iterable[str]) -> list[str]:
        """Return what `na` says of every column."""
        starts = tuple(f"{column}=" for column in columns)
        return [word for word in self.na or () if not word.startswith(starts)]


def is_date_format(value: object) -> bool:
    """Return whether a value is a format of dates, or up to nine of them with | between."""
    if not isinstance(value, str):
        return False
    forms = [_expanded(form) for form in value.split("|")]
    return len(forms) < 10 and all(
        re.fullmatch(r"(%[YymdbHIMSp]|[-/., :T]){1,16}", form) for form in forms
    )


def count_formats(texts: pa.Array, counts: pa.Array, before: Counter[str]) -> Counter[str]:
    """Count the different `texts`, each so often, that have each format; some have two.

    Formats that were seen `before` are tried first, and what has one of them is tried no further.
    """
    totals: Counter[str] = Counter()
    maybe = pc.match_substring_regex(texts, _MAYBE_DATE)
    texts, counts = texts.filter(maybe), counts.filter(maybe)
    for forms in sorted(_DATE_FORMATS, key=lambda forms: -before[forms[0]] - before[forms[-1]]):
        if not len(texts):
            break
        fits = [pc.match_substring_regex(texts, _date_pattern(form)) for form in forms]
        for form, fit in zip(forms, fits, strict=True):
            totals[form] += pc.sum(counts.filter(fit)).as_py() or 0
        others = pc.invert(fits[0] if len(fits) == 1 else pc.or_(*fits))
        texts, counts = texts.filter(others), counts.filter(others)
    return +totals


def parse_dates(texts: pa.Array, form: str) -> pa.Array:
    """Return the times that texts of a format say, null for others and for days of no calendar.

    Of several formats with | between, the first that a text has counts. A zone is applied, so that
    the result is in UTC; without one it is the time that the clock showed.
    """
    if form == ISO:
        try:
            return texts.cast(MOMENT)  # the same where all texts are plain, and much faster
        except pa.ArrowInvalid:
            pass
    coded = texts.dictionary_encode()  # every text is parsed once
    times = [_parse_date(coded.dictionary, one) for one in form.split("|")]
    return (times[0] if len(times) == 1 else pc.coalesce(*times)).take(coded.indices)


@cache
def _date_pattern(form: str) -> str:
    form = _expanded(form)
    fields = re.sub(r"%.|.", lambda part: _FIELDS.get(part[0]) or re.escape(part[0]), form)
    return f"^{fields}{'' if re.search('%[HI]', form) else _TIME}$"


def _expanded(form: str) -> str:
    return form.replace("%F", ISO).replace("%B", "%b").replace("%T", "%H:%M:%S")


def _parse_date(texts: pa.Array, form: str) -> pa.Array:
    parts = pc.extract_regex(texts, _date_pattern(form))
    names = {field.name for field in parts.type}

    def field(name: str) -> pa.Array:
        """Return a part of the texts, empty where it or all else is missing."""
        if name not in names:
            return arrow_words([""] * len(texts), pa.string())
        return pc.fill_null(parts.field(name), arrow_words([""], texts.type)[0])

    def number(name: str, default: float) -> NDArray[np.float64]:
        digits = pc.replace_substring_regex(field(name), "^$", str(default))
        return numpy_numbers(digits.cast(pa.float64()))

    def begins(name: str, letters: str) -> NDArray[np.bool_]:
        truths: NDArray[np.bool_] = numpy_numbers(pc.match_substring_regex(field(name), letters))
        return truths

    year = number("Y", 1970)
    if "y" in names:
        year = 1900 + number("y", 70)
        year = np.where(year < 1969, year + 100, year)  # as POSIX has it
    month = np.ones(len(texts)) if "b" in names else number("m", 1)
    for place, name in enumerate(_MONTHS if "b" in names else ()):
        month[begins("b", f"(?i)^{name}")] = place + 1
    first = (year.astype(np.int64) - 1970).astype("M8[Y]").astype("M8[M]")
    first = first + (month.astype(np.int64) - 1).astype("m8[M]")
    day = first.astype("M8[D]") + (number("d", 1).astype(np.int64) - 1).astype("m8[D]")
    exists = day.astype("M8[M]") == first  # there is no 31st of June
    is_pm, is_am = begins("p", "^[Pp]"), begins("p", "^[Aa]")
    hour = np.where(is_pm | is_am, number("H", 0) % 12 + 12 * is_pm, number("H", 0))
    seconds = hour * 3600 + number("M", 0) * 60 + number("S", 0)
    ahead = number("zh", 0) * 3600 + number("zm", 0) * 60
    seconds -= np.where(begins("zs", "-"), -ahead, ahead)
    micros = day.astype("M8[us]").astype(np.int64) + np.rint(seconds * 1e6).astype(np.int64)
    valid = pc.and_(arrow_numbers(exists.view(np.uint8)).cast(pa.bool_()), parts.is_valid())
    return pc.if_else(valid, arrow_numbers(micros).cast(MOMENT), no_value(MOMENT))


def parse_numbers(texts: pa.Array, decimal: str) -> tuple[pa.Array, pa.Array]:
    """Return the numbers that trimmed texts say, null for others, and their units.

    The unit is a currency, % or a word in small letters without plural and dot; "" for none.
    """
    if decimal == ",":  # points and commas change places, by way of a sign that no text has
        for sign, other in ((",", "\uffff"), (".", ","), ("\uffff", ".")):
            texts = pc.replace_substring(texts, sign, other)
    plain = pc.match_substring_regex(texts, NUMBER)
    values = only(texts, plain).cast(pa.float64())
    units = pc.if_else(plain, arrow_words([""], pa.string())[0], no_value(pa.string()))
    if pc.all(plain).as_py() is not False:
        return values, units
    # Regular expressions that replace are slow: only texts that have the pattern are changed.
    others = pc.and_not(pc.match_substring_regex(texts, _IN_WORDS), plain)
    others = pc.fill_null(others, _FALSE)
    if not others.true_count:
        return values, units
    bare = pc.replace_substring_regex(texts.filter(others), rf"\s?(?:{_MARK})(-?\)?)$", r"\1")
    digits = pc.replace_substring_regex(bare, r"(\d\.?)\D*$", r"\1")  # a unit may have points
    digits = pc.replace_substring_regex(digits, r"[^\d.]+", "")
    numbers = numpy_numbers(digits.cast(pa.float64()))
    negative = numpy_numbers(pc.match_substring_regex(bare, r"^\D*[(\-−]|-$"))
    signed = arrow_numbers(np.where(negative, -numbers, numbers))
    words = pc.replace_substring_regex(bare, _BESIDE_DIGITS, "")
    words = pc.utf8_lower(pc.replace_substring_regex(words, r"(\pL{2})s$", r"\1"))
    right = pc.invert(pc.match_substring_regex(bare, _UNPAIRED))
    return (
        pc.replace_with_mask(values, others, only(signed, right)),
        pc.replace_with_mask(units, others, only(words.cast(pa.string()), right)),
    )


def may_lack(unit: str) -> bool:
    """Whether numbers with this unit may stand beside numbers without: it is a currency."""
    is_sign = unit != "" and unicodedata.category(unit[-1]) == "Sc"
    return is_sign or unit in _CODES.lower().split("|")


@dataclass
class TextCounts:
    """How many texts of a column look like what; counts of parts add up in any order."""

    kinds: Counter[str] = field(default_factory=Counter)
    """"values": all but missing and empty ones. Of them "integer", "padded", "boolean", "decimal"
    (other plain numbers), "word" (nothing of all this, without a digit), "declared" (dates of the
    declared format). "empty": texts such as - or ?.
    "missing": words for that, with blanks beside them if Arrow reads the text."""
    numbers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Numbers that are not whole, by decimal sign and unit; some are numbers with either sign."""
    dates: Counter[str] = field(default_factory=Counter)
    """Dates by format; some have two."""
    words: set[str] = field(default_factory=set)
    """Different texts of "word", until there are more than may stand among numbers."""

    def add(
        self, column: pa.Array, missing: Sequence[str] = (), date_format: str | None = None
    ) -> None:
        """Count the texts of one batch."""
        texts = trimmed(column.drop_null())
        counts = arrow_numbers(np.ones(len(texts), np.int64))
        # Texts that repeat are looked at once. Of numbers that hardly do, to find the different
        # ones would take longer than to look at all.
        if 2 * len(texts[:_SAMPLE].unique()) < min(len(texts), _SAMPLE):
            counted = texts.value_counts()
            texts, counts = counted.field(0), counted.field(1)

        def total(which: pa.Array) -> int:
            return pc.sum(counts.filter(which)).as_py() or 0

        def take(which: str | pa.Array) -> int:
            """Set texts with a pattern, or these texts, aside; return how many they are."""
            nonlocal texts, counts
            if isinstance(which, str):
                fits = pc.match_substring_regex(texts, which)
            else:
                fits = pc.is_in(texts, value_set=which)
            number, others = total(fits), pc.invert(fits)
            texts, counts = texts.filter(others), counts.filter(others)
            return number

        kinds = self.kinds
        kinds["missing"] += take(arrow_words(missing, pa.string()))
        kinds["values"] += pc.sum(counts).as_py() or 0
        if date_format is not None:
            kinds["declared"] += total(parse_dates(texts, date_format).is_valid())
        kinds["integer"] += take(_INTEGER)
        grouped = total(pc.match_substring_regex(texts, _GROUPED_BY_POINT))
        decimals = take(_DECIMAL)
        self.numbers += Counter({(".", ""): decimals, (",", ""): grouped})
        empty = take(r"^[^\pL\pN]*$")
        kinds.update(values=-empty, empty=empty, decimal=decimals)
        kinds["padded"] += take(r"^-?0\d+$")  # 007 is not 7
        kinds["boolean"] += take(_BOOLEAN)
        if not len(texts):  # usual, and to compile the patterns below takes long
            return
        self.dates += count_formats(texts, counts, self.dates)
        is_number = pc.match_substring_regex(texts, "^$")
        for sign in ".,":
            values, units = parse_numbers(texts, sign)
            right = pc.and_not(values.is_valid(), pc.match_substring_regex(texts, _LONG))
            is_number = pc.or_(is_number, right)
            if sign == ".":
                plain = pc.match_substring_regex(texts, NUMBER)
                kinds["decimal"] += total(pc.and_(right, plain))
            coded = units.filter(right).dictionary_encode()
            often = np.bincount(numpy_numbers(coded.indices), numpy_numbers(counts.filter(right)))
            for unit, times in zip(coded.dictionary.to_pylist(), often, strict=True):
                self.numbers[sign, unit] += int(times)
        # A column with more units has none; which of them are forgotten does not matter.
        self.numbers = Counter(dict(self.numbers.most_common(_MOST_UNITS)))
        wordy = pc.and_not(pc.match_substring_regex(texts, r"^\PN*$"), is_number)
        kinds["word"] += total(wordy)
        if len(self.words) <= MOST_WORDS:
            self.words.update(texts.filter(wordy).unique()[: MOST_WORDS + 1].to_pylist())

    def with_decimal(self, sign: str, unit: str | None = None) -> tuple[int, str]:
        """Return how many numbers there are with a decimal sign and a unit, and the unit.

        Without a unit it is the one of most numbers.
        """
        counts = Counter({key: n for (each, key), n in self.numbers.items() if each == sign})
        plain = self.kinds["integer"] + counts.pop("", 0)
        best = unit or max(counts, key=counts.__getitem__, default="")
        if may_lack(best):
            return counts[best] + plain, best
        if unit is None and plain >= counts[best]:
            return plain, ""
        return counts[best], best

    def enough(self, parsed: int) -> bool:
        """Whether a column with so many numbers or dates is one of numbers or dates."""
        values = self.kinds["values"]
        beside_words = values - parsed == self.kinds["word"] + self.kinds["boolean"]
        few = beside_words and len(self.words) <= MOST_WORDS
        return parsed > 0 and parsed >= (_SHARE_BESIDE_WORDS if few else _SHARE) * values


def trimmed(texts: pa.Array) -> pa.Array:
    """Return texts, of a dictionary too, without blanks at their ends."""
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    return pc.utf8_trim_whitespace(texts.cast(pa.string()))


@dataclass(frozen=True)
class ColumnParser:
    """How the texts of one column become values."""

    type: pa.DataType | None = None
    """Of the values; None if they are as stored: texts of a category, or typed."""
    decimal: str = "."
    unit: str = ""
    date_format: str | None = None
    formatted: bool = False
    """Whether numbers have separators, units or the like: then they are quantities, not codes."""
    direct: bool = False
    """Whether Arrow's own reader of delimited text gives the same."""
    missing: tuple[str, ...] = ()
    """Texts, and numbers, that mean missing."""
    unparsed: int = field(default=0, compare=False)
    """Texts that were inferred to be missing here."""

    def parse(self, column: pa.Array) -> pa.Array:
        """Return the values; the same object if nothing is to be done."""
        column = without(column, self.missing)
        if self.type is None or not is_text_type(value_type(column.type)):
            return column
        texts = trimmed(column)
        if self.date_format is not None:
            return parse_dates(texts, self.date_format)
        if pa.types.is_boolean(self.type):
            return only(texts, pc.match_substring_regex(texts, _BOOLEAN)).cast(pa.bool_())
        if pa.types.is_integer(self.type):
            return only(texts, pc.match_substring_regex(texts, _INTEGER)).cast(pa.int64())
        values, units = parse_numbers(texts, self.decimal)
        allowed = ["", self.unit] if may_lack(self.unit) else [self.unit]
        right = pc.is_in(units, value_set=arrow_words(allowed, units.type))
        values = only(values, pc.and_not(right, pc.match_substring_regex(texts, _LONG)))
        return without(values, self.missing)  # 99.0 is the code 99

    def to_json(self) -> dict[str, Any]:
        """Return what must be known to read further rows in the same way; {} for nothing."""
        form: dict[str, Any] = {}
        date_format = None if self.date_format == ISO else self.date_format
        if self.decimal != "." or date_format is not None:
            form = {"decimal": self.decimal, "date_format": date_format}
        if self.unit:
            form["unit"] = self.unit
        return form


_CATEGORY = ColumnParser()


def infer_parsers(
    counts: Mapping[str, TextCounts],
    options: TextOptions,
    numeric: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> tuple[dict[str, ColumnParser], str, list[str]]:
    """Return the parsers of text columns, the decimal sign of the table, and notes."""
    sign = options.decimal
    if sign is None:  # the one that most cells of numeric columns have
        points = commas = 0
        for name, count in counts.items():
            with_point, with_comma = (count.with_decimal(each)[0] for each in ".,")
            if name not in categorical and count.enough(max(with_point, with_comma)):
                points, commas = points + with_point, commas + with_comma
        sign = "," if commas > points else "."
    parsers, notes = dict[str, ColumnParser](), list[str]()
    for name, count in counts.items():
        if name in categorical:
            parsers[name] = _CATEGORY
            continue
        form = (options.column_formats or {}).get(name, {})
        signs = form.get("decimal") or options.decimal or (".," if sign == "." else ",.")
        parser = _infer(count, signs, options.date_format, form, is_number=name in numeric)
        mostly_texts = 2 * parser.unparsed > count.kinds["values"]
        if name in numeric and mostly_texts and options.column_formats is None:
            shown = f" such as {min(count.words)[:40]!r}" if count.words else ""
            raise DataError(
                f"column {name!r} should be numeric, but most values are texts{shown}; correct "
                f"them, or declare the column categorical"
            )
        parsers[name] = parser
        is_inferred = options.decimal is options.date_format is None and not form
        notes += _notes(name, parser, count, is_inferred=is_inferred)
    return parsers, sign, notes


def _infer(
    counts: TextCounts,
    signs: str,
    date_format: str | None,
    form: Mapping[str, Any],
    *,
    is_number: bool,
) -> ColumnParser:
    """Decide how one column is read.

    `signs` are the decimal signs to try, the likelier first; `form` is how the column was read when
    features were fitted.
    """
    kinds, dates, values = counts.kinds, counts.dates, counts.kinds["values"]
    if form.get("date_format") is not None:
        return ColumnParser(MOMENT, date_format=f"{form['date_format']}|{ISO}")
    if date_format is not None and counts.enough(kinds["declared"]):
        others = values - kinds["declared"]
        return ColumnParser(MOMENT, date_format=date_format, unparsed=others)
    # Arrow's own reader knows no texts for missing but words without blanks beside them.
    clean = not (kinds["empty"] or kinds["missing"])
    if kinds["boolean"] == values > 0:
        return ColumnParser(pa.bool_(), direct=clean)
    sign = max(signs, key=lambda each: counts.with_decimal(each)[0])
    numbers, unit = counts.with_decimal(sign, form.get("unit"))
    numbers += kinds["padded"] if is_number else 0
    best = max(dates, key=lambda each: (dates[each], each[:2] != "%m"), default=ISO)
    parsed = max(numbers, dates[best])
    nothing = not (values or kinds["empty"])
    accepted = nothing or (counts.enough(parsed) and not kinds["padded"])
    if not (accepted or is_number):
        return _CATEGORY
    others = values - parsed
    if dates[best] > numbers:
        return ColumnParser(MOMENT, date_format=best, unparsed=others)
    direct = clean and not others
    if numbers == kinds["integer"] > 0 and not (unit or kinds["padded"]):
        return ColumnParser(pa.int64(), direct=direct, unparsed=others)
    plain_numbers = kinds["integer"] + kinds["decimal"] + kinds["padded"]
    plain = sign == "." and not unit and numbers == plain_numbers
    return ColumnParser(
        pa.float64(),
        decimal=sign,
        unit=unit,
        formatted=not plain and values > 0,
        direct=direct and plain,
        unparsed=others,
    )


def _notes(
    name: str, parser: ColumnParser, counts: TextCounts, *, is_inferred: bool
) -> Iterator[str]:
    """Yield what people should know about the reading of a column."""
    form, doubt = parser.date_format, ""
    if parser.formatted:
        unit = f", without {parser.unit}" if parser.unit else ""
        yield f"{name}: texts read as numbers, decimal sign {parser.decimal!r}{unit}"
    elif form not in (None, ISO):
        other = OTHER_ORDER.get(form, "")
        if is_inferred and counts.dates[other] >= counts.dates[form] > 0:
            doubt = f"; {other} would do as well: `date_format` to change"
        yield f"{name}: dates read as {form}{doubt}"
    if parser.unparsed:
        examples = ", ".join(map(repr, sorted(counts.words)[:3]))
        shown = f"such as {examples}" if examples else "in it"
        yield (
            f"{name}: texts {shown} count as missing ({parser.unparsed} rows); `categorical` to "
            "change"
        )


def without(column: pa.Array, words: Sequence[str]) -> pa.Array:
    """Return null for these texts, or the numbers that they say; the same object if none is there.

    A dictionary's values are looked at once.
    """
    if not words:
        return column
    if pa.types.is_dictionary(column.type):
        values = without(column.dictionary, words)
        if values is column.dictionary:
            return column
        return pa.DictionaryArray.from_arrays(column.indices, values)
    if is_number_type(column.type):
        numbers = [float(word) for word in words if re.fullmatch(NUMBER, word)]
        if not numbers:
            return column
        values, absent = column.cast(pa.float64(), safe=False), arrow_numbers(np.array(numbers))
    else:
        values = trimmed(column) if is_text_type(column.type) else column.cast(pa.string())
        absent = arrow_words(words, values.type)
    missing = pc.is_in(values, value_set=absent)
    return only(column, pc.invert(missing)) if missing.true_count else column


def only(column: pa.Array, mask: pa.Array) -> pa.Array:
    """Return the values under a mask, and null for others."""
    return pc.if_else(mask, column, no_value(column.type))
