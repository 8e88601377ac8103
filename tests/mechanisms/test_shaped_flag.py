"""shaped-flag: neighbours are as close as claimed and no closer, and the noise is what it says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from labeldp import InputError, LinearRegressor, Plan, PlanError, Release, scan, verify
from labeldp.accounting import gaussian
from labeldp.arrow_util import arrow_numbers
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.exact.row_norms import Weights
from labeldp.features.encoder import Encoder
from labeldp.mechanisms import shaped_flag as module
from labeldp.mechanisms.shaped_flag import ShapedFlagClaim
from labeldp.passes.engine import LocalEngine
from labeldp.releases.certificate import seal
from labeldp.releases.tables import table_digest
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import SHAPED, forged_claim, forged_tables, saved
from tests.plans import plan
from tests.tables import RANGE, source, table, with_label

ROWS = 400
Array = NDArray[np.float64]


def made_plan(rows: int = ROWS, **options: Any) -> Plan:
    return plan(
        source(rows),
        mechanism=SHAPED,
        **{"epsilon": 1.0, "delta": 1e-5, "noise": "gaussian", **options},
    )


@pytest.fixture(scope="module")
def made() -> Plan:
    return made_plan()


def claim_of(made: Plan) -> ShapedFlagClaim:
    assert isinstance(made.claim, ShapedFlagClaim)
    return made.claim


def weights_of(made: Plan) -> Weights:
    weights = made.weights
    assert isinstance(weights, Weights)
    return weights


def codes(made: Plan, rows: int = ROWS) -> Array:
    """Dense integer rows of the kept columns."""
    (batch,) = table(rows).drop_columns(["label"]).to_batches()
    return made.features.integers(Encoder(made.features)(batch))


class Noiseless:
    """Takes the place of the sampler: keeps exact means and deviations, draws nothing."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.means: list[list[Fraction]] = []
        self.stds: list[float] = []
        patch.setattr("labeldp.sampling.rounded_noise.sample_rounded", self.publish)

    def publish(
        self, mean: Array, error: Array, std: Any, grid: int, _randomness: Any, exact: Any, *_: Any
    ) -> Array:
        from flint import ctx

        saved_precision, ctx.prec = ctx.prec, 400
        pairs = [exact(row, 300) for row in range(len(mean))]
        ctx.prec = saved_precision
        found = [Fraction(str(m.mid().str(100, radius=False))) for m, _ in pairs]
        for value, double, bound in zip(found, mean, error, strict=True):
            assert abs(value - Fraction(float(double))) <= Fraction(float(bound))
        assert std[0] == std[1]
        self.means.append(found)
        self.stds.append(float(std[0]))
        return np.rint(np.ldexp(mean, -grid)) * math.ldexp(1.0, grid)


def realised_mu(made: Plan, row: int, patch: pytest.MonkeyPatch, share: bool) -> float:
    """Distance of the published means of two neighbours, in deviations, through real runs."""
    sampler = Noiseless(patch)
    for value in RANGE:
        rows = scan(with_label(table(ROWS), row, value), label="label", label_range=RANGE)
        made.release(rows, randomness=Randomness.experiment(0))
    parts = 2 if share else 1  # the second moment comes first
    square = 0.0
    for part in range(parts):
        one, two = sampler.means[part], sampler.means[part + parts]
        assert sampler.stds[part] == sampler.stds[part + parts]
        moved = sum((a - b) ** 2 for a, b in zip(one, two, strict=True))
        square += float(moved) / sampler.stds[part] ** 2
    return math.sqrt(square)


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_neighbours_are_as_close_as_claimed_and_at_the_worst_row_no_closer(share: float) -> None:
    """A Gaussian mechanism's δ(ε) follows from μ alone, so μ of all that is published is compared.

    Every row's label moves from one end of the range to the other, which no neighbour exceeds.
    """
    made = made_plan(residual_share=share)
    claim, lengths = claim_of(made), np.linalg.norm(codes(made) @ weights_of(made).matrix.T, axis=1)
    worst = int(np.argmax(lengths))
    seen = {}
    for row in {worst, *range(0, ROWS, 57)}:
        with pytest.MonkeyPatch.context() as patch:
            seen[row] = realised_mu(made, row, patch, share > 0)
    assert max(seen.values()) <= math.hypot(*claim.costs)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        true, claimed = gaussian.delta(epsilon, seen[worst]), claim.delta_at(epsilon)
        assert true <= claimed
        if share == 0.0:
            assert true > 0.999 * claimed
    assert claim.delta_at(1.0) <= claim.delta
    assert claim.delta_at(1.0) > 0.999999 * claim.delta
    if share == 0.0:
        assert seen[worst] > 0.99999 * math.hypot(*claim.costs)


