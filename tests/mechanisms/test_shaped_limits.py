"""Where the checks of a shaped release begin to refuse, and what its noise costs to the digit."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

from labeldp.accounting.gaussian import largest_mu
from labeldp.errors import InputError
from labeldp.exact.label_sums import largest_square_move
from labeldp.exact.row_norms import Weights
from labeldp.mechanisms.noise_claim import GAUSSIAN, NOISE_LAWS, RADIAL, choose_noise as choose
from labeldp.mechanisms.shaped_flag import (
    PricedShape,
    ShapedFlag,
    ShapedFlagClaim,
    published_weights,
)
from labeldp.passes.engine import LocalEngine
from labeldp.releases.certificate import Person
from labeldp.releases.files import Release
from tests.mechanisms.cases import SHAPED, forged_claim, small_plan
from tests.tables import source

MECHANISM = ShapedFlag()
check, untested = MECHANISM.check, MECHANISM.not_checked
_check_error, _check_number = MECHANISM._check_stated_error, MECHANISM._check_single_number

Reals = Any
TOO_LARGE = "aggregates.parquet has labels larger than those in the range can make them"
APART = "aggregates.parquet and weights.parquet do not belong together"


def claim(**changes: Any) -> ShapedFlagClaim:
    """Three aggregates of 100 rows, labels from −2 to 6, noise of deviation 8 on the residual."""
    given: dict[str, Any] = {
        "accountant": "exact",
        "epsilon": 1.0,
        "delta": 1e-5,
        "bags": 3,
        "rank": 3,
        "rows": 100,
        "label_range": (-2.0, 6.0),
        "intercept": True,
        "length": 0.5,
        "noise_std": 4.0,
        "trace": 3.0,
        "directions": 3.0,
        "gap": 1.0,
        "kind": "even",
        "passes": 1,
        "residual_noise_std": 8.0,
    }
    return ShapedFlagClaim(**given | changes)


# --- the second moment, or the residual's root of earlier releases ---------------------------


NUMBERS = {
    "second_moment": {"residual_noise_std": None, "second_moment_noise_std": 8.0},
    "residual_root": {},
}


@pytest.mark.parametrize(
    ("law", "centre", "intercept", "most"),
    [
        (GAUSSIAN, 2.0, True, {"second_moment": 1600, "residual_root": 40}),
        (GAUSSIAN, 0.0, False, {"second_moment": 3600, "residual_root": 60}),
        (RADIAL, 2.0, True, {"second_moment": 1600, "residual_root": 40}),
        (RADIAL, 0.0, False, {"second_moment": 3600, "residual_root": 60}),
    ],
)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_within_its_reach_and_the_noise(
    name: str, law: str, centre: float, intercept: bool, most: dict[str, int]
) -> None:
    """Labels are up to 4 from their middle, or 6 from 0, in 100 rows."""
    far = 57.6 if law == GAUSSIAN else 224.0
    told = f"certificate: {name} is impossible: no labels in their range leave that"
    options = NUMBERS[name] | ({"second_moment_centre": centre} if name == "second_moment" else {})
    made, step = claim(noise_law=law, intercept=intercept, **options), 2.0 ** (3 - 10)
    for inside in (math.ceil(-far / step), 0, 1, math.floor((most[name] + far) / step)):
        assert not list(_check_number(made, {name: inside * step}))
    for outside in (math.ceil(-far / step) - 1, math.floor((most[name] + far) / step) + 1):
        assert list(_check_number(made, {name: outside * step})) == [told]
    off = f"certificate: {name} is off its public grid: its low bits may leak"
    assert list(_check_number(made, {name: 5.5 * step})) == [off]


@pytest.mark.parametrize("law", [GAUSSIAN, RADIAL])
def test_noise_on_the_residual_goes_that_far_with_less_than_the_chance(law: str) -> None:
    """Deviations: 7.2 of normal noise, and 28 of Laplace's, are beyond chances of 1e-12."""
    far = {GAUSSIAN: mpmath.erfc(7.2 / mpmath.sqrt(2)), RADIAL: mpmath.exp(-28 * mpmath.sqrt(2))}
    assert far[law] < 1e-12


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_published_if_and_only_if_there_is_noise_on_it(name: str) -> None:
    told = f"certificate: {name} and the noise on it do not go together"
    made, none = claim(**NUMBERS[name]), claim(residual_noise_std=None)
    assert list(_check_number(made, {})) == [told]
    assert list(_check_number(none, {name: 8.0})) == [told]
    assert not list(_check_number(none, {}))


