"""labeldp ledger"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.cli.derived import argument, told
from labeldp.cli.options import Json
from labeldp.cli.output import emit_facts, emit_json, emit_table
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.ledger.ledger import Ledger

_ACTIONS = ("create", "show", "limit")


def ledger(
    action: Annotated[str, argument("create, show or limit.")],
    file: Annotated[Path, argument("The ledger.")],
    dataset: Annotated[str | None, argument("A table: to show, or to limit.")] = None,
    epsilon: Annotated[float | None, told("create, limit: what all releases may cost, ε.")] = None,
    delta: Annotated[float, told("create, limit: the same, δ.")] = 1e-6,
    json: Json = False,
) -> None:
    """Keep a book of what was spent on every table."""
    from labeldp.ledger.ledger import Ledger

    if action not in _ACTIONS:
        raise InputError(f"{action!r} is unknown; choose {', '.join(_ACTIONS)}")
    if (epsilon is None) != (action == "show"):
        raise InputError("`epsilon` is what create and limit need, and show does not have")
    if epsilon is None:
        book = Ledger(file)
    elif action == "create":
        book = Ledger.create(file, epsilon=epsilon, delta=delta)
    else:
        book = Ledger(file)
        book.limit(_named(dataset), epsilon=epsilon, delta=delta)
    told = book.to_json(dataset if action == "show" else None)
    if json:
        emit_json(told)
    else:
        _show(book, told)


def _named(dataset: str | None) -> str:
    if dataset is None:
        raise InputError("limit needs the name of a table: labeldp ledger limit FILE NAME")
    return dataset


def _show(book: Ledger, told: dict[str, Any]) -> None:
    cap = told["cap"]
    emit_facts(
        f"Ledger {book.path}",
        [
            ("number", told["ledger"]),
            ("every table may cost", f"ε = {cap['epsilon']:g} at δ = {cap['delta']:g}"),
        ],
    )
    if told["tables"]:
        columns = ("table", "releases", "ε spent", "of", "at δ", "for all labels of", "with")
        emit_table("Tables", columns, map(_table, told["tables"]))
    if told["persons"]:
        rows = [
            (
                ", ".join(each["tables"]),
                each["releases"],
                *map(_short, (each["epsilon"], each["delta"])),
            )
            for each in told["persons"]
        ]
        emit_table("One person in several tables", ("tables", "releases", "ε spent", "at δ"), rows)
    if told["releases"]:
        names = ("entry", "at", "dataset", "mechanism", "epsilon", "delta", "total_epsilon", "run")
        emit_table(
            "Debits",
            ("entry", "when", "table", "mechanism", "ε", "δ", "total ε", "run"),
            ([_short(each[name]) for name in names] for each in told["releases"]),
        )


def _table(told: dict[str, Any]) -> list[Any]:
    cap, unit = told["cap"], told["unit"] or ""
    whose = "a person" if "person" in unit.partition(",")[0] else "a row"
    spent = map(_short, (told["epsilon"], *cap.values()))
    return [told["dataset"], told["releases"], *spent, whose, ", ".join(told["counted_with"])]


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value
