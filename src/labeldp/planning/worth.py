"""Whether a plan is worth its budget, before a label is read, and what would mend one that is not.

Predictions beat the constant one (the mean of all labels) if privacy adds less to the mean square
of their error than features explain. What features explain is unknown until labels are read; the
yardstick is what they may explain of favourable labels: spread evenly over their range, half of
the variance Δ²/12 explained, and no more than a stated residual leaves of the Δ²/4 that labels in
the range can vary by. A plan that fails for those is refused, with cures.

Each cure is planned, so its forecast is no guess. Features are public, so trying costs time alone:
a larger ε, the costliest column left out, rare levels merged, rows of high leverage tamed. Where a
plan takes long, only ε is tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from labeldp.data.source import Source
from labeldp.errors import LabelDPError, PlanError
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.design_summary import DesignSummary, surveyed
from labeldp.mechanisms.notes import left_out_note, ranked
from labeldp.mechanisms.options import Encoding
from labeldp.mechanisms.plans import ENOUGH_KEPT, Plan
from labeldp.mechanisms.protocol import number
from labeldp.mechanisms.registry import draft, make_request, mechanism_named
from labeldp.passes.engine import Engine

NO_CURE = "no ε up to 10 and no single column mends that: the table is too small for its columns"
MOST = 3
_BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
"""ε that are tried; beyond, a guarantee is weak (`release.budget`)."""
_WINSOR = 0.005
"""More than is clipped by default; less than costs a fit much (theory §9)."""
_MOST_COLUMNS, _MOST_VALUES = 200, 50_000_000
"""Of a table that is planned again and again."""


def utility_check(
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
    rows = made.features.rows
    left_out = left_out_note(source.rows_left_out(rows), rows)
    made = replace(
        made,
        notes=ranked((*made.notes, *left_out)),
        anyway=anyway and not made.worthwhile,
        table=source.said,
    )
    if made.anyway or made.worthwhile:
        return made
    raise PlanError(refusal(made, suggest_fixes(made, source, engine, asked, known)))


def refusal(made: Plan, found: Sequence[Suggestion]) -> str:
    """One line: what is wrong, what would mend it, how to go on without."""
    told = "; ".join(f"{cure.words} ({_told(cure.plan)})" for cure in found)
    return (
        f"{made.verdict}; {f'cures: {told}' if told else NO_CURE}; "
        "or give `anyway=True` to go on regardless"
    )


def _told(cured: Plan) -> str:
    return f"adds {number(math.sqrt(cured.forecast.added_ms), 3)}, keeps {max(0, cured.kept):.0%}"


@dataclass(frozen=True)
class Suggestion:
    """A change, as it is asked for, and what would then be planned."""

    words: str
    plan: Plan


Asked = dict[str, Any]
Known = dict[Any, Any]


def suggest_fixes(
    made: Plan, source: Source, engine: Engine, asked: Asked, known: Known | None = None
) -> list[Suggestion]:
    """Those that mend it, the best first, at most three; `known` is what led to the plan."""
    bench = _Replanner(made, source, engine, asked, {} if known is None else known)
    tried = (*bench.budgets(), *bench.numbers(), *bench.encodings())
    found = [cure for cure in tried if cure.plan.worthwhile and bench.enough_left(cure.plan)]
    return sorted(found, key=lambda cure: -cure.plan.kept)[:MOST]


@dataclass(frozen=True)
class _Replanner:
    """A plan and all that it takes to make another."""

    made: Plan
    source: Source
    engine: Engine
    asked: Asked
    known: Known = field(default_factory=dict)
    """What was found out on the way to the plan, for plans of the same encoding."""

    def again(
        self, words: str, known: Known, source: Source | None = None, **changed: Any
    ) -> Iterator[Suggestion]:
        """The same mechanism asked for something else; nothing if it has no such plan."""
        mechanism = mechanism_named(self.made.claim.mechanism)
        try:
            request = replace(make_request(mechanism, **self.asked | changed), known=known)
            yield Suggestion(words, draft(mechanism, request, source or self.source, self.engine))
        except LabelDPError:
            return

    def enough_left(self, cured: Plan) -> bool:
        """Whether half of the columns are left: a cure that leaves none has nothing to explain."""
        return 2 * len(cured.features.names) > len(self.made.features.names)

    def budgets(self) -> Iterator[Suggestion]:
        """The least ε of those tried that keeps enough; else the largest, for what it keeps."""
        larger = [epsilon for epsilon in _BUDGETS if epsilon > self.asked["epsilon"]]
        last: list[Suggestion] = []
        for epsilon in larger:
            last = list(self.again(f"`epsilon={epsilon:g}`", self.known, epsilon=epsilon))
            if last and last[0].plan.kept >= ENOUGH_KEPT:
                break
        yield from last

    def numbers(self) -> Iterator[Suggestion]:
        """As many aggregates as the mechanism would take."""
        for name in ("bags", "bag_size"):
            if self.asked.get(name) is not None:
                yield from self.again(f"without `{name}`", self.known, **{name: None})

    def encodings(self) -> Iterator[Suggestion]:
        """Other columns, where trying them is quick."""
        claim, features = self.made.claim, self.made.features
        values = features.rows * len(features.columns)
        if features.width > _MOST_COLUMNS or values > _MOST_VALUES:
            return
        request = make_request(mechanism_named(claim.mechanism), **self.asked)
        found = surveyed(request, self.source, self.engine, saturated=True)
        yield from self._without_costliest(found)
        usual = 4 / math.sqrt(features.rows)
        if request.encoding.max_leverage is None and found.leverage.maximum > usual:
            changed = float(f"{usual:.1g}")
            yield from self.again(f"`max_leverage={changed:g}`", {}, max_leverage=changed)
        if request.encoding.winsor == Encoding.winsor and features.numeric:
            yield from self.again(f"`winsor={_WINSOR:g}`", {}, winsor=_WINSOR)
        if any(column.size > 2 for column in features.categorical):
            count = 4 * (request.encoding.min_count or math.isqrt(features.rows))
            yield from self.again(f"`min_count={count}`", {}, min_count=count)

    def _without_costliest(self, found: DesignSummary) -> Iterator[Suggestion]:
        """The column that gives one row the most leverage."""
        column = _raw_column(found.features, found.leverage.costliest[0].column)
        kept = tuple(each for each in self.source.columns if each.name != column)
        if column is not None and kept:
            yield from self.again(f"`drop='{column}'`", {}, replace(self.source, columns=kept))


def _raw_column(features: FeatureMap, name: str) -> str | None:
    """The column of the table behind a design column; None for the constant."""
    behind = {each.name: each.design_names for each in features.numeric}
    behind |= {each.name: each.design_names for each in features.categorical}
    found = [raw for raw, designed in behind.items() if name == raw or name in designed]
    return found[0] if found else None
