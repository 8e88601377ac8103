"""Numbers with separators, units, rates and scales: which texts are some, and what they say.

    "1,234.56"  "1.234,56"  "$1,200"  "12 %"  "(1,200)"  "$250/mo"  "45 km/h"  "1.5k"  "$2M"

A column has one unit or it is none of numbers; that is decided where columns are looked at
(`looks`). Numbers in other dress, which only a whole column can tell, are those of `dress`.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_words, numpy_numbers

UNITS = (
    r"[A-Z]{1,3}\$|\p{Sc}|USD|EUR|GBP|CHF|BRL|CAD|AUD|JPY|CNY|INR|SEK|NOK|DKK|PLN|kr|zł|Kč|"
    r"MXN|ZAR|SGD|HKD|KRW|NZD|TRY|HUF|CZK|RON|THB|PKR|IDR|MYR|PHP|VND|AED|SAR|ILS|UAH|RUB|ARS|CLP|COP|"
    r"TWD|BGN|Ft|lei|руб\.?|грн|лв|Rs\.?|TL|Rp\.?|"
    r"%|km²|km2|m²|m2|ft²|sqft|sq ft|kWh|kg|km|cm|mm|mg|lbs|lb|miles|"
    r"minutes|mins|min|mi|hours|hrs|years|yrs|days|°C|°F"
)
"""What may stand beside a number: a currency, a percent sign or a unit; longer ones first."""
_BEHIND = """
m³ m3 m kmh kph mph ha acres acre ac in inch inches ft feet yd yards g t oz lbs. stone
l L ml mL dl cl hl gal kcal cal kJ mpg W kW MW GW Wh MWh GWh V kB KB MB GB TB Mbps Gbps Hz
kHz MHz GHz rpm dB ppm ppb psi bar hPa kPa bpm mmHg mmol
µg ug ng IU ms s sec secs second seconds h hr hour
minute day week weeks wk wks month months mo mos year yr yo Jahre Jahr Monate Tage Tag
Wochen Stunden Std. Std Minuten Min. Min Zimmer qm Stück Stk. Stk Punkte ans an mois jours
jour heures pièces años año meses días horas anos dias anni mesi giorni ore jaar maanden
dagen uur år mån dagar kvm st lat let roků pcs pc pieces units items rooms people persons
points pts stars 歳 年 円 元 人 分 個
"""
AFTER = "|".join(map(re.escape, sorted(_BEHIND.split(), key=len, reverse=True)))
"""What may stand behind a number besides; before it, it may be a part of a name: m1, h2."""
RATE = r"(?:\s*/\s*|\s+per\s+)(?:\d{1,4}\s?)?[^\s\d/]{1,10}[23]?"
"""Of what: behind a number with a unit, $250/mo or 6.5 l/100km."""
_QUOTED = r"(?:'|=\")?"
"""As spreadsheets keep a number from being one."""
_LOOSE = r"^[^(]*\)|\([^)]*$|\(.*-|^[-+−\s\d.,]*(?:/|\sper\s)|^\s*(?:'|=\")0\d|^[^=]*\"|=\"[^\"]*$"
"""A bracket, quote or minus too many, rates of nothing, and codes in quotes: 3/A is a name."""
_SCALES = {
    1e3: "k|K|Tsd|thousand",
    1e6: "M|mn|Mn|Mio|million|Million|millones",
    1e9: "bn|Bn|Mrd|billion|Billion",
}
_SCALE = "|".join(_SCALES.values())
_SPACES = " \u00a0\u2009\u202f'’"
_SIGN = "[-+−]?"
_INSIDE = {".": f"(?:,|[{_SPACES}])", ",": rf"(?:\.|[{_SPACES}])"}
"""By the decimal sign: what may stand between groups of three digits, in India of two as well."""


def number_text(number: Decimal) -> str:
    """Return a number as digits and a power of ten, so that it has no decimal sign to mistake."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return str(number)  # Infinity
    kept = "".join(map(str, digits)).rstrip("0") or "0"
    power = exponent + len(digits) - len(kept) if any(digits) else 0
    if 0 <= power <= 20:
        kept, power = kept + "0" * power, 0
    return f"{'-' * sign}{kept}{f'e{power}' if power else ''}"


