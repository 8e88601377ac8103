"""Standard output and standard error as they are: any encoding, closed, full or hung up.

Words are no reason for a command to fail: signs that a terminal lacks are spelt out, and what
cannot be written is remembered, to be said once at the end. The exit code of a command that has
published or checked something is then still its own.
"""

from __future__ import annotations

import codecs
import errno
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

SPELT_OUT = {
    "ε": "epsilon", "δ": "delta", "σ": "sigma", "μ": "mu", "γ": "gamma", "Δ": "Delta", "κ": "kappa",
    "λ": "lambda", "ρ": "rho", "Σ": "sum", "·": "*", "×": "x", "±": "+-", "≤": "<=", "≥": ">=",
    "≈": "~", "²": "^2", "√": "root ", "–": "-", "−": "-", "—": "-", "─": "-", "━": "-", "│": "|",
    "…": "...", "→": "->", "“": '"', "”": '"', "‘": "'", "’": "'", "∞": "infinity", "½": "1/2",
}  # fmt: skip
"""What stands for a sign where an encoding does not have it; "?" for any other."""


def _spell_out(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    missing = problem.object[problem.start : problem.end]
    return "".join(SPELT_OUT.get(sign, "?") for sign in missing), problem.end


codecs.register_error("labeldp", _spell_out)


class Stream:
    """A text stream that never fails: the first problem is kept, and what follows is forgotten."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream: Any = stream if stream is not None else open(os.devnull, "w")  # noqa: SIM115
        self.problem: OSError | None = None
        if stream is None:
            self.problem = OSError(errno.EBADF, os.strerror(errno.EBADF))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="labeldp")

    def write(self, text: str) -> int:
        return self._trying(self._stream.write, text) or len(text)

    def flush(self) -> None:
        self._trying(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _trying(self, act: Any, *given: Any) -> Any:
        try:
            return act(*given)
        except OSError as problem:
            self.problem = self.problem or problem
            self._give_up()
            return None

    def _give_up(self) -> None:
        """What waits in the buffer goes nowhere, so that the interpreter's end is quiet too."""
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        except (OSError, ValueError):  # a stream that is no file
            self._stream = open(os.devnull, "w")  # noqa: SIM115


@contextmanager
def patient_streams() -> Iterator[tuple[Stream, Stream]]:
    """Both standard streams, for as long as a command runs."""
    before = sys.stdout, sys.stderr
    out, error = Stream(before[0]), Stream(before[1])
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, error)
    try:
        yield out, error
        error.flush()
    finally:
        sys.stdout, sys.stderr = before


def wrapped(text: str, stream: Any, hanging: str = "") -> str:
    """Text for a stream: broken between words on a terminal, in one line elsewhere."""
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = text.split("\n")
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=hanging, break_on_hyphens=False)
        for line in lines
    )


def say(text: str, *, error: bool = False, hanging: str = "") -> None:
    """A line for people."""
    stream = sys.stderr if error else sys.stdout
    print(wrapped(text, stream, hanging), file=stream)


def encodes(text: str, stream: Any) -> bool:
    """Whether a stream can show a text to the letter."""
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeError:
        return False
    return True
