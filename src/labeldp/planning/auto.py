"""`auto`: of the mechanisms whose error is known in closed form, the one that adds least.

Every choice is made from features and public facts. An option that only some mechanisms have
narrows the choice to those; where none of them has a closed form, they are simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPError
from labeldp.mechanisms.design_summary import surveyed
from labeldp.mechanisms.notes import Note
from labeldp.mechanisms.options import Encoding, Request, given, names
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.protocol import USES, Mechanism, number
from labeldp.mechanisms.registry import draft, make_request, mechanisms
from labeldp.passes.engine import Engine
from labeldp.planning.comparison import best_of, offer

Asked = dict[str, Any]
"""Keywords of `plan`."""
Known = dict[Any, Any]
"""What requests share (`Request.known`)."""


def choose(source: Source, engine: Engine, use: str, asked: Asked, known: Known) -> Plan:
    """The plan that adds least to a prediction, with a note on what it was chosen from.

    What is found out about the table is put down in `known`, for other plans of this encoding.
    """
    fitting = candidates(use, asked)
    closed = [mechanism for mechanism in fitting if mechanism.closed_form]
    if closed:
        best, told = _least(closed, source, engine, asked, known)
    else:
        offers = [offer(each, asked, source, engine, known) for each in fitting]
        best = best_of(offers)
        told = [
            f"{each.mechanism} {_root(each.plan.forecast.weighed_ms)}"
            for each in offers
            if each.plan
        ]
    notes = _narrowed(closed or fitting, use, asked)
    if len(told) > 1:
        notes.append(
            f"auto chose {best.claim.mechanism}; root mean square that privacy adds to a "
            f"prediction: {', '.join(told)}"
        )
    return replace(best, notes=(*best.notes, *(Note(text, Note.CHOICE) for text in notes)))


def candidates(use: str, asked: Asked) -> list[Mechanism]:
    """Mechanisms that serve a use and have all options that were given."""
    if use not in USES:
        raise InputError(f"`use` must be {' or '.join(USES)}, not {use!r}")
    serving = [mechanism for mechanism in mechanisms() if use in mechanism.serves]
    found = [mechanism for mechanism in serving if has(mechanism, asked)]
    if found:
        return found
    for mechanism in serving:
        make_request(mechanism, **asked)  # which says what is wrong
    raise InputError(f"no mechanism serves {use}; leave `use` out")


def has(mechanism: Mechanism, asked: Asked) -> bool:
    """Whether a mechanism has the accountant, the δ and all options that were given."""
    own = (*names(mechanism.options), *names(Encoding), "epsilon", "delta", "accountant")
    accountant = asked.get("accountant", "exact")
    possible = accountant in mechanism.accountants and mechanism.allows(asked.get("delta", 1.0))
    return possible and set(given(asked)) <= set(own)


def _least(
    closed: list[Mechanism], source: Source, engine: Engine, asked: Asked, known: Known
) -> tuple[Plan, list[str]]:
    """The plan of least forecast error; one that cannot win is not drafted."""
    requests = list(_requests(closed, asked, known))
    surveyed(requests[0][1], source, engine, saturated=True)
    best: Plan | None = None
    told, problems = [], []
    for mechanism, request in requests:
        try:
            if best is not None and mechanism.least_added is not None:
                least = mechanism.least_added(request, source, engine)
                if least >= best.forecast.weighed_ms:
                    told.append(f"{mechanism.name} ≥ {_root(least)}")
                    continue
            made = draft(mechanism, request, source, engine)
        except LabelDPError as problem:
            problems.append(problem)
            continue
        told.append(f"{mechanism.name} {_root(made.forecast.weighed_ms)}")
        if best is None or made.forecast.weighed_ms < best.forecast.weighed_ms:
            best = made
    if best is None:
        raise problems[0]
    return best, told


def _requests(
    closed: list[Mechanism], asked: Asked, known: Known
) -> Iterator[tuple[Mechanism, Request[Any]]]:
    """Requests that share what is found out; those last that may turn out not worth a draft."""
    for mechanism in sorted(closed, key=lambda each: each.least_added is not None):
        yield mechanism, replace(make_request(mechanism, **asked), known=known)


def _narrowed(left: list[Mechanism], use: str, asked: Asked) -> list[str]:
    """Which options narrowed the choice, and to what."""
    others = [m for m in mechanisms() if use in m.serves and m.closed_form and m not in left]
    flags = [
        f"`{name}`"
        for name, value in given(asked).items()
        if not all(has(m, {name: value}) for m in others)
    ]
    if not flags:
        return []
    return [f"{', '.join(flags)}: for {', '.join(m.name for m in left)}, so auto looked no further"]


def _root(mean_square: float) -> str:
    return number(math.sqrt(mean_square))
