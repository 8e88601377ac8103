"""A release: aggregates, certificate and feature map together, on disk or in memory.

`pending.py` lists the files of its directory and writes them. Aggregates may be many: they are
read only as far as they are used. Then follow the rows behind a release: of noisy labels with their
features, and of the table it was made from. Last come checks that files form a release, whether or
not its claim is true:

- `form_problems`: all files are there, and no others; the certificate follows its JSON schema;
  tables have the right columns and numbers of rows, in Parquet files as labeldp writes them.
- `content_problems`: seal, digests, copies of the certificate and signatures match the contents.

`Release.load` refuses a release that fails one of them; `verify` also recomputes the claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import column_numbers, numpy_numbers
from labeldp.data.source import Source, scan, take_rows
from labeldp.display import ReprMixin
from labeldp.errors import InputError, MissingExtraError, ReleaseError, to_path
from labeldp.features.feature_map import FeatureMap, raw_columns, raw_schema
from labeldp.io_util import check_regular_file, json_digest, path_problem, read_json, schema_errors
from labeldp.mechanisms.base import LabelModel, SketchedLabels
from labeldp.mechanisms.registry import (
    certificate_schema,
    check_accountant,
    mechanism_named,
    mechanism_names,
)
from labeldp.releases.certificate import read_about, seal
from labeldp.releases.pending import (
    AGGREGATES,
    CERTIFICATE,
    CHUNK_ROWS,
    FEATURES,
    ROW,
    certificate_text,
    features_text,
    file_name,
    write_release,
)
from labeldp.releases.side_files import (
    CROISSANT,
    SIGNATURES,
    Envelope,
    croissant_text,
    statement,
)
from labeldp.releases.tables import StoredTable, check_form, table_digest

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
_MOST_LETTERS = 600
"""Most letters of a problem."""
_MOST_NAMED = 5
"""Most files that are named because they do not belong to the release."""


@dataclass(frozen=True, repr=False)
class Release(ReprMixin):
    """What is published. Every field is public."""

    table: pa.Table | StoredTable
    """Design columns in the order of the feature map if they were aggregated, then the labels."""
    features: FeatureMap
    certificate: dict[str, Any]
    files: Mapping[str, pa.Table] = field(default_factory=dict)
    """Further public tables, by their names in the certificate's `digests`."""

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        names = ("mechanism", "epsilon", "delta", "rows", "bags", "bag_size", "label_range")
        # The certificate may be forged, so any field may be missing.
        facts = [(name.replace("_", " "), str(self.certificate.get(name, "?"))) for name in names]
        stored = isinstance(self.table, StoredTable)
        where = str(self.table.path.parent) if stored else "memory; save it, it has been paid for"
        facts += [("design columns", f"{len(self.features.names):,}"), ("kept in", where)]
        return "Release", facts

    @property
    def tables(self) -> dict[str, pa.Table | StoredTable]:
        """Return all public tables by their names in the certificate's `digests`."""
        return {"aggregates": self.table, **self.files}

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
        reads_rows = self.needs_rows or "classes" in self.certificate["labels"]
        return f"labeldp fit {directory}{' --data TABLE' * reads_rows}"

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
            X has numbers as floats and categories as pandas categories, which scikit-learn's trees
            take (`categorical_features="from_dtype"`); `feature_frame` makes the same of other
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
        batches = (batch for batch, _ in labelled_rows(self, table_rows(self, data)))
        frame = self._raw_frame(batches)
        frame.index = column_numbers(self.table.column(ROW))
        frame.index.name = ROW
        labels = pa.array(self.labels).to_pandas().set_axis(frame.index)
        return frame, labels.rename(self.certificate["labels"]["column"])

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
        return self._raw_frame(self.features.batches(rows))

    def _raw_frame(self, batches: Iterable[pa.RecordBatch]) -> pd.DataFrame:
        """Return raw feature columns as a frame."""
        parts = [raw_columns(self.features, batch) for batch in batches]
        table = pa.Table.from_batches(parts, raw_schema(self.features))
        try:
            frame: pd.DataFrame = table.to_pandas(
                categories=[column.name for column in self.features.categorical]
            )
        except ModuleNotFoundError:
            raise MissingExtraError("a training frame", "interop") from None
        return frame

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
        """Yield aggregated labels alone, `CHUNK_ROWS` at a time."""
        column = self.table.column(self.table.column_names[-1])
        for start in range(0, len(column), CHUNK_ROWS):
            yield column_numbers(column.slice(start, CHUNK_ROWS))

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
        digests = certificate.get("digests")
        files = {
            name: StoredTable.open(folder / file_name(name)).dense()
            for name, digest in (digests.items() if isinstance(digests, dict) else ())
            if name not in ("aggregates", "features", "feature_sums")
            and digest is not None
            and re.fullmatch("[a-z_]+", name)
        }
        release = cls(table, features, certificate, files)
        problems = verify and (form_problems(folder, release) or content_problems(folder, release))
        if problems:
            raise ReleaseError(
                f"{folder} is not as it was written: {one_line(problems[0])}; `labeldp verify` "
                "says all, and `verify=False` reads it all the same"
            )
        return release


