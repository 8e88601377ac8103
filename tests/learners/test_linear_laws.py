"""The exact laws of theory §5, by simulation: each test accepts the law and rejects a near miss.

Seeds are fixed. Thresholds are set so that, over the choice of seed, a true law is refused with
probability below 1e-4 per comparison, and the near miss is accepted with probability below 1e-3.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, f, kstest

from labeldp.learners.linear import fit_rows
from labeldp.learners.models import LinearOptions

ROWS, REPLICATIONS = 300, 2500


def data() -> tuple[np.ndarray, np.ndarray]:
    """Features with a constant and a rare level; labels with errors of Cauchy's law."""
    rng = np.random.default_rng(11)
    X = np.column_stack(
        [np.ones(ROWS), rng.normal(5, 2, ROWS), rng.exponential(size=ROWS), rng.random(ROWS) < 0.05]
    )
    return X, X @ [1.0, 2.0, -1.0, 4.0] + rng.standard_cauchy(size=ROWS)


def intervals(design: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return value, low and high of every coefficient, a row each."""
    model = fit_rows(design, labels, None, LinearOptions(fit_intercept=False))
    return np.array([(each.value, each.low, each.high) for each in model.coefficients]).T


@cache
def simulate(bags: int, *, directly: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per replication: are the entries of Tβ̂ covered, are they by 15 % less, and the excess."""
    X, y = data()
    beta, opt = (part for part in np.linalg.lstsq(X, y, rcond=None)[:2])
    R = np.linalg.qr(np.column_stack([X, y]), mode="r")
    A = np.column_stack([X, y]) if directly else R  # WᵀA or G·R: the same law (theory §3a)
    transform = np.array([[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, -1], [1, 5, 1, 0.05]])
    inverse = np.linalg.inv(transform)  # the design T⁻¹ has the coefficients Tβ
    rng = np.random.default_rng(12 + bags)
    covered, short, excess = [], [], []
    for _ in range(REPLICATIONS):
        release = rng.normal(size=(bags, len(A))) @ A
        value, low, high = intervals(release[:, :-1] @ inverse, release[:, -1])
        miss = np.abs(transform @ beta - value)
        covered.append((low <= transform @ beta) & (transform @ beta <= high))
        short.append(miss <= 0.85 * (high - value))
        gap = R[:, :-1] @ (inverse @ value - beta)
        excess.append(float(gap @ gap) / opt[0])
    return np.array(covered), np.array(short), np.array(excess)


@pytest.mark.parametrize(("bags", "directly"), [(12, True), (6, False)])
def test_coverage_is_95_percent_and_15_percent_less_is_seen(bags: int, directly: bool) -> None:
    covered, short, _ = simulate(bags, directly=directly)
    least, most = binom.ppf([5e-5, 1 - 5e-5], REPLICATIONS, 0.95)
    for column in range(covered.shape[1]):
        assert least <= covered[:, column].sum() <= most
    if bags >= 12:  # with 2 degrees of freedom, 15 % costs too little coverage to be seen
        assert (short.sum(axis=0) < least).all()


def test_excess_follows_its_f_law_and_no_other() -> None:
    bags, d = 12, 4
    _, _, excess = simulate(bags, directly=True)

    def p_value(numerator: int, denominator: int) -> float:
        law = f(numerator, denominator, scale=numerator / denominator)
        return float(kstest(excess, law.cdf).pvalue)

    assert p_value(d, bags - d + 1) > 1e-4
    assert p_value(d, bags - d - 1) < 1e-4
    assert p_value(d, bags - d + 3) < 1e-4
    assert p_value(d - 1, bags - d + 1) < 1e-4


def test_intervals_are_exact_for_the_least_norm_fit_of_collinear_columns() -> None:
    X, y = data()
    X = np.column_stack([X, 1 - X[:, 3]])  # the other level: collinear with the constant
    beta = np.linalg.pinv(X) @ y
    R = np.linalg.qr(np.column_stack([X, y]), mode="r")
    rng = np.random.default_rng(13)
    covered = []
    for _ in range(2000):
        release = rng.normal(size=(12, len(R))) @ R
        _, low, high = intervals(release[:, :-1], release[:, -1])
        covered.append((low <= beta) & (beta <= high))
    least, most = binom.ppf([5e-5, 1 - 5e-5], 2000, 0.95)
    total = np.sum(covered, axis=0)
    assert (least <= total).all()
    assert (total <= most).all()
