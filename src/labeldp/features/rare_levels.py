"""Which levels of a category have a design column of their own, and what happens to the others.

A level needs `min_count` rows: rare levels have high leverage, which costs privacy. Levels that
have them are never merged for the sake of others. Rare whole numbers join their neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from labeldp.features import notes as forms
from labeldp.features.columns import CategoricalColumn
from labeldp.features.levels import (
    OPPOSITES,
    Form,
    Spellings,
    folded,
    grouped,
    nearest_number,
    spaced,
    whole_number,
    yes_or_no,
)

Counts = Counter[str | None]

MOST_CODES = 4096
"""Whole numbers are counted up to so many where a name hints at codes; no category has more."""
_FEWEST_ON_A_SCALE = 4
"""Fewer whole numbers are names rather than a scale with neighbours."""
_SELDOM = 10
"""A spelling with so many times the rows of another is the proper one."""
_WORD = 4
"""Letters from which capitals make no other word: AA, Aa and aa may be three things."""


def merge_levels(name: str, counts: Counts, min_count: int, notes: list[str]) -> CategoricalColumn:
    """Merge levels with fewer than `min_count` rows; missing counts as a level.

    Spellings of one word are one level: texts that differ in spaces or, from four signs on, in
    capitals; shorter ones if one is ten times as frequent, for what is frequent in two spellings
    may be two things. So are words for yes and for no, if there are no others. The other levels
    together are "(other)"; where even that has too few rows, it is missing and the others, and
    where missing is rare too, they count as the most frequent level, the `rest`. Of whole numbers
    there are no others: each joins the level it is nearest to.
    """
    if all(level is None or whole_number(level) is not None for level in counts):
        joined = _join_neighbours(name, counts, min_count, notes)
        if joined is not None:
            return joined
    counts = _merge_yes_and_no(name, counts, min_count, notes)
    respelt = _merge_spellings(counts)
    kept = _kept(respelt, min_count)
    levels = sorted(level for level in kept if level is not None)
    spellings, rare = Spellings(levels), respelt.keys() - kept
    merged = {level for level in rare if level is None or spellings.level_of(level) is None}
    rows = sum(respelt[level] for level in merged)
    own, rest = None in kept, None
    if merged and rows < min_count:
        rest = _most_frequent(respelt, levels) if levels and not own else None
        own = False
    same = len(rare) - len(merged) + len(counts) - len(respelt)
    if merged:
        where = "merged into (other)" if rest is None else f"{forms.TOO_FEW} {rest}"
        note = forms.MERGED.format(
            name=name,
            merged=len(merged),
            levels=len(counts),
            where=where,
            rows=rows,
            least=min_count,
            spelt=f"; {same} more {forms.RESPELT}" if same else "",
        )
        notes.append(note)
    elif same:
        notes.append(forms.SPELLINGS.format(name=name, same=same, levels=len(counts)))
    return CategoricalColumn(
        name=name,
        levels=tuple(levels),
        missing="none" if None not in counts else "own" if own else "other",
        other=bool(merged) and rest is None,
        rest=rest,
    )


def _join_neighbours(
    name: str, counts: Counts, min_count: int, notes: list[str]
) -> CategoricalColumn | None:
    """Join rare whole numbers to their neighbours; None if none is rare, or of too few or many."""
    numbers = {int(level): rows for level, rows in counts.items() if level is not None}
    rare = sum(rows < min_count for rows in numbers.values())
    if not rare or not _FEWEST_ON_A_SCALE <= len(numbers) <= MOST_CODES:
        return None
    levels = sorted(map(str, _levels_on_scale(numbers, min_count)))
    if len(levels) < 2:
        return None
    missing, own = counts[None], counts[None] >= min_count
    notes.append(
        forms.JOINED.format(
            name=name, rare=rare, of=len(numbers), levels=len(levels), least=min_count
        )
    )
    return CategoricalColumn(
        name=name,
        levels=tuple(levels),
        missing="none" if not missing else "own" if own else "other",
        other=False,
        rest=_most_frequent(counts, levels) if missing and not own else None,
        nearest=True,
    )


def _levels_on_scale(numbers: dict[int, int], min_count: int) -> list[int]:
    """Return the numbers that have a level, such that each has rows enough with those nearest.

    All that are frequent by themselves, and of every run of rare ones between them as many as it
    has rows for: its median, by rows, where it has rows for one.
    """
    levels, run = list[int](), list[int]()
    for number in sorted(numbers):
        if numbers[number] >= min_count:
            levels.append(number)
            run = []
            continue
        run += [number] * numbers[number]
        if len(run) >= min_count:
            levels.append(run[(len(run) - 1) // 2])
            run = []
    levels.sort()
    while levels:
        rows = dict.fromkeys(levels, 0)
        for number, count in numbers.items():
            rows[nearest_number(levels, number)] += count
        poorest = min(levels, key=lambda level: (rows[level], level))
        if rows[poorest] >= min_count:
            break
        levels.remove(poorest)
    return levels


def _merge_yes_and_no(name: str, counts: Counts, min_count: int, notes: list[str]) -> Counts:
    """Return the counts of one word for yes and one for no, where there are several and no others.

    Of every word that is frequent the opposite must be there: y, n and f are not two words for no.
    """
    words = [level for level in counts if level is not None]
    groups, forms_there = grouped(words, yes_or_no), set(map(folded, words))
    answers = len(words) > 2 and len(groups) == 2 and forms_there <= OPPOSITES.keys()
    if not answers or any(sum(counts[w] for w in group) < min_count for group in groups.values()):
        return counts
    frequent = [folded(word) for word in words if counts[word] >= min_count]
    if any(OPPOSITES[word] not in forms_there for word in frequent):
        return counts
    names = {form: _most_frequent(counts, group) for form, group in groups.items()}
    notes.append(forms.TRUTHS.format(name=name, levels=len(counts), **names))
    merged = Counter(counts)
    for form, group in groups.items():
        _rename(merged, group, names[form])
    return merged


def _merge_spellings(counts: Counts) -> Counts:
    """Return the counts with one spelling of levels that are surely spelt in several ways."""
    merged = Counter(counts)
    for group in _several(merged, spaced):
        _rename(merged, group, spaced(group[0]))
    for group in _several(merged, folded):
        if len(folded(group[0])) >= _WORD:
            _rename(merged, group, _most_frequent(merged, group))
    return merged


def _rename(counts: Counts, group: list[str], name: str) -> None:
    counts[name] = sum([counts.pop(level) for level in group])


def _kept(counts: Counts, min_count: int) -> set[str | None]:
    """Return levels with rows enough, and one of those that have them only in several spellings."""
    kept = {level for level, rows in counts.items() if rows >= min_count}
    for group in _several(counts, folded):
        first = _most_frequent(counts, group)
        kept -= {level for level in group if _SELDOM * counts[level] <= counts[first]}
        if not kept.intersection(group) and sum(counts[level] for level in group) >= min_count:
            kept.add(first)
    return kept


def _several(counts: Counts, form: Form) -> list[list[str]]:
    """Return groups of levels that have the same form."""
    groups = grouped((level for level in counts if level is not None), form)
    return [group for group in groups.values() if len(group) > 1]


def _most_frequent(counts: Counts, levels: Iterable[str]) -> str:
    """Return the most frequent level; ties go by name."""
    return min(levels, key=lambda level: (-counts[level], level))
