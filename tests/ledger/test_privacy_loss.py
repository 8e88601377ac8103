"""A privacy loss in points promises no more than the curve, and hardly less."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.compose import compose
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.radial import LaplaceProfile, RadialProfile
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from labeldp.accounting.subsampling import SubsampledProfile
from labeldp.errors import InputError
from labeldp.ledger.compose import privacy_loss
from tests.extras import extra
from tests.oracles.pure import PureProfile

FACTS = DatasetBounds(100_000, (-1.0, 1.0))
LAWS: dict[str, PrivacyProfile] = {
    "gaussian": GaussianProfile(0.4),
    "large gaussian": GaussianProfile(2.0),
    "pure": PureProfile(0.7),
    "laplace": LaplaceProfile(0.7),
    "radial": RadialProfile(0.7, 5),
    "over a draw": SubsampledProfile(GaussianProfile(0.4), 0.3),
    "radial and laplace": compose([RadialProfile(0.5, 5), LaplaceProfile(0.1)]),
}
laws = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
SKETCH = SketchProfile(FACTS, 40, 20_000.0, 0.1, 1e-7)


@laws
def test_points_are_a_law_whose_delta_is_never_below(law: PrivacyProfile) -> None:
    loss = privacy_loss(law)
    assert loss.probabilities.min() >= 0.0
    assert loss.probabilities.sum() + loss.infinite == pytest.approx(1.0, abs=1e-12)
    for epsilon in np.linspace(0.0, 3.0, 61):
        true = law.delta(float(epsilon)).estimate
        assert loss.delta(float(epsilon)) >= true * (1 - 1e-9) - 1e-16


@laws
def test_either_direction_has_the_same_curve(law: PrivacyProfile) -> None:
    """δ(−ε) = 1 − e^{−ε}(1 − δ(ε)), which a loss in points must keep to be one for both."""
    loss = privacy_loss(law)
    for epsilon in (0.1, 0.33, 0.9):
        other = 1.0 - math.exp(-epsilon) * (1.0 - loss.delta(epsilon))
        assert loss.delta(-epsilon) == pytest.approx(other, abs=1e-12)


@laws
def test_dp_accounting_finds_our_epsilon_or_a_little_more(law: PrivacyProfile) -> None:
    extra("dp_accounting")
    found = privacy_loss(law).to_pld()
    for delta in (1e-3, 1e-6, 1e-9):
        ours = epsilon_at(law, delta)
        assert -1e-9 <= found.get_epsilon_for_delta(delta) - ours <= 1e-4


def test_dp_accounting_composes_it_with_its_own() -> None:
    pld = extra("dp_accounting.pld.privacy_loss_distribution")
    theirs = pld.from_gaussian_mechanism(1 / 0.3, value_discretization_interval=1e-4)
    together = privacy_loss(GaussianProfile(0.4)).to_pld().compose(theirs)
    ours = epsilon_at(GaussianProfile(0.5), 1e-6)
    assert 0 <= together.get_epsilon_for_delta(1e-6) - ours <= 1e-4
    twice = privacy_loss(PureProfile(0.7)).to_pld().self_compose(2)
    ours = epsilon_at(compose([PureProfile(0.7)] * 2), 1e-6)
    assert -1e-9 <= twice.get_epsilon_for_delta(1e-6) - ours <= 1e-4


def test_dp_accounting_takes_a_sketch_with_its_slack() -> None:
    extra("dp_accounting")
    loss = privacy_loss(SKETCH, step=1e-3, within=9e-4)
    assert loss.infinite >= SKETCH.slack
    ours = epsilon_at(SKETCH, 1e-6)
    assert 0 <= loss.to_pld().get_epsilon_for_delta(1e-6) - ours <= 1e-3


@pytest.mark.slow
@laws
def test_opendp_finds_our_epsilon_or_a_little_more(law: PrivacyProfile) -> None:
    """From the curve as a privacy profile; the package is large, so only the slow tests have it."""
    opendp = extra("opendp.prelude")
    opendp.enable_features("contrib", "honest-but-curious")
    profile = opendp.new_privacy_profile(privacy_loss(law).delta)
    for delta in (1e-3, 1e-6, 1e-9):
        assert -1e-9 <= profile.epsilon(delta) - epsilon_at(law, delta) <= 1e-4


@pytest.mark.slow
def test_prv_accountant_bounds_our_epsilon() -> None:
    """From the distribution function of the loss; its own error, in ε and in δ, is added."""
    prv, loss, error = extra("prv_accountant"), privacy_loss(GaussianProfile(0.4)), 1e-3

    class Ours(prv.PrivacyRandomVariable):  # type: ignore[misc]
        pm_inf = loss.infinite

        def cdf(self, t: Any) -> Any:
            return np.vectorize(loss.cdf)(t)

    with pytest.warns(UserWarning, match="true epsilon"):
        accountant = prv.PRVAccountant(Ours(), error, 1e-9, 2, eps_max=6.0)
    low, found, high = accountant.compute_epsilon(1e-6, [2])
    exact = epsilon_at(compose([GaussianProfile(0.4)] * 2), 1e-6)
    assert low < found < high
    assert exact <= high
    assert found == pytest.approx(exact, abs=error)


def test_a_loss_that_is_a_little_too_small_is_below_the_curve() -> None:
    """So the test above can fail: points of a μ that is 1 % less."""
    loss, law = privacy_loss(GaussianProfile(0.396)), GaussianProfile(0.4)
    assert loss.delta(1.0) < law.delta(1.0).lower


def test_its_distribution_function_and_its_json() -> None:
    loss = privacy_loss(PureProfile(0.5))
    assert loss.losses.tolist() == pytest.approx([-0.5, 0.0, 0.5])
    assert loss.cdf(0.0) == pytest.approx(1 / (1 + math.exp(0.5)), rel=1e-9)
    document = json.loads(json.dumps(loss.to_json()))
    assert document["losses"] == loss.losses.tolist()
    assert document["infinite"] == 0.0


def test_a_curve_that_never_falls_is_refused() -> None:
    with pytest.raises(InputError, match="nothing that a loss could say"):
        privacy_loss(GaussianProfile(10.0))
