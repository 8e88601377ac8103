"""Tables from files and frames: streamed, features apart from labels.

    scan(data, label=…, label_range=…) → Source
    source.feature_batches()             features only; labels are not read
    source.labelled_batches()            features with checked labels

Modules, in the order of the road:

    what is asked   `reading` (what is said about text), `roles` (which column plays which part,
                    `safe_names` for messages), `kinds` (what a column's type means)
    which files     `files` (and their formats), `opening` (whatever is called a table)
    readers         `protocol` (what one is), `readers` (Parquet, Arrow IPC), `delimited` (CSV,
                    TSV), `foreign` (Excel, Stata, SPSS, SAS), `frames` (pandas, polars and others)
    lines of text   `header`, `margins` (above and below the table), `headings` (amid it),
                    `rownames`, `guard` (a label ends no row), `streams` (to Arrow and back)
    texts as values `looks` (what a column's texts look like), `decision` (how it is read then),
                    `spelling` (reading it so), `typed_text` (the same for text in typed tables)
    of which        `numerals` (1,234.56 $), `dress` (what only a whole column can tell),
                    `conversion` (g, kg), `dates`, `dates_in_english` (from other languages)
    columns         `values` (as float64), `parts` (of dates and texts), `persons` (whose a row is),
                    `labels` (the private column)
    the table       `table` (`scan`, `Source`), `rows` (some of them)

Other rooms import from this page alone.
"""
