"""Real data files for tests: present on a developer's machine, never in the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def real(name: str) -> Path:
    """Return the path of a real data file, or skip the test and say why."""
    path = Path(os.environ.get("LABELDP_REAL_DATA", _BESIDE)) / name
    if not path.exists():
        pytest.skip(f"real data file {path} is absent; set LABELDP_REAL_DATA")
    return path
