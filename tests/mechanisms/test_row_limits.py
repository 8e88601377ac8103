"""Noisy rows at their limits: what noise a budget asks for, and which labels it cannot make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest

from labeldp import InputError, Release, plan
from labeldp.mechanisms.noisy_rows import (
    NoisyRows,
    NoisyRowsClaim,
    RowNoise,
    least_noise,
    needed_noise as needed,
)
from labeldp.passes.engine import LocalEngine
from tests.mechanisms.cases import EVERY, forged_claim, small_plan
from tests.tables import source, table

check, check_features = NoisyRows().check, NoisyRows().check_features
_check_row_numbers = NoisyRows()._check_row_numbers


def claim(rows: int = 100, law: str = "laplace", scale: float = 4.0) -> NoisyRowsClaim:
    return NoisyRowsClaim(
        accountant="exact",
        epsilon=1.0,
        delta=1e-5,
        bags=rows,
        rows=rows,
        rank=3,
        label_range=(-2.0, 6.0),
        intercept=True,
        noise=RowNoise(law, scale),
        with_features=False,
    )


# --- which rows ----------------------------------------------------------------------------


def rows_named(numbers: list[Any], missing: str = "refused", chunks: int = 2) -> list[str]:
    column = pa.array(numbers, pa.int64())
    size = -(-len(numbers) // chunks)
    parts = [column.slice(at, size) for at in range(0, len(numbers), size)]
    table = pa.table({"row": pa.chunked_array([*parts, pa.array([], pa.int64())], pa.int64())})
    shown: Any = SimpleNamespace(
        table=table,
        certificate={"labels": {"missing": missing}},
    )
    return list(_check_row_numbers(shown))


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
        assert noise.privacy_profile(width, rows).pure_epsilon() <= epsilon
        assert noise.std == pytest.approx(noise.scale * 2**0.5, rel=1e-15)


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_gaussian_noise_is_the_least_of_its_budget_but_for_a_billionth(rows: int) -> None:
    noise = needed("gaussian", 3.0, rows, 1.0, 1e-5)
    assert noise is not None
    assert noise.privacy_profile(3.0, rows).delta(1.0).upper <= 1e-5
    less = RowNoise("gaussian", noise.scale * (1 - 4e-9))
    assert less.privacy_profile(3.0, rows).delta(1.0).lower > 1e-5
    assert noise.std == noise.scale
    assert needed("gaussian", 3.0, rows, 1.0, 0.0) is None


def test_what_is_claimed_is_never_less_than_the_move_over_the_scale() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        width, scale = (float(value) for value in rng.uniform(0.1, 3.0, 2))
        claimed = RowNoise("laplace", scale).privacy_profile(width, 3).pure_epsilon()
        with mpmath.workdps(40):
            exact = 3 * mpmath.mpf(width) / mpmath.mpf(scale)
            assert exact <= mpmath.mpf(claimed) <= exact * (1 + mpmath.mpf(2) ** -49)


def test_of_both_laws_the_one_of_less_variance_is_taken() -> None:
    assert least_noise(1.0, 1, 1.0, 0.0).name == "laplace"
    assert least_noise(1.0, 1, 1.0, 1e-5).name == "laplace"
    assert least_noise(1.0, 1000, 1.0, 1e-5).name == "gaussian"
    with pytest.raises(
        InputError, match="'laplace' or 'gaussian' or 'randomized-response', not the text"
    ):
        RowNoise("uniform", 1.0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("width", [1.0, 2.0**-20])
def test_labels_are_doubles_on_the_finer_of_both_grids(sign: int, width: float) -> None:
    """Labels and noise count fewer than 2⁵⁰ steps of the finer grid."""
    data = table(200)
    near = plan(data, label="label", label_range=(0.0, width), mechanism="noisy-rows", force=True)
    claim = near.claim
    assert isinstance(claim, NoisyRowsClaim)
    most = 2.0**50 * 2.0 ** min(near.labels.exponent, claim.noise.grid)
    for end, fine in ((most * (1 - 2.0**-10), True), (most, False)):
        ends = tuple(sorted((sign * end, sign * (end - width))))
        asked: dict[str, Any] = {"label": "label", "label_range": ends, "mechanism": "noisy-rows"}
        if fine:
            plan(data, force=True, **asked)
        else:
            with pytest.raises(InputError, match=r"is too far from 0 for its width; subtract a"):
                plan(data, force=True, **asked)


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
