"""Front pages whose names are imported when first used, so that to take one loads no other."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class FrontPage(ModuleType):
    """A room's front page that knows in which module of the room each of its names stands."""

    __all__: list[str]
    _HOMES: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{self.__name__}.{self._HOMES[name]}"), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """A module that is imported does not take the place of a name that is spelt as it is."""
        if name not in self._HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return list(self.__all__)


def late_names(page: str, /, **modules: str) -> None:
    """Let a page import names when they are first used: the module of each, and its names."""
    module = sys.modules[page]
    homes = {name: home for home, names in modules.items() for name in names.split()}
    vars(module)["_HOMES"] = homes
    module.__class__ = FrontPage
