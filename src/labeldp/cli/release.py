"""labeldp release"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp.cli import options
from labeldp.cli.plan import (
    Accountant,
    Bags,
    Floor,
    MaxMegabytes,
    Mechanism,
    NoIntercept,
    ResidualGuess,
    ResidualMs,
    read_plan,
)

if TYPE_CHECKING:
    from labeldp.planning import Plan
    from labeldp.release import Release


def release(
    context: typer.Context,
    data: options.Data,
    label: options.Label,
    label_range: options.LabelRange,
    out: Annotated[Path, typer.Option(help="The release directory to create.")],
    plan: Annotated[
        Path | None,
        typer.Option(
            help="A plan from `labeldp plan --out`; repeat only its data and label options."
        ),
    ] = None,
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
    json: options.Json = False,
) -> None:
    """Publish private aggregates with a certificate, as one new directory."""
    from labeldp._files import check_target
    from labeldp.cli.output import emit_json, note, progress
    from labeldp.engines import LocalEngine
    from labeldp.planning import plan as make_plan

    check_target(out)
    if plan is not None:
        _refuse_planning_options(context)
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
    engine = LocalEngine(threads, progress, checkpoint=checkpoint)
    made = (
        read_plan(plan)
        if plan is not None
        else make_plan(
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
            engine=engine,
        )
    )
    for text in made.notes:
        note(text)
    released = made.release(source, engine=engine)
    released.save(out)
    if json:
        emit_json({"release": str(out), "certificate": released.certificate})
    else:
        show_release(made, released, out)


PLANNED = [
    "epsilon",
    "delta",
    "mechanism",
    "accountant",
    "floor",
    "residual_ms",
    "residual_guess",
    "bags",
    "max_megabytes",
    "min_count",
    "no_intercept",
    "max_leverage",
    "strict",
]
"""Options that a plan has settled."""


def _refuse_planning_options(context: typer.Context) -> None:
    """A plan fixes the budget: an option that would silently not count is refused."""
    from labeldp.errors import InputError

    for name in PLANNED:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise InputError(
                f"{option} is settled by the plan; leave it out, or plan again with it"
            )


def show_release(made: Plan, released: Release, out: Path) -> None:
    """What was published, in a few lines."""
    from labeldp.cli.output import emit_facts, number

    certificate = released.certificate
    floor = certificate["floor"]
    added = floor["added_variance"] / certificate["rows"]
    noise = f"noise of variance {number(added)} per row added" if added else "no noise needed"
    emit_facts(
        f"Released {out}",
        [
            (
                "aggregates",
                f"{number(released.bags)}, each over {number(certificate['rows'])} rows",
            ),
            ("guarantee", f"label-DP, ε = {made.claim.epsilon:g}, δ = {made.claim.delta:g}"),
            ("accountant", certificate["accountant"]["name"]),
            ("floor", f"{floor['mode']}: {noise}"),
            ("best attack", certificate["attack_risk"]["in_words"]),
            ("check it", f"labeldp verify {out}"),
            ("use it", f"labeldp fit {out}"),
        ],
    )
