"""Radial noise in shaped-flag: pure ε, neighbours as close as claimed, chosen where it is less."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from labeldp import InputError, LinearRegressor, Plan, PlanError, Release, scan, verify
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.mechanisms.noise_claim import NOISE_LAWS
from labeldp.mechanisms.shaped_flag import (
    ShapedFlagClaim,
    choose_noise as choose,
    second_moment,
)
from labeldp.passes.engine import LocalEngine
from labeldp.releases.certificate import seal
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import SHAPED, forged_claim, saved
from tests.mechanisms.test_person import IDS, source_of, with_ids
from tests.mechanisms.test_shaped_flag import Array, Noiseless, claim_of, codes, weights_of
from tests.oracles.pure import PureProfile
from tests.plans import plan
from tests.tables import RANGE, source, table, with_label

ROWS = 400


def made_plan(rows: Any = None, **options: Any) -> Plan:
    given = {"epsilon": 1.0, "delta": 0.0, "mechanism": SHAPED, **options}
    return plan(source(ROWS) if rows is None else rows, **given)


@pytest.fixture(scope="module")
def made() -> Plan:
    return made_plan()


# --- the choice ---------------------------------------------------------------------------


def cost_of(law: str, epsilon: float, delta: float, share: float, columns: int) -> float:
    noise = NOISE_LAWS[law]
    single = noise.single_cost(epsilon, delta, share)
    return noise.aggregate_cost(epsilon, delta, single, columns)


GAINS = {
    1.0: {4: 1.01, 8: 1.11, 13: 1.33, 17: 1.51, 21: 1.40, 30: 1.27, 60: 1.13, 100: 1.08},
    4.0: {4: 1.00, 8: 1.06, 13: 1.20, 17: 1.35, 21: 1.50, 30: 1.37, 60: 1.18, 100: 1.10},
}
"""Variance of the better of pure radial and normal noise over that of radial noise with δ = 1e-6,
found by another program (theory §16); without a second moment both laws gain a little more."""


@pytest.mark.parametrize("epsilon", GAINS)
def test_radial_noise_with_delta_has_less_variance_than_either(epsilon: float) -> None:
    for columns, gain in GAINS[epsilon].items():
        std = {
            name: NOISE_LAWS[name].std(columns) / cost_of(name, epsilon, delta, 0.0, columns)
            for name, delta in (("gaussian", 1e-6), ("radial", 1e-6))
        }
        pure = NOISE_LAWS["radial"].std(columns) / cost_of("radial", epsilon, 0.0, 0.0, columns)
        found = (min(std["gaussian"], pure) / std["radial"]) ** 2
        assert found == pytest.approx(gain, abs=0.13)
        assert found > gain - 0.01


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_auto_never_has_more_noise_than_either_law_without_delta(share: float) -> None:
    """Radial noise that spends no δ, and normal noise: what there was before."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        epsilon, delta = 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-12, -2)
        columns = int(10 ** rng.uniform(0, 3))
        chosen, *_ = choose("auto", epsilon, delta, share, columns)
        std = chosen.std(columns) / cost_of(chosen.name, epsilon, delta, share, columns)
        normal = 1 / cost_of("gaussian", epsilon, delta, share, columns)
        pure = math.sqrt(columns + 1) / cost_of("radial", epsilon, 0.0, share, columns)
        assert std <= min(normal, pure) * (1 + 1e-12)


def true_delta(epsilon: float, aggregates: float, single: float, columns: int) -> float:
    """δ(ε) of radial and Laplace noise together, by a sum over the plane of the radial noise.

    Coordinates along the move (u) and across it (v, the radius of d−1 dimensions): the density is
    ∝ v^{d−2}·e^{−√(u²+v²)}. Given the loss there, δ of Laplace noise is in closed form.
    """
    reach = columns + 12 * math.sqrt(columns) + 40 + aggregates
    u, v = np.linspace(-reach, reach, 4001), np.linspace(0, reach, 2002)[1:]
    across = np.square(v)[None]
    norm = np.sqrt(np.square(u)[:, None] + across)
    loss = norm - np.sqrt(np.square(u - aggregates)[:, None] + across)
    weight = np.exp((columns - 2) * np.log(v)[None] - norm + columns)
    rest = epsilon + loss  # what is left for the other part, if the noise was drawn at v
    if single:
        inside = -np.expm1(np.minimum(0.0, 0.5 * (rest - single)))
        gain = np.where(rest <= -single, -np.expm1(np.minimum(0.0, rest)), inside)
    else:
        gain = -np.expm1(np.minimum(0.0, rest))
    return float((weight * gain).sum() / weight.sum())


