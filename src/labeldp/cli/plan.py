"""labeldp plan, and what it shares with release"""

from __future__ import annotations

import math
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from labeldp.cli.curve import along_epsilon, curve_picture, show_curve
from labeldp.cli.derived import given, merged
from labeldp.cli.options import Budget, EngineOptions, Json, Table, Verbose
from labeldp.cli.output import draw_all, emit_facts, emit_json, emit_table, in_flags, note
from labeldp.errors import InputError
from labeldp.io_util import check_target, new_path
from labeldp.mechanisms.options import Encoding, option
from labeldp.mechanisms.protocol import LINEAR, REMARKS, USES, number
from labeldp.mechanisms.registry import AUTO, mechanism_named, mechanism_names, mechanisms
from labeldp.pictures import need_matplotlib

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.mechanisms.plans import Plan
    from labeldp.passes.engine import Engine


MOST_NOTES = 5
"""Shown unless all are asked for."""
ANYWAY = "Go on where predictions cannot be shown to beat the mean of the labels."


def plan_options() -> type[Any]:
    """Which mechanism and accountant, and every option that some mechanism declares."""
    known = mechanisms()
    *others, last = dict.fromkeys(a for m in known for a in reversed(m.accountants))
    which = f"{', '.join(mechanism_names())}, or {AUTO}: the one that adds least."
    choice = make_dataclass(
        "Choice",
        [
            ("mechanism", str, option(AUTO, which)),
            ("use", str, option(LINEAR, f"What the release is for: {' or '.join(USES)}.")),
            (
                "accountant",
                str,
                option("exact", f"Who computes the guarantee: {', '.join(others)} or {last}."),
            ),
            ("anyway", bool, option(False, ANYWAY, flag="--anyway")),
        ],
        namespace={"__doc__": "Which mechanism."},
    )
    return merged("PlanOptions", [choice, *(mechanism.options for mechanism in known)])


