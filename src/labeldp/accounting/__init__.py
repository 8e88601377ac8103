"""What a release costs: a guarantee is a curve, and all inverse questions are asked in one file.

bounds     Bounds(lower, estimate, upper), and Answer: a number or why there is none
limits     how far the accountants look
curve      Curve: δ(ε), groups, and where to look for its limits
invert     every inverse question: ε at δ, most bags, least floor, noise, bag size
contour    δ(ε) of any product of sketches and Gaussians by one contour integral
family     the sup of δ(ε) over every neighbour the public facts allow, certified
sketch     aggregates with secret weights: wtd-FLAg, and sampled-wtd-FLAg given its bags
gaussian   the Gaussian mechanism
laplace    losses that are bounded: pure ε, and Laplace noise on one number
radial     noise of the same kind in several dimensions
random_mu  the Gaussian mechanism's mean δ(ε) when its μ is random
mixture    sampled-noisy-wtd-LAg before any draw, and the μ of weights that were drawn
draw       the same guarantees over the draw of the bags
compose    several releases of one table together
floor      where the residual floor comes from
paper      the paper's Theorem 1 as printed
paper_bags its Theorems 2 and 3
decimals   exact arithmetic for the theorems
accountants  paper, exact-worst-case and exact for wtd-FLAg

Other rooms import from this page alone.
"""

from labeldp.accounting import gaussian, invert, radial
from labeldp.accounting.accountants import ACCOUNTANTS, Accountant
from labeldp.accounting.bounds import Answer, Bounds
from labeldp.accounting.compose import Composed, compose, gaussian_mu
from labeldp.accounting.curve import Curve, Nothing, Steps, best_true_positive_rate
from labeldp.accounting.draw import BagDraw, OverDraw, membership
from labeldp.accounting.family import SketchFamily, residual_cosine
from labeldp.accounting.floor import (
    FloorMode,
    Measurement,
    added_variance,
    default_measurement,
    price,
)
from labeldp.accounting.gaussian import Gaussian, most_mu
from labeldp.accounting.laplace import Laplace, Pure
from labeldp.accounting.limits import MOST_PUBLISHED_BAGS
from labeldp.accounting.mixture import RandomWeights, realised_mu
from labeldp.accounting.paper import Theorem1
from labeldp.accounting.paper_bags import Theorem2, Theorem3
from labeldp.accounting.sketch import Bags, Facts, SizedBag, Sketch, spans_labels

__all__ = [
    "ACCOUNTANTS",
    "MOST_PUBLISHED_BAGS",
    "Accountant",
    "Answer",
    "BagDraw",
    "Bags",
    "Bounds",
    "Composed",
    "Curve",
    "Facts",
    "FloorMode",
    "Gaussian",
    "Laplace",
    "Measurement",
    "Nothing",
    "OverDraw",
    "Pure",
    "RandomWeights",
    "SizedBag",
    "Sketch",
    "SketchFamily",
    "Steps",
    "Theorem1",
    "Theorem2",
    "Theorem3",
    "added_variance",
    "best_true_positive_rate",
    "compose",
    "default_measurement",
    "gaussian",
    "gaussian_mu",
    "invert",
    "membership",
    "most_mu",
    "price",
    "radial",
    "realised_mu",
    "residual_cosine",
    "spans_labels",
]
