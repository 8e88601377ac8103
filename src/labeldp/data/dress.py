"""Numbers in a dress that only a whole column can tell.

    unit     "2 BR" "3 BR"   "25/h" "30/h"   "52.5°N" "33.9°S"   "1,200.00 CR" "80.50 DR"   "3rd"
    bound    "<5" "12.3" "90+ days" "ca. 7"  the number itself, beside as many plain numbers
    share    "172/180" "4.5/5" "3/4"         the quotient, where no first part is the larger
    measure  "500 g" "1.5 kg"                in one unit, if every number has one
    mixed    "1,234.56" "1.234,56"           each by the sign that it has for sure

A unit that nobody has heard of is one if every number has it, or its plural; letters that take
sides (south, west, credit) make numbers negative. One letter more or less may be a name, so any
other single letter leaves texts as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrow_util import arrow_numbers, arrow_words, numpy_numbers
from labeldp.data.conversion import are_one, measured_in
from labeldp.data.numerals import RATE, body_pattern, numbers_among

_SIDES = (("N", "S"), ("E", "W"), ("DR", "CR"), ("Dr", "Cr"), ("S", "H"))
"""Letters behind numbers that go together, the second for those below zero."""
_ORDINALS = {"st", "nd", "rd", "th"}
_BOUND = (
    r"(?i:[<>≤≥~≈]=?|(?:less|more|fewer) than\b|(?:under|below|over|above|at least|up to)\b|"
    r"(?:about|around|circa|etwa|environ)\b|(?:ca|approx|env)\b\.?)\s*"
)
_MORE = (
    r"\s*(?i:\+|[*†‡]{1,3}|\((?:e|p|r|est\.?|prov\.?)\)|"
    r"\b(?:or|and) (?:more|over|above|older|up)\b|(?:und|oder) mehr|(?:ou|et) plus)"
)
"""Behind a number: that it is a bound, or only an estimate."""
_LETTERS = r"[^\s\d/,;:<>()%+\-]"
_WORD = rf"°?\s?[NSEWH]|%?\s?{_LETTERS}{{2,12}}(?:\s{_LETTERS}{{1,12}})?(?:{RATE})?|{RATE}"
MOST = 8
"""Different units behind the numbers of a column, more than any that go together."""
KINDS = ("unit", "bound", "share", "measure", "mixed")


@dataclass(frozen=True)
class Dress:
    """What the numbers of a column are dressed in, and the letters of those below zero."""

    kind: str
    negative: str | None = None
    unit: str | None = None
    """That to which others are converted."""

    @property
    def told(self) -> dict[str, str]:
        """What further rows must know."""
        told = {"dress": self.kind, "negative": self.negative, "unit": self.unit}
        return {name: value for name, value in told.items() if value is not None}

    @property
    def note(self) -> str:
        """How that is said."""
        notes = {"bound": ", those like <5 or ca. 5 as 5", "share": ", those like 3/4 as shares"}
        if self.kind == "measure":
            return f", all in {self.unit}"
        if self.kind == "mixed":
            return ", the other where it must be"
        below = f", {self.negative} below zero" if self.negative else ""
        return notes.get(self.kind, below)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Dress | None:
        """The dress that was told, if one was."""
        if "dress" not in told:
            return None
        return cls(told["dress"], told.get("negative"), told.get("unit"))

    def undressed(self, texts: pa.Array) -> pa.Array:
        """The texts as numbers are written; the first part of a share."""
        if self.kind == "share":
            return pc.replace_substring_regex(texts, r"\s*/.*$", "")
        if self.kind == "bound":
            bare = pc.replace_substring_regex(texts, rf"^{_BOUND}", "")
            return pc.replace_substring_regex(bare, rf"(\d){_MORE}(\D*)$", r"\1\2")
        if self.kind in ("measure", "mixed"):
            return texts
        bare = pc.replace_substring_regex(texts, rf"(?:{_WORD})$", "")
        if self.negative is None:
            return bare
        below = pc.match_substring_regex(texts, rf"[\d°.,\s]{self.negative}$")
        return pc.if_else(below, pc.replace_substring_regex(bare, "^", "-"), bare)

    def whole(self, texts: pa.Array) -> pa.Array | None:
        """Of shares, what they are shares of."""
        if self.kind != "share":
            return None
        alone = pc.replace_substring_regex(texts, r"^[^/]*$", "/1")
        return pc.replace_substring_regex(alone, r"^[^/]*/\s*", "")


Dresses = Counter[tuple[str, str, str]]
"""How many texts are numbers in a dress: by the decimal sign, the kind, and the unit if any."""


def dresses(texts: pa.Array, counts: pa.Array, sign: str, thousands: str | None) -> Dresses:
    """Count texts, each so often, that are no numbers by themselves."""
    found: Dresses = Counter()
    bounds = bounds_among(texts, sign, thousands)
    found[sign, "bound", ""] = _total(counts.filter(bounds))
    texts, counts = (each.filter(pc.invert(bounds)) for each in (texts, counts))
    body = body_pattern(sign, thousands)
    shares = pc.match_substring_regex(texts, rf"^\s*{body}\s*/\s*{body}\s*$")
    for kind, which in _shares(texts.filter(shares), sign).items():
        found[sign, kind, ""] = _total(counts.filter(shares).filter(which))
    units = letters_behind(texts, sign, thousands)
    for unit in filter(None, units.unique()[: MOST + 2].to_pylist()):
        same = pc.equal(units, arrow_words([unit], units.type)[0])
        found[sign, "unit", unit] = _total(counts.filter(same))
    return +found


def _shares(texts: pa.Array, sign: str) -> dict[str, pa.Array]:
    """Which are shares, and which are pairs such as 120/80."""
    share, between = Dress("share"), rf"[\s'’\x{{a0}}\x{{2009}}\x{{202f}}{'.,'.replace(sign, '')}]"
    parts = (
        pc.replace_substring_regex(part, between, "")
        for part in (share.undressed(texts), share.whole(texts))
    )
    first, second = (
        numpy_numbers(pc.replace_substring(part, sign, ".").cast(pa.float64())) for part in parts
    )
    within = (first <= second) & (second > 0)
    truth = arrow_numbers(within.astype(np.uint8)).cast(pa.bool_())
    return {"share": truth, "pair": pc.invert(truth)}


def letters_behind(texts: pa.Array, sign: str, thousands: str | None) -> pa.Array:
    """What stands behind each number, whatever it means; nothing for texts of another form."""
    body = body_pattern(sign, thousands)
    pattern = rf"^\s*[-+−]?\s*{body}\s*(?P<unit>{_WORD})\s*$"
    found = pc.extract_regex(texts, pattern)
    nothing = arrow_words([""], found.field("unit").type)[0]
    units = pc.if_else(found.is_null(), nothing, found.field("unit"))
    return pc.replace_substring_regex(units, r"^°\s*([NSEW])$|\s", r"\1")


def bounds_among(texts: pa.Array, sign: str, thousands: str | None) -> pa.Array:
    """Which texts are numbers with a sign of more or less."""
    bound = pc.match_substring_regex(texts, rf"^\s*{_BOUND}|\d{_MORE}\D*$")
    bare = Dress("bound").undressed(pc.utf8_trim_whitespace(texts))
    return pc.and_(bound, numbers_among(bare, sign, thousands))


def _total(counts: pa.Array) -> int:
    return pc.sum(counts).as_py() or 0


def dressed(found: Dresses, sign: str, *kinds: str) -> int:
    """How many texts are dressed so, with this decimal sign."""
    return sum(n for (decimal, kind, _), n in found.items() if decimal == sign and kind in kinds)


def dress_of(found: Dresses, sign: str, numbers: int, units: Counter[str]) -> Dress | None:
    """The dress of texts beside so many numbers, of which so many have a unit that is known."""
    kinds = {kind for decimal, kind, _ in found if decimal == sign}
    if kinds == {"share"} and not units:
        return Dress("share")
    if kinds == {"bound"} and dressed(found, sign, "bound") <= numbers and one_unit(units):
        return Dress("bound")
    if not kinds and units.total() == numbers and not one_unit(units):
        unit = measured_in(units)
        return None if unit is None else Dress("measure", unit=unit)
    names = {*units, *(unit for decimal, _, unit in found if decimal == sign)}
    if kinds == {"unit"} and (units or not numbers) and one_unit(names):
        return Dress("unit", _negative(names))
    return None


def one_unit(names: Collection[str]) -> bool:
    """Whether units are the same, or go together."""
    bare = {name.rstrip(".") for name in names}
    together = any(bare <= {*family} for family in (*_SIDES, _ORDINALS))
    return together or same_unit(names)


def same_unit(names: Collection[str]) -> bool:
    """Whether units are the same, but for plurals and other names."""
    return len(_stems(names)) < 2 or are_one(names)


def _stems(names: Collection[str]) -> set[str]:
    """Without plurals, and in small letters: KM is km, though M may be another thing than m."""
    bare = {name.rstrip(".") for name in names}
    small = {name.lower() if len(name) > 1 else name for name in bare}
    return {name.removesuffix("s") if len(name) > 2 else name for name in small}


def _negative(names: Collection[str]) -> str | None:
    """The letters of numbers below zero; of one side alone nobody knows, but for a credit."""
    return next((low for high, low in _SIDES if low in names and high in names), None)


def is_dress(value: Any) -> bool:
    """Whether a value that was read from JSON is a kind of dress."""
    return value in KINDS


def is_negative(value: Any) -> bool:
    """Whether it is letters of numbers below zero."""
    return value in {low for _, low in _SIDES}
