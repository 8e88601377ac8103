"""A release: aggregates, certificate and feature map together, on disk or in memory.

    DIR/aggregates.parquet   one row per bag: the label and, if aggregated, the design columns
    DIR/bags.parquet         which rows stand in which bag, where rows were drawn
    DIR/certificate.json     what was promised and what anyone needs to recheck it
    DIR/features.json        how raw rows become the design columns

This is the only module that writes a release. The certificate also sits in the Parquet
metadata, so that the file alone still says what it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
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
BAGS = "bags.parquet"
WARNING = "NOT_PRIVATE.txt"
"""In place of a certificate, beside sums that are not private."""
METADATA_KEY = b"labeldp.certificate"
NOISE = "noise_std"
"""The column of public noise deviations beside labels that are aggregated alone."""
_MEMBERS = [pa.field("bag", pa.int32()), pa.field("row", pa.int64())]
SECRET_WEIGHTS = pa.schema(_MEMBERS)
PUBLIC_WEIGHTS = pa.schema(
    [*_MEMBERS, pa.field("weight", pa.float64()), pa.field("noisy", pa.bool_())]
)
BAG_SCHEMAS = (SECRET_WEIGHTS, PUBLIC_WEIGHTS)
_ROW_GROUP = 65536


@dataclass(frozen=True)
class Release:
    """What may be published. Every field is public."""

    table: pa.Table = field(repr=False)
    """Design columns in the feature map's order if they were aggregated, then the label column."""
    features: FeatureMap = field(repr=False)
    certificate: dict[str, Any]
    bag_table: pa.Table | None = field(default=None, repr=False)
    """Which row stands in which bag, and its weight if that is public; None if all rows do."""

    @property
    def bags(self) -> int:
        return int(self.table.num_rows)

    @property
    def aggregates_features(self) -> bool:
        """Whether the aggregates hold features as well as labels."""
        return self.bag_table is None or "weight" not in self.bag_table.column_names

    @property
    def design(self) -> NDArray[np.float64]:
        """The aggregated features, bags × design columns."""
        if not self.aggregates_features:
            raise ReleaseError(
                "this release aggregates labels alone: give the table whose rows its bags name "
                "(fit(release, source), --data)"
            )
        columns = [self.table.column(name).to_numpy() for name in self.features.names]
        return np.column_stack(columns)

    @property
    def labels(self) -> NDArray[np.float64]:
        """The aggregated labels."""
        return np.asarray(self.table.column(self.table.num_columns - 1).to_numpy())

    @property
    def noise(self) -> NDArray[np.float64]:
        """The public deviation of each label, where labels were aggregated alone."""
        return np.asarray(self.table.column(NOISE).to_numpy())

    def save(self, directory: str | Path) -> None:
        """Write the release as one new directory, whole or not at all."""
        with new_directory(Path(directory)) as partial:
            text = certificate_text(self.certificate)
            (partial / CERTIFICATE).write_text(text + "\n", encoding="utf-8")
            (partial / FEATURES).write_text(
                features_text(self.features),
                encoding="utf-8",
            )
            _write(self.table, partial / AGGREGATES, text)
            if self.bag_table is not None:
                _write(self.bag_table, partial / BAGS, text)

    @classmethod
    def load(cls, directory: str | Path) -> Release:
        """Read a release; `verify` checks what it says."""
        folder = Path(directory)
        if not folder.is_dir():
            raise ReleaseError(f"{folder} is not a release directory")
        if (folder / WARNING).exists():
            raise ReleaseError(f"{folder} is NOT private and has no certificate; see {WARNING}")
        certificate = read_json(folder / CERTIFICATE)
        features = FeatureMap.from_json(read_json(folder / FEATURES))
        table = _read(folder / AGGREGATES)
        bag_table = _read(folder / BAGS) if (folder / BAGS).exists() else None
        release = cls(table, features, certificate, bag_table)
        expected = list(features.names) if release.aggregates_features else [NOISE]
        if table.column_names[:-1] != expected:
            raise ReleaseError(f"{folder / AGGREGATES} does not have the columns of {FEATURES}")
        if any(not pa.types.is_float64(column.type) for column in table.schema):
            raise ReleaseError(f"{folder / AGGREGATES} has columns that are not float64")
        if bag_table is not None and bag_table.schema.remove_metadata() not in BAG_SCHEMAS:
            raise ReleaseError(f"{folder / BAGS} does not have the columns of a bag table")
        return release


def aggregate_table(
    features: FeatureMap,
    label: str,
    chunks: Iterable[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> pa.Table:
    """The table of aggregated (integer design columns, labels), in the feature map's scales."""
    scales = features.scales[list(features.kept or ())]
    schema = pa.schema([(name, pa.float64()) for name in (*features.names, label_column(label))])
    batches = []
    for design, labels in chunks:
        arrays = [pa.array(np.ascontiguousarray(c)) for c in (*(design * scales).T, labels)]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema=schema)


def label_column(label: str) -> str:
    """What the column of aggregated labels is called."""
    return f"label:{label}"


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
            values = chunk.to_numpy(zero_copy_only=False)
            hasher.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
    return hasher.hexdigest()


def _write(table: pa.Table, path: Path, certificate: str) -> None:
    stamped = table.replace_schema_metadata({METADATA_KEY: certificate.encode()})
    pq.write_table(stamped, path, row_group_size=_ROW_GROUP, use_dictionary=False)


def _read(path: Path) -> pa.Table:
    if not path.exists():
        raise ReleaseError(f"{path} is missing; the release is incomplete")
    try:
        return pq.read_table(path, partitioning=None)  # a folder called a=b is only a folder
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise ReleaseError(f"{path} is damaged: {reason}") from None
