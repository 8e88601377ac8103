"""What is known of a table, and how it reads with that: each finding may make it read otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.reading import Reading
from labeldp.data.source import Source, scan
from labeldp.doctor.column import decoded
from labeldp.errors import InputError
from labeldp.features.grid import check_size

MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class Known:
    """Keywords of `scan` that suit a table: those that were said, and those that were found."""

    label: str | None
    drop: tuple[str, ...]
    categorical: tuple[str, ...]
    numeric: tuple[str, ...]
    text: Mapping[str, Any]
    """About its text."""

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """Those about its columns."""
        return {"drop": self.drop, "categorical": self.categorical, "numeric": self.numeric}

    @property
    def reading(self) -> Reading:
        """Those about its text, checked."""
        return Reading.of(self.text, named=() if self.label is None else (self.label,))

    def with_missing(self, words: Iterable[str]) -> Known:
        """The same, and these texts mean missing."""
        more = dict.fromkeys((*(self.text.get("na") or ()), *words))
        return replace(self, text={**self.text, "na": tuple(more)}) if more else self


@dataclass(frozen=True)
class View:
    """A table as it reads with what is known of it: its features, or a million rows of them."""

    data: Any
    known: Known
    source: Source
    table: pa.Table

    @classmethod
    def of(cls, data: Any, known: Known) -> View:
        """Read the table."""
        kinds: dict[str, Any] = {**known.kinds}
        source = scan(data, label=known.label, **kinds, **known.text)
        if source.reader.engine is not None:
            raise InputError(
                "look reads a table here; pass some rows of it, such as limit(100_000)"
            )
        return cls(data, known, source, _rows(source))

    def reread(self, known: Known) -> View:
        """As it reads with what is known now."""
        return self if known == self.known else View.of(self.data, known)


def _rows(source: Source) -> pa.Table:
    batches, rows = [], 0
    for batch in source.feature_batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    columns = [
        pa.chunked_array([decoded(batch.column(k)) for batch in batches])
        for k in range(len(source.names))
    ]
    for name, column in zip(source.names, columns, strict=True):
        if pa.types.is_floating(column.type):
            ends = pc.min_max(column)
            check_size(ends["min"].as_py() or 0.0, ends["max"].as_py() or 0.0, name)
    return pa.table(columns, names=list(source.names))
