"""A privacy loss for dp_accounting promises no more than the profile, and hardly less."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.compose import compose
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import Bounds, PrivacyProfile, SubsampledProfile
from labeldp.accounting.radial import LaplaceProfile, RadialProfile
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from labeldp.errors import MissingExtraError
from labeldp.ledger.compose import ONE_ROW, Joint
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


def loss_distribution(law: PrivacyProfile, step: float = 1e-4) -> Any:
    return Joint(law, ONE_ROW, ()).to_pld(step)


SKETCH = SketchProfile(FACTS, 40, 20_000.0, 0.1, 1e-7)


@laws
def test_its_delta_is_never_below(law: PrivacyProfile) -> None:
    extra("dp_accounting")
    loss = loss_distribution(law)
    for epsilon in np.linspace(0.0, 3.0, 61):
        true = law.delta(float(epsilon)).estimate
        assert loss.get_delta_for_epsilon(float(epsilon)) >= true * (1 - 1e-9) - 1e-16


def test_points_are_upper_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    extra("dp_accounting")
    law, close = GaussianProfile(0.4), GaussianProfile.delta

    def loose(self: GaussianProfile, epsilon: float, **asked: bool) -> Bounds:
        bounds = close(self, epsilon, **asked)
        return Bounds(bounds.lower, bounds.estimate, 1.5 * bounds.upper)

    monkeypatch.setattr(GaussianProfile, "delta", loose)
    loss = loss_distribution(law)
    for epsilon in (0.1, 0.5, 1.0):
        assert loss.get_delta_for_epsilon(epsilon) >= law.delta(epsilon).upper * (1 - 1e-9)


@laws
def test_either_direction_has_the_same_curve(law: PrivacyProfile) -> None:
    """δ(−ε) = 1 − e^{−ε}(1 − δ(ε)), which a loss in points must keep to be one for both.

    It may be above: where bounds bend the other way dp_accounting takes no probability below zero.
    """
    extra("dp_accounting")
    loss = loss_distribution(law)
    for epsilon in (0.1, 0.33, 0.9):
        other = 1.0 - math.exp(-epsilon) * (1.0 - loss.get_delta_for_epsilon(epsilon))
        assert -1e-12 <= loss.get_delta_for_epsilon(-epsilon) - other <= 5e-3


@laws
def test_dp_accounting_finds_our_epsilon_or_a_little_more(law: PrivacyProfile) -> None:
    extra("dp_accounting")
    found = loss_distribution(law)
    for delta in (1e-3, 1e-6, 1e-9):
        ours = epsilon_at(law, delta)
        assert -1e-9 <= found.get_epsilon_for_delta(delta) - ours <= 1e-4


def test_dp_accounting_composes_it_with_its_own() -> None:
    pld = extra("dp_accounting.pld.privacy_loss_distribution")
    theirs = pld.from_gaussian_mechanism(1 / 0.3, value_discretization_interval=1e-4)
    together = loss_distribution(GaussianProfile(0.4)).compose(theirs)
    ours = epsilon_at(GaussianProfile(0.5), 1e-6)
    assert 0 <= together.get_epsilon_for_delta(1e-6) - ours <= 1e-4
    twice = loss_distribution(PureProfile(0.7)).self_compose(2)
    ours = epsilon_at(compose([PureProfile(0.7)] * 2), 1e-6)
    assert -1e-9 <= twice.get_epsilon_for_delta(1e-6) - ours <= 1e-4


def test_dp_accounting_takes_a_sketch_with_its_slack() -> None:
    extra("dp_accounting")
    loss = loss_distribution(SKETCH, step=1e-3)
    assert loss.get_delta_for_epsilon(60.0) >= SKETCH.slack
    ours = epsilon_at(SKETCH, 1e-6)
    assert 0 <= loss.get_epsilon_for_delta(1e-6) - ours <= 1e-3


def test_a_loss_that_is_a_little_too_small_is_below_the_curve() -> None:
    """So the test above can fail: points of a μ that is 1 % less."""
    extra("dp_accounting")
    loss, law = loss_distribution(GaussianProfile(0.396)), GaussianProfile(0.4)
    assert loss.get_delta_for_epsilon(1.0) < law.delta(1.0).lower


def test_a_curve_that_hardly_falls_is_still_a_bound() -> None:
    extra("dp_accounting")
    loss, law = loss_distribution(GaussianProfile(10.0)), GaussianProfile(10.0)
    for epsilon in (1.0, 50.0, 100.0):
        assert loss.get_delta_for_epsilon(epsilon) >= law.delta(epsilon).estimate * (1 - 1e-9)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'labeldp\[accountants\]'"):
        loss_distribution(GaussianProfile(0.4))
