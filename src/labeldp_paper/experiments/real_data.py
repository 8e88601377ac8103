"""ε against error on real tables, with the paper's accountant and with ours.

Ours are releases as anyone would make them: planned, drawn by the operating system's generator,
certified. The paper's accountant promises γ; here it is told the true one, which no curator
knows, and its fits are drawn from their exact law.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from labeldp import LinearRegressor, plan
from labeldp.mechanisms.forecast import forecast
from labeldp.pictures import Curve, Picture
from labeldp_paper.experiments.bag_grid import mean_and_spread
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.figures import Covariance
from labeldp_paper.experiments.result import Result, Row, Table, spread
from labeldp_paper.experiments.run import Data, Run
from labeldp_paper.experiments.today import MECHANISMS, released
from labeldp_paper.experiments.truth import FERTILITY, FLIGHTS, HOUSEHOLD_WAGES, RealTable, Truth
from labeldp_paper.theory.earlier import theorem1_bags

NAME = "real-data"
DELTA = 1e-6
_VERSION = 2
_EPSILONS = (0.25, 1.0, 2.0, 4.0, 8.0, 16.0, 24.0)
_FEW = (1.0, 4.0, 16.0, 24.0)
"""For a table whose plan takes long, in a quick run."""
_TABLES = (FERTILITY, HOUSEHOLD_WAGES, FLIGHTS)
_LABELS = {
    "exact": "wtd-flag, exact accountant",
    "paper": "wtd-flag, paper's accountant, told the true γ",
    **{name: name for name in MECHANISMS},
}
_ABSENT = "no real tables were given; set LABELDP_REAL_DATA to their directory"


def real_data(run: Run) -> Result:
    """Every real table that is there."""
    title = "Real data: ε against MSE"
    folder = run.tables
    if folder is None:
        return Result(NAME, title, "none", skipped=_ABSENT)
    here = [table for table in _TABLES if (folder / f"{table.file}.parquet").is_file()]
    if not here:
        return Result(NAME, title, "none", skipped=f"{folder} holds none of the tables")
    rows: list[Row] = []
    tables, pictures, texts = [], [], []
    for table in here:
        mine, text = _table_rows(run, table, folder)
        rows += mine
        texts.append(text)
        tables.append(_shown(table, mine))
        pictures.append(_picture(table, mine))
    return Result(
        NAME,
        title,
        "; ".join(texts),
        tuple(rows),
        tuple(tables),
        tuple(pictures),
        {picture.name: _glance(table, rows) for table, picture in zip(here, pictures, strict=True)},
        notes=(
            "Ours are certified releases: the ε is the certificate's, whatever the labels. The "
            "paper's accountant rests on the promise of γ, here the true one. The excess of "
            "wtd-flag levels off near columns/bags, whatever ε: its plans do not take more bags.",
        ),
    )


def _table_rows(run: Run, table: RealTable, folder: Path) -> tuple[list[Row], str]:
    data = table.open(folder)
    key = {**data.key, "options": {k: str(v) for k, v in table.options.items()}}
    releases = run.size(1, 3, 20)
    epsilons = _FEW if table is FLIGHTS and not run.full else _EPSILONS
    cells = [
        Cell(
            {"table": table.key, "epsilon": epsilon, "releases": releases, "seed": run.seed},
            partial(_point, run, table, data, epsilon, releases),
        )
        for epsilon in epsilons
    ]
    found = run.rows(NAME, _VERSION, key, cells)
    rows = [
        {"table": table.key, "epsilon": cell["epsilon"], "delta": DELTA, **point}
        for cell in found
        for point in cell["points"]
    ]
    return rows, data.text


def _point(run: Run, table: RealTable, data: Data, epsilon: float, releases: int) -> Row:
    made = plan(
        data.source, epsilon=epsilon, delta=DELTA, mechanism="wtd-flag", winsor=0, force=True
    )
    truth = Truth(data.source, made)
    errors, added, certified = [], 0.0, 0.0
    for _ in range(releases):
        release = made.release(data.source)
        added = release.certificate["floor"]["added_variance"]
        certified = release.certificate["epsilon"]
        errors.append(truth.mse(LinearRegressor().fit(release)))
    law = forecast(
        rows=truth.rows,
        rank=truth.rank,
        bags=made.claim.bags,
        residual_ms=truth.residual_ms,
        added_variance=added,
    )
    ours = {
        "accountant": "exact",
        "certified_epsilon": certified,
        "bags": made.claim.bags,
        "reason": "",
        **mean_and_spread(errors),
        "forecast": law.mean_mse,
        "forecast_low": truth.residual_ms * (1 + law.excess_low),
        "forecast_high": truth.residual_ms * (1 + law.excess_high),
        "residual_ms": truth.residual_ms,
    }
    others = [_also(data, name, epsilon, releases) for name in MECHANISMS]
    return {"points": [ours, _by_paper(run, table, truth, epsilon), *others]}


def _also(data: Data, mechanism: str, epsilon: float, releases: int) -> Row:
    """What the same ε buys by another mechanism, certified too; its own features and fit."""
    found = released(data, mechanism, epsilon, DELTA, releases)
    return {"accountant": mechanism, "bags": None, "reason": "", **found}


def _by_paper(run: Run, table: RealTable, truth: Truth, epsilon: float) -> Row:
    bags, why = theorem1_bags(truth.rows, table.label_range, truth.residual_ms, epsilon, DELTA)
    row: Row = {
        "accountant": "paper",
        "bags": bags,
        "reason": why,
        "residual_ms": truth.residual_ms,
        "mse": None,
    }
    if bags <= truth.rank:
        return {**row, "reason": why or f"{bags:,} bags for {truth.rank} columns"}
    triangle = np.eye(truth.rank + 1)  # only rank and residual matter: a rotation is free
    triangle[-1, -1] = np.sqrt(truth.residual_ms * truth.rows)
    random = np.random.default_rng([run.seed, round(1000 * epsilon), 4])
    errors = Covariance(triangle, truth.rows).errors(bags, 25, random)
    return {**row, **mean_and_spread(errors)}


def _shown(table: RealTable, rows: list[Row]) -> Table:
    lines = []
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        mine = {row["accountant"]: row for row in rows if row["epsilon"] == epsilon}
        ours, theirs = mine["exact"], mine["paper"]
        lines.append(
            (
                f"{epsilon:g}",
                f"{ours['bags']:,}",
                spread(ours["mse"], ours["mse_std"]),
                f"{theirs['bags']:,}",
                theirs["reason"] or spread(theirs["mse"], theirs["mse_std"]),
                *(spread(mine[name]["mse"], mine[name]["mse_std"]) for name in MECHANISMS),
            )
        )
    residual = rows[0]["residual_ms"]
    caption = f"{table.name}, δ = {DELTA:g}; with all labels {residual:,.6g}"
    header = (
        "ε",
        "bags, exact",
        "MSE, exact",
        "bags, paper",
        "MSE, paper",
        *(f"MSE, {name}" for name in MECHANISMS),
    )
    return Table(caption, header, tuple(lines))


def _glance(table: RealTable, rows: list[Row]) -> str:
    mine = [row for row in rows if row["table"] == table.key and row["mse"] is not None]
    epsilons = sorted({row["epsilon"] for row in mine})
    lowest = Counter(
        min((row for row in mine if row["epsilon"] == epsilon), key=lambda row: float(row["mse"]))[
            "accountant"
        ]
        for epsilon in epsilons
    )
    parts = [f"{_LABELS[name]} at {count}" for name, count in lowest.most_common()]
    return f"Lowest is {', '.join(parts)} of {len(epsilons)} ε."


def _picture(table: RealTable, rows: list[Row]) -> Picture:
    """The excess over the fit with all labels, logarithmic."""
    curves = []
    for colour, (name, label) in enumerate(_LABELS.items()):
        mine = [row for row in rows if row["accountant"] == name and row["mse"] is not None]
        above = [row for row in mine if row["mse"] > row["residual_ms"]]
        x = tuple(row["epsilon"] for row in above)
        y = tuple(row["mse"] / row["residual_ms"] - 1 for row in above)
        if x:
            curves.append(Curve(label, x, y, style="joined", colour=colour))
    return Picture(
        f"{NAME}-{table.key}",
        f"{table.name}, δ = {DELTA:g}",
        "ε",
        "excess, MSE / (MSE with all labels) − 1",
        tuple(curves),
        log_x=True,
        log_y=True,
    )
