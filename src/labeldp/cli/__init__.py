"""The command line: one thin file per command over the library.

Exit codes: 0 done, 1 a check said no, 2 the request is wrong (one line, nothing written).
Standard output carries the answer alone (one JSON document with --json); progress bars
and notes go to standard error. Heavy imports happen inside commands.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from labeldp.cli.account import account
from labeldp.cli.attack import attack
from labeldp.cli.demo import demo
from labeldp.cli.derived import derived
from labeldp.cli.fit import fit
from labeldp.cli.inspect import inspect
from labeldp.cli.plan import plan, plan_options
from labeldp.cli.predict import predict
from labeldp.cli.release import release
from labeldp.cli.verify import verify

_INTERRUPTED = 130


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"labeldp {version('labeldp')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Publish regression data whose labels are private."""


def make_app() -> typer.Typer:
    """The commands, with the options that the mechanisms known now declare."""
    app = typer.Typer(
        name="labeldp",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for command in (demo, inspect, account, plan, release, verify, fit, predict, attack):
        app.command()(derived(command, **_known(command)))
    for entry in sorted(entry_points(group="labeldp.commands"), key=lambda entry: entry.name):
        app.command(entry.name)(entry.load())
    return app


def _known(command: Any) -> dict[str, type[Any]]:
    """What commands are asked depends on the mechanisms there are."""
    return {"options": plan_options()} if command in (plan, release) else {}


def main() -> None:
    """Run the command line; every wrong request ends in one line and exit code 2."""
    from labeldp.errors import LabelDPError

    try:
        code = make_app()(sys.argv[1:] or ["--help"], standalone_mode=False)
    except LabelDPError as problem:
        code = _refuse(str(problem))
    except typer.Abort:
        code = _INTERRUPTED
    except Exception as problem:  # the parser's own errors have no public root in every typer
        if not hasattr(problem, "format_message"):
            raise
        code = _refuse(problem.format_message())
    if code == _INTERRUPTED:  # which some versions of typer return and others raise
        print("labeldp: stopped; nothing was written", file=sys.stderr)
    sys.exit(code or 0)


def _refuse(text: str) -> int:
    print(f"labeldp: {' '.join(text.split())}", file=sys.stderr)
    return 2