def _read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object of a release."""
    check_regular_file(path)
    document = read_json(path, _MOST_JSON)
    if not isinstance(document, dict):
        raise ReleaseError(f"{path} holds no JSON object; restore the original file")
    return document


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
    total = len(wanted) if release.certificate["labels"]["missing"] == "refused" else None
    for places, batch in take_rows(source, features.columns, wanted, total, of_data=True):
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
        classes=labels.get("classes") if dropped else None,
        person=None if person is None else person["column"],
        drop_missing_labels=dropped,
        **options,
    )


def model_rows(release: Release, data: Any) -> Source:
    """Return the rows that a release was made from, for a model that is fitted to all of them."""
    if release.holds_rows and not release.needs_rows:
        table = release.table
        data = table.path if isinstance(table, StoredTable) else table
        return scan(data, **release.features.reading)
    if data is None:
        raise InputError(
            "the fit reads the features of the released table; give it: `fit(release, table)`"
        )
    return data if isinstance(data, Source) else public_rows(release, data)


def table_rows(release: Release, data: Any) -> Source | None:
    """Return the table that a release was made from as a source (a source stays as it is)."""
    if data is None or isinstance(data, Source):
        return data
    if release.holds_rows:  # rows are chosen by number, so labels need not tell which were dropped
        return scan(data, **release.features.reading)
    return public_rows(release, data)


def one_line(problem: str) -> str:
    """Return a problem as one short line: names and values in forged files may hold anything."""
    start = problem[:_MOST_LETTERS]
    text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in start)
    return text + "…" * (len(start) < len(problem))


def form_problems(folder: Path, release: Release) -> list[str]:
    """Return why these files do not have the form of a release, whatever their contents.

    Of a sound certificate that is one problem at most: each check relies on those before it.
    """
    problems = schema_problems(release.certificate)
    try:
        return problems or list(islice(_file_problems(folder, release), 1))
    except ValueError as problem:  # a file is refused, or a name has half a character
        return [str(problem)]


def _file_problems(folder: Path, release: Release) -> Iterator[str]:
    """Check names of files and columns, numbers of rows, and how files were written."""
    certificate, features = release.certificate, release.features
    mechanism = mechanism_named(certificate["mechanism"])
    names = ("aggregates", *mechanism.table_names)
    known = {CERTIFICATE, FEATURES, CROISSANT, SIGNATURES, *map(file_name, names)}
    others = {path.name for path in folder.iterdir()} - known
    if others:
        named = ", ".join(sorted(others)[:_MOST_NAMED])
        yield f"{named} is not part of the release: the certificate says nothing of it"
    check_regular_file(folder / CROISSANT)
    for name in names:
        if name not in release.tables:
            yield f"{file_name(name)} is missing: the certificate says nothing of it"
        schema = mechanism.table_schemas(release)[name]
        if not release.tables[name].schema.equals(schema):
            columns = ", ".join(
                f"{each.name} ({each.type}{'' if each.nullable else ', never missing'})"
                for each in schema
            )
            yield f"{file_name(name)} does not have the columns that it should: {columns}"
    labels, person = certificate["labels"], certificate.get("person")
    if (label := labels["column"]) in features.columns:
        yield f"certificate: the label column {label!r} is a feature in {FEATURES}"
    if person is not None and person["column"] in (*features.columns, label):
        yield (
            f"certificate: person.column {person['column']!r} is the label or a feature in "
            f"{FEATURES}; person ids are neither"
        )
    if labels["missing"] == "refused" and {"na", "rows_left_out"} & labels.keys():
        yield "certificate.labels: no row was left out, yet it says which ones"
    if "classes" in labels:
        same = {text.strip().lower() for text in labels["classes"]}
        if len(same) < 2 or labels["outside_range"] != "refused":
            yield "certificate.labels: two classes must differ, and others are refused"
        if certificate["label_range"] != [0, 1]:
            yield "certificate: label_range of two classes is 0 to 1"
    rows = certificate["rank"] + 1 if certificate["form"] == "compact" else certificate["bags"]
    if release.table.num_rows != rows:
        yield f"{AGGREGATES} has {release.table.num_rows} rows, the certificate says {rows}"
    if len(features.names) != certificate["rank"]:
        yield f"{FEATURES} has {len(features.names)} columns, not {certificate['rank']}"
    if features.rows != certificate["rows"]:
        yield f"{FEATURES} was fitted on {features.rows} rows, not {certificate['rows']}"
    if features.intercept and any(column.fill for column in features.numeric):
        yield f"{FEATURES} has numbers that are centred, and counts missing ones apart"
    for name in names:
        check_form(folder / file_name(name), certificate_text(certificate))
    Envelope.of(folder)


def content_problems(folder: Path, release: Release) -> list[str]:
    """Return where contents of files that have the form of a release contradict each other."""
    certificate, digests, problems = release.certificate, release.certificate["digests"], []
    if seal(certificate)["seal"] != certificate["seal"]:
        problems.append("certificate: a field was altered (its seal does not match)")
    if json_digest(release.features.to_json()) != digests["features"]:
        problems.append(f"{FEATURES} was altered (its digest does not match)")
    texts = {
        CERTIFICATE: certificate_text(certificate) + "\n",
        FEATURES: features_text(release.features),
    }
    for name, text in texts.items():
        if not _has_text(folder / name, text):
            problems.append(f"{name} is not as it was written (other spacing or order)")
    for name, table in release.tables.items():
        try:
            if table_digest(table) != digests[name]:
                problems.append(f"{file_name(name)} was altered (its digest does not match)")
        except InputError as problem:
            problems.append(str(problem))
    envelope = Envelope.of(folder)
    if envelope is not None and envelope.payload != statement(folder, certificate):
        problems.append(
            f"{SIGNATURES} was signed over other files: some were altered, added or removed since"
        )
    # The description is compared last: it also differs if one of the other files does.
    if not problems and not _has_text(folder / CROISSANT, croissant_text(folder, certificate)):
        problems.append(f"{CROISSANT} does not describe these files as labeldp does")
    return problems


def _has_text(path: Path, text: str) -> bool:
    """Return whether a file has exactly these bytes; other line ends could encode something."""
    expected = text.encode(errors="surrogatepass")
    return path.stat().st_size == len(expected) and path.read_bytes() == expected


def schema_problems(certificate: Any) -> list[str]:
    """Return where a certificate breaks its JSON schema.

    The accountant, statements of the curator and the time of release are checked by code.
    """
    if (name := certificate.get("mechanism")) not in mechanism_names():
        return [f"certificate.mechanism is not one of {', '.join(mechanism_names())}"]
    problems = [
        f"certificate{error.json_path.removeprefix('$')}: {error.message}"
        for error in schema_errors(certificate_schema(name), certificate)
    ]
    if problems:
        return problems
    about, released_at = certificate["about"], certificate["released_at"]
    try:
        check_accountant(mechanism_named(name), certificate["accountant"]["name"])
        if about is not None:
            said = {name: text for name, text in about.items() if name != "missing" and text}
            if read_about(said) != about:
                problems.append("certificate.about is not as labeldp writes it")
        if released_at is not None:
            datetime.fromisoformat(released_at)
    except ValueError as problem:
        problems.append(f"certificate: {problem}")
    return problems
