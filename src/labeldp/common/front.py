"""Front pages whose names are imported when first used, so that to take one loads no other.

What a page offers stands once, in the stub beside it (`__init__.pyi`) that type checkers read:

    from labeldp.source.table import Source as Source
"""

from __future__ import annotations

import ast
import pkgutil
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class FrontPage(ModuleType):
    """A room's front page that knows in which module each of its names stands."""

    __all__: list[str]
    _HOMES: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home = self._HOMES[name]
        if home == self.__name__:  # the name of a module
            return import_module(f"{home}.{name}")
        value = getattr(import_module(home), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """A module that is imported does not take the place of a name that is spelt as it is."""
        offered = self._HOMES.get(name, self.__name__) != self.__name__
        if not (offered and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return list(self.__all__)


def late_names(page: str) -> None:
    """Let a page offer the names of its stub."""
    stub = ast.parse(pkgutil.get_data(page, "__init__.pyi") or b"")
    lines = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    homes = {alias.name: str(line.module) for line in lines for alias in line.names}
    module = sys.modules[page]
    vars(module).update(_HOMES=homes, __all__=sorted(homes))
    module.__class__ = FrontPage
