"""Dates in texts: which format they have, and the times that they say.

A format is written as `strptime` has it. Texts may have a time of day and a zone behind the date
whether the format names them or not. Names of months are English, short or long.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, arrow_words, no_value, numpy_numbers

ISO = "%Y-%m-%d"
MOMENT = pa.timestamp("us")

_FORMATS: tuple[tuple[str, ...], ...] = (
    (ISO,), ("%Y/%m/%d",), ("%Y.%m.%d",),
    ("%d.%m.%Y",), ("%d.%m.%y",),
    ("%d/%m/%Y", "%m/%d/%Y"), ("%d-%m-%Y", "%m-%d-%Y"),
    ("%d/%m/%y", "%m/%d/%y"), ("%d-%m-%y", "%m-%d-%y"),
    ("%d %b %Y",), ("%d %b %y",), ("%d-%b-%Y",), ("%d-%b-%y",), ("%d%b%Y",), ("%d/%b/%Y",),
    ("%b %d, %Y",), ("%b %d %Y",),
    ("%Y-%m",), ("%Y/%m",), ("%m/%Y",), ("%b %Y",), ("%b-%Y",), ("%b-%y",),
)  # fmt: skip
"""Formats that are inferred. A text may have both formats of a pair."""

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
    r"(?: ?(?P<z>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?)?"
)
_MAYBE_DATE = r"^(?:\d{1,4}[-/. ]|\d{1,2}[A-Za-z]{3}\d|[A-Za-z]{3,9}\.?[- ]).{0,40}\d"
_DIRECTIVES = {"%F": ISO, "%B": "%b", "%T": "%H:%M:%S"}


def is_date_format(value: object) -> bool:
    """Whether a value is a format of dates, or up to nine of them with | between."""
    if not isinstance(value, str):
        return False
    forms = [_expanded(form) for form in value.split("|")]
    return len(forms) < 10 and all(
        re.fullmatch(r"(%[YymdbHIMSp]|[-/., :T]){1,16}", form) for form in forms
    )


def is_all_digits(form: str | None) -> bool:
    """Whether dates of a format are whole numbers too, such as 20210305."""
    return form is not None and re.fullmatch(r"(%[YymdHMS])+", _expanded(form)) is not None


def count_formats(texts: pa.Array, counts: pa.Array, before: Counter[str]) -> Counter[str]:
    """Count the different `texts`, each so often, that have each format; some have two.

    Formats that were seen `before` are tried first, and what has one of them is tried no further.
    """
    totals: Counter[str] = Counter()
    maybe = pc.match_substring_regex(texts, _MAYBE_DATE)
    texts, counts = texts.filter(maybe), counts.filter(maybe)
    for forms in sorted(_FORMATS, key=lambda forms: -before[forms[0]] - before[forms[-1]]):
        if not len(texts):
            break
        fits = [pc.match_substring_regex(texts, _pattern(form)) for form in forms]
        for form, fit in zip(forms, fits, strict=True):
            totals[form] += pc.sum(counts.filter(fit)).as_py() or 0
        others = pc.invert(fits[0] if len(fits) == 1 else pc.or_(*fits))
        texts, counts = texts.filter(others), counts.filter(others)
    return +totals


def other_order(form: str) -> str | None:
    """Return the format that differs in the order of day and month, if there is one."""
    pairs = [forms for forms in _FORMATS if len(forms) > 1 and form in forms]
    return next((each for forms in pairs for each in forms if each != form), None)


def parse_dates(texts: pa.Array, form: str) -> pa.Array:
    """Return the times that texts of a format say, null for others and for days of no calendar.

    Of several formats with | between, the first that a text has counts. A zone is applied, so that
    the result is in UTC; without one it is the time that the clock showed.
    """
    coded = texts.dictionary_encode()  # every text is parsed once
    times = [_parse(coded.dictionary, one) for one in form.split("|")]
    return (times[0] if len(times) == 1 else pc.coalesce(*times)).take(coded.indices)


def digits_of(numbers: pa.Array) -> pa.Array:
    """Return whole numbers as texts of digits; numbers with a fraction, which no date has, too."""
    try:
        return numbers.cast(pa.int64()).cast(pa.string())
    except pa.ArrowInvalid:
        return numbers.cast(pa.string())


@cache
def _pattern(form: str) -> str:
    form = _expanded(form)
    fields = re.sub(r"%.|.", lambda part: _FIELDS.get(part[0]) or re.escape(part[0]), form)
    return f"^{fields}{'' if re.search('%[HI]', form) else _TIME}$"


def _expanded(form: str) -> str:
    for short, long in _DIRECTIVES.items():
        form = form.replace(short, long)
    return form


def _parse(texts: pa.Array, form: str) -> pa.Array:
    pattern = _pattern(form)
    parts = pc.extract_regex(texts, pattern)
    names = {field.name for field in parts.type}

    def number(name: str, default: float) -> NDArray[np.float64]:
        if name not in names:
            return np.full(len(texts), default)
        digits = pc.replace_substring_regex(parts.field(name), "^$", str(default))
        return numpy_numbers(
            pc.fill_null(digits, arrow_words(["1"], digits.type)[0]).cast(pa.float64())
        )

    year = number("Y", 0) if "Y" in names else 1900 + number("y", 70)
    year = np.where((year < 1969) & ("Y" not in names), year + 100, year)  # as POSIX has it
    month = _months(parts.field("b")) if "b" in names else number("m", 1)
    first = (year.astype(np.int64) - 1970).astype("M8[Y]").astype("M8[M]")
    first = first + (month.astype(np.int64) - 1).astype("m8[M]")
    day = first.astype("M8[D]") + (number("d", 1).astype(np.int64) - 1).astype("m8[D]")
    exists = day.astype("M8[M]") == first  # there is no 31st of June
    hour = number("H", 0)
    if "p" in names:
        half = parts.field("p")
        is_pm, is_am = (_truths(pc.match_substring_regex(half, sign)) for sign in ("[Pp]", "[Aa]"))
        hour = np.where(is_pm | is_am, hour % 12 + 12 * is_pm, hour)
    seconds = hour * 3600 + number("M", 0) * 60 + number("S", 0)
    if "z" in names:
        seconds -= _offsets(parts.field("z"))
    micros = day.astype("M8[us]").astype(np.int64) + np.rint(seconds * 1e6).astype(np.int64)
    valid = arrow_numbers((exists & ~_truths(parts.is_null())).view(np.uint8)).cast(pa.bool_())
    return pc.if_else(valid, arrow_numbers(micros).cast(MOMENT), no_value(MOMENT))


def _months(names: pa.Array) -> NDArray[np.int64]:
    """1 to 12; 1 where there is none."""
    short = pc.utf8_lower(pc.utf8_slice_codeunits(names, 0, 3))
    places = pc.index_in(short, value_set=arrow_words(_MONTHS, short.type))
    numbers = numpy_numbers(places.cast(pa.float64()))
    return np.where(np.isnan(numbers), 0, numbers).astype(np.int64) + 1


def _offsets(zones: pa.Array) -> NDArray[np.float64]:
    """Seconds by which the clocks of zones are ahead of UTC; 0 where none is named."""
    texts = [zone or "" for zone in zones.unique().to_pylist()]
    found = [re.fullmatch(r"([+-])(\d\d):?(\d\d)?", text) for text in texts]
    ahead = [
        int(part[1] + "1") * (int(part[2]) * 3600 + int(part[3] or 0) * 60) if part else 0
        for part in found
    ]
    places = numpy_numbers(pc.index_in(zones, value_set=zones.unique()).cast(pa.float64()))
    which = np.where(np.isnan(places), -1, places).astype(int)
    offsets: NDArray[np.float64] = np.array([*ahead, 0.0])[which]
    return offsets


def _truths(mask: pa.Array) -> NDArray[np.bool_]:
    """False where it is null."""
    truths: NDArray[np.bool_] = numpy_numbers(mask) == 1
    return truths