def test_the_noise_is_what_it_says_and_not_one_per_cent_more(made: Plan) -> None:
    """Given the labels, (t − C·Xᵀy)/s is standard normal: 300 releases of 10 numbers."""
    claim = claim_of(made)
    truth = weights_of(made).matrix @ (codes(made).T @ table(ROWS)["label"].to_numpy())
    drawn = np.array([one_release(made, seed).labels for seed in range(300)])
    normal = ((drawn - truth) / claim.noise_std).ravel()
    assert stats.kstest(normal, "norm").pvalue > 1e-4
    assert abs(normal.mean()) < 5 / math.sqrt(len(normal))
    covariance = np.cov(((drawn - truth) / claim.noise_std).T)
    assert np.abs(covariance - np.eye(len(truth))).max() < 0.4


def test_one_per_cent_more_noise_would_be_noticed(made: Plan) -> None:
    """200,000 numbers of aggregate_labels, the rows of C repeated: their squares are χ².

    An honest run fails with a chance of 2e-4; 1 % is 6 deviations of the sum of squares.
    """
    claim, weights, times = claim_of(made), weights_of(made), 20_000
    sums = GramAccumulator(made.features), LabelCrossProducts(made.features, made.labels)
    gram, moments = LocalEngine().run_pass("sums", source(ROWS), *sums)
    copies = Weights(weights.kept, np.tile(weights.matrix, (times, 1)))
    grid = module.rounded_noise.grid_for(claim.noise_std)
    drawn = module.aggregate_labels(
        copies, gram, moments, made.labels, claim, grid, Randomness.experiment(0)
    )
    truth = weights.matrix @ (codes(made).T @ table(ROWS)["label"].to_numpy())
    normal = (drawn - np.tile(truth, times)) / claim.noise_std
    assert stats.kstest(normal, "norm").pvalue > 1e-4
    for factor, honest in ((1.0, True), (1.01, False), (0.99, False)):
        square = float(np.square(normal * factor).sum())
        chance = min(stats.chi2(len(normal)).cdf(square), stats.chi2(len(normal)).sf(square))
        assert bool(chance > 1e-4) is honest, chance


def one_release(made: Plan, seed: int, rows: int = ROWS) -> Release:
    return made.release(source(rows), randomness=Randomness.experiment(seed))


def test_neighbours_are_published_on_the_same_grid(made: Plan) -> None:
    """What could be published does not depend on labels: multiples of a power of two."""
    grid = math.floor(math.log2(claim_of(made).noise_std)) - 10
    for value in RANGE:
        rows = scan(with_label(table(ROWS), 3, value), label="label", label_range=RANGE)
        release = made.release(rows, randomness=Randomness.experiment(1))
        cells = np.ldexp(release.labels, -grid)
        assert (cells == np.rint(cells)).all()
        assert len(set(cells % 2)) == 2, "no coarser one"
        assert release.certificate["numerics"]["grid_exponent"] == grid


