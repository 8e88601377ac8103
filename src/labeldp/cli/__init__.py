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
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

import click

from labeldp.cli.accounts import account, compose, keygen, ledger, sign
from labeldp.cli.output import SafeStream, in_flags, say, warnings_as_notes
from labeldp.cli.planning import look, plan, release
from labeldp.cli.releases import describe, fit, predict, report, verify
from labeldp.errors import LabelDPError
from labeldp.io_util import written

SECTIONS = {
    "Publish and use": (look, plan, release, verify, report, describe, fit, predict),
    "Budget and signatures": (account, compose, ledger, keygen, sign),
}
"""Our commands as the help shows them; a last section has the commands of other packages."""
ENTRY_POINTS = "labeldp.commands"


class Group(click.Group):
    """Our commands, and those of other packages, which are imported when they are used."""

    def offered(self) -> dict[str, EntryPoint]:
        """Return the commands of other packages, without names that are ours."""
        entries = sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name)
        return {entry.name: entry for entry in entries if entry.name not in self.commands}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*self.commands, *self.offered()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        entry = None if name in self.commands else self.offered().get(name)
        if entry is None:
            return super().get_command(ctx, name)
        try:
            command = entry.load()
            if not isinstance(command, click.Command):
                raise TypeError(f"it is a {type(command).__name__}, not a click.Command")
        except Exception as problem:  # whatever another package's import may raise
            raise LabelDPError(
                f"{name}: {entry.value} cannot be loaded: {type(problem).__name__}: {problem}; "
                "install or remove the package that offers it"
            ) from None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = {title: [str(each.name) for each in own] for title, own in SECTIONS.items()}
        sections["Demonstrations and experiments"] = [*self.offered()]
        for title, names in sections.items():
            lines = []
            for name in names:
                try:
                    command = self.get_command(ctx, name)
                    text = (command and command.help) or ""
                except LabelDPError as problem:
                    text = str(problem)
                # the whole first paragraph, which click would cut
                lines.append((name, " ".join(text.partition("\n\n")[0].split())))
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


@click.group(cls=Group, commands=[each for section in SECTIONS.values() for each in section])
@click.version_option(package_name="labeldp", message="labeldp %(version)s")
def app() -> None:
    """Publish regression data whose labels are private."""


def main() -> None:
    """Run the command line and exit."""
    before = sys.stdout, sys.stderr
    out, error = SafeStream(sys.stdout), SafeStream(sys.stderr)
    sys.stdout, sys.stderr = cast(Any, out), cast(Any, error)
    try:
        with warnings_as_notes():
            code = _run(sys.argv[1:] or ["--help"])
        out.flush()
        # A reader that stops reading is no error. `release` and `verify` have published or checked
        # something, so that their code stays; another command was there to print its answer.
        if out.problem is not None and out.problem.errno != errno.EPIPE and code != 2:
            say(f"labeldp: the answer was not printed: {out.problem.strerror}", error=True)
            code = code if sys.argv[1:2] in (["release"], ["verify"]) else 2
        error.flush()
    finally:
        sys.stdout, sys.stderr = before
    sys.exit(code)


def _run(words: list[str]) -> int:
    """Run a command and return its exit code; refusals are one line on standard error."""
    files_before = len(written)
    interrupt = KeyboardInterrupt(signal.SIGINT)
    try:
        with _signals_raise(interrupt):
            return int(app.main(words, prog_name="labeldp", standalone_mode=False) or 0)
    except LabelDPError as problem:
        text = str(problem)
    except (click.Abort, KeyboardInterrupt):
        files = [str(path) for path in written[files_before:] if path.exists()]
        done = f"{' and '.join(files)} was written before that" if files else "nothing was written"
        say(f"labeldp: stopped; {done}", error=True)
        return 128 + int(interrupt.args[0])
    except click.ClickException as problem:
        text = _with_remedy(problem)
    except MemoryError:
        text = "out of memory; allow more, free some, or read with fewer `threads`"
    say(f"labeldp: {' '.join(in_flags(text).split())}", error=True)
    return 2


def _with_remedy(problem: click.ClickException) -> str:
    """Return click's message with how to go on."""
    text = problem.format_message().rstrip(".").replace("valid float", "valid number")
    if "--label-range" in text and not text.startswith(("Missing", "No such option")):
        return f"{text}; write two numbers with a space between: --label-range 0 10"
    if "is not a valid" in text:
        return f"{text}; write digits and a decimal point, like 250000, 0.5 or 1e-6"
    if "unexpected extra argument" in text:
        text += "; lists have commas and no spaces (A,B), names with spaces stand in quotes"
    ctx = getattr(problem, "ctx", None)
    return f"{text}; see {ctx.command_path if ctx else 'labeldp'} --help"


@contextmanager
def _signals_raise(interrupt: KeyboardInterrupt) -> Iterator[None]:
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
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            handler = None if number is None else signal.getsignal(number)
            # nohup and background jobs ignore a signal, and go on to do so
            if number is not None and handler not in (signal.SIG_IGN, None):
                handlers[number] = handler
                signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
