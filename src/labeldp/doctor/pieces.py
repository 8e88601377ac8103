"""Texts that are made of numbers and words: 120/80, 5'11", 3 bd / 2 ba, W 3–1.

As levels they are too many; their pieces say what they say in a few columns (`text_parts`). One
number behind words that differ is a part of a name: of AA1234 the word may tell something, of
"High Street 12" nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrow_util import arrow_words
from labeldp.data.columns import is_text
from labeldp.data.parts import NUMBER, WORD, cut
from labeldp.data.reading import Reading
from labeldp.data.spelling import SOFT_BLANKS, among_numbers
from labeldp.doctor.column import Traits, decoded
from labeldp.features.tally import FEW

_FEW, _SOME, _HALF, _MOST, _NEARLY_ALL = 0.1, 0.25, 0.5, 0.9, 0.99
"""Shares of texts: that may have words where others have none; that have digits at all; that may
have words if these are few; of those with digits, that have frequent words; and as many numbers as
the others."""
_ALIKE = 6
"""Texts without their numbers, few enough to be units: 82, 82 hp, ca. 82 hp."""
_SHAPES = 64
"""Different texts once numbers are left out, of which there must be a few times as many with."""
_TIMES = 3
_PIECES = 9


def pieces(facts: Traits, values: pa.ChunkedArray) -> list[str]:
    """The parts of a column's texts that are worth columns of their own in its place."""
    if facts["kind"] not in ("text", "category", "id") or facts["distinct"] <= FEW[-1]:
        return []
    counted = decoded(values).drop_null().value_counts()
    texts, counts = counted.field("values"), counted.field("counts")
    if not is_text(texts.type):
        return []
    texts = texts.cast(pa.string())
    there = pc.invert(pc.is_in(texts, value_set=arrow_words(SOFT_BLANKS, texts.type)))
    texts, counts = texts.filter(there), counts.filter(there)
    rows, digits = _total(counts), pc.match_substring_regex(texts, r"\d")
    texts, counts = texts.filter(digits), counts.filter(digits)
    if not rows or _total(counts) < _SOME * rows:
        return []
    found = [f"{facts['name']}:{part}" for part in _found(texts, counts, len(values))]
    few = facts["kind"] == "category" and _told_apart(counts, math.isqrt(len(values)), len(found))
    single = facts["kind"] == "id" and not _measured(texts, counts)
    return [] if few or single else found


def _told_apart(counts: pa.Array, least: int, pieces: int) -> bool:
    """Whether most texts are frequent enough to be levels, and those hardly more than pieces."""
    frequent = counts.filter(pc.greater_equal(counts, pa.scalar(least, counts.type)))
    return len(frequent) <= 2 * pieces and _total(frequent) >= _MOST * _total(counts)


def _found(texts: pa.Array, counts: pa.Array, rows: int) -> list[str]:
    bare = pc.replace_substring_regex(texts, NUMBER, "9")
    shapes = _counted(bare, counts)
    if len(shapes) > _SHAPES or len(texts) < _TIMES * len(shapes):
        return []
    if len(shapes) > 1 and pc.all(among_numbers(texts, Reading())).as_py():
        return []  # in different units
    numbers = _usual({shape: shape.count("9") for shape in shapes}, shapes, _NEARLY_ALL)
    found = [f"number{k}" for k in range(1, numbers + 1)]
    found = [part for part in found if _are_quantities(cut(texts, part)[1])]
    said = pc.count_substring_regex(arrow_words(list(shapes), pa.string()), WORD).to_pylist()
    words = _usual(dict(zip(shapes, said, strict=True)), shapes, _MOST)
    found_words = [
        part
        for part in (f"word{k}" for k in range(1, words + 1))
        if _are_levels(_counted(cut(texts, part)[1], counts), math.isqrt(rows))
    ]
    if numbers > 1 or len(shapes) == 1:
        return found + found_words
    named = pc.match_substring_regex(bare, WORD)  # x3 beside 3 is no name
    share = _HALF if len(shapes) <= _ALIKE else _FEW
    if _total(counts.filter(named)) < share * _total(counts):
        return found
    return [] if pc.any(pc.match_substring_regex(bare, r"\S\s+\S")).as_py() else found_words


def _usual(pieces: dict[str, int], shapes: Counter[str], share: float) -> int:
    """How many pieces texts have; 0 if they differ in that."""
    often = Counter[int]()
    for shape, count in pieces.items():
        often[count] += shapes[shape]
    ((usual, rows),) = often.most_common(1)
    return min(usual, _PIECES) if rows >= share * often.total() else 0


def _are_quantities(numbers: pa.Array) -> bool:
    """Numbers that differ, and have no leading zeros: 007 is a name."""
    padded = pc.match_substring_regex(numbers, r"^0\d")
    return len(numbers.drop_null().unique()) > 1 and not pc.any(padded).as_py()


def _are_levels(words: Counter[str], least: int) -> bool:
    frequent = [count for count in words.values() if count >= least]
    return len(frequent) > 1 and sum(frequent) >= _MOST * words.total()


def _measured(texts: pa.Array, counts: pa.Array) -> bool:
    """Whether most texts have several numbers with decimals, as no id has."""
    several = pc.match_substring_regex(texts, r"\d[.,]\d+\D+\d+[.,]\d")
    return bool(_total(counts.filter(several)) >= _MOST * _total(counts))


def _counted(words: pa.Array, counts: pa.Array) -> Counter[str]:
    found = (
        pa.table([words, counts], ["word", "count"]).group_by("word").aggregate([("count", "sum")])
    )
    pairs: Sequence[tuple[str | None, int]] = list(
        zip(found["word"].to_pylist(), found["count_sum"].to_pylist(), strict=True)
    )
    return Counter({word: count for word, count in pairs if word is not None})


def _total(counts: pa.Array) -> int:
    return pc.sum(counts).as_py() or 0
