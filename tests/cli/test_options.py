"""Options: none is forgotten, given twice or missing without a word."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

import click
import pytest

import labeldp as library
from labeldp.cli import app
from labeldp.mechanisms.options import Encoding
from labeldp.mechanisms.registry import mechanisms as mechanisms_list
from tests.console import labeldp

SINGLE = [
    (command, option.opts[0], option.nargs)
    for command in app.commands
    for option in app.commands[command].params
    if isinstance(option, click.Option) and not (option.multiple or option.is_flag)
]


@pytest.mark.parametrize(("command", "flag", "values"), SINGLE)
def test_an_option_of_one_value_is_refused_when_given_twice(
    command: str, flag: str, values: int
) -> None:
    once = [flag, *["1"] * values]
    assert f"{flag} is given twice and takes one value" in labeldp(command, *once, *once).error


def test_two_labels_are_released_one_by_one(tmp_path: Path) -> None:
    asked = ("--label", "a", "--label=b", "--label-range", 0, 1, "--out", tmp_path / "r")
    error = labeldp("release", tmp_path / "t.csv", *asked).error
    assert "one by one" in error
    assert "--drop" in error


def test_lists_may_be_repeated_and_flags_too(tmp_path: Path) -> None:
    """The refusal is that of the file, which is not there."""
    asked = (
        "--drop",
        "a",
        "--drop",
        "b",
        "--clip",
        "--clip",
        "--label",
        "y",
        "--label-range",
        0,
        1,
    )
    assert "no such file" in labeldp("plan", tmp_path / "t.csv", *asked).error


@pytest.mark.parametrize("given", [("--ledger", "book"), ("--dataset", "d"), ()])
def test_a_ledger_needs_a_dataset(given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    if not given:
        monkeypatch.setenv("LABELDP_LEDGER", "book")
    asked = ("t.csv", "--label", "y", "--label-range", 0, 1, "--out", "r", *given)
    assert (
        "--ledger (or LABELDP_LEDGER) and --dataset go together" in labeldp("release", *asked).error
    )


def test_a_ledger_that_is_not_there_is_noticed_before_the_data(tmp_path: Path) -> None:
    asked = ("--label", "y", "--label-range", 0, 1, "--out", tmp_path / "r")
    book = ("--ledger", tmp_path / "none", "--dataset", "d")
    assert "ledger" in labeldp("release", tmp_path / "none.csv", *asked, *book).error


def parameters(command: str) -> dict[str, click.Parameter]:
    return {str(each.name): each for each in app.commands[command].params}


NOT_OF_SCAN = {"data", "batch_rows", "column_formats"}
"""Arguments of `scan` for Python only."""
NOT_OF_PLAN = {"source", "engine", "table", "standardise", "indicators"}
"""Arguments of `plan` for Python only."""
COMMAND_ALONE = {
    "data", "out", "as_json", "verbose", "threads", "engine_name", "settings", "help_all", "help",
}  # fmt: skip


def test_every_keyword_of_scan_is_an_option() -> None:
    keywords = set(inspect.signature(library.scan).parameters) - NOT_OF_SCAN
    assert keywords <= set(parameters("plan"))


@pytest.mark.parametrize("command", ["plan", "release"])
def test_every_keyword_of_plan_and_of_its_mechanisms_is_an_option(command: str) -> None:
    own = {
        "plan": {"report", "curve"},
        "release": {"plan_file", "about", "again", "ledger_file", "dataset"},
    }[command]
    mechanisms = {each.name for m in mechanisms_list() for each in fields(m.Options)}
    keywords = set(inspect.signature(library.plan).parameters) - {"choices"} | mechanisms
    keywords |= {each.name for each in fields(Encoding)}
    options = set(parameters(command)) - COMMAND_ALONE - own
    scan = set(inspect.signature(library.scan).parameters) - NOT_OF_SCAN
    assert options == (keywords - NOT_OF_PLAN) | scan


def test_options_of_other_mechanisms_are_set_by_name(tmp_path: Path) -> None:
    asked = ("plan", "{t}", "--label", "y", "--label-range", 0, 9)
    data = tmp_path / "t.csv"
    data.write_text("a,y\n" + "".join(f"{k % 7},{k % 5}\n" for k in range(50)))
    words = [str(word).format(t=data) for word in asked]
    assert "no argument --bagz; did you mean --bags?" in labeldp(*words, "-o", "bagz=5").error
    assert "write -o name=value" in labeldp(*words, "-o", "bags").error
    same = [labeldp(*words, "--force", "--json", *more).json for more in BAGS]
    assert same[0] == same[1]
    assert same[0]["bags"] == 20


BAGS = (("--bags", 20), ("-o", "bags=20"))
