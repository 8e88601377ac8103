"""labeldp audit"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import (
    Command,
    json_option,
    make_engine,
    option,
    plan_options,
    scan_table,
    split_options,
)
from labeldp.cli.output import REMARKS, emit_facts, emit_json, emit_table, say
from labeldp.display import number

if TYPE_CHECKING:
    from labeldp_paper.audit import Audit


@click.command(cls=Command)
@plan_options
@option(
    "--seconds",
    type=float,
    default=30.0,
    help="Time for simulated draws, after a few whole releases (default: 30).",
)
@option("--seed", type=int, default=0, help="Seed of made-up labels and draws (default: 0).")
@json_option
def audit(
    data: str,
    seconds: float,
    seed: int,
    engine_name: str,
    threads: int | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Try to break a plan's claim on a table's features, with made-up labels; exit 1 if it breaks.

    No label of the table is read.
    """
    from labeldp_paper.audit import audit as attempt

    engine = make_engine(engine_name, threads)
    scan_keywords, keywords = split_options(options)
    source = scan_table(data, engine_name, scan_keywords, formula=keywords.get("formula"))
    found = attempt(source, engine=engine, seconds=seconds, seed=seed, **keywords)
    if as_json:
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
