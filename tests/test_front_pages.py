"""Front pages whose names are imported when first used offer what they say, and only when asked."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import labeldp
from labeldp.common.front import FrontPage


def pages() -> Iterator[ModuleType]:
    """Every front page of which at least one name comes late."""
    rooms = [
        f"labeldp.{each.name}" for each in pkgutil.iter_modules(labeldp.__path__) if each.ispkg
    ]
    yield from (
        page
        for page in map(importlib.import_module, ["labeldp", *rooms])
        if isinstance(page, FrontPage)
    )


PAGES = list(pages())


def fresh(program: str) -> None:
    """Run a program in an interpreter that has imported nothing of ours."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pages_are_found() -> None:
    named = {page.__name__ for page in PAGES}
    assert {"labeldp", "labeldp.common", "labeldp.signoff", "labeldp.mechanisms"} <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_a_page_offers_what_its_stub_says(page: FrontPage) -> None:
    """Each name as itself, which is how type checkers know that it is meant for others."""
    stub = Path(str(page.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    lines = ast.parse(stub).body
    assert all(isinstance(line, ast.ImportFrom) for line in lines)
    offered = [alias for line in lines for alias in line.names]  # type: ignore[attr-defined]
    assert all(alias.asname == alias.name for alias in offered)
    assert sorted(alias.name for alias in offered) == page.__all__ == dir(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_every_name_of_a_page_is_there(page: FrontPage) -> None:
    for name in page.__all__:
        assert getattr(page, name) is getattr(page, name)
    with pytest.raises(AttributeError, match=f"module '{page.__name__}' has no attribute 'magic'"):
        _ = page.magic


def test_a_module_does_not_take_the_place_of_the_name_that_is_spelt_as_it_is() -> None:
    """Whichever is imported first, the function is what the page offers."""
    for page in PAGES:
        same = {
            name
            for name, home in page._HOMES.items()
            if home != page.__name__ and importlib.util.find_spec(f"{page.__name__}.{name}")
        }
        fresh(
            f"""
from importlib import import_module
from types import ModuleType
page = import_module({page.__name__!r})
for name in {sorted(same)}:
    module = import_module(f"{{page.__name__}}.{{name}}")
    assert isinstance(module, ModuleType)
    assert callable(getattr(page, name)), name
"""
        )
    from labeldp.accounting import compose
    from labeldp.doctor import page as drawn
    from labeldp.release import statement

    assert all(callable(each) for each in (compose, drawn, statement))


def test_to_take_one_tool_loads_no_other() -> None:
    fresh(
        """
import sys
from labeldp.common import canonical_json
assert not {"numpy", "pyarrow", "labeldp.common.arrow"} & set(sys.modules)
from labeldp.common import arrow_numbers
assert {"numpy", "pyarrow", "labeldp.common.arrow"} <= set(sys.modules)
assert "labeldp.common.pictures" not in sys.modules
"""
    )
