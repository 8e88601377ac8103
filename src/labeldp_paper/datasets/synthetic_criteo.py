"""Synthetic stand-in for the paper's Criteo table: drawn from a model, no click of anybody.

Sales are drawn as they would stand in the log and then go the way of the log, so a
generated table and a generated log that is read back are the same rows. What the recipe was fitted
to, on seeds from 900 on, and how near it comes: `labeldp reproduce statistics`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from labeldp_paper.datasets import criteo
from labeldp_paper.datasets.declaration import Dataset, Model
from labeldp_paper.datasets.projection import dimensions

CRITEO_LEVELS = {
    "product_age_group": 11,
    "product_category_1": 22,
    "product_category_7": 6,
    "product_country": 18,
    "product_gender": 11,
}
"""68 in all as in the paper, the missing one of each column included; the split is ours."""

_BATCH = 1 << 16
_TOP, _DEAREST = 253.78, 17.0
"""The largest label and log₂ of the highest price: both are those of the first row."""
_NOISE = 13.22
_BASE = 17.5
"""What no number explains: it takes Adam long to move it into the weights of levels."""
_PRICE = 0.55
"""Slope in the price, about that of the public sample of the log. Adam starts every weight near 0
and gets nowhere near a steep one in the few steps of small bags: with 0.9 the paper's smallest cell
came out a fifth too high, by where the weight of the price happened to start."""
_EFFECT = 5.0
_TAIL = 0.02
"""Of the sales, those with other levels than a column's ⌈log₂ L⌉ most frequent ones: a projection
to as many numbers keeps the effects of these."""
_BEND = 11.3
"""What a straight line in the delay cannot follow; networks can."""
_MIDDLE, _MEAN_BEND = 150.0, 0.8
"""Of the delay where it bends, and the mean of the bent part."""
_LONGEST = 504.8
"""Largest norm of a row: the paper's 505.89 less a little for projected levels."""
_MONTH = 30 * 86_400
_MISSING_RATE = {"time_delay_for_conversion": 0.01, "nb_clicks_1week": 0.06, "product_price": 0.002}
_RARE_ROWS = 3
_SPARSE = "product_category_7"
"""Nearly every sale has one of two levels here, the others a few rows each at the start of the
table: so the projected columns are nearly dependent, as the paper's smallest singular value says.
"""
_SPARSE_SHARES, _SPARSE_ROWS = (0.7, 0.3), 8


