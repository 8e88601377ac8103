"""Naive LAg and FLAg, the warning example: what `labeldp` finds of them by entry point."""

from typing import Any

from labeldp.mechanisms.bags import account_chance
from labeldp.mechanisms.demonstrations import Demonstration
from labeldp.mechanisms.options import AccountQuestion
from labeldp_paper.naive.sums import release


def account(question: AccountQuestion) -> dict[str, Any]:
    """Return why sums without weights and noise are never private."""
    chance = account_chance(question)
    size = "mk/n" if chance is None else f"mk/n = {chance:.6g}"
    reason = (
        "there are no weights and no noise: a bag with the changed label gives it away for "
        f"certain, so δ is {size} at best at any ε; it is never private"
    )
    return {"accountants": {}, "reason": reason}


DEMONSTRATION = Demonstration(
    options=("bags", "bag_size", "bag_seed"),
    release=release,
    account_fields=("bags", "bag_size"),
    account=account,
)
