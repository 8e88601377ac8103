"""What a release of sampled-noisy-wtd-LAg holds; quick to import, for whoever only reads it."""

from __future__ import annotations

import pyarrow as pa

from labeldp.arrow_util import column_numbers
from labeldp.mechanisms.layouts import MEMBERS
from labeldp.release.files import Release
from labeldp.release.label_model import BagLabels
from labeldp.release.pending import label_column

NOISE = "noise_std"
"""The column of the deviations of labels' noise."""
WEIGHTED = pa.schema([*MEMBERS, pa.field("weight", pa.float64()), pa.field("noisy", pa.bool_())])
"""Which row stands in which bag, with which weight, and whether its label has noise."""


def columns(release: Release) -> pa.Schema:
    """Labels aggregated alone, each with its noise."""
    label = label_column(release.certificate["labels"]["column"])
    return pa.schema([(name, pa.float64()) for name in (NOISE, label)])


def bag_columns(release: Release) -> pa.Schema:  # noqa: ARG001
    """Bags whose weights are public."""
    return WEIGHTED


def meaning(release: Release) -> BagLabels:
    """Noisy sums of the labels of bags, whose weights are public."""
    return BagLabels(column_numbers(release.table.column(NOISE)), release.files["bags"])
