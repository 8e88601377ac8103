"""A Parquet file of a release as a table of which only what is asked for is read."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import ReleaseError
from labeldp.release.parquet import check_dense, check_size


def check_plain(path: Path) -> None:
    """Refuse what is missing, and whatever is no ordinary file: a link, a pipe, a device."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        raise ReleaseError(f"{path} is missing; the release is incomplete") from None
    if not stat.S_ISREG(mode):
        raise ReleaseError(f"{path} is no ordinary file; restore the original one")


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
        """Read the footer; a damaged file is refused, and one that would not fit memory."""
        check_plain(path)
        with _whole(path), pq.ParquetFile(path) as file:
            check_size(path, file.metadata)
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

    def dense(self) -> pa.Table:
        """All rows of a table without gaps, which cannot be much larger than its file."""
        check_dense(self.path, self.num_rows * len(self.schema))
        return self.read()

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
    except UnicodeError:
        raise ReleaseError(f"{path} is damaged: a name in it is not UTF-8") from None
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise ReleaseError(f"{path} is damaged: {reason}") from None
