"""sampled-noisy-wtd-LAg: where its noise comes from, which rows carry it, what it costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import optimize, stats

from labeldp import InputError, Plan, PlanError, Release, scan, verify
from labeldp.data.source import Source
from tests.mechanisms.cases import NOISY, ROWS, forged_claim, saved, small_plan
from tests.tables import source, table


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The μ of the Gaussian mechanism worth (ε, δ), by plain bisection."""

    def spent(mu: float) -> float:
        cdf = stats.norm.cdf
        return float(cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * cdf(-mu / 2 - epsilon / mu))

    return float(optimize.brentq(lambda mu: spent(mu) - delta, 0.05, 5.0, xtol=1e-14))


def realised(made: Plan, rows: Source) -> tuple[float, Any]:
    """max |w|Δ/(s√Σw²) by hand from the published table, and the table."""
    release = made.release(rows)
    assert release.bag_table is not None
    claim: Any = made.claim
    frame = release.bag_table.to_pydict()
    by_bag: dict[int, list[tuple[float, bool]]] = {}
    for bag, weight, noisy in zip(frame["bag"], frame["weight"], frame["noisy"], strict=True):
        by_bag.setdefault(bag, []).append((weight, noisy))
    largest = 0.0
    for members in by_bag.values():
        square = sum(weight**2 for weight, noisy in members if noisy)
        top = max(abs(weight) for weight, _ in members)
        largest = max(largest, top * 10.0 / (claim.noise_std * square**0.5))
    return largest, release.bag_table


# --- noise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("accountant", ["exact", "exact-worst-case"])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_the_noise_is_what_the_budget_needs_and_never_silently_1(
    accountant: str, fraction: float
) -> None:
    """In units of labels: ten times the range needs ten times the noise, and 2 % less fails."""
    given = {"accountant": accountant, "noisy_fraction": fraction, "bag_size": 20, "bags": 10}
    made = small_plan(NOISY, **given)
    claim: Any = made.claim
    wide = table(ROWS)
    wide = wide.set_column(4, "label", pa.array(10.0 * wide["label"].to_numpy()))
    other: Any = small_plan(
        NOISY, scan(wide, label="label", label_range=(0.0, 100.0)), **given
    ).claim
    assert claim.noise_std > 5.0
    assert other.noise_std == pytest.approx(10 * claim.noise_std, rel=0.02)
    if accountant == "exact-worst-case":
        with pytest.raises(PlanError, match="the noise stronger"):
            small_plan(NOISY, noise_std=0.98 * claim.noise_std, **given)


def test_noise_that_is_given_is_used() -> None:
    claim: Any = small_plan(NOISY, noise_std=77.0).claim
    assert claim.noise_std == 77.0
    assert claim.to_json()["noise"]["std"] == 77.0
    assert claim.delta_at(1.0) < 1e-7, "more noise than needed promises more"


def test_too_little_noise_is_refused() -> None:
    with pytest.raises(PlanError, match=r"however often|the noise stronger"):
        small_plan(NOISY, noise_std=1.0)
    with pytest.raises(PlanError, match="no size of bags gives a private fit"):
        small_plan(NOISY, noise_std=1.0, bags=None, bag_size=None)
    with pytest.raises(InputError, match="noise_std"):
        small_plan(NOISY, noise_std=0.0)


