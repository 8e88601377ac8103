"""A release: aggregates, certificate and feature map together, on disk or in memory.

    DIR/aggregates.parquet   one row per bag: the design columns and the label, summed
    DIR/certificate.json     what was promised and what anyone needs to recheck it
    DIR/features.json        how raw rows become the design columns

This is the only module that writes a release. The certificate also sits in the Parquet
metadata, so that the file alone still says what it is.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp._files import new_directory, read_json
from labeldp.errors import ReleaseError
from labeldp.features import FeatureMap

AGGREGATES, CERTIFICATE, FEATURES = "aggregates.parquet", "certificate.json", "features.json"
METADATA_KEY = b"labeldp.certificate"
_ROW_GROUP = 65536


@dataclass(frozen=True)
class Release:
    """What may be published. Every field is public."""

    table: pa.Table = field(repr=False)
    """Design columns in the feature map's order, then the label column."""
    features: FeatureMap = field(repr=False)
    certificate: dict[str, Any]

    @property
    def bags(self) -> int:
        return int(self.table.num_rows)

    @property
    def design(self) -> NDArray[np.float64]:
        """The aggregated features, bags × design columns."""
        columns = [self.table.column(name).to_numpy() for name in self.features.names]
        return np.column_stack(columns)

    @property
    def labels(self) -> NDArray[np.float64]:
        """The aggregated labels."""
        return np.asarray(self.table.column(self.table.num_columns - 1).to_numpy())

    def save(self, directory: str | Path) -> None:
        """Write the release as one new directory, whole or not at all."""
        with new_directory(Path(directory)) as partial:
            text = certificate_text(self.certificate)
            (partial / CERTIFICATE).write_text(text + "\n", encoding="utf-8")
            (partial / FEATURES).write_text(
                features_text(self.features),
                encoding="utf-8",
            )
            stamped = self.table.replace_schema_metadata({METADATA_KEY: text.encode()})
            pq.write_table(
                stamped, partial / AGGREGATES, row_group_size=_ROW_GROUP, use_dictionary=False
            )

    @classmethod
    def load(cls, directory: str | Path) -> Release:
        """Read a release; `verify` checks what it says."""
        folder = Path(directory)
        if not folder.is_dir():
            raise ReleaseError(f"{folder} is not a release directory")
        certificate = read_json(folder / CERTIFICATE)
        features = FeatureMap.from_json(read_json(folder / FEATURES))
        table = _read_aggregates(folder / AGGREGATES)
        expected = list(features.names)
        if table.column_names[:-1] != expected or table.num_columns != len(expected) + 1:
            raise ReleaseError(f"{folder / AGGREGATES} does not have the columns of {FEATURES}")
        if any(not pa.types.is_float64(column.type) for column in table.schema):
            raise ReleaseError(f"{folder / AGGREGATES} has columns that are not float64")
        return cls(table, features, certificate)


def certificate_text(certificate: dict[str, Any]) -> str:
    """The one text of a certificate, for its file and for the Parquet metadata."""
    return json.dumps(certificate, indent=2, ensure_ascii=False, allow_nan=False)


def features_text(features: FeatureMap) -> str:
    """The one text of a feature map's file."""
    return json.dumps(features.to_json(), indent=1, ensure_ascii=False) + "\n"


def table_digest(table: pa.Table) -> str:
    """SHA-256 of names and values, whatever the file's layout or metadata."""
    hasher = hashlib.sha256(json.dumps(table.column_names).encode())
    for column in table.columns:
        hasher.update(f"{column.type} {len(column)} {column.null_count}".encode())
        for chunk in column.chunks:
            hasher.update(chunk.to_numpy(zero_copy_only=False).astype("<f8").tobytes())
    return hasher.hexdigest()


def _read_aggregates(path: Path) -> pa.Table:
    if not path.exists():
        raise ReleaseError(f"{path} is missing; the release is incomplete")
    try:
        return pq.read_table(path, partitioning=None)  # a folder called a=b is only a folder
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise ReleaseError(f"{path} is damaged: {reason}") from None
