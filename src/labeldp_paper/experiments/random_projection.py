"""The earlier bound on the same release, as a random projection: what it allows on this data."""

from __future__ import annotations

import math
from functools import partial

from labeldp import DatasetBounds
from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.sketch import SketchProfile
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.printed import PARAMETERS, TABLE1, Parameters
from labeldp_paper.experiments.result import Result, Row, Table
from labeldp_paper.experiments.run import Run
from labeldp_paper.experiments.statistics import at_hand
from labeldp_paper.theory.earlier import random_projection_max_bags, theorem1_bags

NAME = "random-projection"
_VERSION = 1
_EPSILONS = (1, 2, 4, 6, 10, 14)


def random_projection(run: Run) -> Result:
    """Sheffet's bound beside the theorem and the exact law, at the printed parameters."""
    cells = [
        Cell({"dataset": name, "epsilon": epsilon}, partial(_row, name, epsilon))
        for name in TABLE1
        for epsilon in _EPSILONS
    ]
    data = {"parameters": "as printed"}
    rows = run.rows(NAME, _VERSION, data, cells)
    tables = [_table("Bags allowed on the paper's data", rows)]
    text, notes = "the parameters that the paper prints", [_NOTE]
    found = at_hand(run)
    here = [_at_hand(row, epsilon) for row in found for epsilon in _EPSILONS]
    tables.append(_table("Bags allowed on the tables at hand", here))
    notes.append(_verdict(here))
    return Result(
        NAME,
        "Comparison with the earlier random-projection bound",
        "; ".join([text, *(row["data"] for row in found)]),
        (*rows, *here),
        tuple(tables),
        notes=tuple(notes),
    )


def _table(caption: str, rows: list[Row]) -> Table:
    columns = {
        "dataset": "data",
        "epsilon": "ε",
        "singular_value_ss": "σ_min²",
        "row_norm": "row norm B",
        "needed_singular_value_ss": "σ_min² one bag needs",
        "random_projection": "bags, random projection",
        "theorem": "bags, Theorem 1",
        "exact_worst_case": "bags, exact",
    }
    return Table.of_rows(caption, columns, rows)


_NOTE = (
    "The earlier bound protects whole rows, features too; ours protect labels. It needs "
    "σ_min² ≥ (4B²/ε)(√(2r ln(4/δ)) + ln(4/δ)) for r bags, with B the largest row norm: on both of "
    "the paper's data sets not one bag. Constants as in public implementations of that bound."
)


def _verdict(rows: list[Row]) -> str:
    allowed = max(row["random_projection"] for row in rows)
    said = "none either" if allowed == 0 else f"up to {allowed:,}"
    return (
        "On the tables at hand, by their own σ_min² and largest norm with projected categories, it "
        f"allows {said}; Theorem 1 and the exact law are told their rows, range and residual."
    )


def _at_hand(found: Row, epsilon: int) -> Row:
    limits = (found["label_low"], found["label_high"])
    said = Parameters(
        found["rows"],
        found["projected_residual_ms"],
        (limits[1] - limits[0]) / 2,
        PARAMETERS[found["which"]].delta,
        max(found["singular_value_ss"], 1e-300),
        found["row_norm"],
    )
    return {"dataset": found["table"], "epsilon": epsilon, **_bags(said, epsilon)}


def _row(dataset: str, epsilon: int) -> Row:
    return _bags(PARAMETERS[dataset], epsilon)


def _bags(said: Parameters, epsilon: int) -> Row:
    log = math.log(4 / said.delta)
    theorem, why = theorem1_bags(said.rows, said.label_range, said.residual_ms, epsilon, said.delta)
    law = SketchProfile(
        DatasetBounds(said.rows, said.label_range), floor=said.residual_ms * said.rows
    )
    return {
        "delta": said.delta,
        "singular_value_ss": said.singular_value_ss,
        "row_norm": said.row_norm,
        "needed_singular_value_ss": 4 * said.row_norm**2 * (math.sqrt(2 * log) + log) / epsilon,
        "random_projection": random_projection_max_bags(
            said.singular_value_ss, said.row_norm, epsilon, said.delta
        ),
        "theorem": theorem,
        "theorem_reason": why,
        "exact_worst_case": int(calibrate(law, "bags", epsilon, said.delta)),
    }
