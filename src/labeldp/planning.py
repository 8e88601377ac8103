"""`plan`: its keywords are what the mechanisms declare."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_type_hints

from labeldp.errors import InputError
from labeldp.mechanisms import (
    AUTO,
    LINEAR,
    Encoding,
    draft,
    make_request,
    mechanism_named,
    mechanisms,
)
from labeldp.mechanisms.auto import choose
from labeldp.mechanisms.workbench import Engine, Plan, Source, engine_for
from labeldp.mechanisms.worth import judged

__all__ = ["Plan", "plan"]


def plan(
    source: Source,
    epsilon: float,
    delta: float,
    *,
    mechanism: str = AUTO,
    use: str = LINEAR,
    accountant: str = "exact",
    anyway: bool = False,
    engine: Engine | None = None,
    **choices: Any,
) -> Plan:
    """Plan a release from features and public facts; labels are not read.

    The mechanism "auto" is the one that adds least to predictions; `use` says what the release is
    for, "linear" or "any-model". A choice that the mechanism does not have is refused; None leaves
    a choice to it. A plan that cannot beat the constant predictor is refused, with cures, unless
    `anyway`.
    """
    engine = engine or engine_for(source)
    asked = {"epsilon": epsilon, "delta": delta, "accountant": accountant, **choices}
    made = _drafted(source, engine, mechanism, use, asked)
    return judged(made, source, engine, asked, anyway=anyway)


def _drafted(
    source: Source, engine: Engine, mechanism: str, use: str, asked: dict[str, Any]
) -> Plan:
    if mechanism == AUTO:
        return choose(source, engine, use, asked)
    declared = mechanism_named(mechanism)
    if use not in declared.serves:
        raise InputError(f"{mechanism} serves {' and '.join(declared.serves)}; leave `use` out")
    return draft(declared, make_request(declared, **asked), source, engine)


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
