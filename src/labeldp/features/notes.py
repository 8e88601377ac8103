"""Notes of a feature map on its columns: every note has one of the forms of this module.

A map is published, so its notes are no place for free text: `foreign_notes` finds notes that none
of these forms makes. The name of a column that was left out can be any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeldp.features.columns import NumericColumn

TOO_FEW = "too few to be told apart, taken as"
RESPELT = "differ only in capitals, accents or spaces"

EMPTY = "{name}: every value is missing, dropped"
CONSTANT = "{name}: constant, dropped"
ONE_LEVEL = "{name}: one level, dropped"
LEFT_OUT = "{name}: {id}, taken for an id and left out; `{option}=['{name}']` to keep it"
CODES = "{name}: {codes}, treated as categorical; `numeric=['{name}']` to change"
OUTLIERS = (
    "{name}: the range is {width} but the spread only {spread}, so outliers take the resolution; "
    "clip the column or use its log"
)
SPELLINGS = f"{{name}}: {{same}} of {{levels}} levels {RESPELT}"
TRUTHS = "{name}: {levels} words for yes and no, taken as {yes} and {no}"
MERGED = (
    "{name}: {merged} of {levels} levels {where}, {rows} rows; a level needs {least} rows{spelt}"
)
JOINED = (
    "{name}: {rare} of {of} whole numbers are rare and join the nearest of {levels} levels; a "
    "level needs {least} rows"
)
PAIRS = (
    "{left} pairs of columns are left out: {most} columns are allowed; raise "
    "`interaction_columns` for more"
)
_FORMS = (
    EMPTY, CONSTANT, ONE_LEVEL, LEFT_OUT, CODES, OUTLIERS, SPELLINGS, TRUTHS, MERGED, JOINED, PAIRS,
)  # fmt: skip

_COUNT, _NUMBER = r"\d+", r"-?[\d.]+(?:e[+-]\d+)?"
_BLANKS = {
    "name": ".+",
    "yes": ".+",
    "no": ".+",
    "width": _NUMBER,
    "spread": _NUMBER,
    "id": r"more than [\d,]+ different texts|nearly every text is different|"
    r"integers beyond 2\*\*53|numbers the rows|names of people|"
    "named like an id(?:, nearly every number is different)?",
    "option": "numeric|categorical",
    "codes": r"\d+ integer values(?:, named like (?:an id but often repeated|a code))?",
    "where": rf"merged into \(other\)|{TOO_FEW} .+",
    "spelt": rf"(?:; \d+ more {RESPELT})?",
}
"""What stands in the blanks of the forms; in all others a count."""


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """Return a pattern of all notes of a form; the same blank holds the same text throughout."""
    pattern = re.escape(form)
    for blank in dict.fromkeys(re.findall(r"{(\w+)}", form)):
        group, place = f"(?P<{blank}>{_BLANKS.get(blank, _COUNT)})", rf"\{{{blank}\}}"
        pattern = pattern.replace(place, group, 1).replace(place, f"(?P={blank})")
    return re.compile(pattern, re.DOTALL)


_CLIPPED = "winsorised at public quantiles: ", "; `winsor=0` to change that"


ClippedColumn = tuple[str, float, float, int]
"""Name, ends, and how many rows were beyond them."""


def winsor_note(columns: Sequence[ClippedColumn], more: int) -> str:
    """Return one line for all clipped columns; `more` are not named."""
    shown = [f"{_ends(name, low, high)} ({rows} rows)" for name, low, high, rows in columns]
    shown += [f"{more} more columns"] if more else []
    return ", ".join(shown).join(_CLIPPED)


def _ends(name: str, low: float, high: float) -> str:
    return f"{name} at {low:.7g} and {high:.7g}"


def foreign_notes(notes: Sequence[str], numeric: Sequence[NumericColumn]) -> Iterator[int]:
    """Yield the places of notes that no form makes; ends of columns must be those of the map."""
    ends = "|".join(re.escape(_ends(c.name, c.low, c.high)) for c in numeric) or "(?!)"
    one = rf"(?:{ends}) \({_COUNT} rows\)"
    before, after = map(re.escape, _CLIPPED)
    clipped = re.compile(rf"{before}{one}(?:, {one})*(?:, {_COUNT} more columns)?{after}")
    patterns = [clipped, *map(_pattern, _FORMS)]
    for place, note in enumerate(notes):
        if not any(pattern.fullmatch(note) for pattern in patterns):
            yield place
