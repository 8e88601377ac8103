"""docs/peers.md: labeldp beside what one could do instead, on real tables.

    python -m experiments.peers --data DIR [--write docs/peers.md] [--found FILE]

DIR (or the environment variable LABELDP_REAL_DATA) holds the Parquet tables of `tables.py`, which
are not part of this repository. Tables whose outcome stands in FILE already are not run again.
Errors are measured with raw labels: for comparison only, none of it is private.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from experiments.alternatives import PEERS, Budget, Trial, shrunken
from experiments.figures import Figure, Outcome
from experiments.least_squares import Array, Blocks, Fit, Rows, errors
from experiments.study import DELTA, REPEATS, Study
from experiments.tables import TABLES, USUAL_HOUSING, Table

from experiments import classification, peers_page
from labeldp.mechanisms.registry import mechanisms

BUDGETS = tuple(Budget(epsilon, DELTA) for epsilon in (0.25, 0.5, 1.0, 4.0))
HOUSING_BUDGETS = (Budget(0.05, DELTA), *BUDGETS)
_BEST: dict[str, dict[str, Any]] = {"wtd-flag": {"max_megabytes": 128}}
"""What a mechanism needs to be at its best for a linear fit: many aggregates."""


@dataclass(frozen=True)
class Gathering:
    """Figures as they come; those that are still to be judged have coefficients beside them."""

    found: list[tuple[Figure, Array | None]] = field(default_factory=list)

    def expect(self, way: str, epsilon: float, squares: float, *, ours: bool = False) -> None:
        """An exact expectation."""
        self.found.append((Figure(way, ours, epsilon, (squares,)), None))

    def judge(self, way: str, epsilon: float, drawn: Array, *, ours: bool = False) -> None:
        """One column of coefficients for each repetition."""
        self.found.append((Figure(way, ours, epsilon, ()), drawn))

    def figures(self, blocks: Blocks, limits: tuple[float, float]) -> tuple[Figure, ...]:
        """All of them, after one pass over the rows; predictions are clipped to the limits."""
        drawn = [each for _, each in self.found if each is not None]
        sums = iter(errors(blocks, np.column_stack(drawn), limits).tolist())
        return tuple(
            figure if each is None else replace(figure, values=tuple(islice(sums, each.shape[1])))
            for figure, each in self.found
        )


def add_mechanisms(found: Gathering, study: Study, full: Fit, budget: Budget) -> None:
    """Plain least squares on what each mechanism publishes, by its exact expectation.

    That of wtd-flag depends on the residual: the truth is told once the plan is made without it.
    """
    for mechanism in mechanisms():
        if not mechanism.closed_form:
            continue
        choices = {"mechanism": mechanism.name, **_BEST.get(mechanism.name, {})}
        made = study.plan(budget, **choices)
        if not made.forecast.added_exact:
            told = {"bags": made.claim.bags, "residual_guess": full.residual_ss / full.rows}
            made = study.plan(budget, **choices | told)
        squares = full.residual_ss + made.forecast.added_mse * full.rows
        found.expect(f"{mechanism.name}, least squares", budget.epsilon, squares, ours=True)


def add_peers(found: Gathering, trial: Trial, *, simulate: bool = False) -> None:
    """Peers by their exact expectations where there are any, or all by simulation."""
    full, epsilon = trial.fit, trial.budget.epsilon
    for peer in PEERS:
        if simulate or peer.excess is None:
            found.judge(peer.name, epsilon, peer.draw(trial))
        else:
            squares = full.residual_ss + peer.excess(full, trial.budget)
            found.expect(peer.name, epsilon, squares)
    found.judge(peers_page.SHRUNKEN, epsilon, shrunken(trial))


def compare(table: Table, folder: Path) -> Outcome:
    """All ways on all rows of a table."""
    study, found = Study(table.source(folder)), Gathering()
    stream = np.random.default_rng(0)
    plans = [study.plan(budget) for budget in BUDGETS]
    blocks, full = study.full_fit(plans[0])
    for budget, made in zip(BUDGETS, plans, strict=True):
        releases = study.releases(made, REPEATS)
        found.judge(peers_page.DEFAULT, budget.epsilon, study.fitted(releases), ours=True)
        add_mechanisms(found, study, full, budget)
        add_peers(found, Trial(full, blocks, budget, stream, REPEATS))
    _, raw = study.raw_fit(BUDGETS[0])
    return Outcome(
        name=table.name,
        rows=full.rows,
        columns=full.columns,
        label_range=table.range_text,
        explained=1 - raw.residual_ss / raw.constant_ss,
        largest_leverage=full.largest_leverage,
        raw=raw.residual_ss,
        encoded=full.residual_ss,
        chosen=tuple(made.claim.mechanism for made in plans),
        refused=tuple(made.claim.epsilon for made in plans if made.force),
        figures=found.figures(blocks, table.label_range),
    )


def split(table: pa.Table, seed: int) -> tuple[pa.Table, pa.Table]:
    """Four fifths of the rows, and the rest."""
    order = np.random.default_rng(seed).permutation(len(table))
    cut = len(table) * 4 // 5
    return table.take(order[:cut]), table.take(order[cut:])


def published_way(folder: Path) -> Outcome:
    """California housing as published work reports it: mean squared errors on rows kept aside.

    Each repetition splits the rows anew and makes one release.
    """
    table = USUAL_HOUSING.load(folder)
    runs = [_on_rows_kept_aside(*split(table, seed), seed) for seed in range(REPEATS)]
    figures = [
        replace(same[0], values=tuple(figure.values[0] for figure in same))
        for same in zip(*(run.figures for run in runs), strict=True)
    ]
    raw, encoded = (float(np.mean([getattr(r, n) for r in runs])) for n in ("raw", "encoded"))
    return replace(runs[0], raw=raw, encoded=encoded, figures=tuple(figures))


def _on_rows_kept_aside(train: pa.Table, test: pa.Table, seed: int) -> Outcome:
    here, aside = (USUAL_HOUSING.source_of(rows) for rows in (train, test))
    study, found = Study(here), Gathering()
    stream = np.random.default_rng(seed)
    plans = [study.plan(budget) for budget in HOUSING_BUDGETS]
    blocks, full = study.full_fit(plans[0])
    for budget, made in zip(HOUSING_BUDGETS, plans, strict=True):
        releases = study.releases(made, 1)
        found.judge(peers_page.DEFAULT, budget.epsilon, study.fitted(releases), ours=True)
        add_peers(found, Trial(full, blocks, budget, stream, 1), simulate=True)
    bare, raw = study.raw_fit(BUDGETS[0])
    rows, raw_rows = (Rows(aside, made.features) for made in (plans[0], bare))
    figures = found.figures(rows, USUAL_HOUSING.label_range)
    return Outcome(
        name=USUAL_HOUSING.name,
        rows=len(train),
        columns=full.columns,
        label_range=USUAL_HOUSING.range_text,
        explained=1 - raw.residual_ss / raw.constant_ss,
        largest_leverage=full.largest_leverage,
        raw=_plain_error(raw_rows, raw) / len(test),
        encoded=_plain_error(rows, full) / len(test),
        chosen=tuple(made.claim.mechanism for made in plans),
        refused=tuple(made.claim.epsilon for made in plans if made.force),
        figures=tuple(replace(f, values=(f.values[0] / len(test),)) for f in figures),
    )


def _plain_error(rows: Blocks, full: Fit) -> float:
    """Of the fit with all labels, nothing clipped."""
    return float(errors(rows, full.coefficients[:, None], (-np.inf, np.inf))[0])


def outcomes(folder: Path, found: Path | None) -> dict[str, Outcome]:
    """Of all tables; each is kept in the file as soon as it is there."""
    jobs: dict[str, Callable[[], Outcome]] = {
        table.key: lambda table=table: compare(table, folder)  # type: ignore[misc]
        for table in TABLES
    }
    jobs[USUAL_HOUSING.key] = lambda: published_way(folder)
    done = json.loads(found.read_text()) if found and found.exists() else {}
    for key, job in jobs.items():
        if key in done:
            continue
        start = time.perf_counter()
        done[key] = job().to_json()
        print(f"{key}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        if found:
            found.parent.mkdir(parents=True, exist_ok=True)
            found.write_text(json.dumps(done))
    return {key: Outcome.from_json(done[key]) for key in jobs}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LABELDP_REAL_DATA"))
    parser.add_argument("--write", type=Path, help="the page to write; default: print it")
    parser.add_argument("--found", type=Path, help="keep outcomes here, and use those that are")
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("say where the tables are: --data DIR or LABELDP_REAL_DATA")
    found = outcomes(Path(asked.data), asked.found)
    housing = found.pop(USUAL_HOUSING.key)
    text = peers_page.page(list(found.values()), housing)
    text += classification.between_marks(classification.section(Path(asked.data)))
    if asked.write:
        asked.write.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
