"""labeldp keygen"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from labeldp.cli.derived import argument, told
from labeldp.cli.options import Json
from labeldp.cli.output import emit_facts, emit_json


def keygen(
    key: Annotated[Path, argument("Where to write the key; its public half: KEY.pub.")],
    passphrase: Annotated[bool, told("Ask for a passphrase to lock the key with.")] = False,
    json: Json = False,
) -> None:
    """Make an Ed25519 key to sign releases with, readable by you alone."""
    from labeldp.signoff.signing import make_key

    public = make_key(key, asked_passphrase(confirm=True) if passphrase else None)
    if json:
        emit_json({"key": str(key), "public": public.name, "keyid": public.keyid})
        return
    facts = [
        ("key", f"{key}: yours alone; whoever has it signs as you"),
        ("public half", f"{public.name}: give it to whoever checks your signatures"),
        ("key id", public.keyid),
        ("use it", f"labeldp sign DIRECTORY --key {key}"),
    ]
    emit_facts("A key to sign with", facts)


def asked_passphrase(confirm: bool = False) -> str:
    """From LABELDP_PASSPHRASE, or asked for on the terminal."""
    import os

    given = os.environ.get("LABELDP_PASSPHRASE")
    if given is not None:
        return given
    return str(click.prompt("passphrase", hide_input=True, confirmation_prompt=confirm, err=True))
