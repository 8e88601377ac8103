"""docs/which-model.md: linear fits, curves, networks and trees at several budgets, on real tables.

    python -m experiments.models --data DIR [--write docs/which-model.md] [--found FILE [--no-more]]

DIR (or the environment variable LABELDP_REAL_DATA) holds the Parquet tables of `tables.py`, which
are not part of this repository. A fifth of the rows is kept aside, and R² on it measured with raw
labels: for comparison only, none of it is private. Networks need the extra "torch". What stands
in FILE already is not measured again; with --no-more nothing else is.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from experiments.alternatives import Budget
from experiments.peers import split
from experiments.peers_page import markdown
from experiments.real_data import put_between_marks
from experiments.study import DELTA, Study
from experiments.tables import SALES, SCHEDULE, USUAL_HOUSING, Table
from experiments.trees import trees

from labeldp import BagRegressor, LinearRegressor, Release

TABLES = (USUAL_HOUSING, SCHEDULE, SALES)
EPSILONS = (1.0, 4.0, 10.0)
MOST_ROWS = 62_500
"""Of which 50,000 are released."""
REPEATS = 3

Predict = Callable[[Any], np.ndarray[Any, np.dtype[np.float64]]]


@dataclass(frozen=True)
class Way:
    """A release and a learner."""

    name: str
    plan: dict[str, Any]
    fit: Callable[[Release, Any], Predict]


def linear(release: Release, _source: Any) -> Predict:
    """On aggregates: without the table."""
    return LinearRegressor().fit(release).predict


def network(release: Release, source: Any) -> Predict:
    """The defaults."""
    return BagRegressor().fit(release, source).predict


_SHAPED, _ROWS = {"mechanism": "shaped-flag"}, {"mechanism": "noisy-rows"}
WAYS = (
    Way("linear, shaped-flag", {**_SHAPED, "basis": "linear"}, linear),
    Way("splines, shaped-flag", {**_SHAPED, "basis": "splines"}, linear),
    Way("splines+fourier:200, shaped-flag", {**_SHAPED, "basis": "splines+fourier:200"}, linear),
    Way("network, noisy-rows", _ROWS, network),
    Way("trees, noisy-rows", _ROWS, trees),
)


@dataclass(frozen=True)
class Rows:
    """A table in two parts."""

    table: Table
    train: pa.Table
    test: pa.Table

    @classmethod
    def of(cls, table: Table, folder: Path) -> Rows:
        """So many rows with labels, at random."""
        found = table.load(folder)
        whole = found if isinstance(found, pa.Table) else pq.read_table(found)
        whole = whole.filter(whole[table.label].is_valid())
        chosen = np.random.default_rng(0).permutation(len(whole))[:MOST_ROWS]
        return cls(table, *split(whole.take(chosen), seed=0))

    def r2(self, predict: Predict) -> float:
        """On the rows kept aside, labels clipped as those of the release."""
        truth = np.clip(np.asarray(self.test[self.table.label], float), *self.table.label_range)
        misses = truth - predict(self.test.drop_columns([self.table.label]))
        return 1 - float(misses @ misses) / float(np.sum((truth - truth.mean()) ** 2))


def measure(rows: Rows, study: Study, way: Way, epsilon: float) -> list[float]:
    """R² of several releases."""
    made = study.plan(Budget(epsilon, DELTA), **way.plan)
    return [rows.r2(way.fit(each, study.source)) for each in study.releases(made, REPEATS)]


def lines(table: Table, folder: Path, store: Store) -> list[tuple[str, ...]]:
    """Of one table; the best at each budget bold."""
    rows = Rows.of(table, folder)
    study = Study(table.source_of(rows.train))
    found = store.setdefault(table.key, {})
    for way in WAYS if store.grows else ():
        begun = time.perf_counter()
        if way.name not in found:
            found[way.name] = [measure(rows, study, way, epsilon) for epsilon in EPSILONS]
            store.keep()
        print(
            table.name,
            way.name,
            found[way.name],
            f"{time.perf_counter() - begun:.0f} s",
            flush=True,
        )
    means = {name: [float(np.mean(each)) for each in cells] for name, cells in found.items()}
    best = [max(column) for column in zip(*means.values(), strict=True)]
    title = f"{table.name}, {len(rows.train):,} rows"
    return [
        (title if place == 0 else "", name, *map(_cell, cells, means[name], best))
        for place, (name, cells) in enumerate(found.items())
    ]


def _cell(values: list[float], mean: float, best: float) -> str:
    text = f"{mean:.3f}".replace("-", "−")
    spread = f" ({min(values):.3f} to {max(values):.3f})".replace("-", "−")
    return (f"**{text}**" if mean == best else text) + spread


class Store(dict[str, dict[str, list[list[float]]]]):
    """What was measured, by table and way, kept in a file if one is named."""

    def __init__(self, path: Path | None, *, grows: bool = True) -> None:
        self.grows = grows
        there = path is not None and path.exists()
        super().__init__(json.loads(path.read_text()) if there and path else {})
        self._path = path

    def keep(self) -> None:
        if self._path is not None:
            self._path.write_text(json.dumps(self, indent=1))


def report(folder: Path, store: Store, keys: list[str]) -> str:
    """The table as Markdown."""
    header = ("table", "way", *(f"ε = {epsilon:g}" for epsilon in EPSILONS))
    body = [line for table in TABLES if table.key in keys for line in lines(table, folder, store)]
    return "\n".join(markdown(header, body))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LABELDP_REAL_DATA"))
    parser.add_argument("--write", type=Path, help="put the table between its marks in this file")
    known = [table.key for table in TABLES]
    parser.add_argument("--tables", nargs="+", choices=known, default=known)
    parser.add_argument("--found", type=Path, help="keep what was measured here, and go on from it")
    parser.add_argument("--no-more", action="store_true", help="show what was measured, no more")
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("say where the tables are: --data DIR or LABELDP_REAL_DATA")
    text = report(Path(asked.data), Store(asked.found, grows=not asked.no_more), asked.tables)
    print(text)
    if asked.write:
        put_between_marks(asked.write, text, "models")


if __name__ == "__main__":
    main()
