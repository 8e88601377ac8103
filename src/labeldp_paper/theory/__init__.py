"""The paper's lemmas and utility statements as numbers: what they promise, and when nothing.

    tails     concentration bounds: matrix Chernoff, Hoeffding, Hanson–Wright
    deviation what two Gaussians that differ little give away
    spanned   Appendix D: labels in the column space of the features are not private
    utility   the utility parts of Theorems 1, 2 and 3 with explicit constants
    neural    output and Lipschitz bounds of networks with bounded layers
    earlier   how many bags Theorem 1 and an earlier bound allow on the same release

Nothing here is needed for a release: exact laws (`labeldp.accounting`) and forecasts
(`labeldp.mechanisms`) are. These are for comparison. Every probability is kept as a
logarithm; a bound that is not below 1 is called vacuous.
"""

from labeldp_paper.theory.deviation import gaussian_deviation, gaussian_deviation_epsilon
from labeldp_paper.theory.earlier import (
    random_projection_max_bags,
    residual_from_singular_value,
    theorem1_bags,
)
from labeldp_paper.theory.neural import NeuralClass
from labeldp_paper.theory.spanned import labels_changed, spanned_gap
from labeldp_paper.theory.tails import (
    HANSON_WRIGHT,
    Tail,
    gaussian_squares_tail,
    hanson_wright_tail,
    hoeffding_tail,
    matrix_chernoff_tail,
    normal_tail,
    union,
)
from labeldp_paper.theory.utility import (
    Utility,
    covering_number,
    theorem1_utility,
    theorem2_utility,
    theorem3_utility,
)

__all__ = [
    "HANSON_WRIGHT",
    "NeuralClass",
    "Tail",
    "Utility",
    "covering_number",
    "gaussian_deviation",
    "gaussian_deviation_epsilon",
    "gaussian_squares_tail",
    "hanson_wright_tail",
    "hoeffding_tail",
    "labels_changed",
    "matrix_chernoff_tail",
    "normal_tail",
    "random_projection_max_bags",
    "residual_from_singular_value",
    "spanned_gap",
    "theorem1_bags",
    "theorem1_utility",
    "theorem2_utility",
    "theorem3_utility",
    "union",
]
