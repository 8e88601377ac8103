"""Each mechanism's best release of one table at ε = 1 and 4, made by `plan` and `release`.

`plan(...).release(...)` and a fit, several times; ε is the certificate's. Errors are measured
with raw labels, which only an experiment may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from labeldp import BagRegressor, LinearRegressor, Source, plan, scan
from labeldp.pictures import Curve, Picture
from labeldp_paper.experiments.bag_grid import mean_and_spread
from labeldp_paper.experiments.bag_law import no_privacy
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.networks import has_torch
from labeldp_paper.experiments.result import Result, Row, Table, shown, spread
from labeldp_paper.experiments.run import Data, Run
from labeldp_paper.experiments.truth import FERTILITY
from labeldp_paper.naive.sums import NAIVE_FLAG, naive_sums

NAME = "bags-table"
DELTA = 1e-6
EPSILONS = (1.0, 4.0)
_VERSION = 2
_NAIVE_SIZE = 100
_FEATURES = ("AGE", "SEX", "MARST", "SCHOOL", "EMPSTAT")


@dataclass(frozen=True)
class Way:
    """A mechanism, its guarantee and a model."""

    mechanism: str
    guarantee: str
    model: str = "linear"

    @property
    def options(self) -> dict[str, Any]:
        return {"over_draw": True} if self.guarantee == "over the draw" else {}


_WAYS = (
    Way("wtd-flag", "unconditional"),
    Way("sampled-wtd-flag", "given the bags"),
    Way("sampled-wtd-flag", "over the draw"),
    Way("sampled-noisy-wtd-lag", "given the bags"),
    Way("sampled-noisy-wtd-lag", "given the bags", "128-64-1"),
    Way("shaped-flag", "unconditional"),
    Way("noisy-rows", "unconditional"),
)


def bags_table(run: Run) -> Result:
    """The table, on real data if they were given."""
    data = _data(run)
    releases, epochs = run.size(1, 2, 10), run.size(1, 10, 30)
    ways = [way for way in _WAYS if way.model == "linear" or has_torch()]
    cells = [
        Cell(
            {
                "mechanism": way.mechanism,
                "guarantee": way.guarantee,
                "model": way.model,
                "target": epsilon,
                "releases": releases,
                **({} if way.model == "linear" else {"epochs": epochs}),
            },
            partial(_errors, way, data.source, epsilon, releases, epochs),
        )
        for way in ways
        for epsilon in EPSILONS
    ]
    cells.append(
        Cell({"mechanism": NAIVE_FLAG, "model": "linear"}, partial(_naive, data.source, run))
    )
    cells.append(Cell({"mechanism": "all labels", "model": "linear"}, partial(_all, data.source)))
    rows = run.rows(NAME, _VERSION, data.key, cells)
    best = rows[-1]["mse"]
    rows = [{**row, "delta": DELTA, "excess": row["mse"] / best - 1} for row in rows]
    notes = [
        f"{releases} releases a cell, each drawn afresh; mean and standard deviation of the error "
        "over all rows. ε is that of the certificates. wtd-flag, sampled-wtd-flag and "
        "sampled-noisy-wtd-lag are the paper's mechanisms with exact accounting and the noise that "
        "they need; shaped-flag and noisy-rows are what labeldp offers besides.",
    ]
    if has_torch():
        notes.append(f"The network is trained for {epochs} epochs.")
    else:
        notes.append("No network: PyTorch is not installed (pip install 'labeldp[torch]').")
    return Result(
        NAME,
        "Every mechanism on one table",
        data.text,
        tuple(rows),
        (_shown(rows),),
        (_picture(rows),),
        {NAME: _glance(rows)},
        notes=tuple(notes),
    )


def _picture(rows: list[Row]) -> Picture:
    """The excess of every mechanism, a mark for each ε."""
    private = [row for row in rows if row["epsilon"] is not None]
    names = list(dict.fromkeys(_way(row) for row in private))
    curves = []
    for colour, epsilon in enumerate(EPSILONS):
        mine = [row for row in private if row["target"] == epsilon and row["excess"] > 0]
        x = tuple(float(names.index(_way(row))) for row in mine)
        curves.append(
            Curve(f"ε = {epsilon:g}", x, tuple(row["excess"] for row in mine), colour=colour)
        )
    return Picture(
        NAME,
        f"Every mechanism on one table, δ = {DELTA:g}",
        "",
        "excess, MSE / (MSE with all labels) − 1",
        tuple(curves),
        log_y=True,
        names=tuple(names),
    )


def _glance(rows: list[Row]) -> str:
    best = []
    for epsilon in EPSILONS:
        mine = [row for row in rows if row["epsilon"] is not None and row["target"] == epsilon]
        least = min(mine, key=lambda row: float(row["mse"]))
        best.append(f"by {_way(least)} at ε = {epsilon:g}")
    return f"Least is added {' and '.join(best)}."


def _way(row: Row) -> str:
    model = "" if row["model"] == "linear" else ", network"
    draw = ", over the draw" if row["guarantee"] == "over the draw" else ""
    return f"{row['mechanism']}{model}{draw}"


def _data(run: Run) -> Data:
    if run.tables is not None and (run.tables / f"{FERTILITY.file}.parquet").is_file():
        return FERTILITY.open(run.tables)
    made = run.data("census", run.size(3_000, 100_000, 250_000))
    source = scan(
        made.path,
        label=made.source.label or "",
        label_range=made.source.label_range or (0.0, 51.0),
        features=_FEATURES,
    )
    key = {**made.key, "features": list(_FEATURES)}
    return Data(source, made.path, f"{made.text}; features {', '.join(_FEATURES)}", key)


def _errors(way: Way, source: Source, epsilon: float, releases: int, epochs: int) -> Row:
    made = plan(
        source,
        epsilon=epsilon,
        delta=DELTA,
        mechanism=way.mechanism,
        winsor=0,
        force=True,
        **way.options,
    )
    errors, certified = [], set()
    for seed in range(releases):
        release = made.release(source)
        if way.model != "linear":
            network = BagRegressor(hidden=(128, 64), epochs=epochs, seed=seed)
            model: Any = network.fit(release, source)
        elif way.mechanism in ("sampled-noisy-wtd-lag", "noisy-rows"):
            model = LinearRegressor(clip=False).fit(release, source)
        else:
            model = LinearRegressor(clip=False).fit(release)
        errors.append(_mse(model, source))
        certified.add(release.certificate["epsilon"])
    document = made.claim.to_json()
    return {
        "epsilon": max(certified),
        "reason": "",
        "bags": document.get("bags"),
        "bag_size": document.get("bag_size"),
        "noise_std": (document.get("noise") or {}).get("std"),
        **mean_and_spread(errors),
    }


def _mse(model: Any, source: Source) -> float:
    total, count = 0.0, 0
    for batch, labels in source.labelled_batches():
        total += float(np.square(labels - model.predict(batch)).sum())
        count += len(labels)
    return total / count


class _Plain:
    """A linear model on the design."""

    def __init__(self, features: Any, beta: Any) -> None:
        self.features, self.beta = features, beta

    def predict(self, batch: Any) -> Any:
        return self.features.design(batch) @ self.beta


def _naive(source: Source, run: Run) -> Row:
    """Plain sums over bags: useful, and not private at any ε."""
    rows = source.total_rows or sum(len(labels) for _, labels in source.labelled_batches())
    sums = naive_sums(
        source,
        mechanism=NAIVE_FLAG,
        bags=rows // _NAIVE_SIZE,
        bag_size=_NAIVE_SIZE,
        not_private=True,
        bag_seed=run.seed,
    )
    columns = [sums.table.column(i).to_numpy() for i in range(sums.table.num_columns - 1)]
    beta = np.linalg.lstsq(np.column_stack(columns), sums.labels, rcond=None)[0]
    return {
        **no_privacy("plain sums; all labels of a bag but one give the last"),
        "guarantee": "none",
        "bags": rows // _NAIVE_SIZE,
        "bag_size": _NAIVE_SIZE,
        **mean_and_spread([_mse(_Plain(sums.features, beta), source)]),
    }


def _all(source: Source) -> Row:
    """The instance-level fit."""
    batches = list(source.labelled_batches())
    made = plan(source, epsilon=1.0, delta=DELTA, mechanism="wtd-flag", winsor=0, force=True)
    design = np.concatenate([made.features.design(batch) for batch, _ in batches])
    labels = np.concatenate([values for _, values in batches])
    beta = np.linalg.lstsq(design, labels, rcond=None)[0]
    error = float(np.mean(np.square(labels - design @ beta)))
    return {
        **no_privacy("every label is used as it is"),
        "guarantee": "none",
        **mean_and_spread([error]),
    }


def _shown(rows: list[Row]) -> Table:
    lines = tuple(
        (
            row["mechanism"],
            row["model"],
            "no privacy" if row["epsilon"] is None else f"{row['epsilon']:g}",
            row["guarantee"] if row["epsilon"] is not None else row["reason"],
            shown(row.get("bags")),
            shown(row.get("bag_size")),
            spread(row["mse"], row["mse_std"]),
            f"{row['excess']:.2%}",
        )
        for row in rows
    )
    header = ("mechanism", "model", "ε", "guarantee", "bags", "bag size", "MSE", "above all labels")
    return Table(f"δ = {DELTA:g}", header, lines)
