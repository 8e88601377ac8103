"""The earlier bound on the same release, as a random projection: what it allows on this data."""

from __future__ import annotations

import math
from functools import partial

from labeldp import Facts
from labeldp.accounting import Sketch, Theorem1, invert
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.printed import PARAMETERS, TABLE1
from labeldp_paper.experiments.result import Result, Row, Table
from labeldp_paper.experiments.run import Run
from labeldp_paper.theory import random_projection_max_bags

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
    return Result(
        NAME,
        "Comparison with the earlier random-projection bound",
        "the parameters that the paper prints; no data are read",
        tuple(rows),
        (Table.of_rows("Bags allowed on the paper's data", columns, rows),),
        notes=(
            "The earlier bound protects whole rows, features too; ours protect labels. It needs "
            "σ_min² ≥ (4B²/ε)(√(2r ln(4/δ)) + ln(4/δ)) for r bags, with B the largest row norm: on "
            "both data sets not one bag. Constants as in public implementations of that bound.",
        ),
    )


def _row(dataset: str, epsilon: int) -> Row:
    said = PARAMETERS[dataset]
    log = math.log(4 / said.delta)
    promise = Theorem1(said.rows, said.label_range, said.residual_ms)
    theorem = promise.max_bags(epsilon, said.delta)
    law = Sketch(Facts(said.rows, said.label_range), floor=said.residual_ms * said.rows)
    return {
        "delta": said.delta,
        "singular_value_ss": said.singular_value_ss,
        "row_norm": said.row_norm,
        "needed_singular_value_ss": 4 * said.row_norm**2 * (math.sqrt(2 * log) + log) / epsilon,
        "random_projection": random_projection_max_bags(
            said.singular_value_ss, said.row_norm, epsilon, said.delta
        ),
        "theorem": int(theorem.value or 0),
        "theorem_reason": theorem.reason,
        "exact_worst_case": int(invert.limit(law, "bags", epsilon, said.delta)),
    }
