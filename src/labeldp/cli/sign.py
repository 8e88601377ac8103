"""labeldp sign"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from labeldp.cli.derived import told
from labeldp.cli.keygen import asked_passphrase
from labeldp.cli.options import Json, ReleaseDirectory
from labeldp.cli.output import emit_facts, emit_json


def sign(
    directory: ReleaseDirectory,
    key: Annotated[Path, told("Your key, from `labeldp keygen`.")],
    json: Json = False,
) -> None:
    """Sign all files of a release that verifies; signatures of others stay."""
    from labeldp.release.statement import SIGNATURES
    from labeldp.signoff.signing import sign as add

    owner = add(directory, key, asked_passphrase)
    if json:
        emit_json({"signatures": str(directory / SIGNATURES), "keyid": owner.keyid})
        return
    facts = [
        ("signatures", str(directory / SIGNATURES)),
        ("key id", owner.keyid),
        ("check it", f"labeldp verify {directory} --key {key}.pub"),
    ]
    emit_facts(f"{directory} is signed", facts)
