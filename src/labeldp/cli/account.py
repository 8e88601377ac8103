"""labeldp account"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.options import Delta, Epsilon, Json, LabelRange

if TYPE_CHECKING:
    from labeldp.accounting import Facts

MECHANISMS = ("wtd-flag", "sampled-wtd-flag", "sampled-noisy-wtd-lag", "naive-flag", "naive-lag")


def account(
    mechanism: Annotated[str, typer.Argument(help=", ".join(MECHANISMS))],
    rows: Annotated[int, typer.Option(help="Rows in the table.")],
    label_range: LabelRange,
    residual_ms: Annotated[
        float | None,
        typer.Option(help="Residual mean square γ: the residual sum of squares is ≥ γ·rows."),
    ] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    bags: Annotated[
        int | None, typer.Option(help="A number of bags: report its ε and δ instead of the most.")
    ] = None,
    bag_size: Annotated[
        int | None, typer.Option(help="Rows in a bag: report its ε and δ, not the smallest.")
    ] = None,
    max_leverage: Annotated[
        float | None, typer.Option(help="Largest leverage of the features, for `exact`.")
    ] = None,
    leverage_factor: Annotated[
        float | None,
        typer.Option(help="Largest leverage in a bag over features/bag-size, for `exact`."),
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Independent feature columns, for `exact` and `paper`.")
    ] = None,
    feature_bound: Annotated[
        float | None, typer.Option(help="Largest norm of a row of features, for `paper`.")
    ] = None,
    min_eigenvalue: Annotated[
        float | None,
        typer.Option(help="Promise on features and label together: σ_min² ≥ this·rows, `paper`."),
    ] = None,
    noisy_fraction: Annotated[
        float | None, typer.Option(help="Part of the rows whose labels carry noise.")
    ] = None,
    noise_std: Annotated[
        float | None, typer.Option(help="Deviation of that noise; 1 for labels scaled to -1 … 1.")
    ] = None,
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="The features do not span the constant.")
    ] = False,
    json: Json = False,
) -> None:
    """What each accountant allows, from public quantities alone: no data are read."""
    from labeldp.cli import account_bags, account_show
    from labeldp.cli.output import emit_json
    from labeldp.errors import InputError, in_range, ordered, positive

    if mechanism not in MECHANISMS:
        raise InputError(f"mechanism {mechanism!r} is unknown; choose {', '.join(MECHANISMS)}")
    positive(rows=rows, epsilon=epsilon)
    in_range(0, 1, delta=delta)
    ordered(*label_range, name="label_range")
    given: dict[str, Any] = {
        "residual_ms": residual_ms,
        "bags": bags,
        "bag_size": bag_size,
        "max_leverage": max_leverage,
        "leverage_factor": leverage_factor,
        "features": features,
        "feature_bound": feature_bound,
        "min_eigenvalue": min_eigenvalue,
        "noisy_fraction": noisy_fraction,
        "noise_std": noise_std,
    }
    positive(**{name: value for name, value in given.items() if value is not None})
    request = account_bags.Request(
        mechanism, rows, label_range, epsilon, delta, not no_intercept, given
    )
    document = _wtd_flag(request) if mechanism == "wtd-flag" else account_bags.document(request)
    if json:
        emit_json(document)
    elif mechanism == "wtd-flag":
        _show(document)
    else:
        account_show.show(document)


def _wtd_flag(request: Any) -> dict[str, Any]:
    from labeldp.accounting import ACCOUNTANTS, Facts
    from labeldp.errors import InputError

    request.allow("residual_ms", "bags", "max_leverage", "features")
    residual_ms, bags = request.need("residual_ms"), request.given["bags"]
    max_leverage, features = request.given["max_leverage"], request.given["features"]
    if (max_leverage is None) != (features is None):
        raise InputError("--max-leverage and --features go together: give both or neither")
    facts = Facts(
        rows=request.rows,
        label_range=request.label_range,
        features=features,
        max_leverage=max_leverage,
        centred=request.centred,
    )
    names = [name for name in ACCOUNTANTS if name != "exact" or max_leverage is not None]
    floor = request.rows * residual_ms
    budget = request.epsilon, request.delta
    return {
        "mechanism": request.mechanism,
        "rows": request.rows,
        "label_range": list(request.label_range),
        "residual_ms": residual_ms,
        "epsilon": request.epsilon,
        "delta": request.delta,
        "bags": bags,
        "max_leverage": max_leverage,
        "features": features,
        "accountants": {name: _answer(name, facts, floor, *budget, bags) for name in names},
    }


def _answer(
    name: str, facts: Facts, floor: float, epsilon: float, delta: float, bags: int | None
) -> dict[str, Any]:
    from labeldp.accounting import ACCOUNTANTS, invert
    from labeldp.mechanisms.wtd_flag.sizing import max_bags

    if bags is None:
        answer = max_bags(name, facts, floor, epsilon, delta)
        found: dict[str, Any] = {"max_bags": answer.value}
        return found | ({"reason": answer.reason} if answer.reason else {})
    law = ACCOUNTANTS[name](facts, bags, floor, None)
    found = {
        "epsilon": epsilon_at if math.isfinite(epsilon_at := invert.epsilon(law, delta)) else None,
        "delta": law.group(1).delta(epsilon).upper,
    }
    if found["epsilon"] is None:
        reason = max_bags(name, facts, floor, epsilon, delta).reason
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