def numbers_among(texts: pa.Array, decimal: str, thousands: str | None) -> pa.Array:
    """Which texts are numbers if this is the decimal sign."""
    found = pc.match_substring_regex(texts, _pattern(decimal, thousands))
    return pc.and_not(found, pc.match_substring_regex(texts, _LOOSE))


def in_ascii(texts: pa.Array) -> pa.Array:
    """Digits and signs of East Asian width as others have them, and ▲, a minus there, as one."""
    if pc.all(pc.string_is_ascii(texts)).as_py() in (True, None):
        return texts
    wide = pc.match_substring_regex(texts, "[０-９％．，＋－（）]")
    texts = pc.if_else(wide, pc.utf8_normalize(texts, "NFKC"), texts)
    return pc.replace_substring_regex(texts, r"^(\s*\p{Sc}?)[▲△]\s*", r"\1-")


def surely(texts: pa.Array, decimal: str, other: str, thousands: str | None) -> pa.Array:
    """Which numbers have this decimal sign for sure: with the other they are none."""
    either = (numbers_among(texts, sign, thousands) for sign in (decimal, other))
    return pc.and_not(*either)


def _pattern(decimal: str, thousands: str | None) -> str:
    """Units stand here twice only: to compile them takes longer than to look for them."""
    front = rf"^\s*{_QUOTED}\(?\s*{_SIGN}\s*(?:{UNITS})?\s*{_SIGN}\s*"
    scaled = rf"(?:\s?(?:{_SCALE})\b\.?)?"
    behind = rf"(?:{UNITS}|{AFTER})?(?:{RATE})?\s*(?:-|\)\s?%?)?\"?\s*$"
    return rf"{front}{body_pattern(decimal, thousands)}{scaled}\s*{behind}"


def body_pattern(decimal: str, thousands: str | None) -> str:
    """Digits alone: a number without signs and units."""
    between = _INSIDE[decimal] if thousands is None else _escaped(thousands)
    point = _escaped(decimal)
    grouped = rf"[1-9]\d{{0,2}}(?:{between}\d{{3}})+"
    if "," in (thousands or ",") and decimal == ".":  # in India; 10.20.30.100 is an address
        grouped += r"|[1-9]\d?(?:,\d\d)+,\d{3}"
    return rf"(?:(?:{grouped}|\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"


def _escaped(sign: str) -> str:
    return "[" + "".join("\\" + letter for letter in sign) + "]" if sign != " " else "[ \u00a0]"


def units_of(numbers: pa.Array) -> pa.Array:
    """What stands beside each number and how it is rated, such as km/h; empty for none."""
    rate = _trimmed(pc.extract_regex(numbers, f"(?P<unit>{RATE})\\s*$"))
    alone = pc.replace_substring_regex(unscaled(numbers), f"{RATE}\\s*$", "")
    unit = _trimmed(pc.extract_regex(alone, f"(?P<unit>(?:{AFTER})\\s*$|{UNITS})"))
    return pc.binary_join_element_wise(unit, rate, arrow_words([""], unit.type)[0])


def _trimmed(found: pa.Array) -> pa.Array:
    """The unit that was found, without spaces; empty where there is none."""
    unit = pc.replace_substring_regex(found.field("unit"), r"\s", "")
    return pc.fill_null(unit, arrow_words([""], unit.type)[0])


def unscaled(texts: pa.Array) -> pa.Array:
    """The texts without thousand, million and their like."""
    return pc.replace_substring_regex(texts, rf"(\d[.,]?)\s?(?:{_SCALE})\b\.?", r"\1")


def scales(texts: pa.Array) -> NDArray[np.float64]:
    """What each number is to be multiplied with."""
    factors = np.ones(len(texts))
    for factor, words in _SCALES.items():
        found = pc.match_substring_regex(texts, rf"\d[.,]?\s?(?:{words})\b")
        factors[numpy_numbers(found.cast(pa.float64())) == 1] = factor
    return factors


def bare_number(texts: pa.Array) -> pa.Array:
    """The texts without units, rates, scales, brackets and spaces."""
    texts = pc.replace_substring_regex(unscaled(texts), f"{RATE}\\s*$", "")
    return pc.replace_substring_regex(
        texts, rf"(?:{AFTER})[)\s-]*$|{UNITS}|[()+−=\"{_SPACES}\s]", ""
    )
