"""Commands about privacy budgets and signatures: account, compose, ledger, keygen, sign."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from labeldp.cli.options import (
    Command,
    argument,
    flag,
    help_all_option,
    json_option,
    option,
    parse_settings,
    release_argument,
    settings_option,
    together,
)
from labeldp.cli.output import (
    emit_facts,
    emit_json,
    emit_table,
    in_flags,
)
from labeldp.display import format_budget, number
from labeldp.errors import InputError
from labeldp.mechanisms.options import COMMON_ACCOUNT_FIELDS, AccountQuestion

_MECHANISMS = "wtd-flag, shaped-flag, noisy-rows, sampled-wtd-flag or sampled-noisy-wtd-lag."


@click.command(cls=Command)
@argument("mechanism", _MECHANISMS)
@option("--rows", type=int, required=True, help="Number of rows.")
@option("--label-range", type=(float, float), metavar="LO HI", required=True, help="Label range.")
@option("--epsilon", type=float, default=1.0, help="Privacy budget ε (default: 1).")
@option("--delta", type=float, default=1e-6, help="Privacy budget δ (default: 1e-6).")
@flag("--no-intercept", "centred", flag_value=False, help="The features span no constant column.")
@option("--residual-ms", type=float, help="Residual mean square that you promise at least.")
@option("--bags", type=int, help="Report ε and δ of this many aggregates (default: the most).")
@option("--bag-size", type=int, help="Rows in a bag; bags need it.")
@option("--features", type=int, help="Number of independent feature columns.")
@option("--max-leverage", type=float, help="Largest leverage, of the table or in a bag.")
@together(
    option("--residual-share", type=float, help="Share of the budget for the residual."),
    option("--noise", metavar="LAW", help="gaussian, radial or auto (default)."),
    group="shaped-flag options",
)
@option("--person-rows", type=int, group="noisy-rows options", help="Most rows of one person.")
@together(
    option("--noisy-fraction", type=float, help="Fraction of rows with noise."),
    option("--noise-std", type=float, help="Standard deviation of that noise."),
    group="sampled-noisy-wtd-lag options",
)
@settings_option
@help_all_option
@json_option
def account(mechanism: str, settings: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show what each accountant allows, computed from public numbers; no data are read."""
    from labeldp.mechanisms.registry import mechanism_named, mechanism_names

    numbers = {name: value for name, value in options.items() if value is not None}
    numbers |= parse_settings(settings)
    if mechanism not in mechanism_names():
        raise InputError(
            f"mechanism {mechanism!r} is unknown; choose {', '.join(mechanism_names())}"
        )
    mechanism_object = mechanism_named(mechanism)
    mechanism_object.check_pure(numbers["delta"])
    for name in numbers:
        if name not in (*COMMON_ACCOUNT_FIELDS, *mechanism_object.account_fields):
            raise InputError(f"`{name}` does not apply to {mechanism}; leave it out")
    question = AccountQuestion(**numbers)
    answer = in_flags(mechanism_object.account(question))
    if as_json:
        fields = ("rows", "label_range", "epsilon", "delta", *mechanism_object.account_fields)
        asked = {field: getattr(question, field) for field in fields}
        emit_json({"mechanism": mechanism, **asked, **answer})
        return
    facts = answer | answer.pop("accountants", {})
    budget = format_budget(numbers["epsilon"], numbers["delta"])
    present = [(name, value) for name, value in facts.items() if value is not None]
    emit_facts(f"{mechanism} at {budget}", present)


@click.command(cls=Command)
@argument("directories", "Release directories.", type=Path, nargs=-1, required=True)
@option("--delta", type=float, help="Report ε at this δ (default: the largest of the releases).")
@json_option
def compose(directories: tuple[Path, ...], delta: float | None, as_json: bool) -> None:
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
    if as_json:
        emit_json({"releases": [str(each) for each in directories], **document})
        return
    emit_facts(*joint.facts(delta))
    rows = [(number(e), f"{d:.3g}") for e, d in document["curve"]]
    emit_table("Privacy curve of all together", ("ε", "δ at most"), rows)


