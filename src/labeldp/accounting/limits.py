"""Ends of the ranges that accountants search; answers beyond them would be of no use."""

from __future__ import annotations

MOST_EPSILON = 1e6
MOST_MEAN_EPSILON = 1e5
"""For means over random weights, whose integral is slow at large ε."""
MOST_GROUP_EPSILON = 1e4
"""For generic group privacy, whose δ grows like e^ε."""
MOST_THEOREM2_EPSILON = 10
"""Theorem 2 holds for ε up to this number only."""
MOST_LOSS = 64.0
"""Largest privacy loss in a discretised loss distribution for other accountants."""
LEAST_GROUP_EPSILON = 1e-6

LEAST_DELTA = 1e-100
"""Smallest δ of a budget, if it is not 0."""
LEAST_CLAIM = 1e-300
"""Smallest δ that is claimed if it is not exactly 0: smaller doubles have fewer digits."""

LEAST_MU, MOST_MU = 1e-12, 1e6
MOST_LOG_NOISE = 30.0
"""Largest |log| of noise deviation over label width."""
LEAST_THEOREM3_NOISE, MOST_THEOREM3_NOISE = 1e-3, 1e9
"""Noise deviation over label width for Theorem 3, which promises nothing with less."""
LEAST_NOISY_FRACTION = 1e-300

LEAST_LOG_FLOOR, MOST_LOG_FLOOR = -60.0, 120.0
"""Range of log(residual floor / squared label width)."""
LEAST_THEOREM1_FLOOR = 1e-6
"""Smallest floor / squared label width for Theorem 1; there is no largest."""

MOST_BAGS = 10**12
MOST_PUBLISHED_BAGS = 10**7
"""Largest number of aggregates in a release."""
MOST_BAG_SIZE = 10**12
MOST_NOISY_BAG_SIZE = 10**9
MOST_TRIED_BAG_SIZE = 2**14
"""Largest bag of noisy labels that a plan chooses by itself: small bags do best."""
MOST_THEOREM3_BAG_SIZE = 10**18
