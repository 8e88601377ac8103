"""The appendix's tables of sampled-noisy-wtd-LAg, for every part ρ of the labels that is noisy.

As printed the noise has variance 1 in label units. Each cell has two ε: realised, of the weights
and noisy rows of the first seed, and a priori, over their draw. The tables at ε = 1 and 4 scale
the labels to [−1, 1] and take the smallest noise s that is private a priori at that k and ρ.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from labeldp.pictures import Picture
from labeldp_paper.experiments.agreement import against, near, nearness
from labeldp_paper.experiments.bag_grid import Grid, falling, mean_and_spread
from labeldp_paper.experiments.bag_law import no_privacy
from labeldp_paper.experiments.cells import Cell, UnfinishedError
from labeldp_paper.experiments.design import least_squares
from labeldp_paper.experiments.lessons import (
    Effort,
    network_errors,
    network_instance,
    network_whole,
)
from labeldp_paper.experiments.networks import has_torch
from labeldp_paper.experiments.noisy_law import kinds, realised
from labeldp_paper.experiments.printed import NOISY, NOISY_FRACTIONS, NOISY_INSTANCE
from labeldp_paper.experiments.result import Result, Row, Table
from labeldp_paper.experiments.run import Run
from labeldp_paper.experiments.squares import PRINTED, square
from labeldp_paper.experiments.today import above, today, today_levels
from labeldp_paper.experiments.training import EPOCHS, bags_a_step

NAME = "noisy"
_VERSION = 2
_DATASETS = ("criteo", "census")
NETWORK = "128-64-1"


def noisy(run: Run) -> Result:
    """Both data sets, the linear model and, with torch, the network."""
    rows: list[Row] = []
    tables: list[Table] = []
    pictures: list[Picture] = []
    glances: dict[str, str] = {}
    notes, texts = [_MODEL if has_torch() else _ABSENT], []
    for name in _DATASETS:
        grid = Grid(run, name)
        seeds = run.size(2, 3, 10)
        try:
            laws = _all_kinds(run, grid)
        except UnfinishedError as problem:
            notes.append(f"{name}: the run was stopped before its end: {problem}.")
            continue
        mine = _linear(run, grid, laws, seeds)
        networks = _networks(grid, laws, Effort.of(grid)) if has_torch() else []
        notes.append(_note(grid, seeds))
        texts.append(grid.data.text)
        tables += _tables(grid, [*networks, *mine])
        if networks:
            notes.append(_network_note(grid, networks, Effort.of(grid)))
        if networks and not run.small:
            pictures.append(_agreement(grid, networks))
            glances[pictures[-1].name] = _apart(networks)
        if mine:
            others = today(grid)
            pictures.append(_picture(grid, mine, others))
            glances[pictures[-1].name] = above(_all_noisy(mine), others, grid.sizes[-1])
        rows += [*networks, *mine]
    return Result(
        NAME,
        "sampled-noisy-wtd-LAg: noise on a part ρ of the labels",
        "; ".join(texts),
        tuple(rows),
        tuple(tables),
        tuple(pictures),
        glances,
        notes=(*notes, _WHY),
    )


_MODEL = (
    "The paper's model is the network of 128, 64 and 1 neurons. The linear model, here by least "
    "squares, is ours: with it the noise of ε = 1 and 4 can be shown for every ρ."
)
_ABSENT = "Only the linear model: PyTorch is not installed (pip install 'labeldp[torch]')."
_WHY = (
    "Unit noise does not hide labels whose range is 51 or 254: where an ε exists at all it is far "
    "beyond use, and with small ρ some bag holds no noisy row at all. The paper's tables measure "
    "utility only. ε = 1 and 4 need noise in proportion to the range; errors above the variance "
    "of the labels mean that nothing was learnt."
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
        some=True,
        none=True,
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


def _networks(grid: Grid, laws: dict[int, list[Row]], work: Effort) -> list[Row]:
    """The paper's tables: every m, k and ρ, unit noise."""
    rows = []
    for cell in network_errors(grid, work):
        (kind,) = (
            kind
            for kind in laws[cell["bag_size"]]
            if (kind["form"], kind["noisy_fraction"]) == (PRINTED, cell["noisy_fraction"])
        )
        law = realised(grid, cell["bags"], cell["bag_size"], kind)
        rows.append(
            {**grid.common(cell, NETWORK), **kind, **cell, **law, **_paper(grid, cell, kind)}
        )
    return rows


