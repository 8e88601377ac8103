"""A synthetic stand-in for the paper's 1940 census table: drawn from a model, not from people.

It has the paper's columns, 401 levels in all, labels 0…51 weeks and, with one column for each
level, a residual mean square near the 64.22 that the paper prints (its section 4, all persons).
Batches depend on the seed and their position alone, so a table of any size is generated in a
stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CENSUS_LEVELS", "CENSUS_RANGE", "census_like", "write_census_like"]

CENSUS_RANGE = (0.0, 51.0)
"""WKSWORK1, weeks worked: B_Y = 25.5 in the paper."""

CENSUS_LEVELS = {
    "SEX": 2,
    "MARST": 6,
    "CHBORN": 22,
    "SCHOOL": 2,
    "EMPSTAT": 4,
    "OCC": 224,
    "IND": 141,
}
"""401 in all as in the paper; how they split between the variables is ours."""

_BATCH = 1 << 17
_NOISE = 7.89
"""With the clipping at 0 and 51 this leaves a residual mean square near 64.22."""


def census_like(
    rows: int,
    seed: int = 0,
    *,
    noise: float = _NOISE,
    names: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield `rows` synthetic rows in batches.

    noise: standard deviation of what the features do not explain, before clipping.
    names: of the levels of each column; default: 000, 001, …
    """
    names = names or {
        name: [f"{level:03d}" for level in range(size)] for name, size in CENSUS_LEVELS.items()
    }
    model = np.random.default_rng([seed, 1940])
    shares = {}
    for name, size in CENSUS_LEVELS.items():
        # The rarest level of 224 still has about 1 row in 1700.
        weights = (np.arange(size) + 4.0) ** -0.9
        shares[name] = np.cumsum(model.permutation(weights / weights.sum()))
    effects = {name: model.uniform(-3.0, 3.0, size) for name, size in CENSUS_LEVELS.items()}
    for start in range(0, rows, _BATCH):
        stream = np.random.default_rng([seed, 1940, start])
        count = min(_BATCH, rows - start)
        age = stream.integers(14, 90, count)
        score = 25.5 - 0.004 * (age - 45.0) ** 2 + 2.0
        columns: dict[str, pa.Array] = {"AGE": pa.array(age.astype(np.int16))}
        for name, cumulative in shares.items():
            codes = np.searchsorted(cumulative, stream.random(count))
            codes = np.minimum(codes, len(cumulative) - 1)
            score += effects[name][codes]
            columns[name] = pa.DictionaryArray.from_arrays(
                pa.array(codes.astype(np.int16)), pa.array(list(names[name]))
            )
        weeks = np.rint(score + stream.normal(0.0, noise, count))
        columns["WKSWORK1"] = pa.array(np.clip(weeks, *CENSUS_RANGE).astype(np.int16))
        yield pa.RecordBatch.from_pydict(columns)


def write_census_like(
    path: Path, rows: int, seed: int = 0, advance: Callable[[int], None] = lambda _rows: None
) -> None:
    """Write the synthetic table as Parquet, streaming."""
    writer = None
    for batch in census_like(rows, seed):
        writer = writer or pq.ParquetWriter(path, batch.schema)
        writer.write_batch(batch)
        advance(batch.num_rows)
    if writer:
        writer.close()
