"""A release: aggregates, certificate and feature map together, on disk or in memory.

    DIR/aggregates.parquet   one row per bag: the label and, if aggregated, the design columns; or
                             one per row of the table (`rows.py`)
    DIR/NAME.parquet         another public table, where a mechanism declares one: `bags` (which
                             rows stand in which bag), `weights` (of the design columns)
    DIR/certificate.json     what was promised and what anyone needs to recheck it
    DIR/features.json        how raw rows become the design columns

This is the only module that writes a release. The certificate also sits in the Parquet
metadata, so that the file alone still says what it is. Aggregates may be many: they are drawn
and written in a stream, and read only as far as they are looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp._arrow import arrow_numbers, column_numbers, numpy_numbers
from labeldp.errors import ReleaseError
from labeldp.features import FeatureMap
from labeldp.files import new_directory, read_json
from labeldp.release.digest import Digest, table_digest
from labeldp.source import Source, scan

if TYPE_CHECKING:
    import pandas as pd

AGGREGATES, CERTIFICATE, FEATURES = "aggregates.parquet", "certificate.json", "features.json"
WARNING = "NOT_PRIVATE.txt"
"""In place of a certificate, beside sums that are not private."""
METADATA_KEY = b"labeldp.certificate"
NOISE = "noise_std"
"""The column of public noise deviations beside labels that are aggregated alone."""
ROW = "row"
"""The first column where every row has a label of its own: its number in the table."""
_NOT_FILES = ("aggregates", "features", "feature_sums")
"""Digests that are not those of further tables."""
_GROUP_ROWS, _GROUP_NUMBERS, _MOST_NUMBERS = 1 << 14, 1 << 20, 1 << 23
"""A row group has the first two at least, unless it has the third: 64 MiB."""


@dataclass(frozen=True)
class Release:
    """What may be published. Every field is public."""

    table: pa.Table | StoredTable = field(repr=False)
    """Design columns in the feature map's order if they were aggregated, then the label column."""
    features: FeatureMap = field(repr=False)
    certificate: dict[str, Any]
    files: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    """Further public tables, by the names that they have in the certificate's `digests`."""

    @property
    def bag_table(self) -> pa.Table | None:
        """Which row stands in which bag, and its weight if that is public; None if all rows do."""
        return self.files.get("bags")

    @property
    def weights(self) -> pa.Table | None:
        """What design columns weigh in a row's weight in every aggregate, where that is public."""
        return self.files.get("weights")

    @property
    def bags(self) -> int:
        """How many aggregates were drawn; a compact release holds fewer rows."""
        return int(self.certificate["bags"])

    @property
    def aggregates_features(self) -> bool:
        """Whether the aggregates hold features as well as labels."""
        same = self.table.column_names[:-1] == list(self.features.names)
        return same and not self.holds_rows

    @property
    def holds_rows(self) -> bool:
        """Whether every row of the table has a label of its own here."""
        first = self.table.schema.field(0)
        return bool(first.name == ROW and pa.types.is_int64(first.type))

    @property
    def needs_rows(self) -> bool:
        """Whether labels stand here alone, so that features must come from the table."""
        own_features = self.holds_rows and len(self.table.column_names) > 2
        return not (self.aggregates_features or own_features)

    def training_frame(self, data: Any = None) -> tuple[pd.DataFrame, pd.Series[Any]]:
        """X and y of a release of rows, for scikit-learn: raw features, and labels with noise.

        `data` is the table that the release was made from (a source, a path or a frame; its
        labels are not read), not needed if features were released too. X has numbers as floats
        and categories as text; `feature_frame` makes the same of other rows. The index is the
        row's number in the table.
        """
        from labeldp.release.rows import training_frame

        return training_frame(self, data)

    def feature_frame(self, rows: Any) -> pd.DataFrame:
        """Rows of any table or frame as those of X in `training_frame`, to predict them."""
        from labeldp.release.rows import feature_frame

        return feature_frame(self.features, rows)

    @property
    def design(self) -> NDArray[np.float64]:
        """The aggregated features, bags × design columns."""
        if not self.aggregates_features:
            raise ReleaseError(
                "this release aggregates labels alone: give the table whose rows its bags name "
                "(`data`; in Python, fit(release, source))"
            )
        columns = [column_numbers(self.table.column(name)) for name in self.features.names]
        return np.column_stack(columns)

    def chunks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Aggregated features, every column contiguous, and labels, some at a time."""
        for batch in self.table.to_batches():
            *columns, labels = map(numpy_numbers, batch.columns)
            design = np.array(columns).T if columns else np.empty((0, 0))
            yield design, labels

    def label_chunks(self) -> Iterator[NDArray[np.float64]]:
        """Aggregated labels alone, some at a time."""
        for batch in self.table.select(self.table.column_names[-1:]).to_batches():
            yield numpy_numbers(batch.column(0))

    @property
    def labels(self) -> NDArray[np.float64]:
        """The aggregated labels."""
        return column_numbers(self.table.column(self.table.column_names[-1]))

    @property
    def noise(self) -> NDArray[np.float64]:
        """The public deviation of each label, where labels were aggregated alone or with weights
        that are public, or were not aggregated."""
        if self.holds_rows:
            return np.full(self.table.num_rows, float(self.certificate["row_noise"]["std"]))
        if self.weights is not None:
            return np.full(self.table.num_rows, float(self.certificate["shape"]["noise_std"]))
        return column_numbers(self.table.column(NOISE))

    def save(self, directory: str | Path) -> None:
        """Write the release as one new directory, whole or not at all."""
        drawing = Drawing(
            self.features,
            self.table.schema,
            (batch for batch in self.table.to_batches()),
            lambda _digests: self.certificate,
            self.files,
        )
        drawing.write(directory)

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
        table = StoredTable.open(folder / AGGREGATES)
        if not table.schema.names or not pa.types.is_float64(table.schema.types[-1]):
            raise ReleaseError(f"{folder / AGGREGATES} does not end with a column of labels")
        files = {
            name: StoredTable.open(folder / file_name(name)).read()
            for name in _further_files(certificate)
        }
        return cls(table, features, certificate, files)


def file_name(name: str) -> str:
    """Where the table of this name stands in a release."""
    return f"{name}.parquet"


def _further_files(certificate: dict[str, Any]) -> list[str]:
    """The tables beside the aggregates whose digests a certificate has."""
    digests = certificate.get("digests")
    names = digests if isinstance(digests, dict) else {}
    return [
        name
        for name, digest in names.items()
        if digest is not None and name not in _NOT_FILES and re.fullmatch("[a-z_]+", name)
    ]


def public_rows(release: Release, data: Any) -> Source:
    """The rows a release was made from, its feature columns (and whose they are) only.

    If rows without a label were dropped, the label column is needed to drop them again, and
    only for that.
    """
    labels = release.certificate["labels"]
    dropped = labels["missing"] == "rows dropped"
    features, person = release.features, release.certificate.get("person")
    return scan(
        data,
        label=labels["column"] if dropped else None,
        person=None if person is None else person["column"],
        features=features.columns,
        categorical=tuple(column.name for column in features.categorical),
        numeric=tuple(column.name for column in features.numeric),
        drop_missing_labels=dropped,
        spelt=features.spelt,
        na=features.na,
    )


@dataclass(frozen=True)
class Drawing:
    """What a mechanism draws: a stream of aggregates, and a certificate once it has ended."""

    features: FeatureMap
    schema: pa.Schema
    batches: Generator[pa.RecordBatch, None, None]
    """Drawn as they are asked for, maybe by threads: closed when the drawing ends, or fails."""
    certify: Callable[[dict[str, str]], dict[str, Any]]
    """The certificate, given the digests of all tables by their names."""
    files: Mapping[str, pa.Table] = field(default_factory=dict)
    """Public tables beside the aggregates, as the mechanism declares them."""

    def collect(self) -> Release:
        """Draw into memory."""
        with closing(self.batches):
            table = pa.Table.from_batches(self.batches, schema=self.schema)
        certificate = self._certificate(table_digest(table))
        return Release(table, self.features, certificate, self.files)

    def _certificate(self, aggregates: str) -> dict[str, Any]:
        others = {name: table_digest(table) for name, table in self.files.items()}
        return self.certify({"aggregates": aggregates, **others})

    def write(self, directory: str | Path) -> dict[str, Any]:
        """Draw into a new directory, a batch at a time, whole or not at all: the certificate."""
        with new_directory(Path(directory)) as partial:
            text = certificate_text(certificate := self._write_aggregates(partial / AGGREGATES))
            for name, table in self.files.items():
                stamped = table.replace_schema_metadata({METADATA_KEY: text.encode()})
                pq.write_table(stamped, partial / file_name(name), use_dictionary=False)
            (partial / CERTIFICATE).write_text(text + "\n", encoding="utf-8")
            (partial / FEATURES).write_text(features_text(self.features), encoding="utf-8")
        return certificate

    def _write_aggregates(self, path: Path) -> dict[str, Any]:
        """The stream into one file, its digest and the certificate.

        Normal numbers cannot be compressed; labels, which stand on a grid, can. The Arrow schema
        is left out, because its metadata would hide what is added at the end.
        """
        others = set(self.schema.names) - set(self.features.names)
        layout = {"compression": dict.fromkeys(others, "snappy"), "store_schema": False}
        with (
            closing(self.batches),
            Digest(self.schema) as digest,
            pq.ParquetWriter(path, self.schema, use_dictionary=False, **layout) as file,
        ):
            for group in _row_groups(self.batches, len(self.schema)):
                digest.add(group)
                file.write_table(group, group.num_rows)
            certificate = self._certificate(digest.total())
            file.add_key_value_metadata({METADATA_KEY.decode(): certificate_text(certificate)})
        return certificate


@dataclass(frozen=True)
class StoredTable:
    """A Parquet file as a table of which only what is asked for is read."""

    path: Path
    schema: pa.Schema
    num_rows: int
    chosen: tuple[str, ...] | None = None
    """The columns that are read, if not all."""

    @classmethod
    def open(cls, path: Path) -> StoredTable:
        """Read the footer; a damaged file is refused."""
        if not path.exists():
            raise ReleaseError(f"{path} is missing; the release is incomplete")
        with _whole(path), pq.ParquetFile(path) as file:
            return cls(path, file.schema_arrow.remove_metadata(), file.metadata.num_rows)

    @property
    def column_names(self) -> list[str]:
        return list(self.schema.names)

    def select(self, names: list[str]) -> StoredTable:
        """The same rows with these columns alone."""
        schema = pa.schema([self.schema.field(name) for name in names])
        return replace(self, schema=schema, chosen=tuple(names))

    def column(self, name: str) -> pa.ChunkedArray:
        """One column."""
        return self.read([name]).column(0)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """All rows."""
        with _whole(self.path), pq.ParquetFile(self.path) as file:
            return file.read(columns).replace_schema_metadata(None)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, a row group at a time."""
        with _whole(self.path), pq.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, self.chosen)
                if self.chosen:  # a name may have brought others that begin like it
                    rows = rows.select(self.chosen)
                yield from rows.combine_chunks().to_batches()


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise ReleaseError(f"{path} is damaged: {reason}") from None


