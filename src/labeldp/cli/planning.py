"""Commands that lead to a release: look, plan, release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.checking import write_report
from labeldp.cli.options import (
    Command,
    column_options,
    data_argument,
    json_option,
    make_engine,
    option,
    plan_options,
    scan_planned,
    scan_table,
    split_options,
    text_options,
    verbose_option,
)
from labeldp.cli.output import draw_pictures, emit_facts, emit_json, emit_table, in_flags, note, say
from labeldp.errors import InputError
from labeldp.io_util import check_target, new_path
from labeldp.mechanisms.description import REMARKS, number
from labeldp.mechanisms.options import Encoding, make_options, names

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.learners.models import Quality
    from labeldp.passes.engine import Engine
    from labeldp.pictures import Picture
    from labeldp.planning import ForecastPoint, Plan
    from labeldp.release.files import Release

MOST_NOTES = 5
"""Shown without --verbose."""
_NO_LABEL = (
    "no label column was named, so every column is treated as a public feature; name it (--label), "
    "or do not pass on what is shown of it"
)


@click.command(cls=Command)
@data_argument
@option("--label", metavar="COLUMN", help="The private column; its facts are for the curator only.")
@column_options
@option("--html", type=Path, metavar="FILE", help="Write one HTML page to this new file.")
@text_options
@json_option
def look(data: str, html: Path | None, as_json: bool, **options: Any) -> None:
    """Show what a table holds and which options a release of it needs."""
    from labeldp.profile.look import look as profile
    from labeldp.profile.page import page

    if html is not None:
        check_target(html)
    keywords, _ = split_options(options)
    answer = profile(data, **keywords)
    for name in ("findings", "notes"):
        answer[name] = [in_flags(text) for text in answer[name]]
    note(answer["label"]["warning"] if "label" in keywords else _NO_LABEL)
    if html is not None:
        with new_path(html) as partial:
            partial.write_text(page(answer), encoding="utf-8")
    if as_json:
        emit_json(answer)
    else:
        _show_profile(answer)


def _show_profile(answer: dict[str, Any]) -> None:
    from labeldp.profile.page import cells, command, label_facts, summary

    rows = [
        [name, kind, distinct, missing, ends or why]
        for name, kind, why, distinct, missing, ends in map(cells, answer["columns"])
    ]
    title = f"{answer['table']}: {summary(answer)}"
    emit_table(title, ["column", "kind", "distinct", "missing", REMARKS], rows)
    for text in (*answer["notes"], *answer["findings"]):
        sentence, *code = text.split("\n")
        say(f"- {sentence}", indent="  ")
        for line in code:
            print(f"      {line}")
    if answer["label"] is not None:
        print()
        facts, before = [], ""
        for name, value in label_facts(answer["label"]):
            facts.append(("" if name == before else name, value))
            before = name
        emit_facts("Label (for the curator only)", facts)
    print(f"\n{command(answer)}")


@click.command(cls=Command)
@plan_options
@verbose_option
@option("--out", type=Path, help="Write the plan to this new file, for release --plan.")
@option("--report", type=Path, metavar="FILE", help="Write an HTML page to read and sign.")
@option("--compare", is_flag=True, help="Show the forecast of every mechanism; bags are simulated.")
@option("--curve", is_flag=True, help="Show the forecast at smaller and larger ε, too.")
@option("--plots", type=Path, help="Draw --curve into this new directory; needs the extra plots.")
@json_option
def plan(
    data: str,
    out: Path | None,
    report: Path | None,
    compare: bool,
    curve: bool,
    plots: Path | None,
    engine_name: str,
    threads: int | None,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what a release would publish and guarantee; reads features and no labels."""
    for target in filter(None, (out, report, plots)):
        check_target(target)
    if plots is not None:
        from labeldp.pictures import need_matplotlib

        need_matplotlib()
    engine = make_engine(engine_name, threads)
    scan_keywords, keywords = split_options(options)
    source = scan_table(data, engine_name, scan_keywords, keywords.get("formula"))
    if compare:
        planned, offers = _compare(source, engine, dict(keywords))
    else:
        planned, offers = make_plan(source, engine, keywords), []
    show_notes(planned, verbose)
    if out is not None:
        planned.save(out)
    if report is not None:
        from labeldp.report.document import plan_report

        write_report(report, plan_report(planned))
    points = _forecast_curve(source, planned, engine, keywords) if curve or plots else []
    if plots is not None:
        draw_pictures([_curve_picture(points, planned.claim.epsilon)], plots)
    if as_json:
        more = {"comparison": offers, "forecast_curve": [point.to_json() for point in points]}
        emit_json(planned.to_json() | {name: value for name, value in more.items() if value})
        return
    if offers:
        _show_offers(offers)
    if planned.bases:
        _show_bases(planned)
    _show_plan(planned)
    if points:
        _show_curve(points)


