"""Tables from files and frames: streamed, features apart from labels.

    scan(data, label=…, label_range=…) → Source
    source.feature_batches()             features only; labels are not read
    source.labelled_batches()            features with checked labels

Modules, in the order of the road: `kinds` (what a column type means), `values` (columns as
float64), `reading` (what is said about text), `files` (which files, which format), `readers`
(Parquet, Arrow IPC), `text` and `delimited` (CSV, TSV), `frames` (pandas, polars, pyarrow,
duckdb), `labels` (the private column), `opening` (whatever is called a table), `table`, `rows`
(some rows of a stream). Other rooms import from this page alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp.common import late_names

if TYPE_CHECKING:
    from labeldp.source.dates import digits
    from labeldp.source.delimited import DelimitedReader
    from labeldp.source.files import (
        DELIMITERS,
        FORMATS,
        FileState,
        Reader,
        find,
        sliced,
        unique_names,
    )
    from labeldp.source.frames import lasting
    from labeldp.source.header import delimiter_of
    from labeldp.source.kinds import (
        MOST_COLUMNS,
        Column,
        check_breadth,
        is_clock,
        is_moment,
        is_number,
        is_text,
        plain,
        usable,
    )
    from labeldp.source.labels import LabelCheck, to_labels
    from labeldp.source.opening import open_table, ready, said_again
    from labeldp.source.parts import NUMBER, WORD, cut, split_part
    from labeldp.source.persons import MARKS, Marks, read_marks, unmarked
    from labeldp.source.reading import Reading, Text
    from labeldp.source.roles import UnknownColumnError
    from labeldp.source.rows import check_rows, take_numbered, take_rows
    from labeldp.source.spelling import (
        ANY_TEXT,
        SOFT_BLANKS,
        Spelling,
        Wording,
        among_numbers,
        is_told,
    )
    from labeldp.source.spelt import retyped, wording_of
    from labeldp.source.table import Source, as_source, scan
    from labeldp.source.tellable import short
    from labeldp.source.text import ALMOST, TextTypes
    from labeldp.source.units import numbers_among
    from labeldp.source.values import (
        NULL_WORDS,
        beyond_exact,
        floats_of,
        integer_ends,
        is_narrow,
        to_float,
        whole_ends,
    )
    from labeldp.source.wording import applied, decided, text_among_numbers

__all__ = [
    "ALMOST",
    "ANY_TEXT",
    "DELIMITERS",
    "FORMATS",
    "MARKS",
    "MOST_COLUMNS",
    "NULL_WORDS",
    "NUMBER",
    "SOFT_BLANKS",
    "WORD",
    "Column",
    "DelimitedReader",
    "FileState",
    "LabelCheck",
    "Marks",
    "Reader",
    "Reading",
    "Source",
    "Spelling",
    "Text",
    "TextTypes",
    "UnknownColumnError",
    "Wording",
    "among_numbers",
    "applied",
    "as_source",
    "beyond_exact",
    "check_breadth",
    "check_rows",
    "cut",
    "decided",
    "delimiter_of",
    "digits",
    "find",
    "floats_of",
    "integer_ends",
    "is_clock",
    "is_moment",
    "is_narrow",
    "is_number",
    "is_text",
    "is_told",
    "lasting",
    "numbers_among",
    "open_table",
    "plain",
    "read_marks",
    "ready",
    "retyped",
    "said_again",
    "scan",
    "short",
    "sliced",
    "split_part",
    "take_numbered",
    "take_rows",
    "text_among_numbers",
    "to_float",
    "to_labels",
    "unique_names",
    "unmarked",
    "usable",
    "whole_ends",
    "wording_of",
]

late_names(
    __name__,
    dates="digits",
    delimited="DelimitedReader",
    files="DELIMITERS FORMATS FileState Reader find sliced unique_names",
    frames="lasting",
    header="delimiter_of",
    kinds="MOST_COLUMNS Column check_breadth is_clock is_moment is_number is_text plain usable",
    labels="LabelCheck to_labels",
    opening="open_table ready said_again",
    parts="NUMBER WORD cut split_part",
    persons="MARKS Marks read_marks unmarked",
    reading="Reading Text",
    roles="UnknownColumnError",
    rows="check_rows take_numbered take_rows",
    spelling="ANY_TEXT SOFT_BLANKS Spelling Wording among_numbers is_told",
    spelt="retyped wording_of",
    table="Source as_source scan",
    tellable="short",
    text="ALMOST TextTypes",
    units="numbers_among",
    values="NULL_WORDS beyond_exact floats_of integer_ends is_narrow to_float whole_ends",
    wording="applied decided text_among_numbers",
)
