"""Several releases of different rows, fitted together (theory §9)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from labeldp import InputError, LinearRegressor, Release, scan
from labeldp.learners.normal_equations import NoisyNormalEquations, NoisyValue, pool
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.plans import plan
from tests.tables import RANGE, table

PLAIN: dict[str, Any] = {"shrink": False, "clip": False}


def part(number: int, rows: int = 700) -> pa.Table:
    return table(rows, seed=number)


@cache
def released(number: int, epsilon: float = 1e4, seed: int = 0, rows: int = 700) -> Release:
    source = scan(part(number, rows), label="label", label_range=RANGE)
    made = plan(source, epsilon=epsilon, delta=1e-5, mechanism="shaped-flag")
    return made.release(source, randomness=Randomness.experiment(seed))


class Table:
    """Rows, and what a release without noise would show."""

    def __init__(self, seed: int, rows: int, beta: np.ndarray, noise: float) -> None:
        self.random = np.random.default_rng(seed)
        self.X = np.column_stack([np.ones(rows), self.random.normal(size=(rows, len(beta) - 1))])
        self.y = self.X @ beta + self.random.normal(size=rows)
        inside, self.root = np.linalg.qr(self.X)
        self.b = inside.T @ self.y
        self.spread = noise * self.random.normal(size=(len(beta), len(beta)))
        self.left = float(self.y @ self.y - self.b @ self.b)

    def drawn(self, *, residual: bool = True) -> NoisyNormalEquations:
        estimate = self.b + self.spread @ self.random.normal(size=len(self.b))
        left = NoisyValue(self.left, 0.0) if residual else None
        return NoisyNormalEquations(self.root, estimate, self.spread, 0, len(self.y), left)


@given(st.integers(0, 1000), st.integers(2, 4))
@settings(max_examples=20)
def test_without_noise_they_are_one_table(seed: int, count: int) -> None:
    """And rows count alike, whichever release they are in."""
    tables = [Table(seed + k, 60 + 40 * k, np.array([1.0, 2.0, -1.0]), 1e-6) for k in range(count)]
    white = pool([each.drawn() for each in tables])
    X, y = np.concatenate([t.X for t in tables]), np.concatenate([t.y for t in tables])
    expected, left, _, _ = np.linalg.lstsq(X, y)
    assert np.linalg.lstsq(white.root, white.estimate)[0] == pytest.approx(expected, abs=1e-4)
    assert white.root.T @ white.root == pytest.approx(X.T @ X)
    assert white.residual_ss is not None
    assert white.residual_ss.value == pytest.approx(float(left[0]), rel=1e-4)
    assert white.rows == len(y)


def test_noise_weighs_and_is_told_exactly() -> None:
    """The law of the estimate is what it says, and a very noisy release does no harm."""
    beta = np.array([1.0, 2.0, -1.0])
    good, bad = Table(1, 200, beta, 1.0), Table(2, 200, beta, 300.0)
    draws = [pool([good.drawn(), bad.drawn()]) for _ in range(800)]
    told = draws[0]
    noise = told.spread @ told.spread.T
    seen = np.cov(np.array([each.estimate for each in draws]).T)
    assert seen == pytest.approx(noise, abs=0.2 * np.abs(noise).max())
    alone = good.drawn()
    one = np.linalg.inv(alone.root) @ alone.spread
    two = np.linalg.inv(told.root) @ told.spread
    assert np.sum(two**2) < 1.05 * np.sum(one**2)
    added = np.linalg.solve(told.root.T, good.root.T @ good.spread), bad.root.T @ bad.spread
    assert np.sum(np.linalg.solve(told.root.T, added[1]) ** 2) > 10 * np.sum(told.spread**2)


def test_two_days_are_one_table() -> None:
    """Encodings differ in centre, scale and base level; columns are those of the first."""
    model = LinearRegressor(**PLAIN).fit([released(1), released(2)])
    assert released(1).features.numeric != released(2).features.numeric
    assert released(1).features.names != released(2).features.names
    rows = pa.concat_tables([part(1), part(2)])
    design = released(1).features.design(rows)
    best = np.linalg.lstsq(design, rows["label"].to_numpy())[0]
    assert model.predict(rows) == pytest.approx(design @ best, abs=0.02)
    assert [release["rows"] for release in model.releases_] == [700, 700]
    assert model.features_.rows == 1400
    small = LinearRegressor(columns=["height"], **PLAIN).fit([released(1), released(2)])
    assert len(small.coef_) == 2


def test_missing_values_and_winsorised_ends_may_differ() -> None:
    """A number that is missing has an effect of its own, whatever it is filled with."""
    parts = []
    for number in (1, 2):
        rows = part(number)
        moved = [x + 60 - 30 * number for x in rows["height"].to_pylist()]
        heights = [None if k % 7 == number else x for k, x in enumerate(moved)]
        parts.append(rows.set_column(0, "height", [heights]))
    releases = []
    for rows in parts:
        source = scan(rows, label="label", label_range=RANGE)
        made = plan(source, epsilon=1e4, delta=1e-5, mechanism="shaped-flag", winsor=0.01)
        releases.append(made.release(source, randomness=Randomness.experiment(1)))
    ends = [release.features.numeric[0] for release in releases]
    assert ends[0].imputed > ends[1].imputed + 20
    assert ends[0].low > ends[1].low + 20
    model = LinearRegressor(**PLAIN).fit(releases)
    wide = model.features_.numeric[0]
    assert (wide.low, wide.high) == (min(e.low for e in ends), max(e.high for e in ends))
    rows = pa.concat_tables(parts)
    design = model.features_.design(rows)
    best = np.linalg.lstsq(design, rows["label"].to_numpy())[0]
    assert model.predict(rows) == pytest.approx(design @ best, abs=0.03)


def release_of(rows: pa.Table, mechanism: str = "shaped-flag", **options: Any) -> Release:
    source = scan(rows, label="label", label_range=RANGE)
    return plan(source, 1.0, 1e-5, mechanism=mechanism, **options).release(source)


def test_what_does_not_go_together_is_refused() -> None:
    certificate = released(2).certificate
    renamed = certificate | {"labels": certificate["labels"] | {"column": "pay"}}
    towns = pa.array([name.as_py().upper() for name in part(4)["town"]])
    heights = [None if place < 9 else x for place, x in enumerate(part(5)["height"].to_pylist())]
    for other, message in (
        (released(1, 1e4, 5), "of the same rows"),
        (release_of(part(3).drop_columns(["score"])), "they differ in their label, in columns"),
        (release_of(part(3), "wtd-flag", bags=40), "not of sums with public weights"),
        (replace(released(2), certificate=renamed), "they differ in their label, in columns"),
        (
            release_of(part(4).set_column(3, "town", towns)),
            "they differ in their label, in columns",
        ),
        (
            release_of(part(5).set_column(0, "height", [heights])),
            "they differ in their label, in columns",
        ),
    ):
        with pytest.raises(InputError, match=message):
            LinearRegressor().fit([released(1), other])


def test_the_command_line_takes_several(tmp_path: Path) -> None:
    for number in (1, 2):
        released(number).save(tmp_path / str(number))
    told = labeldp("fit", tmp_path / "1", tmp_path / "2", "--json")
    assert told.code == 0, told.err
    python = LinearRegressor().fit([released(1), released(2)])
    assert [entry["value"] for entry in told.json["coefficients"]] == [
        entry.value for entry in python.coefficients_
    ]
    assert [release["rows"] for release in told.json["releases"]] == [700, 700]
    assert "of the same rows" in labeldp("fit", tmp_path / "1", tmp_path / "1").error