@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize(("epsilon", "columns"), [(1.0, 3), (1.0, 13), (0.25, 40), (4.0, 24)])
def test_delta_is_that_of_an_independent_sum_and_one_per_cent_less_noise_is_too_little(
    epsilon: float, columns: int, share: float
) -> None:
    aggregates = cost_of("radial", epsilon, 1e-6, share, columns)
    single = NOISE_LAWS["radial"].single_cost(epsilon, 1e-6, share)
    claimed = NOISE_LAWS["radial"].profile(aggregates, single, columns).delta(epsilon).upper
    assert 0.99 * 1e-6 < claimed <= 1e-6
    assert true_delta(epsilon, aggregates, single, columns) <= claimed * (1 + 1e-3)
    assert true_delta(epsilon, aggregates / 0.99, single, columns) > 1e-6


def test_without_delta_noise_is_radial_and_spends_none() -> None:
    for columns in (1, 13, 4096):
        assert choose("auto", 1.0, 0.0, 0.05, columns)[0].name == "radial"


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="gaussian noise has no guarantee with δ = 0"):
        made_plan(noise="gaussian")
    with pytest.raises(InputError, match="`noise` must be 'auto'"):
        made_plan(noise="laplace")


# --- the claim ----------------------------------------------------------------------------


def realised_epsilon(made: Plan, data: Any, moved: dict[int, tuple[float, float]]) -> float:
    """ε of what two tables publish: by how many scales their means are apart, parts added."""
    claim, parts = claim_of(made), []
    with pytest.MonkeyPatch.context() as patch:
        sampler = Noiseless(patch)

        def publish(mean: Array, error: Array, scale: float, *rest: Any) -> Array:
            return sampler.publish(mean, error, (scale, scale), *rest)

        patch.setattr(rounded_noise, "sample_rounded_radial", publish)
        for end in (0, 1):
            now = data
            for row, ends in moved.items():
                now = with_label(now, row, ends[end])
            ids = {"person": "id"} if claim.person else {}
            rows = scan(now, label="label", label_range=RANGE, **ids)
            made.release(rows, randomness=Randomness.experiment(0))
    half = len(sampler.means) // 2
    assert half == (2 if claim.second_moment_noise_std else 1)  # the second moment comes first
    for part in range(half):
        one, two = sampler.means[part], sampler.means[part + half]
        assert sampler.stds[part] == sampler.stds[part + half]
        distance = math.sqrt(sum((a - b) ** 2 for a, b in zip(one, two, strict=True)))
        parts.append(distance / sampler.stds[part])
    return sum(parts)


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_neighbours_are_as_close_as_claimed_and_at_the_worst_row_no_closer(share: float) -> None:
    """‖x − m'‖ − ‖x − m‖ ≤ ‖m − m'‖, attained where x, m, m' are in line: ε is that distance."""
    made = made_plan(residual_share=share)
    claim, lengths = claim_of(made), np.linalg.norm(codes(made) @ weights_of(made).matrix.T, axis=1)
    worst = int(np.argmax(lengths))
    seen = {
        row: realised_epsilon(made, table(ROWS), {row: RANGE})
        for row in {worst, *range(0, ROWS, 97)}
    }
    assert max(seen.values()) <= sum(claim.costs) <= claim.epsilon == 1.0
    assert sum(claim.costs) > 1 - 1e-6
    if share == 0.0:
        assert seen[worst] > 0.99999 * sum(claim.costs)


