"""Printing: JSON or tables on standard output, notes and progress on standard error."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.cli.terminal import encodes, say
from labeldp.mechanisms.protocol import REMARKS, Panel, number

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from labeldp.pictures import Picture

__all__ = [
    "REMARKS",
    "draw_all",
    "emit_facts",
    "emit_json",
    "emit_table",
    "note",
    "number",
    "progress",
    "say",
    "show",
    "warnings_as_notes",
]

_WIDEST = 10_000
"""Letters of a line, where nobody's terminal says how many."""


def emit_json(document: Any) -> None:
    """One JSON document."""
    plain = finite(document)
    text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
    if not encodes(text, sys.stdout):
        text = json.dumps(plain, indent=2, allow_nan=False)
    print(text)


def finite(value: Any) -> Any:
    """The same document with null for numbers that JSON does not have (infinity, NaN)."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def emit_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A small table: names on the left, numbers on the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(header):
        words = place == 0 or name == REMARKS
        side: JustifyMethod = "left" if words else "right"
        table.add_column("" if name == REMARKS else name, justify=side, overflow="fold")
    for row in rows:
        table.add_row(*("–" if cell is None else str(cell) for cell in row))
    _print(title, table)


def emit_facts(title: str, facts: Iterable[tuple[str, Any]]) -> None:
    """Names and what they are."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, value in facts:
        table.add_row(name, "–" if value is None else str(value))
    _print(title, table)
    print()


def show(pieces: Iterable[Panel]) -> None:
    """Tables and facts; those that follow each other under one title are one."""
    for (title, header), group in groupby(pieces, lambda piece: (piece.title, piece.header)):
        rows = [row for piece in group for row in piece.rows]
        if header is None:
            emit_facts(title, [(name, value) for name, value in rows])
        else:
            emit_table(title, header, rows)


def _print(title: str, body: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if console.is_terminal:
        console.print(title, style="bold")
        console.print(body)
        return
    needed = console.measure(body, options=console.options.update(max_width=_WIDEST)).minimum
    console.width = max(console.width, needed)  # a file has room for whole words
    with console.capture() as shown:  # cells are padded, which is of no use in a file
        console.print(title)
        console.print(body)
    print("\n".join(line.rstrip() for line in shown.get().rstrip("\n").split("\n")))


def draw_all(pictures: Iterable[Picture], folder: Path) -> None:
    """Pictures as files of a new directory, for light and dark pages."""
    from labeldp.io_util import new_directory
    from labeldp.pictures import draw

    with new_directory(folder) as partial:
        for picture in pictures:
            draw(picture, partial, dark=True)
    note(f"pictures are in {folder}")


def note(text: str) -> None:
    """A remark that is not part of the answer."""
    say(in_flags(text), error=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """What the library warns of is a remark here."""
    from labeldp.errors import LabelDPWarning

    def shown(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, LabelDPWarning):
            note(str(message))
        else:
            usual(message, category, *where, **more)

    usual = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always", LabelDPWarning)
        warnings.showwarning = shown
        yield


_OTHERWISE = {"penalty": "ridge", "kind": "as", "fit(release, table)": "data"}
"""What is said to a command by other names."""
_QUOTED = re.compile(r"`([^`]+)`")
_ARGUMENT = re.compile(r"([a-z][a-z_]*)(?:=(.*))?")


def in_flags(said: Any) -> Any:
    """What the library says of its arguments, with the options that set them in their place.

    `bags` is --bags, `floor="declared"` is --floor declared, `strict=True` is --strict and
    `intercept=False` is --no-intercept.
    """
    if isinstance(said, dict):
        return {name: in_flags(inner) for name, inner in said.items()}

    return _QUOTED.sub(_flag, said) if isinstance(said, str) else said


def _flag(quoted: re.Match[str]) -> str:
    """How a command is told what the library has in backquotes; other things stay as they are."""
    found = _ARGUMENT.fullmatch(_OTHERWISE.get(quoted[1], quoted[1]))
    if found is None:
        return quoted[0]
    name, value = _OTHERWISE.get(found[1], found[1]).replace("_", "-"), found[2]
    if value in (None, "True"):
        return f"--{name}"
    plain = value.strip("\"'[]()")
    return f"--no-{name}" if value == "False" else f"--{name} {plain}"


@contextmanager
def progress(task: str, rows: int | None) -> Iterator[Callable[[int], None]]:
    """A bar with rows/s and time left, on a terminal only; it leaves nothing behind."""
    if not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    speed = TextColumn("{task.fields[speed]}")
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        speed,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        line = bar.add_task(task, total=rows, speed="")

        def advance(count: int) -> None:
            bar.update(line, advance=count)
            rate = bar.tasks[0].speed
            if rate:
                bar.update(line, speed=f"{rate / 1e6:.2f} M/s")

        yield advance
