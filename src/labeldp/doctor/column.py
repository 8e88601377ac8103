"""What one public column holds: its kind and why, its blanks, its outliers and their cost."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.features.tally import FEW
from labeldp.source import Column
from labeldp.source.kinds import is_moment, is_text, plain
from labeldp.source.values import to_float

Facts = dict[str, Any]

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_ID_WORDS = frozenset((
    "id", "ids", "uid", "uuid", "guid", "key", "identifier", "number", "nr", "no", "ssn", "email",
    "mail", "phone", "name", "surname", "hash", "token", "index", "row", "rowid", "iban", "url",
    "address",
))  # fmt: skip
_CODE_WORDS = frozenset((
    "code", "codes", "cd", "zip", "zipcode", "postcode", "postal", "plz", "fips", "naics", "sic",
    "isco", "isic", "type", "class", "category", "group", "region", "district", "county", "state",
    "country", "store", "branch", "department", "occupation", "industry",
))  # fmt: skip
_UNIQUE = 0.95
"""Share of distinct values from which a column tells rows apart instead of describing them."""
_FEWEST = 20
_LONG = 40
_FAR = 8.0
"""An outlier lies so many standard deviations off, which no bell shape of 10⁹ rows does."""
_WINSOR = 0.001


def describe(column: Column, values: pa.ChunkedArray) -> Facts:
    """Facts about a feature; `advice` says what to do with it, if anything."""
    values = decoded(values)
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    filled = len(values) - values.null_count
    facts: Facts = {
        "name": column.name,
        "type": column.type,
        "distinct": distinct,
        "missing": len(values) - filled,
        "blanks": {},
        "outlier": None,
    }
    kind, why, advice = _judged(column, values, distinct, filled)
    facts |= {"kind": kind, "why": why, "advice": advice}
    if kind == "number":
        facts |= _spread(to_float(_whole(values), column.name))
    return facts


def decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A category by its type as the texts it stands for."""
    return values.cast(plain(values.type)) if pa.types.is_dictionary(values.type) else values


def named_like_an_id(name: str) -> bool:
    """Whether a name ends as those of identifiers do: userId, order_no, E-Mail."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and (words[-1] in _ID_WORDS or words[0] in ("id", "uuid"))


def _named_like_a_code(name: str) -> bool:
    return bool(_CODE_WORDS & {word.lower() for word in _WORDS.findall(name)})


def _judged(
    column: Column, values: pa.ChunkedArray, distinct: int, filled: int
) -> tuple[str, str, str | None]:
    """The kind, why, and the advice: drop, categorical or none."""
    if distinct < 2 and (distinct == 0 or filled == len(values)):
        return "constant", "every value is missing" if not filled else "one value", None
    for test in (_id, _code, _words):
        found = test(column, values, distinct, filled)
        if found is not None:
            return found
    if is_moment(values.type):
        return "date", "dates: days since 1970-01-01", None
    if column.undecided and distinct in FEW and _whole_numbers(values):
        return "category", f"{distinct} whole numbers", None
    return "number", "numbers", None


Judgement = tuple[str, str, str | None] | None


def _id(column: Column, values: pa.ChunkedArray, distinct: int, filled: int) -> Judgement:
    """Nearly unique texts, or integers that count rows or are named so."""
    if column.declared or filled < _FEWEST or is_moment(values.type):
        return None
    unique = distinct >= _UNIQUE * filled
    if is_text(values.type) and unique:
        return "id", "nearly every text is different", "drop"
    if not _whole_numbers(values):
        return None
    if unique and (named_like_an_id(column.name) or _counts_rows(values)):
        return "id", "nearly every number is different, as in a list of ids", "drop"
    if named_like_an_id(column.name) and distinct not in FEW and distinct > 2:
        return "id", "named like an id", "drop"
    return None


def _code(column: Column, values: pa.ChunkedArray, distinct: int, filled: int) -> Judgement:
    """Whole numbers that are named like codes and repeat."""
    number = not is_text(values.type) and _whole_numbers(values)
    if column.declared or not number or distinct <= FEW[-1] or 2 * distinct > filled:
        return None
    if _named_like_a_code(column.name):
        return "category", f"named like a code, {distinct} whole numbers", "categorical"
    return None


def _words(column: Column, values: pa.ChunkedArray, distinct: int, filled: int) -> Judgement:
    if column.kind != "categorical":
        return None
    if is_text(values.type) and distinct > filled / 2 and _mean_length(values) > _LONG:
        return "text", "long texts that hardly repeat", "drop"
    if pa.types.is_boolean(values.type):
        return "category", "true or false", None
    return "category", f"{distinct} levels", None


def _mean_length(values: pa.ChunkedArray) -> float:
    return float(pc.mean(pc.utf8_length(values)).as_py() or 0.0)


def _whole(values: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(values.chunks) if values.num_chunks != 1 else values.chunk(0)


def _whole_numbers(values: pa.ChunkedArray) -> bool:
    if pa.types.is_integer(values.type):
        return True
    if not pa.types.is_floating(values.type):
        return False
    numbers = to_float(_whole(values), "")
    return bool(np.all(numbers[~np.isnan(numbers)] % 1 == 0))


def _counts_rows(values: pa.ChunkedArray) -> bool:
    """Whether numbers rise by one from row to row."""
    numbers = to_float(_whole(values), "")
    return bool(np.mean(np.diff(numbers[~np.isnan(numbers)]) == 1) > _UNIQUE)


def _spread(values: NDArray[np.float64]) -> Facts:
    """Ends and, if one value lies far off, what it costs: leverage is what privacy is paid for."""
    known = values[~np.isnan(values)]
    facts: Facts = {"low": float(known.min()), "high": float(known.max())}
    away = np.abs(known - known.mean())
    spread = known.std()
    if spread > 0 and away.max() > _FAR * spread:
        clipped = np.clip(known, *np.quantile(known, [_WINSOR, 1 - _WINSOR]))
        facts["outlier"] = {
            "value": float(known[np.argmax(away)]),
            "leverage": _largest_leverage(known),
            "leverage_winsorised": _largest_leverage(clipped),
            "typical": float(np.median(known)),
        }
    return facts


def _largest_leverage(values: NDArray[np.float64]) -> float:
    """Of a row, in a fit of this column and a constant."""
    square = (values - values.mean()) ** 2
    total = float(square.sum())
    return 1 / len(values) + (float(square.max()) / total if total > 0 else 0.0)
