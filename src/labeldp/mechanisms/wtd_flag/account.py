"""What wtd-FLAg costs, from public quantities alone: `labeldp account`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from labeldp.accounting.accountants import ACCOUNTANTS
from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.sketch import DatasetBounds
from labeldp.errors import InputError
from labeldp.mechanisms.account import need
from labeldp.mechanisms.protocol import REMARKS, Panel, number
from labeldp.mechanisms.wtd_flag.sizing import max_bags

if TYPE_CHECKING:
    from labeldp.mechanisms.wtd_flag import WtdFlagQuestion

Found = dict[str, Any]


def answer(mechanism: str, asked: WtdFlagQuestion) -> Found:
    """The most bags under a floor, or the price of so many."""
    residual_ms = need(mechanism, asked, "residual_ms")
    if (asked.max_leverage is None) != (asked.features is None):
        raise InputError("`max_leverage` and `features` go together: give both or neither")
    names = [name for name in ACCOUNTANTS if name != "exact" or asked.max_leverage is not None]
    return {
        "mechanism": mechanism,
        "rows": asked.rows,
        "label_range": list(asked.label_range),
        "residual_ms": residual_ms,
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "bags": asked.bags,
        "max_leverage": asked.max_leverage,
        "features": asked.features,
        "accountants": {name: _by(name, asked, asked.rows * residual_ms) for name in names},
    }


def _by(accountant: str, asked: WtdFlagQuestion, floor: float) -> Found:
    facts = DatasetBounds(
        asked.rows, asked.label_range, asked.features, asked.max_leverage, asked.centred
    )
    if asked.bags is None:
        most = max_bags(accountant, facts, floor, *asked.budget)
        found: Found = {"max_bags": most.value}
        return found | ({"reason": most.reason} if most.reason else {})
    law = ACCOUNTANTS[accountant](facts, asked.bags, floor)
    epsilon = epsilon_at(law, asked.delta)
    found = {
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": law.group(1).delta(asked.epsilon).upper,
    }
    if found["epsilon"] is None:
        reason = max_bags(accountant, facts, floor, *asked.budget).reason
        found["reason"] = (
            reason or f"no ε is enough for {asked.bags} aggregates at δ = {asked.delta:g}"
        )
    return found


def show(document: Found) -> Iterator[Panel]:
    """The same for people."""
    budget = f"ε = {document['epsilon']:g}, δ = {document['delta']:g}"
    if document["bags"] is None:
        title, keys = f"Most aggregates at {budget}", ["max_bags"]
        header = ["accountant", "bags", REMARKS]
    else:
        title = f"{number(document['bags'])} bags: ε at that δ, δ at that ε ({budget})"
        header, keys = ["accountant", "ε", "δ", REMARKS], ["epsilon", "delta"]
    rows = [
        [name, *(number(found[key]) for key in keys), found.get("reason", "")]
        for name, found in document["accountants"].items()
    ]
    yield Panel(title, rows, header)
