"""labeldp compose"""

from __future__ import annotations

import json as text_of
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.cli.derived import argument, told
from labeldp.cli.options import Json
from labeldp.cli.output import emit_facts, emit_json, emit_table
from labeldp.io_util import new_path
from labeldp.mechanisms.protocol import number

if TYPE_CHECKING:
    from labeldp.ledger.compose import Joint


def compose(
    directories: Annotated[list[Path], argument("Release directories.")],
    delta: Annotated[
        float | None, told("δ to say ε at; default: the largest of the releases.")
    ] = None,
    out: Annotated[
        Path | None,
        told("Write the privacy loss in points, for other accountants, as JSON.", metavar="FILE"),
    ] = None,
    json: Json = False,
) -> None:
    """What releases of one table, or of tables with the same persons, cost together."""
    from labeldp.ledger.compose import compose as together

    found = together(directories)
    answer = _answer(found, found.largest_delta if delta is None else delta)
    if out is not None:
        with new_path(out) as partial:
            partial.write_text(text_of.dumps(found.loss().to_json()) + "\n", encoding="utf-8")
    if json:
        emit_json({"releases": [str(each) for each in directories], **answer})
    else:
        _show(directories, answer)


def _answer(found: Joint, delta: float) -> dict[str, Any]:
    epsilon = found.epsilon(delta)
    return {
        "unit": found.unit,
        "delta": delta,
        "epsilon": epsilon,
        "sum_of_epsilons": found.sum_of_epsilons,
        "mu": found.mu,
        "curve": found.curve(min(epsilon, found.sum_of_epsilons)),
    }


def _show(directories: list[Path], answer: dict[str, Any]) -> None:
    emit_facts(
        f"{len(directories)} release{'s' * (len(directories) != 1)} together",
        [
            ("protects", answer["unit"]),
            ("ε", f"{answer['epsilon']:.6g} at δ = {answer['delta']:g}"),
            ("sum of their ε", f"{answer['sum_of_epsilons']:g}"),
            ("as a Gaussian mechanism", answer["mu"] and f"μ = {answer['mu']:.6g}"),
        ],
    )
    rows = [(number(epsilon), f"{delta:.3g}") for epsilon, delta in answer["curve"]]
    emit_table("The curve of all together", ("ε", "δ at most"), rows)
