"""The command line: one thin file per command over the library.

Exit codes: 0 done, 1 a check said no, 2 the request is wrong (one line, nothing written).
Standard output carries the answer alone (one JSON document with --json); progress bars
and notes go to standard error. Commands are imported when they are used (`commands`), and
heavy imports happen inside them.

The names here are also for commands of other packages (entry points `labeldp.commands`).
"""

from __future__ import annotations

import sys
from errno import EPIPE
from typing import Annotated

import typer

from labeldp.cli.commands import LazyGroup
from labeldp.cli.options import Budget, Json
from labeldp.cli.output import (
    REMARKS,
    emit_facts,
    emit_json,
    emit_table,
    in_flags,
    note,
    number,
    progress,
    warnings_as_notes,
)
from labeldp.cli.room import OUT_OF_MEMORY, is_lack_of_room, too_little
from labeldp.cli.stopping import Stop, stoppable
from labeldp.cli.terminal import patient_streams, say

__all__ = [
    "REMARKS",
    "Budget",
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
    with patient_streams() as (out, _):
        with stoppable() as stop, warnings_as_notes():
            code = _run(stop)
        out.flush()
        if out.problem is not None:
            code = _unsaid(out.problem, code)
    sys.exit(code)


def _run(stop: Stop) -> int:
    from labeldp.errors import LabelDPError

    try:
        lacking = too_little()
        if lacking is not None:
            return _refuse(lacking)
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except LabelDPError as problem:
        code = _refuse("; ".join([str(problem), *getattr(problem, "__notes__", ())]))
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except Exception as problem:  # the parser's own errors have no public root in every typer
        if is_lack_of_room(problem):
            return _refuse(OUT_OF_MEMORY)
        if not hasattr(problem, "format_message"):
            raise
        code = _refuse(_cured(problem.format_message()))
    if code == _INTERRUPTED:  # which some versions of typer return and others raise
        say(f"labeldp: {stop.told()}", error=True)
        return stop.code
    return int(code or 0)


def _cured(message: str) -> str:
    from labeldp.cli.mistakes import cured

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return cured(message, sys.argv[1:], [*commands])


_SPOKEN = ("release", "verify")
"""Commands whose exit code is the answer: what was published or checked stays so."""


def _unsaid(problem: OSError, code: int) -> int:
    """The exit code of a command whose answer could not be printed; a reader may stop reading."""
    if problem.errno == EPIPE or code == 2:
        return code
    say(f"labeldp: the answer was not printed: {problem.strerror}", error=True)
    return code if sys.argv[1:2] and sys.argv[1] in _SPOKEN else 2


def _refuse(text: str) -> int:
    say(f"labeldp: {' '.join(in_flags(text).split())}", error=True)
    return 2
