"""The slow obvious twin of `fit_features` and `design`: pure Python, exact fractions."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction


def half_even(value: Fraction) -> int:
    return round(value)


def winsorised(values, share):
    """The numbers as they count: the ⌊share·n⌋ outermost at either end as the next one inwards.

    The share is a decimal text, or a fraction; where one number would remain nothing is moved.
    """
    inwards = sorted(v for v in values if v is not None and not math.isnan(v))
    beyond = math.floor(Fraction(share) * len(inwards))
    if not inwards or inwards[beyond] == inwards[-1 - beyond]:
        return values
    low, high = inwards[beyond], inwards[-1 - beyond]
    absent = [v is None or math.isnan(v) for v in values]
    return [v if gone else min(max(v, low), high) for v, gone in zip(values, absent, strict=True)]


def twin_numeric(values, intercept=True, indicators=True, standardise=True, winsor=0):
    """Return the design columns of one numeric column as lists, or None if constant."""
    values = winsorised(values, winsor)
    known = [Fraction(v) for v in values if v is not None and not math.isnan(v)]
    missing = len(values) - len(known)
    if not known:
        return None
    low, high = min(known), max(known)
    if low == high and not (missing and indicators) and (intercept or low == 0):
        return None
    k = max(-1000, math.frexp(float(max(abs(low), abs(high))))[1] - 75)
    while True:
        step = Fraction(2) ** k
        codes = [half_even(v / step) for v in (low, high)]
        width = Fraction(float(high) - float(low)) if intercept else max(abs(low), abs(high))
        span = codes[1] - codes[0] if intercept else max(abs(c) for c in codes)
        fits = max(abs(low), abs(high)) / step <= 2**52
        if width / step <= 2**19 and span <= 2**19 and fits:
            break
        k += 1
    codes = [half_even(v / step) for v in known]
    mean = half_even(Fraction(sum(codes), len(codes)))
    centre = mean if intercept else 0
    square = Fraction(sum((c - centre) ** 2 for c in codes), len(codes))
    spread = math.sqrt(square)
    scale = 1 / spread if standardise and spread else float(step)
    column, indicator = [], []
    for value in values:
        absent = value is None or math.isnan(value)
        code = mean - centre if absent else half_even(Fraction(value) / step) - centre
        column.append(code * scale)
        indicator.append(float(absent))
    return [column, indicator] if missing and indicators else [column]


def twin_categorical(values, min_count):
    """Return the one-hot columns and level names of one text column; None if one level."""
    values = [value or None for value in values]  # an empty text is missing
    counts = Counter(values)
    kept = [level for level in counts if counts[level] >= min_count]
    rare = {level for level in counts if counts[level] < min_count}
    small = rare and sum(counts[level] for level in rare) < min_count
    if small and None in kept:
        kept.remove(None)
        rare.add(None)
        small = False
    names = sorted(level for level in kept if level is not None)
    groups = [{name} for name in names] + ([{None}] if None in kept else [])
    if small and names:
        most = max(counts[name] for name in names)
        groups[[counts[name] for name in names].index(most)] |= rare
    elif rare:
        groups.append(rare)
    if len(groups) < 2:
        return None
    return [[float(value in group) for value in values] for group in groups]
