"""Errors name arguments as Python spells them; the command line shows them as its options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import labeldp
import labeldp_paper
from labeldp.cli import app
from labeldp.cli.output import in_flags

FLAG = re.compile(r"(?<![\w-])--[a-z]")
SPELLED = re.compile(r"\b[a-z]+_[a-z_]+\b")
QUOTED = re.compile(r"`[^`]*`")
COMMANDS = ("cli", "commands")
NO_ARGUMENTS = {"release_to", "feature_names", "to_pld"}
"""Methods, and a field of a model's file."""


def library() -> list[Path]:
    roots = (Path(str(package.__file__)).parent for package in (labeldp, labeldp_paper))
    return [
        path
        for root in roots
        for path in sorted(root.rglob("*.py"))
        if not set(COMMANDS) & set(path.relative_to(root).parts)
    ]


def messages(tree: ast.AST) -> Iterator[str]:
    """Every text inside a `raise`, the parts of formatted ones apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_no_error_of_the_library_names_an_option() -> None:
    seen = 0
    for path in library():
        for text in messages(ast.parse(path.read_text(encoding="utf-8"))):
            assert not FLAG.search(text), f"{path.name}: {text}"
            seen += 1
    assert seen > 200


def test_arguments_stand_in_backquotes() -> None:
    """A bare `residual_ms` would reach people who typed --residual-ms."""
    for path in library():
        for text in messages(ast.parse(path.read_text(encoding="utf-8"))):
            bare = set(SPELLED.findall(QUOTED.sub("", text)))
            assert bare <= NO_ARGUMENTS, f"{path.name}: {text}"


PYTHON_ALONE = {
    "batch_rows", "fit_intercept", "interval", "labels", "not_private", "randomness",
    "releases", "return_std", "y",
}  # fmt: skip
"""Arguments that no command sets, so that none provokes what is said of them."""
FIELDS = {"needed"}
"""Names within a certificate."""


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text but what documents the code."""
    bodies = (node.body for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list))
    words = {id(each.value) for body in bodies for each in body if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words:
            yield node.value


def test_what_the_command_line_shows_as_an_option_is_one() -> None:
    context = click.Context(app)
    commands = [app.get_command(context, name) for name in app.list_commands(context)]
    parameters = [each for command in commands if command for each in command.params]
    options = {name for each in parameters for name in (*each.opts, *each.secondary_opts)}
    beside = {f"--{name.replace('_', '-')}" for name in PYTHON_ALONE | FIELDS}
    seen = set()
    for path in library():
        for text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            for quoted in QUOTED.findall(text):
                shown = in_flags(quoted).split(" ")[0]
                if shown.startswith("--"):
                    assert shown in options | beside, f"{path.name}: {text}"
                    seen.add(shown)
    assert len(seen & options) > 40
    assert beside <= seen, "named here and said nowhere"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("`bags` must be above 0", "--bags must be above 0"),
        ("leave `bag_seed` out", "leave --bag-seed out"),
        ("use `floor='measured+added'`", "use --floor measured+added"),
        ('use `floor="declared"`', "use --floor declared"),
        ("say `again=True`", "say --again"),
        ("with `intercept=False`", "with --no-intercept"),
        ("`numeric=['age']`", "--numeric age"),
        ("set `penalty` or `max_norm`", "set --ridge or --max-norm"),
        ("give it: `fit(release, table)`", "give it: --data"),
        ("call `plan.release_to`", "call `plan.release_to`"),
        ("no argument here", "no argument here"),
    ],
)
def test_arguments_become_options(said: str, shown: str) -> None:
    assert in_flags(said) == shown
    assert in_flags({"reason": said, "bags": 3}) == {"reason": shown, "bags": 3}
