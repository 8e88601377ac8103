"""labeldp release"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp import InputError
from labeldp.cli.derived import given
from labeldp.cli.options import Budget, Json, PassOptions, Table
from labeldp.cli.output import emit_facts, emit_json, note, number
from labeldp.cli.plan import PlanOptions, asked, planned, read_plan
from labeldp.files import check_target
from labeldp.mechanisms import Demonstration, Encoding, demonstrations, mechanism_named, names

if TYPE_CHECKING:
    from labeldp import Plan, Release


def release(
    context: typer.Context,
    table: Table,
    out: Annotated[Path, typer.Option(help="The release directory to create.")],
    budget: Budget,
    options: PlanOptions,
    encoding: Encoding,
    reading: PassOptions,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="A plan from `labeldp plan --out`; repeat only its data and label options."
        ),
    ] = None,
    not_private: Annotated[
        bool,
        typer.Option(
            "--not-private", help=f"Allow {' and '.join(demonstrations())}, which never are."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Publish private aggregates with a certificate, as one new directory."""
    check_target(out)
    shown = demonstrations().get(options.mechanism)
    if not_private and shown is None:
        raise InputError(f"--not-private is for {' and '.join(demonstrations())}; leave it out")
    settled = {
        name: flag
        for name, flag in given(context).items()
        if name in (*names(Budget), *names(options), *names(encoding))
    }
    if plan is not None:
        _refuse(settled, "is settled by the plan; leave it out, or plan again with it")
    runner, source = reading.runner(), table.source(reading.engine)
    if shown is not None:
        demonstration: Demonstration = shown.load()
        own = {name: getattr(options, name) for name in ("mechanism", *demonstration.options)}
        foreign = {n: flag for n, flag in settled.items() if n not in (*own, *names(encoding))}
        _refuse(foreign, f"does not apply to {options.mechanism}; leave it out")
        warning = demonstration.release(
            out, source, runner, encoding, not_private=not_private, **own
        )
        note(warning)
        if json:
            emit_json({"release": str(out), "certificate": None, "warning": warning})
        return
    if plan is not None:
        made = read_plan(plan)
    else:
        chosen = asked(context, budget, options, encoding)
        made, _ = planned(options.mechanism, chosen, source, runner)
    for text in made.notes:
        note(text)
    released = made.release_to(out, source, engine=runner)
    if json:
        emit_json({"release": str(out), "certificate": released.certificate})
    else:
        show_release(made, released, out)


def _refuse(flags: dict[str, str], why: str) -> None:
    """An option that would silently not count is refused."""
    for flag in flags.values():
        raise InputError(f"{flag} {why}")


def show_release(made: Plan, released: Release, out: Path) -> None:
    """What was published, in a few lines."""
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
            *mechanism_named(certificate["mechanism"]).describe(certificate).release,
            ("best attack", certificate["attack_risk"]["in_words"]),
            ("check it", f"labeldp verify {out}"),
            (
                "use it",
                f"labeldp fit {out}" + (" --data …" if released.needs_rows else ""),
            ),
        ],
    )
