"""What `labeldp account` says of naive sums."""

from __future__ import annotations

from typing import Any

from labeldp.mechanisms.account import answer_document, bag_chance, check_bags
from labeldp.mechanisms.options import AccountQuestion


def answer(mechanism: str, question: AccountQuestion) -> dict[str, Any]:
    """Why a mechanism without weights and noise is never private."""
    check_bags(question)
    drawn = bag_chance(question)
    size = "mk/n" if drawn is None else f"mk/n = {drawn:.6g}"
    reason = (
        f"{mechanism} has no weights and no noise: a bag with the changed label gives it "
        f"away for certain, so δ is {size} at best at any ε; it is never private"
    )
    return answer_document(
        mechanism, question, ("bags", "bag_size"), {"accountants": {}, "reason": reason}
    )
