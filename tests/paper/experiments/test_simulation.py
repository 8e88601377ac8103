"""The fast simulation against slow obvious twins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from labeldp.mechanisms.forecast import excess_quantile, mean_excess
from labeldp_paper.datasets.reading import Progress
from labeldp_paper.experiments.bag_law import WorstBag, sampled_epsilon, worst_bags
from labeldp_paper.experiments.design import Design, least_squares, rank, solve
from labeldp_paper.experiments.figures import Covariance, bartlett
from labeldp_paper.experiments.run import Run


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory, quiet: Progress) -> Design:
    run = Run(tmp_path_factory.mktemp("design"), quiet, small=True)
    return Design.read(run.data("criteo", 2_000))


def dense(design: Design, rows: np.ndarray) -> np.ndarray:
    made = np.zeros((len(rows), design.width))
    made[:, 0] = 1.0
    made[:, list(design.features.number_columns)] = design.numbers[rows]
    for column in range(design.codes.shape[1]):
        made[np.arange(len(rows)), design.codes[rows, column]] = 1.0
    return made


def test_sums_over_bags(design: Design) -> None:
    random = np.random.default_rng(0)
    rows, weights = random.permutation(2_000)[:600].reshape(20, 30), random.normal(size=(20, 30))
    sums, totals = design.aggregated(rows.astype(np.int32), weights)
    for bag, w, z, t in zip(rows, weights, sums, totals, strict=True):
        np.testing.assert_allclose(z, w @ dense(design, bag), rtol=1e-6, atol=1e-6)
        assert t == pytest.approx(w @ design.labels[bag], rel=1e-5)


def test_gram_fit_and_error(design: Design) -> None:
    rows = np.arange(2_000, dtype=np.int32)
    gram, cross, square = design.gram()
    full, labels = dense(design, rows), design.labels.astype(float)
    np.testing.assert_allclose(gram, full.T @ full, rtol=1e-6, atol=1e-4)
    assert rank(gram) == np.linalg.matrix_rank(full)
    beta = solve(gram, cross)
    best = np.linalg.lstsq(full, labels, rcond=None)
    fitted = full @ best[0]
    _, test = design.shuffled(0)
    betas = np.column_stack([beta, 2 * beta])
    for error, b in zip(design.test_mse(betas, 0), betas.T, strict=True):
        assert error == pytest.approx(np.mean((labels[test] - full[test] @ b) ** 2), rel=1e-6)
    np.testing.assert_allclose(full @ beta, fitted, rtol=1e-4, atol=1e-3)
    law = Covariance.of(gram, cross, square, design.rows)
    assert law.residual_ms == pytest.approx(np.mean((labels - fitted) ** 2), rel=1e-6)
    np.testing.assert_allclose(full @ least_squares(full, labels), fitted, rtol=1e-4, atol=1e-3)


def test_training_and_test_rows_are_disjoint(design: Design) -> None:
    train, test = design.shuffled(3)
    assert len(train) == design.train_rows == 1_600
    assert sorted([*train, *test]) == list(range(2_000))
    assert list(train) != list(design.shuffled(4)[0])


@pytest.mark.parametrize("size", [20, 60, 200, 800])
def test_worst_bag(design: Design, size: int) -> None:
    bags = design.shuffled(0)[0][: 2 * size].reshape(2, size)
    residuals, leverages = [], []
    for bag in bags:
        full, labels = dense(design, bag), design.labels[bag].astype(float)
        hat = full @ np.linalg.pinv(full)
        residuals.append(float(np.square(labels - hat @ labels).sum()))
        leverages.append(np.diag(hat).max())
    first, both = worst_bags(design, bags, [1, 2])
    spanned = [r < 1e-6 * np.square(design.labels).sum() for r in residuals]
    assert both.spanned == sum(spanned)
    assert (size == 20) == all(spanned)
    if not any(spanned):
        assert first.residual_ss == pytest.approx(residuals[0], rel=1e-4)
        assert both.residual_ss == pytest.approx(min(residuals), rel=1e-4)
        assert both.leverage == pytest.approx(max(leverages), rel=1e-3)


def test_epsilon_of_bags() -> None:
    facts = WorstBag(40_000.0, 1.0, 0)
    found = sampled_epsilon(facts, 512, (0.0, 51.0), 1e-8)
    exact = SketchProfile(DatasetBounds(512, (0.0, 51.0)), 1, 40_000.0).delta(found["epsilon"])
    assert exact.upper <= 1e-8 < 1.05 * exact.upper
    assert (
        sampled_epsilon(replace(facts, leverage=0.1), 512, (0.0, 51.0), 1e-8)["epsilon"]
        < (found["epsilon"])
    )
    for hopeless in (replace(facts, spanned=1), replace(facts, residual_ss=2_000.0)):
        row = sampled_epsilon(hopeless, 512, (0.0, 51.0), 1e-8)
        assert row["epsilon"] is None
        assert row["reason"].startswith("no privacy: ")


def test_bartlett_has_the_law_of_a_sketch() -> None:
    """Means to five standard errors: a right sampler fails once in a million runs, with a fixed
    seed never."""
    random, trials, size, bags = np.random.default_rng(1), 4_000, 4, 9
    made = np.array([bartlett(size, bags, random) for _ in range(trials)])
    grams = np.einsum("tij,tik->tjk", made, made)
    mean = grams.mean(axis=0)
    error = 5 * np.sqrt(2 * bags / trials)
    np.testing.assert_allclose(mean, bags * np.eye(size), atol=error)
    direct = np.linalg.slogdet(grams)[1]
    normal = random.standard_normal((trials, bags, size))
    other = np.linalg.slogdet(np.einsum("tbi,tbj->tij", normal, normal))[1]
    assert stats.ks_2samp(direct, other).pvalue > 1e-4


def test_errors_have_the_closed_form_law(tmp_path: Path) -> None:
    assert tmp_path.exists()
    triangle = np.eye(6)
    triangle[:5, 5], triangle[5, 5] = 3.0, 20.0
    law = Covariance(triangle, 100)
    errors = np.array(law.errors(40, 3_000, np.random.default_rng(2)))
    excess = errors / law.residual_ms - 1
    assert excess.mean() == pytest.approx(mean_excess(5, 40), rel=0.1)
    inside = (excess > excess_quantile(5, 40, 0.05)) & (excess < excess_quantile(5, 40, 0.95))
    assert inside.mean() == pytest.approx(0.9, abs=0.03)
