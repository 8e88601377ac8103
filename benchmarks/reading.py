"""Reading a table and nothing else: what every other time is measured against."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq


def read(path: Path) -> None:
    """Decode every column, batch by batch."""
    for _ in pq.ParquetFile(path, memory_map=True).iter_batches(batch_size=65_536):
        pass


def read_whole(path: Path) -> None:
    """Decode every column into one table in memory, as most people would."""
    pq.read_table(path)
