"""labeldp release"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from labeldp.cli.derived import given, told
from labeldp.cli.options import Budget, EngineOptions, Json, LedgerOptions, Table, Verbose
from labeldp.cli.output import emit_facts, emit_json, note
from labeldp.cli.plan import PlanOptions, asked, forecast_facts, planned, show_notes
from labeldp.errors import InputError
from labeldp.io_util import check_target
from labeldp.mechanisms.options import Encoding, names, option
from labeldp.mechanisms.protocol import Demonstration, number
from labeldp.mechanisms.registry import demonstrations, mechanism_named

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.learners.models import Quality
    from labeldp.mechanisms.plans import Plan
    from labeldp.passes.engine import Engine
    from labeldp.release.files import Release


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
    reading: EngineOptions,
    paying: LedgerOptions,
    how: ReleaseOptions,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Publish private aggregates with a certificate, as one new directory.

    Exit 1 if the numbers that were drawn do not show predictions to beat the mean of the labels.
    """
    check_target(out)
    shown = options.mechanism in demonstrations()
    if how.not_private and not shown:
        raise InputError(f"--not-private is for {' and '.join(demonstrations())}; leave it out")
    payment = paying.payment()
    here = given(context)
    settled = _settled(here, options, encoding)
    made = None if how.plan is None else _loaded(how.plan, settled)
    runner = reading.make()
    if made is None:
        source = table.source(reading.engine, encoding.formula)
    else:
        source = table.planned(made, reading.engine, here)
    if shown:
        warning = _demonstrate(out, source, runner, options, encoding, settled, how.not_private)
        note(warning)
        if json:
            emit_json({"release": str(out), "certificate": None, "warning": warning})
        return 0
    if made is None:
        chosen = asked(context, budget, options, encoding)
        made, _ = planned(options.mechanism, chosen, source, runner)
    show_notes(made, verbose)
    released = _draw(made, out, source, runner, how, payment)
    from labeldp.learners.linear import release_quality  # late: a refusal needs no learner

    found = release_quality(released, source)
    if json:
        emit_json(_document(out, released, found))
    else:
        show_release(made, released, found, out)
    if found is None or found.beats_the_constant:
        return 0
    note(
        f"WARNING: the numbers in {out} do not show that predictions beat the mean of the labels: "
        f"{_shown(found)}; "
        "its budget is spent, but think before you publish (--anyway: exit 0 all the same)"
    )
    return 0 if options.anyway or made.anyway else 1


def _settled(here: dict[str, str], options: Any, encoding: Encoding) -> dict[str, str]:
    """What is said here that a plan settles."""
    of_plan = {*names(Budget), *names(options), *names(encoding)} - {"anyway"}
    return {name: flag for name, flag in here.items() if name in of_plan}


def _demonstrate(
    out: Path,
    source: Source,
    engine: Engine,
    options: Any,
    encoding: Encoding,
    settled: dict[str, str],
    not_private: bool,
) -> str:
    """Write what is never private; a warning."""
    demonstration: Demonstration = demonstrations()[options.mechanism].load()
    own = {name: getattr(options, name) for name in ("mechanism", *demonstration.options)}
    foreign = {n: flag for n, flag in settled.items() if n not in (*own, *names(encoding))}
    _refuse(foreign, f"does not apply to {options.mechanism}; leave it out")
    return demonstration.release(out, source, engine, encoding, not_private=not_private, **own)


def _draw(
    made: Plan,
    out: Path,
    source: Source,
    engine: Engine,
    how: ReleaseOptions,
    payment: dict[str, Any],
) -> Release:
    """Read the labels and write the release; what was not said about it is told."""
    from labeldp.sampling.streams import Randomness  # late: it brings NumPy, which no help needs

    keys = Randomness.from_os()  # given, so that a doubt about its use is told here alone
    released = made.release_to(
        out,
        source,
        engine=engine,
        about=how.about,
        randomness=keys,
        again=how.again,
        **payment,
    )
    about = released.certificate["about"]
    if about is not None and about["missing"]:
        note(f"{how.about} does not say: {', '.join(about['missing'])}")
    return released


def _document(out: Path, released: Release, found: Quality | None) -> dict[str, Any]:
    quality = None
    if found is not None:
        quality = asdict(found) | {"beats_the_constant": found.beats_the_constant}
    return {"release": str(out), "certificate": released.certificate, "quality": quality}


def _loaded(plan: Path, settled: dict[str, str]) -> Plan:
    """The plan of a file, beside which nothing of it is said again."""
    from labeldp.mechanisms.plans import Plan

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
    count = "1 release" if book["releases"] == 1 else f"{book['releases']} releases together"
    return [("ledger", f"entry {book['entry']}; {count}: {total}")]


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
            ("use it", released.fit_command(out)),
        ],
    )
