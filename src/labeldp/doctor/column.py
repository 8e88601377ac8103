"""What one public column holds: its kind and why, its blanks, its outliers and their cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.data.columns import Column, is_clock, is_moment, is_text, to_float, value_type
from labeldp.doctor.compact import in_four_digits
from labeldp.features.column_type import FEWEST, UNIQUE, ColumnType
from labeldp.features.naming import cyclic, named_like_a_code, surely_id
from labeldp.features.tally import FEW

Traits = dict[str, Any]

_LONG = 40
_FAR = 8.0
"""An outlier lies so many standard deviations off, which no bell shape of 10⁹ rows does."""
_WINSOR = 0.001
_SHARES = (_WINSOR, 0.002, 0.005, 0.01, 0.02, 0.05)
MANY_ROWS, COSTLY = 10_000, 250
"""From here a column for each of a few numbers costs little; with many such columns, from here for
each of them."""


def describe(
    column: Column, values: pa.ChunkedArray, verdict: ColumnType, many: int = MANY_ROWS
) -> Traits:
    """Facts about a feature; `advice` says what to do with it, if anything.

    From so `many` rows on whole numbers in a row may have a column each.
    """
    values = decoded(values)
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    filled = len(values) - values.null_count
    facts: Traits = {
        "name": column.name,
        "type": column.type,
        "distinct": distinct,
        "missing": len(values) - filled,
        "blanks": {},
        "outlier": None,
    }
    kind, why, advice = _judged(column, values, distinct, verdict, many)
    facts |= {"kind": kind, "why": why, "advice": advice}
    if kind == "number":
        facts |= _spread(to_float(_whole(values), column.name))
    return facts


def decoded(values: Any) -> Any:
    """A category as the texts it stands for, no type as missing texts, half floats as floats."""
    if pa.types.is_null(values.type):
        return values.cast(pa.string())
    if pa.types.is_float16(values.type):  # for which Arrow lacks most kernels
        return values.cast(pa.float32())
    return values.cast(value_type(values.type)) if pa.types.is_dictionary(values.type) else values


def _judged(
    column: Column, values: pa.ChunkedArray, distinct: int, verdict: ColumnType, many: int
) -> tuple[str, str, str | None]:
    """The kind, why, and the advice: drop, categorical or none."""
    filled = len(values) - values.null_count
    if distinct < 2 and (distinct == 0 or filled == len(values)):
        return "constant", "every value is missing" if not filled else "one value", None
    if is_text(values.type) and not column.declared and in_four_digits(values, distinct):
        return "number", "times of day such as 0930, as numbers", "numeric"
    if verdict.kind == "id":
        return "id", verdict.why, "drop"
    if is_text(values.type) and distinct > filled / 2 and _mean_length(values) > _LONG:
        return "text", "long texts that hardly repeat", "drop"
    if is_text(values.type) and not column.declared and _all_rare(values, distinct):
        return "text", f"{distinct} texts, none in rows enough to be told apart", "drop"
    if verdict.kind == "category":
        why = "true or false" if pa.types.is_boolean(values.type) else verdict.why
        if not column.undecided:
            return "category", why, None
        if distinct in FEW and len(values) < many and _is_scale(column.name, values):
            return "number", f"{why} in a row: one column costs least on few rows", "numeric"
        return "category", why, None if distinct in FEW else "categorical"
    if is_moment(values.type):
        return "date", "dates: days since 1970-01-01", None
    if is_clock(values.type):
        return "time", "times of day or durations: hours", None
    if column.undecided and filled >= FEWEST and _counts_rows(values):
        return "id", "rises by one from row to row", "drop"
    return "number", "numbers", None


def dummies(name: str, values: pa.ChunkedArray) -> int:
    """Design columns that whole numbers in a row have as a category; 0 of other columns."""
    if not pa.types.is_integer(values.type):
        return 0
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    return distinct - 1 if distinct in FEW and _is_scale(name, values) else 0


def _is_scale(name: str, values: pa.ChunkedArray) -> bool:
    """Whether whole numbers follow each other, as counts do, and are not named like codes."""
    ends = pc.min_max(values).as_py()
    width = ends["max"] - ends["min"] + 1
    scale = width == pc.count_distinct(values, mode="only_valid").as_py()
    return bool(scale) and not (named_like_a_code(name) or surely_id(name) or cyclic(name))


def _all_rare(values: pa.ChunkedArray, distinct: int) -> bool:
    """Whether no text is as frequent as a level must be."""
    least = math.isqrt(len(values))
    if distinct <= FEW[-1] or distinct * least < len(values) - values.null_count:
        return False
    counts = values.drop_null().value_counts().field("counts")
    return bool(pc.max(counts).as_py() < least)


def _mean_length(values: pa.ChunkedArray) -> float:
    return float(pc.mean(pc.utf8_length(values)).as_py() or 0.0)


def _whole(values: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(values.chunks) if values.num_chunks != 1 else values.chunk(0)


def _counts_rows(values: pa.ChunkedArray) -> bool:
    """Whether numbers rise by one from row to row."""
    numbers = to_float(_whole(values), "")
    return bool(np.mean(np.diff(numbers[~np.isnan(numbers)]) == 1) > UNIQUE)


def _spread(values: NDArray[np.float64]) -> Traits:
    """Ends and, if one value lies far off, what it costs: leverage is what privacy is paid for."""
    known = values[~np.isnan(values)]
    facts: Traits = {"low": float(known.min()), "high": float(known.max())}
    away = np.abs(known - known.mean())
    spread = known.std()
    if spread > 0 and away.max() > _FAR * spread:
        share = _share_that_reaches(known)
        facts["outlier"] = {
            "value": float(known[np.argmax(away)]),
            "leverage": _largest_leverage(known),
            "leverage_winsorised": _largest_leverage(_clipped(known, share)),
            "typical": float(np.median(known)),
        }
        facts["winsor"] = None if share == _WINSOR else share
    return facts


def _share_that_reaches(known: NDArray[np.float64]) -> float:
    """The default, or where it is less than one number, or outliers are more, the next that is not.

    Where none helps, the first that is a number at all.
    """
    shares = [share for share in _SHARES if share * len(known) >= 1] or [_WINSOR]
    return next((share for share in shares if not _strays(_clipped(known, share))), shares[0])


def _clipped(known: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    return np.clip(known, *np.quantile(known, [share, 1 - share]))


def _strays(known: NDArray[np.float64]) -> bool:
    """Whether some number lies far from the others."""
    return bool(np.abs(known - known.mean()).max() > _FAR * known.std())


def _largest_leverage(values: NDArray[np.float64]) -> float:
    """Of a row, in a fit of this column and a constant."""
    square = (values - values.mean()) ** 2
    total = float(square.sum())
    return 1 / len(values) + (float(square.max()) / total if total > 0 else 0.0)
