"""A release: aggregates, certificate and feature map together, on disk or in memory.

`pending.py` lists the files of its directory and writes them. Aggregates may be many: they are
read only as far as they are used.
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
from labeldp.display import ReprMixin
from labeldp.errors import ReleaseError, to_path
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import check_regular_file, is_directory, path_problem, read_json
from labeldp.mechanisms.registry import mechanism_named
from labeldp.release.certificate import Certificate
from labeldp.release.form import check_as_written
from labeldp.release.label_model import LabelModel, SketchedLabels
from labeldp.release.parquet_form import StoredTable
from labeldp.release.pending import (
    AGGREGATES,
    CERTIFICATE,
    FEATURES,
    ROW,
    file_name,
    write_release,
)

if TYPE_CHECKING:
    import pandas as pd

WARNING = "NOT_PRIVATE.txt"
"""File in place of a certificate, beside sums that are not private (`labeldp_paper`)."""
WANTS_TABLE = (
    "the release names rows and does not hold their features; give the table that it was made "
    "from: `fit(release, table)`"
)
MOST_JSON = 1 << 24
"""Most bytes of a certificate or a feature map."""
_NOT_FILES = ("aggregates", "features", "feature_sums")
"""Digests in a certificate that do not belong to a further table."""


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
        """Return what the certificate says; it may be forged, so any field may be missing."""
        fields = {name: str(value) for name, value in self.certificate.items()}
        names = ("mechanism", "epsilon", "delta", "rows", "bags", "bag_size", "label_range")
        stored = isinstance(self.table, StoredTable)
        where = str(self.table.path.parent) if stored else "memory; save it, it has been paid for"
        return (
            "Release",
            (
                *((name.replace("_", " "), fields.get(name, "?")) for name in names),
                ("design columns", f"{len(self.features.names):,}"),
                ("kept in", where),
            ),
        )

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
        from labeldp.release.rows import training_frame

        return training_frame(self, data)

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
        from labeldp.release.rows import feature_frame

        return feature_frame(self.features, rows)

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
            check_as_written(folder, release)
        return release


def _document(path: Path) -> dict[str, Any]:
    """Read a JSON object of a release."""
    check_regular_file(path)
    document = read_json(path, MOST_JSON)
    if not isinstance(document, dict):
        raise ReleaseError(f"{path} holds no JSON object; restore the original file")
    return document


def _further_files(certificate: dict[str, Any]) -> list[str]:
    """Return the names of tables beside the aggregates, from the digests of a certificate."""
    digests = certificate.get("digests")
    names = digests if isinstance(digests, dict) else {}
    return [
        name
        for name, digest in names.items()
        if digest is not None and name not in _NOT_FILES and re.fullmatch("[a-z_]+", name)
    ]
