"""Commands on a finished release: verify, report, describe, sign; keygen."""

from __future__ import annotations

import os
from pathlib import Path

import click

from labeldp.cli.options import (
    Command,
    argument,
    engine_options,
    help_all_option,
    json_option,
    make_engine,
    open_data,
    option,
    release_argument,
)
from labeldp.cli.output import emit_facts, emit_json, in_flags, say, write_text
from labeldp.io_util import check_target


@click.command(cls=Command)
@release_argument
@option("--data", metavar="TABLE", help="The table that was released, to check its features too.")
@option("--key", "keys", type=Path, multiple=True, help="A public key that must have signed.")
@engine_options
@help_all_option
@json_option
def verify(
    directory: Path,
    data: str | None,
    keys: tuple[Path, ...],
    engine_name: str,
    threads: int | None,
    as_json: bool,
) -> int:
    """Recompute the certificate of a release from its public files.

    Exits with 1 if anything disagrees.
    """
    from labeldp.signing import PublicKey
    from labeldp.verification import verify as check

    engine = make_engine(engine_name, threads)
    table = None if data is None else open_data(data, engine_name)
    public_keys = [PublicKey.read(key) for key in keys]
    result = check(directory, table, engine, keys=public_keys)
    if as_json:
        lists = ("problems", "weak", "untested", "signed_by")
        emit_json({"valid": result.valid, **{name: list(getattr(result, name)) for name in lists}})
    elif result.valid:
        say(f"{directory} is valid{', but weak' if result.weak else ''}: {result.summary}")
        for reason in result.weak:
            say(f"  - {reason}", indent="    ")
        for name in result.signed_by:
            say(f"  signed by {name}")
        for reason in result.untested:
            say(f"  not checked: {in_flags(reason)}", indent="    ")
    else:
        say(f"{directory} is NOT valid:")
        for problem in result.problems:
            say(f"  - {problem}", indent="    ")
    return 0 if result.valid else 1


@click.command(cls=Command)
@release_argument
@option("--out", type=Path, help="The HTML file (default: DIRECTORY.html beside the release).")
@json_option
def report(directory: Path, out: Path | None, as_json: bool) -> None:
    """Write an HTML report of a release, to read, print and sign."""
    from labeldp.reporting import release_report, report_page

    place = directory.resolve()
    target = out or (None if as_json else place.with_name(f"{place.name}.html"))
    if target is not None:
        check_target(target)
    document = release_report(directory)
    if target is not None:
        write_text(target, report_page(document))
    if as_json:
        emit_json(document)
    else:
        print(f"{target}: open it in a browser, print it, sign it")


@click.command(cls=Command)
@release_argument
@option(
    "--as",
    "kind",
    type=click.Choice(["card", "croissant", "registry"]),
    default="card",
    help="Form of the description (default: card).",
)
def describe(directory: Path, kind: str) -> None:
    """Describe a release for a data catalogue, from its certificate and files."""
    from labeldp.reporting import describe as describe_release

    print(describe_release(directory, kind), end="")


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