PlanOptions = Annotated[Any, plan_options]
"""A dataclass; what it holds depends on the mechanisms there are."""


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options: what is made of a plan, and shown beside it."""

    out: Path | None = option(None, "Write the plan here, for release --plan.")
    compare: bool = option(False, "Show every mechanism's forecast; bags are simulated.")
    report: Path | None = option(None, "Write an HTML page to read and sign before the release.")
    curve: bool = option(False, "Show the forecast at smaller and larger ε too.")
    plots: Path | None = option(
        None, "Draw --curve into this new directory; needs the extra plots."
    )

    def check(self) -> None:
        """Refuse what could not be written in the end."""
        for target in filter(None, (self.out, self.report, self.plots)):
            check_target(target)
        if self.plots is not None:
            need_matplotlib()


def plan(
    context: click.Context,
    table: Table,
    budget: Budget,
    options: PlanOptions,
    encoding: Encoding,
    reading: EngineOptions,
    outputs: OutputOptions,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """What a release would publish and promise. Reads features and no labels."""
    outputs.check()
    runner, source = reading.make(), table.source(reading.engine, encoding.formula)
    chosen = asked(context, budget, options, encoding)
    made, offers = planned(options.mechanism, chosen, source, runner, compared=outputs.compare)
    show_notes(made, verbose)
    if outputs.out is not None:
        made.save(outputs.out)
    if outputs.report is not None:
        from labeldp.report.document import plan_report

        write_report(outputs.report, plan_report(made))
    points = along_epsilon(source, made, runner, chosen) if outputs.curve or outputs.plots else []
    if outputs.plots is not None:
        draw_all([curve_picture(points, made.claim.epsilon)], outputs.plots)
    if json:
        more = {"comparison": offers, "forecast_curve": [point.to_json() for point in points]}
        emit_json(made.to_json() | {name: value for name, value in more.items() if value})
        return
    if offers:
        show_offers(offers)
    if made.bases:
        show_bases(made)
    show_plan(made)
    if points:
        show_curve(points)


def write_report(target: Path, told: dict[str, Any]) -> None:
    """One HTML file."""
    from labeldp.report.page import page

    with new_path(target) as partial:
        partial.write_text(page(told), encoding="utf-8")


def asked(
    context: click.Context, budget: Budget, options: Any, encoding: Encoding
) -> dict[str, Any]:
    """The keywords of `plan` that stand on the command line, and the budget."""
    there = given(context)
    chosen = vars(options) | vars(encoding)
    return vars(budget) | {
        name: value for name, value in chosen.items() if name in there and name != "mechanism"
    }


def planned(
    mechanism: str,
    chosen: dict[str, Any],
    source: Source,
    engine: Engine,
    *,
    compared: bool = False,
) -> tuple[Plan, list[dict[str, Any]]]:
    """The plan that was asked for and, with --compare, what every mechanism would give.

    Of all that were compared, `auto` then takes the best.
    """
    from labeldp.planning.verbs import plan

    if not compared:
        return plan(source, mechanism=mechanism, engine=engine, **chosen), []
    from labeldp.planning.comparison import best_of, compare
    from labeldp.planning.worth import utility_check

    anyway = chosen.pop("anyway", False)
    if chosen.get("basis") == AUTO:
        raise InputError("`--compare` needs a basis that is named, not auto; name one")
    offers = compare(source, engine, **chosen)
    if mechanism == AUTO:
        made = utility_check(best_of(offers), source, engine, chosen, anyway=anyway)
    else:
        made = plan(source, mechanism=mechanism, engine=engine, anyway=anyway, **chosen)
    return made, [in_flags(offer.to_json()) for offer in offers]


def show_notes(made: Plan, verbose: bool) -> None:
    """Warnings and the notes that matter most; the others if they are asked for."""
    for text in made.warnings:
        note(f"WARNING: {text}")
    shown = made.notes if verbose else made.notes[:MOST_NOTES]
    for text in shown:
        note(text)
    if len(shown) < len(made.notes):
        note(f"and {len(made.notes) - len(shown)} more notes with --verbose")


def show_offers(offers: list[dict[str, Any]]) -> None:
    """The mechanisms side by side, the best first."""
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


def show_bases(made: Plan) -> None:
    """What was tried, from the poorest to the richest."""
    emit_table(
        "Bases at this budget: the last that privacy adds little to was chosen",
        ["basis", "columns", "privacy adds", "of the range", "kept"],
        [
            [
                each["basis"],
                number(each["columns"]),
                number(each["added_rms"]),
                f"{each['added_of_range']:.2%}" + ("" if each["allowed"] else ", too much"),
                f"{max(0.0, each['kept']):.1%}",
            ]
            for each in made.bases
        ],
    )


def show_plan(made: Plan) -> None:
    """The plan in one screen."""
    claim, guess = made.claim, made.forecast
    emit_facts("Plan (from public facts; no label was read)", plan_facts(claim.to_json()))
    emit_facts("Forecast of a least-squares fit", forecast_facts(made))
    emit_facts(
        f"The same beside a {_RESIDUAL[guess.residual_source]}, {number(guess.residual_ms)}",
        [
            ("mean squared error of the fit", number(guess.mean_mse, 6)),
            ("its excess over a fit with all labels", f"{guess.excess_mean:.3%} on average"),
            ("", f"{guess.excess_low:.3%} to {guess.excess_high:.3%} in 90 % of releases"),
        ],
    )
    emit_table("Privacy curve", ["ε", "δ(ε)"], [[f"{e:g}", f"{d:.3g}"] for e, d in claim.curve()])


def forecast_facts(made: Plan) -> list[tuple[str, str]]:
    """What privacy adds to a prediction, in label units, and what it leaves of the explained."""
    guess, (low, high) = made.forecast, made.labels.range
    mean, least, most = (
        math.sqrt(value) for value in (guess.added_ms, guess.added_low, guess.added_high)
    )
    whose = (
        "whatever the labels" if guess.added_exact else f"by a {_RESIDUAL[guess.residual_source]}"
    )
    return [
        (
            "error that privacy adds",
            f"{number(mean)} in a prediction, root mean square "
            f"({100 * mean / (high - low):.2g}% of the label range)",
        ),
        ("", f"{number(least)} to {number(most)} in 90 % of releases, {whose}"),
        (
            "left of what features explain",
            f"at most {max(0.0, made.kept):.0%} in predictions of the default fit, for labels "
            "spread evenly over their range, half explained",
        ),
    ]


_RESIDUAL = {
    "guess": "residual mean square that was guessed",
    "stated": "residual mean square that was stated",
}


def plan_facts(claim: dict[str, Any]) -> list[tuple[str, str]]:
    """What a claim says, for people."""
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
