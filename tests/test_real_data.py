"""Releases of real tables verify, and their fits are as good as forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from experiments.study import DELTA
from experiments.tables import LARGE, Table

from labeldp import LinearRegressor, Plan, Source, verify
from labeldp.mechanisms.forecast import excess_quantile
from labeldp_paper.experiments.truth import Truth
from tests.plans import plan
from tests.realdata import real

EPSILON = 1.0
BAGS = 4000  # the law holds for any number; fewer are quicker
QUICK = {"fertility", "sales"}

by_table = pytest.mark.parametrize(
    "table",
    [
        pytest.param(table, id=table.key, marks=() if table.key in QUICK else pytest.mark.slow)
        for table in LARGE
    ],
)


def planned(table: Table, **choices: Any) -> tuple[Source, Plan]:
    folder = real("census1980_fertility_weeks.parquet").parent
    source = table.source(folder)
    return source, plan(source, epsilon=EPSILON, delta=DELTA, **choices)


@by_table
def test_the_certificate_verifies_and_the_excess_is_within_the_forecast(
    table: Table, tmp_path: Path
) -> None:
    """Of 8 releases all lie within the central 1 − 1e-5 of the law; a 5–95 % band holds most.

    Fewer than 3 of 8 inside a 90 % band has probability 2e-5; outside the wide band, 8e-5.
    """
    source, made = planned(table, mechanism="wtd-flag", bags=BAGS)
    truth = Truth(source, made)
    rank, bags = made.claim.to_json()["rank"], BAGS
    inside = 0
    for number in range(8):
        release = made.release(source)
        if number == 0:
            release.save(tmp_path / "release")
            checked = verify(tmp_path / "release")
            assert checked.valid, checked.problems
        added = release.certificate["floor"]["added_variance"]
        noise = 1 + added / (truth.rows * truth.residual_ms)
        excess = truth.excess(LinearRegressor(shrink=False).fit(release)) / noise
        assert excess_quantile(rank, bags, 5e-6) < excess < excess_quantile(rank, bags, 1 - 5e-6)
        inside += excess_quantile(rank, bags, 0.05) < excess < excess_quantile(rank, bags, 0.95)
    assert inside >= 3


@by_table
def test_the_default_adds_what_it_forecasts(table: Table) -> None:
    """Four releases' mean within a third to three times the forecast one.

    Noise of even two equal directions would leave that with probability below 1e-2 each way; these
    tables have eight and more, which makes it 1e-5.
    """
    source, made = planned(table)
    truth = Truth(source, made)
    added = [
        truth.mse(LinearRegressor(shrink=False).fit(made.release(source))) - truth.residual_ms
        for _ in range(4)
    ]
    assert 1 / 3 < sum(added) / 4 / made.forecast.added_mse < 3
