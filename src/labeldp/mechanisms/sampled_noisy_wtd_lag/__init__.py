"""sampled-noisy-wtd-LAg (Algorithm 3): noisy weighted sums of the labels of m random bags."""

from labeldp.mechanisms.sampled_noisy_wtd_lag.claim import NoisyLagClaim, read_claim
from labeldp.mechanisms.sampled_noisy_wtd_lag.execute import run
from labeldp.mechanisms.sampled_noisy_wtd_lag.imagined import imagine
from labeldp.mechanisms.sampled_noisy_wtd_lag.plan import draft
from labeldp.mechanisms.sampled_noisy_wtd_lag.recheck import check, check_features

name = NoisyLagClaim.mechanism

__all__ = [
    "NoisyLagClaim",
    "check",
    "check_features",
    "draft",
    "imagine",
    "name",
    "read_claim",
    "run",
]
