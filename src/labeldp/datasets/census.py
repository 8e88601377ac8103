"""The 1940 census as EXT1940USCB: fixed columns, household and person records of 273 characters.

The positions below are those of the nine variables of the paper in person records.
Weeks worked are 1…52; 0 is the code for N/A (children, and people who did not work), the null
labels that the paper's appendix removes. Its label range 51 is the width of 1…52.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.datasets.fixed_width import Field, Layout, read_records
from labeldp.datasets.reading import Watch

LABEL = "WKSWORK1"
RECORD_LENGTH = 273
_HOUSEHOLD_END = 159

FIELDS = (
    Field("AGE", 74, 76, category=False, codes=range(136)),
    Field("SEX", 73, 73, codes=range(1, 3)),
    Field("MARST", 79, 79, codes=range(1, 7)),
    Field("CHBORN", 83, 84, codes=range(88)),
    Field("SCHOOL", 127, 127, codes=frozenset({0, 1, 2, 9})),
    Field("EMPSTAT", 138, 138, codes=range(4)),
    Field("OCC", 142, 145),
    Field("IND", 149, 152),
    Field(LABEL, 159, 160, category=False, codes=range(53)),
)
"""CHBORN is 0 for N/A (it was asked of one woman in twenty), else one more than the number of
children. SCHOOL 9 is missing, EMPSTAT 0 is N/A: each is a level like any other."""

CENSUS_1940 = Layout(
    "EXT1940USCB",
    {"H": (RECORD_LENGTH, _HOUSEHOLD_END), "P": (RECORD_LENGTH,)},
    "P",
    FIELDS,
    constants=((2, "1940"),),
)


def census_1940(
    paths: Sequence[Path], keep_zero_weeks: bool, watch: Watch
) -> Iterator[pa.RecordBatch]:
    """Yield the person records of EXT1940USCB files."""
    for path in paths:
        for batch in read_records(path, CENSUS_1940, watch):
            yield batch if keep_zero_weeks else with_weeks(batch, watch)


def with_weeks(batch: pa.RecordBatch, watch: Watch) -> pa.RecordBatch:
    """The rows that have a label."""
    kept = batch.filter(pc.fill_null(pc.greater(batch.column(LABEL), 0), False))
    watch.dropped += batch.num_rows - kept.num_rows
    return kept


def as_records(columns: dict[str, NDArray[np.int64]], first: int) -> bytes:
    """Write rows as EXT1940USCB: households of four, so that the reader is tested at scale.

    `first` is the number of rows before these; everything the reader does not use is zero.
    """
    rows = len(columns[LABEL])
    homes = -(-rows // _HOME)
    person = np.arange(rows)
    lines = np.full((rows + homes, RECORD_LENGTH + 1), ord("0"), dtype=np.uint8)
    lines[:, RECORD_LENGTH] = ord("\n")
    home_lines = np.arange(homes) * (_HOME + 1)
    person_lines = person + person // _HOME + 1
    lines[home_lines, 0] = ord("H")
    lines[home_lines, _HOUSEHOLD_END:RECORD_LENGTH] = ord(" ")
    lines[person_lines, 0] = ord("P")
    lines[:, 1:5] = np.frombuffer(b"1940", dtype=np.uint8)
    home = first // _HOME + np.arange(homes) + 1
    _put(lines, home_lines, 8, 15, home)
    _put(lines, home_lines, 16, 17, np.minimum(_HOME, rows - np.arange(homes) * _HOME))
    _put(lines, person_lines, 8, 15, home[person // _HOME])
    _put(lines, person_lines, 16, 19, person % _HOME + 1)
    for field in FIELDS:
        _put(lines, person_lines, field.start, field.end, columns[field.name])
    return lines.tobytes()


_HOME = 4


def _put(
    lines: NDArray[np.uint8],
    rows: NDArray[np.int64],
    start: int,
    end: int,
    values: NDArray[np.int64],
) -> None:
    for place in range(end, start - 1, -1):
        lines[rows, place - 1] = ord("0") + values % 10
        values = values // 10
