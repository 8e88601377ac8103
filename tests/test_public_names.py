"""The public surface: exactly the names listed, each of which resolves, lazily."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import version
from pathlib import Path

import pytest

import labeldp


def test_dir_shows_exactly_the_public_names() -> None:
    assert dir(labeldp) == sorted(labeldp.__all__)
    assert len(set(labeldp.__all__)) == len(labeldp.__all__)


@pytest.mark.parametrize("name", labeldp.__all__)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(labeldp, name)
    assert value is getattr(labeldp, name)
    home = getattr(value, "__module__", "labeldp.accounting")
    assert home.startswith("labeldp.")
    assert getattr(value, "__doc__", None), f"{name} says what it is"


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from labeldp import *", names)
    assert set(names) - {"__builtins__"} == set(labeldp.__all__)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = labeldp.magic  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_package_and_of_what_to_cite() -> None:
    cited = (Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert labeldp.__version__ == version("labeldp")
    assert f"\nversion: {labeldp.__version__}\n" in cited


def test_names_survive_the_import_of_modules_of_the_same_name() -> None:
    """Some functions have nearly the names of modules, and must not vanish."""
    for module in pkgutil.iter_modules(labeldp.__path__):
        importlib.import_module(f"labeldp.{module.name}")
    assert callable(labeldp.plan)
    assert callable(labeldp.scan)
    assert callable(labeldp.verify)


def test_the_typing_imports_and_the_lazy_ones_agree() -> None:
    from labeldp import _MODULES  # type: ignore[attr-defined]

    assert sorted(_MODULES) == sorted(labeldp.__all__)
