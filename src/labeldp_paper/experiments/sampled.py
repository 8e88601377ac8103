"""The appendix's tables of sampled-wtd-FLAg: test error over m and k, a linear model.

The model is trained as the paper trains it (`training`), and by least squares. As printed, the
mechanism adds no noise: a cell's ε holds if every bag's residual is promised to
be at least the smallest among the bags drawn with the first seed. The tables at ε = 1 and 4 add
noise to every aggregate label, as much as any labels and features need (floor "added").
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import partial

import numpy as np

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from labeldp.pictures import Picture
from labeldp_paper.experiments.agreement import against, falls, near, nearness
from labeldp_paper.experiments.bag_grid import TARGETS, Grid, falling, mean_and_spread
from labeldp_paper.experiments.bag_law import WorstBag, sampled_epsilon, worst_bags
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.design import least_squares
from labeldp_paper.experiments.printed import SAMPLED, SAMPLED_INSTANCE
from labeldp_paper.experiments.result import Result, Row, Table
from labeldp_paper.experiments.run import Run
from labeldp_paper.experiments.squares import PRINTED, square
from labeldp_paper.experiments.today import above, today, today_levels, today_table
from labeldp_paper.experiments.training import BATCH_ROWS, EPOCHS, bags_a_step, train_linear

NAME = "sampled"
_VERSION = 2
_LAW_VERSION = 1
_TRAINED_VERSION = 1
_SMALL_CELL = 65_536
TRAINED, SOLVED = "Adam", "least squares"
_DATASETS = ("criteo", "census")


def sampled(run: Run) -> Result:
    """Both data sets."""
    seeds = run.size(2, 5, 10)
    rows: list[Row] = []
    tables: list[Table] = []
    pictures: list[Picture] = []
    glances: dict[str, str] = {}
    notes, texts = [_general(seeds, Grid(run, "census"))], []
    for name in _DATASETS:
        grid = Grid(run, name)
        trained = _trained(run, grid)
        solved, instance = _solved(run, grid, seeds)
        others = today(grid)
        tables.append(_table(grid, [*trained, *solved]))
        tables += [today_table(grid, others)] if others else []
        notes.append(_trained_note(grid, trained))
        if not run.small:
            pictures.append(_agreement(grid, trained, solved))
            glances[pictures[-1].name] = _near(trained, solved)
        if instance is not None:
            notes += _notes(grid, instance)
            pictures.append(_picture(grid, [*trained, *solved], instance, others))
            glances[pictures[-1].name] = above(solved, others, grid.sizes[-1])
        rows += [*trained, *solved, *others]
        texts.append(grid.data.text)
    return Result(
        NAME,
        "sampled-wtd-FLAg: a linear model on m bags of k rows",
        "; ".join(texts),
        tuple(rows),
        tuple(tables),
        tuple(pictures),
        glances,
        notes=tuple(notes),
    )


def _table(grid: Grid, rows: list[Row]) -> Table:
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        title = row["fit"] if row["form"] == PRINTED else f"{row['fit']}, {row['form']}"
        kinds.setdefault(title, []).append(row)
    return square(grid.name, kinds)


def _agreement(grid: Grid, trained: list[Row], solved: list[Row]) -> Picture:
    printed = [row for row in solved if "paper_mse" in row]
    return against(
        f"sampled-{grid.name}-paper",
        f"sampled-wtd-FLAg, {grid.kind} {grid.name}: paper against ours",
        [*trained, *printed],
        lambda row: str(row["fit"]),
        log=True,
    )


def _near(trained: list[Row], solved: list[Row]) -> str:
    printed = [row for row in solved if "paper_mse" in row]
    return (
        f"Of Adam's points {near(trained)} are within 10 % of the line, of those of least squares "
        f"{near(printed)}."
    )


def _picture(grid: Grid, rows: list[Row], instance: Row, others: list[Row]) -> Picture:
    size = grid.sizes[-1]
    return falling(
        f"sampled-{grid.name}",
        f"sampled-wtd-FLAg, linear, {grid.kind} {grid.name}, k = {size}",
        [row for row in rows if row["bag_size"] == size],
        (("all labels", instance["mse"]), *today_levels(others)),
        lambda row: f"{row['form']}, {row['fit']}",
    )


def _seeds(grid: Grid, rows: int) -> int:
    """The paper's ten where columns are few or the cell is small, whose errors vary most."""
    cheap = grid.name == "criteo" or rows <= _SMALL_CELL
    return grid.run.size(2, 10 if cheap else 3, 10)


