"""The documentation is run: what a page shows is what the software prints.

Blocks of a page are executed in order, in one temporary directory and one namespace:

    ```python          executed; a ```text block right after it is what it prints
    ```text varies     an example of what it prints: random numbers differ every time
    ```console         lines "$ labeldp …" are executed; the rest is what they print
    ```console varies  executed, must succeed, but prints something else every time
    ```… skip          shown only

    ```sh              lines "labeldp …" are executed and must succeed

Spaces at the ends of lines do not count. Pages find the repository's examples.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

import labeldp
from labeldp.cli import app, main
from labeldp_paper.datasets.demo_table import write_census_like

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [page for page in (*DOCS, README) if page.exists()]
CONTEXT = click.Context(app)
COMMANDS: dict[str, Any] = {
    name: app.get_command(CONTEXT, name) for name in app.list_commands(CONTEXT)
}

_FENCE = re.compile(r"^```([a-z]*)[ \t]*([a-z ]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


by_page = pytest.mark.parametrize("page", PAGES, ids=_name)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    marks: str
    body: str
    line: int
    follows: bool
    """Only white space stands between it and the block before."""


def blocks(page: Path) -> Iterator[Block]:
    text, end = page.read_text(encoding="utf-8"), 0
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        yield Block(*match.groups(), line, not text[end : match.start()].strip())
        end = match.end()


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and a terminal of 80 columns without colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@by_page
def test_blocks_run_and_print_what_is_shown(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace: dict[str, Any] = {"__name__": "docs"}
    (place / "examples").symlink_to(ROOT / "examples")
    printed = ""
    for block in blocks(page):
        where = f"{_name(page)}:{block.line}"
        if "skip" in block.marks:
            continue
        if block.language == "python":
            printed = run_python(block, where, namespace)
        elif block.language == "text" and block.follows and printed:
            if "varies" in block.marks:
                continue
            assert tidy(printed) == tidy(block.body), where
            printed = ""
        elif block.language == "sh":
            run_shell(block, where, monkeypatch)
        elif block.language == "console":
            run_console(block, where, monkeypatch)


def run_shell(block: Block, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in block.body.splitlines():
        if line.startswith("labeldp "):
            code, printed = run_command(shlex.split(line), monkeypatch)
            assert code == 0, f"{where}: {line}: {printed}"


def run_python(block: Block, where: str, namespace: dict[str, Any]) -> str:
    out = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.body, where, "exec", dont_inherit=True)
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def run_console(block: Block, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for command, expected in commands(block.body):
        assert command[0] == "labeldp", f"{where}: only labeldp commands are run"
        code, printed = run_command(command, monkeypatch)
        if "varies" in block.marks:
            assert code == 0, f"{where}: {printed}"
        else:
            assert tidy(printed) == tidy(expected), f"{where}: {shlex.join(command)}"


def commands(body: str) -> Iterator[tuple[list[str], str]]:
    """The commands of a console block, each with the output shown below it."""
    joined = re.sub(r"\\\n[> ]*", "", body)
    for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        yield shlex.split(line), expected


def run_command(command: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Exit code and everything printed, as on a terminal."""
    monkeypatch.setattr(sys, "argv", command)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue()
    return 0, out.getvalue()


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip()


@by_page
def test_relative_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{_name(page)} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{_name(page)} links to {target}"


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ +(.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@by_page
def test_every_option_and_name_mentioned_exists(page: Path) -> None:
    known = {option for command in COMMANDS.values() for option in options(command)} | {"--help"}
    known |= {
        no for command in COMMANDS.values() for p in command.params for no in p.secondary_opts
    }
    mentioned = re.findall(r"`[^`\n]*`", prose(page))
    assert {o for text in mentioned for o in _OPTION.findall(text)} <= known
    for dotted in re.findall(r"`(labeldp(?:\.\w+)+)`", prose(page)):
        assert resolves(dotted), f"{_name(page)} names {dotted}"


def resolves(dotted: str) -> bool:
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        try:
            for name in parts[cut:]:
                value = getattr(value, name)
        except AttributeError:
            return False
        return True
    return False


def options(command: Any) -> dict[str, Any]:
    """The options of a command, --help aside."""
    found = {}
    for parameter in command.params:
        if parameter.param_type_name == "option":
            found |= dict.fromkeys(parameter.opts, parameter)
    found.pop("--help", None)
    return found


def sections(page: Path) -> dict[str, str]:
    parts = re.split(r"^## +(.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


CLI = sections(ROOT / "docs" / "cli.md")
_BY_ANCHOR = {title.lower().replace(" ", "-"): text for title, text in CLI.items()}


def documented(command: str) -> set[str]:
    """The options in the command's section and in the sections it links to."""
    text = CLI[f"labeldp {command}"]
    linked = [_BY_ANCHOR[anchor] for anchor in re.findall(r"\]\(#([a-z-]+-options)\)", text)]
    rows = [row for part in (text, *linked) for row in table_rows(part) if "`--" in row[0]]
    return {row[0].split()[0].strip("`") for row in rows}


def test_cli_page_has_every_command() -> None:
    titles = {title.removeprefix("labeldp ") for title in CLI if title.startswith("labeldp ")}
    assert titles == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_cli_page_has_every_option(name: str) -> None:
    known = {each.opts[0] for each in options(COMMANDS[name]).values()} - {"--help-all"}
    assert documented(name) == known
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "argument":
            assert parameter.name.upper() in CLI[f"labeldp {name}"]


def test_python_page_has_every_public_name() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for name in labeldp.__all__:
        assert f"`{name}`" in text or f"`labeldp.{name}`" in text, name


SHOWN_JSON = {
    row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in table_rows(CLI["JSON"])
}


def json_names(line: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the one JSON document on standard output."""
    monkeypatch.setattr(sys, "argv", ["labeldp", *shlex.split(line), "--json"])
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code, line
    return set(json.loads(out.getvalue()))


def test_cli_page_has_the_json_names(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_census_like(place / "t.parquet", 3000)
    table = "t.parquet --label WKSWORK1 --label-range 0 51 --features AGE,SEX"
    lines = (
        "account wtd-flag --rows 1000000 --label-range 0 51 --residual-ms 64",
        "look t.parquet --label WKSWORK1",
        f"plan {table} --bags 100 --anyway --out plan.json",
        f"release {table} --plan plan.json --anyway --out r",
        "keygen key",
        "sign r --key key",
        "verify r",
        f"audit {table} --mechanism noisy-rows --seconds 0.2",
        "compose r r",
        "ledger create book --epsilon 1",
        "fit r --out model.json",
        "predict model.json t.parquet --out p.csv",
        "datasets",
        "attack",
        "reproduce random-projection",
    )
    assert {line.split()[0] for line in lines} | {"demo"} == set(SHOWN_JSON)
    for line in lines:
        assert json_names(line, monkeypatch) == SHOWN_JSON[line.split()[0]], line


@pytest.mark.slow
def test_cli_page_has_the_json_names_of_demo(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place == Path.cwd()
    line = "demo --rows 2000 --epsilon 100 --delta 0.01"
    assert json_names(line, monkeypatch) == SHOWN_JSON["demo"]