def make_plan(source: Source, engine: Engine, keywords: dict[str, Any]) -> Plan:
    """Return the plan for the keywords that the user has set."""
    from labeldp.planning import plan as make

    return make(source, engine=engine, **keywords)


def _compare(
    source: Source, engine: Engine, keywords: dict[str, Any]
) -> tuple[Plan, list[dict[str, Any]]]:
    """Return the plan and what every mechanism would give; `auto` takes the best of these."""
    from labeldp.choose import best_plan, compare
    from labeldp.mechanisms.options import AUTO, DELTA, EPSILON
    from labeldp.planning import finish_plan

    mechanism, force = keywords.pop("mechanism", AUTO), keywords.pop("force", False)
    keywords.pop("use", None)
    keywords = {"epsilon": EPSILON, "delta": DELTA} | keywords
    if keywords.get("basis") == AUTO:
        raise InputError("--compare needs a basis that is named, not auto; name one")
    offers = compare(source, engine, **keywords)
    if mechanism == AUTO:
        planned = finish_plan(best_plan(offers), keywords, source, engine, force=force)
    else:
        more = {"mechanism": mechanism, "force": force}
        planned = make_plan(source, engine, keywords | more)
    return planned, [in_flags(offer.to_json()) for offer in offers]


def _forecast_curve(
    source: Source, planned: Plan, engine: Engine, keywords: dict[str, Any]
) -> list[ForecastPoint]:
    """Return the forecast of the same mechanism at other ε, everything else unchanged."""
    from labeldp.mechanisms.options import DELTA, EPSILON
    from labeldp.planning import forecast_curve

    same = {"epsilon": EPSILON, "delta": DELTA} | keywords
    same |= {"mechanism": planned.claim.mechanism}
    for name in ("force", "use"):
        same.pop(name, None)
    return forecast_curve(source, engine=engine, **same)


def show_notes(planned: Plan, verbose: bool) -> None:
    """Print warnings and the most important notes of a plan."""
    for text in planned.warnings:
        note(f"WARNING: {text}")
    shown = planned.notes if verbose else planned.notes[:MOST_NOTES]
    for text in shown:
        note(text)
    if len(shown) < len(planned.notes):
        note(f"and {len(planned.notes) - len(shown)} more notes with --verbose")


