"""What is given twice, and what is not given at all: one line before any data are read."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from labeldp.cli import app
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


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ((), "DATA, --label COLUMN, --label-range LO HI, --out PATH"),
        (
            ("t.csv", "--ledger", "l", "--label", "y"),
            "--label-range LO HI, --out PATH, --dataset NAME",
        ),
        (("t.csv", "--plan", "p", "--dataset", "d"), "--out PATH, --ledger FILE"),
        (("t.csv", "--formula", "y ~ x"), "--label-range LO HI, --out PATH"),
    ],
)
def test_all_that_is_missing_is_named_at_once(words: tuple[str, ...], missing: str) -> None:
    assert labeldp("release", *words).error.startswith(f"Missing {missing};")


def test_a_ledger_of_the_environment_needs_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELDP_LEDGER", "book")
    asked = ("t.csv", "--label", "y", "--label-range", 0, 1, "--out", "r")
    assert labeldp("release", *asked).error.startswith(
        "Missing --dataset NAME (LABELDP_LEDGER is set);"
    )


def test_a_ledger_that_is_not_there_is_noticed_before_the_data(tmp_path: Path) -> None:
    asked = ("--label", "y", "--label-range", 0, 1, "--out", tmp_path / "r")
    book = ("--ledger", tmp_path / "none", "--dataset", "d")
    assert "ledger" in labeldp("release", tmp_path / "none.csv", *asked, *book).error
