"""Which levels of a category have a design column of their own, and what happens to the others.

A level needs `min_count` rows: rare levels have high leverage, which costs privacy. Levels that
have them are never merged for the sake of others. Rare whole numbers join their neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from labeldp.features.column_stats import CODES
from labeldp.features.columns import CategoricalColumn
from labeldp.features.levels import (
    YES_AND_NO,
    Spellings,
    folded,
    grouped,
    nearest_places,
    spaced,
    truth,
    whole_number,
)
from labeldp.features.notes import JOINED, MERGED, SPELLINGS, TRUTHS, FeatureNote

Counts = Counter[str | None]

_SCALE = 4
"""Fewer whole numbers than these are names rather than a scale with neighbours."""
_SELDOM = 10
"""A spelling with so many times the rows of another is the proper one."""
_WORD = 4
"""Letters from which capitals make no other word: AA, Aa and aa may be three things."""


def merge_levels(
    name: str, counts: Counts, min_count: int, notes: list[FeatureNote]
) -> CategoricalColumn:
    """Merge levels with fewer than `min_count` rows; missing counts as a level.

    Spellings of one word are one level: texts that differ in spaces or, from four signs on, in
    capitals; shorter ones if one is ten times as frequent, for what is frequent in two spellings
    may be two things. So are words for yes and for no, if there are no others. The other levels
    together are "(other)"; where even that has too few rows, it is missing and the others, and
    where missing is rare too, they count as the most frequent level, the `rest`. Of whole numbers
    there are no others: each joins the level it is nearest to (`_neighbours`).
    """
    if all(level is None or whole_number(level) is not None for level in counts):
        joined = _neighbours(name, counts, min_count, notes)
        if joined is not None:
            return joined
    truths = _truths(counts, min_count)
    if truths is not None:
        notes.append(TRUTHS.say(name=name, levels=len(counts), yes=truths["yes"], no=truths["no"]))
        counts = _respelt(counts, lambda level: truths.get(truth(level) or ""))
    proper = _proper(counts)
    every, counts = counts, _respelt(counts, proper.get)
    kept = _kept(counts, min_count)
    known = Spellings(level for level in kept if level is not None)
    rare = counts.keys() - kept
    same = {level for level in rare if level is not None and known.of(level) is not None}
    merged = rare - same
    rows = sum(counts[level] for level in merged)
    own, rest = None in kept, None
    if merged and rows < min_count:
        names = [level for level in kept if level is not None]
        rest = _most_frequent(counts, names) if names and not own else None
        own = False
    other = bool(merged) and rest is None
    if merged or same or proper:
        spelt = len(same) + len(every) - len(counts)
        notes.append(_merge_note(name, counts, merged, spelt, len(every), rest, min_count))
    return CategoricalColumn(
        name=name,
        levels=tuple(sorted(level for level in kept if level is not None)),
        missing="none" if None not in counts else "own" if own else "other",
        other=other,
        rest=rest,
    )


def _neighbours(
    name: str, counts: Counts, min_count: int, notes: list[FeatureNote]
) -> CategoricalColumn | None:
    """Join rare whole numbers to their neighbours; None if none is rare, or of too few or many."""
    numbers = {int(level): rows for level, rows in counts.items() if level is not None}
    rare = sum(rows < min_count for rows in numbers.values())
    levels = _joined(numbers, min_count) if rare and _SCALE <= len(numbers) <= CODES else []
    if len(levels) < 2:
        return None
    missing = counts[None]
    own = missing >= min_count
    rest = _most_frequent(counts, map(str, levels)) if missing and not own else None
    notes.append(
        JOINED.say(name=name, rare=rare, of=len(numbers), levels=len(levels), least=min_count)
    )
    return CategoricalColumn(
        name=name,
        levels=tuple(sorted(map(str, levels))),
        missing="none" if not missing else "own" if own else "other",
        other=False,
        rest=rest,
        nearest=True,
    )


def _joined(numbers: dict[int, int], min_count: int) -> list[int]:
    """Return the numbers that have a level, such that each has rows enough with those nearest.

    All that are frequent by themselves, and of every run of rare ones between them as many as it
    has rows for: its middle one where it has rows for one.
    """
    order = sorted(numbers)
    levels = [number for number in order if numbers[number] >= min_count]
    run: list[int] = []
    for number in [*order, None]:
        if number is None or numbers[number] >= min_count:
            run = []
            continue
        run.append(number)
        if sum(map(numbers.__getitem__, run)) >= min_count:
            levels.append(_middle(run, numbers))
            run = []
    levels.sort()
    while True:
        rows = dict.fromkeys(levels, 0)
        for number, place in zip(order, nearest_places(levels, order), strict=True):
            rows[levels[place]] += numbers[number]
        poorest = min(levels, key=lambda level: (rows[level], level), default=None)
        if poorest is None or rows[poorest] >= min_count:
            return levels
        levels.remove(poorest)


def _middle(run: list[int], numbers: dict[int, int]) -> int:
    """Return the median of a run of numbers, by rows."""
    total, below = sum(map(numbers.__getitem__, run)), 0
    for number in run:
        below += numbers[number]
        if 2 * below >= total:
            return number
    return run[-1]


def _kept(counts: Counts, min_count: int) -> set[str | None]:
    """Return levels with rows enough, and one of those that have them only in several spellings."""
    kept = {level for level, rows in counts.items() if rows >= min_count}
    for group in _several(counts, folded):
        first = _most_frequent(counts, group)
        kept -= {level for level in group if _SELDOM * counts[level] <= counts[first]}
        if not kept.intersection(group) and sum(counts[level] for level in group) >= min_count:
            kept.add(first)
    return kept


def _truths(counts: Counts, min_count: int) -> dict[str, str] | None:
    """Return the word for yes and that for no, where there are several and no other words.

    Of every pair of words that is frequent in one half the other half is there: y, n and f are not
    two words for no.
    """
    words = [level for level in counts if level is not None]
    forms = {folded(level) for level in words if counts[level] >= min_count}
    groups, there = grouped(words, truth), set(map(folded, words))
    pairs = ([pair for pair in YES_AND_NO if form in pair] for form in forms)
    halved = any(each and not any(there.issuperset(pair) for pair in each) for each in pairs)
    if len(words) < 3 or halved or sum(map(len, groups.values())) < len(words):
        return None
    if len(groups) < 2 or any(sum(counts[w] for w in g) < min_count for g in groups.values()):
        return None
    return {str(form): _most_frequent(counts, group) for form, group in groups.items()}


def _proper(counts: Counts) -> dict[str, str]:
    """Return the most frequent spelling of levels that are surely spelt in several ways."""
    one = {level: spaced(level) for group in _several(counts, spaced) for level in group}
    respelt = _respelt(counts, one.get)
    two = {
        level: _most_frequent(respelt, group)
        for group in _several(respelt, folded)
        if len(folded(group[0])) >= _WORD
        for level in group
    }
    return one | two | {level: two[first] for level, first in one.items() if first in two}


def _several(counts: Counts, form: Callable[[str], str]) -> list[list[str]]:
    groups = grouped((level for level in counts if level is not None), form)
    return [group for group in groups.values() if len(group) > 1]


def _respelt(counts: Counts, proper: Callable[[str], str | None]) -> Counts:
    """Return the rows of every level under its proper spelling."""
    respelt: Counts = Counter()
    for level, rows in counts.items():
        respelt[level if level is None else proper(level) or level] += rows
    return respelt


def _most_frequent(counts: Counts, levels: Iterable[str]) -> str:
    """Return the most frequent level; ties go by name."""
    return min(levels, key=lambda level: (-counts[level], level))


def _merge_note(
    name: str,
    counts: Counts,
    merged: set[str | None],
    same: int,
    levels: int,
    rest: str | None,
    min_count: int,
) -> FeatureNote:
    if not merged:
        return SPELLINGS.say(name=name, same=same, levels=levels)
    rows = sum(counts[level] for level in merged)
    where = "merged into (other)" if rest is None else f"too few to be told apart, taken as {rest}"
    spelt = f"; {same} more differ only in capitals, accents or spaces" if same else ""
    return MERGED.say(
        name=name,
        merged=len(merged),
        levels=levels,
        where=where,
        rows=rows,
        least=min_count,
        spelt=spelt,
    )
