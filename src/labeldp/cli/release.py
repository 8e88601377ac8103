"""labeldp release"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.derived import given
from labeldp.cli.options import Budget, Json, PassOptions, Table
from labeldp.cli.plan import PlanOptions, asked, planned, read_plan
from labeldp.mechanisms import NEVER_PRIVATE, Encoding, mechanism_named, names

if TYPE_CHECKING:
    from labeldp.engines import Engine
    from labeldp.planning import Plan
    from labeldp.release import Release
    from labeldp.source import Source


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
            "--not-private", help=f"Allow {' and '.join(NEVER_PRIVATE)}, which never are."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Publish private aggregates with a certificate, as one new directory."""
    from labeldp.cli.output import emit_json, note
    from labeldp.errors import InputError
    from labeldp.files import check_target

    check_target(out)
    naive = options.mechanism in NEVER_PRIVATE
    if not_private and not naive:
        raise InputError(f"--not-private is for {' and '.join(NEVER_PRIVATE)}; leave it out")
    settled = {
        name: flag
        for name, flag in given(context).items()
        if name in (*names(Budget), *names(options), *names(encoding))
    }
    if plan is not None:
        _refuse(settled, "is settled by the plan; leave it out, or plan again with it")
    runner, source = reading.runner(), table.source(reading.engine)
    if naive:
        own = ("mechanism", *_NAIVE, *names(encoding))
        foreign = {name: flag for name, flag in settled.items() if name not in own}
        _refuse(foreign, f"does not apply to {options.mechanism}; leave it out")
        warning = _release_naive(options, encoding, not_private, source, runner, out)
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


_NAIVE = ("bags", "bag_size", "bag_seed")


def _release_naive(
    options: Any,
    encoding: Encoding,
    not_private: bool,
    source: Source,
    engine: Engine,
    out: Path,
) -> str:
    """The warning example: plain sums, no certificate, only on explicit demand."""
    from labeldp.errors import InputError
    from labeldp.mechanisms.naive import naive_sums
    from labeldp.release import WARNING

    if options.bags is None or options.bag_size is None:
        raise InputError(f"{options.mechanism} needs --bags and --bag-size")
    sums = naive_sums(
        source,
        mechanism=options.mechanism,
        not_private=not_private,
        encoding=encoding,
        engine=engine,
        **{name: getattr(options, name) for name in _NAIVE},
    )
    sums.save(out)
    return f"{out} is NOT private: plain sums of labels, see {WARNING}; do not publish it"


def _refuse(flags: dict[str, str], why: str) -> None:
    """An option that would silently not count is refused."""
    from labeldp.errors import InputError

    for flag in flags.values():
        raise InputError(f"{flag} {why}")


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
            *mechanism_named(certificate["mechanism"]).describe(certificate).release,
            ("best attack", certificate["attack_risk"]["in_words"]),
            ("check it", f"labeldp verify {out}"),
            (
                "use it",
                f"labeldp fit {out}" + ("" if released.aggregates_features else " --data …"),
            ),
        ],
    )
