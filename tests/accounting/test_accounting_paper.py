"""Theorem 1 as printed: the paper's table, its inverses, and no bag gained by rounding."""

from __future__ import annotations

import pytest

from labeldp.accounting.theorems import Theorem1
from labeldp.errors import PlanError

CENSUS = (131_903_910, (0.0, 51.0), 64.22)


@pytest.mark.parametrize(
    ("epsilon", "bags"), [(1, 247), (2, 988), (4, 3953), (6, 8894), (10, 24_706)]
)
def test_table_1_census(epsilon, bags):
    assert Theorem1(*CENSUS).max_bags(epsilon, 1e-8) == bags


def test_criteo_lacks_rows_and_says_how_many():
    with pytest.raises(PlanError, match="has 1,732,721") as refusal:
        Theorem1(1_732_721, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5)
    rows = int(str(refusal.value).split("needs ")[1].split(" rows")[0].replace(",", ""))
    assert 6_400_000 < rows < 6_600_000
    assert Theorem1(rows, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5) > 0
    with pytest.raises(PlanError):
        Theorem1(rows - 1, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5)


def test_floor_at_an_exact_integer_neither_gains_nor_loses():
    """εγn/160B² is an exact integer of decimals here; in floats 0.03·32.8·… falls short."""
    for tenth in range(300, 400):  # εγn/160B² = 300ε with the minimum at 1
        epsilon = tenth / 10
        answer = Theorem1(1_600_000, (0.0, 2.0), 0.03).max_bags(epsilon, 0.5)
        assert answer == 30 * tenth
