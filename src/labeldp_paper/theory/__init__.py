"""The paper's lemmas and utility statements as numbers: what they promise, and when nothing.

    tails     concentration bounds: matrix Chernoff, Hoeffding, sums of squared normals
    utility   the utility parts of Theorems 1, 2 and 3 with explicit constants
    neural    output and Lipschitz bounds of networks with bounded layers
    earlier   what an earlier bound allows on the same release

Nothing here is needed for a release: exact laws (`labeldp.accounting`) and forecasts
(`labeldp.mechanisms`) are. These are for comparison. Every probability is kept as a
logarithm; a bound that is not below 1 is called vacuous.
"""

from labeldp_paper.theory.earlier import random_projection_max_bags
from labeldp_paper.theory.neural import NeuralClass
from labeldp_paper.theory.tails import (
    HANSON_WRIGHT,
    Tail,
    gaussian_squares_tail,
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
    "gaussian_squares_tail",
    "hoeffding_tail",
    "matrix_chernoff_tail",
    "normal_tail",
    "random_projection_max_bags",
    "theorem1_utility",
    "theorem2_utility",
    "theorem3_utility",
    "union",
]
