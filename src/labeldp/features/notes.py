"""Notes of a feature map on its columns: every note has one of the forms of this module.

A map is published, so its notes are no place for free text: `foreign_notes` finds notes that none
of these forms makes. The name of a column that was left out can be any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.features.columns import NumericColumn

_NAME, _COUNT, _SOME, _NUMBER = ".+", r"\d+", r"[\d,]+", r"-?[\d.]+(?:e[+-]\d+)?"
_LIKE_A_CODE = "an id but often repeated|a code"


class FeatureNote(str):
    """A note that one of the forms made."""


@dataclass(frozen=True)
class NoteForm:
    """The words of a note; `{name}` and others stand for what differs from column to column."""

    words: str
    blanks: tuple[tuple[str, str], ...] = ()
    """Patterns of all but the name."""

    def say(self, **values: Any) -> FeatureNote:
        """Return the note on one column."""
        return FeatureNote(self.words.format(**values))

    def fits(self, note: str) -> bool:
        """Return whether the form makes this note of something."""
        return self._pattern.fullmatch(note) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        blanks, seen = {"name": _NAME, **dict(self.blanks)}, set[str]()

        def blank(found: re.Match[str]) -> str:
            name = found[1]
            again = name in seen
            seen.add(name)
            return f"(?P={name})" if again else f"(?P<{name}>{blanks[name]})"

        return re.compile(re.sub(r"\\{(\w+)\\}", blank, re.escape(self.words)), re.DOTALL)


EMPTY = NoteForm("{name}: every value is missing, dropped")
CONSTANT = NoteForm("{name}: constant, dropped")
ONE_LEVEL = NoteForm("{name}: one level, dropped")
LEFT_OUT = NoteForm(
    "{name}: {why}, taken for an id and left out; `{way}=['{name}']` to keep it",
    (
        (
            "why",
            f"more than {_SOME} different texts|nearly every text is different|"
            r"integers beyond 2\*\*53|numbers the rows|"
            "names of people|named like an id(?:, nearly every number is different)?",
        ),
        ("way", "numeric|categorical"),
    ),
)
CODES = NoteForm(
    "{name}: {why}, treated as categorical; `numeric=['{name}']` to change",
    (("why", f"{_COUNT} integer values(?:, named like (?:{_LIKE_A_CODE}))?"),),
)
OUTLIERS = NoteForm(
    "{name}: the range is {width} but the spread only {spread}, so outliers take the resolution; "
    "clip the column or use its log",
    (("width", _NUMBER), ("spread", _NUMBER)),
)
SPELLINGS = NoteForm(
    "{name}: {same} of {levels} levels differ only in capitals, accents or spaces",
    (("same", _COUNT), ("levels", _COUNT)),
)
TRUTHS = NoteForm(
    "{name}: {levels} words for yes and no, taken as {yes} and {no}",
    (("levels", _COUNT), ("yes", _NAME), ("no", _NAME)),
)
MERGED = NoteForm(
    "{name}: {merged} of {levels} levels {where}, {rows} rows; a level needs {least} rows{spelt}",
    (
        ("merged", _COUNT),
        ("levels", _COUNT),
        ("where", r"merged into \(other\)|too few to be told apart, taken as .+"),
        ("rows", _COUNT),
        ("least", _COUNT),
        ("spelt", f"(?:; {_COUNT} more differ only in capitals, accents or spaces)?"),
    ),
)
JOINED = NoteForm(
    "{name}: {rare} of {of} whole numbers are rare and join the nearest of {levels} levels; a "
    "level needs {least} rows",
    tuple((name, _COUNT) for name in ("rare", "of", "levels", "least")),
)
PAIRS = NoteForm(
    "{left} pairs of columns are left out: {most} columns are allowed; raise "
    "`interaction_columns` for more",
    (("left", _COUNT), ("most", _COUNT)),
)
_FORMS = (
    EMPTY, CONSTANT, ONE_LEVEL, LEFT_OUT, CODES, OUTLIERS, SPELLINGS, TRUTHS, MERGED, JOINED, PAIRS,
)  # fmt: skip

_CLIPPED = "winsorised at public quantiles: ", "; `winsor=0` to change that"


def winsorised(columns: Sequence[tuple[str, float, float, int]], more: int) -> FeatureNote:
    """Return one line for all clipped columns: name, ends and rows of each; and how many more."""
    shown = [f"{_ends(name, low, high)} ({rows} rows)" for name, low, high, rows in columns]
    shown += [f"{more} more columns"] if more else []
    return FeatureNote(", ".join(shown).join(_CLIPPED))


def _ends(name: str, low: float, high: float) -> str:
    return f"{name} at {low:.7g} and {high:.7g}"


def foreign_notes(notes: Sequence[str], numeric: Sequence[NumericColumn]) -> Iterator[int]:
    """Yield the places of notes that no form makes; ends of columns must be those of the map."""
    for place, note in enumerate(notes):
        if not (any(form.fits(note) for form in _FORMS) or _tells_ends(note, numeric)):
            yield place


def _tells_ends(note: str, numeric: Sequence[NumericColumn]) -> bool:
    before, after = _CLIPPED
    if not note.startswith(before):
        return False
    ends = "|".join(re.escape(_ends(c.name, c.low, c.high)) for c in numeric) or "(?!)"
    one = rf"(?:{ends}) \({_COUNT} rows\)"
    pattern = rf"{one}(?:, {one})*(?:, {_COUNT} more columns)?{re.escape(after)}"
    return re.fullmatch(pattern, note.removeprefix(before)) is not None
