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
OTHER_ORDER = {a: b for forms in _FORMATS for a in forms for b in forms if a != b}
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
    for forms in sorted(_FORMATS, key=lambda forms: -before[forms[0]] - before[forms[-1]]):
        if not len(texts):
            break
        fits = [pc.match_substring_regex(texts, _pattern(form)) for form in forms]
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
    times = [_parse(coded.dictionary, one) for one in form.split("|")]
    return (times[0] if len(times) == 1 else pc.coalesce(*times)).take(coded.indices)


@cache
def _pattern(form: str) -> str:
    form = _expanded(form)
    fields = re.sub(r"%.|.", lambda part: _FIELDS.get(part[0]) or re.escape(part[0]), form)
    return f"^{fields}{'' if re.search('%[HI]', form) else _TIME}$"


def _expanded(form: str) -> str:
    return form.replace("%F", ISO).replace("%B", "%b").replace("%T", "%H:%M:%S")


def _parse(texts: pa.Array, form: str) -> pa.Array:
    parts = pc.extract_regex(texts, _pattern(form))
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
