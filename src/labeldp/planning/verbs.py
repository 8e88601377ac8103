"""`plan`: its keywords are what the mechanisms declare."""

from __future__ import annotations

import inspect
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_type_hints

from labeldp.data.source import Source, as_source, scan
from labeldp.errors import InputError, PlanError, describe, one_of, to_float, to_str
from labeldp.features.formula import named_label
from labeldp.mechanisms.options import Encoding, beside_formula
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.protocol import LINEAR, USES, Use
from labeldp.mechanisms.registry import (
    AUTO,
    DELTA,
    EPSILON,
    AccountantName,
    MechanismName,
    draft,
    make_request,
    mechanism_named,
    mechanisms,
)
from labeldp.passes.engine import Engine, engine_for
from labeldp.planning.auto import choose
from labeldp.planning.bases import choose_basis
from labeldp.planning.worth import utility_check

__all__ = ["Plan", "plan"]


def plan(
    source: Any,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    *,
    label: str | None = None,
    label_range: tuple[float, float] | None = None,
    mechanism: MechanismName | str = AUTO,
    use: Use = LINEAR,
    accountant: AccountantName | str = "exact",
    anyway: bool = False,
    engine: Engine | None = None,
    **choices: Any,
) -> Plan:
    """Plan a release from features and public facts; labels are not read.

    Parameters
    ----------
    source
        what `scan` made, or a path or a frame, with `label` and `label_range` and any other keyword
        of `scan`.
    epsilon
        the privacy budget ε.
    delta
        the privacy budget δ; 0 asks for pure ε.
    label
        the private column, where `source` is a path or a frame.
    label_range
        (low, high), public, likewise.
    mechanism
        by name; "auto" is the one that adds least to predictions.
    use
        what the release is for, "linear" or "any-model".
    accountant
        "exact", "exact-worst-case" (features unknown) or "paper".
    anyway
        go on where a plan cannot beat the constant predictor, which is refused otherwise.
    engine
        where data are read; changes speed, never a result.
    choices
        of the mechanism, as below; None leaves a choice to it. One that the mechanism does not have
        is refused.

    Returns
    -------
    Plan
        A plan, whose `release` or `release_to` reads the labels.

    Raises
    ------
    PlanError
        the budget and the data admit no such release; the message has cures.
    InputError
        an argument is wrong.
    DataError
        the table is not what was said.

    Examples
    --------
    >>> import labeldp
    >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
    >>> made = labeldp.plan(table, epsilon=1, label="income", label_range=(0, 100))
    >>> made.claim.mechanism
    'shaped-flag'
    """
    epsilon, delta = to_float("epsilon", epsilon), to_float("delta", delta)
    one_of("use", use, USES)
    if label is not None:
        to_str("label", label)
    if engine is not None and not hasattr(engine, "run_pass"):
        raise InputError(f"`engine` must be of type Engine, not {describe(engine)}")
    said = {name: choices.pop(name) for name in TABLE if name in choices}
    beside_formula(choices)
    named = label or named_label(source, choices.get("formula"))
    source = as_source(source, label=named, label_range=label_range, **said)
    engine = engine or engine_for(source)
    asked = {"epsilon": epsilon, "delta": delta, "accountant": accountant, **choices}
    known: dict[str | None, dict[Any, Any]] = defaultdict(dict)

    def drafted(basis: str | None) -> Plan:
        more = asked | {"basis": basis}
        return _drafted(source, engine, mechanism, use, more, known[basis])

    basis = asked.get("basis")
    if basis is not None:
        to_str("basis", basis)
    basis, made = choose_basis(drafted) if basis == AUTO else (basis, drafted(basis))
    asked |= {"basis": basis}
    return utility_check(made, source, engine, asked, known=known[basis], anyway=anyway)


TABLE = tuple(inspect.signature(scan).parameters)[1:]
"""Keywords of `scan`."""


@dataclass(frozen=True)
class Point:
    """The forecast at one ε, in label units; None where no plan is possible, for the reason."""

    epsilon: float
    mechanism: str
    error: float | None = None
    """Root mean square of what privacy adds to a prediction, and its quantiles over releases."""
    low: float | None = None
    high: float | None = None
    of_range: float | None = None
    kept: float | None = None
    """What predictions keep of what features explain; see `Plan.kept`."""
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def of(cls, made: Plan) -> Point:
        """A plan's forecast."""
        guess, (low, high) = made.forecast, made.labels.range
        squares = (guess.added_ms, guess.added_low, guess.added_high)
        error, least, most = (_root(square) for square in squares)
        share = None if error is None else error / (high - low)
        told = (error, least, most, share, made.kept)
        return cls(made.claim.epsilon, made.claim.mechanism, *told)


def _root(square: float) -> float | None:
    return math.sqrt(square) if math.isfinite(square) else None


FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def forecast_curve(
    source: Source,
    epsilon: float,
    delta: float,
    *,
    mechanism: str = AUTO,
    engine: Engine | None = None,
    **choices: Any,
) -> list[Point]:
    """The forecast at ε and at smaller and larger ones, from features alone: no label is read.

    Passes over the features are shared; choices are those of `plan`.
    """
    engine = engine or engine_for(source)
    points = []
    for factor in FACTORS:
        asked = {"delta": delta, "mechanism": mechanism, "engine": engine, **choices}
        try:
            made = plan(source, epsilon * factor, **asked, anyway=True)
        except PlanError as problem:
            points.append(Point(epsilon * factor, mechanism, reason=str(problem)))
        else:
            points.append(Point.of(made))
    return points


def _drafted(
    source: Source,
    engine: Engine,
    mechanism: str,
    use: str,
    asked: dict[str, Any],
    known: dict[Any, Any],
) -> Plan:
    if mechanism == AUTO:
        return choose(source, engine, use, asked, known)
    declared = mechanism_named(mechanism)
    if use not in declared.serves:
        raise InputError(f"{mechanism} serves {' and '.join(declared.serves)}; leave `use` out")
    return draft(declared, replace(make_request(declared, **asked), known=known), source, engine)


def _keywords(kind: Any) -> Iterator[tuple[inspect.Parameter, str]]:
    hints = get_type_hints(kind)
    for each in fields(kind):
        keyword = inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=each.default,
            annotation=hints[each.name],
        )
        words = str(each.metadata["help"])
        if (each.metadata.get("flag") or "").startswith("--no-"):
            words = f"if False: {words}"
        words = f"{each.name}: {words}"
        yield keyword, textwrap.fill(words, 96, initial_indent="    ", subsequent_indent=" " * 8)


def _derive() -> None:
    """Spell out the choices, so that `help(labeldp.plan)` shows what there is."""
    signature = inspect.signature(plan, eval_str=True)
    shared = [p for p in signature.parameters.values() if p.name != "choices"]
    seen: dict[str, inspect.Parameter] = {}
    text = [inspect.cleandoc(plan.__doc__ or "")]
    groups = [(f"{m.name}: {m.title}", m.options) for m in mechanisms()]
    for title, kind in (*groups, ("all of them: how columns are encoded", Encoding)):
        fresh = [(k, words) for k, words in _keywords(kind) if k.name not in seen]
        seen |= {keyword.name: keyword for keyword, _ in fresh}
        text.append("\n".join([title, *(words for _, words in fresh)]))
    vars(plan)["__signature__"] = signature.replace(parameters=[*shared, *seen.values()])
    plan.__doc__ = "\n\n".join(text)


_derive()
