"""The earlier bound: no bag on the paper's data, and its formula elsewhere."""

from __future__ import annotations

import math

from labeldp_paper.theory import random_projection_max_bags


def test_random_projection():
    assert random_projection_max_bags(7.57e-5, 121.73, 10.0, 1e-8) == 0
    assert random_projection_max_bags(7.83, 505.89, 10.0, 1e-5) == 0
    log = math.log(4e5)
    want = math.floor((1e4 / 4 - log) ** 2 / (2 * log))
    assert random_projection_max_bags(1e4, 1.0, 1.0, 1e-5) == want
