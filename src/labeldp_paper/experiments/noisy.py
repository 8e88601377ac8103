"""The appendix's tables of sampled-noisy-wtd-LAg, for every part ρ of the labels that is noisy.

As printed the noise has variance 1 in label units. Each cell has two ε: realised, of the weights
and noisy rows of the first seed, and a priori, over their draw. The tables at ε = 1 and 4 scale
the labels to [−1, 1] and take the smallest noise s that is private a priori at that k and ρ.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from labeldp_paper.experiments.bag_grid import TARGETS, Grid, falling, mean_and_spread, square
from labeldp_paper.experiments.bag_law import no_privacy
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.design import least_squares
from labeldp_paper.experiments.neural import (
    Effort,
    effort,
    has_torch,
    neural_errors,
    neural_instance,
)
from labeldp_paper.experiments.noisy_law import PRINTED, kinds, realised
from labeldp_paper.experiments.printed import NOISY, NOISY_FRACTIONS, NOISY_INSTANCE
from labeldp_paper.experiments.result import Picture, Result, Row, Table
from labeldp_paper.experiments.run import Run

NAME = "noisy"
_VERSION = 1
_DATASETS = ("criteo", "census")


def noisy(run: Run) -> Result:
    """Both data sets, the linear model and, with torch, the network."""
    rows: list[Row] = []
    tables: list[Table] = []
    pictures: list[Picture] = []
    notes, texts = [], []
    for name in _DATASETS:
        grid = Grid(run, name)
        seeds = run.size(2, 5, 10)
        laws = _all_kinds(run, grid)
        mine = _linear(run, grid, laws, seeds)
        instance = None
        if has_torch():
            more, instance = _neural(run, grid, laws, effort(grid))
            mine += more
        rows += mine
        texts.append(grid.data.text)
        tables += _tables(grid, mine)
        pictures.append(_picture(grid, mine))
        notes.append(_note(grid, instance, seeds))
    model = (
        "The linear model is least squares. The network has 128, 64 and 1 neurons as the paper's, "
        "but in a quick run only some cells, one seed (at ε = 1 and 4 that is erratic) and 15 "
        "epochs at a rate of 0.003."
        if has_torch()
        else "Only the linear model: PyTorch is not installed (pip install 'labeldp[torch]')."
    )
    return Result(
        NAME,
        "sampled-noisy-wtd-LAg: noise on a part ρ of the labels",
        "; ".join(texts),
        tuple(rows),
        tuple(tables),
        tuple(pictures),
        notes=(model, *notes, _WHY),
    )


_WHY = (
    "Unit noise does not hide labels whose range is 51 or 254: where an ε exists at all it is far "
    "beyond use, and with small ρ some bag holds no noisy row at all. The paper's tables measure "
    "utility only. ε = 1 and 4 need noise in proportion to the range; errors above the variance "
    "of the labels mean that nothing was learnt. A priori ε are of ⌊ρn⌋ noisy rows; "
    "the simulation tosses a coin for each row, which moves ε by less than a part in 10,000."
)


def _linear(run: Run, grid: Grid, laws: dict[int, list[Row]], seeds: int) -> list[Row]:
    cells = run.rows(
        NAME,
        _VERSION,
        grid.data.key,
        [
            Cell(
                {"dataset": grid.name, "bags": m, "bag_size": k, "seeds": seeds, "seed": run.seed},
                partial(_errors, grid, m, k, laws[k], seeds),
                cost=seeds * m * (k + 400),
            )
            for m in grid.bags
            for k in grid.sizes
        ],
    )
    return [{**grid.common(cell, "linear"), **fit} for cell in cells for fit in cell["fits"]]


def _paper(grid: Grid, cell: Row, fit: Row) -> Row:
    """What the paper prints of its network."""
    if fit["form"] != PRINTED:
        return {}
    return grid.printed(NOISY[grid.name][fit["noisy_fraction"]], cell)


def _all_kinds(run: Run, grid: Grid) -> dict[int, list[Row]]:
    cells = [Cell({"bag_size": k}, partial(kinds, grid, k)) for k in grid.sizes]
    found = run.rows(f"{NAME}-law", _VERSION, grid.data.key, cells)
    return {row["bag_size"]: row["kinds"] for row in found}


def _errors(grid: Grid, bags: int, size: int, law: list[Row], seeds: int) -> Row:
    """Every ρ and form on the same bags and weights, over seeds."""
    chosen = [kind for kind in law if kind["noise_std"] is not None]
    errors = []
    for seed in range(grid.run.seed, grid.run.seed + seeds):
        weights, random = grid.weights(seed, bags, size)
        sums, totals = grid.design.aggregated(grid.draw(seed, bags, size), weights)
        coins, squares = random.random((bags, size)), np.square(weights)
        energy = {
            part: np.sqrt(squares.sum(axis=1, where=coins < part)) for part in NOISY_FRACTIONS
        }
        spreads = [kind["noise_std"] * energy[kind["noisy_fraction"]] for kind in chosen]
        noise = np.column_stack(spreads) * random.standard_normal((bags, len(chosen)))
        errors.append(grid.design.test_mse(least_squares(sums, totals[:, None] + noise), seed))
    fits = zip(chosen, zip(*errors, strict=True), strict=True)
    laws = [realised(grid, bags, size, kind) for kind in chosen]
    made = [
        {**kind, **mean_and_spread(kept), **law}
        for (kind, kept), law in zip(fits, laws, strict=True)
    ]
    return {"fits": made + [{**kind, **_HOPELESS} for kind in law if kind["noise_std"] is None]}


_HOPELESS = {
    "mse": None,
    "mse_std": None,
    "seeds": 0,
    **no_privacy("no noise is enough where a bag may hold no noisy row"),
    "epsilon_realised": None,
}


def _neural(
    run: Run, grid: Grid, laws: dict[int, list[Row]], work: Effort
) -> tuple[list[Row], Row]:
    key = {**grid.data.key, "effort": f"{work}"}
    jobs = [
        (m, k, kind)
        for m in work.bags
        for k in work.sizes
        for kind in laws[k]
        if kind["form"] == PRINTED or kind["noisy_fraction"] == 1.0
    ]
    cells = run.rows(
        f"{NAME}-neural",
        _VERSION,
        key,
        [
            Cell(
                {"dataset": grid.name, "bags": m, "bag_size": k, "seed": run.seed, **kind},
                partial(_network, grid, m, k, kind, work),
                cost=m * k,
            )
            for m, k, kind in jobs
        ],
    )
    rows = [
        {
            **grid.common(cell, "128-64-1"),
            **{name: value for name, value in cell.items() if name != "seed"},
            **_paper(grid, cell, cell),
        }
        for cell in cells
    ]
    one = Cell(
        {"rows": work.instance_rows, "seed": run.seed},
        partial(neural_instance, grid, work),
        cost=work.instance_rows,
    )
    (instance,) = run.rows(f"{NAME}-neural-instance", _VERSION, key, [one])
    return rows, instance


def _network(grid: Grid, bags: int, size: int, kind: Row, work: Effort) -> Row:
    errors = neural_errors(grid, bags, size, kind["noisy_fraction"], kind["noise_std"], work)
    return {**errors, **realised(grid, bags, size, kind)}


def _tables(grid: Grid, rows: list[Row]) -> list[Table]:
    tables = []
    for model in dict.fromkeys(row["model"] for row in rows):
        for fraction in NOISY_FRACTIONS:
            for form in (PRINTED, *(f"ε = {target:g}" for target in TARGETS)):
                mine = [
                    row
                    for row in rows
                    if (row["model"], row["noisy_fraction"], row["form"]) == (model, fraction, form)
                ]
                caption = f"{grid.name}, {model}, ρ = {fraction:g}, {form}: test MSE"
                if any(row["mse"] is not None for row in mine):
                    tables.append(square(caption, mine))
    return tables


def _picture(grid: Grid, rows: list[Row]) -> Picture:
    size = grid.sizes[-1]
    mine = [
        row
        for row in rows
        if row["model"] == "linear"
        and row["bag_size"] == size
        and row["mse"] is not None
        and row["noisy_fraction"] == 1.0
    ]
    return falling(
        f"noisy-{grid.name}",
        f"sampled-noisy-wtd-LAg, linear, {grid.kind} {grid.name}, k = {size}",
        mine,
        (),
        lambda row: f"ρ = {row['noisy_fraction']:g}, {row['form']}",
    )


def _note(grid: Grid, instance: Row | None, seeds: int) -> str:
    text = (
        f"{grid.name}: {seeds} seeds for the linear model, δ = {grid.delta:g}. Where no table has "
        "ε = 1 or 4, no noise is enough: too often a bag holds no noisy row."
    )
    if instance:
        mean, deviation = NOISY_INSTANCE[grid.name][0.1]
        text += (
            f" Network with all labels of {instance['rows']:,} rows: {instance['mse']:.2f} "
            f"(paper {mean} ± {deviation}, on all training rows)."
        )
    return text
