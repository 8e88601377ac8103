"""Commands that lead to a release: look, plan, release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import (
    Command,
    column_options,
    data_argument,
    help_all_option,
    json_option,
    make_engine,
    option,
    plan_options,
    scan_table,
    split_options,
    text_options,
    together,
    verbose_option,
)
from labeldp.cli.output import (
    REMARKS,
    emit_facts,
    emit_json,
    emit_table,
    in_flags,
    note,
    say,
    write_text,
)
from labeldp.display import headline, number
from labeldp.errors import InputError
from labeldp.io_util import check_target

if TYPE_CHECKING:
    from labeldp.learners.models import Quality
    from labeldp.planning import Plan
    from labeldp.releases.files import Release

MOST_NOTES = 3
"""Shown without --verbose."""
_NO_LABEL = (
    "no label column was named, so every column is treated as a public feature; name it (--label), "
    "or do not pass on what is shown of it"
)


@click.command(cls=Command)
@data_argument
@option("--label", metavar="COLUMN", help="The private column; its facts are for the curator only.")
@column_options
@option("--html", type=Path, metavar="FILE", help="Write an HTML page to this new file.")
@text_options
@help_all_option
@json_option
def look(data: str, html: Path | None, as_json: bool, **options: Any) -> None:
    """Show what a table holds and which options a release of it needs."""
    from labeldp.profile import command, look as profile, summary

    if html is not None:
        check_target(html)
    keywords, _ = split_options(options)
    answer = profile(data, **keywords)
    for name in ("findings", "notes"):
        answer[name] = [in_flags(text) for text in answer[name]]
    if html is not None:
        from labeldp.reporting import look_page

        write_text(html, look_page(answer))
    note(answer["label"]["warning"] if "label" in keywords else _NO_LABEL)
    if as_json:
        emit_json(answer)
        return
    shown = ("name", "kind", "distinct", "missing", "why")
    rows = [[each[name] for name in shown] for each in answer["columns"]]
    emit_table(f"{answer['table']}: {summary(answer)}", ["column", *shown[1:-1], REMARKS], rows)
    for text in (*answer["findings"], *answer["notes"]):
        sentence, *code = text.split("\n")
        say(f"- {sentence}", indent="  ")
        for line in code:
            print(f"      {line}")
    print(f"\n{command(answer)}")


@click.command(cls=Command)
@plan_options
@verbose_option
@option("--out", type=Path, help="Write the plan to this new file, for release --plan.")
@option("--report", type=Path, metavar="FILE", help="Write an HTML page to read and sign.")
@option("--curve", is_flag=True, help="Forecast the error at other ε, too, also in the report.")
@json_option
def plan(
    data: str,
    out: Path | None,
    report: Path | None,
    curve: bool,
    engine_name: str,
    threads: int | None,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what a release would publish and guarantee; reads features and no labels."""
    from labeldp.planning import forecast_curve, plan as make_plan

    for target in filter(None, (out, report)):
        check_target(target)
    engine = make_engine(engine_name, threads)
    scan_keywords, keywords = split_options(options)
    source = scan_table(data, engine_name, scan_keywords, formula=keywords.get("formula"))
    planned = make_plan(source, engine=engine, **keywords)
    if out is not None:
        planned.save(out)
    points = forecast_curve(source, planned, engine, **keywords) if curve else []
    if report is not None:
        from labeldp.reporting import plan_report, report_page

        write_text(report, report_page(plan_report(planned, points)))
    if as_json:
        emit_json(planned.to_json() | ({"forecast_curve": points} if curve else {}))
        show_notes(planned, planned.notes, verbose)
        return
    facts = planned.facts if verbose else planned.headline
    if out is not None:
        facts += [("", ""), ("release it", f"labeldp release {data} --plan {out} --out DIRECTORY")]
    emit_facts("Plan, made without reading a label", facts)
    if curve:
        errors = [list(each.values()) for each in points]
        emit_table("Error of a prediction at other ε", ["ε", "error"], errors)
    if verbose:
        rows = [[f"{e:g}", f"{d:.3g}"] for e, d in planned.claim.curve()]
        emit_table("Privacy curve", ["ε", "δ(ε)"], rows)
    show_notes(planned, planned.notes, verbose)


