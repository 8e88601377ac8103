"""Answers of `labeldp account` about bags, as JSON and for people.

An answer without a bag size is the smallest private bag. With it, `conditional` is ε at the δ
asked for and δ at the ε asked for when the row is in a bag; `unconditional`, with a number of
bags, counts the chance mk/n of that; `max_bags` is the most bags within the budget over the draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from labeldp.accounting.bounds import Answer
from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.subsampling import SubsampledBagsProfile, inclusion_probability
from labeldp.accounting.theorems import Theorem2, Theorem3
from labeldp.errors import InputError, PlanError
from labeldp.mechanisms.options import BagsQuestion, Question
from labeldp.mechanisms.protocol import Panel, number

__all__ = [
    "chance",
    "check_bags",
    "document",
    "limit",
    "need",
    "over",
    "priced",
    "priced_by_theorem",
    "show",
    "smallest",
]

Found = dict[str, Any]


def document(mechanism: str, asked: Question, own: Sequence[str], answers: Found) -> Found:
    """The answer as one JSON document; `own` are the options beside those of every mechanism."""
    return {
        "mechanism": mechanism,
        "rows": asked.rows,
        "label_range": list(asked.label_range),
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        **{name: getattr(asked, name) for name in own},
        **answers,
    }


def need(mechanism: str, asked: Question, name: str) -> Any:
    """A quantity that the mechanism cannot do without."""
    value = getattr(asked, name)
    if value is None:
        raise InputError(f"{mechanism} needs `{name}`")
    return value


def check_bags(asked: BagsQuestion) -> None:
    """Bags that can be drawn."""
    if asked.bag_size is None and asked.bags is not None:
        raise InputError("`bags` needs `bag_size`: the chance of being in a bag depends on both")
    if asked.bag_size is not None:
        inclusion_probability(asked.rows, asked.bags or 1, asked.bag_size)


def chance(asked: BagsQuestion) -> float | None:
    """mk/n, if bags and their size are given."""
    if asked.bags is None or asked.bag_size is None:
        return None
    return inclusion_probability(asked.rows, asked.bags, asked.bag_size)


def over(asked: BagsQuestion, curve: PrivacyProfile) -> SubsampledBagsProfile:
    """The same over the draw of the bags that are asked about, or of one."""
    return SubsampledBagsProfile(curve, asked.rows, asked.bag_size or 1, asked.bags or 1)


def limit(asked: Question, law: PrivacyProfile, name: str) -> Answer:
    """A limit, or why there is none."""
    try:
        return Answer(calibrate(law, name, *asked.budget))
    except PlanError as problem:
        return Answer(None, str(problem))


def smallest(asked: Question, answer: Answer) -> Found:
    """The smallest bag, or why there is none in this table."""
    if answer.value is None:
        return {"min_bag_size": None, "reason": answer.reason}
    found: Found = {"min_bag_size": int(answer.value)}
    if answer.value > asked.rows:
        found["reason"] = f"more than the {asked.rows:,} rows of the table"
    else:
        found["max_bags"] = asked.rows // int(answer.value)
    return found


def priced(asked: BagsQuestion, law: PrivacyProfile) -> Found:
    """ε and δ when the row is in a bag, and over the draw."""

    def both(curve: PrivacyProfile, delta: float) -> Found:
        epsilon = epsilon_at(curve, asked.delta)
        return {"epsilon": epsilon if math.isfinite(epsilon) else None, "delta": delta}

    given, drawn = law.delta(asked.epsilon), chance(asked)
    most = calibrate(over(asked, law), "bags", *asked.budget)
    found: Found = {"conditional": both(law, given.upper), "max_bags": most}
    if drawn is not None:
        unconditional = both(over(asked, law), given.times(drawn).upper)
        found["unconditional"] = {"chance": drawn} | unconditional
    if found["conditional"]["epsilon"] is None:
        found["reason"] = f"no ε is enough for δ = {asked.delta:g} when the row is in a bag"
    return found


def priced_by_theorem(asked: BagsQuestion, law: Theorem2 | Theorem3) -> Found:
    """The same of a theorem, and its reason if it promises nothing."""
    found, given, drawn = priced(asked, law), law.answer(asked.epsilon), chance(asked)
    if drawn is not None:
        found["unconditional"]["delta"] = (given.value or 1.0) * drawn
    reason = law.epsilon(asked.delta).reason or given.reason
    return found | ({"reason": reason} if reason else {})


def show(document: Found) -> Iterator[Panel]:
    """Tables for people, and below them what there is to say."""
    budget = f"ε = {document['epsilon']:g}, δ = {document['delta']:g}"
    answers = document["accountants"]
    if not answers:
        yield Panel(document["mechanism"], [("never private", document["reason"])])
    elif document["bag_size"] is None:
        sizes = [[name, number(found.get("min_bag_size"))] for name, found in answers.items()]
        yield Panel(f"Smallest bag at {budget}", sizes, ("accountant", "rows"))
    else:
        title = f"Bags of {number(document['bag_size'])} rows: ε at that δ, δ at that ε ({budget})"
        header = ("accountant", "ε", "δ", "ε over the draw", "δ over the draw", "most bags")
        yield Panel(title, [[name, *_cells(found)] for name, found in answers.items()], header)
    for found in answers.values():
        yield from _show_needs(found.get("a_priori", {}))
    remarks = [(name, words) for name, found in answers.items() for words in _remarks(found)]
    if remarks:
        yield Panel("Remarks", remarks)


def _show_needs(found: Found) -> Iterator[Panel]:
    """How little noise, on how few rows, bags of this size need before any draw."""
    if "min_noise_std" in found:
        yield Panel(
            "What these bags need, before any draw",
            [
                ("smallest noise deviation", number(found["min_noise_std"])),
                ("smallest noisy fraction", number(found["min_noisy_fraction"])),
            ],
        )


def _cells(found: Found) -> list[str]:
    found = found.get("a_priori", found)
    given, drawn = found.get("conditional", {}), found.get("unconditional", {})
    values = [part.get(key) for part in (given, drawn) for key in ("epsilon", "delta")]
    return [number(value) for value in (*values, found.get("max_bags"))]


def _remarks(found: Found) -> list[str]:
    reason = found.get("a_priori", found).get("reason")
    target = found.get("realised", {}).get("target_mu")
    redraw = f"or redraw the weights of bags whose μ is above {target:.4g}" if target else None
    return [words for words in (reason, redraw) if words]
