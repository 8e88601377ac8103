"""Releases of real tables verify, and their fits are as good as forecast."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.real_data import DELTA, EPSILON, TABLES

from labeldp import LinearRegressor, plan, verify
from labeldp.mechanisms.forecast import excess_quantile
from labeldp_paper.experiments.truth import RealTable, Truth
from tests.realdata import real

BAGS = 4000  # the law holds for any number; fewer are quicker
QUICK = {"census1980_fertility_weeks", "completejourney_sales"}


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(table, id=table.file, marks=() if table.file in QUICK else pytest.mark.slow)
        for table in TABLES
    ],
)
def test_the_certificate_verifies_and_the_excess_is_within_the_forecast(
    table: RealTable, tmp_path: Path
) -> None:
    """Of 8 releases all lie within the central 1 − 1e-5 of the law; a 5–95 % band holds most.

    Fewer than 3 of 8 inside a 90 % band has probability 2e-5; outside the wide band, 8e-5.
    """
    source = table.open(real(f"{table.file}.parquet").parent).source
    made = plan(source, epsilon=EPSILON, delta=DELTA, bags=BAGS, max_leverage=table.max_leverage)
    truth = Truth(source, made)
    rank, bags = made.claim.facts.features or 0, BAGS
    inside = 0
    for number in range(8):
        release = made.release(source)
        if number == 0:
            release.save(tmp_path / "release")
            checked = verify(tmp_path / "release")
            assert checked.valid, checked.problems
        added = release.certificate["floor"]["added_variance"]
        noise = 1 + added / (truth.rows * truth.residual_ms)
        excess = truth.excess(LinearRegressor().fit(release)) / noise
        assert excess_quantile(rank, bags, 5e-6) < excess < excess_quantile(rank, bags, 1 - 5e-6)
        inside += excess_quantile(rank, bags, 0.05) < excess < excess_quantile(rank, bags, 0.95)
    assert inside >= 3
