"""What a release of shaped-flag holds; quick to import, for whoever only reads it."""

from __future__ import annotations

import numpy as np

from labeldp.common.arrow import column_numbers
from labeldp.mechanisms.shaped_flag import RADIAL
from labeldp.release import Release, SumLabels


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
