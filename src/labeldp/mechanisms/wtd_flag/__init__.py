"""wtd-FLAg (Algorithm 1): m sums of all rows with secret Gaussian weights."""

from labeldp.mechanisms.wtd_flag.claim import WeightedFlagClaim, read_claim
from labeldp.mechanisms.wtd_flag.draw import Aggregates, draw_aggregates, draw_compact
from labeldp.mechanisms.wtd_flag.execute import run
from labeldp.mechanisms.wtd_flag.imagined import imagine
from labeldp.mechanisms.wtd_flag.plan import draft
from labeldp.mechanisms.wtd_flag.recheck import check, check_features

name = WeightedFlagClaim.mechanism

__all__ = [
    "Aggregates",
    "WeightedFlagClaim",
    "check",
    "check_features",
    "draft",
    "draw_aggregates",
    "draw_compact",
    "imagine",
    "name",
    "read_claim",
    "run",
]