def _agreement(grid: Grid, rows: list[Row]) -> Picture:
    return against(
        f"noisy-{grid.name}-paper",
        f"sampled-noisy-wtd-LAg, network, {grid.kind} {grid.name}: paper against ours",
        rows,
        lambda row: f"ρ = {row['noisy_fraction']:g}",
    )


def _apart(rows: list[Row]) -> str:
    ours, paper = (
        f"from {min(row[key] for row in rows):.0f} to {max(row[key] for row in rows):.0f}"
        for key in ("mse", "paper_mse")
    )
    return (
        f"Of the points {near(rows)} are within 10 % of the line; ours go {ours}, the paper's "
        f"{paper}."
    )


def _tables(grid: Grid, rows: list[Row]) -> list[Table]:
    return [
        square(
            f"{grid.name}, ρ = {fraction:g}",
            _by_kind([row for row in rows if row["noisy_fraction"] == fraction]),
        )
        for fraction in NOISY_FRACTIONS
    ]


def _by_kind(rows: list[Row]) -> dict[str, list[Row]]:
    """The network, the linear model, and that with noise, wherever any is enough."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        model = "network" if row["model"] == NETWORK else row["model"]
        title = model if row["form"] == PRINTED else f"{model}, {row['form']}"
        kinds.setdefault(title, []).append(row)
    return {
        title: mine for title, mine in kinds.items() if any(row["mse"] is not None for row in mine)
    }


def _picture(grid: Grid, rows: list[Row], others: list[Row]) -> Picture:
    size = grid.sizes[-1]
    mine = [row for row in _all_noisy(rows) if row["bag_size"] == size and row["mse"] is not None]
    return falling(
        f"noisy-{grid.name}",
        f"sampled-noisy-wtd-LAg, linear, {grid.kind} {grid.name}, k = {size}",
        mine,
        today_levels(others),
        lambda row: f"ρ = {row['noisy_fraction']:g}, {row['form']}",
    )


def _all_noisy(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["noisy_fraction"] == 1.0]


def _note(grid: Grid, seeds: int) -> str:
    return (
        f"{grid.name}: {seeds} seeds for the linear model, δ = {grid.delta:g}. Where no table has "
        "ε = 1 or 4, no noise is enough: too often a bag holds no noisy row."
    )


def _network_note(grid: Grid, rows: list[Row], work: Effort) -> str:
    instances = network_instance(grid, work)
    parts = []
    for row in instances:
        mean, deviation = NOISY_INSTANCE[grid.name][row["noisy_fraction"]]
        parts.append(f"ρ = {row['noisy_fraction']:g} {row['mse']:.1f} ({mean} ± {deviation})")
    if not parts:
        parts = ["not computed"]
    said = "" if grid.run.small else f" Of {len(rows)} cells {nearness(rows)}. {_epochs(rows)}"
    if len(rows) < len(grid.bags) * len(grid.sizes) * len(NOISY_FRACTIONS):
        said += " The run was stopped before its end: cells without a number were not trained."
    return (
        f"{grid.name}, network: {work.text(grid)}.{said} With all labels of "
        f"{min(work.instance_rows, grid.train_rows):,} rows (paper: all training rows): "
        f"{', '.join(parts)}.{_whole(grid, work)}"
    )


def _epochs(rows: list[Row]) -> str:
    least, most = (end(row["epochs"] for row in rows) for end in (min, max))
    return (
        f"A cell's rows are seen {least} to {most} times, {EPOCHS} times in the paper: that and "
        "the data are the reasons that we know for the difference."
    )


def _whole(grid: Grid, work: Effort) -> str:
    """What the paper's whole training gives where that was affordable."""
    said = ""
    for row in network_whole(grid, work):
        mean, deviation = NOISY[grid.name][0.0][0][0]
        steps = -(-row["bags"] // bags_a_step(row["batch_rows"], row["bag_size"])) * row["epochs"]
        said += (
            f" After the paper's whole training, {steps:,} steps if a batch counts rows, the cell "
            f"m = {row['bags']:,}, k = {row['bag_size']}, ρ = 0 has {row['errors'][0]:.1f} (paper "
            f"{mean} ± {deviation})."
        )
    return said
