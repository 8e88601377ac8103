"""Rooms stand in the order of the road; a room imports rooms above it, by their front pages."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import labeldp
from labeldp.source.frames import ELSEWHERE

ROOT = Path(labeldp.__file__).parent
HOMES = {name: home.removeprefix("labeldp.") for name, home in labeldp._HOMES.items()}
"""Where the names of the front page stand, from which commands import them."""

ROOMS = (
    "errors", "common", "_random", "kernels",
    "source", "features", "statistics", "engines", "spark", "accounting", "door", "release",
    "mechanisms", "planning", "doctor", "signoff", "learners",
    "datasets", "cli", "__main__",
)  # fmt: skip

EXTRAS = {
    "torch", "pyspark", "pandas", "polars", "duckdb", "numba", "matplotlib", "dp_accounting",
    "cryptography",
}  # fmt: skip

DATA_ROAD = {"source", "features", "statistics", "engines", "spark"}
FORBIDDEN = {
    "accounting": DATA_ROAD,  # the privacy road does not know the data road, nor vice versa
    **{room: {"accounting"} for room in DATA_ROAD},
    "learners": {"mechanisms", "planning"},
    "datasets": set(ROOMS),
}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package but its front page, which only re-exports."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            yield name, path


def room_of(module: str) -> str:
    return module.partition(".")[0]


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules of ours that the code imports anywhere, in functions too, but for types only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports(ast.Module(node.orelse, []))
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            inside = [f"{node.module}.{HOMES.get(a.name, a.name)}" for a in node.names]
            names = inside if node.module == "labeldp" else [str(node.module)]
        else:
            yield from imports(node)
            continue
        yield from (name.partition(".")[2] for name in names if name.startswith("labeldp."))


def past_front_pages(room: str, tree: ast.AST) -> Iterator[str]:
    """What the code of a room imports of others, anywhere, for types too, past their pages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            wanted = [(*str(node.module).split("."), alias.name) for alias in node.names]
        else:
            continue
        for package, other, *inside in (parts for parts in wanted if len(parts) > 2):
            if package == "labeldp" and other != room and not is_offered(other, inside):
                yield ".".join((other, *inside))


def is_offered(room: str, inside: list[str]) -> bool:
    """Whether the front page of a room offers this; a room of one module is its own page."""
    page = importlib.import_module(f"labeldp.{room}")
    return not hasattr(page, "__path__") or (len(inside) == 1 and inside[0] in page.__all__)


def test_the_list_of_rooms_is_complete() -> None:
    assert sorted({room_of(name) for name, _ in modules()}) == sorted(ROOMS)


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda value: str(value)[:40])
def test_a_room_imports_only_rooms_above_it(name: str, path: Path) -> None:
    room = room_of(name)
    for other in map(room_of, imports(ast.parse(path.read_text(encoding="utf-8")))):
        assert ROOMS.index(other) <= ROOMS.index(room), f"{name} imports {other}"
        assert other == room or other not in FORBIDDEN.get(room, ()), f"{name} imports {other}"


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda value: str(value)[:40])
def test_a_room_is_entered_by_its_front_page(name: str, path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert list(past_front_pages(room_of(name), tree)) == []


def test_the_house_too_is_made_of_front_pages() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    assert list(past_front_pages("", tree)) == []
    assert set(HOMES.values()) <= set(ROOMS)


def test_imports_past_front_pages_are_found_wherever_they_stand() -> None:
    code = """
import labeldp.source.files
import numpy.linalg
from labeldp import door
from labeldp.accounting import Curve, invert, search
from labeldp.door import publish
from labeldp.release.claim import Claim
if TYPE_CHECKING:
    from labeldp.source.kinds import Column as Kind
def f():
    from labeldp.mechanisms.wtd_flag.plan import draft
    class A:
        from labeldp.source import files, scan
"""
    found = ["accounting.search", "mechanisms.wtd_flag.plan.draft", "source.files"]
    kinds = "source.kinds.Column"
    assert sorted(past_front_pages("release", ast.parse(code))) == [
        *found, "source.files", kinds
    ]  # fmt: skip
    assert sorted(past_front_pages("source", ast.parse(code))) == [
        *found[:2],
        "release.claim.Claim",
    ]


def test_imports_are_found_wherever_they_stand() -> None:
    code = """
from typing import TYPE_CHECKING
import labeldp.cli
from labeldp import door
if TYPE_CHECKING:
    from labeldp import run
else:
    from labeldp.release import Release
def f():
    class A:
        from labeldp.source.files import find
"""
    assert list(imports(ast.parse(code))) == ["cli", "door", "release", "source.files"]


DOWN_THE_ROAD = {
    "source.frames": "spark",  # frames of other packages, whose readers stand further down
    "release.files": "mechanisms",  # what a certificate must hold, and what its labels are
    "mechanisms.workbench.running": "learners",  # whether predictions beat the mean of the labels
}
"""Rooms that are looked up by name from above, when they are needed."""


def looked_up(path: Path) -> set[str]:
    """Rooms whose modules the code of a module names in a text, if it looks any up."""
    code = path.read_text(encoding="utf-8")
    if "import_module(" not in code and "later(" not in code:
        return set()
    texts = {str(n.value) for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant)}
    named = (re.fullmatch(r"labeldp\.(\w+)(\.[\w.:]*)?", text) for text in texts)
    return {found[1] for found in named if found} & set(ROOMS)


def test_what_is_looked_up_further_down_is_listed() -> None:
    found = {}
    for name, path in modules():
        for other in looked_up(path):
            if ROOMS.index(other) > ROOMS.index(room_of(name)):
                found[name] = other
    assert found == DOWN_THE_ROAD
    for module in ELSEWHERE.values():
        assert callable(importlib.import_module(module).reader_of)


def test_every_module_imports() -> None:
    """But for those that need an extra which is not installed here."""
    for module in pkgutil.walk_packages(labeldp.__path__, "labeldp."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as problem:
            if problem.name not in EXTRAS:
                raise
