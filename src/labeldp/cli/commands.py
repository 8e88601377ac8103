"""Commands by name: ours and those that other packages offer, each imported when it is used.

A package offers a command by an entry point of the group `labeldp.commands`, whose object is a
function as ours are; `labeldp.cli` has what such a function prints with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from labeldp.cli.derived import command
from labeldp.errors import LabelDPError

OWN = (
    "demo",
    "look",
    "inspect",
    "account",
    "plan",
    "release",
    "verify",
    "report",
    "describe",
    "compose",
    "ledger",
    "keygen",
    "sign",
    "fit",
    "predict",
)
GROUP = "labeldp.commands"


class Commands(Mapping[str, click.Command]):
    """The parser's commands, each built when it is asked for; nobody replaces one of ours."""

    def __iter__(self) -> Iterator[str]:
        return iter([*OWN, *sorted(set(_offered()) - set(OWN))])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> click.Command:
        return _own(name) if name in OWN else _loaded(_offered()[name])


class LazyGroup(click.Group):
    """The root of the command line."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.commands = Commands()  # type: ignore[assignment]  # which is only read

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _own(name: str) -> click.Command:
    return command(name, getattr(import_module(f"labeldp.cli.{name}"), name))


def _loaded(entry: EntryPoint) -> click.Command:
    try:
        return command(entry.name, entry.load())
    except Exception as problem:  # whatever another package's import may raise
        return _broken(entry, problem)


def _broken(entry: EntryPoint, problem: Exception) -> click.Command:
    """A command that can only say why it is none."""
    text = f"{entry.value} cannot be loaded: {type(problem).__name__}: {problem}"

    def refuse() -> None:
        raise LabelDPError(f"{entry.name}: {text}; install or remove the package that offers it")

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return command(entry.name, refuse, help=text, add_help_option=False, context_settings=anything)
