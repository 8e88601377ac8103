"""The appendix's tables of sampled-wtd-FLAg: test error over m and k, a linear model.

As printed, the mechanism adds no noise: a cell's ε holds if every bag's residual is promised to
be at least the smallest among the bags drawn with the first seed. The tables at ε = 1 and 4 add
noise to every aggregate label, as much as any labels and features need (floor "added").
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from labeldp import Facts
from labeldp.accounting import SizedBag, Sketch, invert
from labeldp_paper.experiments.bag_grid import TARGETS, Grid, falling, mean_and_spread, square
from labeldp_paper.experiments.bag_law import WorstBag, sampled_epsilon, worst_bags
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.design import least_squares
from labeldp_paper.experiments.printed import SAMPLED, SAMPLED_INSTANCE
from labeldp_paper.experiments.result import Result, Row
from labeldp_paper.experiments.run import Run

NAME = "sampled"
_VERSION = 2
_LAW_VERSION = 1
_DATASETS = ("criteo", "census")


def sampled(run: Run) -> Result:
    """Both data sets."""
    seeds = run.size(2, 10, 10)
    parts = [_dataset(run, Grid(run, name), seeds) for name in _DATASETS]
    rows = [row for part in parts for row in part[0]]
    grids, tables, pictures = [part[1] for part in parts], [], []
    for grid, (_, _, instance) in zip(grids, parts, strict=True):
        mine = [row for row in rows if row["dataset"] == grid.name]
        for form in ("as printed", *(f"ε = {target:g}" for target in TARGETS)):
            chosen = [row for row in mine if row["form"] == form]
            tables.append(square(f"{grid.name}, {form}: test MSE", chosen))
        levels = (("all labels", instance["mse"]),)
        size = grid.sizes[-1]
        pictures.append(
            falling(
                f"sampled-{grid.name}",
                f"sampled-wtd-FLAg, linear, {grid.kind} {grid.name}, k = {size}",
                [row for row in mine if row["bag_size"] == size],
                levels,
                lambda row: str(row["form"]),
            )
        )
    return Result(
        NAME,
        "sampled-wtd-FLAg: a linear model on m bags of k rows",
        "; ".join(grid.data.text for grid in grids),
        tuple(rows),
        tuple(tables),
        tuple(pictures),
        notes=tuple(_notes(grids, [part[2] for part in parts], seeds)),
    )


def _dataset(run: Run, grid: Grid, seeds: int) -> tuple[list[Row], Grid, Row]:
    key = grid.data.key
    law = run.rows(
        f"{NAME}-law",
        _LAW_VERSION,
        key,
        [
            Cell(
                {"bag_size": k, "bags": list(grid.bags), "seed": run.seed},
                partial(_law, grid, k),
                cost=grid.bags[-1] * (k + 50),
            )
            for k in grid.sizes
        ],
    )
    facts = {
        (m, row["bag_size"]): WorstBag(*values)
        for row in law
        for m, values in zip(grid.bags, row["facts"], strict=True)
    }
    found = run.rows(
        NAME,
        _VERSION,
        key,
        [
            Cell(
                {"dataset": grid.name, "bags": m, "bag_size": k, "seeds": seeds, "seed": run.seed},
                partial(_errors, grid, m, k, seeds),
                cost=seeds * m * (k + 200),
            )
            for m in grid.bags
            for k in grid.sizes
        ],
    )
    few = run.size(2, 3, 10)
    cell = Cell({"seeds": few, "seed": run.seed}, partial(grid.instance, few), cost=grid.rows)
    (instance,) = run.rows(f"{NAME}-instance", _VERSION, key, [cell])
    rows = [
        row for cell in found for row in _rows(grid, cell, facts[(cell["bags"], cell["bag_size"])])
    ]
    return rows, grid, instance


def _law(grid: Grid, size: int) -> Row:
    bags = grid.draw(grid.run.seed, grid.bags[-1], size)
    facts = worst_bags(grid.design, bags, grid.bags)
    return {"facts": [[f.residual_ss, f.leverage, f.spanned] for f in facts]}


def _errors(grid: Grid, bags: int, size: int, seeds: int) -> Row:
    """Errors of the paper's mechanism and of the two with noise, over seeds."""
    stds = [0.0, *(added_std(grid, size, target) for target in TARGETS)]
    errors = []
    for seed in range(grid.run.seed, grid.run.seed + seeds):
        weights, random = grid.weights(seed, bags, size)
        sums, totals = grid.design.aggregated(grid.draw(seed, bags, size), weights)
        noisy = totals[:, None] + np.array(stds) * random.standard_normal((bags, len(stds)))
        errors.append(grid.design.test_mse(least_squares(sums, noisy), seed))
    return {"stds": stds, "errors": [mean_and_spread(kept) for kept in zip(*errors, strict=True)]}