@pytest.mark.parametrize("intercept", [True, False])
def test_the_mean_error_of_a_fit_is_the_forecast(intercept: bool) -> None:
    made = made_plan(1000, intercept=intercept)
    claim, rows = claim_of(made), codes(made, 1000) * made.features.kept_scales
    labels = table(1000)["label"].to_numpy()
    best = rows @ np.linalg.lstsq(rows, labels, rcond=None)[0]
    added, covered = [], []
    for seed in range(120):
        fitted = LinearRegressor(shrink=False, clip=False).fit(one_release(made, seed, 1000))
        added.append(float(np.square(fitted.predict(source(1000)) - best).sum()))
        inside = [c.low <= 0 <= c.high for c in fitted.coefficients_ if c.low is not None]
        covered.append(len(inside))
    mean, error = np.mean(added), np.std(added) / math.sqrt(len(added))
    assert abs(mean - claim.excess) < 4 * error
    assert error < 0.08 * claim.excess
    low, _, high = claim.excess_spread[1:]
    assert np.mean(np.array(added) < low) < 0.15
    assert np.mean(np.array(added) > high) < 0.15
    assert set(covered) == {len(made.features.names)}
    utility = claim.utility()["excess_mean"] * 1000 * claim.width**2
    assert utility == pytest.approx(claim.excess)


def test_a_ridge_is_that_of_all_rows_with_noise_on_the_normal_equations(made: Plan) -> None:
    release, rows = one_release(made, 7), codes(made) * made.features.kept_scales
    matrix = weights_of(made).matrix / made.features.kept_scales
    noisy = np.linalg.solve(matrix, release.labels)  # X'y + noise
    penalty = np.diag([0.0] + [25.0] * (rows.shape[1] - 1))
    expected = np.linalg.solve(rows.T @ rows + penalty, noisy)
    fitted = LinearRegressor(penalty=25.0).fit(release)
    assert fitted.intercept_ == pytest.approx(expected[0], rel=1e-8)
    assert fitted.coef_[1:] == pytest.approx(expected[1:], rel=1e-7, abs=1e-9)


def squares(made: Plan, rows: int, times: int) -> Array:
    """The noise on the second moment, in deviations, of so many draws."""
    sums = GramAccumulator(made.features), LabelCrossProducts(made.features, made.labels)
    _, moments = LocalEngine().run_pass("sums", source(rows), *sums)
    claim, random = claim_of(made), Randomness.experiment(0)
    labels = table(rows)["label"].to_numpy()
    truth = float(np.square(labels - claim.second_moment_centre).sum())
    drawn = [module.second_moment(claim, moments, made.labels, random) for _ in range(times)]
    return (np.array(drawn, dtype=float) - truth) / claim.second_moment_noise_std


@pytest.mark.parametrize("intercept", [True, False])
def test_the_second_moment_is_published_with_its_noise(intercept: bool) -> None:
    """About the middle of the range if labels may count from there, else about 0."""
    made = made_plan(3000, residual_share=0.5, intercept=intercept)
    claim = claim_of(made)
    assert claim.second_moment_centre == (5.0 if intercept else 0.0)
    assert claim.single_reach == pytest.approx(25.0 if intercept else 100.0)
    noise = squares(made, 3000, 4000)
    assert stats.kstest(noise, "norm").pvalue > 1e-4
    for factor, honest in ((1.0, True), (0.94, False), (1.06, False)):
        square = float(np.square(noise * factor).sum())
        chance = min(stats.chi2(len(noise)).cdf(square), stats.chi2(len(noise)).sf(square))
        assert bool(chance > 1e-4) is honest, chance
    shown = one_release(made, 1, 3000).certificate["second_moment"]
    labels = table(3000)["label"].to_numpy() - claim.second_moment_centre
    assert abs(shown - np.square(labels).sum()) < 5 * claim.second_moment_noise_std
    without = made_plan(residual_share=0.0)
    assert "second_moment_noise_std" not in without.claim.to_json()["shape"]
    assert without.release(source(ROWS)).certificate["second_moment"] is None
    with pytest.raises(InputError, match="residual_share"):
        made_plan(residual_share=1.0)


# --- forgers ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def released(made: Plan) -> Release:
    return made.release(source(ROWS))


def with_weights(release: Release, matrix: Array) -> Release:
    weights = pa.Table.from_arrays(
        [arrow_numbers(column) for column in matrix.T],
        schema=module.weight_schema(release.features),
    )
    forged = replace(release, files={"weights": weights})
    digests = release.certificate["digests"] | {"weights": table_digest(weights)}
    return forged_claim(forged, lambda c: c.update(digests=digests))


def problems(release: Release, folder: Path, data: pa.Table | None = None) -> str:
    return " ".join(verify(saved(release, folder), data).problems)


