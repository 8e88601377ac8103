"""labeldp_paper stands on public names of labeldp alone, in rooms of its own order."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import labeldp
import labeldp_paper

PAPER, CORE = Path(labeldp_paper.__file__).parent, Path(labeldp.__file__).parent
DOCS = Path(__file__).parents[2] / "docs" / "python.md"

ROOMS = ("theory", "datasets", "naive", "experiments", "commands")
FORBIDDEN = {("datasets", "theory")}

PUBLIC = (
    "labeldp", "labeldp.accounting", "labeldp.cli", "labeldp.datasets", "labeldp.errors",
    "labeldp.features", "labeldp.io_util", "labeldp.learners", "labeldp.mechanisms",
    "labeldp.mechanisms.account", "labeldp.mechanisms.workbench", "labeldp.pictures",
    "labeldp.exact",
)  # fmt: skip
"""What a package on top of labeldp may import from: of each what its `__all__` lists."""


def modules(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """(module, name in it or nothing, name here) of every import, those for types too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((str(node.module), a.name, a.asname or a.name) for a in node.names)


def attributes(tree: ast.AST, name: str) -> set[str]:
    """What is taken from an object of this name."""
    taken = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in taken if ast.unparse(node.value) == name}


def complaints(code: str) -> list[str]:
    """What the code uses of labeldp that is not public."""
    tree, found = ast.parse(code), []
    for module, name, here in imports(tree):
        if module.partition(".")[0] != "labeldp":
            continue
        if module not in PUBLIC:
            found.append(f"{module} is not a public module")
            continue
        if not name:
            found.append(f"{module} is imported whole; name what is used")
            continue
        home = importlib.import_module(module)
        if name not in home.__all__:
            found.append(f"{module}.{name} is not public")
        elif isinstance(value := getattr(home, name), ModuleType):
            listed = getattr(value, "__all__", None) or vars(value)
            used = attributes(tree, here)
            found += [f"{module}.{name}.{a} is not public" for a in used if not public(a, listed)]
    return found


def public(name: str, listed: object) -> bool:
    return not name.startswith("_") and name in listed  # type: ignore[operator]


@pytest.mark.parametrize("path", modules(PAPER), ids=lambda path: str(path.relative_to(PAPER)))
def test_only_public_names_are_used(path: Path) -> None:
    assert not complaints(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", PUBLIC)
def test_public_modules_say_what_is_public_and_are_documented(module: str) -> None:
    home = importlib.import_module(module)
    assert home.__all__
    assert all(hasattr(home, name) for name in home.__all__)
    assert f"`{module}`" in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (
            "from labeldp.sampling.streams import streams",
            "labeldp.sampling.streams is not a public module",
        ),
        ("from labeldp.accounting.residual_floor import Measurement", "is not a public module"),
        ("def f():\n    from labeldp.passes.engine import LocalEngine", "is not a public module"),
        (
            "import labeldp.sampling.rounded_noise",
            "labeldp.sampling.rounded_noise is not a public module",
        ),
        ("import labeldp", "labeldp is imported whole"),
        (
            "from labeldp.sampling import rounded_noise",
            "labeldp.sampling.rounded_noise is not public",
        ),
        ("from labeldp.cli import _refuse", "labeldp.cli._refuse is not public"),
        ("from labeldp.accounting import gaussian\ngaussian._x", "gaussian._x is not public"),
    ],
)
def test_what_is_not_public_is_seen(code: str, cause: str) -> None:
    (found,) = complaints(code)
    assert cause in found


@pytest.mark.parametrize("path", modules(PAPER), ids=lambda path: str(path.relative_to(PAPER)))
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    room = path.relative_to(PAPER).parts[0]
    for module, _, _ in imports(ast.parse(path.read_text(encoding="utf-8"))):
        top, _, rest = module.partition(".")
        if top == "labeldp_paper":
            other = rest.partition(".")[0]
            assert ROOMS.index(other) <= ROOMS.index(room), f"{room} imports {other}"
            assert (room, other) not in FORBIDDEN, f"{room} imports {other}"


def test_the_list_of_rooms_is_complete() -> None:
    rooms = {path.relative_to(PAPER).parts[0] for path in modules(PAPER)} - {"__init__.py"}
    assert rooms == set(ROOMS)


@pytest.mark.parametrize("path", modules(CORE), ids=lambda path: str(path.relative_to(CORE)))
def test_labeldp_does_not_know_the_laboratory(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [module for module, _, _ in imports(tree) if module.startswith("labeldp_paper")]
