"""`scan`: say what a table holds; `Source`: read it, features apart from labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import numpy_numbers
from labeldp.common.arguments import checked
from labeldp.data.columns import Column, column_of, is_usable
from labeldp.data.delimited import DelimitedReader
from labeldp.data.files import FileState, joined, state_of
from labeldp.data.labels import LabelCheck, check_label_type, present, to_labels
from labeldp.data.opening import open_table, ready
from labeldp.data.parts import SEASONS, split_part
from labeldp.data.persons import check_person_type, with_person_hashes
from labeldp.data.protocol import Reader, Wanted
from labeldp.data.reading import Reading, Told
from labeldp.data.roles import check_codes, check_names, check_once, chosen, with_parts
from labeldp.data.spelling import Wording
from labeldp.errors import DataError, InputError, ordered

_MOST_ROWS = 1 << 20  # sums over one batch of 20-bit codes then fit 64 bits with room to spare
_FEWEST_ROWS, _FEW_ROWS, _MANY_ROWS = 1 << 12, 1 << 16, 1 << 18
_BATCH_NUMBERS = 1 << 23


@dataclass(frozen=True)
class Source:
    """A table with public features and, if a label column is named, private labels.

    Every field that is printed is public. The data themselves stay behind `reader`; labels
    leave it only through `labelled_batches`. Each call reads the data afresh.
    """

    columns: tuple[Column, ...]
    label: str | None
    label_range: tuple[float, float] | None
    clip: bool
    drop_missing_labels: bool
    batch_rows: int
    reader: Reader = field(repr=False, compare=False)
    person: str | None = None
    """The column that says whose a row is; batches hold marks in its place."""
    wording: Wording = field(default_factory=Wording, repr=False, compare=False)
    """How text is read, as it was found from the features."""
    seen: tuple[FileState, ...] | None = field(default=None, repr=False, compare=False)
    """Its files when it was first looked at: what was found out holds of these."""
    reading: Reading = field(default_factory=Reading, repr=False, compare=False)
    """What was said about its text."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the feature columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the spelling of the table, for people."""
        return self.wording.notes

    @property
    def said(self) -> dict[str, Any]:
        """What was said about its labels and its text, for `scan` of the same table again."""
        label = {name: getattr(self, name) for name in ("label", "clip", "drop_missing_labels")}
        return label | self.reading.said

    @property
    def total_rows(self) -> int | None:
        """Rows in the data before `drop_missing_labels` removes any; None if not known yet."""
        return self.reader.rows

    def rows_left_out(self, rows: int) -> int | None:
        """Return how many rows have no label, if `rows` of them have one; None: none may lack it.

        What `drop_missing_labels` leaves out is visible anyway; here it is counted.
        """
        return self.reader.count_rows() - rows if self.drop_missing_labels else None

    @property
    def numbered(self) -> bool:
        """Whether rows have numbers; where they are read on several machines they have none."""
        return self.reader.engine is None

    def feature_batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the feature columns (or some of them) in file order; labels are not read.

        Where there are persons a last column marks whose the rows are (`persons.py`).
        With `drop_missing_labels` the label column is read for one purpose: to leave out rows
        whose label is missing. Which labels are missing then shows in the rows that remain;
        that is the choice this option makes.
        """
        for _, batch, _ in self.numbered_batches(columns):
            yield batch

    def labelled_batches(
        self, check: LabelCheck | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, NDArray[np.float64]]]:
        """Yield features with labels as float64, row by row the rows of `feature_batches`.

        Labels outside `label_range` (unless `clip`), missing labels (unless
        `drop_missing_labels`) and infinite labels are refused with a DataError after the last
        batch; use nothing from this iterator unless it ends. Whoever reads the table in
        `parts` gives all of them one `check` and finishes it after the last.
        """
        names = self._columns(columns)
        for batch, labels in self._with_labels(names, check):
            yield batch.select(range(len(names))), labels

    def numbered_batches(
        self, columns: Sequence[str] | None = None, check: LabelCheck | None = None
    ) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch, NDArray[np.float64] | None]]:
        """Yield features with the numbers of their rows in the data, where every row counts.

        With `check` labels too, as in `labelled_batches`; it is the caller's to finish.
        """
        names = self._columns(columns)
        for numbers, batch in self._kept(names, labelled=check is not None):
            labels = None if check is None else self._cleaned(batch, check)
            yield numbers, batch.select(range(len(names))), labels

    def labels(self, check: LabelCheck) -> Iterator[NDArray[np.float64]]:
        """Yield the labels alone, of the same rows; `check` is the caller's to finish."""
        for _, labels in self._with_labels([], check):
            yield labels

    def label_check(self) -> LabelCheck:
        """What checks the labels of one pass."""
        label, (low, high) = self._needs_label()
        return LabelCheck(label, low, high, self.clip, self.total_rows)

    def state(self) -> tuple[FileState, ...] | None:
        """To see later whether the files are still the same; None: they may change unseen."""
        return state_of(self.reader.paths)

    def parts(self) -> tuple[Source, ...]:
        """The same table in pieces, in order, that can be read at the same time."""
        return tuple(replace(self, reader=reader) for reader in self.reader.units())

    def stored(self) -> Source:
        """Every row and every column but the label, as they are stored: all of them features."""
        reader = self.reader.stored()
        fields = [
            each for each in reader.schema if each.name != self.label and is_usable(each.type)
        ]
        return replace(
            self,
            columns=tuple(Column(each.name, "categorical", str(each.type)) for each in fields),
            label=None,
            label_range=None,
            drop_missing_labels=False,
            person=None,
            reader=reader,
            wording=reader.wording,
        )

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        """Feature columns to read, and last the one that says whose a row is."""
        names = list(self.names if columns is None else columns)
        return names if self.person is None else [*names, self.person]

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        batches = joined(self.reader.batches(names, self.batch_rows), self.batch_rows)
        person = self.person
        if person is None or person not in names:
            return batches
        return (with_person_hashes(batch, person) for batch in batches)

    def _with_labels(
        self, names: list[str], shared: LabelCheck | None
    ) -> Iterator[tuple[pa.RecordBatch, NDArray[np.float64]]]:
        check = shared or self.label_check()
        for _, batch in self._kept(names, labelled=True):
            yield batch, self._cleaned(batch, check)
        if shared is None:
            check.finish()

    def _kept(
        self, names: list[str], *, labelled: bool
    ) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """Rows that are not dropped, and their numbers; a label is the last column."""
        dropping, first = self.drop_missing_labels and self.label is not None, 0
        label = [self._needs_label()[0]] if labelled else [self.label or ""] * dropping
        for batch in self._batches([*names, *label]):
            numbers = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            if dropping:
                there = present(batch.column(len(names)), self.wording)
                batch, numbers = batch.filter(there), numbers[numpy_numbers(there)]
            if len(numbers):
                yield numbers, batch

    def _cleaned(self, batch: pa.RecordBatch, check: LabelCheck) -> NDArray[np.float64]:
        """The labels, which stand in the last column."""
        return check.clean(*to_labels(batch.column(batch.num_columns - 1), self.wording))

    def _needs_label(self) -> tuple[str, tuple[float, float]]:
        if self.label is None:
            raise InputError("labels are needed here; name the label column (`label`)")
        if self.label_range is None:
            raise InputError(
                f"label column {self.label!r} needs a public range, chosen without looking at the "
                f"labels (`label_range`)"
            )
        return self.label, self.label_range


