"""labeldp account"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.options import Delta, Epsilon, Json, LabelRange

if TYPE_CHECKING:
    from labeldp.accounting import Accountant, Facts


def account(
    mechanism: Annotated[str, typer.Argument(help="wtd-flag")],
    rows: Annotated[int, typer.Option(help="Rows in the table.")],
    label_range: LabelRange,
    residual_ms: Annotated[
        float, typer.Option(help="Residual mean square γ: the residual sum of squares is ≥ γ·rows.")
    ],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    bags: Annotated[
        int | None, typer.Option(help="A number of bags: report its ε and δ instead of the most.")
    ] = None,
    max_leverage: Annotated[
        float | None, typer.Option(help="Largest leverage of the features, for `exact`.")
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Independent feature columns, for `exact`.")
    ] = None,
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="The features do not span the constant.")
    ] = False,
    json: Json = False,
) -> None:
    """What each accountant allows, from public quantities alone: no data are read."""
    from labeldp._check import in_range, positive
    from labeldp.accounting import ACCOUNTANTS, Facts
    from labeldp.cli.output import emit_json
    from labeldp.errors import InputError
    from labeldp.mechanisms import check_mechanism

    check_mechanism(mechanism)
    positive(rows=rows, residual_ms=residual_ms, epsilon=epsilon)
    in_range(0, 1, delta=delta)
    if bags is not None:
        positive(bags=bags)
    if (max_leverage is None) != (features is None):
        raise InputError("--max-leverage and --features go together: give both or neither")
    if max_leverage is not None and features is not None:
        positive(max_leverage=max_leverage, features=features)
    facts = Facts(
        rows=rows,
        label_range=label_range,
        features=features,
        max_leverage=max_leverage,
        centred=not no_intercept,
    )
    names = [name for name in ACCOUNTANTS if name != "exact" or max_leverage is not None]
    floor = rows * residual_ms
    answers = {
        name: _answer(ACCOUNTANTS[name], facts, floor, epsilon, delta, bags) for name in names
    }
    document = {
        "mechanism": mechanism,
        "rows": rows,
        "label_range": list(label_range),
        "residual_ms": residual_ms,
        "epsilon": epsilon,
        "delta": delta,
        "bags": bags,
        "max_leverage": max_leverage,
        "features": features,
        "accountants": answers,
    }
    if json:
        emit_json(document)
    else:
        _show(document)


def _answer(
    accountant: Accountant,
    facts: Facts,
    floor: float,
    epsilon: float,
    delta: float,
    bags: int | None,
) -> dict[str, Any]:
    if bags is None:
        answer = accountant.max_bags(facts, floor, epsilon, delta)
        found: dict[str, Any] = {"max_bags": answer.bags}
        return found | ({"reason": answer.reason} if answer.reason else {})
    found = {
        "epsilon": accountant.epsilon(facts, bags, floor, delta),
        "delta": accountant.delta(facts, bags, floor, epsilon),
    }
    if found["epsilon"] is None:
        reason = accountant.max_bags(facts, floor, epsilon, delta).reason
        found["reason"] = reason or f"no ε is enough for {bags} bags at δ = {delta:g}"
    return found


def _show(document: dict[str, Any]) -> None:
    from labeldp.cli.output import WORDS, emit_table, number

    budget = f"ε = {document['epsilon']:g}, δ = {document['delta']:g}"
    if document["bags"] is None:
        title, header = f"Most bags at {budget}", ["accountant", "bags", WORDS]
        keys = ["max_bags"]
    else:
        title = f"{number(document['bags'])} bags: ε at that δ, δ at that ε ({budget})"
        header, keys = ["accountant", "ε", "δ", WORDS], ["epsilon", "delta"]
    emit_table(
        title,
        header,
        [
            [name, *(number(answer[key]) for key in keys), answer.get("reason", "")]
            for name, answer in document["accountants"].items()
        ],
    )
