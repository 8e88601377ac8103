"""labeldp audit"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from labeldp.cli.options import Budget, EngineOptions, Json, Table
from labeldp.cli.output import emit_facts, emit_json, emit_table
from labeldp.cli.plan import PlanOptions, asked
from labeldp.cli.terminal import say
from labeldp.mechanisms.options import Encoding, option
from labeldp.mechanisms.protocol import REMARKS, number

if TYPE_CHECKING:
    from labeldp_paper.audit.auditing import Audit


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """How hard to try."""

    seconds: float = option(30.0, "For simulated draws, after a few whole releases.")
    seed: int = option(0, "Of made-up labels and draws.")


def audit(
    context: click.Context,
    table: Table,
    budget: Budget,
    options: PlanOptions,
    encoding: Encoding,
    trying: AuditOptions,
    reading: EngineOptions,
    json: Json = False,
) -> int:
    """Try to break a plan's claim on a table's features, with made-up labels; exit 1 if it breaks.

    No label of the table is read.
    """
    from labeldp_paper.audit.auditing import audit as attempt

    runner, source = reading.make(), table.source(reading.engine, encoding.formula)
    chosen = asked(context, budget, options, encoding) | vars(trying)
    found = attempt(source, mechanism=options.mechanism, engine=runner, **chosen)
    if json:
        emit_json(found.to_json())
    else:
        _show(found)
    return 0 if found.passed else 1


def _show(found: Audit) -> None:
    moves, priced = found.worst["moves"], found.worst["priced"]
    emit_facts(
        f"Audit of {found.mechanism} (with made-up labels; none of the table was read)",
        [
            ("certified", f"ε = {found.epsilon:g} at δ = {found.delta:g}"),
            ("lower bound of ε by the attack", f"{found.lower_bound:.4g} (99.9 % confidence)"),
            ("worst neighbour", f"moves {moves / priced:.4%} of what is priced"),
            ("simulated releases", f"{number(found.releases)}, {number(found.numbers)} numbers"),
            ("error of the noise that would be noticed", f"{found.notices:.2%}"),
            ("smallest p-value", f"{found.least_p:.3g} (below {found.alarm:g} fails)"),
            ("seconds", f"{found.seconds:.1f}"),
        ],
    )
    shown = {check.name: check for check in reversed(found.checks)}
    shown |= {check.name: check for check in found.failures}
    emit_table(
        "What was tried",
        ["check", "result", REMARKS],
        [
            [check.name, "passed" if check.passed else "FAILED", check.found]
            for check in reversed(shown.values())
        ],
    )
    if not found.passed:
        say(f"{len(found.failures)} checks FAILED: the claim of this mechanism does not hold here")
