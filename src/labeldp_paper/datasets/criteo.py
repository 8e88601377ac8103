"""Criteo sponsored search clicks: 23 columns between tabs, no header, -1 where a value is missing.

The table of the paper: clicks with a sale; levels seen at most five times join the missing
one; missing numbers become the mean; numbers and label z become (log z)² where z > 2. The sales are
set aside in a temporary file while levels are counted, so that the log is parsed once.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.errors import DataError
from labeldp_paper.datasets.declaration import Dataset, Options
from labeldp_paper.datasets.delimited import Cells, read_cells
from labeldp_paper.datasets.reading import Watch, refuse

LABEL = "SalesAmountInEuro"
NUMERIC = ("time_delay_for_conversion", "nb_clicks_1week", "product_price")
CATEGORICAL = (
    "product_age_group",
    "product_category_1",
    "product_category_7",
    "product_country",
    "product_gender",
)
COLUMNS = (
    "Sale", LABEL, NUMERIC[0], "click_timestamp", NUMERIC[1], NUMERIC[2], "product_age_group",
    "device_type", "audience_id", "product_gender", "product_brand",
    *(f"product_category_{level}" for level in range(1, 8)), "product_country", "product_id",
    "product_title", "partner_id", "user_id",
)  # fmt: skip

LARGEST_SALE = 2 ** math.sqrt(253.78)
"""In euro, about 62,450: the sale at which (log₂ z)² is the end of the paper's label range."""

RARE = "missing or rare"
_MISSING = "-1"
_RARE_COUNT = 5
_MOST_LEVELS = 10_000
_UNIT = 1e6  # sums of millionths are exact, so that batches cannot matter
_LEVELS = pa.dictionary(pa.int32(), pa.string())
RAW = pa.schema(
    [
        (LABEL, pa.float64()),
        *((name, pa.float64()) for name in NUMERIC),
        *((name, _LEVELS) for name in CATEGORICAL),
    ]
)
"""Sales as they stand in the log."""

_CELLS = Cells(
    COLUMNS,
    {"Sale": pa.int8(), **{entry.name: entry.type for entry in RAW}},
    "\t",
    quoted=False,
    blanks=False,
)


def read(paths: Sequence[Path], options: Options, watch: Watch) -> Iterator[pa.RecordBatch]:
    """Yield the paper's table from the original log."""
    yield from prepared(_sales(paths, watch), options)


def label_range(options: Options) -> tuple[float, float]:
    """The public range of the transformed label, its upper end rounded up as the paper does."""
    return 0.0, float(math.ceil((math.log(LARGEST_SALE) / math.log(options.log_base)) ** 2))


DATASET = Dataset(
    "criteo",
    "Criteo sponsored search conversion log, the clicks with a sale",
    "CriteoSearchData, 23 columns between tabs without a header, .gz or not",
    "Criteo's terms: non-commercial use",
    LABEL,
    label_range,
    NUMERIC,
    CATEGORICAL,
    options=("log_base",),
    read=read,
)


def squared_log(values: NDArray[np.float64], log_base: float) -> NDArray[np.float64]:
    """z → (log z)² for z > 2, else z: AutoInt's transform, which steps down at 2 in base 2."""
    logs = np.log(np.maximum(values, 2.0)) / math.log(log_base)
    return np.where(values > 2.0, logs**2, values)


