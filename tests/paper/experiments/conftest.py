from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from labeldp_paper.datasets.reading import Progress


@pytest.fixture(scope="session")
def quiet() -> Progress:
    @contextmanager
    def silent(_task: str, _total: int | None) -> Iterator[Callable[[int], None]]:
        yield lambda _done: None

    return silent