def _trained(run: Run, grid: Grid) -> list[Row]:
    """The paper's training, every cell of the grid."""
    epochs = run.size(3, EPOCHS, EPOCHS)
    batch_rows = run.size(64, BATCH_ROWS[grid.name], BATCH_ROWS[grid.name])
    common = {"seed": run.seed, "epochs": epochs, "batch_rows": batch_rows}
    found = run.rows(
        f"{NAME}-trained",
        _TRAINED_VERSION,
        grid.data.key,
        [
            Cell(
                {
                    "dataset": grid.name,
                    "bags": m,
                    "bag_size": k,
                    "seeds": _seeds(grid, m * k),
                    **common,
                },
                partial(_train, grid, m, k, _seeds(grid, m * k), epochs, batch_rows),
                cost=_seeds(grid, m * k) * m * (k + 200),
            )
            for m in grid.bags
            for k in grid.sizes
        ],
        some=True,
    )
    law = _law_of(run, grid)
    return [
        {
            **grid.common(cell, "linear"),
            "form": PRINTED,
            "fit": TRAINED,
            "noise_std": 0.0,
            **{name: cell[name] for name in ("mse", "mse_std", "seeds")},
            **law.get((cell["bags"], cell["bag_size"]), _UNKNOWN),
            **grid.printed(SAMPLED[grid.name], cell),
        }
        for cell in found
    ]


def _train(grid: Grid, bags: int, size: int, seeds: int, epochs: int, batch_rows: int) -> Row:
    design, chosen = grid.design, range(grid.run.seed, grid.run.seed + seeds)
    drawn = [
        design.aggregated(grid.draw(seed, bags, size), grid.weights(seed, bags, size)[0])
        for seed in chosen
    ]
    weights = train_linear(
        np.array([design.plain(sums) for sums, _ in drawn]),
        np.array([totals for _, totals in drawn]),
        bags_a_step(batch_rows, size),
        np.random.default_rng([grid.run.seed, bags, size, 6]),
        epochs,
    )
    errors = [
        design.test_mse(design.from_plain(line)[:, None], seed)[0]
        for line, seed in zip(weights, chosen, strict=True)
    ]
    return mean_and_spread(errors)


def _law_of(run: Run, grid: Grid) -> dict[tuple[int, int], Row]:
    """ε of every cell as printed, or why there is none."""
    law = run.rows(
        f"{NAME}-law",
        _LAW_VERSION,
        grid.data.key,
        [
            Cell(
                {"bag_size": k, "bags": list(grid.bags), "seed": run.seed},
                partial(_law, grid, k),
                cost=grid.bags[-1] * (k + 50),
            )
            for k in grid.sizes
        ],
        some=True,
        none=True,
    )
    return {
        (m, row["bag_size"]): sampled_epsilon(
            WorstBag(*values), row["bag_size"], grid.label_range, grid.delta
        )
        for row in law
        for m, values in zip(grid.bags, row["facts"], strict=True)
    }


_UNKNOWN: Row = {"epsilon": None, "reason": "its ε was not computed"}


def _solved(run: Run, grid: Grid, seeds: int) -> tuple[list[Row], Row | None]:
    """Least squares, as printed and with noise; and the fit with all labels, if it is there."""
    found = run.rows(
        NAME,
        _VERSION,
        grid.data.key,
        [
            Cell(
                {"dataset": grid.name, "bags": m, "bag_size": k, "seeds": seeds, "seed": run.seed},
                partial(_errors, grid, m, k, seeds),
                cost=seeds * m * (k + 200),
            )
            for m in grid.bags
            for k in grid.sizes
        ],
        some=True,
        none=True,
    )
    few = run.size(2, 2, 10)
    cell = Cell({"seeds": few, "seed": run.seed}, partial(grid.instance, few), cost=grid.rows)
    instance = run.rows(f"{NAME}-instance", _VERSION, grid.data.key, [cell], some=True, none=True)
    law = _law_of(run, grid)
    rows = [
        row
        for cell in found
        for row in _rows(grid, cell, law.get((cell["bags"], cell["bag_size"]), _UNKNOWN))
    ]
    return rows, instance[0] if instance else None


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
    facts = DatasetBounds(size, grid.label_range)
    return math.sqrt(calibrate(SketchProfile(facts), "floor", epsilon, grid.delta))


