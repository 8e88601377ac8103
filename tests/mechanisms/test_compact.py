"""A compact release carries what its aggregates would: same fit, same law, d+1 rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy import stats

from labeldp import InputError, LinearRegressor, PlanError, Release, verify
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from tests.mechanisms.test_release_law import Sketcher
from tests.plans import plan
from tests.tables import source, table

BAGS = 400


def unit(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
    return arb(0), arb(1)


@pytest.mark.parametrize("freedom", [1, 2, 40, 600, 601, 3000, 100_000, 10_000_000])
def test_the_distribution_of_chi_to_thirty_digits(freedom: int) -> None:
    saved, ctx.prec = ctx.prec, 192
    try:
        for shift in (-0.9, 0.1, 1.3):
            x = max(0.05, math.sqrt(freedom) + shift)
            ball = rounded_noise._chi_distribution(freedom, arb(x))
            mpmath.mp.dps = 60
            peak = mpmath.sqrt(freedom)
            low = max(mpmath.mpf(0), peak - 45)
            points = [low, *(p for p in (peak - 6, peak) if low < p < x), mpmath.mpf(x)]
            twin = mpmath.quad(lambda c: chi_density(freedom, c), points)
            assert abs(float(ball.mid()) - float(twin)) < 1e-14
            assert float(ball.rad()) < 1e-25
    finally:
        ctx.prec = saved


@pytest.mark.parametrize("power", [600, 10**5, 10**9])
def test_the_density_of_chi_is_enclosed_over_wide_balls(power: int) -> None:
    """Every point of the ball has its value inside, and the ball of values stays narrow."""
    rng, peak = np.random.default_rng(power), math.sqrt(power)
    for width in (1e-6, 0.1, 3.0):
        real, imaginary = arb(peak + rng.normal(), width), arb(rng.normal(), width)
        found = rounded_noise._log_density(power, acb(real, imaginary))
        for x, y in rng.uniform(-width, width, (50, 2)).tolist():
            point = acb(real.mid() + arb(x), imaginary.mid() + arb(y))
            true = power * point.log() - point * point / 2
            assert found.overlaps(true)
        assert float(found.real.rad()) < 40 * width * (1 + width)


def chi_density(freedom: int, c: Any) -> Any:
    if c == 0:
        return mpmath.sqrt(2 / mpmath.pi) if freedom == 1 else mpmath.mpf(0)
    half = mpmath.mpf(freedom) / 2
    log = (1 - half) * mpmath.log(2) - mpmath.loggamma(half)
    return mpmath.exp(log + (freedom - 1) * mpmath.log(c) - c * c / 2)


@pytest.mark.parametrize(("freedom", "draws"), [(3, 4000), (601, 300)])
def test_published_chi_has_its_law_and_no_other(freedom: int, draws: int) -> None:
    drawn = np.array(
        [
            rounded_noise.sample_rounded_chi(freedom, -12, Randomness.experiment(k), unit)
            for k in range(draws)
        ]
    )
    assert (np.ldexp(drawn, 12) == np.rint(np.ldexp(drawn, 12))).all()
    assert stats.kstest(drawn, stats.chi(freedom).cdf).pvalue > 1e-4
    assert stats.kstest(1.05 * drawn, stats.chi(freedom).cdf).pvalue < 1e-4


def test_the_law_is_that_of_the_aggregates() -> None:
    """Σ t², the fit, its scatter and det ZᵀZ over many releases of either form."""
    base = Sketcher(table(60, seed=3))
    compact, rows = summaries(base, compact=True), summaries(base, compact=False)
    wrong = summaries(base, compact=True, bags=round(1.1 * BAGS))
    for name in compact:
        assert stats.ks_2samp(compact[name], rows[name]).pvalue > 1e-3, name
    assert stats.ks_2samp(wrong["square"], rows["square"]).pvalue < 1e-6


def summaries(base: Sketcher, *, compact: bool, bags: int = BAGS) -> dict[str, Any]:
    found: dict[str, list[float]] = {"square": [], "slope": [], "scatter": [], "volume": []}
    for seed in range(300):
        features, labels = base.draw(bags, seed + 1000 * compact, compact=compact)
        slope, scatter, *_ = np.linalg.lstsq(features, labels, rcond=None)
        found["square"].append(float(labels @ labels))
        found["slope"].append(float(slope[1]))
        found["scatter"].append(float(scatter[0]))
        found["volume"].append(float(np.linalg.slogdet(features.T @ features)[1]))
    return found


def test_a_release_end_to_end(tmp_path: Path) -> None:
    rows = source(2000)
    made = plan(rows, epsilon=1, delta=1e-6, bags=5000, compact=True)
    released = made.release_to(tmp_path / "r", rows)
    columns = len(made.features.names)
    assert released.table.num_rows == columns + 1
    assert released.bags == released.certificate["bags"] == 5000
    assert verify(tmp_path / "r").valid
    assert (released.design[-1] == 0).all()
    model = LinearRegressor().fit(Release.load(tmp_path / "r"))
    assert model.dof_ == 5000 - columns
    other = plan(rows, epsilon=1, delta=1e-6, bags=5000)
    assert other.claim.floor == made.claim.floor, "the price is the same"


def test_refusals() -> None:
    rows = source(500)
    with pytest.raises(PlanError, match="no compact form of fewer rows"):
        plan(rows, epsilon=1, delta=1e-6, bags=10, compact=True)
    with pytest.raises(InputError, match="`compact` does not apply to sampled-noisy-wtd-lag"):
        plan(rows, epsilon=1, delta=1e-6, mechanism="sampled-noisy-wtd-lag", compact=True)


def test_the_number_of_compact_aggregates_is_free() -> None:
    rows, budget = source(2000), {"epsilon": 1.0, "delta": 1e-6, "mechanism": "wtd-flag"}
    free, filed = plan(rows, compact=True, **budget), plan(rows, **budget)
    assert free.claim.bags == 10**7
    assert free.forecast.added_mse < filed.forecast.added_mse
    size = filed.claim.bags * 8 * (len(filed.features.names) + 1)
    assert size <= 4e6
    released = free.release(rows)
    assert released.table.num_rows == len(free.features.names) + 1
