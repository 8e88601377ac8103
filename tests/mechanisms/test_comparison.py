"""What `plan --mechanism auto` forecasts is what releases then give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import InputError, LinearRegressor, PlanError, scan
from labeldp._random import Randomness
from labeldp.engines import LocalEngine
from labeldp.mechanisms import mechanism_named, mechanism_names
from labeldp.mechanisms.comparison import compare, simulated_mse
from labeldp.planning import Plan, plan
from labeldp.source import Source
from tests.mechanisms.cases import FLAG, NOISY, SAMPLED, SHAPED
from tests.tables import source

ROWS, VARIANCE, RANGE = 900, 4.0, (-20.0, 20.0)
ENGINE = LocalEngine(1)


def features() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.round(rng.normal(size=(ROWS, 2)), 3)


def truth() -> np.ndarray:
    return 1.0 + features() @ np.array([2.0, -1.0])


def labelled(seed: int) -> Source:
    """The same rows with fresh labels of the residual variance that the plan was told."""
    noise = math.sqrt(VARIANCE) * np.random.default_rng(seed).normal(size=ROWS)
    x = features()
    data = pa.table({"a": x[:, 0], "b": x[:, 1], "label": truth() + noise})
    return scan(data, label="label", label_range=RANGE)


def rows() -> pa.Table:
    x = features()
    return pa.table({"a": x[:, 0], "b": x[:, 1]})


def excess_of_releases(made: Plan, count: int) -> np.ndarray:
    """Mean squared distance from the truth over all rows, of real releases and real fits."""
    found = []
    for seed in range(count):
        data = labelled(seed)
        release = made.release(data, randomness=Randomness.experiment(seed))
        model = LinearRegressor()
        model.fit(release) if release.aggregates_features else model.fit(release, data)
        found.append(float(np.mean((model.predict(rows()) - truth()) ** 2)))
    return np.array(found)


def excess_of_simulations(made: Plan, count: int) -> np.ndarray:
    found = []
    for seed in range(count):
        stream = np.random.default_rng(1000 + seed)
        rehearse = mechanism_named(made.claim.mechanism).rehearse
        assert rehearse is not None
        rehearsal = rehearse(made, labelled(0), stream)
        assert rehearsal is not None
        found.append(simulated_mse(made, rehearsal, labelled(0), ENGINE, stream) - VARIANCE)
    return np.array(found)


CASES: dict[str, tuple[dict[str, Any], int]] = {
    SAMPLED: ({"bags": 30, "bag_size": 30, "floor": "added"}, 24),
    NOISY: ({"bags": 90, "bag_size": 10}, 120),
}


@pytest.mark.parametrize("mechanism", CASES)
def test_simulated_errors_are_those_of_real_releases(mechanism: str) -> None:
    """Means agree within 4.5 standard errors, and the closed form is within a third of them."""
    options, count = CASES[mechanism]
    made = plan(
        labelled(0),
        epsilon=4.0,
        delta=1e-3,
        mechanism=mechanism,
        residual_guess=VARIANCE,
        bag_seed=3,
        **options,
    )
    real, simulated = excess_of_releases(made, count), excess_of_simulations(made, 30)
    error = math.hypot(
        real.std() / math.sqrt(len(real)), simulated.std() / math.sqrt(len(simulated))
    )
    assert abs(real.mean() - simulated.mean()) < 4.5 * error
    assert error < 0.3 * real.mean(), "or this test could not fail"
    closed = made.forecast.mean_mse - VARIANCE
    assert closed == pytest.approx(simulated.mean(), rel=1 / 3)


def test_every_mechanism_makes_an_offer_and_the_best_comes_first() -> None:
    data = source(2000)
    offers = compare(data, epsilon=1.0, delta=1e-6, bags=40)
    assert {offer.mechanism for offer in offers} == set(mechanism_names())
    errors = [offer.mean_mse for offer in offers if offer.mean_mse is not None]
    assert errors == sorted(errors)
    assert len(errors) == 3
    *drawn, chosen = offers
    assert (chosen.mechanism, chosen.plan) == (SHAPED, None)
    assert "`bags` does not apply" in str(chosen.reason)
    for offer in drawn:
        assert offer.plan is not None
        assert offer.plan.claim.mechanism == offer.mechanism
        assert offer.plan.forecast.mean_mse == offer.mean_mse
        assert offer.method == ("closed form" if offer.mechanism == FLAG else "simulated")
    assert Plan.from_json(offers[0].plan.to_json()) == offers[0].plan  # type: ignore[union-attr]


def test_without_a_number_of_bags_chosen_weights_are_compared_too() -> None:
    offers = compare(source(2000), epsilon=1.0, delta=1e-6)
    best, second = offers[:2]
    assert (best.mechanism, best.method, second.mechanism) == (SHAPED, "closed form", FLAG)


def test_a_mechanism_without_an_offer_says_why() -> None:
    offers = compare(source(2000), epsilon=1.0, delta=1e-6, bags=900)
    reasons = {offer.mechanism: offer.reason for offer in offers}
    assert reasons[FLAG] is None
    assert "no size of bags" in str(reasons[SAMPLED])
    assert offers[-1].to_json()["mean_mse"] is None
    with pytest.raises(PlanError, match="no mechanism has an offer"):
        compare(source(60), epsilon=1e-3, delta=1e-9, bags=100, accountant="paper")


def test_choices_of_one_mechanism_are_refused() -> None:
    with pytest.raises(InputError, match="`bag_size` does not apply to auto"):
        compare(source(400), epsilon=1.0, delta=1e-6, bag_size=10)
