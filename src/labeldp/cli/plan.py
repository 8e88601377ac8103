"""labeldp plan, and the options it shares with release"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp.cli import options

if TYPE_CHECKING:
    from labeldp.planning import Plan

Mechanism = Annotated[str, typer.Option(help="wtd-flag")]
Accountant = Annotated[str, typer.Option(help="exact, exact-worst-case or paper.")]
Floor = Annotated[
    str, typer.Option(help="Residual floor: measured+added, measured, added or declared.")
]
ResidualMs = Annotated[
    float | None,
    typer.Option(help="With --floor declared: the residual mean square you promise."),
]
ResidualGuess = Annotated[
    float | None,
    typer.Option(help="Guess of the residual mean square, for the forecast; not a promise."),
]
Bags = Annotated[
    int | None, typer.Option(help="How many aggregates; default: where more stop paying.")
]
MaxMegabytes = Annotated[float, typer.Option(help="Cap on the size of the released file.")]
NoIntercept = Annotated[bool, typer.Option("--no-intercept", help="Do not add a constant column.")]


def plan(
    data: options.Data,
    label: options.Label,
    label_range: options.LabelRange,
    epsilon: options.Epsilon = 1.0,
    delta: options.Delta = 1e-6,
    mechanism: Mechanism = "wtd-flag",
    accountant: Accountant = "exact",
    floor: Floor = "measured+added",
    residual_ms: ResidualMs = None,
    residual_guess: ResidualGuess = None,
    bags: Bags = None,
    max_megabytes: MaxMegabytes = 128.0,
    features: options.Features = None,
    categorical: options.Categorical = None,
    numeric: options.Numeric = None,
    drop: options.Drop = None,
    clip: options.Clip = False,
    drop_missing_labels: options.DropMissing = False,
    min_count: options.MinCount = None,
    no_intercept: NoIntercept = False,
    max_leverage: options.MaxLeverage = None,
    strict: options.Strict = False,
    threads: options.Threads = 0,
    checkpoint: options.Checkpoint = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the plan here, for release --plan.")
    ] = None,
    json: options.Json = False,
) -> None:
    """What a release would publish and promise. Reads features and no labels."""
    from labeldp._files import check_target
    from labeldp.cli.output import emit_json, note, progress
    from labeldp.engines import LocalEngine
    from labeldp.planning import plan as make_plan

    if out is not None:
        check_target(out)
    source = options.source(
        data,
        label=label,
        label_range=label_range,
        features=features,
        categorical=categorical,
        numeric=numeric,
        drop=drop,
        clip=clip,
        drop_missing_labels=drop_missing_labels,
    )
    made = make_plan(
        source,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        accountant=accountant,
        floor=floor,
        residual_ms=residual_ms,
        residual_guess=residual_guess,
        bags=bags,
        max_megabytes=max_megabytes,
        min_count=min_count,
        intercept=not no_intercept,
        max_leverage=max_leverage,
        strict=strict,
        engine=LocalEngine(threads, progress, checkpoint=checkpoint),
    )
    for text in made.notes:
        note(text)
    if out is not None:
        _write(out, made)
    if json:
        emit_json(made.to_json())
    else:
        show_plan(made)


def _write(path: Path, made: Plan) -> None:
    from json import dumps

    from labeldp._files import new_path

    text = dumps(made.to_json(), indent=1, ensure_ascii=False)
    with new_path(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def read_plan(path: Path) -> Plan:
    """Read what `_write` wrote."""
    from labeldp._files import read_json
    from labeldp.errors import InputError
    from labeldp.planning import Plan

    try:
        return Plan.from_json(read_json(path))
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def show_plan(made: Plan) -> None:
    """The plan in one screen."""
    from labeldp.cli.output import emit_facts, emit_table, number

    claim, guess = made.claim, made.forecast
    facts = claim.facts
    needed = number(claim.floor / facts.rows)
    emit_facts(
        "Plan (from public facts; no label was read)",
        [
            ("rows, independent columns", f"{number(facts.rows)}, {facts.features}"),
            ("largest leverage", number(facts.max_leverage)),
            ("budget", f"ε = {claim.epsilon:g}, δ = {claim.delta:g}"),
            ("mechanism, accountant", f"{claim.mechanism}, {claim.accountant}"),
            ("aggregates", number(claim.bags)),
            ("floor", f"{claim.mode.value}: residual plus noise ≥ {needed} per row"),
        ],
    )
    emit_facts(
        f"Forecast, if the residual mean square is {number(guess.residual_ms)}",
        [
            ("mean squared error of the fit", number(guess.mean_mse, 6)),
            ("its excess over a fit with all labels", f"{guess.excess_mean:.3%} on average"),
            ("", f"{guess.excess_low:.3%} to {guess.excess_high:.3%} in 90 % of releases"),
        ],
    )
    emit_table("Privacy curve", ["ε", "δ(ε)"], [[f"{e:g}", f"{d:.3g}"] for e, d in claim.curve()])
