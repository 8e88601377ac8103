"""The command line: `main`, the group of commands, exit codes.

Exit codes: 0 done; 1 a check said no; 2 the request is wrong (one line, nothing written);
128 + n stopped by signal n. Standard output carries the answer alone; notes and progress go to
standard error. Commands import what is slow to load inside their functions.

Other packages offer commands by entry points of the group `labeldp.commands`, each a
`click.Command`; `labeldp.cli.options` and `labeldp.cli.output` are for them, too.
"""

from __future__ import annotations

import errno
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any, cast

import click

from labeldp.cli.accounts import account, compose, ledger
from labeldp.cli.checking import describe, keygen, report, sign, verify
from labeldp.cli.demo import demo
from labeldp.cli.models import fit, predict
from labeldp.cli.output import SafeStream, in_flags, say, warnings_as_notes
from labeldp.cli.planning import look, plan, release
from labeldp.cli.startup import OUT_OF_MEMORY, is_out_of_memory
from labeldp.errors import LabelDPError
from labeldp.io_util import written

SECTIONS = {
    "Publish and use": (look, plan, release, verify, report, describe, fit, predict),
    "Budget and signatures": (account, compose, ledger, keygen, sign),
    "Demonstrations and experiments": (demo,),
}
"""Our commands as the help shows them; commands of other packages join the last section."""
ENTRY_POINTS = "labeldp.commands"


class Group(click.Group):
    """Our commands, and those of other packages, which are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*self.commands, *sorted(set(_offered()) - set(self.commands))]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        command = super().get_command(ctx, name)
        if command is None and name in _offered():
            return _load(_offered()[name])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = {title: [str(each.name) for each in own] for title, own in SECTIONS.items()}
        names[list(names)[-1]] += sorted(set(_offered()) - set(self.commands))
        for title, section in names.items():
            with formatter.section(title):
                formatter.write_dl([(name, self._summary(ctx, name)) for name in section])

    def _summary(self, ctx: click.Context, name: str) -> str:
        """Return the first paragraph of a command's help, whole."""
        command = self.get_command(ctx, name)
        text = (command and command.help) or ""
        return " ".join(text.partition("\n\n")[0].split())


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def _load(entry: EntryPoint) -> click.Command:
    """Import another package's command; if that fails, return a command that says why."""
    try:
        command = entry.load()
        if isinstance(command, click.Command):
            return command
        raise TypeError(f"it is a {type(command).__name__}, not a click.Command")
    except Exception as problem:  # whatever another package's import may raise
        text = f"{entry.value} cannot be loaded: {type(problem).__name__}: {problem}"

    def refuse(_arguments: tuple[str, ...]) -> None:
        raise LabelDPError(f"{entry.name}: {text}; install or remove the package that offers it")

    return click.Command(
        entry.name,
        help=text,
        callback=refuse,
        params=[click.Argument(["_arguments"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
    )


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        print(f"labeldp {version('labeldp')}")
        ctx.exit()


app = Group(
    "labeldp",
    help="Publish regression data whose labels are private.",
    commands=[command for section in SECTIONS.values() for command in section],
    params=[
        click.Option(
            ["--version"],
            help="Show the version.",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
        )
    ],
)


def main() -> None:
    """Run the command line and exit."""
    before = sys.stdout, sys.stderr
    out, error = SafeStream(sys.stdout), SafeStream(sys.stderr)
    sys.stdout, sys.stderr = cast(Any, out), cast(Any, error)
    try:
        with warnings_as_notes():
            code = _run(sys.argv[1:] or ["--help"])
        out.flush()
        if out.problem is not None:
            code = _report_unprinted(out.problem, code)
        error.flush()
    finally:
        sys.stdout, sys.stderr = before
    sys.exit(code)


def _run(words: list[str]) -> int:
    """Run a command and return its exit code; refusals are one line on standard error."""
    files_before = len(written)
    interrupt = KeyboardInterrupt(signal.SIGINT)
    try:
        with _signals_interrupt(interrupt):
            return int(app.main(words, prog_name="labeldp", standalone_mode=False) or 0)
    except LabelDPError as problem:
        return _refuse("; ".join([str(problem), *getattr(problem, "__notes__", ())]))
    except click.Abort:
        return _report_stop(interrupt, files_before)
    except click.ClickException as problem:
        return _refuse(_with_remedy(problem))
    except KeyboardInterrupt:
        return _report_stop(interrupt, files_before)
    except Exception as problem:
        if not is_out_of_memory(problem):
            raise
        return _refuse(OUT_OF_MEMORY)


def _refuse(text: str) -> int:
    say(f"labeldp: {' '.join(in_flags(text).split())}", error=True)
    return 2


def _with_remedy(problem: click.ClickException) -> str:
    """Return click's message with how to go on."""
    text = problem.format_message().rstrip(".").replace("valid float", "valid number")
    command = (
        problem.ctx.command_path
        if isinstance(problem, click.UsageError) and problem.ctx
        else "labeldp"
    )
    if "--label-range" in text and not text.startswith("Missing"):
        return f"{text}; write two numbers with a space between: --label-range 0 10"
    if "is not a valid" in text:
        return f"{text}; write digits and a decimal point, like 250000, 0.5 or 1e-6"
    if "unexpected extra argument" in text:
        text += "; lists have commas and no spaces (A,B), names with spaces stand in quotes"
    return f"{text}; see {command} --help"


@contextmanager
def _signals_interrupt(interrupt: KeyboardInterrupt) -> Iterator[None]:
    """Let Ctrl-C, kill and a terminal that hangs up end a command once, so that it cleans up.

    SIGKILL cannot be caught: what it leaves is for its owner alone, and the next run finds it (see
    `io_util`).
    """
    handlers: dict[int, Any] = {}

    def stop(number: int, _frame: Any) -> None:
        for each in handlers:
            signal.signal(each, signal.SIG_IGN)
        interrupt.args = (number,)
        raise interrupt

    if threading.current_thread() is threading.main_thread():
        names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        for number in (getattr(signal, name) for name in names):
            handler = signal.getsignal(number)
            if handler not in (signal.SIG_IGN, None):  # nohup and background jobs stay as they are
                handlers[number] = handler
                signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _report_stop(interrupt: KeyboardInterrupt, files_before: int) -> int:
    """Say in one line what a stopped command leaves behind; return a shell's exit code."""
    done = [str(path) for path in written[files_before:] if path.exists()]
    text = f"{' and '.join(done)} was written before that" if done else "nothing was written"
    notes = getattr(interrupt, "__notes__", ())
    say(f"labeldp: {'; '.join(['stopped', text, *notes])}", error=True)
    return 128 + int(interrupt.args[0])


def _report_unprinted(problem: OSError, code: int) -> int:
    """Return the exit code of a command whose answer could not be printed.

    `release` and `verify` have published or checked something, so their code stays. A reader that
    stops reading is no error.
    """
    if problem.errno == errno.EPIPE or code == 2:
        return code
    say(f"labeldp: the answer was not printed: {problem.strerror}", error=True)
    return code if sys.argv[1:2] and sys.argv[1] in ("release", "verify") else 2
