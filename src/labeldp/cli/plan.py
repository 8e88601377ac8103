"""labeldp plan, and the options it shares with release"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli import options

if TYPE_CHECKING:
    from labeldp.engines import Engine
    from labeldp.planning import Plan
    from labeldp.source import Source

Mechanism = Annotated[
    str, typer.Option(help="wtd-flag, sampled-wtd-flag, sampled-noisy-wtd-lag, or auto: compare.")
]
Accountant = Annotated[str, typer.Option(help="exact, exact-worst-case or paper.")]
Floor = Annotated[
    str | None,
    typer.Option(help="Residual floor: measured+added (default), measured, added or declared."),
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
BagSize = Annotated[
    int | None, typer.Option(help="Rows in each bag, where bags are drawn; default: the best.")
]
OverDraw = Annotated[
    bool,
    typer.Option("--over-draw", help="Guarantee over the draw of the bags, not given the bags."),
]
MinEigenvalue = Annotated[
    float | None, typer.Option(help="Theorem 2's promise about [X|y] (sampled-wtd-flag, paper).")
]
NoiseStd = Annotated[
    float | None,
    typer.Option(help="Noise on labels, in label units; default: what the budget needs."),
]
NoisyFraction = Annotated[
    float | None, typer.Option(help="Part of the rows whose labels carry noise; default: all.")
]
NoisyColumn = Annotated[
    str | None, typer.Option(help="Public column that marks the rows whose labels carry noise.")
]
BagSeed = Annotated[int | None, typer.Option(min=0, help="For experiments: repeatable bags.")]
Compact = Annotated[
    bool,
    typer.Option("--compact", help="Publish wtd-flag in d+1 rows that carry the same information."),
]
MaxMegabytes = Annotated[float, typer.Option(help="Cap on the size of the released file.")]
NoIntercept = Annotated[bool, typer.Option("--no-intercept", help="Do not add a constant column.")]


def plan(
    context: typer.Context,
    data: options.Data,
    label: options.Label,
    label_range: options.LabelRange,
    epsilon: options.Epsilon = 1.0,
    delta: options.Delta = 1e-6,
    mechanism: Mechanism = "wtd-flag",
    accountant: Accountant = "exact",
    floor: Floor = None,
    residual_ms: ResidualMs = None,
    residual_guess: ResidualGuess = None,
    bags: Bags = None,
    bag_size: BagSize = None,
    over_draw: OverDraw = False,
    min_eigenvalue: MinEigenvalue = None,
    noise_std: NoiseStd = None,
    noisy_fraction: NoisyFraction = None,
    noisy_column: NoisyColumn = None,
    bag_seed: BagSeed = None,
    compact: Compact = False,
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
    engine: options.EngineName = "local",
    checkpoint: options.Checkpoint = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the plan here, for release --plan.")
    ] = None,
    json: options.Json = False,
) -> None:
    """What a release would publish and promise. Reads features and no labels."""
    from labeldp.cli.output import emit_json, note
    from labeldp.files import check_target

    if out is not None:
        check_target(out)
    runner = options.make_engine(engine, threads, checkpoint)
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
        engine=engine,
    )
    made, offers = planned(context, source, runner)
    for text in made.notes:
        note(text)
    if out is not None:
        _write(out, made)
    if json:
        emit_json(made.to_json() | ({"comparison": offers} if offers else {}))
        return
    if offers:
        show_offers(offers)
    show_plan(made)


PLANNED = [
    "epsilon",
    "delta",
    "mechanism",
    "accountant",
    "floor",
    "residual_ms",
    "residual_guess",
    "bags",
    "bag_size",
    "over_draw",
    "min_eigenvalue",
    "noise_std",
    "noisy_fraction",
    "noisy_column",
    "bag_seed",
    "compact",
    "max_megabytes",
    "min_count",
    "no_intercept",
    "max_leverage",
    "strict",
]
"""Options that a plan settles."""


def planned(
    context: typer.Context, source: Source, engine: Engine
) -> tuple[Plan, list[dict[str, Any]]]:
    """The plan that the options ask for and, with --mechanism auto, what it was chosen from."""
    from labeldp.mechanisms.comparison import compare
    from labeldp.planning import make_request, plan_request

    given = {name: context.params[name] for name in PLANNED}
    mechanism, intercept = given.pop("mechanism"), not given.pop("no_intercept")
    request = make_request(**given, intercept=intercept)
    if mechanism != "auto":
        return plan_request(mechanism, request, source, engine), []
    offers = compare(source, request, engine)
    assert offers[0].plan is not None
    return offers[0].plan, [offer.to_json() for offer in offers]


def show_offers(offers: list[dict[str, Any]]) -> None:
    """The mechanisms side by side, the best first."""
    from labeldp.cli.output import WORDS, emit_table, number

    emit_table(
        f"Mechanisms at this budget; recommended: {offers[0]['mechanism']}",
        ["mechanism", "bags", "rows", "MSE", "excess", WORDS],
        [
            [
                offer["mechanism"],
                number(offer["bags"]),
                number(offer["bag_size"]),
                number(offer["mean_mse"], 6),
                None if offer["excess"] is None else f"{offer['excess']:.3%}",
                offer["reason"] or offer["method"],
            ]
            for offer in offers
        ],
    )


def _write(path: Path, made: Plan) -> None:
    from json import dumps

    from labeldp.files import new_path

    text = dumps(made.to_json(), indent=1, ensure_ascii=False)
    with new_path(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def read_plan(path: Path) -> Plan:
    """Read what `_write` wrote."""
    from labeldp.errors import InputError
    from labeldp.files import read_json
    from labeldp.planning import Plan

    try:
        return Plan.from_json(read_json(path))
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def show_plan(made: Plan) -> None:
    """The plan in one screen."""
    from labeldp.cli.output import emit_facts, emit_table, number

    claim, guess = made.claim, made.forecast
    emit_facts("Plan (from public facts; no label was read)", plan_facts(claim.to_json()))
    emit_facts(
        f"Forecast, if the residual mean square is {number(guess.residual_ms)}",
        [
            ("mean squared error of the fit", number(guess.mean_mse, 6)),
            ("its excess over a fit with all labels", f"{guess.excess_mean:.3%} on average"),
            ("", f"{guess.excess_low:.3%} to {guess.excess_high:.3%} in 90 % of releases"),
        ],
    )
    emit_table("Privacy curve", ["ε", "δ(ε)"], [[f"{e:g}", f"{d:.3g}"] for e, d in claim.curve()])


def plan_facts(claim: dict[str, Any]) -> list[tuple[str, str]]:
    """What a claim says, for people."""
    from labeldp.cli.output import number

    floor, draw, noise = claim["floor"], claim["draw"], claim["noise"]
    rows = number(claim["bag_size"])
    facts = [
        ("rows, independent columns", f"{number(claim['rows'])}, {claim['rank']}"),
        ("budget", f"ε = {claim['epsilon']:g}, δ = {claim['delta']:g}"),
        ("mechanism, accountant", f"{claim['mechanism']}, {claim['accountant']['name']}"),
        ("aggregates", f"{number(claim['bags'])} of {rows} rows each"),
    ]
    if claim["max_leverage"] is not None:
        facts.insert(1, ("largest leverage", number(claim["max_leverage"])))
    if floor is not None:
        needed = number(floor["needed"] / claim["bag_size"])
        facts.append(("floor", f"{floor['mode']}: residual plus noise ≥ {needed} per row"))
    if noise is not None:
        which = (
            f"rows marked by {noise['column']}"
            if noise["column"]
            else (f"{noise['fraction']:.0%} of the labels")
        )
        facts.append(("noise", f"deviation {number(noise['std'])} on {which}"))
    if draw is not None:
        chance = f"a row is in a bag with probability {draw['chance']:.3g}"
        facts.append(("guarantee", f"{draw['guarantee']} ({chance})"))
    return facts