def show_notes(planned: Plan, notes: Sequence[str], verbose: bool) -> None:
    """Print the warnings of a plan and the most important notes."""
    for text in planned.warnings:
        note(f"WARNING: {text}")
    texts = notes if verbose else notes[:MOST_NOTES]
    for text in texts:
        note(text)
    if len(texts) < len(notes):
        note(f"{len(notes) - len(texts)} more with --verbose")


@click.command(cls=Command)
@plan_options
@verbose_option
@option("--out", type=Path, required=True, help="The release directory to create.")
@option("--plan", "plan_file", type=Path, help="A plan file, instead of the options it contains.")
@option(
    "--ledger",
    "ledger_file",
    type=Path,
    metavar="FILE",
    envvar="LABELDP_LEDGER",
    help="Debit the release in this ledger first (default: LABELDP_LEDGER).",
)
@option("--dataset", metavar="NAME", help="Name of the table in the ledger.")
@together(
    option("--about", type=Path, metavar="FILE", help="TOML file of facts that only you know."),
    option("--again", is_flag=True, help="Release a plan once more; this costs its budget again."),
    group="Release options",
)
@json_option
def release(
    data: str,
    out: Path,
    plan_file: Path | None,
    ledger_file: Path | None,
    dataset: str | None,
    about: Path | None,
    again: bool,
    engine_name: str,
    threads: int | None,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Publish private aggregates with a certificate, as one new directory.

    Exits with 1 if the published numbers do not show that predictions beat the mean of the labels.
    """
    from labeldp.learners.linear import release_quality
    from labeldp.ledger.ledger import Ledger
    from labeldp.planning import Plan, plan as make_plan
    from labeldp.sampling.streams import Randomness

    check_target(out)
    scan_keywords, keywords = split_options(options)
    if (ledger_file is None) != (dataset is None):
        raise InputError("--ledger (or LABELDP_LEDGER) and --dataset go together; give both")
    ledger = None if ledger_file is None else Ledger(ledger_file)
    planned = None
    if plan_file is not None:
        for name in keywords:  # it would silently not count
            if name != "force":
                raise InputError(f"`{name}` is settled by the plan; leave it out, or plan again")
        planned = Plan.load(plan_file)
    engine = make_engine(engine_name, threads)
    formula = keywords.get("formula")
    source = scan_table(data, engine_name, scan_keywords, formula=formula, plan=planned)
    if planned is None:
        planned = make_plan(source, engine=engine, **keywords)
    released = planned.release_to(
        out,
        source,
        engine=engine,
        about=about,
        randomness=Randomness.from_os(),  # given, so that its doubts are printed here only
        again=again,
        ledger=ledger,
        dataset=dataset,
    )
    quality = release_quality(released, source)
    if as_json:
        facts = None
        if quality is not None:
            facts = asdict(quality) | {"beats_the_constant": quality.beats_the_constant}
        emit_json({"release": str(out), "certificate": released.certificate, "quality": facts})
    else:
        emit_facts("", _release_facts(released, quality, out))
        if verbose:
            attack = ("best attack", released.certificate["attack_risk"]["in_words"])
            emit_facts("As planned", [*planned.facts, attack])
    notes = list(planned.notes)
    stated = released.certificate["about"]
    if stated is not None and stated["missing"]:
        notes.insert(0, f"{about} does not say: {', '.join(stated['missing'])}")
    if quality is not None and quality.r2_warning is not None:
        notes.insert(0, quality.r2_warning)
    show_notes(planned, notes, verbose)
    if quality is None or quality.beats_the_constant:
        return 0
    note(
        f"WARNING: {quality.usefulness_warning} The budget of {out} is spent, but think before you "
        "publish it. The exit code is 1 (0 with --force)."
    )
    return 0 if keywords.get("force") or planned.force else 1


def _release_facts(released: Release, quality: Quality | None, out: Path) -> list[tuple[str, str]]:
    certificate, entry = released.certificate, released.certificate["ledger"]
    unknown = "not known: the release does not show its noise, or has too many columns"
    facts = [
        *headline(certificate),
        ("gain", unknown if quality is None else quality.in_words),
        ("", ""),
        ("release", f"{out} ({number(certificate['bags'])} aggregates and their certificate)"),
        ("check it", f"labeldp verify {out}"),
        ("use it", released.fit_command(out)),
    ]
    if entry is not None:
        cost = f"ε = {entry['epsilon']:.4g} at δ = {entry['delta']:g}"
        words = f"entry {entry['entry']}; this table has cost {cost} in all"
        facts.append(("ledger", words))
    return facts
