"""Tables from files and frames: streamed, features apart from labels.

    scan(data, label=…, label_range=…) → Source
    source.feature_batches()             features only; labels are not read
    source.labelled_batches()            features with checked labels

Modules, in the order of the road: `kinds` (what a column type means), `values` (columns as
float64), `reading` (what is said about text), `files` (which files, which format), `readers`
(Parquet, Arrow IPC), `text` and `delimited` (CSV, TSV), `frames` (pandas, polars, pyarrow,
duckdb), `labels` (the private column), `opening` (whatever is called a table), `table`, `rows`
(some rows of a stream).
"""

from labeldp.source.files import FileState
from labeldp.source.kinds import Column
from labeldp.source.labels import LabelCheck
from labeldp.source.opening import said_again
from labeldp.source.protocol import Reader
from labeldp.source.rows import check_rows, take_numbered, take_rows
from labeldp.source.table import Source, as_source, scan

__all__ = [
    "Column",
    "FileState",
    "LabelCheck",
    "Reader",
    "Source",
    "as_source",
    "check_rows",
    "said_again",
    "scan",
    "take_numbered",
    "take_rows",
]
