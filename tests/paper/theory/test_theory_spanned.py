"""Appendix D: labels in the column space of the features give a change away."""

from __future__ import annotations

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp_paper.theory.spanned import labels_changed, spanned_gap


def test_one_aggregate_tells_a_changed_label() -> None:
    """Fixed seed; a right attack misses a weight below 1e-6 once in a million."""
    random = np.random.default_rng(5)
    features = random.normal(size=(40, 3))
    labels = features @ [1.0, -2.0, 0.5]
    changed = labels.copy()
    changed[7] += 0.25
    for _ in range(50):
        weights = random.normal(size=(1, 40))
        sums = weights @ features
        assert not labels_changed(features, labels, sums, weights @ labels)
        assert labels_changed(features, labels, sums, weights @ changed)
        gap = spanned_gap(features, labels, sums, weights @ changed)
        assert gap[0] == pytest.approx(abs(0.25 * weights[0, 7]), rel=1e-6)


def test_labels_outside_the_column_space_are_refused() -> None:
    random = np.random.default_rng(6)
    features = random.normal(size=(40, 3))
    with pytest.raises(InputError, match="column space"):
        spanned_gap(features, random.normal(size=40), features[:1], np.zeros(1))