def added_std(grid: Grid, size: int, epsilon: float) -> float:
    """The noise on an aggregate label that makes any bag (ε, δ)-label-DP."""
    facts = Facts(size, grid.label_range)
    return math.sqrt(invert.limit(Sketch(facts), "floor", epsilon, grid.delta))


def _rows(grid: Grid, cell: Row, facts: WorstBag) -> list[Row]:
    common = grid.common(cell, "linear")
    exact = sampled_epsilon(facts, cell["bag_size"], grid.label_range, grid.delta)
    rows = [
        {
            **common,
            "form": "as printed",
            "noise_std": 0.0,
            **cell["errors"][0],
            **exact,
            **grid.printed(SAMPLED[grid.name], cell),
        }
    ]
    for target, std, errors in zip(TARGETS, cell["stds"][1:], cell["errors"][1:], strict=True):
        form = {"form": f"ε = {target:g}", "noise_std": std, "epsilon": target, "reason": ""}
        rows.append({**common, **errors, **form})
    return rows


def _notes(grids: list[Grid], instances: list[Row], seeds: int) -> list[str]:
    notes = [
        f"Means and standard deviations over {seeds} seeds of split, bags and weights; δ is the "
        "paper's, "
        + ", ".join(f"{grid.delta:g} ({grid.name})" for grid in grids)
        + ". ε as printed holds given the bags of the first seed, if every bag's residual is "
        "promised to be at least the smallest there.",
        "The fit is exact least squares, so its error hardly depends on k: only the number of bags "
        "counts, by the closed form γ(1 + d/(m−d−1)). The paper trains by Adam with early stopping "
        "and ends elsewhere: worse in small cells, somewhat better in the largest.",
    ]
    for grid, instance in zip(grids, instances, strict=True):
        mean, deviation = SAMPLED_INSTANCE[grid.name]
        columns = instance["rank"]
        forecast = ", ".join(
            f"m = {m:,}: {instance['mse'] * (1 + mean_excess(columns, m)):.1f}"
            for m in grid.bags
            if np.isfinite(mean_excess(columns, m))
        )
        notes.append(
            f"{grid.name}: with all labels {instance['mse']:.2f} ± {instance['mse_std']:.2f} "
            f"(paper {mean} ± {deviation}); closed form, d = {columns}: {forecast}."
        )
        notes.append(_private_size(grid, instance))
    return notes


def _private_size(grid: Grid, instance: Row) -> str:
    """How large bags must be to need no noise, and what that leaves."""
    parts = []
    for target in TARGETS:
        law = SizedBag(grid.label_range, instance["mse"])
        size = int(invert.limit(law, "bag_size", target, grid.delta))
        bags = grid.design.train_rows // size
        excess = mean_excess(instance["rank"], bags) if bags else math.inf
        error = f"MSE {instance['mse'] * (1 + excess):.1f}" if excess < 1e3 else "too few to fit"
        parts.append(f"ε = {target:g}: k = {size:,}, room for {bags:,} bags, {error}")
    return f"{grid.name}, bags that need no noise at all: " + "; ".join(parts) + "."


def mean_excess(columns: int, bags: int) -> float:
    """E[(val − opt)/opt] of least squares on m aggregates: d/(m−d−1) (theory §5)."""
    return columns / (bags - columns - 1) if bags > columns + 1 else math.inf
