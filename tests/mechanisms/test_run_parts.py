"""Parts of a run one by one: blocks, triangles, bounds of deviations, eigenvalues, facts."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from labeldp import Plan, PlanError
from labeldp.display import Private
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import ExactLeastSquares, LabelCrossProducts, LabelGrid
from labeldp.mechanisms import residual_floor
from labeldp.mechanisms.residual_floor import (
    AggregateLabelSampler,
    establish_floor,
    measure_residual,
)
from labeldp.mechanisms.wtd_flag import WtdFlag, WtdFlagClaim, _times_triangle
from labeldp.passes.engine import LocalEngine
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import FLAG, small_plan
from tests.tables import source, table

check, check_features, run = WtdFlag().check, WtdFlag().check_features, WtdFlag().run

Reals = Any


@pytest.fixture(scope="module")
def made() -> Plan:
    return small_plan(FLAG, source(400), floor="added")


def claim_of(made: Plan) -> WtdFlagClaim:
    assert isinstance(made.claim, WtdFlagClaim)
    return made.claim


# --- blocks of aggregates ------------------------------------------------------------------


def test_a_triangle_is_multiplied_panel_by_panel() -> None:
    rng = np.random.default_rng(0)
    for columns in (1, 63, 64, 65, 150):
        left, upper = rng.normal(size=(7, columns)), np.triu(rng.normal(size=(columns, columns)))
        product = _times_triangle(left, upper)
        assert product == pytest.approx(left @ upper, rel=1e-12, abs=1e-12)
        assert product.flags.f_contiguous


# --- facts of the table --------------------------------------------------------------------


def test_each_fact_of_a_claim_is_checked_again(made: Plan) -> None:
    """Less leverage or inflation than the table has would make the claim too optimistic."""
    claim, rows = claim_of(made), source(400)
    # room for the floor below
    claim = replace(claim, inflation=1e-3, floor=claim.floor * 1.01)
    planned = claim.max_leverage or 0.0  # a plan leaves headroom of 1e-9

    def released(**changes: Any) -> None:
        other = replace(claim, **changes)
        replace(made, claim=other).release(rows, randomness=Randomness.experiment(1))

    released(max_leverage=planned * (1 - 0.9e-9))
    for change in ({"max_leverage": planned * (1 - 1.1e-9)}, {"inflation": 2.0**-31}):
        with pytest.raises(PlanError, match=r"^the features are not those of the plan"):
            released(**change)


def test_a_certificate_that_claims_too_little_of_its_table_is_told(made: Plan) -> None:
    release = made.release(source(400), randomness=Randomness.experiment(1))
    certificate = release.certificate

    def asked(rows: int = 400, **changes: Any) -> list[str]:
        other = replace(release, certificate=certificate | changes)
        return list(check_features(other, source(rows), LocalEngine(1)))

    assert not asked()
    assert not asked(max_leverage=None)
    assert asked(rows=399) == ["the table has 399 rows, the certificate says 400"]
    claimed = certificate["max_leverage"]
    less = claimed * (1 - 1e-8)
    assert asked(max_leverage=less) == [
        f"the largest leverage is {claimed:.6g}, the certificate says {less:.6g}"
    ]
    assert not asked(max_leverage=claimed * (1 - 0.9e-9)), "a plan leaves headroom"
    told = ["the certificate's inflation is too small for these features"]
    assert asked(inflation=2.0**-31) == told
    digests = certificate["digests"] | {"feature_sums": "0" * 64}
    assert asked(digests=digests) == ["the table's features are not those of the release"]


# --- a release against its claim ------------------------------------------------------------


def test_sums_of_squares_are_no_larger_than_labels_and_noise_make_them(made: Plan) -> None:
    """40 labels of variance 400·10² and what was added: χ² beyond a chance of 1e-12 is told."""
    release = made.release(source(400), randomness=Randomness.experiment(1))
    told = "aggregates.parquet has labels larger than those in the range can make them"
    top = max(map(abs, release.certificate["label_range"]))
    most = 400 * top**2 + release.certificate["floor"]["added_variance"]
    step = 2.0 ** release.certificate["numerics"]["grid_exponent"]
    shown = np.asarray(release.labels)
    name = release.table.column_names[-1]
    for chance, lines in ((1.6e-12, []), (0.8e-12, [told])):
        size = np.sqrt(most * stats.chi2.isf(chance, 40) / (shown @ shown))
        values = pa.array(np.rint(shown * size / step) * step)
        place = release.table.num_columns - 1
        table = release.table.set_column(place, release.table.schema.field(name), values)
        assert list(check(replace(release, table=table))) == lines


def test_a_certificate_tells_of_its_intercept_and_allows_for_rounding(made: Plan) -> None:
    release = made.release(source(400), randomness=Randomness.experiment(1))

    def told(**changes: Any) -> list[str]:
        return list(check(replace(release, certificate=release.certificate | changes)))

    assert told() == []
    assert told(inflation=2.0**-30) == []
    assert told(inflation=2.0**-30 * (1 - 2.0**-50)) == [
        "certificate: the inflation must be at least 9.31e-10, the sampler's rounding"
    ]
    assert told(constant_in_span=False) == [
        "features.json and the certificate differ on whether there is an intercept"
    ]


# --- the law of a label --------------------------------------------------------------------


def residual_of(made: Plan) -> ExactLeastSquares:
    rows, features = source(400), made.features
    accumulators = GramAccumulator(features), LabelCrossProducts(features, made.labels)
    gram, moments = LocalEngine(1).run_pass("sums", rows, *accumulators)
    return ExactLeastSquares(verified_cholesky(gram, features), moments)


def test_a_label_has_the_mean_and_deviation_of_the_fit(made: Plan) -> None:
    """Against numpy, and the exact law against the one in doubles."""
    from flint import ctx

    residual, added = residual_of(made), 7.5
    law = AggregateLabelSampler(residual, made.labels, added, made.features.intercept)
    design, values = made.features.design(table(400)), table(400)["label"].to_numpy()
    slope, square, *_ = np.linalg.lstsq(design, values, rcond=None)
    unit = 2.0**made.labels.exponent
    assert np.array(law.std) * unit == pytest.approx(np.sqrt(square[0] + added), rel=1e-9)
    assert law.std[0] < law.std[1] < law.std[0] * (1 + 1e-9)
    rows = np.random.default_rng(0).normal(size=(5, len(slope)))
    scaled = rows * made.features.kept_scales
    mean, error = law.means(rows)
    assert mean * unit == pytest.approx(scaled @ slope, rel=1e-6, abs=1e-6)
    before, ctx.prec = ctx.prec, 200
    try:
        for row in range(5):
            ball, std = law.exact_at(rows)(row, 120)
            assert abs(float(ball) - mean[row]) <= error[row]
            assert law.std[0] <= float(std) <= law.std[1]
            assert float(std.rad()) < 2.0**-50 * float(std)
        law.exact_at(rows)(0, 600)
        assert residual.bits == 300, "a draw in doubt narrows the residual's enclosure"
    finally:
        ctx.prec = before


def test_what_is_measured_is_the_smallest_root_and_its_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Roots of 2 and 3 thousand codes of 1/16, noise of deviation 4, on a grid of 2⁻⁸."""
    seen: dict[str, Any] = {}

    def publish(mean: Any, error: Any, std: Any, grid: int, *rest: Any) -> Any:
        seen.update(mean=mean, error=error, std=std, grid=grid, exact=rest[1])
        return np.array([1234.5])

    monkeypatch.setattr("labeldp.sampling.rounded_noise.sample_rounded", publish)
    asked: list[tuple[int, int]] = []

    def residual(low: int, high: int, name: int) -> Any:
        ends = {"square_low": Fraction(low), "square_high": Fraction(high), "bits": 10}
        return SimpleNamespace(**ends, refine=lambda bits: asked.append((name, bits)))

    both = [residual(8_999_000, 9_001_000, 0), residual(3_999_000, 4_001_000, 1)]
    both.append(residual(3_998_000, 4_002_000, 2))
    labels = LabelGrid(0.0, 1.0, -4, 0)
    value = measure_residual(both, labels, 4.0, -8, Randomness.experiment(0))
    assert value == 1234.5 / 16
    assert seen["std"] == (64.0, 64.0)
    assert seen["grid"] == -4
    low, high = np.sqrt(3_998_000), np.sqrt(4_001_000)
    assert seen["mean"][0] == pytest.approx((low + high) / 2)
    for end in (low, high):
        assert abs(seen["mean"][0] - end) <= seen["error"][0]
    assert seen["error"][0] < 2 * (high - low)
    ball, std = seen["exact"](0, 100)
    assert asked == [(1, 50), (2, 50)], "the one that is surely larger is left alone"
    assert float(std) == 64.0
    assert ball.contains(low)
    assert ball.contains(high)
    assert float(ball.rad()) < 2 * (high - low)


