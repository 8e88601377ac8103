"""noisy-rows of two classes: each is changed at random, and published as a number of that mean."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from flint import arb, ctx
from scipy.stats import binom

from labeldp import LogisticRegression, Release, plan as forecast, scan, verify
from labeldp.accounting.compose import compose
from labeldp.accounting.radial import TwoPointProfile
from labeldp.mechanisms.base import RowLabels
from labeldp.mechanisms.noisy_rows import RANDOMIZED_RESPONSE, RowNoise, least_noise
from labeldp.sampling.rounded_noise import keep_threshold, randomized_response
from labeldp.sampling.streams import Randomness
from tests.plans import plan

EPSILONS = (1e-9, 1e-3, 0.1, 1.0, 4.0, 20.0, 44.0, 100.0)


def survey(rows: int = 2000, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    x = random.normal(size=rows)
    return pa.table(
        {"x": x, "y": np.where(random.random(rows) < 1 / (1 + np.exp(-x)), "yes", "no")}
    )


def released(data: pa.Table, epsilon: float = 1.0, seed: int = 0, **options: Any) -> Release:
    source = scan(data, label="y", classes=("no", "yes"))
    made = plan(source, epsilon, 1e-6, mechanism="noisy-rows", **options)
    return made.release(source, randomness=Randomness.experiment(seed))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_odds_of_a_kept_class_are_e_to_the_epsilon_at_most(epsilon: float) -> None:
    """Exactly, by rational numbers and balls; and no threshold above it would do."""
    scale = 1 / epsilon
    threshold = keep_threshold(scale)
    kept = Fraction(threshold, 2**64)
    odds = kept / (1 - kept)
    saved, ctx.prec = ctx.prec, 400
    try:
        most = (1 / arb(scale)).exp()
        assert arb(odds.numerator) / odds.denominator <= most
        more = Fraction(threshold + 1, 2**64)
        if more < 1:
            odds = more / (1 - more)
            assert not arb(odds.numerator) / odds.denominator <= most
    finally:
        ctx.prec = saved


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("value", [False, True])
def test_classes_are_kept_as_often_as_they_should(epsilon: float, value: bool) -> None:
    """Two-sided, and one percent off would be seen."""
    rows = 4_000_000
    drawn = randomized_response(np.full(rows, value), 1 / epsilon, Randomness.experiment(1))
    kept = int((drawn == value).sum())
    chance = 1 / (1 + math.exp(-epsilon))

    def rejects(p: float) -> bool:
        return min(binom.cdf(kept, rows, p), binom.sf(kept - 1, rows, p)) < 1e-6

    assert not rejects(chance)
    assert rejects(chance + 0.01 * (1 - chance)) or epsilon == 4.0
    assert rejects(1 / (1 + math.exp(-1.01 * epsilon))) or epsilon == 0.1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 20.0])
def test_the_two_numbers_have_the_label_as_their_mean(epsilon: float) -> None:
    noise = RowNoise(RANDOMIZED_RESPONSE, 1 / epsilon)
    low, high = noise.responses
    model = released(survey(200), epsilon).label_model
    assert isinstance(model, RowLabels)
    kept = 1 / (1 + math.exp(-epsilon))
    for label, chances in ((0.0, (kept, 1 - kept)), (1.0, (1 - kept, kept))):
        values = np.array([low, high])
        mean = float(values @ chances)
        assert mean == pytest.approx(label, abs=1e-9)
        variance = float((values - mean) ** 2 @ chances)
        assert math.sqrt(variance) == pytest.approx(noise.std, rel=1e-6)
        fourth = float((values - mean) ** 4 @ chances)
        assert fourth / variance**2 == pytest.approx(model.kurtosis, rel=1e-5)
    assert all(math.fmod(each, math.ldexp(1, noise.grid)) == 0 for each in (low, high))
    assert noise.std < math.sqrt(2) / epsilon


def test_it_is_taken_for_classes_alone() -> None:
    for budget in ((1.0, 0.0), (1.0, 1e-6), (8.0, 1e-6)):
        assert least_noise(1, 1, *budget, classes=True).name == RANDOMIZED_RESPONSE
        assert least_noise(1, 1, *budget).name != RANDOMIZED_RESPONSE
    # Of very many rows of a person Gaussian noise is less, if there is a δ for it.
    assert least_noise(1, 10_000, 1.0, 1e-6, classes=True).name == "gaussian"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_profile_is_that_of_the_law(count: int) -> None:
    """Of one label exactly, of several released together from above, by all outcomes."""
    unit = 0.6
    kept = 1 / (1 + math.exp(-unit))
    curve = compose([TwoPointProfile(unit)] * count)
    grouped = TwoPointProfile(unit).group(count)
    for epsilon in (0.0, 0.3, 0.6, 1.0, 1.5, 1.8):
        true = 0.0
        for outcome in product((True, False), repeat=count):
            here = math.prod(kept if each else 1 - kept for each in outcome)
            there = math.prod(1 - kept if each else kept for each in outcome)
            true += max(0.0, here - math.exp(epsilon) * there)
        bounds = curve.delta(epsilon)
        assert bounds.upper >= true - 1e-15
        assert bounds.upper == pytest.approx(true, abs=1e-8)
        assert grouped.delta(epsilon).upper >= true - 1e-15
    assert (
        TwoPointProfile(unit).delta(0.3).upper < 1.001 * TwoPointProfile(unit).delta(0.3).estimate
    )
    assert TwoPointProfile(0.5).delta(0.3).upper < kept - math.exp(0.3) * (1 - kept)


def test_a_release_changes_classes_by_the_odds_of_its_claim() -> None:
    """The same words: a hundredth less of change would keep another of so many labels."""
    data = survey(20_000)
    release, noise = released(data, 1.0, 7), RowNoise(RANDOMIZED_RESPONSE, 1.0)
    truth = np.array(data["y"].to_pylist()) == "yes"
    kept = randomized_response(truth, 1.0, Randomness.experiment(7))
    assert (release.labels == np.where(kept, noise.responses[1], noise.responses[0])).all()


def test_neighbours_differ_by_the_odds() -> None:
    """One label of a table is changed: how often its row shows the second number."""
    data, draws = survey(40), 400
    other = data.to_pandas()
    other.loc[3, "y"] = "yes" if other.loc[3, "y"] == "no" else "no"
    seen = []
    for table in (data, pa.Table.from_pandas(other)):
        releases = [released(table, 1.0, seed) for seed in range(draws)]
        seen.append(sum(each.labels[3] > 0.5 for each in releases))
    share = sorted(count / draws for count in seen)
    kept = 1 / (1 + math.exp(-1))
    assert share == pytest.approx([1 - kept, kept], abs=5 * math.sqrt(kept * (1 - kept) / draws))


def test_a_release_is_pure_verifies_and_says_what_it_is(tmp_path: Path) -> None:
    data = survey()
    source = scan(data, label="y", classes=("no", "yes"))
    made = forecast(source, 1.0, 1e-6, mechanism="noisy-rows")
    assert made.claim.delta == 0
    assert "randomized-response" in json.dumps(made.to_json())
    release = made.release(source, directory=tmp_path / "published")
    low, high = made.claim.noise.responses  # type: ignore[attr-defined]
    assert set(release.labels.tolist()) == {low, high}
    checked = verify(tmp_path / "published", data)
    assert not checked.problems
    assert "changed at random" in str(checked)
    assert release.certificate["numerics"]["aggregate_labels"].startswith("randomized response")


def test_a_training_frame_has_the_labels_as_means() -> None:
    data = survey(20_000)
    release = released(data, 2.0)
    _, labels = release.training_frame(data)
    yes = np.mean(np.array(data["y"]) == "yes")
    error = release.certificate["row_noise"]["std"] / math.sqrt(len(labels))
    assert abs(labels.mean() - yes) < 4 * error


def test_fits_know_it() -> None:
    data = survey(20_000)
    model = LogisticRegression().fit(released(data, 2.0), data)
    slope = model.coefficients_[1]
    assert abs(slope.value - 1.0) < 4 * slope.total_error
    assert slope.total_error < 0.1


Change = Callable[[np.ndarray, tuple[float, float]], np.ndarray]
FORGERIES: dict[str, tuple[Change, str]] = {
    "labels as they are": (lambda y, _: (y > 0.5) * 1.0, "other than the two numbers"),
    "a third number": (lambda y, two: np.append(y[:-1], sum(two)), "other than the two numbers"),
    "one class": (lambda y, two: np.full(len(y), two[1]), "fewer labels of one class"),
    "few of a class": (
        lambda y, two: np.where(np.arange(len(y)) < 400, two[0], two[1]),
        "fewer labels of one class",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_other_labels_are_refused(forgery: str, tmp_path: Path) -> None:
    release = released(survey())
    noise = release.certificate["row_noise"]
    change, words = FORGERIES[forgery]
    labels = change(release.labels, RowNoise(noise["law"], noise["scale"]).responses)
    table = release.table.set_column(1, release.table.schema.field(1), pa.array(labels))
    Release(table, release.features, release.certificate, release.files).save(tmp_path / "forged")
    assert words in " ".join(verify(tmp_path / "forged").problems)


@pytest.mark.parametrize(
    "change",
    [
        lambda certificate: certificate["row_noise"].update(scale=0.9),
        lambda certificate: certificate["row_noise"].update(law="laplace"),
        lambda certificate: certificate["labels"].pop("classes"),
    ],
)
def test_another_law_than_the_budgets_is_refused(
    change: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    release = released(survey())
    certificate = json.loads(json.dumps(release.certificate))
    change(certificate)
    Release(release.table, release.features, certificate, release.files).save(tmp_path / "forged")
    assert "not that of the budget" in " ".join(verify(tmp_path / "forged").problems)
