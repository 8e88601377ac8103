"""docs/which-model.md: does a shape that knows what shrinkage will drop pay where rows are few?

    python -m experiments.ridge --data DIR

The noise of shaped-flag is shaped for least squares, or with a public ridge (theory §12) for fits
that shrink. Test R² of the default fit on some thousand rows of California housing, mean of ten
releases from fixed seeds; for comparison only.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from experiments.alternatives import Budget
from experiments.models import Rows
from experiments.peers_page import markdown
from experiments.study import DELTA, Study
from experiments.tables import USUAL_HOUSING

from labeldp import LinearRegressor
from labeldp.sampling.streams import Randomness

RELEASES = 10
CASES = (
    (1_000, 1.0, "linear"),
    (1_000, 1.0, "splines:5"),
    (1_000, 1.0, "splines:5+fourier:50"),
    (4_000, 1.0, "linear"),
    (4_000, 1.0, "splines:10"),
    (4_000, 1.0, "splines:10+fourier:50"),
    (4_000, 4.0, "splines:10"),
)
RIDGES = (0.0, 0.1, 1.0, None)
"""The last: chosen from public facts."""
HEADER = ("rows", "ε", "basis", "columns", "no ridge", "0.1", "1", "taken by itself")


def measured(rows: Rows, count: int, epsilon: float, basis: str) -> Iterator[str]:
    """The cells of a line."""
    study = Study(rows.table.source_of(rows.train.slice(0, count)))
    yield from (f"{count:,}", f"{epsilon:g}", f"`{basis}`")
    for place, ridge in enumerate(RIDGES):
        made = study.plan(
            Budget(epsilon, DELTA), mechanism="shaped-flag", basis=basis, shape_ridge=ridge
        )
        if not place:
            yield str(len(made.features.names))
        if ridge is None:
            yield f"{made.claim.to_json()['shape'].get('ridge', 0):g}"
            return
        scores = []
        for seed in range(RELEASES):
            keys = Randomness.experiment(seed)
            release = made.release(study.source, engine=study.engine, randomness=keys)
            scores.append(rows.r2(LinearRegressor().fit(release).predict))
        yield f"{np.mean(scores):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LABELDP_REAL_DATA"))
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("say where the tables are: --data DIR or LABELDP_REAL_DATA")
    rows = Rows.of(USUAL_HOUSING, Path(asked.data))
    print("\n".join(markdown(HEADER, [tuple(measured(rows, *case)) for case in CASES])))


if __name__ == "__main__":
    main()
