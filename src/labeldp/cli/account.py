"""labeldp account"""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from typing import Annotated, Any

from labeldp.cli.derived import merged
from labeldp.cli.options import Json
from labeldp.cli.output import emit_json, in_flags, show
from labeldp.errors import InputError
from labeldp.mechanisms.options import check_budget, check_options, required
from labeldp.mechanisms.protocol import Account
from labeldp.mechanisms.registry import check_pure, demonstrations, mechanism_named, mechanisms


def _accounts() -> dict[str, Account]:
    """What can be asked about each mechanism."""
    known = {mechanism.name: mechanism.account for mechanism in mechanisms()}
    return {name: account for name, account in known.items() if account is not None}


def account_options() -> type[Any]:
    """Which mechanism, and all that can be asked about some mechanism."""
    accounts = _accounts()
    which = required(", ".join([*accounts, *demonstrations()]), argument=True)
    words = {"__doc__": "Which mechanism."}
    choice = make_dataclass("Choice", [("mechanism", str, which)], kw_only=True, namespace=words)
    return merged("AccountOptions", [choice, *(each.options for each in accounts.values())])


AccountOptions = Annotated[Any, account_options]


def account(asked: AccountOptions, json: Json = False) -> None:
    """What each accountant allows, from public quantities alone: no data are read."""
    accounts, mechanism = _accounts(), asked.mechanism
    if mechanism in demonstrations():
        accounts[mechanism] = demonstrations()[mechanism].load().account
    if mechanism not in accounts:
        raise InputError(f"mechanism {mechanism!r} is unknown; choose {', '.join(accounts)}")
    check_options(asked)
    check_budget(asked.epsilon, asked.delta)
    if mechanism not in demonstrations():
        check_pure(mechanism_named(mechanism), asked.delta)
    chosen = accounts[mechanism]
    own = {each.name for each in fields(chosen.options)}
    given = {name: value for name, value in vars(asked).items() if name != "mechanism"}
    for name, value in given.items():
        if value is not None and name not in own:
            raise InputError(f"`{name}` does not apply to {mechanism}: leave it out")
    mine = chosen.options(**{name: value for name, value in given.items() if name in own})
    document = in_flags(chosen.answer(mechanism, mine))
    if json:
        emit_json(document)
    else:
        show(chosen.show(document))