def test_all_labels_of_a_person_moved_together_stay_within_the_claim() -> None:
    data = with_ids(table(ROWS))
    made = made_plan(source_of(data))
    lengths = np.linalg.norm(codes(made) @ weights_of(made).matrix.T, axis=1)
    rows = {one: [k for k, other in enumerate(IDS) if other == one] for one in IDS}
    worst = max(rows, key=lambda one: float(lengths[rows[one]].sum()))
    low, high = RANGE
    for ends in ([(low, high)] * 99, [(low, high), (high, low)] * 50):
        moved = dict(zip(rows[worst], ends, strict=False))
        assert 0.2 < realised_epsilon(made, data, moved) <= sum(claim_of(made).costs) <= 1.0
    assert sum(claim_of(made).costs) > 1 - 1e-6, "what the second moment costs is that of a person"


def test_the_curve_is_that_of_both_parts_and_ends_at_epsilon(made: Plan) -> None:
    """Losses of the law itself, drawn: those of the aggregates at their largest, and Laplace's."""
    claim, random = claim_of(made), np.random.default_rng(0)
    aggregates, residual = claim.costs
    noise = random.normal(size=(200_000, claim.bags))
    noise *= (random.gamma(claim.bags, size=len(noise)) / np.linalg.norm(noise, axis=1))[:, None]
    before = np.linalg.norm(noise, axis=1)
    noise[:, 0] -= aggregates
    one = random.laplace(size=len(noise))
    losses = np.linalg.norm(noise, axis=1) - before + np.abs(one - residual) - np.abs(one)
    for epsilon in (0.0, 0.3, 0.6):
        parts = np.maximum(0.0, 1 - np.exp(epsilon - losses))
        error = parts.std() / math.sqrt(len(parts))
        claimed = claim.delta_at(epsilon)
        assert parts.mean() - 4.5 * error < claimed < 1.1 * parts.mean() + 4.5 * error
        assert claimed < PureProfile(sum(claim.costs)).delta(epsilon).upper
    assert claim.delta_at(1.0) == 0.0 == claim.delta
    assert [group["epsilon"] for group in claim.groups()] == pytest.approx([2.0, 3.0, 5.0])


# --- the draws ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def releases(made: Plan) -> list[Release]:
    return [
        made.release(source(ROWS), randomness=Randomness.experiment(seed)) for seed in range(200)
    ]


def test_the_noise_is_what_it_says(made: Plan, releases: list[Release]) -> None:
    """Given the labels, ‖t − C·Xᵀy‖/b is Gamma(d)."""
    claim, columns = claim_of(made), made.claim.bags
    truth = weights_of(made).matrix @ (codes(made).T @ table(ROWS)["label"].to_numpy())
    drawn = np.array([release.labels for release in releases]) - truth
    radius = np.linalg.norm(drawn, axis=1) / claim.scale
    assert stats.kstest(radius, "gamma", args=(columns,)).pvalue > 1e-4
    for factor in (0.75, 1.25):
        assert stats.kstest(radius * factor, "gamma", args=(columns,)).pvalue < 1e-4
    covariance = np.cov((drawn / claim.noise_std).T)
    assert np.abs(covariance - np.eye(columns)).max() < 0.5


def test_the_second_moment_is_published_with_laplace_noise(
    made: Plan, releases: list[Release]
) -> None:
    square = float(np.square(table(ROWS)["label"].to_numpy() - 5).sum())
    seen = np.array([release.certificate["second_moment"] for release in releases]) - square
    scale = 10**2 / 4 / 0.05  # of the label range and the share of ε
    assert claim_of(made).single_scale == pytest.approx(scale, rel=1e-6)
    assert stats.kstest(seen / scale, "laplace").pvalue > 1e-4
    for factor in (0.5, 2.0):
        assert stats.kstest(seen / scale * factor, "laplace").pvalue < 1e-4


