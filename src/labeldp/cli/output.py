"""Printing: the answer on standard output, notes and progress on standard error.

A command must not fail because its words cannot be printed. Standard streams may be closed, full or
broken; `SafeStream` writes UTF-8 as far as it can and remembers the first error.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from labeldp.display import number
from labeldp.errors import LabelDPWarning
from labeldp.io_util import new_directory, new_path
from labeldp.pictures import Picture, draw

# ---- answers

REMARKS = "words"
"""The heading of a column of remarks; it is not shown."""


def emit_json(document: Any) -> None:
    """Print one JSON document; numbers that JSON lacks (infinity, NaN) become null."""
    finite = json.loads(json.dumps(document), parse_constant=lambda _name: None)
    print(json.dumps(finite, indent=2, ensure_ascii=False))


def emit_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table: the first column and remarks on the left, numbers on the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(header):
        table.add_column(
            "" if name == REMARKS else name,
            justify="left" if place == 0 or name == REMARKS else "right",
            no_wrap=place == 0,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(_cell, row))
    _print(title, table)


def emit_facts(title: str, facts: Iterable[tuple[str, Any]]) -> None:
    """Print names and values; of a value that is a dict, every name that leads to a value."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")

    def add(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                add(f"{name}, {key}", inner)
        else:
            table.add_row(name.replace("_", " "), _cell(value))

    for name, value in facts:
        add(name, value)
    _print(title, table)
    print()


def _cell(value: Any) -> str:
    """Return a value as text; numbers have thousands separated and few digits."""
    if value is None:
        return "–"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value) if math.isfinite(value) else str(value)
    return ", ".join(map(_cell, value)) if isinstance(value, list | tuple) else str(value)


def _print(title: str, body: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:  # no word of a wide table is cut in a file
        needed = console.measure(body, options=console.options.update(max_width=10_000)).minimum
        console.width = max(console.width, needed)
    with console.capture() as capture:
        if title:
            console.print(title, style="bold")
        console.print(body)
    print("\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")))


def write_text(file: Path, text: str) -> None:
    """Write a new text file."""
    with new_path(file) as partial:
        partial.write_text(text, encoding="utf-8")


def draw_pictures(pictures: Iterable[Picture], folder: Path) -> None:
    """Draw pictures into a new directory."""
    with new_directory(folder) as partial:
        for picture in pictures:
            draw(picture, partial)
    note(f"pictures are in {folder}")


# ---- words for people


def say(text: str, *, error: bool = False, indent: str = "") -> None:
    """Print text for people: broken between words on a terminal, in one line elsewhere."""
    stream = sys.stderr if error else sys.stdout
    if stream.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(
            textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False)
            for line in text.split("\n")
        )
    print(text, file=stream)


def note(text: str) -> None:
    """Print a remark that is not part of the answer to standard error."""
    say(in_flags(text), error=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print warnings of this package as notes."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, LabelDPWarning):
            note(str(message))
        else:
            usual(message, category, *where, **more)

    usual = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always", LabelDPWarning)
        warnings.showwarning = show
        yield


_OPTION_NAMES = {"penalty": "ridge", "kind": "as"}
"""Options that are not called as their arguments are."""
_QUOTED_ARGUMENT = re.compile(r"`([a-z][a-z_]*)(?:=([^`]*))?`")


def in_flags(text: Any) -> Any:
    """Replace arguments in backquotes by the options that set them.

    `bags` becomes --bags, `floor="declared"` --floor declared, `strict=True` --strict and
    `intercept=False` --no-intercept. Of a dict all values are changed.
    """

    def flag(argument: re.Match[str]) -> str:
        name = _OPTION_NAMES.get(argument[1], argument[1]).replace("_", "-")
        if argument[2] in (None, "True"):
            return f"--{name}"
        if argument[2] == "False":
            return f"--no-{name}"
        return f"--{name} " + argument[2].strip("\"'[]()")

    if isinstance(text, dict):
        return {name: in_flags(inner) for name, inner in text.items()}
    if not isinstance(text, str):
        return text
    return _QUOTED_ARGUMENT.sub(flag, text.replace("`fit(release, table)`", "--data"))


@contextmanager
def progress(task: str, rows: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar with the time left, on a terminal only; it leaves nothing behind."""
    if not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task(task, total=rows)
        yield lambda count: bar.update(line, advance=count)


# ---- streams


class SafeStream:
    """A text stream that never fails: it remembers the first error and drops what follows."""

    def __init__(self, stream: TextIO | None) -> None:
        self.problem: OSError | None = None
        self._stream: Any = stream
        if stream is None:  # Python's value of a stream that was closed before the start
            self.problem = OSError(errno.EBADF, os.strerror(errno.EBADF))
            self._stream = open(os.devnull, "w")  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # ε is in every answer

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, act: Callable[..., Any], *arguments: Any) -> None:
        try:
            act(*arguments)
        except OSError as problem:
            self.problem = self.problem or problem
            try:  # what waits in the buffer must not fail again when the interpreter ends
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            except (OSError, ValueError):  # the stream has no file descriptor
                self._stream = open(os.devnull, "w")  # noqa: SIM115
