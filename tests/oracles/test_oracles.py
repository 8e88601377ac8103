"""The twins themselves, against 20 digits that were computed in yet another way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.oracles import gaussian_law, sketch_law

REFERENCES = Path(__file__).parents[1] / "accounting" / "references.json"


def test_the_sketch_law_agrees_with_20_digits() -> None:
    """References of up to 10,001 aggregates with δ above 1e-9: where a test may use the twin."""
    rows = [row for row in json.loads(REFERENCES.read_text()) if row[0] <= 10_001]
    rows = [row for row in rows if float(row[-1]) > 1e-9]
    assert len(rows) > 40
    for bags, alpha, beta, epsilon, expected in rows:
        found = sketch_law.one_way(bags, np.array([alpha, -beta, 0.0]), epsilon)
        assert found == pytest.approx(float(expected), rel=1e-6, abs=0.0)


def test_the_gaussian_law_at_a_known_point() -> None:
    """Total variation of N(0,1) and N(1,1) is 2Φ(1/2) − 1; no shift, no loss."""
    found = gaussian_law.delta(0.0, np.array([0.0, 1.0]))
    assert found == pytest.approx([0.0, 0.38292492254802624], rel=1e-12)
