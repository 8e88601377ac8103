"""Neighbouring tables of a user's public features, with labels that are made up.

No label of the table is read: others take their place as it is read, so that every engine and every
mechanism sees an ordinary table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.data.persons import read_person_hashes
from labeldp.data.readers import TableReader
from labeldp.data.source import Source
from labeldp.errors import InputError
from labeldp.planning import Plan
from labeldp.sampling.streams import public_stream
from labeldp_paper.audit.audit_spec import AuditSpec

Reals = NDArray[np.float64]
Rows = NDArray[np.intp]

FLAT, ENDS = "flat", "ends"
"""Made-up labels: all at the low end, so that features explain all of them; each at one end."""


@dataclass(frozen=True, kw_only=True)
class Imagined(TableReader):
    """A reader that reads features, and gives made-up labels."""

    inner: TableReader = field(repr=False)
    label: str
    labels: Reals = field(repr=False)
    first: int = 0

    @classmethod
    def of(cls, inner: TableReader, label: str, labels: Reals) -> Imagined:
        """Take all but the labels from another reader."""
        schema = inner.schema
        place = schema.get_field_index(label)
        return cls(
            stored_schema=schema.set(place, pa.field(label, pa.float64())),
            format=inner.format,
            paths=inner.paths,
            rows=inner.rows,
            notes=inner.notes,
            inner=inner,
            label=label,
            labels=labels,
        )

    def stored_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns; the place of a label is counted from the first row."""
        there = [name for name in columns if name != self.label]
        some = there or [next(n for n in self.inner.schema.names if n != self.label)]
        first = self.first
        for batch in self.inner.batches(some, batch_rows):
            labels = arrow_numbers(self.labels[first : first + batch.num_rows])
            first += batch.num_rows
            known = dict(zip(some, batch.columns, strict=True)) | {self.label: labels}
            yield pa.RecordBatch.from_arrays([known[name] for name in columns], names=list(columns))

    def units(self) -> tuple[Imagined, ...]:
        """The reader's, each of which knows how many rows it has; or one."""
        units = self.inner.units()
        if len(units) == 1:
            return (replace(self, inner=units[0]),)
        starts = np.cumsum([0, *(unit.rows or 0 for unit in units)])
        each = partial(replace, self)
        return tuple(
            each(inner=unit, rows=unit.rows, first=self.first + int(start))
            for unit, start in zip(units, starts, strict=False)
        )


def imagined(source: Source, labels: Reals) -> Source:
    """The table with these labels; no row is dropped, since that would be seen from the others."""
    if source.reader.on_cluster:
        raise InputError("an audit reads the table here; give it a file or a frame, not Spark's")
    if source.label is None or source.label_range is None:
        raise InputError("an audit needs the label's name and range; give `label`, `label_range`")
    reader = Imagined.of(source.reader, source.label, labels)
    return replace(source, reader=reader, clip=False, drop_missing_labels=False)


def relabelled(source: Source, labels: Reals) -> Source:
    """A table whose labels are made up already, with others."""
    assert isinstance(source.reader, Imagined)
    return replace(source, reader=replace(source.reader, labels=labels))


def made_up(kind: str, rows: int, label_range: tuple[float, float], seed: int) -> Reals:
    """Labels of a kind."""
    low, high = label_range
    if kind == FLAT:
        return np.full(rows, low)
    return public_stream(str(seed), "audit").choice([low, high], rows)


@dataclass(frozen=True)
class Worst:
    """The rows that are covered together and move most; the first of them, if several do."""

    rows: Rows = field(repr=False)
    moves: float
    """In the measure of the mechanism (`AuditSpec.moves`)."""
    most: float
    """Of that, as it is priced."""

    @property
    def priced(self) -> bool:
        return self.moves <= self.most * (1 + 1e-9)


def worst_rows(plan: Plan, spec: AuditSpec, source: Source) -> Worst:
    """Of one row, or of a person; looked for in plain floating point."""
    batches = partial(source.feature_batches, plan.features.columns)
    encoded = (plan.features.integers(plan.features.encode(batch)) for batch in batches())
    each = spec.moves(plan, encoded)
    marks = [whose for batch in batches() if (whose := read_person_hashes(batch)) is not None]
    if not marks:
        place = int(np.argmax(each))
        return Worst(np.array([place]), float(each[place]), spec.most(plan))
    _, person = np.unique(np.concatenate(marks), return_inverse=True)
    sums = np.bincount(person, each)
    worst = int(np.argmax(sums))
    return Worst(np.flatnonzero(person == worst), float(sums[worst]), spec.most(plan))


def with_labels(labels: Reals, rows: Rows, value: float) -> Reals:
    """The same, with one value in these rows."""
    changed = labels.copy()
    changed[rows] = value
    return changed
