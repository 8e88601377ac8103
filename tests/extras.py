"""Packages that some tests need: absent, they skip and say so, but never under `make test`."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import pytest


def extra(package: str) -> Any:
    """The package; without it the test is skipped, or fails where all tests must run."""
    if os.environ.get("LABELDP_EXTRAS") == "required":
        return import_module(package)
    return pytest.importorskip(package, reason=f"{package} is absent; `make test` installs it")