def criteo_sales(rows: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield `rows` synthetic sales in the units of the log."""
    model = np.random.default_rng([seed, 2018])
    shares = {name: _shares(model, name) for name in CRITEO_LEVELS}
    effects = {name: _effects(model, shares[name], name) for name in CRITEO_LEVELS}
    for start in range(0, rows, _BATCH):
        stream = np.random.default_rng([seed, 2018, start])
        yield _batch(stream, start, min(_BATCH, rows - start), shares, effects)


def as_log(sales: pa.RecordBatch) -> pa.Table:
    """Sales and, after them, an eighth as many clicks without one, in the columns of the log."""
    clicks = _log_rows(sales, sales.num_rows, sale=1)
    return pa.concat_tables([clicks, _log_rows(sales, sales.num_rows // 8, sale=0)])


def _log_rows(sales: pa.RecordBatch, rows: int, sale: int) -> pa.Table:
    constants = {
        "Sale": str(sale),
        "click_timestamp": "1600000000",
        **({} if sale else {criteo.LABEL: "-1.0", criteo.NUMERIC[0]: "-1", "product_price": "0.0"}),
    }
    columns = []
    for name in criteo.COLUMNS:
        if name in sales.schema.names and name not in constants:
            column = sales.column(name).slice(0, rows)
            whole = name in criteo.NUMERIC[:2]
            columns.append(column.cast(pa.int64()) if whole else column.cast(_plain(column.type)))
        else:
            columns.append(pa.repeat(constants.get(name, "-1"), rows))
    return pa.table([column.cast(pa.string()) for column in columns], names=list(criteo.COLUMNS))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _batch(
    stream: np.random.Generator,
    start: int,
    rows: int,
    shares: dict[str, NDArray[np.float64]],
    effects: dict[str, NDArray[np.float64]],
) -> pa.RecordBatch:
    price = np.round(2.0 ** np.clip(6.2 + stream.standard_t(6, rows), 0.0, _DEAREST), 2)
    if start == 0:
        price[0] = 2.0**_DEAREST
    delay = np.floor(_MONTH ** stream.random(rows))
    clicks = np.floor(3.0 ** np.abs(stream.normal(0.0, 2.0, rows)))
    costs, waits = criteo.squared_log(price, 2.0), criteo.squared_log(delay, 2.0)
    score = (
        _BASE
        + _PRICE * costs
        + 0.01 * waits
        + _BEND * (np.abs(waits - _MIDDLE) / _MIDDLE - _MEAN_BEND)
    )
    columns: dict[str, pa.Array] = {}
    for name, cumulative in shares.items():
        codes = np.minimum(np.searchsorted(cumulative, stream.random(rows)), len(cumulative) - 1)
        score += effects[name][codes]
        columns[name] = _levels(name, codes, start)
    target = np.clip(score + stream.normal(0.0, _NOISE, rows), 0.0, _TOP)
    if start == 0:
        target[0] = _TOP
    columns[criteo.LABEL] = pa.array(_euro(target))
    room = np.sqrt(_LONGEST**2 - target**2 - costs**2)  # so large sales follow soon
    delay = np.floor(np.where(waits > room, 2.0 ** np.sqrt(room), delay))
    numbers = dict(zip(criteo.NUMERIC, (delay, clicks, price), strict=True))
    for name, rate in _MISSING_RATE.items():
        gone = stream.random(rows) < rate
        columns[name] = pa.array(np.where(gone, -1.0, numbers[name]))
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in criteo.RAW.names], schema=criteo.RAW
    )


def _euro(target: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sale whose transform is the target, to five decimals as in the log."""
    euro = np.where(target > 1.0, 2.0 ** np.sqrt(target), target)
    return np.asarray(np.minimum(np.round(euro, 5), np.floor(criteo.LARGEST_SALE * 1e5) / 1e5))


def _levels(name: str, codes: NDArray[np.int64], start: int) -> pa.DictionaryArray:
    """Names like those of the log; the first rows have levels so rare that they are merged."""
    size = CRITEO_LEVELS[name]
    codes = codes.astype(np.int32)
    if start == 0:
        first = np.arange(size, size + _RARE_ROWS)
        if name == _SPARSE:
            first = np.append(first, np.repeat(np.arange(2, size), _SPARSE_ROWS))
        codes[: len(first)] = first[: len(codes)]
    names = ["-1", *(_hash(name, level) for level in range(1, size + _RARE_ROWS))]
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names))


def _hash(name: str, level: int) -> str:
    return hashlib.sha256(f"synthetic {name} {level}".encode()).hexdigest()[:32].upper()


def _shares(model: np.random.Generator, name: str) -> NDArray[np.float64]:
    if name == _SPARSE:
        return np.cumsum(_SPARSE_SHARES)
    size = CRITEO_LEVELS[name]
    bulk = dimensions(size)
    weights = (np.arange(size) + 2.0) ** -1.0
    weights[:bulk] *= (1 - _TAIL) / weights[:bulk].sum()
    weights[bulk:] *= _TAIL / weights[bulk:].sum()
    return np.asarray(np.cumsum(model.permutation(weights)))


def _effects(
    model: np.random.Generator, cumulative: NDArray[np.float64], name: str
) -> NDArray[np.float64]:
    effects = _EFFECT * model.uniform(-1.0, 1.0, CRITEO_LEVELS[name])
    shares = np.diff(cumulative, prepend=0.0)
    return np.asarray(effects - shares @ effects[: len(shares)])


def _write(batch: pa.RecordBatch, _done: int, sink: BinaryIO) -> None:
    style = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    csv.write_csv(as_log(batch), sink, style)


DATASET = Dataset(
    "synthetic-criteo",
    "synthetic stand-in for the Criteo sales",
    "nothing",
    "synthetic: generated by labeldp, free of rights",
    criteo.LABEL,
    criteo.label_range,
    criteo.NUMERIC,
    criteo.CATEGORICAL,
    options=("log_base",),
    model=Model(criteo_sales, _write, ".tsv", criteo.prepared),
    residual_ms=195.5,
)
