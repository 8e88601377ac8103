"""Stand-ins for the paper's 1940 census tables in the census's own codes.

One recipe of persons makes both tables: `synthetic-census` has everybody, 61.65 % of them without
a label and counted as 0 weeks, as the paper's section on experiments seems to; the table
`synthetic-census-labelled` has the others, as its appendix says. What the recipe was fitted to, on
seeds from 900 on, and how near it comes: `labeldp reproduce statistics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp_paper.datasets import census
from labeldp_paper.datasets.declaration import Dataset, Model
from labeldp_paper.datasets.demo_table import CENSUS_LEVELS, CENSUS_RANGE

WORKERS = 50_582_693 / 131_903_910
"""The part of the persons who have a label: rows of the paper's appendix over those of its text."""

_BATCH = 1 << 17
_FIRST_CODE = {"SEX": 1, "MARST": 1, "SCHOOL": 1}
"""Codes of the census count from 1 here and from 0 elsewhere."""

_MEAN, _NOISE, _BEND = 42.0, 15.55, 7.0
"""Of weeks before clipping; the bend is what a straight line in age cannot follow."""
_AGE, _AGE_SPREAD, _OLDEST = 36.0, 10.0, 110
_EFFECTS = {
    "SEX": 3.0, "MARST": 2.0, "CHBORN": 1.0, "SCHOOL": 3.0, "EMPSTAT": 5.0, "OCC": 9.0, "IND": 9.0,
}  # fmt: skip
"""The largest effect of a level: weeks more or less."""
_FREQUENT: dict[str, dict[int, float]] = {
    "SEX": {0: 0.75, 1: 0.25},
    "MARST": {0: 0.62, 4: 0.08, 5: 0.3},
    "SCHOOL": {0: 0.95, 1: 0.05},
    "EMPSTAT": {1: 1.0},
}
"""Shares of levels among workers. Other levels of these columns are a few rows (`_RARE_ROWS`), so
that projected columns are nearly dependent, as the paper's smallest singular value says."""
_OTHERS: dict[str, dict[int, float]] = {
    "SEX": {0: 0.35, 1: 0.65},
    "MARST": {0: 0.35, 4: 0.1, 5: 0.55},
    "SCHOOL": {0: 0.6, 1: 0.4},
}
"""The same among persons without a label; elsewhere they have level 0."""
_ASKED = 0.04
"""Number of children: level 0 is N/A, since few were asked."""
_CHILDREN = 0.4
"""Of the persons without a label, those below 14."""
_RARE_ROWS = 4
"""Rows of each rare level, at the start of the table."""


def persons(rows: int, seed: int, workers: float) -> Iterator[pa.RecordBatch]:
    """Yield `rows` persons, a part `workers` of them with a label; batch by batch."""
    model = np.random.default_rng([seed, 1940, 2])
    shares = {name: _shares(model, name) for name in CENSUS_LEVELS}
    effects = {name: _effects(model, name, shares[name]) for name in CENSUS_LEVELS}
    for start in range(0, rows, _BATCH):
        stream = np.random.default_rng([seed, 1940, 2, start])
        yield _batch(stream, start, min(_BATCH, rows - start), workers, shares, effects)


def _shares(model: np.random.Generator, name: str) -> NDArray[np.float64]:
    """Of the levels among workers; the rarest of 224 still has about 1 row in 1700."""
    size = CENSUS_LEVELS[name]
    if name in _FREQUENT:
        return np.array([_FREQUENT[name].get(level, 0.0) for level in range(size)])
    weights = (np.arange(size) + 4.0) ** -0.9
    weights = model.permutation(weights / weights.sum())
    if name == "CHBORN":
        weights = np.concatenate([[1 - _ASKED], _ASKED * weights[1:] / weights[1:].sum()])
    return np.asarray(weights, dtype=float)


