"""docs/which-model.md: what each basis is worth.

    python -m experiments.bases --data DIR [--tables usual schedule synthetic] [--epsilon 1]

Test R² on a fifth of the rows, mean of three releases from fixed seeds; for comparison only.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from experiments.alternatives import Budget
from experiments.models import REPEATS, Rows
from experiments.study import DELTA, Study
from experiments.tables import SCHEDULE, USUAL_HOUSING, Table

from labeldp import LinearRegressor
from labeldp.sampling.streams import Randomness

BASES = ("linear", "splines:10", "splines:10+fourier:50", "splines:10+fourier:200")


def curves_and_products(_folder: Path) -> pa.Table:
    """Nine skewed features; a line explains some of it, curves more, products of them the rest."""
    random = np.random.default_rng(5)
    raw = random.gamma(2, 1, (57_000, 9))
    s = ((raw - 2) / 1.4).T
    labels = 0.35 * s[0] - 0.3 * s[1] + 0.5 * np.sin(2 * s[2]) + 0.5 * np.abs(s[3])
    labels += -0.4 * s[4] * s[5].clip(-2, 2) + 0.35 * np.cos(1.5 * s[6] + s[0])
    labels += random.normal(0, 1, len(raw))
    columns = {f"x{place}": raw[:, place] for place in range(9)}
    return pa.table({**columns, "y": labels.clip(-5, 6)})


SYNTHETIC = Table("synthetic", "synthetic", "y", (-5, 6), curves_and_products)
TABLES = (USUAL_HOUSING, SCHEDULE, SYNTHETIC)


def measured(table: Table, folder: Path, epsilon: float) -> Iterator[tuple[str, int, float]]:
    """Every basis, its columns and R²."""
    rows = Rows.of(table, folder)
    study = Study(table.source_of(rows.train))
    for basis in BASES:
        made = study.plan(Budget(epsilon, DELTA), mechanism="shaped-flag", basis=basis)
        scores = []
        for seed in range(REPEATS):
            keys = Randomness.experiment(seed)
            release = made.release(study.source, engine=study.engine, randomness=keys)
            scores.append(rows.r2(LinearRegressor().fit(release).predict))
        yield basis, len(made.features.names), float(np.mean(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LABELDP_REAL_DATA"))
    known = [table.key for table in TABLES]
    parser.add_argument("--tables", nargs="+", choices=known, default=known)
    parser.add_argument("--epsilon", type=float, default=1.0)
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("say where the tables are: --data DIR or LABELDP_REAL_DATA")
    for table in TABLES:
        found = measured(table, Path(asked.data), asked.epsilon)
        for line in found if table.key in asked.tables else ():
            print(table.name, *line, flush=True)


if __name__ == "__main__":
    main()
