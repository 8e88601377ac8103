"""Numbers that claims tell of themselves, each against its own definition."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from labeldp import Plan
from labeldp.display import number
from labeldp.errors import InputError
from labeldp.mechanisms.noisy_rows import NoisyRowsClaim
from labeldp.mechanisms.registry import read_claim
from labeldp.mechanisms.sampled_noisy_wtd_lag import SampledNoisyWtdLagClaim
from labeldp.mechanisms.sampled_wtd_flag import SampledWtdFlagClaim
from labeldp.mechanisms.shaped_flag import ShapedFlagClaim
from labeldp.mechanisms.wtd_flag import WtdFlagClaim
from labeldp.releases.certificate import FloorOutcome
from tests.mechanisms.cases import EVERY, FLAG, NOISY, SAMPLED, SHAPED, small_plan
from tests.tables import source

NAMES = {
    FLAG: WtdFlagClaim,
    SHAPED: ShapedFlagClaim,
    EVERY: NoisyRowsClaim,
    SAMPLED: SampledWtdFlagClaim,
    NOISY: SampledNoisyWtdLagClaim,
}
RANK = 10


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return {name: small_plan(name, source(400)) for name in NAMES}


def quantile(probability: float, bags: int) -> float:
    """Of (val − opt)/opt: d/(m−d+1)·F(d, m−d+1)."""
    freedom = bags - RANK + 1
    return float(RANK / freedom * stats.f.ppf(probability, RANK, freedom))


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_is_read_as_it_was_written(plans: dict[str, Plan], name: str) -> None:
    claim = plans[name].claim
    assert isinstance(claim, NAMES[name])
    assert read_claim(claim.to_json()) == claim


def test_the_error_of_sums_of_all_rows_is_that_of_their_law(plans: dict[str, Plan]) -> None:
    """(σ² + s²)·d/(m−d−1) over the rows, of what was measured."""
    claim: Any = plans[FLAG].claim
    noise = claim.measurement.noise(claim.width)
    outcome = FloorOutcome(3 * noise, noise, 900.0)
    measured = (9 - 1) * noise**2 / 400
    found = claim.added_error(outcome)
    top = (claim.width / 2) ** 2
    measured = min(top, measured)
    mean = (measured + 900.0 / 400) * 10 / 29
    assert found.added_rms == pytest.approx(math.sqrt(mean))
    assert found.added_of_range == pytest.approx(math.sqrt(mean) / claim.width)
    low = min(top, ((3 - 1.645) * noise) ** 2 / 400)
    high = min(top, ((3 + 1.645) * noise) ** 2 / 400)
    assert found.added_rms_low == pytest.approx(math.sqrt((low + 2.25) * quantile(0.05, 40)))
    assert found.added_rms_high == pytest.approx(math.sqrt((high + 2.25) * quantile(0.95, 40)))
    assert found.excess_of_residual == pytest.approx(mean / measured)
    assert found.added_basis == "the residual as floor.measured shows it, and floor.added_variance"
    unknown = claim.added_error(None)
    assert unknown.added_rms is None
    assert unknown.added_rms_high == pytest.approx(math.sqrt(top * quantile(0.95, 40)))
    assert unknown.added_basis.startswith("bounds for any residual that the label range allows")
    assert claim.label_noise_std(outcome) == 30.0
    assert claim.label_noise_std(None) is None


def test_the_error_of_sums_of_bags_is_that_of_their_law(plans: dict[str, Plan]) -> None:
    claim: Any = plans[SAMPLED].claim
    top = (claim.width / 2) ** 2
    found = claim.added_error(FloorOutcome(1.0, 1.0, 64.0))
    assert found.added_rms is None
    assert found.added_rms_low == pytest.approx(math.sqrt(64 / 32 * quantile(0.05, 12)))
    assert found.added_rms_high == pytest.approx(math.sqrt((top + 2.0) * quantile(0.95, 12)))
    nothing = claim.added_error(None)
    assert nothing.added_rms_high == pytest.approx(math.sqrt(top * quantile(0.95, 12)))
    assert claim.label_noise_std(FloorOutcome(1.0, 1.0, 64.0)) == 8.0
    assert claim.label_noise_std(None) is None


@pytest.mark.parametrize("centred", [True, False])
def test_the_error_of_noisy_sums_counts_the_noise_of_their_rows(
    plans: dict[str, Plan], centred: bool
) -> None:
    held: Any = plans[NOISY].claim
    claim = replace(held, noisy_fraction=0.5, noise_std=6.0, intercept=centred)
    reach = claim.width / 2 if centred else max(map(abs, claim.label_range))
    found = claim.added_error(None)
    assert found.added_rms_low == pytest.approx(math.sqrt(18.0 * quantile(0.05, 20)))
    high = math.sqrt((reach**2 + 18.0) * quantile(0.95, 20))
    assert found.added_rms_high == pytest.approx(high)
    column = replace(held, noisy_fraction=None, noisy_column="c").added_error(None)
    assert column.added_rms_low is None
    assert column.added_basis == "not known: which rows are noisy stands in a column"


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.0000001])
def test_noisy_fractions_are_above_0_and_at_most_1(plans: dict[str, Plan], fraction: float) -> None:
    held: Any = plans[NOISY].claim
    replace(held, noisy_fraction=1.0)
    replace(held, noisy_fraction=1e-9)
    words = r"^`noisy_fraction` must be above 0 and at most 1, not "
    with pytest.raises(InputError, match=words):
        replace(held, noisy_fraction=fraction)


def test_the_error_of_noise_is_its_variance_in_every_direction(plans: dict[str, Plan]) -> None:
    """(s/L)²·tr S of shaped sums; d·s² of noisy rows, a χ² of as many degrees."""
    shaped: Any = plans[SHAPED].claim
    whole = shaped.noise_std**2 * shaped.trace / shaped.length**2
    assert shaped.excess == pytest.approx(whole)
    assert shaped.added_error(None).added_rms == pytest.approx(math.sqrt(whole / 400))
    rows: Any = plans[EVERY].claim
    assert rows.excess == pytest.approx(10 * rows.noise.std**2)
    found = rows.added_error(None)
    assert found.added_rms == pytest.approx(math.sqrt(10 / 400) * rows.noise.std)
    for part, probability in ((found.added_rms_low, 0.05), (found.added_rms_high, 0.95)):
        square = stats.chi2.ppf(probability, 10) * rows.noise.std**2 / 400
        assert part == pytest.approx(math.sqrt(square))
    assert rows.label_noise_std(None) == rows.noise.std
    assert shaped.label_noise_std(None) == shaped.noise_std
    assert rows.to_json()["bag_size"] == 1


@pytest.mark.parametrize("law", ["gaussian", "radial"])
def test_quantiles_of_shaped_noise_are_those_of_its_law(law: str) -> None:
    """By 200,000 draws of squares in three equal directions of five."""
    rng = np.random.default_rng(0)
    from labeldp.mechanisms.noise_claim import NOISE_LAWS

    square = np.square(rng.normal(size=(200_000, 3))).sum(axis=1)
    if law == "radial":
        square = square * rng.chisquare(6, 200_000)
    square /= square.mean()
    for probability in (0.05, 0.5, 0.95):
        found = NOISE_LAWS[law].error_quantile(3.0, 5, probability)
        assert found == pytest.approx(np.quantile(square, probability), rel=0.03)


def test_realised_accounting_goes_with_what_it_needs(plans: dict[str, Plan]) -> None:
    noisy = copy.deepcopy(plans[NOISY].claim.to_json())
    for change, words in (
        ({"mu": None}, "the accountant, mu and noisy rows do not go together"),
        ({"column": "c"}, "the accountant, mu and noisy rows do not go together"),
        ({"fraction": None}, "the accountant, mu and noisy rows do not go together"),
    ):
        with pytest.raises(ValueError, match=words):
            read_claim(noisy | {"noise": noisy["noise"] | change})
    for name in (SAMPLED, NOISY):
        early = plans[name].claim.to_json()
        with pytest.raises(ValueError, match=f"{name} has no accountant 'paper'; plan with exact"):
            read_claim(early | {"accountant": early["accountant"] | {"name": "paper"}})


# --- words for people ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (3.0, "3"),
        (12345.0, "12,345"),
        (1234.56, "1,235"),
        (99999.4, "1e+05"),
        (123456.7, "123,457"),
        (0.000123456, "0.0001235"),
        (1e15, "1,000,000,000,000,000"),
        (-2.5, "-2.5"),
        (-123456.7, "-123,457"),
    ],
)
def test_numbers_for_people_have_few_digits(value: float | None, text: str) -> None:
    assert number(value) == text
