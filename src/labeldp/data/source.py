"""`scan`: say what a table holds; `Source`: read it, features apart from labels."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fsdecode
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, numpy_numbers
from labeldp.data.cluster import ClusterReader
from labeldp.data.columns import Column, choose_features, column_of, is_usable, unknown_column
from labeldp.data.delimited import DelimitedReader, open_excel
from labeldp.data.files import DELIMITERS, FileState, find_files, state_of
from labeldp.data.frames import FrameReader, open_statistical
from labeldp.data.labels import LabelCheck, LabelParser, check_classes, check_label_type
from labeldp.data.persons import check_person_type, with_person_hashes
from labeldp.data.readers import ArrowReader, ParquetReader, TableReader
from labeldp.data.text_types import TextOptions
from labeldp.errors import (
    DataError,
    InputError,
    to_bool,
    to_int,
    to_range,
    to_str,
    to_str_tuple,
)

_MOST_ROWS = 1 << 20  # sums over one batch of 20-bit codes then fit 64 bits with room to spare
_FILE_OPTIONS = ("delimiter", "encoding", "skip_lines", "skip_footer")
_INAPPLICABLE = {"CSV": (), "TSV": (), "Excel": _FILE_OPTIONS[:2]}
"""Options that a table of a format does not have; of any other, and of frames: all of these."""


@dataclass(frozen=True)
class Source:
    """A table with public features and, if a label column is named, private labels.

    Every field that is printed is public. The data themselves stay behind `reader`; labels
    leave it only through `numbered_batches`. Each call reads the data afresh.
    """

    columns: tuple[Column, ...]
    label: str | None
    label_range: tuple[float, float] | None
    clip: bool
    drop_missing_labels: bool
    batch_rows: int
    reader: TableReader = field(repr=False, compare=False)
    person: str | None = None
    """The column that says whose a row is; batches hold hashes of ids in its place."""
    label_parser: LabelParser = field(default_factory=LabelParser, repr=False, compare=False)
    """How labels that are text are read."""
    seen: tuple[FileState, ...] | None = field(default=None, repr=False, compare=False)
    """State of its files when `scan` read them; what was inferred holds for these."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the feature columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def classes(self) -> tuple[str, str] | None:
        """The two classes of labels, which count as 0 and 1; None: labels are numbers."""
        return self.label_parser.classes

    @property
    def notes(self) -> tuple[str, ...]:
        """What was inferred about the text of the table, as messages."""
        return self.reader.notes

    @property
    def keywords(self) -> dict[str, Any]:
        """Options about its labels and its text, for `scan` of the same table again."""
        label = {name: getattr(self, name) for name in ("label", "clip", "drop_missing_labels")}
        if self.classes is not None:
            label["classes"] = list(self.classes)
        return label | self.reader.options.keywords

    @property
    def column_formats(self) -> dict[str, dict[str, Any]]:
        """How ambiguous text columns are read, for `scan` of further rows."""
        forms = dict[str, dict[str, Any]]()
        for name, parser in sorted(self.reader.parsers.items()):
            codes = [f"{name}={code}" for code in self.reader.options.codes(name)]
            words = [*self.missing_words, *codes]
            if form := parser.to_json() | ({"na": words} if words else {}):
                forms[name] = form
        return forms

    @property
    def missing_words(self) -> list[str]:
        """Texts that were said to mean missing in every column."""
        return [*filter(None, self.reader.options.words(self.reader.stored_schema.names))]

    @property
    def total_rows(self) -> int | None:
        """Rows in the data before `drop_missing_labels` removes any; None if not known yet."""
        return self.reader.rows

    def feature_batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the feature columns (or some of them) in file order; labels are not read.

        Where there are persons a last column has hashes of their ids (`persons.py`).
        With `drop_missing_labels` the label column is read for one purpose: to leave out rows
        whose label is missing. Which labels are missing then shows in the rows that remain;
        that is the choice this option makes.
        """
        return (batch for _, batch, _ in self.numbered_batches(columns))

    def labelled_batches(
        self, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, NDArray[np.float64]]]:
        """Yield features with labels as float64, row by row the rows of `feature_batches`.

        Labels outside `label_range` (unless `clip`), missing labels (unless
        `drop_missing_labels`) and infinite labels are refused with a DataError after the last
        batch; use nothing from this iterator unless it ends.
        """
        check = self.label_check()
        for _, batch, labels in self.numbered_batches(columns, check):
            assert labels is not None, "there is a check"
            yield batch, labels
        check.finish()

    def numbered_batches(
        self,
        columns: Sequence[str] | None = None,
        check: LabelCheck | None = None,
        *,
        persons: bool = True,
    ) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch, NDArray[np.float64] | None]]:
        """Yield features with the numbers of their rows in the data, where every row counts.

        With `check` labels too, as in `labelled_batches`. Whoever reads the table in `parts` gives
        all of them one `check`, and finishes it after the last.
        """
        names = list(self.names if columns is None else columns)
        if persons and self.person is not None:
            names.append(self.person)
        reads_label = self.label is not None and (check is not None or self.drop_missing_labels)
        wanted, first = [*names, str(self.label)] if reads_label else names, 0
        for batch in self.reader.batches(wanted, self.batch_rows):
            if self.person in names:
                batch = with_person_hashes(batch, str(self.person))
            numbers = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            if self.drop_missing_labels and reads_label:
                mask = self.label_parser.has_label(batch.column(len(names)))
                batch, numbers = batch.filter(mask), numbers[numpy_numbers(mask)]
            if len(numbers):
                labels = None
                if check is not None:
                    labels = check.clean(*self.label_parser.parse(batch.column(len(names))))
                yield numbers, batch.select(range(len(names))), labels

    def label_check(self) -> LabelCheck:
        """Return what checks the labels of one pass."""
        if self.label is None:
            raise InputError("labels are needed here; name the label column (`label`)")
        if self.label_range is None:
            raise InputError(
                f"label column {self.label!r} needs a public range, chosen without looking at the "
                f"labels (`label_range`)"
            )
        return LabelCheck(self.label, *self.label_range, self.clip)

    def rows_left_out(self, rows: int) -> int | None:
        """Return how many rows have no label, if `rows` of them have one; None: none may lack it.

        What `drop_missing_labels` leaves out is visible anyway; here it is counted.
        """
        return self.reader.count_rows() - rows if self.drop_missing_labels else None

    def state(self) -> tuple[FileState, ...] | None:
        """Return what tells whether the files are still the same; None if nothing would."""
        return state_of(self.reader.paths)

    def parts(self) -> tuple[Source, ...]:
        """Return the table in pieces, in order, that can be read at the same time."""
        return tuple(replace(self, reader=reader) for reader in self.reader.units())

    def stored(self) -> Source:
        """Return every row and column but the label, as they are stored, all of them features."""
        reader = self.reader.stored()
        return replace(
            self,
            columns=tuple(
                Column(each.name, "categorical", str(each.type))
                for each in reader.schema
                if each.name != self.label and is_usable(each.type)
            ),
            label=None,
            label_range=None,
            drop_missing_labels=False,
            person=None,
            reader=reader,
        )


def scan(
    data: Any,
    *,
    label: str | None = None,
    label_range: tuple[float, float] | None = None,
    classes: tuple[str, str] | None = None,
    person: str | None = None,
    features: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    drop: Sequence[str] = (),
    clip: bool = False,
    drop_missing_labels: bool = False,
    batch_rows: int | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    skip_lines: int | None = None,
    skip_footer: int | None = None,
    decimal: str | None = None,
    na: Sequence[str] | None = None,
    date_format: str | None = None,
    column_formats: Mapping[str, Mapping[str, Any]] | None = None,
) -> Source:
    """Say what a table holds, without loading it.

    Parameters
    ----------
    data
        a path to a file, a directory or a glob (Parquet, CSV, TSV, gzipped or not, Arrow IPC), a
        pandas, polars or pyarrow table, a duckdb relation, or a Spark data frame.
    label
        the private column. Without it every column is a public feature.
    label_range
        (low, high), public; chosen without looking at the labels.
    classes
        the two values that labels have, of any type, in place of a range; public, and chosen
        without looking at the labels. The first counts as 0, the second as 1; labels that are
        neither are refused.
    person
        the column of ids, integers or text, that says whose a row is: a guarantee then covers all
        rows of a person together. No feature, and never published.
    features, drop
        the columns to use, in this order, or to leave out; by default all are used but the label,
        a stored pandas index, unnamed columns and those that turn out to be ids.
    categorical, numeric
        columns whose values are names, or quantities, whatever their type.
    clip
        move labels outside the range to its nearest end instead of refusing them.
    drop_missing_labels
        leave out rows without a label, or with a word for one, instead of refusing them; which
        labels are missing becomes public through the rows that remain.
    batch_rows
        rows per batch; changes memory and speed, never a result.
    delimiter, encoding, decimal
        of a text file; by default inferred from its header and its features, never from labels.
    skip_lines, skip_footer
        how many lines of a text or Excel file stand above its header and below its last row; by
        default those with at most one filled field.
    na
        texts that mean missing, besides the usual ones ("NA", "null", …), in every column or, as in
        "age=999", in one; an empty list: only empty cells.
    date_format
        the format of dates, as strptime has it, where it is none that is inferred, as %Y%m%d.
    column_formats
        how columns were read when features were fitted (`FeatureMap.column_formats`).

    Returns
    -------
    Source
        What `plan` and learners read. Of typed tables nothing but headers was read, of text all
        features, once; `notes` say what was inferred.

    Raises
    ------
    InputError
        an argument is wrong, or (DataError) the table is not what was said.

    Examples
    --------
    >>> import labeldp
    >>> table = {"age": [30, 40, 50], "town": ["A", "B", "A"], "income": [1.0, 2.0, 3.0]}
    >>> labeldp.scan(table, label="income", label_range=(0, 10)).names
    ('age', 'town')
    """
    label = None if label is None else to_str("label", label)
    person = None if person is None else to_str("person", person)
    features = None if features is None else to_str_tuple("features", features)
    categorical = to_str_tuple("categorical", categorical)
    numeric, drop = to_str_tuple("numeric", numeric), to_str_tuple("drop", drop)
    clip = to_bool("clip", clip)
    drop_missing_labels = to_bool("drop_missing_labels", drop_missing_labels)
    if label_range is not None:
        label_range = to_range("label_range", label_range)
    if classes is not None:
        classes, label_range = check_classes(classes), label_range or (0.0, 1.0)
        if label_range != (0.0, 1.0):
            raise InputError("two `classes` have the label range 0 to 1; leave `label_range` out")
        if clip:
            raise InputError("`clip` is for numbers, not for `classes`; leave one of them out")
        if label is None:
            raise InputError("`classes` are those of a label column; name it (`label`)")
    if batch_rows is not None and not 1 <= to_int("batch_rows", batch_rows) <= _MOST_ROWS:
        raise InputError(f"`batch_rows` must be 1 to {_MOST_ROWS}, not {batch_rows}")
    if drop_missing_labels and label is None:
        raise InputError("`drop_missing_labels` needs a label column (`label`)")
    options = TextOptions(
        delimiter=delimiter,
        encoding=encoding,
        skip_lines=skip_lines,
        skip_footer=skip_footer,
        decimal=decimal,
        na=None if na is None else to_str_tuple("na", na),
        date_format=date_format,
        column_formats=column_formats,
    )
    named = tuple(filter(None, (label, person, *(features or ()))))
    reader = open_table(data, options, label=label, named=named)
    seen = state_of(reader.paths)
    known, schema = reader.stored_schema.names, reader.stored_schema
    if options.skip_lines and label is not None and label not in known:
        # what stands there may be a row, and is not shown
        raise DataError(
            f"there is no column {label!r} in the line below `skip_lines`={options.skip_lines}; "
            f"correct `skip_lines`"
        )
    names = choose_features(
        known,
        {"label": label, "person": person},
        {"features": features, "categorical": categorical, "numeric": numeric, "drop": drop},
    )
    for word in options.words(known):
        if re.fullmatch("[^=]+=[^=]+", word):
            raise unknown_column(word.partition("=")[0], "na", known)
    if label is not None:
        check_label_type(schema.field(label))
    if person is not None:
        check_person_type(schema.field(person))
    reader = reader.prepared(names, numeric, categorical)
    formatted = {name for name, parser in reader.parsers.items() if parser.formatted}
    columns = [
        column_of(
            reader.schema.field(name),
            numeric=name in numeric or name in formatted,
            categorical=name in categorical,
            wanted=name in (features or ()),
        )
        for name in names
    ]
    return Source(
        tuple(columns),
        label,
        label_range,
        clip,
        drop_missing_labels,
        batch_rows or _suitable_rows(len(columns), reader.rows),
        reader,
        person,
        LabelParser()
        if label is None
        else LabelParser(reader.decimal, reader.missing(label), classes),
        seen,
    )


TABLE_OPTIONS = tuple(inspect.signature(scan).parameters)[1:]
"""Keywords of `scan`."""


def open_table(
    data: Any,
    options: TextOptions | None = None,
    *,
    label: str | None = None,
    named: Sequence[str] = (),
) -> TableReader:
    """Return the reader of a path or a frame; a reader is its own.

    `label` is the column that may decide nothing, and `named` are columns that the table must have.
    An option that would silently not count is refused.
    """
    options = options or TextOptions()
    if isinstance(data, TableReader):
        return replace(data, options=options)
    paths, form = _files_and_format(data)
    for name in _INAPPLICABLE.get(form, _FILE_OPTIONS):
        if getattr(options, name) is not None:
            what = form or f"the {type(data).__name__}"
            raise InputError(f"`{name}` is for text files, not for {what}; leave it out")
    reader: TableReader
    if not form:
        is_spark = hasattr(data, "mapInArrow")
        reader = ClusterReader.open(data) if is_spark else FrameReader.open(data, label)
    elif form in DELIMITERS:
        reader = DelimitedReader.open(paths, form, options, label=label, named=named)
    elif form == "Excel":
        reader = open_excel(paths, options, label=label, named=named)
    elif form in ("Parquet", "Arrow"):
        reader = (ParquetReader if form == "Parquet" else ArrowReader).open(paths)
    else:
        reader = open_statistical(paths, form, label)
    return replace(reader, options=options)


def applicable(data: Any, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of another form of a table that `data` can have.

    `thousands` and parts of texts and dates were options of earlier versions.
    """
    inapplicable = _INAPPLICABLE.get(_files_and_format(data)[1], _FILE_OPTIONS)
    gone = ("thousands", "date_parts", "text_parts", *inapplicable)
    options = {name: value for name, value in keywords.items() if name not in gone}
    if keywords.get("thousands") in (".", ","):
        options.setdefault("decimal", "," if keywords["thousands"] == "." else ".")
    return options


