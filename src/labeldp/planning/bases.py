"""`basis="auto"`: the richest basis to whose predictions privacy adds little (theory §12).

What curves gain is unknown until labels are read. What they cost is known before: the error that
privacy adds to a prediction, which grows with the columns and falls with the rows and the budget.
So bases are tried from the poorest to the richest, as long as that error stays a small part of the
label range; whatever of a basis the labels do not need, the fit leaves out (`submodels.py`).

At larger budgets trees on noisy rows win on some tables (theory §11, §12). Which ones, labels
decide; where noise leaves room for many leaves, a note says that they may.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from labeldp.errors import LabelDPError
from labeldp.mechanisms.notes import Note
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.registry import mechanisms

BASES = {
    "linear": math.inf,
    "splines:5": 0.05,
    "splines:10": 0.05,
    "splines:10+fourier:50": 0.065,
    "splines:10+fourier:100": 0.065,
    "splines:10+fourier:200": 0.0325,
}
"""From the poorest to the richest, and the most that privacy may add with each, root mean square,
of the label range. Set after a look at houses, diamonds, flights and a synthetic table at ε = 1:
the first waves gain most, and where labels crowd in a part of their range many cost more."""

_ROWS_FOR_NOISE = 60
"""Rows of a leaf for every time that noise has the variance of labels (docs/which-model.md)."""
_LEAVES = 1000
"""From so many such leaves on trees won on the tables measured; at 600 they still lost."""


@dataclass(frozen=True)
class Tried:
    """What a basis would cost."""

    basis: str
    plan: Plan

    @property
    def share(self) -> float:
        """The error that privacy adds, of the label range."""
        low, high = self.plan.labels.range
        return math.sqrt(self.plan.forecast.added_ms) / (high - low)

    @property
    def allowed(self) -> bool:
        return self.share <= BASES[self.basis]

    def to_json(self) -> dict[str, Any]:
        return {
            "basis": self.basis,
            "columns": len(self.plan.features.names),
            "added_rms": math.sqrt(self.plan.forecast.added_ms),
            "added_of_range": self.share,
            "kept": self.plan.kept,
            "allowed": self.allowed,
        }


def choose_basis(drafted: Callable[[str], Plan]) -> tuple[str, Plan]:
    """The richest basis whose error stays small, its plan, and in it what was tried.

    `drafted` makes the plan of a basis. The first that is too dear, or impossible, ends the trial.
    """
    poorest, *others = BASES
    tried = [Tried(poorest, drafted(poorest))]
    for basis in others:
        try:
            more = Tried(basis, drafted(basis))
        except LabelDPError:
            break
        if more.plan.features.basis == tried[-1].plan.features.basis:
            continue  # no number to bend, or no more values to bend at
        tried.append(more)
        if not more.allowed:
            break
    best = [each for each in tried if each.allowed][-1]
    notes = [Note(words, Note.CHOICE) for words in (_words(best, tried), *_trees(best.plan))]
    table = tuple(each.to_json() for each in tried)
    return best.basis, replace(best.plan, notes=(*best.plan.notes, *notes), bases=table)


def _words(best: Tried, tried: list[Tried]) -> str:
    told = ", ".join(f"{each.basis} {each.share:.2%}" for each in tried)
    return (
        f"basis auto chose {best.basis}, {len(best.plan.features.names)} columns; what privacy "
        f"adds to a prediction, of the label range: {told}"
    )


def _trees(made: Plan) -> list[str]:
    """Whether trees on noisy rows may do better, if labels are spread over their range."""
    claim = made.claim
    rows = 1 if claim.person is None else claim.person.rows
    offers = [each.row_noise for each in mechanisms() if each.row_noise is not None]
    noise = min((offer(rows, claim.epsilon, claim.delta) for offer in offers), default=math.inf)
    leaf = _ROWS_FOR_NOISE * 12 * noise**2
    leaves = made.features.rows / leaf
    if leaves < _LEAVES:
        return []
    return [
        f"trees on noisy rows (`use='any-model'`) may predict better at this budget: the rows feed "
        f"some {leaves:,.0f} leaves of {leaf:,.0f} rows, in which noise averages out, if labels "
        "are spread over their range; fewer if they crowd in a part of it"
    ]