# --- the size of labels, and what weights say ----------------------------------------------


def weighed() -> tuple[Weights, Reals]:
    """A lower triangle C, and a G so that C·G·Cᵀ has eigenvalues 1, 2 and 4."""
    lower = np.array([[2.0, 0.0, 0.0], [-1.0, 0.5, 0.0], [3.0, 1.0, -4.0]])
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    inside = turn @ np.diag([1.0, 2.0, 4.0]) @ turn.T
    back = np.linalg.inv(lower)
    gram = back @ inside @ back.T
    return Weights((0, 1, 2), lower), (gram + gram.T) / 2


def errors(design: Reals, weights: Weights, **changes: Any) -> list[str]:
    """What is said of C and Z; by default with the trace and directions that follow."""
    inverse = 0.25 / np.array([1.0, 2.0, 4.0])
    given = {"trace": inverse.sum(), "directions": inverse.sum() ** 2 / (inverse**2).sum()}
    features = SimpleNamespace(kept_scales=np.ones(3))
    shown: Any = SimpleNamespace(features=features, design=design)
    return list(_check_error(shown, weights, claim(**given | changes)))


def test_the_error_that_is_stated_follows_from_what_is_published() -> None:
    weights, gram = weighed()
    design = weights.matrix @ gram
    assert not errors(design, weights)
    trace, directions = 0.4375, 0.4375**2 / 0.08203125
    for by, fine in ((0.008, True), (0.02, False), (-0.02, False)):
        line = [] if fine else [f"certificate: shape.trace should be {trace:.6g}"]
        assert errors(design, weights, trace=trace * (1 + by)) == line
    for by, fine in ((0.016, True), (0.035, False), (-0.035, False)):
        line = [] if fine else [f"certificate: shape.directions should be {directions:.6g}"]
        assert errors(design, weights, directions=directions * (1 + by)) == line


def test_rows_have_no_less_than_their_length_on_average() -> None:
    """The trace of C·G·Cᵀ is 7, of 28 rows of length 1/2."""
    weights, gram = weighed()
    design = weights.matrix @ gram
    told = ["certificate: shape.length is less than what rows have on average"]
    assert not errors(design, weights, rows=28)
    assert errors(design, weights, rows=27) == told
    shorter = 0.5 * (1 - 1e-9)
    scale = {"trace": 0.4375, "directions": 0.4375**2 / 0.08203125}
    assert errors(design, weights, rows=28, length=shorter, **scale) == told


def test_features_and_weights_belong_together_to_the_last_digits() -> None:
    weights, gram = weighed()
    design = weights.matrix @ gram
    for at in ((0, 1), (2, 0), (1, 2)):
        other = design.copy()
        other[at] += 1e-12
        assert errors(other, weights) == [APART]
        other[at] = np.nan
        assert errors(other, weights) == [APART]


# --- a release -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def released() -> Release:
    return small_plan(SHAPED, source(400)).release(source(400))


def with_shape(release: Release, **times: float) -> list[str]:
    def change(certificate: dict[str, Any]) -> None:
        shape = certificate["shape"]
        certificate["shape"] = shape | {name: by * shape[name] for name, by in times.items()}

    return list(check(forged_claim(release, change)))


def test_a_budget_is_spent_but_for_a_millionth(released: Release) -> None:
    assert not list(check(released))
    told = ["certificate: the noise is not that of the budget"]
    assert not with_shape(released, noise_std=1 + 0.8e-6, second_moment_noise_std=1 + 0.8e-6)
    assert with_shape(released, noise_std=1 + 1.6e-6, second_moment_noise_std=1 + 1.6e-6) == told


def test_an_intercept_is_where_the_certificate_says(released: Release) -> None:
    forged = forged_claim(released, lambda c: c.update(constant_in_span=False))
    told = "features.json and the certificate differ on whether there is an intercept"
    assert told in list(check(forged))


