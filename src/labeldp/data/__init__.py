"""Tables from files and frames: streamed, features apart from labels.

    scan(data, label=…, label_range=…) → Source
    source.feature_batches()             features only; labels are not read
    source.labelled_batches()            features with checked labels

source.py       `scan` and `Source`; which reader a table has; rows by their numbers
readers.py      what readers have in common; Parquet and Arrow files; batches cut and joined
delimited.py    CSV and TSV files, Excel sheets
csv_stream.py   blocks of rows of text, which no label can move
frames.py       pandas, polars, duckdb and Arrow tables; Stata, SPSS and SAS files
cluster.py      Spark data frames, whose rows stay where they are
text_types.py   text columns as numbers, dates, truth values or categories
columns.py      names and roles of columns, their types, their values as float64
labels.py       the private column
persons.py      hashes of the ids of persons
files.py        which files a path means
"""
