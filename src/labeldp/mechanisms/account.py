"""Answers of `labeldp account`: the common form, and what the mechanisms of bags share.

An answer without a bag size is the smallest private bag. With a bag size, `conditional` is ε at the
δ asked for and δ at the ε asked for if the row is in a bag; `unconditional`, with a number of bags,
counts the chance mk/n of that; `max_bags` is the most bags within the budget over the draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.subsampling import SubsampledBagsProfile, inclusion_probability
from labeldp.accounting.theorems import Answer, Theorem2, Theorem3
from labeldp.errors import InputError, PlanError
from labeldp.mechanisms.description import Document
from labeldp.mechanisms.options import AccountQuestion


def answer_document(
    mechanism: str, question: AccountQuestion, own_fields: Sequence[str], answer: Document
) -> Document:
    """Return the answer as one JSON document, with the question's fields before it."""
    return {
        "mechanism": mechanism,
        "rows": question.rows,
        "label_range": list(question.label_range),
        "epsilon": question.epsilon,
        "delta": question.delta,
        **{name: getattr(question, name) for name in own_fields},
        **answer,
    }


def needed_field(mechanism: str, question: AccountQuestion, name: str) -> Any:
    """Return a field of the question that the mechanism cannot do without."""
    value = getattr(question, name)
    if value is None:
        raise InputError(f"{mechanism} needs `{name}`")
    return value


def check_bags(question: AccountQuestion) -> None:
    """Refuse bags that cannot be drawn."""
    if question.bag_size is None and question.bags is not None:
        raise InputError("`bags` needs `bag_size`: the chance of being in a bag depends on both")
    if question.bag_size is not None:
        inclusion_probability(question.rows, question.bags or 1, question.bag_size)


def bag_chance(question: AccountQuestion) -> float | None:
    """Return mk/n if bags and their size are given."""
    if question.bags is None or question.bag_size is None:
        return None
    return inclusion_probability(question.rows, question.bags, question.bag_size)


def over_draw(question: AccountQuestion, profile: PrivacyProfile) -> SubsampledBagsProfile:
    """Return the profile over the draw of the bags that are asked about, or of one."""
    return SubsampledBagsProfile(profile, question.rows, question.bag_size or 1, question.bags or 1)


def limit_answer(question: AccountQuestion, profile: PrivacyProfile, name: str) -> Answer:
    """Return the limit of a parameter within the budget, or why there is none."""
    try:
        return Answer(calibrate(profile, name, *question.budget))
    except PlanError as problem:
        return Answer(None, str(problem))


def smallest_bag(question: AccountQuestion, answer: Answer) -> Document:
    """Return the smallest bag, or why there is none in this table."""
    if answer.value is None:
        return {"min_bag_size": None, "reason": answer.reason}
    size = int(answer.value)
    if answer.value > question.rows:
        return {
            "min_bag_size": size,
            "reason": f"more than the {question.rows:,} rows of the table",
        }
    return {"min_bag_size": size, "max_bags": question.rows // size}


def bag_costs(question: AccountQuestion, profile: PrivacyProfile) -> Document:
    """Return ε and δ if the row is in a bag, and over the draw."""

    def costs(each: PrivacyProfile, delta: float) -> Document:
        epsilon = epsilon_at(each, question.delta)
        return {"epsilon": epsilon if math.isfinite(epsilon) else None, "delta": delta}

    delta, chance = profile.delta(question.epsilon), bag_chance(question)
    drawn = over_draw(question, profile)
    answer: Document = {
        "conditional": costs(profile, delta.upper),
        "max_bags": calibrate(drawn, "bags", *question.budget),
    }
    if chance is not None:
        answer["unconditional"] = {"chance": chance} | costs(drawn, delta.times(chance).upper)
    if answer["conditional"]["epsilon"] is None:
        answer["reason"] = f"no ε is enough for δ = {question.delta:g} when the row is in a bag"
    return answer


def theorem_costs(question: AccountQuestion, theorem: Theorem2 | Theorem3) -> Document:
    """Return the same by a theorem of the paper, with its reason if it promises nothing."""
    answer, bound = bag_costs(question, theorem), theorem.answer(question.epsilon)
    chance = bag_chance(question)
    if chance is not None:
        answer["unconditional"]["delta"] = (bound.value or 1.0) * chance
    reason = theorem.epsilon(question.delta).reason or bound.reason
    return answer | ({"reason": reason} if reason else {})