def test_weights_of_another_number_of_rows_are_not_square(released: Release) -> None:
    table = released.files["weights"]
    short = replace(released, files={"weights": table.slice(0, table.num_rows - 1)})
    assert list(check(short)) == ["weights.parquet is not square"]


def with_column(release: Release, place: int, values: Reals) -> Release:
    """The release with other numbers in one column of its aggregates."""
    table = release.table
    return replace(release, table=table.set_column(place, table.schema.field(place), [values]))


@pytest.mark.parametrize("sign", [1, -1])
def test_labels_are_no_larger_than_their_weights_and_noise_allow(
    released: Release, sign: int
) -> None:
    """n·L·max|y| and a hundred deviations, to the step of the grid."""
    made = MECHANISM.claim_from_json(released.certificate)
    step = math.ldexp(1.0, released.certificate["numerics"]["grid_exponent"])
    largest = max(map(abs, made.label_range))
    most = math.floor((made.rows * made.length * largest + 100 * made.noise_std) / step) * step
    place = released.table.num_columns - 1
    for value, found in ((most, False), (most + step, True)):
        labels = released.labels.copy()
        labels[0] = sign * value
        assert (TOO_LARGE in check(with_column(released, place, labels))) is found


def test_features_are_those_of_the_table_to_the_last_digits(released: Release) -> None:
    told = ["aggregates.parquet has features that are not those of the table, weighed as it says"]
    engine, data = LocalEngine(1), source(400)
    assert not list(MECHANISM.check_features(released, data, engine))
    weights, scales = published_weights(released).matrix, released.features.kept_scales
    design = np.concatenate([part for part, _ in released.chunks()])
    gram = np.linalg.solve(weights, design / scales)
    size = np.abs(weights) @ np.abs(gram) * scales
    for row, column in ((0, 0), (2, 1)):
        values = design[:, column].copy()
        values[row] += 1e-12 * size[row, column]
        other = with_column(released, column, values)
        assert list(MECHANISM.check_features(other, data, engine)) == told


def test_what_a_check_cannot_see_is_said(released: Release) -> None:
    (line,) = untested(released)
    assert line.startswith("whether noise was added to the labels: as many aggregates as columns")


# --- what noise costs ----------------------------------------------------------------------


def test_costs_are_those_of_the_moves_over_the_scales_rounded_up() -> None:
    """ΔL/s and kΔ²/4/s₀; radial noise of d columns has deviation √(d+1)·b, Laplace's √2·b.

    The residual's root of earlier releases moves by Δ√k.
    """
    person = Person("id", 9)
    for law, spread, root in ((GAUSSIAN, 1, 1), (RADIAL, mpmath.sqrt(4), mpmath.sqrt(2))):
        earlier = claim(noise_law=law, person=person)
        now = claim(
            noise_law=law, person=person, second_moment_centre=2.0, **NUMBERS["second_moment"]
        )
        for made, reach in ((earlier, 8 * 3), (now, 9 * 16)):
            aggregates, single = made.costs
            assert aggregates == pytest.approx(float(8 * 0.5 / (4 / spread)), rel=1e-14)
            assert single == pytest.approx(float(reach / (8 / root)), rel=1e-14)


