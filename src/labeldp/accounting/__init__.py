"""What a release costs: δ for ε, ε for δ, and how many bags a budget buys.

    bounds     Bounds(lower, estimate, upper): the shape of a numerical answer
    contour    δ(ε) of any product of sketches and Gaussians by one contour integral
    sketch     the law of one neighbour, and a second method for its δ(ε)
    family     the sup of δ(ε) over every neighbour the public facts allow, certified
    gaussian   the Gaussian mechanism
    wtd_flag   the exact accountant's questions and answers for wtd-FLAg
    sampled_wtd_flag  the same for sampled-wtd-FLAg: one aggregate from each of many bags
    random_mu  the Gaussian mechanism's mean δ(ε) when its μ is random
    noisy_wtd_lag     the exact accountant for sampled-noisy-wtd-LAg
    floor      where the residual floor comes from
    paper      the paper's Theorem 1 as printed
    paper_bags its Theorems 2 and 3
    accountants  paper, exact-worst-case and exact under one interface

`gaussian`, the mechanisms and the paper's theorems are used by their module name.
"""

from labeldp.accounting import (
    gaussian,
    noisy_wtd_lag,
    paper,
    paper_bags,
    sampled_wtd_flag,
    wtd_flag,
)
from labeldp.accounting.accountants import ACCOUNTANTS, Accountant, Answer
from labeldp.accounting.bounds import Bounds
from labeldp.accounting.family import SketchFamily, residual_cosine
from labeldp.accounting.floor import (
    FloorMode,
    Measurement,
    added_variance,
    default_measurement,
)
from labeldp.accounting.wtd_flag import Facts, best_true_positive_rate

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "Answer",
    "Bounds",
    "Facts",
    "FloorMode",
    "Measurement",
    "SketchFamily",
    "added_variance",
    "best_true_positive_rate",
    "default_measurement",
    "gaussian",
    "noisy_wtd_lag",
    "paper",
    "paper_bags",
    "residual_cosine",
    "sampled_wtd_flag",
    "wtd_flag",
]