def test_the_noise_on_the_second_moment_has_laplaces_tails(made: Plan) -> None:
    """Normal noise of the same scale would go beyond four scales three hundred times less often."""
    sums = GramAccumulator(made.features), LabelCrossProducts(made.features, made.labels)
    _, moments = LocalEngine(1).run_pass("sums", source(ROWS), *sums)
    claim, randomness = claim_of(made), Randomness.experiment(0)
    drawn = [second_moment(claim, moments, made.labels, randomness) for _ in range(2000)]
    assert claim.single_scale is not None
    square = moments.square * 4.0**made.labels.exponent
    seen = (np.array(drawn, dtype=float) - square) / claim.single_scale
    assert stats.kstest(seen, "laplace").pvalue > 1e-4
    assert 0.009 < np.mean(np.abs(seen) > 4) < 0.03


def test_the_forecast_and_the_intervals_are_those_of_the_law(
    made: Plan, releases: list[Release]
) -> None:
    claim, rows = claim_of(made), codes(made) * made.features.kept_scales
    truth = np.linalg.lstsq(rows, table(ROWS)["label"].to_numpy(), rcond=None)[0]
    _, to_original = made.features.to_original_units()
    exact, added, covered = to_original @ truth, [], []
    for release in releases:
        fitted = LinearRegressor(shrink=False).fit(release)
        own = fitted.coef_.copy()
        own[0] = fitted.intercept_
        added.append(float(np.square(rows @ (own - truth)).sum()))
        shown = zip(fitted.coefficients_, exact, strict=True)
        covered.append([c.low <= value <= c.high for c, value in shown])
    error = np.std(added) / math.sqrt(len(added))
    assert abs(np.mean(added) - claim.excess) < 4 * error
    assert error < 0.08 * claim.excess
    for quantile, part in zip(claim.excess_spread[1:], (0.05, 0.5, 0.95), strict=True):
        assert abs(np.mean(np.array(added) < quantile) - part) < 0.13
    assert abs(np.mean(covered) - 0.95) < 0.03


# --- from plan to release ------------------------------------------------------------------


def test_a_plan_without_a_law_is_an_older_one_with_normal_noise() -> None:
    document = json.loads(json.dumps(made_plan(delta=1e-5, noise="gaussian").to_json()))
    del document["shape"]["noise_law"]
    claim = Plan.from_json(seal(document)).claim
    assert isinstance(claim, ShapedFlagClaim)
    assert claim.noise_law == "gaussian"


@pytest.mark.parametrize(
    "forgery", ["gaussian", "half the noise", "half the second moment's noise"]
)
def test_forgers_are_caught(made: Plan, forgery: str, tmp_path: Path) -> None:
    release = made.release(source(ROWS))
    assert verify(saved(release, tmp_path / "true")).problems == ()

    def forge(certificate: dict[str, Any]) -> None:
        shape = certificate["shape"]
        if forgery == "gaussian":
            shape["noise_law"], certificate["delta"] = forgery, 1e-6
        elif forgery == "half the noise":
            shape["noise_std"] /= 2
        else:
            shape["second_moment_noise_std"] /= 2

    found = " ".join(verify(saved(forged_claim(release, forge), tmp_path / "r")).problems)
    assert "more than the claimed" in found or "makes no sense" in found


def test_the_words_of_a_certificate_are_those_of_its_law(made: Plan, tmp_path: Path) -> None:
    release = made.release(source(ROWS))
    assert "radial" in release.certificate["accountant"]["basis"]
    numerics = release.certificate["numerics"]
    assert numerics["aggregate_labels"] == "exactly rounded radial noise on a public grid"
    words = numerics | {"aggregate_labels": "exactly rounded Gaussians on a public grid"}
    forged = replace(release, certificate=seal(release.certificate | {"numerics": words}))
    assert "aggregate labels should be" in " ".join(verify(saved(forged, tmp_path / "r")).problems)


def test_a_plan_with_another_law_is_refused(made: Plan) -> None:
    forged = replace(made, claim=replace(claim_of(made), noise_law="gaussian"))
    with pytest.raises(PlanError, match="contradicts itself"):
        forged.release(source(ROWS))
