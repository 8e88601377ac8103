"""Commands are derived from dataclasses: options, flags, defaults, help and what arrives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from labeldp.cli.derived import derived, given, merged


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


def build() -> tuple[typer.Typer, list[object]]:
    seen: list[object] = []

    def act(
        context: typer.Context,
        place: Place,
        way: Way,
        json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
    ) -> None:
        """Act."""
        seen.extend([place, way, json, given(context).get("intercept")])

    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(derived(act))
    return app, seen


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
    both = merged("Both", [Way, Other])
    seen: list[object] = []

    def act(options: object) -> None:
        seen.append(options)

    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(derived(act, options=both))
    text = CliRunner().invoke(app, ["--help"]).output
    assert "Rows." in text
    assert "Not this one." not in text
    assert CliRunner().invoke(app, ["--name", "m", "--bag-size", "2"]).exit_code == 0
    assert seen == [both(bag_size=2, name="m")]