def test_noise_that_is_given_decides_the_size_of_bags() -> None:
    sizes = [
        small_plan(NOISY, noise_std=std, bags=None, bag_size=None).claim.to_json()["bag_size"]
        for std in (20.0, 30.0, 40.0)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_the_claimed_mu_is_the_one_of_the_weights_drawn() -> None:
    for fraction in (1.0, 0.5):
        made = small_plan(NOISY, noisy_fraction=fraction)
        claim: Any = made.claim
        by_hand, _ = realised(made, source(ROWS))
        assert by_hand <= claim.mu * (1 + 1e-12)
        assert claim.mu == pytest.approx(by_hand, rel=1e-8)
        assert claim.mu <= gaussian_mu(1.0, 1e-5) * (1 + 1e-9)


def test_over_the_draw_the_claimed_mu_is_what_every_draw_keeps() -> None:
    made = small_plan(NOISY, over_draw=True)
    claim: Any = made.claim
    chance = 20 * 16 / ROWS
    assert claim.mu == pytest.approx(gaussian_mu(1.0, 1e-5 / chance), rel=1e-9)
    by_hand, _ = realised(made, source(ROWS))
    assert by_hand <= claim.mu
    again: Any = small_plan(NOISY, over_draw=True).claim
    assert again.mu == claim.mu, "another draw promises the same"
    assert again.draw.seed != claim.draw.seed


# --- which rows ----------------------------------------------------------------------------


def test_a_fraction_of_the_rows_is_noisy_by_coins() -> None:
    made = small_plan(NOISY, noisy_fraction=0.5)
    _, bags = realised(made, source(ROWS))
    assert 0.4 < np.mean(bags.column("noisy").to_numpy(zero_copy_only=False)) < 0.6


def test_rare_noise_takes_larger_bags() -> None:
    """No bag may be left without a noisy row, so sizing looks ahead."""
    for _ in range(5):
        claim: Any = small_plan(
            NOISY, source(4000), noisy_fraction=0.1, bags=None, bag_size=None
        ).claim
        assert claim.draw.bag_size >= 64
    with pytest.raises(PlanError, match="make bags larger or more rows noisy"):
        small_plan(NOISY, noisy_fraction=0.05)


def marked(release: Release, turned: bool = False) -> pa.Table:
    """The table with a column that marks the noisy rows of the release, or all others."""
    assert release.bag_table is not None
    noisy = np.zeros(ROWS, dtype=bool)
    noisy[release.bag_table["row"].to_numpy()] = release.bag_table["noisy"].to_pylist()
    return table(ROWS).append_column("mark", pa.array(noisy ^ turned))


@pytest.mark.parametrize("kind", ["bool", "int8", "str"])
def test_an_old_release_has_the_noisy_rows_that_its_column_marks(kind: str, tmp_path: Path) -> None:
    """Early plans could name a public column. Their files are read, but no others are made."""
    rows = source(ROWS)
    made = small_plan(NOISY, rows, noisy_fraction=0.6)
    new = made.release(rows)
    old = forged_claim(new, lambda c: c["noise"].update(column="mark", fraction=None))
    folder = saved(old, tmp_path / "r")
    assert verify(folder).problems == ()
    for turned in (False, True):
        data = marked(new, turned)
        marks = data["mark"].to_numpy().astype(kind)
        data = data.set_column(data.num_columns - 1, "mark", pa.array(marks))
        problems = verify(folder, data).problems
        assert any("noisy rows that the plan chose" in problem for problem in problems) is turned
    claim: Any = made.claim
    early = replace(made, claim=replace(claim, noisy_fraction=None, noisy_column="mark"))
    with pytest.raises(PlanError, match="no column can say which rows are noisy any more"):
        early.release(rows)


# --- accountants ---------------------------------------------------------------------------


def test_an_a_priori_claim_needs_weights_drawn_at_random() -> None:
    """With a given seed the weights are known before, and one of them may be large."""
    with pytest.raises(InputError, match="leave `bag_seed` out"):
        small_plan(NOISY, accountant="exact-worst-case", bag_seed=1, noise_std=1e6)
    made = small_plan(NOISY, accountant="exact-worst-case")
    document = made.claim.to_json()
    assert document["noise"]["mu"] is None
    assert document["draw"]["random"] is True


def test_bags_that_may_have_no_noisy_row_are_refused_before_the_draw() -> None:
    """Of five rows none is noisy with probability 0.59, and then no noise helps."""
    asked = {"noisy_fraction": 0.1, "bag_size": 5, "noise_std": None}
    with pytest.raises(PlanError, match=r"^no noise makes .* bags of 5 rows private"):
        small_plan(NOISY, accountant="exact-worst-case", **asked)
