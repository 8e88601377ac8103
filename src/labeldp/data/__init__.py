"""Tables from files and frames: streamed, features apart from labels.

    scan(data, label=…, label_range=…) → Source
    source.feature_batches()             features only; labels are not read
    source.labelled_batches()            features with checked labels

source.py       `scan` and `Source`; which reader a table has; rows by their numbers
options.py      names and roles of columns, and options about text
readers.py      what readers have in common; Parquet and Arrow files; batches cut and joined
delimited.py    CSV and TSV files; csv_stream.py: blocks of their rows, which no label can move
excel.py        Excel sheets as CSV text
frames.py       pandas, polars, duckdb and Arrow tables; Stata, SPSS and SAS files
cluster.py      Spark data frames, whose rows stay where they are
text_types.py   text columns as numbers, dates, truth values or categories; dates.py
columns.py      types of feature columns, and their values as float64
labels.py       the private column
persons.py      hashes of the ids of persons
files.py        which files a path means
"""