def test_a_length_that_is_too_small_is_caught(
    made: Plan, released: Release, tmp_path: Path
) -> None:
    """All of the certificate that follows is made to agree: only the table tells."""

    def shorter(certificate: dict[str, Any]) -> None:
        shape = certificate["shape"]
        certificate["shape"] = shape | {
            "length": 0.999 * shape["length"],
            "noise_std": 0.999 * shape["noise_std"],
            "trace": 0.999**2 * shape["trace"],
        }

    forged = forged_claim(released, shorter)
    assert problems(forged, tmp_path / "blind") == ""
    assert "a row's weights have the norm" in problems(forged, tmp_path / "data", table(ROWS))
    short = replace(claim_of(made), length=0.999 * claim_of(made).length)
    noise = replace(short, noise_std=0.999 * short.noise_std)
    with pytest.raises(PlanError, match="not those of the plan"):
        replace(made, claim=noise).release(source(ROWS))


def test_other_weights_are_caught(made: Plan, released: Release, tmp_path: Path) -> None:
    matrix = weights_of(made).matrix
    assert problems(with_weights(released, matrix), tmp_path / "same", table(ROWS)) == ""
    upper = matrix.copy()
    upper[0, 1] = 1e-3
    assert "triangle" in problems(with_weights(released, upper), tmp_path / "upper")
    assert "do not belong" in problems(
        with_weights(
            released,
            matrix[:, ::-1] * 0 + np.tril(np.random.default_rng(0).normal(size=matrix.shape)),
        ),
        tmp_path / "random",
    )
    assert problems(with_weights(released, 2 * matrix), tmp_path / "scaled") != ""
    stretched = matrix * np.append(np.ones(len(matrix) - 1), 1.001)
    assert problems(with_weights(released, stretched), tmp_path / "one") != ""
    lost = replace(released, files={})
    assert "weights.parquet" in problems(lost, tmp_path / "lost")
    digests = {k: v for k, v in released.certificate["digests"].items() if k != "weights"}
    unsaid = forged_claim(lost, lambda c: c.update(digests=digests))
    assert "weights.parquet is missing" in problems(unsaid, tmp_path / "unsaid")
    twice = pa.table(
        [*released.files["weights"].columns, released.files["weights"].column(0)],
        [*released.files["weights"].column_names, "one more"],
    )
    wide = forged_tables(released, weights=twice)
    assert "weights.parquet does not have the columns" in problems(wide, tmp_path / "wide")


def test_a_plan_with_other_weights_is_refused(made: Plan) -> None:
    weights = weights_of(made)
    upper = weights.matrix.copy()
    upper[0, 1] = 1.0
    for matrix in (upper, weights.matrix[:-1, :-1]):
        forged = replace(made, weights=replace(weights, matrix=matrix))
        with pytest.raises(PlanError):
            forged.release(source(ROWS))
    for longer in (2 * weights.matrix, weights.matrix * (1 + 1e-6)):
        with pytest.raises(PlanError, match="not those of the plan"):
            replace(made, weights=replace(weights, matrix=longer)).release(source(ROWS))
    with pytest.raises(PlanError, match="contradicts itself"):
        replace(made, weights=None).release(source(ROWS))


@pytest.mark.parametrize("power", [-600, -540, 530, 600])
def test_weights_whose_squares_are_no_doubles_are_refused(
    made: Plan, released: Release, power: int, tmp_path: Path
) -> None:
    """Their lengths would be measured as 0, or as nothing that compares, and pass any claim."""
    claim, weights = claim_of(made), weights_of(made).scaled(power)
    tiny = {
        "length": math.ldexp(claim.length, power - 20),
        "noise_std": math.ldexp(claim.noise_std, power - 20),
    }
    forged = replace(made, claim=replace(claim, **tiny), weights=weights)
    with pytest.raises(PlanError, match="contradicts itself"):
        forged.release(source(ROWS))
    other = with_weights(released, weights.matrix)
    assert "too large or too small" in problems(other, tmp_path / "r", table(ROWS))


