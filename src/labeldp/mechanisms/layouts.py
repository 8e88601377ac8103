"""What releases of several mechanisms hold; quick to import, for whoever only reads them."""

from __future__ import annotations

import pyarrow as pa

from labeldp.features import FeatureMap
from labeldp.release import NOISE, Release, SketchedLabels, label_column, row_schema

_MEMBERS = [pa.field("bag", pa.int32()), pa.field("row", pa.int64())]
SECRET_WEIGHTS = pa.schema(_MEMBERS)
PUBLIC_WEIGHTS = pa.schema(
    [*_MEMBERS, pa.field("weight", pa.float64()), pa.field("noisy", pa.bool_())]
)


def secret_weights(release: Release) -> pa.Schema:  # noqa: ARG001
    """Bags whose weights are not published."""
    return SECRET_WEIGHTS


def public_weights(release: Release) -> pa.Schema:  # noqa: ARG001
    """Bags whose weights are."""
    return PUBLIC_WEIGHTS


def design_weights(release: Release) -> pa.Schema:
    """Public weights of the design columns."""
    return weight_schema(release.features)


def weight_schema(features: FeatureMap) -> pa.Schema:
    """The same, from the feature map."""
    return pa.schema([pa.field(name, pa.float64(), nullable=False) for name in features.names])


def noisy_labels(release: Release) -> pa.Schema:
    """Labels aggregated alone, each with its noise."""
    label = label_column(release.certificate["labels"]["column"])
    return pa.schema([(name, pa.float64()) for name in (NOISE, label)])


def rows(release: Release) -> pa.Schema:
    """Rows with a label each."""
    certificate = release.certificate
    return row_schema(
        release.features,
        certificate["labels"]["column"],
        with_features=certificate["row_noise"]["with_features"],
    )


def sketched(release: Release) -> SketchedLabels:
    """Sums with secret weights, and the noise that the floor asked for."""
    certificate = release.certificate
    return SketchedLabels(
        certificate["bag_size"] / release.features.rows, certificate["floor"]["added_variance"]
    )