def _effects(
    model: np.random.Generator, name: str, shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    effects = _EFFECTS[name] * model.uniform(-1.0, 1.0, len(shares))
    return np.asarray(effects - shares @ effects)


def _batch(
    stream: np.random.Generator,
    start: int,
    rows: int,
    workers: float,
    shares: dict[str, NDArray[np.float64]],
    effects: dict[str, NDArray[np.float64]],
) -> pa.RecordBatch:
    works = stream.random(rows) < workers
    rare = _rare(rows) if start == 0 else {}
    for places in rare.values():
        works[list(places)] = True
    age = _ages(stream, works)
    for places in rare.values():
        age[list(places)] = _OLDEST
    bend = np.abs(age - _AGE) / _AGE_SPREAD
    score = _MEAN - _BEND * (np.minimum(bend, 3.0) - 0.8)
    columns: dict[str, pa.Array] = {"AGE": pa.array(age.astype(np.int16))}
    for name, size in CENSUS_LEVELS.items():
        codes = _levels(stream, rows, shares[name])
        others = _OTHERS.get(name, {0: 1.0})
        codes[~works] = _levels(
            stream, int((~works).sum()), np.array([others.get(i, 0.0) for i in range(size)])
        )
        for place, level in rare.get(name, {}).items():
            codes[place] = level
        score += effects[name][codes]
        names = [str(level + _FIRST_CODE.get(name, 0)) for level in range(size)]
        columns[name] = pa.DictionaryArray.from_arrays(
            pa.array(codes.astype(np.int16)), pa.array(names)
        )
    weeks = np.clip(np.rint(score + stream.normal(0.0, _NOISE, rows)), *CENSUS_RANGE)
    columns[census.LABEL] = pa.array(np.where(works, weeks, 0).astype(np.int16))
    return pa.RecordBatch.from_pydict(columns)


def _ages(stream: np.random.Generator, works: NDArray[np.bool_]) -> NDArray[np.float64]:
    shape = ((_AGE - 14.0) / _AGE_SPREAD) ** 2
    age = 14.0 + stream.gamma(shape, _AGE_SPREAD**2 / (_AGE - 14.0), len(works))
    rest = np.where(
        stream.random(len(works)) < _CHILDREN,
        stream.uniform(0.0, 14.0, len(works)),
        stream.uniform(14.0, 90.0, len(works)),
    )
    return np.asarray(np.clip(np.floor(np.where(works, age, rest)), 0, 95))


def _rare(rows: int) -> dict[str, dict[int, int]]:
    """Places at the start of the table and the rare level that each has there."""
    places, place = {}, 0
    for name, frequent in _FREQUENT.items():
        absent = [level for level in range(CENSUS_LEVELS[name]) if level not in frequent]
        levels = [level for level in absent for _ in range(_RARE_ROWS)]
        places[name] = {place + i: level for i, level in enumerate(levels) if place + i < rows}
        place += len(levels)
    return places


def _levels(
    stream: np.random.Generator, rows: int, shares: NDArray[np.float64]
) -> NDArray[np.int64]:
    cumulative = np.cumsum(shares)
    last = int(np.flatnonzero(shares)[-1])
    found = np.searchsorted(cumulative, stream.random(rows), side="right")
    return np.minimum(found, last)


def census_codes(batch: pa.RecordBatch) -> dict[str, NDArray[np.int64]]:
    """The columns of a coded batch as the numbers that fixed-width records hold."""
    return {
        name: np.asarray(
            pc.cast(_decoded(batch.column(name)), pa.int64()).to_numpy(), dtype=np.int64
        )
        for name in batch.schema.names
    }


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _write(batch: pa.RecordBatch, done: int, sink: BinaryIO) -> None:
    sink.write(census.as_records(census_codes(batch), done))


def _dataset(name: str, who: str, workers: float, residual_ms: float) -> Dataset:
    return Dataset(
        name,
        f"synthetic stand-in for the 1940 census, {who}",
        "nothing",
        "synthetic: generated by labeldp, free of rights",
        census.LABEL,
        lambda _: CENSUS_RANGE,
        census.NUMERIC,
        census.CATEGORICAL,
        model=Model(partial(persons, workers=workers), _write, ".dat"),
        residual_ms=residual_ms,
    )


DATASET = _dataset("synthetic-census", "all persons", WORKERS, 55.4)
LABELLED = _dataset("synthetic-census-labelled", "persons with a label", 1.0, 142.53)
