"""Commands of other packages: found by entry point, imported when used, and harmless if broken."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import click
import pytest

from labeldp.cli import ENTRY_POINTS, app
from labeldp.cli.options import Command, argument, json_option
from labeldp.cli.output import emit_json
from tests.console import labeldp


@click.command(cls=Command)
@argument("name", "Whom.")
@json_option
def hello(name: str, as_json: bool) -> None:
    """Greet."""
    if as_json:
        emit_json({"hello": name})
    else:
        print(f"hello {name}")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What other packages offer: name → object."""
    found: dict[str, str] = {}

    def entry_points(*, group: str) -> list[EntryPoint]:
        assert group == ENTRY_POINTS
        return [EntryPoint(name, value, group) for name, value in found.items()]

    monkeypatch.setattr("labeldp.cli.entry_points", entry_points)
    return found


def test_a_command_of_another_package_is_like_any_other(offered: dict[str, str]) -> None:
    offered["hello"] = f"{__name__}:hello"
    assert re.search(r"hello +Greet\.", labeldp("--help").out)
    assert "Greet." in labeldp("hello", "--help").out
    assert labeldp("hello", "you").out == "hello you\n"
    assert labeldp("hello", "you", "--json").json == {"hello": "you"}
    assert "Missing argument 'NAME'" in labeldp("hello").error


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("no.such.package:hello", "ModuleNotFoundError"),
        (f"{__name__}:nothing", "AttributeError"),
        (f"{__name__}:offered", "TypeError"),
    ],
)
def test_a_broken_one_says_so_when_it_is_called(
    offered: dict[str, str], value: str, cause: str
) -> None:
    offered["hello"] = value
    assert labeldp("--version").code == 0
    listed = labeldp("--help")
    assert (listed.code, listed.err) == (0, "")
    assert all(name in listed.out for name in (*app.commands, "hello"))
    for arguments in ((), ("--help",), ("file", "--rows", "3")):
        error = labeldp("hello", *arguments).error
        assert error.startswith(f"hello: {value} cannot be loaded: {cause}")
        assert error.endswith("install or remove the package that offers it")


def test_a_missing_one_is_an_unknown_command(offered: dict[str, str]) -> None:
    assert not offered
    assert "No such command 'reproduce'" in labeldp("reproduce").error


def test_none_replaces_a_command_of_ours(offered: dict[str, str]) -> None:
    offered["verify"] = f"{__name__}:hello"
    assert labeldp("--help").out.count("verify") == 1
    assert "Greet" not in labeldp("verify", "--help").out


@pytest.mark.parametrize("arguments", [("--version",), ("verify", "--help")])
def test_a_command_imports_no_other(arguments: tuple[str, ...]) -> None:
    program = (
        "import sys\nfrom labeldp.cli import main\n"
        "try: main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    )
    done: Any = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.splitlines()[-1].split())
    assert not any(name.startswith("labeldp_paper") for name in modules)
