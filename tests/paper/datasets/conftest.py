"""Small synthetic originals, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from labeldp_paper.datasets.making import generate


@pytest.fixture(scope="session")
def census_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 synthetic persons as EXT1940USCB."""
    path = tmp_path_factory.mktemp("census") / "synthetic.dat"
    generate("synthetic-census", path, 2000, seed=3)
    return path


@pytest.fixture(scope="session")
def criteo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 synthetic sales, and clicks without one, as the Criteo log."""
    path = tmp_path_factory.mktemp("criteo") / "synthetic.tsv"
    generate("synthetic-criteo", path, 3000, seed=3)
    return path
