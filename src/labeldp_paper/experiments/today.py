"""What the same ε buys with the mechanisms that labeldp offers besides the paper's, by releases.

Each is planned, drawn by the operating system's generator and certified; only the error is
measured with raw labels, over all rows.
"""

from __future__ import annotations

from functools import partial

from labeldp import LinearRegressor, plan
from labeldp_paper.experiments.bag_grid import TARGETS, Grid, mean_and_spread
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.result import Row, Table, spread
from labeldp_paper.experiments.run import Data
from labeldp_paper.experiments.truth import Truth

MECHANISMS = ("shaped-flag", "noisy-rows")
_VERSION = 1
_ROWS = 5_000, 1_000_000, 5_000_000


def released(data: Data, mechanism: str, epsilon: float, delta: float, releases: int) -> Row:
    """Errors of linear fits on releases, and that of the fit with all labels."""
    made = plan(
        data.source, epsilon=epsilon, delta=delta, mechanism=mechanism, winsor=0, force=True
    )
    truth = Truth(data.source, made)
    errors = []
    for _ in range(releases):
        release = made.release(data.source)
        model = LinearRegressor(clip=False)
        fitted = (
            model.fit(release, data.source) if mechanism == "noisy-rows" else model.fit(release)
        )
        errors.append(truth.mse(fitted))
    return {**mean_and_spread(errors), "residual_ms": truth.residual_ms}


def today(grid: Grid) -> list[Row]:
    """Both mechanisms at the ε of the grid's tables, on a table like the grid's."""
    releases = grid.run.size(1, 1, 10)
    data = grid.run.data(grid.name, grid.run.size(*_ROWS))
    cells = [
        Cell(
            {"mechanism": name, "epsilon": epsilon, "delta": grid.delta, "releases": releases},
            partial(released, data, name, epsilon, grid.delta, releases),
            cost=data.rows,
        )
        for name in MECHANISMS
        for epsilon in TARGETS
    ]
    found = grid.run.rows("today", _VERSION, data.key, cells, some=True, none=True)
    common = {"dataset": grid.name, "rows": data.rows, "model": "linear", "reason": ""}
    return [{**common, **row} for row in found]


def today_table(grid: Grid, rows: list[Row]) -> Table:
    """A line for each mechanism and ε."""
    lines = tuple(
        (
            row["mechanism"],
            f"{row['epsilon']:g}",
            spread(row["mse"], row["mse_std"]) if row["seeds"] > 1 else f"{row['mse']:,.4f}",
            f"{row['residual_ms']:,.4f}",
        )
        for row in rows
    )
    return Table(
        f"{grid.name}, what the same ε buys today: {rows[0]['rows']:,} rows, δ = {grid.delta:g}",
        ("mechanism", "ε", "MSE over all rows", "with all labels"),
        lines,
    )


def above(rows: list[Row], others: list[Row], size: int) -> str:
    """How far the paper's mechanism with the noise of the smallest ε is above the first of ours."""
    form = f"ε = {TARGETS[0]:g}"
    mine = [row["mse"] for row in rows if (row["form"], row["bag_size"]) == (form, size)]
    errors = [error for error in mine if error is not None]
    if not errors or not others:
        return f"At {form} there is nothing to compare."
    low, high = (end(errors) / others[0]["mse"] for end in (min, max))
    return (
        f"With the noise of {form} the error is {low:.1f} to {high:.1f} times that of "
        f"{others[0]['mechanism']} at the same ε."
    )


def today_levels(rows: list[Row]) -> tuple[tuple[str, float], ...]:
    """The first mechanism at the smallest ε, as a line of a picture."""
    return tuple(
        (f"{row['mechanism']}, ε = {row['epsilon']:g}, {row['rows']:,} rows", row["mse"])
        for row in rows[:1]
    )
