"""Noisy rows at their limits: what noise a budget asks for, and which labels it cannot make."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from labeldp import InputError, Release
from labeldp.exact.label_sums import LabelGrid
from labeldp.mechanisms.noisy_rows import plan as plan_module
from labeldp.mechanisms.noisy_rows.check import (
    _check_numbers,
    _check_spread,
    check,
    check_features,
    untested,
)
from labeldp.mechanisms.noisy_rows.claim import NoisyRowsClaim
from labeldp.mechanisms.noisy_rows.noise import LAWS, RowNoise, least_noise, needed
from labeldp.passes.local import LocalEngine
from tests.mechanisms.cases import EVERY, forged_claim, small_plan
from tests.tables import source

HALF = 2.0 ** (2 - 10) / 2
"""Half a step of the grid of noise of scale 4."""
LOW, HIGH = -2.0 - HALF, 6.0 + HALF
TOO_NEAR = "aggregates.parquet has labels that stray less from their range than the noise demands"
TOO_FAR = "aggregates.parquet has labels further from their range than the noise can take them"


def claim(rows: int = 100, law: str = "laplace", scale: float = 4.0) -> NoisyRowsClaim:
    return NoisyRowsClaim(
        "exact",
        1.0,
        1e-5,
        rows,
        rows=rows,
        rank=3,
        label_range=(LOW, HIGH),
        intercept=True,
        noise=RowNoise(law, scale),
        with_features=False,
    )


def spread(labels: Any, made: NoisyRowsClaim) -> list[str]:
    parts = [np.asarray(part, dtype=np.float64) for part in np.array_split(labels, 3)]
    shown: Any = SimpleNamespace(label_chunks=lambda: iter([*parts, np.zeros(0)]))
    return list(_check_spread(shown, made))


# --- how far labels stray ------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("edge", [6.0, -2.0])
def test_as_few_labels_outside_as_the_binomial_allows(law: str, edge: float) -> None:
    """A label from the middle gets out with P[|noise| > Δ/2]; half a step further in counts."""
    made, width = claim(law=law), HIGH - LOW
    out = {"laplace": math.exp(-width / 8), "gaussian": 2 * stats.norm.sf(width / 8)}[law]
    fewest = int(stats.binom.ppf(1e-12, 100, out))
    assert stats.binom.cdf(fewest - 1, 100, out) < 1e-12 < stats.binom.cdf(fewest, 100, out)
    assert fewest > 1
    for count, lines in ((fewest, []), (fewest - 1, [TOO_NEAR])):
        labels = np.full(100, 2.0)
        labels[:count] = edge
        assert spread(labels, made) == lines
    inside = np.full(100, edge - math.copysign(2 * HALF, edge))
    assert spread(inside, made) == [TOO_NEAR], "one step of the grid inside is inside"


@pytest.mark.parametrize("law", LAWS)
def test_no_label_is_further_outside_than_noise_takes_one_of_them(law: str) -> None:
    """2·100·P[noise > x] = 1e-12 beyond the end of the range and half a step."""
    far = {"laplace": math.log(100e12), "gaussian": float(stats.norm.isf(1e-12 / 200))}[law]
    labels = np.full(100, 30.0) * np.where(np.arange(100) % 2, 1, -1)
    labels = labels / (1 if law == "laplace" else 3)
    for end, sign in ((HIGH, 1), (LOW, -1)):
        limit = end + sign * (HALF + 4 * far)
        for by, lines in ((-HALF / 8, []), (HALF / 8, [TOO_FAR])):
            labels[57] = limit + sign * by
            assert spread(labels, claim(law=law)) == lines


def test_spread_is_said_to_be_untested_where_labels_without_noise_would_pass() -> None:
    """Of n labels none strays with a chance of (1 − p)ⁿ, above 1e-12 up to n = 60."""
    out = math.exp(-(HIGH - LOW) / 8)
    assert (1 - out) ** 60 > 1e-12 > (1 - out) ** 61
    for rows, said in ((60, True), (61, False)):
        made: Any = SimpleNamespace(certificate=claim(rows).to_json())
        told = list(untested(made))
        assert bool(told) is said
    many: Any = SimpleNamespace(certificate=claim(2000, "gaussian", 1.0).to_json())
    assert list(untested(many)) == [
        "scatter not testable: noise takes 6.3e-05 of 2,000 labels out of their range, too few to "
        "see whether they carry it"
    ]


# --- which rows ----------------------------------------------------------------------------


def rows_named(numbers: list[Any], missing: str = "refused", chunks: int = 2) -> list[str]:
    column = pa.array(numbers, pa.int64())
    size = -(-len(numbers) // chunks)
    parts = [column.slice(at, size) for at in range(0, len(numbers), size)]
    table = pa.table({"row": pa.chunked_array([*parts, pa.array([], pa.int64())], pa.int64())})
    shown: Any = SimpleNamespace(
        table=table,
        label_chunks=lambda: iter([np.zeros(len(numbers))]),
        certificate={"labels": {"missing": missing}},
    )
    return list(_check_numbers(shown))


def test_rows_are_named_one_after_the_other() -> None:
    unordered = ["aggregates.parquet does not name rows by increasing numbers"]
    gaps = ["aggregates.parquet leaves out rows, though none was dropped"]
    assert not rows_named([0, 1, 2, 3])
    assert not rows_named([0, 1, 2, 3, 4], chunks=3)
    for wrong in ([0, 1, 1, 3], [0, 2, 1, 3], [-1, 0, 1, 2], [0, 1, None, 3], [2, 3, 0, 1]):
        assert rows_named(wrong) == unordered
        assert rows_named(wrong, chunks=1) == unordered
    assert rows_named([0, 1, 2, 4]) == gaps
    assert not rows_named([0, 1, 2, 4], missing="rows dropped")
    assert not rows_named([5, 9], missing="rows dropped")


# --- what noise a budget asks for ----------------------------------------------------------


def test_laplace_noise_has_the_scale_of_the_move_over_epsilon_and_never_less() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        width, epsilon = (float(value) for value in rng.uniform(0.01, 30.0, 2))
        rows = int(rng.integers(1, 50))
        noise = needed("laplace", width, rows, epsilon, 0.0)
        assert noise is not None
        with mpmath.workdps(40):
            exact = mpmath.mpf(width) * rows / mpmath.mpf(epsilon)
            assert exact <= mpmath.mpf(noise.scale) <= exact * (1 + mpmath.mpf(2) ** -47)
        assert noise.curve(width, rows).pure_epsilon() <= epsilon
        assert noise.std == pytest.approx(noise.scale * 2**0.5, rel=1e-15)


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_gaussian_noise_is_the_least_of_its_budget_but_for_a_billionth(rows: int) -> None:
    noise = needed("gaussian", 3.0, rows, 1.0, 1e-5)
    assert noise is not None
    assert noise.curve(3.0, rows).delta(1.0).upper <= 1e-5
    less = RowNoise("gaussian", noise.scale * (1 - 4e-9))
    assert less.curve(3.0, rows).delta(1.0).lower > 1e-5
    assert noise.std == noise.scale
    assert needed("gaussian", 3.0, rows, 1.0, 0.0) is None


def test_what_is_claimed_is_never_less_than_the_move_over_the_scale() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        width, scale = (float(value) for value in rng.uniform(0.1, 3.0, 2))
        claimed = RowNoise("laplace", scale).curve(width, 3).pure_epsilon()
        with mpmath.workdps(40):
            exact = 3 * mpmath.mpf(width) / mpmath.mpf(scale)
            assert exact <= mpmath.mpf(claimed) <= exact * (1 + mpmath.mpf(2) ** -49)


def test_of_both_laws_the_one_of_less_variance_is_taken() -> None:
    assert least_noise(1.0, 1, 1.0, 0.0).name == "laplace"
    assert least_noise(1.0, 1, 1.0, 1e-5).name == "laplace"
    assert least_noise(1.0, 1000, 1.0, 1e-5).name == "gaussian"
    assert LAWS["laplace"].tail(2.0) == pytest.approx(math.exp(-2) / 2)
    assert LAWS["gaussian"].tail(2.0) == pytest.approx(stats.norm.sf(2.0))


@pytest.mark.parametrize(("scale", "exponent"), [(1.0, -20), (2.0**-20, -12)])
def test_labels_are_doubles_on_the_finer_of_both_grids(scale: float, exponent: int) -> None:
    """Steps of 2⁻²⁰ of labels, or of 2⁻³⁰ of noise: labels and noise need their digits."""
    finest = min(exponent, math.floor(math.log2(scale)) - 10)
    most = plan_module._MOST_STEPS * 2.0**finest
    noise = RowNoise("laplace", scale)
    width = 2.0**exponent * 2**19
    for sign in (1, -1):
        near, far = sign * most * (1 - 2.0**-10), sign * most
        ends = sorted((near, near - sign * width))
        plan_module._check_size(LabelGrid(ends[0], ends[1], exponent, 0), noise)
        ends = sorted((far, far - sign * width))
        with pytest.raises(InputError, match=r"is too far from 0 for its width; subtract a pub"):
            plan_module._check_size(LabelGrid(ends[0], ends[1], exponent, 0), noise)
    assert most <= 2.0**53 * 2.0**finest


# --- a release -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def released() -> Release:
    return small_plan(EVERY, source(400)).release(source(400))


def with_scale(release: Release, times: float) -> list[str]:
    def change(certificate: dict[str, Any]) -> None:
        noise = certificate["row_noise"]
        certificate["row_noise"] = noise | {k: times * noise[k] for k in ("scale", "std")}

    return list(check(forged_claim(release, change)))


def test_the_noise_is_that_of_the_budget_but_for_a_millionth(released: Release) -> None:
    told = ["certificate: the noise is not that of the budget"]
    assert not list(check(released))
    for by, lines in ((0.8e-6, []), (1.6e-6, told), (-1.6e-6, told)):
        assert with_scale(released, 1 + by) == lines


def test_labels_are_as_many_as_rows_and_the_intercept_is_the_features(released: Release) -> None:
    other = forged_claim(released, lambda c: c.update(rows=401))
    assert "certificate: 400 labels are not those of 401 rows" in list(check(other))
    other = forged_claim(released, lambda c: c.update(constant_in_span=False))
    told = "features.json and the certificate differ on whether there is an intercept"
    assert list(check(other)) == [told]


def test_another_table_is_told_from_that_of_the_release(released: Release) -> None:
    engine = LocalEngine(1)
    assert not list(check_features(released, source(400), engine))
    assert list(check_features(released, source(399), engine)) == [
        "the table has 399 rows, the certificate says 400"
    ]
    assert list(check_features(released, source(400, seed=5), engine)) == [
        "the table's features are not those of the release"
    ]
