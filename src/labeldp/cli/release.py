"""labeldp release"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from labeldp import InputError
from labeldp.cli.derived import given, told
from labeldp.cli.options import Budget, Json, LedgerOptions, PassOptions, Table, Verbose
from labeldp.cli.output import emit_facts, emit_json, note, number
from labeldp.cli.plan import PlanOptions, asked, forecast_facts, planned, show_notes
from labeldp.common.files import check_target
from labeldp.mechanisms import (
    Demonstration,
    Encoding,
    demonstrations,
    mechanism_named,
    names,
    option,
)

if TYPE_CHECKING:
    from labeldp import Plan, Release
    from labeldp.learners.quality import Quality


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions:
    """Options: which plan is released, and how."""

    plan: Path | None = option(
        None, "A plan from `labeldp plan --out`; what was said for it need not be repeated."
    )
    about: Path | None = option(None, "What only you know of the release, as TOML.", metavar="FILE")
    again: bool = option(False, "Release a plan once more without a ledger: it costs again.")
    not_private: bool = option(False, f"Allow {' and '.join(demonstrations())}, which never are.")


def release(
    context: click.Context,
    table: Table,
    out: Annotated[Path, told("The release directory to create.")],
    budget: Budget,
    options: PlanOptions,
    encoding: Encoding,
    reading: PassOptions,
    paying: LedgerOptions,
    how: ReleaseOptions,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Publish private aggregates with a certificate, as one new directory.

    Exit 1 if the numbers that were drawn do not show predictions to beat the mean of the labels.
    """
    check_target(out)
    shown = demonstrations().get(options.mechanism)
    if how.not_private and shown is None:
        raise InputError(f"--not-private is for {' and '.join(demonstrations())}; leave it out")
    here = given(context)
    settled = {
        name: flag
        for name, flag in here.items()
        if name in (*names(Budget), *names(options), *names(encoding)) and name != "anyway"
    }
    made = None if how.plan is None else _loaded(how.plan, settled)
    runner = reading.runner()
    if made is None:
        source = table.source(reading.engine, encoding.formula)
    else:
        source = table.planned(made, reading.engine, here)
    if shown is not None:
        demonstration: Demonstration = shown.load()
        own = {name: getattr(options, name) for name in ("mechanism", *demonstration.options)}
        foreign = {n: flag for n, flag in settled.items() if n not in (*own, *names(encoding))}
        _refuse(foreign, f"does not apply to {options.mechanism}; leave it out")
        warning = demonstration.release(
            out, source, runner, encoding, not_private=how.not_private, **own
        )
        note(warning)
        if json:
            emit_json({"release": str(out), "certificate": None, "warning": warning})
        return 0
    if made is None:
        chosen = asked(context, budget, options, encoding)
        made, _ = planned(options.mechanism, chosen, source, runner)
    show_notes(made, verbose)
    payment = paying.payment()
    from labeldp._random import Randomness  # late: it brings NumPy, which no help needs

    keys = Randomness.from_os()  # given, so that a doubt about its use is told here alone
    released = made.release_to(
        out,
        source,
        engine=runner,
        about=how.about,
        randomness=keys,
        again=how.again,
        **payment,
    )
    from labeldp.learners.afterwards import estimated  # late: a refusal needs no learner

    said = released.certificate["about"]
    if said is not None and said["missing"]:
        note(f"{how.about} does not say: {', '.join(said['missing'])}")
    found = estimated(released, source)
    beats = found is None or found.beats_the_constant
    if json:
        told = None if found is None else found.to_json() | {"beats_the_constant": beats}
        emit_json({"release": str(out), "certificate": released.certificate, "quality": told})
    else:
        show_release(made, released, found, out)
    if found is None or beats:
        return 0
    note(
        f"WARNING: the numbers in {out} do not show that predictions beat the mean of the labels: "
        f"{_shown(found)}; "
        "its budget is spent, but think before you publish (--anyway: exit 0 all the same)"
    )
    return 0 if options.anyway or made.anyway else 1


def _loaded(plan: Path, settled: dict[str, str]) -> Plan:
    """The plan of a file, beside which nothing of it is said again."""
    from labeldp import Plan

    _refuse(settled, "is settled by the plan; leave it out, or plan again with it")
    return Plan.load(plan)


def _refuse(flags: dict[str, str], why: str) -> None:
    """An option that would silently not count is refused."""
    for flag in flags.values():
        raise InputError(f"{flag} {why}")


def _shown(found: Quality) -> str:
    if found.worse is not None:
        return f"the probability that they are worse is {found.worse:.2g}"
    gain = f"{number(found.gain)} ± {number(found.gain_error)}"
    return f"their gain in mean squared error is {gain}"


def _spent(certificate: dict[str, Any]) -> list[tuple[str, str]]:
    """What the ledger says after this release."""
    book = certificate["ledger"]
    if book is None:
        return []
    total = f"ε = {book['epsilon']:.4g} at δ = {book['delta']:g}"
    return [("ledger", f"entry {book['entry']}; {book['releases']} on this table: {total}")]


def _quality(found: Quality | None) -> list[tuple[str, str]]:
    """What the release says of its own predictions."""
    if found is None:
        return []
    share = "" if found.r2 is None else f"; R² {found.r2:.2f} ± {found.r2_error:.2f}"
    gain = f"{number(found.gain)} ± {number(found.gain_error)} in mean squared error"
    return [("gain over the mean of labels", f"{gain}, estimated from the release{share}")]


def show_release(made: Plan, released: Release, found: Quality | None, out: Path) -> None:
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
            *_spent(certificate),
            *mechanism_named(certificate["mechanism"]).describe(certificate).release,
            *forecast_facts(made),
            *_quality(found),
            ("best attack", certificate["attack_risk"]["in_words"]),
            ("check it", f"labeldp verify {out}"),
            (
                "use it",
                f"labeldp fit {out}" + (" --data …" if released.needs_rows else ""),
            ),
        ],
    )
