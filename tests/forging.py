"""Writing Parquet files of a release, as the package does and as others would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.releases.tables import WRITING


def write(table: pa.Table, path: Path, rows: int | None = None, **writing: Any) -> None:
    """The table with its metadata in our form, or with other options of the writer."""
    metadata = table.schema.metadata or {}
    with pq.ParquetWriter(path, table.schema, **WRITING | writing) as file:
        file.write_table(table, rows)
        file.add_key_value_metadata({name.decode(): text for name, text in metadata.items()})
