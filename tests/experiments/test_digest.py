"""The README's table is the digest of the page on peers (`make peers` writes both)."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.digest import digest, number, r_squared

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_the_digest_of_the_page() -> None:
    table = digest((ROOT / "docs" / "peers.md").read_text(encoding="utf-8"))
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("cell", "mean"),
    [("**−1.5 ± 0.2**", -1.5), ("1.6e−5 ± 1.0e−5", 1.6e-5), ("1,222 ± 2.25 †", 1222.0)],
)
def test_numbers_of_the_page(cell: str, mean: float) -> None:
    assert number(cell) == mean


def test_r_squared_of_an_excess() -> None:
    assert r_squared(0.5, 0) == 0.5
    assert r_squared(0.5, 100) == 0


def test_the_best_alternative_is_none_of_ours() -> None:
    page = """# Peers

## A table

5 rows, 2 design columns; with all labels R² = 0.500. Chosen.

| excess, % | ε = 0.5 | ε = 1 |
|---|---|---|
| full labels, same design | 0 | 0 |
| **labeldp, default** | 4 | 20 ± 1 |
| shaped-flag, least squares | 1 | 1 |
| constant | 100 | 100 |
| another | 50 | 40 ± 3 |
"""
    assert digest(page).splitlines()[-1] == "| A table | 0.400 | 0.500 | 0.300 |"