def test_a_label_moves_the_second_moment_no_further() -> None:
    """By brute force over labels on a fine grid."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        low, width, centre = rng.normal(), rng.uniform(0.1, 3), rng.normal()
        squares = np.square(np.linspace(low, low + width, 20_001) - centre)
        most = largest_square_move((low, low + width), centre)
        assert squares.max() - squares.min() <= most * (1 + 1e-12)
        assert squares.max() - squares.min() > 0.999 * most


def test_costs_are_never_less_than_what_they_are() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        std, root, length = (float(value) for value in rng.uniform(0.1, 3.0, 3))
        law = RADIAL if rng.integers(2) else GAUSSIAN
        options = NUMBERS["second_moment"] | {"second_moment_noise_std": root}
        made = claim(
            noise_std=std, length=length, noise_law=law, second_moment_centre=2.0, **options
        )
        with mpmath.workdps(40):
            spread, last = (mpmath.sqrt(4), mpmath.sqrt(2)) if law == RADIAL else (1, 1)
            truth = 8 * mpmath.mpf(length) * spread / std, 16 * last / mpmath.mpf(root)
            for found, exact in zip(made.costs, truth, strict=True):
                assert exact <= mpmath.mpf(found) <= exact * (1 + mpmath.mpf(2) ** -49)
    assert claim(residual_noise_std=None).costs[1] == 0.0


@pytest.mark.parametrize("law", [GAUSSIAN, RADIAL])
@pytest.mark.parametrize("delta", [1e-5, 0.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_parts_of_a_budget_make_it_up_and_never_exceed_it(
    law: str, delta: float, share: float
) -> None:
    if law == GAUSSIAN and delta == 0:
        pytest.skip("normal noise has no pure guarantee")
    noise = NOISE_LAWS[law]
    single = noise.single_cost(1.0, delta, share)
    aggregates = noise.aggregate_cost(1.0, delta, single, 5)
    if law == RADIAL:
        assert single == pytest.approx(share, rel=1e-8, abs=0.0)
    else:
        assert single**2 == pytest.approx(share * largest_mu(1.0, delta) ** 2, rel=1e-8, abs=0.0)
    assert noise.profile(aggregates, single, 5).delta(1.0).upper <= delta
    more = noise.profile(aggregates * (1 + 1e-8), single, 5)
    assert more.delta(1.0).upper > delta
    std = noise.needed_std(2.0, aggregates, 5)
    assert std * aggregates == pytest.approx(2.0 * (math.sqrt(6) if law == RADIAL else 1.0))
    with mpmath.workdps(40):
        spread = mpmath.mpf(noise.std(5))
        assert mpmath.mpf(std) * mpmath.mpf(aggregates) >= 2 * spread
        assert mpmath.mpf(std) * mpmath.mpf(aggregates) <= 2 * spread * (1 + mpmath.mpf(2) ** -50)
    deviation = noise.needed_single_std(3.0, single)
    assert (deviation is None) is (share == 0.0)
    if deviation is not None:
        root = math.sqrt(2) if law == RADIAL else 1.0
        assert deviation * single == pytest.approx(3.0 * root)
        assert deviation >= mpmath.mpf(noise.std(1)) * 3 / mpmath.mpf(single)


def test_noise_without_a_guarantee_is_refused_and_the_smaller_is_chosen() -> None:
    words = r"^gaussian noise has no guarantee with δ = 0; leave `noise` out$"
    with pytest.raises(InputError, match=words):
        choose(GAUSSIAN, 1.0, 0.0, 0.1, 4)
    assert choose("auto", 1.0, 0.0, 0.1, 10**6)[0].name == RADIAL
    assert choose(RADIAL, 1.0, 1e-5, 0.1, 10**6)[0].name == RADIAL
    for columns in (1, 3, 9, 27, 81):
        sizes = {}
        for name in (GAUSSIAN, RADIAL):
            single = NOISE_LAWS[name].single_cost(1.0, 1e-5, 0.1)
            cost = NOISE_LAWS[name].aggregate_cost(1.0, 1e-5, single, columns)
            sizes[name] = NOISE_LAWS[name].needed_std(1.0, cost, columns)
        least = min(sizes, key=lambda name: sizes[name])
        assert choose("auto", 1.0, 1e-5, 0.1, columns)[0].name == least


@pytest.mark.parametrize("intercept", [True, False])
def test_shrunken_predictions_miss_what_noise_and_prior_leave(intercept: bool) -> None:
    """Of b ~ N(0, τ) seen with noise ν: τν/(τ+ν) in every direction, the mean's prior its own."""
    made = claim(intercept=intercept, trace=3.0)
    noise, slopes = made.excess / 4, 3 if intercept else 4
    assert made.excess == pytest.approx(8.0**2 * 3)
    prior, free = 100 * 0.7 / slopes, 100 * 8.0**2 / 12
    missed = slopes * prior * noise / (prior + noise)
    if intercept:
        missed += free * noise / (free + noise)
    nothing: Any = None
    shape = PricedShape(nothing, made, nothing, 2.0 * np.eye(4), 0.7)
    assert shape.shrunken_added_mse == pytest.approx(missed / 100)
