"""Commands by name: ours and those that other packages offer, each imported when it is used.

A package offers a command by an entry point of the group `labeldp.commands`, whose object is a
function as ours are; `labeldp.cli` has what such a function prints with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from labeldp.cli.derived import derived
from labeldp.errors import LabelDPError

OWN = (
    "demo",
    "look",
    "inspect",
    "account",
    "plan",
    "release",
    "verify",
    "audit",
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


class Commands(Mapping[str, Any]):
    """The parser's commands, each built when it is asked for; nobody replaces one of ours."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter([*OWN, *sorted(set(_offered()) - set(OWN))])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _own(name) if name in OWN else _loaded(_offered()[name])
        return self._built[name]


class LazyGroup(TyperGroup):
    """The root of the command line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()  # type: ignore[assignment]  # which is only read


class GroupedCommand(TyperCommand):
    """A command whose help shows options in the groups that declare them, as plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                alone = "Arguments" if parameter.param_type_name == "argument" else "Options"
                title = getattr(parameter, "rich_help_panel", None) or alone
                groups.setdefault(title, []).append(record)
        last = groups.pop("Options", [])
        for title, records in (groups | {"Options": last}).items():
            with formatter.section(title):
                formatter.write_dl(records)


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _own(name: str) -> Any:
    return _parser(name, getattr(import_module(f"labeldp.cli.{name}"), name))


def _loaded(entry: EntryPoint) -> Any:
    try:
        return _parser(entry.name, entry.load())
    except Exception as problem:  # whatever another package's import may raise
        return _broken(entry, problem)


def _parser(name: str, function: Callable[..., None], **settings: Any) -> Any:
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    one.command(name, cls=GroupedCommand, **settings)(derived(function))
    return typer.main.get_command(one)


def _broken(entry: EntryPoint, problem: Exception) -> Any:
    """A command that can only say why it is none."""
    text = f"{entry.value} cannot be loaded: {type(problem).__name__}: {problem}"

    def refuse(_: typer.Context) -> None:
        raise LabelDPError(f"{entry.name}: {text}; install or remove the package that offers it")

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return _parser(entry.name, refuse, help=text, add_help_option=False, context_settings=anything)