def _show_offers(offers: list[dict[str, Any]]) -> None:
    emit_table(
        f"Mechanisms at this budget; recommended: {offers[0]['mechanism']}",
        ["mechanism", "aggregates", "rows", "MSE", "excess", REMARKS],
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


def _show_bases(planned: Plan) -> None:
    emit_table(
        "Bases at this budget, from the poorest to the richest that was tried",
        ["basis", "columns", "privacy adds", "of the range", "kept"],
        [
            [
                each["basis"],
                number(each["columns"]),
                number(each["added_rms"]),
                f"{each['added_of_range']:.2%}" + ("" if each["allowed"] else ", too much"),
                f"{max(0.0, each['kept']):.1%}",
            ]
            for each in planned.bases
        ],
    )


_RESIDUAL = {
    "guess": "residual mean square that was guessed",
    "stated": "residual mean square that was stated",
}


def _show_plan(planned: Plan) -> None:
    claim, forecast = planned.claim, planned.forecast
    emit_facts("Plan (from public facts; no label was read)", _plan_facts(claim.to_json()))
    emit_facts("Forecast of a least-squares fit", _forecast_facts(planned))
    residual = f"{_RESIDUAL[forecast.residual_source]}, {number(forecast.residual_ms)}"
    low, high = f"{forecast.excess_low:.3%}", f"{forecast.excess_high:.3%}"
    emit_facts(
        f"The same for a {residual}",
        [
            ("mean squared error of the fit", number(forecast.mean_mse, 6)),
            ("its excess over a fit with all labels", f"{forecast.excess_mean:.3%} on average"),
            ("", f"{low} to {high} in 90 % of releases"),
        ],
    )
    emit_table("Privacy curve", ["ε", "δ(ε)"], [[f"{e:g}", f"{d:.3g}"] for e, d in claim.curve()])


def _plan_facts(claim: dict[str, Any]) -> list[tuple[str, str]]:
    from labeldp.mechanisms.registry import mechanism_named

    rows = "1 row" if claim["bag_size"] == 1 else f"{number(claim['bag_size'])} rows"
    facts = [
        ("rows, independent columns", f"{number(claim['rows'])}, {claim['rank']}"),
        ("budget", f"ε = {claim['epsilon']:g}, δ = {claim['delta']:g}"),
        ("mechanism, accountant", f"{claim['mechanism']}, {claim['accountant']['name']}"),
        ("aggregates", f"{number(claim['bags'])} of {rows} each"),
        *mechanism_named(claim["mechanism"]).describe(claim).plan,
    ]
    if claim["max_leverage"] is not None:
        facts.insert(1, ("largest leverage", number(claim["max_leverage"])))
    return facts


def _forecast_facts(planned: Plan) -> list[tuple[str, str]]:
    """Return what privacy adds to a prediction, in label units, and what a fit keeps."""
    forecast, (low, high) = planned.forecast, planned.labels.range
    mean, least, most = (
        math.sqrt(value) for value in (forecast.added_mse, forecast.added_low, forecast.added_high)
    )
    residual = _RESIDUAL[forecast.residual_source]
    basis = "for any labels" if forecast.added_exact else f"for a {residual}"
    share = f"{100 * mean / (high - low):.2g}% of the label range"
    return [
        ("error that privacy adds", f"{number(mean)} in a prediction, root mean square ({share})"),
        ("", f"{number(least)} to {number(most)} in 90 % of releases, {basis}"),
        (
            "kept of what features explain",
            f"up to {max(0.0, planned.explained_share_kept):.0%}, if they explain half of the "
            "label's variance",
        ),
    ]


def _show_curve(points: Sequence[ForecastPoint]) -> None:
    emit_table(
        "Forecast against ε: error that privacy adds to a prediction, root mean square",
        ["ε", "mechanism", "error", "5 %", "95 %", "of the range", "kept"],
        [
            [
                f"{point.epsilon:g}",
                point.mechanism or "–",
                *(number(value) for value in (point.error, point.low, point.high)),
                None if point.of_range is None else f"{point.of_range:.2%}",
                point.reason or (None if point.kept is None else f"{max(0.0, point.kept):.0%}"),
            ]
            for point in points
        ],
    )


def _curve_picture(points: Sequence[ForecastPoint], epsilon: float) -> Picture:
    """Return a plot of the error against ε, with its quantiles over releases."""
    from labeldp.pictures import Curve, Picture

    drawn = [point for point in points if point.error is not None]
    middle, low, high = (
        tuple(getattr(point, name) or math.nan for point in drawn)
        for name in ("error", "low", "high")
    )
    x = tuple(point.epsilon for point in drawn)
    asked = next((point.error for point in drawn if point.epsilon == epsilon), None)
    return Picture(
        name="forecast",
        title="Forecast from features alone: no label was read",
        x_label="ε",
        y_label="error that privacy adds to a prediction (label units)",
        curves=(Curve("root mean square, 5–95 % of releases", x, middle, low, high, "line"),),
        levels=() if asked is None else ((f"at ε = {epsilon:g}", asked),),
        log_x=True,
        log_y=True,
    )


_RELEASE = "Release options"


@click.command(cls=Command)
@plan_options
@verbose_option
@option("--out", type=Path, required=True, help="The release directory to create.")
@option(
    "--plan",
    "plan_file",
    type=Path,
    help="A plan from `labeldp plan --out`; its options need not be repeated.",
)
@option(
    "--ledger",
    type=Path,
    metavar="FILE",
    envvar="LABELDP_LEDGER",
    needed=lambda present: "dataset" in present,
    help="Debit the release in this ledger first (default: LABELDP_LEDGER).",
)
@option(
    "--dataset",
    metavar="NAME",
    needed=lambda present: "ledger" in present,
    help="The name of the table in the ledger.",
)
@option(
    "--about",
    type=Path,
    metavar="FILE",
    group=_RELEASE,
    help="Facts for the certificate that only you know, as TOML.",
)
@option(
    "--again",
    is_flag=True,
    group=_RELEASE,
    help="Release a plan once more without a ledger; this costs its budget again.",
)
@option(
    "--not-private",
    is_flag=True,
    group=_RELEASE,
    help="Allow naive-flag and naive-lag, which are never private.",
)
@json_option
def release(
    data: str,
    out: Path,
    plan_file: Path | None,
    ledger: Path | None,
    dataset: str | None,
    about: Path | None,
    again: bool,
    not_private: bool,
    engine_name: str,
    threads: int | None,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Publish private aggregates with a certificate, as one new directory.

    Exits with 1 if the published numbers do not show that predictions beat the mean of the labels.
    """
    from labeldp.mechanisms.demonstrations import demonstrations

    check_target(out)
    scan_keywords, keywords = split_options(options)
    demonstration = keywords.get("mechanism") in demonstrations()
    if not_private and not demonstration:
        raise InputError(f"--not-private is for {' and '.join(demonstrations())}; leave it out")
    payment = _payment(ledger, dataset)
    planned = None
    if plan_file is not None:
        _refuse_beside_plan(keywords)
        from labeldp.planning import Plan

        planned = Plan.load(plan_file)
    engine = make_engine(engine_name, threads)
    if planned is None:
        source = scan_table(data, engine_name, scan_keywords, keywords.get("formula"))
    else:
        source = scan_planned(data, engine_name, scan_keywords, planned)
    if demonstration:
        warning = _demonstrate(out, source, engine, keywords, not_private)
        note(warning)
        if as_json:
            emit_json({"release": str(out), "certificate": None, "warning": warning})
        return 0
    if planned is None:
        planned = make_plan(source, engine, keywords)
    show_notes(planned, verbose)

    from labeldp.learners.linear import release_quality
    from labeldp.sampling.streams import Randomness

    released = planned.release_to(
        out,
        source,
        engine=engine,
        about=about,
        randomness=Randomness.from_os(),  # given, so that its doubts are printed here only
        again=again,
        **payment,
    )
    facts = released.certificate["about"]
    if facts is not None and facts["missing"]:
        note(f"{about} does not say: {', '.join(facts['missing'])}")
    quality = release_quality(released, source)
    if as_json:
        emit_json(_release_document(out, released, quality))
    else:
        _show_release(planned, released, quality, out)
    if quality is None or quality.beats_the_constant:
        return 0
    note(
        f"WARNING: the numbers in {out} do not show that predictions beat the mean of the labels: "
        f"{_doubt(quality)}; its budget is spent, but think before you publish "
        "(--force: exit 0 all the same)"
    )
    return 0 if keywords.get("force") or planned.force else 1


def _payment(ledger: Path | None, dataset: str | None) -> dict[str, Any]:
    """Return the ledger keywords of `Plan.release_to`; a missing ledger is refused here."""
    if ledger is None:
        return {}
    from labeldp.ledger.ledger import Ledger

    return {"ledger": Ledger(ledger), "dataset": dataset}


def _refuse_beside_plan(keywords: dict[str, Any]) -> None:
    """Refuse options that would silently not count, because the plan has fixed them."""
    for name in keywords:
        if name != "force":
            raise InputError(
                f"`{name}` is settled by the plan; leave it out, or plan again with it"
            )


def _demonstrate(
    out: Path, source: Source, engine: Engine, keywords: dict[str, Any], not_private: bool
) -> str:
    """Write sums that are never private; return a warning."""
    from labeldp.mechanisms.demonstrations import demonstrations

    demonstration = demonstrations()[keywords["mechanism"]].load()
    own = ("mechanism", *demonstration.options)
    for name in keywords:
        if name not in (*own, "force", *names(Encoding)):
            raise InputError(f"`{name}` does not apply to {keywords['mechanism']}; leave it out")
    encoding = make_options(Encoding, {n: keywords[n] for n in names(Encoding) if n in keywords})
    warning: str = demonstration.release(
        out,
        source,
        engine,
        encoding,
        not_private=not_private,
        **{name: keywords.get(name) for name in own},
    )
    return warning


def _release_document(out: Path, released: Release, quality: Quality | None) -> dict[str, Any]:
    facts = None
    if quality is not None:
        facts = asdict(quality) | {"beats_the_constant": quality.beats_the_constant}
    return {"release": str(out), "certificate": released.certificate, "quality": facts}


def _doubt(quality: Quality) -> str:
    if quality.worse is not None:
        return f"the probability that they are worse is {quality.worse:.2g}"
    gain = f"{number(quality.gain)} ± {number(quality.gain_error)}"
    return f"their gain in mean squared error is {gain}"


def _show_release(planned: Plan, released: Release, quality: Quality | None, out: Path) -> None:
    from labeldp.mechanisms.registry import mechanism_named

    certificate = released.certificate
    rows = number(certificate["bag_size"])
    facts = [
        ("aggregates", f"{number(released.bags)}, each over {rows} rows"),
        ("guarantee", f"label-DP, ε = {planned.claim.epsilon:g}, δ = {planned.claim.delta:g}"),
        ("accountant", certificate["accountant"]["name"]),
    ]
    entry = certificate["ledger"]
    if entry is not None:
        total = f"ε = {entry['epsilon']:.4g} at δ = {entry['delta']:g}"
        count = "1 release" if entry["releases"] == 1 else f"{entry['releases']} releases together"
        facts.append(("ledger", f"entry {entry['entry']}; {count}: {total}"))
    facts += mechanism_named(certificate["mechanism"]).describe(certificate).release
    facts += _forecast_facts(planned)
    if quality is not None:
        gain = f"{number(quality.gain)} ± {number(quality.gain_error)} in mean squared error"
        r2 = "" if quality.r2 is None else f"; R² {quality.r2:.2f} ± {quality.r2_error:.2f}"
        facts.append(("gain over the mean of labels", f"{gain}, estimated from the release{r2}"))
    facts += [
        ("best attack", certificate["attack_risk"]["in_words"]),
        ("check it", f"labeldp verify {out}"),
        ("use it", released.fit_command(out)),
    ]
    emit_facts(f"Released {out}", facts)
