"""The command line: one thin file per command over the library.

Exit codes: 0 done, 1 a check said no, 2 the request is wrong (one line, nothing written).
Standard output carries the answer alone (one JSON document with --json); progress bars
and notes go to standard error. Commands are imported when they are used (`commands`), and
heavy imports happen inside them.

The names here are also for commands of other packages (entry points `labeldp.commands`).
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from labeldp.cli.commands import LazyGroup
from labeldp.cli.options import Json
from labeldp.cli.output import (
    REMARKS,
    emit_facts,
    emit_json,
    emit_table,
    in_flags,
    note,
    number,
    progress,
)

__all__ = [
    "REMARKS",
    "Json",
    "app",
    "emit_facts",
    "emit_json",
    "emit_table",
    "main",
    "note",
    "number",
    "progress",
]

_INTERRUPTED = 130

app = typer.Typer(
    name="labeldp",
    cls=LazyGroup,
    help="Publish regression data whose labels are private.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"labeldp {version('labeldp')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Publish regression data whose labels are private."""


def main() -> None:
    """Run the command line; every wrong request ends in one line and exit code 2."""
    from labeldp.errors import LabelDPError

    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
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
    print(f"labeldp: {' '.join(in_flags(text).split())}", file=sys.stderr)
    return 2
