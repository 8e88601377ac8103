"""The release has the law the accountant prices: both directions, no gaps, no leak beside it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from labeldp.accounting.neighbors import roots
from labeldp.data.source import scan
from labeldp.errors import PlanError
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import ExactLeastSquares, LabelCrossProducts, LabelGrid
from labeldp.features.fit import fit_features
from labeldp.mechanisms.residual_floor import AggregateLabelSampler
from labeldp.mechanisms.wtd_flag import draw_aggregates
from labeldp.passes.engine import LocalEngine
from labeldp.sampling.streams import Randomness
from tests.plans import plan
from tests.tables import RANGE, table, with_label

ROWS, BAGS, RELEASES = 60, 1000, 1500
ENGINE = LocalEngine(1)


class Sketcher:
    """Draws releases of a table; knows its exact β̂ and σ for tests."""

    def __init__(self, data: pa.Table) -> None:
        source = scan(data, label="label", label_range=RANGE)
        features = fit_features(source, min_count=1)
        self.grid = LabelGrid.for_range(RANGE, intercept=True)
        gram, moments = ENGINE.run_pass(
            "label sums", source, GramAccumulator(features), LabelCrossProducts(features, self.grid)
        )
        self.factor = verified_cholesky(gram, features)
        self.residual = ExactLeastSquares(self.factor, moments)
        self.scales = features.scales[list(self.factor.kept)]
        self.design = features.keep(self.factor.kept).design(data)
        self.labels = data["label"].to_numpy()
        self.beta = np.linalg.lstsq(self.design, self.labels, rcond=None)[0]
        self.sigma = float(np.linalg.norm(self.labels - self.design @ self.beta))

    def draw(
        self, bags: int, seed: int, added: float = 0.0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        chunks = draw_aggregates(
            self.factor,
            AggregateLabelSampler(self.residual, self.grid, added, True),
            bags,
            math.floor(math.log2(self.sigma)) - 10,
            Randomness.experiment(seed),
        )
        features, labels = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        return features * self.scales, labels

    def log_likelihood(
        self, features: NDArray[np.float64], labels: NDArray[np.float64], added: float = 0.0
    ) -> NDArray[np.float64]:
        """Of every release of BAGS rows, one after the other."""
        std = math.sqrt(self.sigma**2 + added)
        z = ((labels - features @ self.beta) / std).reshape(-1, BAGS)
        return -0.5 * np.square(z).sum(axis=1) - BAGS * math.log(std)


def neighbours() -> tuple[Sketcher, Sketcher, int]:
    data = table(ROWS, seed=3)
    row = int(np.argmax(np.abs(data["label"].to_numpy() - 5)))
    other = with_label(data, row, 0.0 if data["label"][row].as_py() > 5 else 10.0)
    return Sketcher(data), Sketcher(other), row


def loss_samples(
    base: Sketcher, other: Sketcher, added: float, mistakes: tuple[float, ...]
) -> list[NDArray[np.float64]]:
    """Log-likelihood ratios of releases whose deviation is a `mistake` times the right one.

    Aggregates are independent: many releases are drawn as one, and cut.
    """
    features, labels = base.draw(RELEASES * BAGS, 0, added)
    mean = features @ base.beta
    shown = [mean + mistake * (labels - mean) for mistake in mistakes]
    return [
        base.log_likelihood(features, each, added) - other.log_likelihood(features, each, added)
        for each in shown
    ]


def exact_losses(base: Sketcher, other: Sketcher, row: int, added: float) -> NDArray[np.float64]:
    """Samples of κ + αG1 − βG2 from u and v of theory 3b: nothing of the release is used."""
    sigma = math.sqrt(base.sigma**2 + added)
    tau = float(other.labels[row] - base.labels[row]) / sigma
    residuals = base.labels - base.design @ base.beta
    hat = base.design @ np.linalg.pinv(base.design)
    u, v = roots(abs(tau), math.copysign(1, tau) * residuals[row] / sigma, hat[row, row])
    rng = np.random.default_rng(99)
    g1, g2 = rng.gamma(BAGS / 2, size=(2, 200_000))
    kappa = BAGS / 2 * (math.log1p(u) + math.log1p(-v))
    return np.asarray(kappa + v / (1 - v) * g1 - u / (1 + u) * g2)


@pytest.mark.parametrize("added", [0.0, 30.0])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_log_likelihood_ratios_have_the_exact_law(direction: str, added: float) -> None:
    """KS accepts the release (p > 1e-4) and rejects one whose σ is 1 % off (p < 1e-4)."""
    first, second, row = neighbours()
    base, other = (first, second) if direction == "forward" else (second, first)
    expected = exact_losses(base, other, row, added)
    seen, wrong = loss_samples(base, other, added, (1.0, 1.01))
    assert stats.ks_2samp(seen, expected).pvalue > 1e-4
    assert stats.ks_2samp(wrong, expected).pvalue < 1e-4


def test_g_times_r_has_the_law_of_direct_aggregation() -> None:
    """Mahalanobis distances and label residuals of WᵀA and of our release: KS on 20,000 rows."""
    ours = Sketcher(table(ROWS, seed=3))
    features, labels = ours.draw(20_000, seed=1)
    weights = np.random.default_rng(7).normal(size=(20_000, ROWS))
    direct_features, direct_labels = weights @ ours.design, weights @ ours.labels
    whiten = np.linalg.inv(np.linalg.cholesky(ours.design.T @ ours.design)).T
    residual, direct_residual = (
        labels - features @ ours.beta,
        direct_labels - direct_features @ ours.beta,
    )
    white, direct_white = features @ whiten, direct_features @ whiten
    pairs = {
        "distance": (np.linalg.norm(white, axis=1), np.linalg.norm(direct_white, axis=1)),
        "residual": (residual, direct_residual),
        "label": (labels, direct_labels),
        "product": (white[:, 1] * residual, direct_white[:, 1] * direct_residual),
        "corner": (white[:, 0] * white[:, -1], direct_white[:, 0] * direct_white[:, -1]),
    }
    for name, (a, b) in pairs.items():
        assert stats.ks_2samp(a, b).pvalue > 1e-4, name
        assert stats.ks_2samp(1.15 * a, b).pvalue < 1e-4, name


def reachable(
    labels: NDArray[np.float64], means: NDArray[np.float64], std: float, step: float | None
) -> NDArray[np.bool_]:
    """Which labels round(mean + std·g) can be for some double g, by trying doubles near (t−m)/s.

    This is the attack: with unprotected floats many doubles are not of the form
    fl(mean + fl(std·g)), and which ones are not depends on the labels.
    """
    found = np.zeros(len(labels), dtype=bool)
    guess = (labels - means) / std
    for shift in range(-40, 41):
        g = guess + shift * np.spacing(guess)
        value = means + std * g
        if step is not None:
            value = np.rint(value / step) * step
        found |= value == labels
    return found


def test_no_published_row_is_impossible_under_the_neighbour() -> None:
    """0 of 1e5 rows, where the same number of unprotected rows gives the neighbours away."""
    base, other, _ = neighbours()
    features, labels = base.draw(100_000, seed=5)
    step = 2.0 ** (math.floor(math.log2(base.sigma)) - 10)
    assert np.array_equal(labels / step, np.rint(labels / step))
    for hypothesis in (base, other):
        assert reachable(labels, features @ hypothesis.beta, hypothesis.sigma, step).all()
    normals = np.random.default_rng(0).normal(size=100_000)
    naked = features @ base.beta + base.sigma * normals
    assert reachable(naked, features @ base.beta, base.sigma, None).all()
    impossible = ~reachable(naked, features @ other.beta, other.sigma, None)
    assert impossible.mean() > 0.02


def test_neighbours_with_the_same_randomness_differ_in_the_label_column_alone() -> None:
    data = table(3000, seed=1)
    other = with_label(data, 17, 0.0)
    releases = []
    for labelled in (data, other):
        source = scan(labelled, label="label", label_range=RANGE)
        made = plan(source, epsilon=1, delta=1e-6, bags=500)
        releases.append((made, made.release(source, randomness=Randomness.experiment(4))))
    (plan1, first), (plan2, second) = releases
    assert plan1.to_json() == plan2.to_json()
    assert first.features == second.features
    assert np.array_equal(first.design, second.design)
    assert not np.array_equal(first.labels, second.labels)
    private = {"measured", "lower_bound", "added_variance"}
    shown = [dict(release.certificate) for release in (first, second)]
    for fields in shown:
        fields["floor"] = {k: v for k, v in fields["floor"].items() if k not in private}
        fields["digests"] = {k: v for k, v in fields["digests"].items() if k != "aggregates"}
        del fields["seal"]
    assert shown[0] == shown[1]


def test_a_plan_does_not_look_at_labels() -> None:
    data = table(2000)
    absurd = data.set_column(4, "label", pa.array(np.full(2000, 1e9)))
    plans = [
        plan(scan(labelled, label="label", label_range=RANGE), epsilon=1, delta=1e-6).to_json()
        for labelled in (data, absurd)
    ]
    assert plans[0] == plans[1]


def test_a_plan_is_not_released_with_another_label_range() -> None:
    data = table(2000)
    made = plan(scan(data, label="label", label_range=RANGE), epsilon=1, delta=1e-6, bags=50)
    wider = scan(data, label="label", label_range=(0.0, 51.0))
    with pytest.raises(PlanError, match="from 0 to 10"):
        made.release(wider)