@pytest.mark.parametrize(
    "name", ["length", "noise_std", "second_moment_noise_std", "residual_noise_std"]
)
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_noise_that_is_none_is_refused(
    made: Plan, released: Release, name: str, value: float, tmp_path: Path
) -> None:
    """A residual without noise would cost nothing; a negative deviation would cost its opposite."""
    document = json.loads(json.dumps(made.to_json()))
    document["shape"][name] = value
    with pytest.raises(InputError, match=f"`{name}` must be"):
        Plan.from_json(seal(document))
    shape = released.certificate["shape"] | {name: value}
    forged = replace(released, certificate=seal(released.certificate | {"shape": shape}))
    assert f"`{name}` must be" in problems(forged, tmp_path / "r")


@pytest.mark.parametrize("intercept", [True, False])
def test_a_plan_about_another_centre_is_refused(intercept: bool) -> None:
    """The run sums squares about what labels count from: one may move them by more than here."""
    made = plan(source(ROWS), 1.0, 1e-5, mechanism="shaped-flag", intercept=intercept)
    claim = made.claim
    assert isinstance(claim, ShapedFlagClaim)
    assert claim.second_moment_noise_std is not None
    other = replace(claim, second_moment_centre=0.0 if intercept else 5.0)
    share = other.single_reach / claim.single_reach
    other = replace(other, second_moment_noise_std=share * claim.second_moment_noise_std)
    with pytest.raises(PlanError, match="contradicts itself"):
        replace(made, claim=other).release(source(ROWS))


def test_a_table_with_equal_sums_and_a_longer_row_is_refused(tmp_path: Path) -> None:
    """The digest of the sums does not suffice: the pass that reads labels measures every row."""
    base = [(u, v) for u in (-2.0, -1.0, 0.0, 1.0, 2.0) for v in (-1.0, 0.0, 1.0)] * 4
    pairs = {
        "short": [(3.0, 0.0), (0.0, 3.0), (1.5, 1.5), (-1.5, -1.5)],
        "long": [(3.0, 3.0), (0.0, 0.0), (1.5, -1.5), (-1.5, 1.5)],
    }
    tables = {}
    for name, first in pairs.items():
        u, v = np.array(first + base).T
        tables[name] = pa.table({"u": u, "v": v, "label": np.linspace(0, 10, len(u))})
    rows = {name: scan(t, label="label", label_range=RANGE) for name, t in tables.items()}
    plans = {
        name: plan(each, mechanism=SHAPED, epsilon=1.0, delta=1e-5) for name, each in rows.items()
    }
    assert plans["short"].feature_sums == plans["long"].feature_sums
    with pytest.raises(PlanError, match="not those of the plan"):
        plans["short"].release(rows["long"])
    plans["short"].release_to(tmp_path / "r", rows["short"])
    assert verify(tmp_path / "r", tables["short"]).valid
    assert "norm" in " ".join(verify(tmp_path / "r", tables["long"]).problems)


def test_as_many_columns_as_rows_are_fine(tmp_path: Path) -> None:
    """Labels that the features determine are hidden by the noise alone."""
    data = pa.table({"c": [f"l{k}" for k in range(12)], "label": np.arange(12.0) / 2})
    rows = scan(data, label="label", label_range=RANGE)
    made = plan(rows, mechanism=SHAPED, epsilon=1.0, delta=1e-5, min_count=1)
    made.release_to(tmp_path / "r", rows)
    assert verify(tmp_path / "r", data).problems == ()


# --- the same plan everywhere ---------------------------------------------------------------


def test_columns_that_are_nearly_alike_make_a_valid_release() -> None:
    """There Z = C·G cancels, and its rounding is no share of Z."""
    rng = np.random.default_rng(7)
    base = rng.normal(size=600)
    data: dict[str, Any] = {f"x{k}": base + 1e-3 * rng.normal(size=600) for k in range(8)}
    data["label"] = np.clip(base, *RANGE)
    release = plan(
        scan(data, label="label", label_range=RANGE),
        mechanism=SHAPED,
        epsilon=1.0,
        delta=1e-5,
        force=True,
    ).release(scan(data, label="label", label_range=RANGE))
    assert verify(release).problems == ()