def _files_and_format(data: Any) -> tuple[tuple[Path, ...], str]:
    """Return the files that a path means, and their format; nothing of a frame."""
    return find_files(fsdecode(data)) if isinstance(data, str | bytes | PathLike) else ((), "")


def as_source(data: Any, **keywords: Any) -> Source:
    """Return `data` if it is a source already, else what `scan` makes of it."""
    if not isinstance(data, Source):
        if keywords.get("label") is None:  # else it would be taken for a public feature
            raise InputError("the label column of the table is missing; name it with `label`")
        return scan(data, **keywords)
    for name, value in keywords.items():
        if value is not None:
            raise InputError(f"`{name}` is settled by the source; leave it out, or pass the table")
    return data


def _suitable_rows(columns: int, rows: int | None) -> int:
    """Return the rows of a batch: many, because threads wait for each other at its ends.

    Fewer where rows are wide, so that a batch takes some ten MiB, or where a table is so
    small that threads would have no batch each.
    """
    most = min(1 << 18, (1 << 23) // max(1, columns))
    if rows is not None:
        most = min(most, max(1 << 16, rows // 8))
    return max(1 << 12, 1 << (most.bit_length() - 1))


def take_rows(
    source: Source,
    columns: Sequence[str],
    wanted: NDArray[np.int64],
    total: int | None,
    *,
    of_data: bool = False,
) -> Iterator[tuple[slice, pa.RecordBatch]]:
    """Yield the rows with these increasing numbers, with their places among the wanted ones.

    Numbers count the rows of the source or, `of_data`, those too whose label is missing. A row that
    is not there is refused and, unless `total` is None, a source of other than so many rows. Every
    batch is read, so that checks at the end of the stream are made.
    """
    start = rows = 0
    for numbers, batch, _ in source.numbered_batches(columns):
        if not of_data:
            numbers = np.arange(rows, rows + batch.num_rows)
        stop = int(np.searchsorted(wanted, numbers[-1], side="right"))
        places = np.searchsorted(numbers, wanted[start:stop])
        there = numbers[places] == wanted[start:stop]
        if not there.all():
            start += int(np.argmin(there))
            break
        if stop > start:
            yield slice(start, stop), batch.take(arrow_numbers(places))
        start, rows = stop, rows + batch.num_rows
    if start < len(wanted):
        raise DataError(
            f"the rows of the data are not those that the release names: there is no row "
            f"{wanted[start]}; give the table that it was made from"
        )
    check_rows(rows, total)


def check_rows(found: int, total: int | None) -> None:
    """Refuse a table of other rows than the total."""
    if total not in (None, found):
        raise DataError(
            f"the data have {found} rows but the release was made from {total}; give the table "
            "that it was made from"
        )
