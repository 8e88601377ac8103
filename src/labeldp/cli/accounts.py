"""Commands about privacy budgets: account, compose, ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import (
    Command,
    argument,
    flag,
    json_option,
    option,
    parse_settings,
    settings_option,
)
from labeldp.cli.output import emit_facts, emit_json, emit_panels, emit_table, in_flags
from labeldp.errors import InputError
from labeldp.io_util import new_path
from labeldp.mechanisms.description import number

if TYPE_CHECKING:
    from labeldp.ledger.ledger import Ledger


@click.command(cls=Command)
@argument(
    "mechanism",
    "wtd-flag, shaped-flag, noisy-rows, sampled-wtd-flag, sampled-noisy-wtd-lag, naive-flag or "
    "naive-lag.",
)
@option("--rows", type=int, required=True, help="Number of rows.")
@option(
    "--label-range",
    type=(float, float),
    metavar="LO HI",
    required=True,
    help="Public range of the labels.",
)
@option("--epsilon", type=float, default=1.0, help="Privacy budget ε (default: 1).")
@option("--delta", type=float, default=1e-6, help="Privacy budget δ (default: 1e-6).")
@flag("--no-intercept", "centred", flag_value=False, help="The features do not span the constant.")
@option(
    "--residual-ms",
    type=float,
    help="Residual mean square γ: the residual sum of squares is at least γ·rows.",
)
@option("--bags", type=int, help="Report ε and δ of this number of aggregates, not the largest.")
@option("--bag-size", type=int, help="Report ε and δ of bags of this size, not the smallest.")
@option("--features", type=int, help="Number of independent feature columns.")
@option("--max-leverage", type=float, help="Largest leverage of the features.")
@option(
    "--residual-share",
    type=float,
    group="shaped-flag options",
    help="Share of the budget spent on publishing the residual (default: 0.05).",
)
@option(
    "--noise",
    metavar="LAW",
    group="shaped-flag options",
    help="gaussian, radial or auto (default).",
)
@option(
    "--person-rows",
    type=int,
    group="noisy-rows options",
    help="Largest number of rows of one person, to protect them together.",
)
@option(
    "--leverage-factor",
    type=float,
    group="sampled-wtd-flag options",
    help="Largest leverage in a bag, divided by features/bag-size; for the accountant exact.",
)
@option(
    "--feature-bound",
    type=float,
    group="sampled-wtd-flag options",
    help="Largest norm of a row of features; for the accountant paper.",
)
@option(
    "--min-eigenvalue",
    type=float,
    group="sampled-wtd-flag options",
    help="Promise about features and label together: σ_min² ≥ this·rows; for the accountant paper.",
)
@option(
    "--noisy-fraction",
    type=float,
    group="sampled-noisy-wtd-lag options",
    help="Fraction of the rows whose labels carry noise.",
)
@option(
    "--noise-std",
    type=float,
    group="sampled-noisy-wtd-lag options",
    help="Standard deviation of that noise; 1 for labels scaled to −1 … 1.",
)
@settings_option
@json_option
def account(mechanism: str, settings: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show what each accountant allows, from public numbers only; no data are read."""
    from labeldp.mechanisms.demonstrations import demonstrations
    from labeldp.mechanisms.options import (
        COMMON_ACCOUNT_FIELDS,
        AccountQuestion,
        check_budget,
        check_options,
    )
    from labeldp.mechanisms.registry import mechanism_named, mechanism_names

    check_budget(options["epsilon"], options["delta"])
    chosen = {name: value for name, value in options.items() if value is not None}
    if mechanism in demonstrations():
        example = demonstrations()[mechanism].load()
        used, panels = example.account_fields, example.account_panels
    elif mechanism in mechanism_names():
        known = mechanism_named(mechanism)
        known.check_pure(options["delta"])
        used, panels = known.account_fields, known.account_panels
    else:
        names = ", ".join([*mechanism_names(), *demonstrations()])
        raise InputError(f"mechanism {mechanism!r} is unknown; choose {names}")
    chosen |= parse_settings(settings)
    for name in chosen:
        if name not in (*COMMON_ACCOUNT_FIELDS, *used):
            raise InputError(f"`{name}` does not apply to {mechanism}; leave it out")
    question = AccountQuestion(**chosen)
    check_options(question)
    if mechanism in demonstrations():
        document = in_flags(example.account(mechanism, question))
    else:
        document = in_flags(known.account(question))
    if as_json:
        emit_json(document)
    else:
        emit_panels(panels(document))