def prepared(sales: Iterable[pa.RecordBatch], options: Options) -> Iterator[pa.RecordBatch]:
    """Yield sales with levels merged, gaps filled and numbers transformed."""
    tally = _Tally()
    with tempfile.TemporaryDirectory(prefix="labeldp-") as folder:
        spool = Path(folder) / "sales.arrow"
        with pa.OSFile(str(spool), "wb") as sink, pa.ipc.new_stream(sink, RAW) as writer:
            for batch in sales:
                tally.add(batch)
                writer.write_batch(_plain(batch))
        if not tally.rows:
            raise DataError("no row has a sale amount; give the whole log")
        frequent, means = tally.frequent(), tally.means()
        with pa.OSFile(str(spool)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                yield _transformed(batch, frequent, means, options.log_base)


def _sales(paths: Sequence[Path], watch: Watch) -> Iterator[pa.RecordBatch]:
    for path in paths:
        line = 1
        for batch in read_cells(path, _CELLS, watch):
            _check(path, line, batch)
            line += batch.num_rows
            kept = batch.filter(pc.not_equal(batch.column(LABEL), -1.0)).select(RAW.names)
            watch.dropped += batch.num_rows - kept.num_rows
            if kept.num_rows:
                yield kept


def _check(path: Path, line: int, batch: pa.RecordBatch) -> None:
    sale = batch.column("Sale").to_numpy()
    _require(path, line, (sale == 0) | (sale == 1), "Sale", "must be 0 or 1")
    for name in (LABEL, *NUMERIC):
        values = batch.column(name).to_numpy()
        good = (values >= 0) & np.isfinite(values) | (values == -1)
        _require(path, line, good, name, "must be -1 (missing) or a number from 0")


def _require(path: Path, line: int, good: NDArray[np.bool_], name: str, cause: str) -> None:
    if not good.all():
        column = f"column {COLUMNS.index(name) + 1} ({name})"
        refuse(path, line + int(np.argmin(good)), f"{cause}; the columns are shifted", column)


@dataclass
class _Tally:
    """Counts of levels and exact sums of numbers: the same whatever the batches."""

    rows: int = 0
    levels: dict[str, Counter[str]] = field(
        default_factory=lambda: {name: Counter() for name in CATEGORICAL}
    )
    sums: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for name in CATEGORICAL:
            column = batch.column(name)
            counts = np.bincount(column.indices.to_numpy(), minlength=len(column.dictionary))
            self.levels[name].update(
                dict(zip(column.dictionary.to_pylist(), counts.tolist(), strict=True))
            )
            if len(self.levels[name]) > _MOST_LEVELS:
                raise DataError(
                    f"column {COLUMNS.index(name) + 1} ({name}) has more than {_MOST_LEVELS:,} "
                    f"levels; the columns are shifted or the file is another one"
                )
        for name in NUMERIC:
            values = batch.column(name).to_numpy()
            values = values[values != -1]
            self.sums[name] += int(np.rint(values * _UNIT).astype(np.int64).sum())
            self.known[name] += len(values)

    def frequent(self) -> dict[str, pa.Array]:
        """Levels that stay themselves."""
        return {
            name: pa.array(
                sorted(v for v, n in counts.items() if n > _RARE_COUNT and v != _MISSING),
                pa.string(),
            )
            for name, counts in self.levels.items()
        }

    def means(self) -> dict[str, float]:
        """Mean of the known values; 0 where none is known."""
        return {n: self.sums[n] / _UNIT / max(self.known[n], 1) for n in NUMERIC}


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Each batch with its own dictionaries, which the stream format replaces as it goes."""
    return pa.RecordBatch.from_arrays([batch.column(name) for name in RAW.names], schema=RAW)


def _transformed(
    batch: pa.RecordBatch, frequent: dict[str, pa.Array], means: dict[str, float], log_base: float
) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {}
    for name in NUMERIC:
        values = batch.column(name).to_numpy()
        filled = np.where(values == -1, means[name], values)
        columns[name] = pa.array(squared_log(filled, log_base))
    for name in CATEGORICAL:
        columns[name] = _merged(batch.column(name), frequent[name])
    columns[LABEL] = pa.array(squared_log(batch.column(LABEL).to_numpy(), log_base))
    return pa.RecordBatch.from_pydict(columns)


def _merged(column: pa.DictionaryArray, kept: pa.Array) -> pa.DictionaryArray:
    """The same levels in every batch: those kept, then the merged one."""
    places = pc.fill_null(pc.index_in(column.dictionary, kept), len(kept)).to_numpy()
    levels = pa.concat_arrays([kept, pa.array([RARE])])
    codes = places[column.indices.to_numpy()].astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes), levels)