def claim(mode: residual_floor.FloorMode, floor: float, measurement: Any = None) -> Any:
    return SimpleNamespace(mode=mode, floor=floor, measurement=measurement, width=8.0)


def test_a_declared_floor_is_checked_from_below() -> None:
    """A residual of 64 codes of 1/4 is a square of 4, but for what rounding may have taken."""
    labels = LabelGrid(0.0, 1.0, -2, 0)
    residual: Any = SimpleNamespace(square_low=Fraction(64), square_high=Fraction(65))
    declared = residual_floor.FloorMode.DECLARED
    nothing = Randomness.experiment(0)
    outcome = establish_floor(claim(declared, 4.0 * (1 - 2.0**-39)), [residual], labels, nothing)
    assert (outcome.measured, outcome.added_variance) == (None, 0.0)
    with pytest.raises(PlanError, match=r"^the declared residual floor does not hold for these"):
        establish_floor(claim(declared, 4.0), [residual], labels, nothing)


def test_a_measured_floor_shows_its_bound_and_adds_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Measured as 60 with noise of deviation 8 and slack 1e-6, on a grid of 2⁻⁷."""
    monkeypatch.setattr(residual_floor, "measure_residual", lambda *_: 60.0)
    labels, nothing = LabelGrid(0.0, 8.0, -17, 0), Randomness.experiment(0)
    measurement = residual_floor.Measurement(1.0, 1e-6)
    shown = 60.0 - 8.0 * stats.norm.isf(1e-6) - 2.0**-8
    both = residual_floor.FloorMode.MEASURED_ADDED
    outcome = establish_floor(claim(both, 900.0, measurement), [], labels, nothing)
    assert outcome.measured == 60.0
    assert outcome.lower_bound == pytest.approx(shown, rel=1e-9)
    assert outcome.added_variance == pytest.approx(900.0 - shown**2, rel=1e-9)
    enough = establish_floor(claim(both, 0.999 * shown**2, measurement), [], labels, nothing)
    assert enough.added_variance == 0.0
    with pytest.raises(PlanError, match=r"^a measured.added floor needs a measurement; plan again"):
        establish_floor(claim(both, 900.0), [], labels, nothing)
    alone = establish_floor(claim(residual_floor.FloorMode.ADDED, 900.0), [], labels, nothing)
    assert (alone.measured, alone.lower_bound, alone.added_variance) == (None, None, 900.0)


# --- what holds labels ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", Private.__subclasses__())
def test_what_holds_labels_prints_nothing_and_travels_nowhere(kind: type) -> None:
    held = object.__new__(kind)
    assert repr(held) == str(held) == f"{kind.__name__}(private)"
    for travel in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="is private and is not written anywhere"):
            travel(held)
