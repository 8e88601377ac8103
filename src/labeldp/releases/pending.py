"""A release that is being drawn, and the files it is written to.

    DIR/aggregates.parquet   one row per bag: the label and, if aggregated, the design columns; or
                             one row per row of the table
    DIR/NAME.parquet         another public table of the mechanism: `bags` (the rows of each bag),
                             `weights` (of the design columns)
    DIR/certificate.json     the guarantee, and what anyone needs to verify it
    DIR/features.json        how raw rows become the design columns
    DIR/croissant.json       a description of these files for other tools

Only this module writes a release. The certificate also stands in the Parquet metadata, so that a
single file still says what it is. Aggregates may be many, so they are drawn and written batch by
batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import new_directory
from labeldp.releases.certificate import Claim, FloorOutcome, certify
from labeldp.releases.side_files import CROISSANT, croissant_text
from labeldp.releases.tables import METADATA_KEY, WRITING, digest_of, table_digest

AGGREGATES, CERTIFICATE, FEATURES = "aggregates.parquet", "certificate.json", "features.json"
ROW = "row"
"""First column if each row has its own label: the number of the row in the table."""
CHUNK_ROWS = 1 << 20
"""Labels that are looked at together."""
_GROUP_ROWS, _GROUP_NUMBERS, _MOST_NUMBERS = 1 << 14, 1 << 20, 1 << 23
"""A row group has at least so many rows and numbers, but at most the third: 64 MiB."""


@dataclass(frozen=True)
class PendingRelease:
    """What a mechanism draws: a stream of aggregates, and what the certificate will say of it."""

    features: FeatureMap
    schema: pa.Schema
    batches: Generator[pa.RecordBatch, None, None]
    """Drawn on demand, perhaps by threads; closed when drawing ends or fails."""
    claim: Claim
    outcome: FloorOutcome | None
    """What the run published about a residual floor."""
    run_fields: Mapping[str, Any]
    """Fields of the certificate about the run, with the digests that are known already."""
    files: Mapping[str, pa.Table] = field(default_factory=dict)
    """Public tables beside the aggregates."""

    def certificate(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """Return the certificate, given the digests of all tables: the numbers are written."""
        run_fields = {**self.run_fields, "digests": {**self.run_fields["digests"], **digests}}
        return certify(self.claim, self.outcome, run_fields)

    def collect(self) -> tuple[pa.Table, dict[str, Any]]:
        """Draw into memory; return the aggregates and the certificate."""
        with closing(self.batches):
            table = pa.Table.from_batches(self.batches, schema=self.schema)
        digests = {"aggregates": table_digest(table)}
        digests |= {name: table_digest(each) for name, each in self.files.items()}
        return table, self.certificate(digests)

    def write(self, directory: str | Path) -> dict[str, Any]:
        """Draw into a new directory, whole or not at all; return the certificate."""
        with closing(self.batches):
            return write_release(
                directory, self.features, self.schema, self.batches, self.files, self.certificate
            )


def write_release(
    directory: str | Path,
    features: FeatureMap,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    files: Mapping[str, pa.Table],
    certify: Callable[[dict[str, str]], dict[str, Any]],
) -> dict[str, Any]:
    """Write a release as one new directory, whole or not at all; return the certificate.

    `certify` makes the certificate once the digests of all tables are known.
    """
    tables: dict[str, tuple[pa.Schema, Iterable[pa.RecordBatch]]]
    tables = {"aggregates": (schema, batches)}
    tables |= {name: (each.schema, each.to_batches()) for name, each in files.items()}
    digests, writers = {}, []
    with new_directory(Path(directory)) as partial:
        with ExitStack() as stack:
            for name, (columns, parts) in tables.items():
                writer = pq.ParquetWriter(partial / file_name(name), columns, **WRITING)
                writers.append(stack.enter_context(writer))
                groups = _row_groups(parts, len(columns))
                digests[name] = digest_of(columns, _written(writer, groups))
            certificate = certify(digests)
            text = certificate_text(certificate)
            for writer in writers:
                writer.add_key_value_metadata({METADATA_KEY.decode(): text})
        (partial / CERTIFICATE).write_text(text + "\n", encoding="utf-8")
        (partial / FEATURES).write_text(features_text(features), encoding="utf-8")
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            # what is no certificate cannot be described, and `verify` refuses it
            description = croissant_text(partial, certificate)
            (partial / CROISSANT).write_text(description, encoding="utf-8")
    return certificate


def _written(writer: pq.ParquetWriter, groups: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield row groups as they are written."""
    for group in groups:
        writer.write_table(group, group.num_rows)
        yield group


def file_name(name: str) -> str:
    """Return the file name of a table of a release."""
    return f"{name}.parquet"


def aggregate_schema(features: FeatureMap, label: str) -> pa.Schema:
    """Return the schema of aggregated features and labels."""
    names = (*features.names, label_column(label))
    return pa.schema([pa.field(name, pa.float64(), nullable=False) for name in names])


def aggregate_batch(
    schema: pa.Schema, design: NDArray[np.float64], labels: NDArray[np.float64]
) -> pa.RecordBatch:
    """Return aggregated features, in the feature map's scales, and labels as rows."""
    arrays = [arrow_numbers(column) for column in (*design.T, labels)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _row_groups(batches: Iterable[pa.RecordBatch], columns: int) -> Iterator[pa.Table]:
    """Collect batches into tables that are large enough for a row group and fit memory."""
    enough = min(max(_GROUP_ROWS, _GROUP_NUMBERS // columns), max(1, _MOST_NUMBERS // columns))
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        for start in range(0, batch.num_rows, enough):
            waiting.append(batch.slice(start, enough))
            if sum(part.num_rows for part in waiting) >= enough:
                yield pa.Table.from_batches(waiting)
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def label_column(label: str) -> str:
    """Return the name of the column of aggregated labels."""
    return f"label:{label}"


def certificate_text(certificate: dict[str, Any]) -> str:
    """Return the text of a certificate, for its file and for the Parquet metadata."""
    return json.dumps(certificate, indent=2, ensure_ascii=False, allow_nan=False)


def features_text(features: FeatureMap) -> str:
    """Return the text of features.json."""
    return json.dumps(features.to_json(), indent=1, ensure_ascii=False) + "\n"
