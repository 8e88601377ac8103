"""A release: aggregates, certificate and feature map together, on disk or in memory.

`pending.py` lists the files of its directory and writes them. Aggregates may be many: they are
read only as far as they are used. The last functions return the rows behind a release: of noisy
labels with their features, and of the table it was made from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import column_numbers, numpy_numbers
from labeldp.data.batches import take_numbered
from labeldp.data.source import Source, scan
from labeldp.display import ReprMixin
from labeldp.errors import InputError, MissingExtraError, ReleaseError, to_path
from labeldp.features.feature_map import FeatureMap
from labeldp.features.raw_rows import raw_columns, raw_schema
from labeldp.io_util import check_regular_file, path_problem, read_json
from labeldp.mechanisms.registry import mechanism_named
from labeldp.release.certificate import Certificate
from labeldp.release.form import check_as_written
from labeldp.release.label_model import LabelModel, SketchedLabels
from labeldp.release.pending import (
    AGGREGATES,
    CERTIFICATE,
    FEATURES,
    ROW,
    file_name,
    write_release,
)
from labeldp.release.tables import StoredTable

if TYPE_CHECKING:
    import pandas as pd

WARNING = "NOT_PRIVATE.txt"
"""File in place of a certificate, beside sums that are not private (`labeldp_paper`)."""
WANTS_TABLE = (
    "the release names rows and does not hold their features; give the table that it was made "
    "from: `fit(release, table)`"
)
_MOST_JSON = 1 << 24
"""Most bytes of a certificate or a feature map."""


@dataclass(frozen=True, repr=False)
class Release(ReprMixin):
    """What is published. Every field is public."""

    table: pa.Table | StoredTable
    """Design columns in the order of the feature map if they were aggregated, then the labels."""
    features: FeatureMap
    certificate: Certificate
    """A dictionary is converted."""
    files: Mapping[str, pa.Table] = field(default_factory=dict)
    """Further public tables, by their names in the certificate's `digests`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "certificate", Certificate(self.certificate))

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        names = ("mechanism", "epsilon", "delta", "rows", "bags", "bag_size", "label_range")
        # The certificate may be forged, so any field may be missing.
        facts = [(name.replace("_", " "), str(self.certificate.get(name, "?"))) for name in names]
        stored = isinstance(self.table, StoredTable)
        where = str(self.table.path.parent) if stored else "memory; save it, it has been paid for"
        facts += [("design columns", f"{len(self.features.names):,}"), ("kept in", where)]
        return "Release", facts

    @property
    def bag_table(self) -> pa.Table | None:
        """Return the rows of each bag, with public weights; None if bags have all rows."""
        return self.files.get("bags")

    @property
    def label_model(self) -> LabelModel:
        """Return what learners may assume about the labels, as the mechanism says."""
        return mechanism_named(self.certificate["mechanism"]).label_model(self)

    @property
    def bags(self) -> int:
        """Return the number of aggregates drawn; a compact release holds fewer rows."""
        return int(self.certificate["bags"])

    @property
    def aggregates_features(self) -> bool:
        """Return whether the aggregates have features as well as labels."""
        same = self.table.column_names[:-1] == list(self.features.names)
        return same and not self.holds_rows

    @property
    def holds_rows(self) -> bool:
        """Return whether each row of the table has its own noisy label."""
        first = self.table.schema.field(0)
        return bool(first.name == ROW and pa.types.is_int64(first.type))

    @property
    def needs_rows(self) -> bool:
        """Return whether the release has labels only, so that a fit needs the table."""
        own_features = self.holds_rows and len(self.table.column_names) > 2
        return not (self.aggregates_features or own_features)

    def fit_command(self, directory: str | Path) -> str:
        """Return the command that fits a model to the release in this directory."""
        return f"labeldp fit {directory}{' --data TABLE' * self.needs_rows}"

    def training_frame(self, data: Any = None) -> tuple[pd.DataFrame, pd.Series[Any]]:
        """Return X and y of a release of rows, for scikit-learn: raw features and noisy labels.

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
        if not self.holds_rows:
            raise ReleaseError(
                f"{self.certificate['mechanism']} publishes aggregates, of which no single row has "
                "a label; a training frame is made of a release of noisy-rows"
            )
        pd = _pandas()
        rows = labelled_rows(self, table_rows(self, data))
        index = pd.Index(column_numbers(self.table.column(ROW)), name=ROW)
        frame = _raw_frame(self.features, (batch for batch, _ in rows)).set_index(index)
        return frame, pd.Series(self.labels, index, name=self.certificate["labels"]["column"])

    def feature_frame(self, rows: Any) -> pd.DataFrame:
        """Return rows of any table in the form of X of `training_frame`, to predict them.

        Parameters
        ----------
        rows
            a source, a path or a frame.

        Returns
        -------
        DataFrame
            The feature columns, in the same form.
        """
        _pandas()
        source = rows if isinstance(rows, Source) else scan(rows, **self.features.reading)
        return _raw_frame(self.features, source.feature_batches(self.features.columns))

    @property
    def design(self) -> NDArray[np.float64]:
        """Return the aggregated features, bags × design columns."""
        if not self.aggregates_features:
            raise ReleaseError(WANTS_TABLE)
        columns = [column_numbers(self.table.column(name)) for name in self.features.names]
        return np.column_stack(columns)

    def chunks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield aggregated features (columns contiguous) and labels, one batch at a time."""
        for batch in self.table.to_batches():
            *columns, labels = map(numpy_numbers, batch.columns)
            design = np.array(columns).T if columns else np.empty((0, 0))
            yield design, labels

    def label_chunks(self) -> Iterator[NDArray[np.float64]]:
        """Yield aggregated labels alone, one batch at a time."""
        for batch in self.table.select(self.table.column_names[-1:]).to_batches():
            yield numpy_numbers(batch.column(0))

    @property
    def labels(self) -> NDArray[np.float64]:
        """Return the aggregated labels."""
        return column_numbers(self.table.column(self.table.column_names[-1]))

    @property
    def noise(self) -> NDArray[np.float64]:
        """Return the public standard deviation of the noise on each label, if there is one."""
        model = self.label_model
        if isinstance(model, SketchedLabels):
            raise ReleaseError(
                f"{self.certificate['mechanism']} publishes sums with secret weights: no noise of "
                "its labels is public; a fit estimates it"
            )
        return np.full(self.table.num_rows, model.std)

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
        write_release(
            to_path("directory", directory),
            self.features,
            self.table.schema,
            self.table.to_batches(),
            self.files,
            lambda _digests: self.certificate,
        )

    @classmethod
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
        folder = to_path("directory", directory)
        reason = path_problem(folder)
        if reason is not None:
            raise ReleaseError(f"{folder}: {reason}")
        if not folder.is_dir():
            raise ReleaseError(f"{folder} is not a release directory; name the one it was saved in")
        if (folder / WARNING).exists():
            raise ReleaseError(f"{folder} is NOT private and has no certificate; see {WARNING}")
        certificate = _read_object(folder / CERTIFICATE)
        features = FeatureMap.from_json(_read_object(folder / FEATURES))
        table = StoredTable.open(folder / AGGREGATES)
        if not table.schema.names or not pa.types.is_float64(table.schema.types[-1]):
            raise ReleaseError(f"{folder / AGGREGATES} does not end with a column of labels")
        files = {
            name: StoredTable.open(folder / file_name(name)).dense()
            for name in _further_tables(certificate)
        }
        release = cls(table, features, Certificate(certificate), files)
        if verify:
            check_as_written(folder, release)
        return release


