"""What a release of shaped-flag holds; quick to import, for whoever only reads it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from labeldp.arrow_util import column_numbers
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.shaped_flag import RADIAL
from labeldp.release.files import Release
from labeldp.release.label_model import SumLabels


def weight_columns(release: Release) -> pa.Schema:
    """Public weights of the design columns."""
    return weight_schema(release.features)


def weight_schema(features: FeatureMap) -> pa.Schema:
    """The same, from the feature map."""
    return pa.schema([pa.field(name, pa.float64(), nullable=False) for name in features.names])


def meaning(release: Release) -> SumLabels:
    """Sums of all rows with the weights beside them; the residual's root, if it was published."""
    shape, root = release.certificate["shape"], release.certificate.get("residual_root")
    columns = [column_numbers(column) for column in release.files["weights"].columns]
    return SumLabels(
        np.full(release.table.num_rows, float(shape["noise_std"])),
        np.column_stack(columns) / release.features.kept_scales,
        radial=shape.get("noise_law") == RADIAL,
        residual=None if root is None else (root, shape["residual_noise_std"]),
    )
