"""Whether a plan is worth its budget, before a label is read.

Predictions beat the constant one (the mean of all labels) if privacy adds less to the mean square
of their error than features explain. What features explain is unknown until labels are read; the
yardstick is what they may explain of favourable labels: spread evenly over their range, half of
the variance Δ²/12 explained, and no more than a stated residual leaves of the Δ²/4 that labels in
the range can vary by. A plan that fails for those is refused, with cures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labeldp.engines import Engine
from labeldp.errors import PlanError
from labeldp.mechanisms.cures import Cure, cures
from labeldp.mechanisms.notes import ranked
from labeldp.mechanisms.plan import Plan
from labeldp.mechanisms.protocol import number
from labeldp.source import Source

NO_CURE = "no ε up to 10 and no single column mends that: the table is too small for its columns"


def judged(
    made: Plan,
    source: Source,
    engine: Engine,
    asked: dict[str, Any],
    *,
    known: dict[Any, Any] | None = None,
    anyway: bool = False,
) -> Plan:
    """The plan with its notes ranked; one that cannot beat the constant is refused.

    `asked` are the keywords of `plan` that led to it, from which cures are tried, and `known` is
    what was found out on the way.
    """
    made = replace(
        made,
        notes=ranked(made.notes),
        anyway=anyway and not made.worthwhile,
        table=source.said,
    )
    if made.anyway or made.worthwhile:
        return made
    raise PlanError(refusal(made, cures(made, source, engine, asked, known)))


def refusal(made: Plan, found: Sequence[Cure]) -> str:
    """One line: what is wrong, what would mend it, how to go on without."""
    told = "; ".join(f"{cure.words} ({_told(cure.plan)})" for cure in found)
    return (
        f"{made.verdict}; {f'cures: {told}' if told else NO_CURE}; "
        "or give `anyway=True` to go on regardless"
    )


def _told(cured: Plan) -> str:
    return f"adds {number(math.sqrt(cured.forecast.added_ms), 3)}, keeps {max(0, cured.kept):.0%}"