def _read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object of a release."""
    check_regular_file(path)
    document = read_json(path, _MOST_JSON)
    if not isinstance(document, dict):
        raise ReleaseError(f"{path} holds no JSON object; restore the original file")
    return document


def _further_tables(certificate: dict[str, Any]) -> list[str]:
    """Return the names of tables beside the aggregates, from the digests of a certificate."""
    digests = certificate.get("digests")
    return [
        name
        for name, digest in (digests.items() if isinstance(digests, dict) else ())
        if digest is not None
        and name not in ("aggregates", "features", "feature_sums")
        and re.fullmatch("[a-z_]+", name)
    ]


def labelled_rows(
    release: Release, source: Source | None = None
) -> Iterator[tuple[pa.RecordBatch, NDArray[np.float64]]]:
    """Yield raw features, from the release or the source, and noisy labels, batch by batch."""
    features = release.features
    if not release.needs_rows:
        for batch in release.table.to_batches():
            labels = numpy_numbers(batch.column(batch.num_columns - 1))
            yield batch.select(list(features.columns)), labels
        return
    if source is None:
        raise InputError(WANTS_TABLE)
    labels, wanted = release.labels, column_numbers(release.table.column(ROW))
    whole = release.certificate["labels"]["missing"] == "refused"
    for places, batch in take_numbered(source, features.columns, wanted, whole=whole):
        yield batch, labels[places]


def public_rows(release: Release, data: Any) -> Source:
    """Return the rows that a release was made from: feature columns and person ids only.

    If rows without a label were dropped, the label column is read to drop them again, and only
    for that.
    """
    labels, person = release.certificate["labels"], release.certificate.get("person")
    dropped = labels["missing"] == "rows dropped"
    options = release.features.reading
    if dropped and "na" in labels:
        words = ("",) if options["na"] == () else options["na"] or ()
        options["na"] = (*words, *labels["na"])
    return scan(
        data,
        label=labels["column"] if dropped else None,
        person=None if person is None else person["column"],
        drop_missing_labels=dropped,
        **options,
    )


def table_rows(release: Release, data: Any) -> Source | None:
    """Return the table that a release was made from as a source (a source stays as it is)."""
    if data is None or isinstance(data, Source):
        return data
    if release.holds_rows:  # rows are chosen by number, so labels need not tell which were dropped
        return scan(data, **release.features.reading)
    return public_rows(release, data)


def _raw_frame(features: FeatureMap, batches: Iterable[pa.RecordBatch]) -> pd.DataFrame:
    """Return raw feature columns as a frame."""
    parts = [raw_columns(features, batch) for batch in batches]
    frame: pd.DataFrame = pa.Table.from_batches(parts, raw_schema(features)).to_pandas()
    return frame


def _pandas() -> Any:
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise MissingExtraError("a training frame", "interop") from None
    return pd
