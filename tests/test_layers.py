"""Packages import downwards, heavy packages are imported where they are used, no module cycles."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import labeldp

ROOT = Path(labeldp.__file__).parent

PACKAGES = (
    "errors", "io_util", "display", "threads", "arrow_util", "pictures", "kernels",
    "sampling", "data", "passes", "features", "exact", "spark", "accounting", "releases",
    "mechanisms", "releases.files", "planning", "profile", "verification", "signing",
    "ledger", "learners", "reporting", "shortcuts", "private_regression", "cli", "__main__",
)  # fmt: skip
"""In the order of imports: a package imports itself and those before it. `releases.files`, which
looks up the mechanism of a release, is above mechanisms, the rest of `releases` below."""

HEAVY = {
    "torch", "pyspark", "pandas", "polars", "duckdb", "matplotlib", "dp_accounting",
    "cryptography", "jinja2",
}  # fmt: skip
"""Third-party packages that no module imports at its top."""

HEAVY_EXCEPTIONS = {
    "learners.training": {"torch"},
    "spark.engine": {"pyspark"},
}
"""Modules that are themselves imported only where such a package is needed."""

DATA = {"data", "passes", "features", "exact", "spark"}
FORBIDDEN = {
    "accounting": DATA,  # accounting knows numbers, never tables
    **{package: {"accounting"} for package in DATA},
    "learners": {"planning"},
}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package except its public page."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            yield name, path


def imported(tree: ast.AST, *, functions: bool = True) -> Iterator[str]:
    """Names of modules that code imports; for types only is not counted."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imported(ast.Module(node.orelse, []), functions=functions)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield str(node.module)
        elif functions or not isinstance(node, ast.FunctionDef):
            yield from imported(node, functions=functions)


def package_of(name: str) -> str:
    return name if name in PACKAGES else name.partition(".")[0]


def test_the_list_of_packages_is_complete() -> None:
    assert sorted({package_of(name) for name, _ in modules()}) == sorted(PACKAGES)


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda value: str(value)[:40])
def test_imports_go_downwards(name: str, path: Path) -> None:
    package = package_of(name)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for module in imported(tree):
        if module.startswith("labeldp."):
            other = package_of(module.removeprefix("labeldp."))
            assert PACKAGES.index(other) <= PACKAGES.index(package), f"{name} imports {module}"
            assert other == package or other not in FORBIDDEN.get(package, ())
    heavy = {module.partition(".")[0] for module in imported(tree, functions=False)} & HEAVY
    assert heavy <= HEAVY_EXCEPTIONS.get(name, set())


def test_imports_are_found_wherever_they_stand() -> None:
    code = """
from typing import TYPE_CHECKING
import labeldp.cli
if TYPE_CHECKING:
    from labeldp.signing import sign
else:
    from labeldp.releases.files import Release
def f():
    class A:
        from labeldp.data.files import find
"""
    names = ["typing", "labeldp.cli", "labeldp.releases.files"]
    assert list(imported(ast.parse(code), functions=False)) == names
    assert list(imported(ast.parse(code))) == [*names, "labeldp.data.files"]


def test_every_module_imports() -> None:
    """Except those that need an extra which is not installed here."""
    for module in pkgutil.walk_packages(labeldp.__path__, "labeldp."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as problem:
            if problem.name not in HEAVY:
                raise


def test_the_functions_that_a_value_passes_exist() -> None:
    """The architecture page names them in a table, methods with their class."""
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## One value")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Z]\w+(?:\.\w+)?|[a-z]\w*_\w+)`", section))
    assert len(named) > 20
    defined = set[str]()
    for _, path in modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.add(node.name)
            if isinstance(node, ast.ClassDef):
                methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
                defined.update(f"{node.name}.{each.name}" for each in methods)
    assert not named - defined