@checked
def scan(
    data: Any,
    *,
    label: str | None = None,
    label_range: tuple[float, float] | None = None,
    person: str | None = None,
    features: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    drop: Sequence[str] = (),
    clip: bool = False,
    drop_missing_labels: bool = False,
    batch_rows: int | None = None,
    **text: Unpack[Told],
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
    person
        the column of ids, integers or text, that says whose a row is: a guarantee then covers all
        rows of a person together. No feature, and never published.
    features
        the columns to use, in this order; all but the label by default. A stored pandas index,
        unnamed columns and those that turn out to be ids are left out unless named here.
    categorical
        columns whose values are names, whatever their type.
    numeric
        columns whose values are quantities, whatever their type.
    drop
        columns to leave out.
    clip
        move labels outside the range to its nearest end instead of refusing them.
    drop_missing_labels
        leave out rows without a label, or with a word for one, instead of refusing them; which
        labels are missing becomes public through the rows that remain.
    batch_rows
        rows per batch, by default a number that suits the table; changes memory and speed, never a
        result.
    delimiter, encoding, decimal, thousands
        how a text file is spelt; by default found out from its header and its features, never from
        labels, and said in `notes`.
    skip_lines, skip_footer
        how many lines of a text or Excel file stand above its header and below its last row; by
        default titles, remarks, totals and empty lines are found out, and said in `notes`.
    na
        texts that mean missing, besides the usual ones ("NA", "null", …), in every column or, as in
        "age=999", in one ("age=*": all that is no number there); an empty list: only empty cells.
    date_format
        the format of dates (as strptime has it) where it is none that is found out.
    date_parts
        dates of which year, month and weekday become columns as well.
    text_parts
        numbers and words within texts that become columns in their place: "BP:number1" and
        "BP:number2" of 120/80, "Result:word1" of W 3–1.
    spelt
        how columns were spelt when features were fitted (`FeatureMap.spelt`).

    Returns
    -------
    Source
        What `plan`, `inspect` and learners read; nothing but headers has been read yet, and of text
        as much as tells numbers from names.

    Raises
    ------
    DataError
        the file, a column or a row is not what was said.
    InputError
        an argument is wrong.

    Examples
    --------
    >>> import labeldp
    >>> table = {"age": [30, 40, 50], "town": ["A", "B", "A"], "income": [1.0, 2.0, 3.0]}
    >>> labeldp.scan(table, label="income", label_range=(0, 10)).names
    ('age', 'town')
    """
    named = tuple(filter(None, (label, person, *(features or ()))))
    reading = Reading.of(text, private=label, named=named)
    if batch_rows is not None and not 1 <= batch_rows <= _MOST_ROWS:
        raise InputError(f"`batch_rows` must be 1 to {_MOST_ROWS}, not {batch_rows}")
    limits = _range(label_range)
    reader = open_table(data, reading)
    reading = replace(reading, columns=tuple(reader.schema.names))
    seen = state_of(reader.paths)
    if reading.skip_lines and label is not None and label not in reader.schema.names:
        # what stands there may be a row, and is not shown
        raise DataError(
            f"there is no column {label!r} in the line below `skip_lines`={reading.skip_lines}; "
            f"correct `skip_lines`"
        )
    taken = {"label": label, "person": person}
    parts = reading.date_parts, reading.text_parts
    known = with_parts(reader.schema.names, (label, person), (*(features or ()), *parts[1]))
    check_names(known, taken, features, categorical, numeric, drop, *parts)
    check_codes(reader.schema.names, reading.strange)
    if isinstance(reader, DelimitedReader):
        check_once(taken, reader.repeated)
    if drop_missing_labels and label is None:
        raise InputError("`drop_missing_labels` needs a label column (`label`)")
    if label is not None:
        check_label_type(reader.schema.field(label))
    if person is not None:
        check_person_type(reader.schema.field(person))
    names = chosen(reader.schema.names, (label, person), features, drop, *parts)
    request = Wanted(names, numeric, categorical, reading)
    reader = ready(reader, request)
    if reader.rows == 0:
        raise DataError(f"the {reader.format} data have no rows; nothing can be learnt from them")
    columns = tuple(_column(reader, name, request, name in (features or ())) for name in names)
    batch_rows = batch_rows or _suitable_rows(len(columns), reader.rows)
    return Source(
        columns,
        label,
        limits,
        clip,
        drop_missing_labels,
        batch_rows,
        reader,
        person,
        reader.wording,
        seen,
        reading,
    )


def as_source(data: Any, **said: Any) -> Source:
    """`data` if it is a source already, else what `scan` makes of it and of what is said."""
    if not isinstance(data, Source):
        if said.get("label") is None:  # else it would be taken for a public feature
            raise InputError("a table needs its private column named here; give `label`")
        return scan(data, **said)
    for name, value in said.items():
        if value is not None:
            raise InputError(f"`{name}` is settled by the source; leave it out, or pass the table")
    return data


def _column(reader: Reader, name: str, request: Wanted, wanted: bool) -> Column:
    """Numbers with units or separators are quantities; months and weekdays are not."""
    spelling = reader.wording.spellings.get(name)
    quantity = spelling is not None and spelling.way == "numbers"
    numeric, categorical = name in request.numeric, name in request.categorical
    season = split_part(name)[1] in SEASONS and not numeric
    return column_of(
        reader.schema.field(name),
        numeric=numeric or (quantity and not categorical),
        categorical=categorical or season,
        wanted=wanted,
    )


def _suitable_rows(columns: int, rows: int | None) -> int:
    """Rows of a batch: threads hand over to each other at its ends, which many rows make rare.

    Fewer where rows are wide, so that a batch takes some ten MiB, or where a table is so
    small that threads would have no batch each.
    """
    share = _MOST_ROWS if rows is None else max(_FEW_ROWS, rows // 8)
    most = min(_MANY_ROWS, share, _BATCH_NUMBERS // max(1, columns))
    return max(_FEWEST_ROWS, 1 << (most.bit_length() - 1))


def _range(label_range: tuple[float, float] | None) -> tuple[float, float] | None:
    if label_range is None:
        return None
    ordered(*label_range, "label_range")
    return label_range
