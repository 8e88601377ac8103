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

import click

from labeldp.cli.commands import LazyGroup
from labeldp.cli.derived import argument, told
from labeldp.cli.mistakes import cured
from labeldp.cli.options import Budget, Json
from labeldp.cli.output import (
    emit_facts,
    emit_json,
    emit_table,
    in_flags,
    note,
    progress,
    warnings_as_notes,
)
from labeldp.cli.room import OUT_OF_MEMORY, is_lack_of_room, too_little
from labeldp.cli.stopping import Stop, stoppable
from labeldp.cli.terminal import patient_streams, say
from labeldp.mechanisms.protocol import REMARKS, number

__all__ = [
    "REMARKS",
    "Budget",
    "Json",
    "app",
    "argument",
    "emit_facts",
    "emit_json",
    "emit_table",
    "main",
    "note",
    "number",
    "progress",
    "told",
]


def _version(_context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"labeldp {version('labeldp')}")
        raise click.exceptions.Exit


app = LazyGroup(
    "labeldp",
    help="Publish regression data whose labels are private.",
    params=[
        click.Option(
            ["--version"],
            help="Show the version.",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
        )
    ],
)


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
        words = sys.argv[1:] or ["--help"]
        code = app.main(words, prog_name="labeldp", standalone_mode=False)
    except LabelDPError as problem:
        code = _refuse("; ".join([str(problem), *getattr(problem, "__notes__", ())]))
    except click.ClickException as problem:
        code = _refuse(cured(problem, sys.argv[1:], [*app.commands]))
    except (click.Abort, KeyboardInterrupt):
        say(f"labeldp: {stop.told()}", error=True)
        return stop.code
    except Exception as problem:
        if not is_lack_of_room(problem):
            raise
        code = _refuse(OUT_OF_MEMORY)
    return int(code or 0)


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
