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

from labeldp_paper.datasets.declaration import Dataset, Options
from labeldp_paper.datasets.fixed_width import Field, Layout, read_records
from labeldp_paper.datasets.reading import Watch

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

# The first digit of EMPSTATD (139) repeats EMPSTAT.
CENSUS_1940 = Layout(
    "EXT1940USCB",
    {"H": (RECORD_LENGTH, _HOUSEHOLD_END), "P": (RECORD_LENGTH,)},
    "P",
    FIELDS,
    constants=((2, "1940"),),
    twins=((138, 139),),
)


NUMERIC = ("AGE",)
CATEGORICAL = tuple(field.name for field in FIELDS if field.category)


def label_range(options: Options) -> tuple[float, float]:
    """Weeks of those who have a label, or of all."""
    return (0.0 if options.keep_zero_weeks else 1.0), 52.0


def read(paths: Sequence[Path], options: Options, watch: Watch) -> Iterator[pa.RecordBatch]:
    """Yield the person records of EXT1940USCB files."""
    for path in paths:
        for batch in read_records(path, CENSUS_1940, watch):
            yield batch if options.keep_zero_weeks else with_weeks(batch, watch)


DATASET = Dataset(
    "census-1940",
    "1940 US census, full count (EXT1940USCB)",
    "EXT1940USCB files, fixed width, H and P records of 273 characters, .gz or not",
    "IPUMS 1940 Census DAS test data; see the terms at usa.ipums.org",
    LABEL,
    label_range,
    NUMERIC,
    CATEGORICAL,
    options=("keep_zero_weeks",),
    read=read,
)


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
    lines = np.empty((homes, 1 + _HOME, RECORD_LENGTH + 1), dtype=np.uint8)
    lines[:] = np.frombuffer(b"P1940" + b"0" * (RECORD_LENGTH - 5) + b"\n", dtype=np.uint8)
    household, persons = lines[:, :1], lines[:, 1:]
    household[:, :, 0] = ord("H")
    household[:, :, _HOUSEHOLD_END:RECORD_LENGTH] = ord(" ")
    number = np.arange(homes)[:, None]
    _put(lines, 8, 15, first // _HOME + 1 + number)
    _put(household, 16, 17, np.minimum(_HOME, rows - number * _HOME))
    _put(persons, 16, 19, np.arange(_HOME)[None, :] + 1)
    for field in FIELDS:
        values = np.resize(columns[field.name], (homes, _HOME))
        _put(persons, field.start, field.end, values)
        if field.name == "EMPSTAT":
            _put(persons, field.end + 1, field.end + 1, values)
    return lines.tobytes()[: (rows + homes) * (RECORD_LENGTH + 1)]


_HOME = 4


def _put(lines: NDArray[np.uint8], start: int, end: int, values: NDArray[np.int64]) -> None:
    for place in range(end, start - 1, -1):
        lines[:, :, place - 1] = ord("0") + values % 10
        values = values // 10
