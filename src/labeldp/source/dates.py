"""Dates that are not spelt as ISO wants: found by the shape of the text, then by the order."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_MONTH = "(?:0?[1-9]|1[0-2])"
_DAY = "(?:0?[1-9]|[12][0-9]|3[01])"
_TIMES = {"": "", " 9:9": " %H:%M", " 9:9:9": " %H:%M:%S", "T9:9": "T%H:%M", "T9:9:9": "T%H:%M:%S"}
_SHAPED = re.compile(r"(?P<day>.*?)(?P<time>[ T]9:9(:9)?)?")
_ORDERS: dict[str, tuple[str, ...]] = {
    "Y/9/9": ("%Y/%m/%d",),
    "Y.9.9": ("%Y.%m.%d",),
    "9/9/Y": ("%d/%m/%Y", "%m/%d/%Y"),
    "9-9-Y": ("%d-%m-%Y", "%m-%d-%Y"),
    "9.9.Y": ("%d.%m.%Y",),
    "9/9/9": ("%d/%m/%y", "%m/%d/%y"),
    "9.9.9": ("%d.%m.%y",),
    "9 b Y": ("%d %b %Y",),
    "9-b-Y": ("%d-%b-%Y",),
    "9-b-9": ("%d-%b-%y",),
    "b 9, Y": ("%b %d, %Y",),
}
"""Of every shape the orders it may have, the likelier first."""
_FIELDS = {
    "%d": _DAY,
    "%m": _MONTH,
    "%Y": r"\d{4}",
    "%y": r"\d{2}",
    "%b": "[A-Za-z]{3,9}",
    "%H": r"\d{1,2}",
    "%M": r"\d{2}",
    "%S": r"\d{2}",
}


def date_formats(texts: pa.Array, counts: pa.Array) -> dict[str, int]:
    """How many of these texts, each so often, are dates of which format; one may be of two."""
    found: dict[str, int] = {}
    for shape in _shapes(texts):
        for form in _formats(shape):
            fits = pc.match_substring_regex(texts, _pattern(form))
            found[form] = pc.sum(counts.filter(fits)).as_py() or 0
    return {form: count for form, count in found.items() if count}


def other_order(form: str) -> str | None:
    """The format that differs in the order of day and month, if there is one."""
    for orders in _ORDERS.values():
        for one, other in zip(orders, orders[::-1], strict=True):
            if one != other and form.startswith(one):
                return form.replace(one, other)
    return None


def _shapes(texts: pa.Array) -> list[str]:
    """The texts with Y for years, 9 for other numbers and b for words."""
    shape = pc.replace_substring_regex(texts, r"[A-SU-Za-z][A-Za-z]{2,8}", "b")
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
