"""A table, and a way to draw releases of it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from labeldp.release.files import Release
from tests.drawn import draw_release, pay_table


@pytest.fixture(scope="session")
def table() -> pa.Table:
    return pay_table()


@pytest.fixture(scope="session")
def make_release() -> Callable[..., Release]:
    """release = make(table, bags, seed)."""
    return draw_release
