"""What the values of text columns look like.

The counts of parts add up, so that neither the blocks of a file nor the parts of a cluster's
table can matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrow_util import arrow_words
from labeldp.data.columns import NUMBER, check_breadth, is_number
from labeldp.data.dates import (
    CLOCK,
    DAY,
    HOUR,
    ISO,
    LAPSE,
    MOMENT,
    date_formats,
    digits,
    together,
)
from labeldp.data.dates_in_english import in_english
from labeldp.data.dress import KINDS, MOST, Dress, Dresses, dress_of, dressed, dresses, one_unit
from labeldp.data.numerals import in_ascii, numbers_among, units_of
from labeldp.data.protocol import Reader
from labeldp.data.reading import Reading, is_format
from labeldp.data.spelling import SOFT_BLANKS, without_codes

BATCH = 1 << 16
ALMOST = 0.9
"""A column with this share of numbers is a numeric column with typing errors,"""
_CODES, _OFTEN = 12, 10
"""unless they are so few whole ones, each so often on average: codes, as they would be alone
(`features/judging`), and words among them are others. -1 among names says that there is none."""

_INTEGER = r"^[ \t]*-?(0|[1-9]\d{0,17})[ \t]*$"
_LOOKS = {
    # Leading zeros and, unless they are a few among numbers, very long digit strings are
    # identifiers: 007 is not 7.
    "padded": r"^[ \t]*-?0\d+[ \t]*$",
    "long": r"^[ \t]*-?[1-9]\d{18,}[ \t]*$",
    "decimal": NUMBER,
    "boolean": r"^(true|True|TRUE|false|False|FALSE)$",
    "moment": MOMENT,
    "zoned": rf"^{DAY}[ T]{HOUR}(Z|[+-]\d\d(:?\d\d)?)$",
    "clock": CLOCK,
}
_TWO_WAYS = r"^[ \t]*[+-]?[1-9]\d{0,2}\.\d{3}[ \t]*$"
"""Decimals that are whole numbers where the point stands between groups of digits."""
_SHORT = r"^[^\d]{0,40}\d.{0,40}$"
"""All that may be a number or a date."""
_DATED = (
    r"^(\d{1,2}|\d{4}|[A-Za-z]{3})[-/. ]{1,2}(\d{1,2}|[A-Za-z]{3}),?[-/. ]{1,2}\d{1,4}\.?([ T].*)?$"
    r"|^(\d{4}[-/]\d{1,2}|\d{1,2}/\d{4}|\d{4}-[A-Za-z]{3}|[A-Za-z]{3}([- ]\d{4}|-\d\d))$"
    r"|^\d{1,2}[A-Za-z]{3}\d{4}([ T].*)?$"
)
"""Dates `in_english`, by their looks."""


@dataclass
class Looks:
    """How many values of a column look like what."""

    integer: int = 0
    padded: int = 0
    long: int = 0
    decimal: int = 0
    spelt: int = 0
    """Numbers with separators or units."""
    boolean: int = 0
    moment: int = 0
    zoned: int = 0
    clock: int = 0
    """Times of day, or durations."""
    lapse: int = 0
    """Durations in letters, such as 1h 25m; 25m may be a number too."""
    text: int = 0
    """All others, dates in other orders and numbers in a dress among them."""
    blank: int = 0
    """Words for "missing" that only a column of words keeps."""
    points: int = 0
    """Of `decimal` and `spelt`: numbers if the point is the decimal sign."""
    commas: int = 0
    """Of those: numbers if the comma is. Counted only while it may be."""
    separated: int = 0
    """Of `spelt`: numbers that hold a point or a comma."""
    declared: int = 0
    """Dates of the format that was named, whatever else they look like."""
    units: Counter[str] = field(default_factory=Counter)
    dates: Counter[str] = field(default_factory=Counter)
    dresses: Dresses = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    """Different numbers, as many as tell codes from quantities."""

    def add(self, values: pa.Array, reading: Reading) -> None:
        """Count one batch; only what is not an integer is looked at more closely."""
        values = values.drop_null()
        if len(self.kinds) <= _CODES:
            self._add_kinds(values.unique())
        if reading.date_format is not None:
            self._add_declared(values, reading.date_format)
        if not pa.types.is_dictionary(values.type):
            matches = pc.match_substring_regex(values, _INTEGER)
            self.integer += matches.true_count
            if matches.true_count == len(values):
                return
            values = values.filter(pc.invert(matches))
        counted = values.value_counts()
        rest, counts = counted.field(0), counted.field(1)
        if pa.types.is_dictionary(rest.type):
            rest = rest.dictionary_decode()
            rest, counts = self._take(
                "integer", pc.match_substring_regex(rest, _INTEGER), rest, counts
            )
        for look, pattern in _LOOKS.items():
            rest, counts = self._take(look, pc.match_substring_regex(rest, pattern), rest, counts)
        if len(rest):
            self._add_others(rest, counts, reading)

    def _add_kinds(self, values: pa.Array) -> None:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        numbers = pc.utf8_trim_whitespace(
            values.filter(pc.match_substring_regex(values, NUMBER))
        ).unique()
        self.kinds.update(numbers[: _CODES + 1].to_pylist())

    def _take(
        self, look: str, matches: pa.Array, rest: pa.Array, counts: pa.Array
    ) -> tuple[pa.Array, pa.Array]:
        """Count what matches, and go on with the others."""
        if not matches.true_count:
            return rest, counts
        found = _total(counts.filter(matches))
        setattr(self, look, getattr(self, look) + found)
        if look == "decimal":
            self._add_decimals(rest.filter(matches), counts.filter(matches), found)
        others = pc.invert(matches)
        return rest.filter(others), counts.filter(others)

    def _add_decimals(self, numbers: pa.Array, counts: pa.Array, found: int) -> None:
        """One decimal such as 3.5 settles that its column has points."""
        if self.commas >= self.points:
            self.commas += _total(counts.filter(pc.match_substring_regex(numbers, _TWO_WAYS)))
        self.points += found

    def _add_others(self, rest: pa.Array, counts: pa.Array, reading: Reading) -> None:
        """Blanks, numbers with separators or units, dates; what remains is text."""
        words = pc.utf8_trim_whitespace(rest)
        missing = (*SOFT_BLANKS, *reading.nulls(False))
        blank = pc.is_in(words, value_set=arrow_words(missing, words.type))
        rest, counts = self._take("blank", blank, rest, counts)
        rest = in_ascii(rest)
        short = pc.match_substring_regex(rest, _SHORT)
        self.text += _total(counts.filter(pc.invert(short)))
        rest, counts = rest.filter(short), counts.filter(short)
        if not len(rest):
            return
        self.lapse += _total(counts.filter(pc.match_substring_regex(rest, LAPSE)))
        either = pc.match_substring_regex(rest, "^$")
        for sign in reading.decimals():
            fits = numbers_among(rest, sign, reading.thousands)
            name = "points" if sign == "." else "commas"
            setattr(self, name, getattr(self, name) + _total(counts.filter(fits)))
            either = pc.or_(either, fits)
        self._add_spelt(rest.filter(either), counts.filter(either))
        rest, counts = self._take("spelt", either, rest, counts)
        if not len(rest):
            return
        words = in_english(rest)
        dated = pc.match_substring_regex(words, _DATED)
        self.dates.update(date_formats(words.filter(dated), counts.filter(dated)))
        for sign in reading.decimals() if len(self.dresses) <= 3 * MOST else ():
            self.dresses += dresses(rest, counts, sign, reading.thousands)
        self.text += _total(counts)

    def _add_spelt(self, numbers: pa.Array, counts: pa.Array) -> None:
        self.separated += _total(counts.filter(pc.match_substring_regex(numbers, "[.,]")))
        found = units_of(numbers)
        for unit in filter(None, found.unique().to_pylist()):
            self.units[unit] += _total(
                counts.filter(pc.match_substring_regex(found, f"^{re.escape(unit)}$"))
            )

    def _add_declared(self, values: pa.Array, form: str) -> None:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        bare = pc.utf8_trim_whitespace(values)
        times = pc.strptime(bare, format=form, unit="us", error_is_null=True)
        self.declared += len(times) - times.null_count

    def __add__(self, other: Looks) -> Looks:
        return Looks(
            *(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    @property
    def numbers(self) -> int:
        return self.integer + self.padded + self.long + self.decimal + self.spelt

    @property
    def identifiers(self) -> bool:
        """Whether the numbers are names; one that strayed far does not make the others names."""
        return self.padded > 0 or self.values - self.long < ALMOST * self.values

    @property
    def values(self) -> int:
        """Those that are not missing."""
        return self.numbers + self.boolean + self.moment + self.zoned + self.clock + self.text

    @property
    def formats(self) -> list[str]:
        """Formats of dates that every value has, the likelier first: twelve hours are American."""
        whole = [form for form, count in self.dates.items() if count == self.values]
        return sorted(whole, key=lambda form: form.startswith("%m") != ("%p" in form))

    @property
    def date_format(self) -> str | None:
        """The format of all values, or those that they have together, if they are dates."""
        if self.formats:
            return self.formats[0]
        forms = together(self.dates)
        known = self.moment + sum(self.dates[form] for form in forms)
        if not forms or known < self.values:
            return None
        several = "|".join([ISO] * (self.moment > 0) + forms)
        return several if is_format(several) else None

    @property
    def nearly_dates(self) -> bool:
        """Whether most values are dates of one kind, and a few are something else."""
        most = max(self.moment, self.zoned, *self.dates.values())
        return ALMOST * self.values <= most < self.values

    @property
    def nearly_dressed(self) -> bool:
        """Whether most values are numbers in one dress, and a few are something else."""
        for sign in ".,":
            found = dress_of(self.dresses, sign, self.numbers, self.units)
            known = self.numbers + (dressed(self.dresses, sign, found.kind) if found else 0)
            if found and self._signed(sign) and ALMOST * self.values <= known < self.values:
                return True
        return False

    def reads(self, decimal: str) -> bool:
        """Whether every number is one with this decimal sign, in one unit."""
        one = one_unit(self.units) and self.units["%"] in (0, self.numbers)
        return one and self._signed(decimal)

    @property
    def mixed(self) -> str | None:
        """The decimal sign of most numbers, if every one has either, and all have one unit."""
        if self.numbers < self.values or not one_unit(self.units) or self.units["%"]:
            return None
        return "." if self.points >= self.commas else ","

    def _signed(self, decimal: str) -> bool:
        signed = self.points if decimal == "." else self.commas
        return signed == self.decimal + self.spelt

    def dress(self, decimal: str, known: Dress | None = None) -> Dress | None:
        """What the numbers are dressed in, if all values are numbers, dressed or not."""
        if known is not None:
            kinds = [known.kind, "pair"] if known.kind == "share" else [known.kind]
            rest = self.values - self.numbers - dressed(self.dresses, decimal, *kinds)
            signed = known.kind == "mixed" or self._signed(decimal)
            return known if rest == 0 and signed else None
        found = dress_of(self.dresses, decimal, self.numbers, self.units)
        if found is None or not self._signed(decimal):
            return None
        rest = self.values - self.numbers - dressed(self.dresses, decimal, found.kind)
        return found if rest == 0 else None

    @property
    def beside(self) -> list[str]:
        """What stands beside the numbers."""
        return sorted({*self.units, *(unit for _, _, unit in self.dresses if unit)})

    def dressed(self, decimal: str) -> int:
        """Texts that may be numbers in a dress."""
        return dressed(self.dresses, decimal, *KINDS, "pair")

    def misspelt(self, numeric: bool, categorical: bool) -> bool:
        """Whether the column should be numbers, by declaration or by majority, and is not."""
        wholes = (self.numbers, self.boolean, self.moment, self.zoned, self.clock, self.declared)
        if categorical or self.values in wholes or self.date_format or self._dressed:
            return False
        return numeric or (self.numbers >= ALMOST * self.values and not self._codes)

    @property
    def _dressed(self) -> bool:
        return self.lapse == self.values or any(self.dress(sign) for sign in ".,")

    @property
    def _codes(self) -> bool:
        few = len(self.kinds) <= _CODES and self.numbers == self.integer
        return few and self.numbers >= _OFTEN * len(self.kinds)


def _total(counts: pa.Array) -> int:
    return pc.sum(counts).as_py() or 0


@dataclass(frozen=True)
class TextTypes:
    """What the values of text columns look like; parts add up."""

    rows: int = 0
    looks: dict[str, Looks] = field(default_factory=dict)

    @classmethod
    def of(
        cls, reader: Reader, features: Sequence[str], reading: Reading, most: int | None = None
    ) -> TextTypes:
        """Look at a table, at one part of it, or at about so many of its first rows."""
        check_breadth(len(features))
        rows, looks = 0, {name: Looks() for name in features}
        codes = [reading.codes.get(name, ()) for name in features]
        for batch in reader.batches(features, min(BATCH, most or BATCH)):
            rows += batch.num_rows
            for look, column, words in zip(looks.values(), batch.columns, codes, strict=True):
                column = without_codes(column, words)
                look.add(digits(column) if is_number(column.type) else column, reading)
            if most is not None and rows >= most:
                break
        return cls(rows, looks)

    def __add__(self, other: TextTypes) -> TextTypes:
        known = {name: self.looks.get(name, Looks()) + look for name, look in other.looks.items()}
        return TextTypes(self.rows + other.rows, self.looks | known)
