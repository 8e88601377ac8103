"""How far the accountants look: beyond these numbers an answer would be of no use to anyone."""

from __future__ import annotations

MOST_EPSILON = 1e6
MOST_MEAN_EPSILON = 1e5
"""Of a mean over random weights, whose integral is slow where ε is large."""
MOST_GROUP_EPSILON = 1e4
"""Of single steps, whose δ grows like e^ε."""
MOST_THEOREM2_EPSILON = 10
"""Beyond it Theorem 2 says nothing."""
MOST_LOSS = 64.0
"""Of a loss in points, as other accountants take it: δ must have come to its end by then."""
LEAST_GROUP_EPSILON = 1e-6

LEAST_DELTA = 1e-100
"""Of a budget, if it is not 0."""
LEAST_CLAIM = 1e-300
"""The smallest δ that is claimed where it is not exactly 0: below it doubles have fewer digits."""

LEAST_MU, MOST_MU = 1e-12, 1e6
MOST_LOG_NOISE = 30.0
"""Of the ratio of a noise deviation to the width of the labels, as a logarithm."""
LEAST_THEOREM3_NOISE, MOST_THEOREM3_NOISE = 1e-3, 1e9
"""The same ratio where Theorem 3 is asked, which promises nothing with less."""
LEAST_NOISY_FRACTION = 1e-300

LEAST_LOG_FLOOR, MOST_LOG_FLOOR = -60.0, 120.0
"""Of the ratio of a residual floor to the squared width of the labels, as a logarithm."""
LEAST_THEOREM1_FLOOR = 1e-6
"""The same ratio where Theorem 1 is asked, from which it goes up without an end."""

MOST_BAGS = 10**12
MOST_PUBLISHED_BAGS = 10**7
"""More aggregates than anyone could use."""
MOST_BAG_SIZE = 10**12
MOST_NOISY_BAG_SIZE = 10**9
MOST_TRIED_BAG_SIZE = 2**14
"""Of bags with noisy labels that a plan chooses by itself: small ones do best."""
MOST_THEOREM3_BAG_SIZE = 10**18
