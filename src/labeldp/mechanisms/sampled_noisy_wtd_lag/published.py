"""What a release of sampled-noisy-wtd-LAg holds; quick to import, for whoever only reads it."""

from __future__ import annotations

from labeldp.common.arrow import column_numbers
from labeldp.release import NOISE, BagLabels, Release


def meaning(release: Release) -> BagLabels:
    """Noisy sums of the labels of bags, whose weights are public."""
    return BagLabels(column_numbers(release.table.column(NOISE)), release.files["bags"])