@click.command(cls=Command)
@argument("directories", "Release directories.", type=Path, nargs=-1, required=True)
@option(
    "--delta", type=float, help="δ at which to report ε (default: the largest of the releases)."
)
@option(
    "--out",
    type=Path,
    metavar="FILE",
    help="Write the privacy loss distribution as JSON, for other accountants.",
)
@json_option
def compose(
    directories: tuple[Path, ...], delta: float | None, out: Path | None, as_json: bool
) -> None:
    """Compute what several releases of a table, or of the same persons, cost together."""
    from labeldp.ledger.compose import compose as compose_releases

    joint = compose_releases(directories)
    delta = joint.largest_delta if delta is None else delta
    epsilon = joint.epsilon(delta)
    document: dict[str, Any] = {
        "unit": joint.unit,
        "delta": delta,
        "epsilon": epsilon,
        "sum_of_epsilons": joint.sum_of_epsilons,
        "mu": joint.mu,
        "curve": joint.curve(min(epsilon, joint.sum_of_epsilons)),
    }
    if out is not None:
        with new_path(out) as partial:
            partial.write_text(json.dumps(joint.loss().to_json()) + "\n", encoding="utf-8")
    if as_json:
        emit_json({"releases": [str(each) for each in directories], **document})
        return
    emit_facts(
        f"{len(directories)} release{'s' * (len(directories) != 1)} together",
        [
            ("protects", joint.unit),
            ("ε", f"{epsilon:.6g} at δ = {delta:g}"),
            ("sum of their ε", f"{joint.sum_of_epsilons:g}"),
            ("as a Gaussian mechanism", joint.mu and f"μ = {joint.mu:.6g}"),
        ],
    )
    rows = [(number(e), f"{d:.3g}") for e, d in document["curve"]]
    emit_table("Privacy curve of all together", ("ε", "δ at most"), rows)


@click.command(cls=Command)
@argument("action", "create, show or limit.")
@argument("file", "The ledger.", type=Path)
@argument("dataset", "The name of a table, for show and limit.", required=False)
@option("--epsilon", type=float, help="For create and limit: total ε of all releases.")
@option(
    "--delta",
    type=float,
    default=1e-6,
    help="For create and limit: total δ of all releases (default: 1e-6).",
)
@json_option
def ledger(
    action: str, file: Path, dataset: str | None, epsilon: float | None, delta: float, as_json: bool
) -> None:
    """Keep a ledger of the privacy budget that was spent on each table."""
    from labeldp.ledger.ledger import Ledger

    if action not in ("create", "show", "limit"):
        raise InputError(f"{action!r} is unknown; choose create, show or limit")
    if (epsilon is None) != (action == "show"):
        raise InputError("--epsilon is needed by create and limit, and not taken by show")
    if epsilon is None:
        book = Ledger(file)
    elif action == "create":
        book = Ledger.create(file, epsilon=epsilon, delta=delta)
    else:
        if dataset is None:
            raise InputError("limit needs the name of a table: labeldp ledger limit FILE NAME")
        book = Ledger(file)
        book.limit(dataset, epsilon=epsilon, delta=delta)
    document = book.to_json(dataset if action == "show" else None)
    if as_json:
        emit_json(document)
    else:
        _show_ledger(book, document)


def _show_ledger(book: Ledger, document: dict[str, Any]) -> None:
    cap = document["cap"]
    emit_facts(
        f"Ledger {book.path}",
        [
            ("number", document["ledger"]),
            ("every table may cost", f"ε = {cap['epsilon']:g} at δ = {cap['delta']:g}"),
        ],
    )
    if document["tables"]:
        header = ("table", "releases", "ε spent", "of", "at δ", "for all labels of", "with")
        emit_table("Tables", header, map(_table_row, document["tables"]))
    if document["persons"]:
        rows = [
            (
                ", ".join(each["tables"]),
                each["releases"],
                *map(_short, (each["epsilon"], each["delta"])),
            )
            for each in document["persons"]
        ]
        emit_table("One person in several tables", ("tables", "releases", "ε spent", "at δ"), rows)
    if document["releases"]:
        names = ("entry", "at", "dataset", "mechanism", "epsilon", "delta", "total_epsilon", "run")
        emit_table(
            "Debits",
            ("entry", "when", "table", "mechanism", "ε", "δ", "total ε", "run"),
            ([_short(each[name]) for name in names] for each in document["releases"]),
        )


def _table_row(table: dict[str, Any]) -> list[Any]:
    unit = (table["unit"] or "").partition(",")[0]
    spent = map(_short, (table["epsilon"], *table["cap"].values()))
    whose = "a person" if "person" in unit else "a row"
    return [table["dataset"], table["releases"], *spent, whose, ", ".join(table["counted_with"])]


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value
