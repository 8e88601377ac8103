"""Dates that are not spelt as ISO wants: found by the shape of the text, then by the order."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, arrow_words, no_value, numpy_numbers
from labeldp.data.dates_in_english import in_english

_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DAY = (
    r"(?:\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|\d{4}-(?:0[13-9]|1[0-2])-(?:29|30)|"
    rf"\d{{4}}-(?:0[13578]|1[02])-31|{_LEAP}-02-29)"
)
"""Days as ISO writes them, and as the calendar has them."""
HOUR = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?"
MOMENT = rf"^{DAY}([ T]{HOUR})?$"
"""Dates and times as ISO has them, without a zone."""

CLOCK = (
    r"^(?:(?P<days>\d{1,5}) ?(?:d|days?|Tage?),? )?(?P<hours>\d{1,3})[:h]"
    r"(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d{1,9})?))?"
    r"(?P<half> ?[AaPp]\.?[Mm]\.?)?(?: ?(?:Uhr|hrs|h))?$"
)
"""Times of day, and durations in hours, minutes and seconds."""
LAPSE = (
    r"^(?:(?P<days>\d{1,5}) ?(?:d|days?|Tage?)(?:,? |$)?)?"
    r"(?:(?P<hours>\d+) ?(?:h|hr|hrs|hours?|Std\.?)(?:,? |$)?)?"
    r"(?:(?P<minutes>\d+) ?(?:m|min|mins|minutes?|Min\.?)(?:,? |$)?)?"
    r"(?:(?P<seconds>\d+(?:\.\d{1,9})?) ?(?:s|sec|secs|seconds?|Sek\.?))?$"
)
"""Durations in letters: 1h 25m."""

_MONTH = "(?:0?[1-9]|1[0-2])"
_DAY = "(?:0?[1-9]|[12][0-9]|3[01])"
ISO = "%F"
"""Among several formats: dates and times as ISO has them."""
_TIMES = {
    "": "",
    " 9:9": " %H:%M",
    " 9:9:9": " %H:%M:%S",
    "T9:9": "T%H:%M",
    "T9:9:9": "T%H:%M:%S",
    " 9:9 p": " %I:%M %p",
    " 9:9:9 p": " %I:%M:%S %p",
}
_SHAPED = re.compile(r"(?P<day>.*?)(?P<time>[ T]9:9(:9)?( p)?)?")
_ORDERS: dict[str, tuple[str, ...]] = {
    "Y-9-9": ("%Y-%m-%d",),
    "Y/9/9": ("%Y/%m/%d",),
    "Y.9.9": ("%Y.%m.%d",),
    "9/9/Y": ("%d/%m/%Y", "%m/%d/%Y"),
    "9-9-Y": ("%d-%m-%Y", "%m-%d-%Y"),
    "9.9.Y": ("%d.%m.%Y",),
    "9/9/9": ("%d/%m/%y", "%m/%d/%y"),
    "9-9-9": ("%d-%m-%y", "%m-%d-%y"),
    "9.9.9": ("%d.%m.%y",),
    "9. 9. Y": ("%d. %m. %Y",),
    "Y. 9. 9": ("%Y. %m. %d",),
    "Y. 9. 9.": ("%Y. %m. %d.",),
    "9 b Y": ("%d %b %Y",),
    "9 b 9": ("%d %b %y",),
    "9/b/Y": ("%d/%b/%Y",),
    "9.b.Y": ("%d.%b.%Y",),
    "Y-b-9": ("%Y-%b-%d",),
    "Y b 9": ("%Y %b %d",),
    "9. b Y": ("%d. %b %Y",),
    "9-b-Y": ("%d-%b-%Y",),
    "9-b-9": ("%d-%b-%y",),
    "9bY": ("%d%b%Y",),
    "b 9, Y": ("%b %d, %Y",),
    "b 9 Y": ("%b %d %Y",),
    "Y-9": ("%Y-%m",),
    "Y/9": ("%Y/%m",),
    "Y-b": ("%Y-%b",),
    "9/Y": ("%m/%Y",),
    "b Y": ("%b %Y",),
    "b-Y": ("%b-%Y",),
    "b-9": ("%b-%y",),
}
"""Of every shape the orders it may have, the likelier first."""
_FIELDS = {
    "%d": _DAY,
    "%m": _MONTH,
    "%Y": r"\d{4}",
    "%y": r"\d{2}",
    "%b": "(?i:" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in month_name[1:]) + ")",
    "%H": r"(?:[01]?\d|2[0-3])",
    "%M": r"[0-5]\d",
    "%S": r"[0-5]\d",
    "%I": "(?:0?[1-9]|1[0-2])",
    "%p": "[AaPp][Mm]",
}


def in_digits(form: str | None) -> bool:
    """Whether dates of a format are whole numbers too: 20210305."""
    return form is not None and re.fullmatch(r"(%[YymdHMS])+", form) is not None


def digits(numbers: pa.Array) -> pa.Array:
    """Whole numbers as texts; others as they are, which no such date is."""
    try:
        return numbers.cast(pa.int64()).cast(pa.string())
    except pa.ArrowInvalid:
        return numbers.cast(pa.string())


def date_formats(texts: pa.Array, counts: pa.Array) -> dict[str, int]:
    """How many of these texts, each so often, are dates of which format; one may be of two."""
    found: dict[str, int] = {}
    for shape in _shapes(texts):
        for form in _formats(shape):
            fits = pc.match_substring_regex(texts, _pattern(form))
            found[form] = pc.sum(counts.filter(fits)).as_py() or 0
    return {form: count for form, count in found.items() if count}


def together(counts: Mapping[str, int]) -> list[str]:
    """The formats of texts of several shapes: of each shape the order that most have."""
    best: dict[str, str] = {}
    for form in sorted(counts, key=lambda form: (-counts[form], form.startswith("%m"), form)):
        other = other_order(form)
        best.setdefault(min(form, other or form), form)
    return sorted(best.values(), key=lambda form: (-counts[form], form))


def read_times(texts: pa.Array, form: str) -> pa.Array:
    """The times that texts of one format say, null for others."""
    if form == ISO:
        return of_format(texts, form).cast(pa.timestamp("us"))
    texts = in_english(texts)
    times = pc.strptime(texts, format=form, unit="us", error_is_null=True)
    if "%d" not in form:
        return times
    # a 31st of a month of 30 days would be taken for a 1st
    early = pc.less_equal(pc.day(times), arrow_numbers(np.array([3]))[0])
    days = pc.replace_substring_regex(texts, r"[ T]\d+:.*$", "")
    if "%y" in form:  # which is the last
        days = pc.replace_substring_regex(days, r"\d\d$", "")
    late = pc.match_substring_regex(days, r"(?:^|\D)(?:29|30|31)(?:\D|$)")
    return pc.if_else(pc.and_(early, late), no_value(times.type), times)


def read_clock(texts: pa.Array) -> pa.Array:
    """The time since midnight, or the duration, that texts say; null for others."""
    return pc.coalesce(_elapsed(texts, CLOCK), _elapsed(texts, LAPSE))


def _elapsed(texts: pa.Array, pattern: str) -> pa.Array:
    parts = pc.extract_regex(texts, pattern)
    days, hours, minutes, seconds = (
        _numbers(parts.field(name)) for name in ("days", "hours", "minutes", "seconds")
    )
    if pattern == CLOCK:
        late, halved = (
            numpy_numbers(pc.match_substring_regex(parts.field("half"), sign)) == 1
            for sign in ("[Pp]", "[AaPp]")
        )
        hours = np.where(halved, hours % 12 + 12 * late, hours)
    micros = np.rint(((days * 24 + hours) * 3600 + minutes * 60 + seconds) * 1e6).astype(np.int64)
    times = arrow_numbers(micros).cast(pa.duration("us"))
    return pc.if_else(parts.is_null(), no_value(times.type), times)


def _numbers(texts: pa.Array) -> NDArray[np.float64]:
    """0 where there is none."""
    zero, nothing = arrow_words(["0", ""], texts.type)
    filled = pc.fill_null(texts, zero)
    return numpy_numbers(pc.if_else(pc.equal(filled, nothing), zero, filled).cast(pa.float64()))


def of_format(texts: pa.Array, form: str) -> pa.Array:
    """The texts that look like dates of a format, null for others."""
    words, pattern = (texts, MOMENT) if form == ISO else (in_english(texts), _pattern(form))
    return pc.if_else(pc.match_substring_regex(words, pattern), words, no_value(texts.type))


def other_order(form: str) -> str | None:
    """The format that differs in the order of day and month, if there is one."""
    for orders in _ORDERS.values():
        for one, other in zip(orders, orders[::-1], strict=True):
            if one != other and form.startswith(one):
                return form.replace(one, other)
    return None


def _shapes(texts: pa.Array) -> list[str]:
    """The texts with Y for years, 9 for other numbers and b for words."""
    shape = pc.replace_substring_regex(texts, r" [AaPp][Mm]$", " p")
    shape = pc.replace_substring_regex(shape, r"[A-SU-Za-z][A-Za-z]{2,8}", "b")
    shape = pc.replace_substring_regex(shape, r"\d{4}", "Y")
    return [str(text) for text in pc.replace_substring_regex(shape, r"\d{1,2}", "9").unique()]


def _formats(shape: str) -> list[str]:
    parts = _SHAPED.fullmatch(shape)
    if parts is None or parts["day"] not in _ORDERS:
        return []
    time = _TIMES[parts["time"] or ""]
    return [day + time for day in _ORDERS[parts["day"]]]


def _pattern(form: str) -> str:
    spelled = re.sub(r"%.|.", lambda found: _FIELDS.get(found[0]) or re.escape(found[0]), form)
    return f"^{spelled}$"
