"""Other accountants take our guarantees, and find no less than we do."""

from __future__ import annotations

import pytest

from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.compose import compose
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import PrivacyProfile, SubsampledProfile
from labeldp.accounting.radial import LaplaceProfile, RadialProfile
from tests.extras import extra
from tests.oracles.pure import PureProfile

LAWS: dict[str, PrivacyProfile] = {
    "gaussian": GaussianProfile(0.4),
    "large gaussian": GaussianProfile(2.0),
    "pure": PureProfile(0.7),
    "laplace": LaplaceProfile(0.7),
    "radial": RadialProfile(0.7, 5),
    "over a draw": SubsampledProfile(GaussianProfile(0.4), 0.3),
    "radial and laplace": compose([RadialProfile(0.5, 5), LaplaceProfile(0.1)]),
}


def test_dp_accounting_composes_our_mu_or_a_point_of_our_curve() -> None:
    pld = extra("dp_accounting.pld.privacy_loss_distribution")
    parameters = extra("dp_accounting.pld.common").DifferentialPrivacyParameters
    theirs = pld.from_gaussian_mechanism(1 / 0.3, value_discretization_interval=1e-4)
    ours = epsilon_at(GaussianProfile(0.5), 1e-6)
    together = pld.from_gaussian_mechanism(1 / 0.4, value_discretization_interval=1e-4)
    assert 0 <= together.compose(theirs).get_epsilon_for_delta(1e-6) - ours <= 1e-4
    point = parameters(1.5, GaussianProfile(0.4).delta(1.5).upper)
    together = pld.from_privacy_parameters(point, value_discretization_interval=1e-4)
    assert together.compose(theirs).get_epsilon_for_delta(1e-3) >= epsilon_at(
        GaussianProfile(0.5), 1e-3
    )


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_opendp_finds_our_epsilon_or_a_little_more(law: PrivacyProfile) -> None:
    """From the curve as a privacy profile; the package is large, so only the slow tests have it."""
    opendp = extra("opendp.prelude")
    opendp.enable_features("contrib", "honest-but-curious")
    profile = opendp.new_privacy_profile(lambda epsilon: law.delta(epsilon).upper)
    for delta in (1e-3, 1e-6, 1e-9):
        assert -1e-9 <= profile.epsilon(delta) - epsilon_at(law, delta) <= 1e-4
