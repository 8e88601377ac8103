"""Tables from files and frames: streamed, features apart from labels.

    scan(data, label=…, label_range=…) → Source
    source.feature_batches()             features only; labels are not read
    source.labelled_batches()            features with checked labels

source.py       `scan` and `Source`; which reader a table has
roles.py        which columns are label, person and features
options.py      what can be said about text
readers.py      what readers have in common; Parquet and Arrow files
delimited.py    CSV and TSV files; csv_stream.py: their bytes, whose rows no label can move
foreign.py      Excel, Stata, SPSS and SAS files
frames.py       pandas, polars, duckdb and Arrow tables
cluster.py      Spark data frames, whose rows stay where they are
text_types.py   text columns as numbers, dates, truth values or categories; dates.py
columns.py      types of feature columns, and their values as float64
labels.py       the private column
persons.py      hashes of the ids of persons
files.py        which files a path means; batches.py: batches cut, joined and taken from
"""
