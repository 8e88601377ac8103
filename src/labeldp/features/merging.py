"""Which levels of a category have a design column of their own, and where the others go.

A level needs `min_count` rows: rare ones have high leverage, which costs privacy. None that has
them is ever given up for others that have not. Whole numbers that are rare join their neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from labeldp.features.columns import CategoricalColumn
from labeldp.features.levels import alike, nearest_places, only_spellings, whole_number
from labeldp.features.notes import JOINED, MERGED, SPELLINGS, Said
from labeldp.features.tally import CODES

Counts = Counter[str | None]

_SCALE = 4
"""Fewer whole numbers than these are names rather than a scale with neighbours."""
_SELDOM = 10
"""So many times the rows of another spelling make one the proper one."""


def merge_levels(name: str, counts: Counts, min_count: int, notes: list[Said]) -> CategoricalColumn:
    """Merge levels with fewer than `min_count` rows; missing counts as a level.

    A level that is spelt like a kept one but for capitals and spaces counts as that, if it has a
    tenth of the rows at most: what is frequent in two spellings may be two things. The others
    together are "(other)"; where even that has too few rows, it is missing and the others, and
    where missing is rare too, they count as the most frequent level, the `rest`. Of whole numbers
    there are no others: each joins the level it is nearest to (`_neighbours`).
    """
    if all(level is None or whole_number(level) is not None for level in counts):
        found = _neighbours(name, counts, min_count, notes)
        if found is not None:
            return found
    kept = _kept(counts, min_count)
    once = only_spellings(level for level in kept if level is not None)
    rare = counts.keys() - kept
    same = {level for level in rare if level is not None and alike(level) in once}
    merged = rare - same
    rows = sum(counts[level] for level in merged)
    own, rest = None in kept, None
    if merged and rows < min_count:
        names = [level for level in kept if level is not None]
        rest = _most_frequent(counts, names) if names and not own else None
        own = False
    other = bool(merged) and rest is None
    if merged or same:
        notes.append(_told(name, counts, merged, same, rest, min_count))
    return CategoricalColumn(
        name=name,
        levels=tuple(sorted(level for level in kept if level is not None)),
        missing="none" if None not in counts else "own" if own else "other",
        other=other,
        rest=rest,
    )


def _neighbours(
    name: str, counts: Counts, min_count: int, notes: list[Said]
) -> CategoricalColumn | None:
    """Whole numbers of which some are rare; None if none is, or they are too few or too many."""
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
    """The numbers that have a level, such that with those nearest to it each has rows enough.

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
    """The one that half of the rows do not exceed."""
    total, below = sum(map(numbers.__getitem__, run)), 0
    for number in run:
        below += numbers[number]
        if 2 * below >= total:
            return number
    return run[-1]


def _kept(counts: Counts, min_count: int) -> set[str | None]:
    """Levels with rows enough, and one of those that have them under several spellings only."""
    kept = {level for level, rows in counts.items() if rows >= min_count}
    spellings: dict[str, list[str]] = {}
    for level in counts:
        if level is not None:
            spellings.setdefault(alike(level), []).append(level)
    for group in filter(lambda group: len(group) > 1, spellings.values()):
        first = _most_frequent(counts, group)
        kept -= {level for level in group if _SELDOM * counts[level] <= counts[first]}
        if not kept.intersection(group) and sum(counts[level] for level in group) >= min_count:
            kept.add(first)
    return kept


def _most_frequent(counts: Counts, levels: Iterable[str]) -> str:
    """Ties go by name."""
    return min(levels, key=lambda level: (-counts[level], level))


def _told(
    name: str,
    counts: Counts,
    merged: set[str | None],
    same: set[str],
    rest: str | None,
    min_count: int,
) -> Said:
    if not merged:
        return SPELLINGS.say(name=name, same=len(same), levels=len(counts))
    rows = sum(counts[level] for level in merged)
    where = "merged into (other)" if rest is None else f"too few to be told apart, taken as {rest}"
    spelt = f"; {len(same)} more differ only in capitals or spaces" if same else ""
    return MERGED.say(
        name=name,
        merged=len(merged),
        levels=len(counts),
        where=where,
        rows=rows,
        least=min_count,
        spelt=spelt,
    )