def _rows(grid: Grid, cell: Row, exact: Row) -> list[Row]:
    common = {**grid.common(cell, "linear"), "fit": SOLVED}
    rows = [
        {
            **common,
            "form": PRINTED,
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


def _general(seeds: int, census: Grid) -> str:
    return (
        f"Means and standard deviations over seeds of split, bags and weights: {seeds} for least "
        f"squares; {_seeds(census, 1)} for the paper's training on Criteo and in cells of up to "
        f"{_SMALL_CELL:,} rows, {_seeds(census, _SMALL_CELL + 1)} in larger cells of the census. ε "
        "as printed holds given the bags of the first seed, if every bag's residual is promised to "
        "be at least the smallest there. Least squares hardly depends on k: its error follows the "
        "closed form γ(1 + d/(m−d−1)). Adam has not arrived there after 200 epochs of few steps, "
        "which makes the paper's errors fall with k too: a batch of rows holds fewer bags as they "
        "grow, so there are more steps. That the batch counts rows is our inference."
    )


def _trained_note(grid: Grid, rows: list[Row]) -> str:
    if grid.run.small:
        return f"{grid.name}: a tiny grid, nothing to compare."
    missing = len(grid.bags) * len(grid.sizes) - len(rows)
    stopped = f" The run was stopped before {missing} of the cells." if missing else ""
    by_bags, by_size = falls(rows, "bags", "bag_size"), falls(rows, "bag_size", "bags")
    return (
        f"{grid.name}, trained as the paper's: {nearness(rows)}; of the steps to twice as many "
        f"bags {by_bags} lower the error, of those to twice the bag size {by_size}.{stopped}"
        f"{_LEVELS[grid.name]}"
    )


_LEVELS = {
    "criteo": " With many steps Adam is below least squares, the optimum that it is on its way to: "
    "there the fall with k ends.",
    "census": " Where steps are few the level says how far the mean of the labels has moved from "
    "the weight of AGE into those of the levels, and that depends on labels and ages that the "
    "paper does not print.",
}


def _notes(grid: Grid, instance: Row) -> list[str]:
    mean, deviation = SAMPLED_INSTANCE[grid.name]
    columns = instance["rank"]
    forecast = ", ".join(
        f"m = {m:,}: {instance['mse'] * (1 + mean_excess(columns, m)):.1f}"
        for m in grid.bags
        if np.isfinite(mean_excess(columns, m))
    )
    return [
        f"{grid.name}, δ = {grid.delta:g}: with all labels {instance['mse']:.2f} ± "
        f"{instance['mse_std']:.2f} (paper {mean} ± {deviation}); closed form, d = {columns}: "
        f"{forecast}.",
        _private_size(grid, instance),
    ]


def _private_size(grid: Grid, instance: Row) -> str:
    """How large bags must be to need no noise, and what that leaves."""
    parts = []
    for target in TARGETS:
        size = smallest_bag(grid.label_range, instance["mse"], target, grid.delta)
        bags = grid.design.train_rows // size
        excess = mean_excess(instance["rank"], bags) if bags else math.inf
        error = f"MSE {instance['mse'] * (1 + excess):.1f}" if excess < 1e3 else "too few to fit"
        parts.append(f"ε = {target:g}: k = {size:,}, room for {bags:,} bags, {error}")
    return f"{grid.name}, bags that need no noise at all: " + "; ".join(parts) + "."


def smallest_bag(
    label_range: tuple[float, float], residual_ms: float, epsilon: float, delta: float
) -> int:
    """Return the least size of a private bag of this residual mean square, features unknown.

    Every larger bag is private as well: τ = Δ/√(γk) falls with k, and δ grows with τ.
    """

    def is_private(size: int) -> bool:
        law = SketchProfile(DatasetBounds(size, label_range), 1, residual_ms * size)
        return law.delta(epsilon).upper <= delta

    return 1 + bisect_left(range(1, 10**9), True, key=is_private)


def mean_excess(columns: int, bags: int) -> float:
    """E[(val − opt)/opt] of least squares on m aggregates: d/(m−d−1) (theory §5)."""
    return columns / (bags - columns - 1) if bags > columns + 1 else math.inf
