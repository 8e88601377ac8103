"""sampled-wtd-FLAg (Algorithm 2): one sum of each of m random bags, with secret weights."""

from labeldp.mechanisms.sampled_wtd_flag.claim import SampledFlagClaim, read_claim
from labeldp.mechanisms.sampled_wtd_flag.execute import run
from labeldp.mechanisms.sampled_wtd_flag.imagined import imagine
from labeldp.mechanisms.sampled_wtd_flag.plan import draft
from labeldp.mechanisms.sampled_wtd_flag.recheck import check, check_features

name = SampledFlagClaim.mechanism

__all__ = [
    "SampledFlagClaim",
    "check",
    "check_features",
    "draft",
    "imagine",
    "name",
    "read_claim",
    "run",
]