@click.command(cls=Command)
@argument("action", "create, show or limit.", type=click.Choice(["create", "show", "limit"]))
@argument("file", "The ledger.", type=Path)
@argument("dataset", "The name of a table, for show and limit.", required=False)
@option("--epsilon", type=float, help="For create and limit: total ε of all releases.")
@option("--delta", type=float, default=1e-6, help="Their total δ (default: 1e-6).")
@json_option
def ledger(
    action: str, file: Path, dataset: str | None, epsilon: float | None, delta: float, as_json: bool
) -> None:
    """Keep a ledger of the privacy budget that was spent on each table."""
    from labeldp.ledger.ledger import Ledger

    if (epsilon is None) != (action == "show"):
        raise InputError("give --epsilon for create and limit, and leave it out for show")
    if epsilon is None:
        book = Ledger(file)
    elif action == "create":
        book = Ledger.create(file, epsilon=epsilon, delta=delta)
    elif dataset is None:
        raise InputError("limit needs the name of a table: labeldp ledger limit FILE NAME")
    else:
        book = Ledger(file)
        book.limit(dataset, epsilon=epsilon, delta=delta)
    document = book.to_json(dataset if action == "show" else None)
    if as_json:
        emit_json(document)
        return
    facts = [("number", document["ledger"]), ("limit of every table", document["cap"])]
    emit_facts(f"Ledger {file}", facts)
    rows = []
    for each in document["tables"]:
        cap, unit = each["cap"], "a person" if "person" in (each["unit"] or "") else "a row"
        spent = [each["dataset"], each["releases"], each["epsilon"], cap["delta"], cap["epsilon"]]
        rows.append([*spent, unit, each["counted_with"]])
    if rows:
        header = ["table", "releases", "ε spent", "at δ", "of", "labels of", "counted with"]
        emit_table("Tables", header, rows)
    shown = ("entry", "at", "dataset", "mechanism", "epsilon", "delta", "total_epsilon", "run")
    rows = [[each[name] for name in shown] for each in document["releases"]]
    if rows:
        header = ["entry", "UTC", "table", "mechanism", "ε", "δ", "total ε", "run"]
        emit_table("Debits", header, rows)


@click.command(cls=Command)
@argument("key", "Where to write the private key; the public key is written to KEY.pub.", type=Path)
@option("--passphrase", is_flag=True, help="Ask for a passphrase that locks the key.")
@json_option
def keygen(key: Path, passphrase: bool, as_json: bool) -> None:
    """Create an Ed25519 key to sign releases with; only you can read its file."""
    from labeldp.signing import make_key

    public = make_key(key, _ask_passphrase(confirm=True) if passphrase else None)
    if as_json:
        emit_json({"key": str(key), "public": public.name, "keyid": public.keyid})
        return
    facts = [
        ("private key", f"{key}: keep it secret; whoever has it can sign as you"),
        ("public key", f"{public.name}: give it to whoever checks your signatures"),
        ("key id", public.keyid),
        ("use it", f"labeldp sign DIRECTORY --key {key}"),
    ]
    emit_facts("A key to sign with", facts)


@click.command(cls=Command)
@release_argument
@option("--key", type=Path, required=True, help="Your private key, from `labeldp keygen`.")
@json_option
def sign(directory: Path, key: Path, as_json: bool) -> None:
    """Sign all files of a release that verifies; other signatures are kept."""
    from labeldp.releases.side_files import SIGNATURES
    from labeldp.signing import sign as sign_release

    owner = sign_release(directory, key, _ask_passphrase)
    if as_json:
        emit_json({"signatures": str(directory / SIGNATURES), "keyid": owner.keyid})
        return
    facts = [
        ("signatures", str(directory / SIGNATURES)),
        ("key id", owner.keyid),
        ("check it", f"labeldp verify {directory} --key {key}.pub"),
    ]
    emit_facts(f"{directory} is signed", facts)


def _ask_passphrase(confirm: bool = False) -> str:
    """Return LABELDP_PASSPHRASE, or ask on the terminal."""
    passphrase = os.environ.get("LABELDP_PASSPHRASE")
    if passphrase is not None:
        return passphrase
    return str(click.prompt("passphrase", hide_input=True, confirmation_prompt=confirm, err=True))
