"""What tables of strangers are measured by: public ranges, an analyst's design, one page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments.strangers import (
    CASES,
    Answer,
    Outcome,
    cleaned,
    least_squares,
    outcome,
    page,
    public_range,
)


def test_ranges_are_round_and_begin_at_0_where_that_is_near() -> None:
    assert public_range(pd.Series([3.0, 57.0, 61.3])) == (0.0, 62.0)
    assert public_range(pd.Series([41.7, 57.0, 61.3])) == (41.0, 62.0)
    assert public_range(pd.Series([-0.123, 0.0, 0.5])) == (-0.13, 0.5)


def test_an_analyst_s_design_holds_numbers_blanks_and_frequent_levels() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "number": rng.normal(size=300),
            "gaps": np.where(np.arange(300) % 7, rng.normal(size=300), np.nan),
            "town": np.repeat(["a", "b", "rare"], [150, 145, 5]),
            "id": [f"p{place}" for place in range(300)],
        }
    )
    train, test = cleaned(rows, rows[:10])
    assert train.shape == (300, 1 + 1 + 2 + 1)
    assert np.array_equal(train[:10], test)
    labels = 3 * rows["number"].to_numpy() + (rows["town"] == "b")
    assert np.allclose(least_squares(train, labels, test, (-99, 99)), labels[:10])


@pytest.mark.filterwarnings("ignore")
def test_a_table_is_released_and_fitted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    age, town = rng.integers(20, 70, size=3000), rng.choice(["a", "b"], size=3000)
    rows = pd.DataFrame({"age": age, "town": town, "pay": age + 9.0 * (town == "b")})
    rows.to_csv(tmp_path / "t.csv")
    found = outcome(tmp_path / "t.csv", "pay")
    assert found.full < 1e-9 < found.constant
    for epsilon, answer in found.ours.items():
        assert answer.code == 0
        assert answer.error is not None
        assert answer.error < found.noisy[epsilon]


def test_the_page_counts_what_it_shows() -> None:
    sure = Answer(0, 2.1, r2=0.4, r2_error=0.03, true_r2=0.45)
    good = Outcome(1000, 4.0, 2.0, {"1": 3.0, "4": 2.1}, {"1": sure, "4": Answer(0, 2.0)})
    doubted = Answer(1, 4.4)
    refused = Answer(2, None, "too few rows")
    poor = Outcome(50, 4.0, 2.0, {"1": 9.0, "4": 5.0}, {"1": doubted, "4": refused})
    text = page(dict(zip(CASES, (good, poor), strict=False)))
    assert "ε = 1: 1 of 2 within 10 %" in text
    assert "better than Laplace rows in 2; worse than the constant without a word: 0." in text
    told = (
        "R² is shown for 1, within two of its deviations of the truth for 1, and within .1 for 1."
    )
    assert told in text
    assert "ε = 4: 1 of 1 within 10 %" in text
    assert "0.40 ± 0.03 (0.45) |" in text
    assert "| 50 | 0.50 | 2.200† | 4.5 | – | 2.5 | – |" in text
    assert "too few rows" in text
    assert Outcome.from_json(asdict(poor)) == poor
