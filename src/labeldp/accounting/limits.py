"""How far the accountants look: beyond these numbers an answer would be of no use to anyone."""

from __future__ import annotations

MOST_EPSILON = 1e6
MOST_MEAN_EPSILON = 1e5
"""Of a mean over random weights, whose integral is slow where ε is large."""
MOST_GROUP_EPSILON = 1e4
"""Of single steps, whose δ grows like e^ε."""
MOST_THEOREM2_EPSILON = 10
"""Beyond it Theorem 2 says nothing."""
LEAST_GROUP_EPSILON = 1e-6

LEAST_MU, MOST_MU = 1e-12, 1e6
MOST_LOG_NOISE = 30.0
"""Of the ratio of a noise deviation to the width of the labels, as a logarithm."""

MOST_BAGS = 10**12
MOST_PUBLISHED_BAGS = 10**7
"""More aggregates than anyone could use."""
MOST_BAG_SIZE = 10**12
MOST_NOISY_BAG_SIZE = 10**9
MOST_THEOREM3_BAG_SIZE = 10**18
