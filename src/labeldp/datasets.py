"""A synthetic stand-in for the paper's 1940 census table: drawn from a model, not from people.

It has the paper's columns, 401 levels in all, labels 0…51 weeks and, with one column for each
level, a residual mean square near the 64.22 that the paper prints (its section 4, all persons).
Batches depend on the seed and their position alone, so a table of any size is generated in a
stream. The paper's other data are in `labeldp_paper.datasets`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

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
    shares = {name: _shares(model, size) for name, size in CENSUS_LEVELS.items()}
    effects = {name: _effects(model, size) for name, size in CENSUS_LEVELS.items()}
    for start in range(0, rows, _BATCH):
        stream = np.random.default_rng([seed, 1940, start])
        yield _batch(stream, min(_BATCH, rows - start), shares, effects, noise, names)


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


def _shares(model: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Unequal level frequencies; the rarest level of 224 still has about 1 row in 1700."""
    weights = (np.arange(size) + 4.0) ** -0.9
    weights = model.permutation(weights / weights.sum())
    return np.asarray(np.cumsum(weights))


def _effects(model: np.random.Generator, size: int) -> NDArray[np.float64]:
    return np.asarray(model.uniform(-3.0, 3.0, size))


def _batch(
    stream: np.random.Generator,
    rows: int,
    shares: dict[str, NDArray[np.float64]],
    effects: dict[str, NDArray[np.float64]],
    noise: float,
    names: Mapping[str, Sequence[str]],
) -> pa.RecordBatch:
    age = stream.integers(14, 90, rows)
    score = 25.5 - 0.004 * (age - 45.0) ** 2 + 2.0
    columns: dict[str, pa.Array] = {"AGE": pa.array(age.astype(np.int16))}
    for name, cumulative in shares.items():
        codes = np.minimum(np.searchsorted(cumulative, stream.random(rows)), len(cumulative) - 1)
        score += effects[name][codes]
        columns[name] = pa.DictionaryArray.from_arrays(
            pa.array(codes.astype(np.int16)), pa.array(list(names[name]))
        )
    weeks = np.rint(score + stream.normal(0.0, noise, rows))
    columns["WKSWORK1"] = pa.array(np.clip(weeks, *CENSUS_RANGE).astype(np.int16))
    return pa.RecordBatch.from_pydict(columns)
