"""What a release of noisy-rows holds; quick to import, for whoever only reads it."""

from __future__ import annotations

import pyarrow as pa

from labeldp.release.files import Release
from labeldp.release.label_model import RowLabels
from labeldp.release.rows import row_schema

_KURTOSIS = {"laplace": 6.0, "gaussian": 3.0}


def columns(release: Release) -> pa.Schema:
    """Rows with a label each."""
    certificate = release.certificate
    return row_schema(
        release.features,
        certificate["labels"]["column"],
        with_features=certificate["row_noise"]["with_features"],
    )


def meaning(release: Release) -> RowLabels:
    """Every row's label, with noise of one law."""
    noise = release.certificate["row_noise"]
    return RowLabels(float(noise["std"]), _KURTOSIS[noise["law"]])
