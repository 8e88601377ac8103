"""What releases of several mechanisms hold; quick to import, for whoever only reads them."""

from __future__ import annotations

import pyarrow as pa

from labeldp.release.files import Release
from labeldp.release.label_model import SketchedLabels

MEMBERS = pa.schema([pa.field("bag", pa.int32()), pa.field("row", pa.int64())])
"""Which row stands in which bag; its weight is not published."""


def members(release: Release) -> pa.Schema:  # noqa: ARG001
    """Bags whose weights are not published."""
    return MEMBERS


def sketched(release: Release) -> SketchedLabels:
    """Sums with secret weights, and the noise that the floor asked for."""
    certificate = release.certificate
    return SketchedLabels(
        certificate["bag_size"] / release.features.rows, certificate["floor"]["added_variance"]
    )
