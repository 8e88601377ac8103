"""Wide and tall tables: refused or released in bounded time and memory, and refused early."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Program = Callable[[str], Any]


REFUSED = {
    "numbers": "labeldp: the table has 5000 feature columns, and at most 4096 design columns are",
    "levels": "labeldp: the features make 5001 design columns, more than 4096; most come from",
}
"""For its columns, before a label was read: all lie outside their range."""


@pytest.mark.parametrize("kind", REFUSED)
def test_too_many_columns_are_refused_before_labels_are_read(
    program: Program, kind: str, tmp_path: Path
) -> None:
    extent = program("extent")
    rows = {"numbers": 50, "levels": 20_000}[kind]  # of levels that are not merged as rare
    found = extent.wide(tmp_path, getattr(extent, kind), rows, 5_000)
    assert found["exit"] == 2
    assert found["said"].startswith(REFUSED[kind])
    assert found["peak_mib"] < 700


def test_a_text_file_is_released(program: Program, tmp_path: Path) -> None:
    found = program("extent").tall(tmp_path, 10**6)
    assert found["exit"] == 0, found
    assert found["bytes"] > 10**6


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_fifty_thousand_rows_of_five_thousand_columns(
    program: Program, kind: str, tmp_path: Path
) -> None:
    extent = program("extent")
    found = extent.wide(tmp_path, getattr(extent, kind), 50_000, 5_000)
    assert found["exit"] == 2
    assert found["said"].startswith(REFUSED[kind])
    assert found["peak_mib"] < 700
    assert found["cpu_seconds"] < 30


@pytest.mark.slow
def test_two_gigabytes_of_text_take_bounded_memory(program: Program, tmp_path: Path) -> None:
    found = program("extent").tall(tmp_path, 2 * 10**9)
    print(found)
    assert found["exit"] == 0, found
    assert found["peak_mib"] < 1_200
