"""A release: aggregates, certificate and feature map together, on disk or in memory.

    DIR/aggregates.parquet   one row per bag: the label and, if aggregated, the design columns; or
                             one per row of the table (`rows.py`)
    DIR/NAME.parquet         another public table, where a mechanism declares one: `bags` (which
                             rows stand in which bag), `weights` (of the design columns)
    DIR/certificate.json     what was promised and what anyone needs to recheck it
    DIR/features.json        how raw rows become the design columns
    DIR/croissant.json       the files above in the words of Croissant, for its readers

This is the only module that writes a release. The certificate also sits in the Parquet
metadata, so that the file alone still says what it is. Aggregates may be many: they are drawn
and written in a stream, and read only as far as they are looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.common.arguments import checked
from labeldp.common.arrow import arrow_numbers, column_numbers, numpy_numbers
from labeldp.common.cards import Card
from labeldp.common.files import is_directory, new_directory, obstacle, read_json
from labeldp.errors import ReleaseError
from labeldp.features import FeatureMap
from labeldp.release.certificate import Certificate
from labeldp.release.claim import seal
from labeldp.release.croissant import CROISSANT, croissant_of
from labeldp.release.digest import Digest, table_digest
from labeldp.release.parquet import METADATA_KEY, WRITING
from labeldp.release.stored import StoredTable, check_plain
from labeldp.source import Source, scan

if TYPE_CHECKING:
    import pandas as pd

AGGREGATES, CERTIFICATE, FEATURES = "aggregates.parquet", "certificate.json", "features.json"
WARNING = "NOT_PRIVATE.txt"
"""In place of a certificate, beside sums that are not private."""
NOISE = "noise_std"
"""The column of public noise deviations beside labels that are aggregated alone."""
ROW = "row"
"""The first column where every row has a label of its own: its number in the table."""
MOST_JSON = 1 << 24
"""Bytes of a certificate or a feature map."""
_JUDGE = "labeldp.mechanisms.structure"
"""What a certificate must hold is declared by mechanisms, further down the road; it is looked up
by name when a release is read."""
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
    certificate: Certificate
    """Any dictionary will do: it becomes one."""
    files: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    """Further public tables, by the names that they have in the certificate's `digests`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "certificate", Certificate(self.certificate))

    @property
    def _card(self) -> Card:
        """What the certificate says; it may be anyone's, so nothing in it is relied on."""
        said = {name: str(value) for name, value in self.certificate.items()}
        names = ("mechanism", "epsilon", "delta", "rows", "bags", "bag_size", "label_range")
        stored = isinstance(self.table, StoredTable)
        where = str(self.table.path.parent) if stored else "memory; save it, it has been paid for"
        return Card(
            "Release",
            (
                *((name.replace("_", " "), said.get(name, "?")) for name in names),
                ("design columns", f"{len(self.features.names):,}"),
                ("kept in", where),
            ),
        )

    def __repr__(self) -> str:
        return self._card.text()

    def _repr_html_(self) -> str:
        return self._card.html()

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

        Parameters
        ----------
        data
            the table that the release was made from (a source, a path or a frame; its labels are
            not read), not needed if features were released too.

        Returns
        -------
        tuple of DataFrame and Series
            X has numbers as floats and categories as text; `feature_frame` makes the same of other
            rows. The index is the row's number in the table.

        Raises
        ------
        ReleaseError
            the release holds sums, of which no single row has a label.
        """
        from labeldp.release.rows import training_frame

        return training_frame(self, data)

    def feature_frame(self, rows: Any) -> pd.DataFrame:
        """Rows of any table as those of X in `training_frame`, to predict them.

        Parameters
        ----------
        rows
            a source, a path or a frame.

        Returns
        -------
        DataFrame
            The feature columns, in the same form.
        """
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

    @checked
    def save(self, directory: str | Path) -> None:
        """Write the release as one new directory, whole or not at all.

        Parameters
        ----------
        directory
            where to; it must not exist.

        Raises
        ------
        ReleaseError
            it exists, or cannot be written.
        """
        drawing = Drawing(
            self.features,
            self.table.schema,
            (batch for batch in self.table.to_batches()),
            lambda _digests: self.certificate,
            self.files,
        )
        drawing.write(directory)

    @classmethod
    @checked
    def load(cls, directory: str | Path, *, verify: bool = True) -> Release:
        """Read a release; one whose files are not as they were written together is refused.

        Parameters
        ----------
        directory
            what `save`, `Plan.release_to` or `labeldp release` wrote.
        verify
            look at the form of all files and at their digests, which takes a pass over tables;
            False reads whatever can be read, and no more than is looked at. What a certificate
            promises is checked by `labeldp.verify`.

        Returns
        -------
        Release
            The release; its tables are read as far as they are looked at.

        Raises
        ------
        ReleaseError
            it is missing, incomplete, damaged or altered.
        """
        folder = Path(directory)
        reason = obstacle(folder)
        if reason is not None:
            raise ReleaseError(f"{folder}: {reason}")
        if not is_directory(folder):
            raise ReleaseError(f"{folder} is not a release directory; name the one it was saved in")
        if (folder / WARNING).exists():
            raise ReleaseError(f"{folder} is NOT private and has no certificate; see {WARNING}")
        certificate = _document(folder / CERTIFICATE)
        features = FeatureMap.from_json(_document(folder / FEATURES))
        table = StoredTable.open(folder / AGGREGATES)
        if not table.schema.names or not pa.types.is_float64(table.schema.types[-1]):
            raise ReleaseError(f"{folder / AGGREGATES} does not end with a column of labels")
        files = {
            name: StoredTable.open(folder / file_name(name)).dense()
            for name in _further_files(certificate)
        }
        release = cls(table, features, Certificate(certificate), files)
        if verify:
            import_module(_JUDGE).refuse_unsound(folder, release)
        return release


def _document(path: Path) -> dict[str, Any]:
    """A JSON object of a release."""
    check_plain(path)
    document = read_json(path, MOST_JSON)
    if not isinstance(document, dict):
        raise ReleaseError(f"{path} holds no JSON object; restore the original file")
    return document


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

    def telling(self, **fields: Any) -> Drawing:
        """The same, whose certificate also says this of the run."""

        def certify(digests: dict[str, str]) -> dict[str, Any]:
            return seal(self.certify(digests) | fields)

        return replace(self, certify=certify)

    def collect(self) -> Release:
        """Draw into memory."""
        with closing(self.batches):
            table = pa.Table.from_batches(self.batches, schema=self.schema)
        certificate = self._certificate(table_digest(table))
        return Release(table, self.features, Certificate(certificate), self.files)

    def _certificate(self, aggregates: str) -> dict[str, Any]:
        others = {name: table_digest(table) for name, table in self.files.items()}
        return self.certify({"aggregates": aggregates, **others})

    def write(self, directory: str | Path) -> dict[str, Any]:
        """Draw into a new directory, a batch at a time, whole or not at all: the certificate."""
        with new_directory(Path(directory)) as partial:
            text = certificate_text(certificate := self._write_aggregates(partial / AGGREGATES))
            for name, table in self.files.items():
                with pq.ParquetWriter(partial / file_name(name), table.schema, **WRITING) as file:
                    for group in _row_groups(table.to_batches(), len(table.schema)):
                        file.write_table(group, group.num_rows)
                    file.add_key_value_metadata({METADATA_KEY.decode(): text})
            (partial / CERTIFICATE).write_text(text + "\n", encoding="utf-8")
            (partial / FEATURES).write_text(features_text(self.features), encoding="utf-8")
            with suppress(LookupError, TypeError, ValueError, AttributeError):
                # what is no certificate cannot be described, and `verify` refuses it
                described = croissant_of(partial, certificate)
                (partial / CROISSANT).write_text(described, encoding="utf-8")
        return certificate

    def _write_aggregates(self, path: Path) -> dict[str, Any]:
        """The stream into one file, its digest and the certificate.

        Normal numbers cannot be compressed; labels, which stand on a grid, can.
        """
        others = set(self.schema.names) - set(self.features.names)
        layout = {"compression": dict.fromkeys(others, "snappy"), **WRITING}
        with (
            closing(self.batches),
            Digest(self.schema) as digest,
            pq.ParquetWriter(path, self.schema, **layout) as file,
        ):
            for group in _row_groups(self.batches, len(self.schema)):
                digest.add(group)
                file.write_table(group, group.num_rows)
            certificate = self._certificate(digest.total())
            file.add_key_value_metadata({METADATA_KEY.decode(): certificate_text(certificate)})
        return certificate


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
    for batch in chain.from_iterable(_slices(batch, enough) for batch in batches):
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= enough:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def label_column(label: str) -> str:
    """What the column of aggregated labels is called."""
    return f"label:{label}"


def certificate_text(certificate: dict[str, Any]) -> str:
    """The one text of a certificate, for its file and for the Parquet metadata."""
    return json.dumps(certificate, indent=2, ensure_ascii=False, allow_nan=False)


def features_text(features: FeatureMap) -> str:
    """The one text of a feature map's file."""
    return json.dumps(features.to_json(), indent=1, ensure_ascii=False) + "\n"
