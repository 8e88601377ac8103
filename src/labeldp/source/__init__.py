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

from labeldp.common import late_names

late_names(__name__)
