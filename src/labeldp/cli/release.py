"""labeldp release"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli import options
from labeldp.cli.plan import (
    PLANNED,
    Accountant,
    Bags,
    BagSeed,
    BagSize,
    Compact,
    Floor,
    MaxMegabytes,
    Mechanism,
    MinEigenvalue,
    NoIntercept,
    NoiseStd,
    NoisyColumn,
    NoisyFraction,
    OverDraw,
    ResidualGuess,
    ResidualMs,
    planned,
    read_plan,
)

if TYPE_CHECKING:
    from labeldp.engines import Engine
    from labeldp.planning import Plan
    from labeldp.release import Release
    from labeldp.source import Source


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
    not_private: Annotated[
        bool,
        typer.Option("--not-private", help="Allow naive-flag and naive-lag, which never are."),
    ] = False,
    threads: options.Threads = 0,
    engine: options.EngineName = "local",
    checkpoint: options.Checkpoint = None,
    json: options.Json = False,
) -> None:
    """Publish private aggregates with a certificate, as one new directory."""
    from labeldp.cli.output import emit_json, note
    from labeldp.errors import InputError
    from labeldp.files import check_target

    check_target(out)
    if not_private and mechanism not in NAIVE:
        raise InputError("--not-private is for naive-flag and naive-lag; leave it out")
    if plan is not None:
        _refuse_planning_options(context)
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
    if mechanism in NAIVE:
        _release_naive(context, source, runner, out, json)
        return
    made = read_plan(plan) if plan is not None else planned(context, source, runner)[0]
    for text in made.notes:
        note(text)
    released = made.release_to(out, source, engine=runner)
    if json:
        emit_json({"release": str(out), "certificate": released.certificate})
    else:
        show_release(made, released, out)


NAIVE = ("naive-flag", "naive-lag")
_NAIVE_OPTIONS = ("mechanism", "bags", "bag_size", "bag_seed")
_ENCODING_OPTIONS = ("no_intercept", "min_count", "max_leverage", "strict")


def _release_naive(
    context: typer.Context, source: Source, engine: Engine, out: Path, json: bool
) -> None:
    """The warning example: plain sums, no certificate, only on explicit demand."""
    from labeldp.cli.output import emit_json, note
    from labeldp.errors import InputError
    from labeldp.mechanisms.naive import naive_sums
    from labeldp.mechanisms.survey import Encoding
    from labeldp.release import WARNING

    given = context.params
    for name in _given_options(context):
        if name not in (*_NAIVE_OPTIONS, *_ENCODING_OPTIONS):
            raise InputError(
                f"--{name.replace('_', '-')} does not apply to {given['mechanism']}; leave it out"
            )
    if given["bags"] is None or given["bag_size"] is None:
        raise InputError(f"{given['mechanism']} needs --bags and --bag-size")
    encoding = Encoding(
        intercept=not given["no_intercept"], **{name: given[name] for name in _ENCODING_OPTIONS[1:]}
    )
    chosen = {name: given[name] for name in (*_NAIVE_OPTIONS, "not_private")}
    sums = naive_sums(source, **chosen, encoding=encoding, engine=engine)
    sums.save(out)
    warning = f"{out} is NOT private: plain sums of labels, see {WARNING}; do not publish it"
    note(warning)
    if json:
        emit_json({"release": str(out), "certificate": None, "warning": warning})


def _refuse_planning_options(context: typer.Context) -> None:
    """A plan fixes the budget: an option that would silently not count is refused."""
    from labeldp.errors import InputError

    for name in _given_options(context):
        option = "--" + name.replace("_", "-")
        raise InputError(f"{option} is settled by the plan; leave it out, or plan again with it")


def _given_options(context: typer.Context) -> Iterator[str]:
    """The options of a plan that stand on the command line."""
    for name in PLANNED:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield name


def show_release(made: Plan, released: Release, out: Path) -> None:
    """What was published, in a few lines."""
    from labeldp.cli.output import emit_facts, number

    certificate = released.certificate
    emit_facts(
        f"Released {out}",
        [
            (
                "aggregates",
                f"{number(released.bags)}, each over {number(certificate['bag_size'])} rows",
            ),
            ("guarantee", f"label-DP, ε = {made.claim.epsilon:g}, δ = {made.claim.delta:g}"),
            ("accountant", certificate["accountant"]["name"]),
            *hidden_by(certificate),
            ("best attack", certificate["attack_risk"]["in_words"]),
            ("check it", f"labeldp verify {out}"),
            (
                "use it",
                f"labeldp fit {out}" + ("" if released.aggregates_features else " --data …"),
            ),
        ],
    )


def hidden_by(certificate: dict[str, Any]) -> list[tuple[str, str]]:
    """What hides the labels beside the weights."""
    from labeldp.cli.output import number

    floor, noise, draw = certificate["floor"], certificate["noise"], certificate["draw"]
    facts = []
    if floor is not None:
        added = floor["added_variance"] / certificate["bag_size"]
        text = f"noise of variance {number(added)} per row added" if added else "no noise needed"
        facts.append(("floor", f"{floor['mode']}: {text}"))
    if noise is not None:
        facts.append(("noise", f"deviation {number(noise['std'])} on noisy rows' labels"))
    if draw is not None:
        facts.append(("holds", draw["holds"]))
    return facts
