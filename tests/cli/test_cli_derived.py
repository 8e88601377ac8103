"""Commands are derived from dataclasses: options, flags, defaults, help and what arrives."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner

from labeldp.cli.derived import argument, command, given, merged, told


@dataclass(frozen=True)
class Place:
    path: str = field(metadata={"help": "Where.", "argument": True})
    span: tuple[float, float] = field(metadata={"help": "From, to.", "metavar": "LO HI"})
    out: Path | None = field(default=None, metadata={"help": "A file."})


@dataclass(frozen=True)
class Way:
    bag_size: int | None = field(default=None, metadata={"help": "Rows.", "min": 1})
    over: bool = field(default=False, metadata={"help": "Over the draw."})
    intercept: bool = field(default=True, metadata={"help": "None.", "flag": "--no-intercept"})
    hidden: str = field(default="kept", metadata={"help": "For Python alone.", "flag": None})


@dataclass(frozen=True)
class Other:
    bag_size: int | None = field(default=None, metadata={"help": "Not this one."})
    name: str = field(default="n", metadata={"help": "A name."})


@cache
def both() -> type[Any]:
    """What is known only when a command is built."""
    return merged("Both", [Way, Other])


def build() -> tuple[click.Command, list[object]]:
    seen: list[object] = []

    def act(
        context: click.Context,
        place: Place,
        way: Way,
        json: Annotated[bool, told("JSON.")] = False,
    ) -> None:
        """Act."""
        seen.extend([place, way, json, given(context).get("intercept")])

    return command("act", act), seen


def test_instances_arrive() -> None:
    app, seen = build()
    line = "here --span 0 2 --bag-size 3 --no-intercept --out x"
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0, result.output
    assert seen == [
        Place("here", (0.0, 2.0), Path("x")),
        Way(bag_size=3, intercept=False),
        False,
        "--no-intercept",
    ]


def test_defaults_are_those_of_the_fields() -> None:
    app, seen = build()
    assert CliRunner().invoke(app, ["here", "--span", "0", "2", "--json"]).exit_code == 0
    assert seen == [Place("here", (0.0, 2.0)), Way(), True, None]


def test_help_says_what_the_fields_say() -> None:
    app, _ = build()
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output
    for words in ("--span LO HI", "--no-intercept", "Over the draw.", "Where.", "Act."):
        assert words in text
    assert "--hidden" not in text
    assert "--no-over" not in text
    assert "--intercept" not in text.replace("--no-intercept", "")


@pytest.mark.parametrize("line", ["here", "here --span 0 2 --bag-size 0", "--span 0 2"])
def test_the_parser_refuses(line: str) -> None:
    app, seen = build()
    assert CliRunner().invoke(app, line.split()).exit_code == 2
    assert not seen


def test_merged_groups_are_known_when_the_command_is_made() -> None:
    seen: list[object] = []

    def act(options: Annotated[Any, both]) -> None:
        seen.append(options)

    app = command("act", act)
    text = CliRunner().invoke(app, ["--help"]).output
    assert "Rows." in text
    assert "Not this one." not in text
    assert CliRunner().invoke(app, ["--name", "m", "--bag-size", "2"]).exit_code == 0
    assert seen == [both()(bag_size=2, name="m")]


def alone() -> tuple[click.Command, list[object]]:
    seen: list[object] = []

    def act(
        paths: Annotated[list[Path], argument("Files.")],
        key: Annotated[list[Path] | None, told("Keys.")] = None,
        kind: Annotated[str, told("Which.", flag="--as")] = "card",
        rows: Annotated[int, told("Rows.", min=1)] = 5,
        shrink: Annotated[bool | None, told("Shrink.", flag="--shrink/--no-shrink")] = None,
        part: Annotated[float | None, told("A share.", metavar="SHARE", envvar="PART")] = None,
    ) -> int:
        """Act."""
        seen.extend([paths, key, kind, rows, shrink, part])
        return 7

    return command("act", act), seen


def test_parameters_of_their_own_arrive_as_they_are_declared() -> None:
    app, seen = alone()
    line = "a b --key x --key y --as table --rows 2 --no-shrink --part .5"
    assert app.main(line.split(), standalone_mode=False) == 7
    paths = [Path("a"), Path("b")], [Path("x"), Path("y")]
    assert seen == [*paths, "table", 2, False, 0.5]
    seen.clear()
    assert CliRunner().invoke(app, ["a"], env={"PART": "0.25"}).exit_code == 0
    assert seen == [[Path("a")], None, "card", 5, None, 0.25]


@pytest.mark.parametrize("line", ["", "a --rows 0", "a --rows 1.5", "a --part half", "a --kind x"])
def test_their_values_are_checked(line: str) -> None:
    app, seen = alone()
    assert CliRunner().invoke(app, line.split()).exit_code == 2
    assert not seen


def test_their_help_says_all() -> None:
    app, _ = alone()
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output
    for words in (
        "PATHS...",
        "Files.",
        "--part SHARE",
        "--as TEXT",
        "[default: card]",
        "env var: PART",
    ):
        assert words in text


def test_a_function_that_declares_nothing_takes_its_parameters_by_place_or_name() -> None:
    seen: list[object] = []

    def act(name: str, times: int = 2, loud: bool = False) -> None:
        seen.extend([name, times, loud])

    app = command("act", act)
    assert CliRunner().invoke(app, ["x", "--times", "3", "--loud"]).exit_code == 0
    assert seen == ["x", 3, True]