def aggregate_schema(features: FeatureMap, label: str) -> pa.Schema:
    """The columns of aggregated features and labels."""
    names = (*features.names, label_column(label))
    return pa.schema([pa.field(name, pa.float64(), nullable=False) for name in names])


def design_layout(release: Release) -> pa.Schema:
    """The columns of aggregates that hold features and labels."""
    return aggregate_schema(release.features, release.certificate["labels"]["column"])


def aggregate_batch(
    schema: pa.Schema, design: NDArray[np.float64], labels: NDArray[np.float64]
) -> pa.RecordBatch:
    """Aggregated features, in the feature map's scales, and labels as rows."""
    arrays = [arrow_numbers(column) for column in (*design.T, labels)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _row_groups(batches: Iterable[pa.RecordBatch], columns: int) -> Iterator[pa.Table]:
    """Batches put together until they are worth a row group, and no larger than memory likes."""
    enough = min(max(_GROUP_ROWS, _GROUP_NUMBERS // columns), max(1, _MOST_NUMBERS // columns))
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= enough:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def label_column(label: str) -> str:
    """What the column of aggregated labels is called."""
    return f"label:{label}"


def certificate_text(certificate: dict[str, Any]) -> str:
    """The one text of a certificate, for its file and for the Parquet metadata."""
    return json.dumps(certificate, indent=2, ensure_ascii=False, allow_nan=False)


def features_text(features: FeatureMap) -> str:
    """The one text of a feature map's file."""
    return json.dumps(features.to_json(), indent=1, ensure_ascii=False) + "\n"
