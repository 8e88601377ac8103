"""Every byte of a Parquet file: a file of our version has those that its table is written in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import ReleaseError
from labeldp.releases import tables
from labeldp.releases.tables import METADATA_KEY, WRITING, check_form, table_digest, unchecked_bytes

OURS = f"version {pa.cpp_version}".encode()
TEXT = "certificate"
OTHER = b"version 20.0.0"
GAPS = [None if k % 7 == 3 else k for k in range(61)]
COLUMNS = {
    "numbers": pa.array(range(61), pa.float64()),
    "gaps": pa.array(GAPS, pa.float64()),
    "mostly gaps": pa.array([1, *[None] * 60], pa.int32()),
    "truths": pa.array([k % 3 == 0 for k in range(61)]),
    "truths with gaps": pa.array([None if g is None else g % 2 == 0 for g in GAPS]),
    "texts": pa.array(["a" * (k % 5) for k in range(61)]),
    "texts with gaps": pa.array([None if g is None else str(g) for g in GAPS]),
}


def write(table: pa.Table, path: Path, rows: int | None = None, compression: str = "none") -> Path:
    with pq.ParquetWriter(path, table.schema, **WRITING | {"compression": compression}) as file:
        file.write_table(table, rows)
        file.add_key_value_metadata({METADATA_KEY: b"certificate"})
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two row groups of two columns, the larger of three rows."""
    table = pa.table({"x": pa.array([1.0, 2.0, 3.0, 2.0, 3.0]), "y": pa.array([5, 6, 7, 6, 7])})
    return write(table, tmp_path / "t.parquet", 3)


def is_told(path: Path, honest: str) -> bool:
    """Whether a changed file is refused, or has another table, which its digest tells."""
    try:
        stored = tables.StoredTable.open(path)
        check_form(path, TEXT)
        return unchecked_bytes(path) is not None or table_digest(stored) != honest
    except ReleaseError:
        return True


@pytest.mark.parametrize("compression", ["snappy", "none"])
@pytest.mark.parametrize("name", COLUMNS)
def test_no_byte_is_free(name: str, compression: str, tmp_path: Path) -> None:
    """Readers skip a good part of a file: a byte there for each label would leave with it."""
    array = COLUMNS[name]
    schema = pa.schema([pa.field("x", array.type, nullable=name != "numbers")])
    path = write(pa.table([array], schema), tmp_path / "t.parquet", 40, compression)
    check_form(path, TEXT)
    assert unchecked_bytes(path) is None
    content, honest = path.read_bytes(), table_digest(tables.StoredTable.open(path))
    version, text = content.rindex(OURS), content.rindex(b"certificate")
    free = []
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        free += [] if is_told(path, honest) else [place]
    # Another version may write the same bytes; the text is compared with the certificate.
    assert set(free) <= {*range(version, version + len(OURS)), *range(text, text + 11)}


@pytest.mark.parametrize("more", [b"\0", b"label"])
def test_there_is_no_room_for_more(more: bytes, file: Path) -> None:
    content, honest = file.read_bytes(), table_digest(tables.StoredTable.open(file))
    for place in range(len(content) + 1):
        file.write_bytes(content[:place] + more + content[place:])
        assert is_told(file, honest), place
    for place in range(len(content)):
        file.write_bytes(content[:place] + content[place + 1 :])
        assert is_told(file, honest), place


def test_nothing_stands_between_two_footers(file: Path) -> None:
    """Readers begin at the last footer, which is that of the table before what it hides."""
    content = file.read_bytes()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") :]
    file.write_bytes(content + b"labels" + footer)
    assert pq.read_table(file)["x"].to_pylist() == [1.0, 2.0, 3.0, 2.0, 3.0]
    with pytest.raises(ReleaseError, match="other bytes than its table is written in"):
        check_form(file, TEXT)


def test_a_gap_that_the_footer_allows_for_is_noticed(file: Path) -> None:
    """The columns of the second group stand where it says, ten bytes behind those of the first."""
    content = file.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    starts = [pq.read_metadata(file).row_group(1).column(k).data_page_offset for k in (0, 1)]
    moved = content[footer:]
    for start in starts:
        old, new = (
            bytes([2 * start & 127 | 128, start >> 6]),
            bytes([2 * (start + 10) & 127 | 128, (start + 10) >> 6]),
        )
        assert old in moved
        moved = moved.replace(b"\x26" + old, b"\x26" + new)
    file.write_bytes(content[: starts[0]] + b"ten labels" + content[starts[0] : footer] + moved)
    assert pq.read_table(file)["x"].to_pylist() == [1.0, 2.0, 3.0, 2.0, 3.0]
    with pytest.raises(ReleaseError, match="other bytes than its table is written in"):
        check_form(file, TEXT)


def test_pages_of_another_size_are_noticed(tmp_path: Path) -> None:
    """Where pages end could say something."""
    table = pa.table({"x": np.random.default_rng(0).normal(size=200_000)})
    with pq.ParquetWriter(tmp_path / "t", table.schema, **WRITING, data_page_size=10_000) as writer:
        writer.write_table(table, len(table))
        writer.add_key_value_metadata({METADATA_KEY: TEXT.encode()})
    with pytest.raises(ReleaseError, match="other bytes than its table is written in"):
        check_form(tmp_path / "t", TEXT)


def test_batches_of_any_size_make_the_same_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = pa.array([None if k % 7 == 0 else "ab" * (k % 5) for k in range(400_000)])
    data = pa.table({"x": rng.normal(size=400_000), "t": texts, "b": rng.random(400_000) < 0.5})
    contents = set()
    for size in (400_000, 65_536, 777):
        parts = pa.Table.from_batches(data.to_batches(max_chunksize=size))
        contents.add(write(parts, tmp_path / "t", 150_000).read_bytes())
    assert len(contents) == 1
    check_form(tmp_path / "t", TEXT)


@pytest.mark.parametrize("last", [True, False])
def test_a_key_of_metadata_stands_there_once(last: bool, tmp_path: Path) -> None:
    """Readers see one of the values; the other could be anything."""
    path, key = tmp_path / "t.parquet", METADATA_KEY.decode()
    other = "x" * len(key)
    table = pa.table({"x": [1.0, 2.0]})
    with pq.ParquetWriter(path, table.schema, **WRITING) as file:
        file.write_table(table)
        for name in (other, key) if last else (key, other):
            file.add_key_value_metadata({name: TEXT})
    with pytest.raises(ReleaseError, match="other metadata than the certificate"):
        check_form(path, TEXT)
    path.write_bytes(path.read_bytes().replace(other.encode(), key.encode()))
    assert list(pq.read_metadata(path).metadata) == [key.encode()]
    with pytest.raises(ReleaseError, match="other bytes than its table is written in"):
        check_form(path, TEXT)


def test_metadata_of_a_column_is_noticed(tmp_path: Path) -> None:
    """An id of a field has 32 bits for every column."""
    field = pa.field("x", pa.float64(), metadata={"PARQUET:field_id": "7"})
    path = write(pa.table([pa.array([1.0])], pa.schema([field])), tmp_path / "t.parquet")
    with pytest.raises(ReleaseError, match="other bytes than its table is written in"):
        check_form(path, TEXT)


# --- other versions of pyarrow -------------------------------------------------------------------


def test_what_another_version_wrote_alike_is_checked_as_well(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(OURS, OTHER))
    check_form(file, TEXT)
    assert unchecked_bytes(file) is None


def before_the_footer(content: bytes) -> bytes:
    place = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    return content[:place] + b"the labels are 1 2 3" + content[place:]


@pytest.mark.parametrize("change", [before_the_footer, lambda content: b"LABL" + content[4:]])
def test_other_bytes_of_another_version_are_not_checked(
    change: Callable[[bytes], bytes], file: Path
) -> None:
    file.write_bytes(change(file.read_bytes().replace(OURS, OTHER)))
    check_form(file, TEXT)
    assert unchecked_bytes(file) == (
        "whether t.parquet carries anything beside its table: pyarrow 20.0.0 wrote it, and only "
        "that version can tell (pip install pyarrow==20.0.0, then verify again)"
    )


@pytest.mark.parametrize(
    "option",
    [
        {"write_statistics": True},
        {"write_page_index": True},
        {"use_dictionary": True},
        {"compression": "zstd"},
        {"store_schema": True},
        {"sorting_columns": [pq.SortingColumn(0)]},
        {"column_encoding": "BYTE_STREAM_SPLIT"},
    ],
    ids=str,
)
def test_what_other_readers_trust_is_refused_of_any_version(
    option: dict[str, object], tmp_path: Path
) -> None:
    table = pa.table({"x": [1.0, 2.0]})
    with pq.ParquetWriter(tmp_path / "t", table.schema, **WRITING | option) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA_KEY: TEXT.encode()})
    content = (tmp_path / "t").read_bytes()
    (tmp_path / "t").write_bytes(content.replace(OURS, OTHER))
    with pytest.raises(ReleaseError, match="not as labeldp writes Parquet files"):
        check_form(tmp_path / "t", TEXT)


@pytest.mark.parametrize("version", [b"2.0.0.1", b"26.0.1\n", b"260001", b"26.0.x"])
def test_a_version_has_few_digits(version: bytes, file: Path) -> None:
    """Digits could stand for labels."""
    version = version.ljust(len(pa.cpp_version), b"1")[: len(pa.cpp_version)]
    file.write_bytes(file.read_bytes().replace(OURS, b"version " + version))
    if tables._WRITER.fullmatch(f"parquet-cpp-arrow version {version.decode()}") is None:
        with pytest.raises(ReleaseError, match="another program wrote it"):
            check_form(file, TEXT)


# --- sizes ---------------------------------------------------------------------------------------


def test_a_row_group_that_exceeds_memory_is_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_MOST_NUMBERS", 6)
    assert tables.StoredTable.open(file).num_rows == 5
    monkeypatch.setattr(tables, "_MOST_NUMBERS", 5)
    with pytest.raises(ReleaseError, match="has 3 rows in a group, too many to read"):
        tables.StoredTable.open(file)


MEASURED = """
import resource, sys
from pathlib import Path
from labeldp.releases.tables import check_form
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
check_form(Path(sys.argv[1]), "certificate")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10)
"""


def test_a_table_is_compared_one_row_group_at_a_time(tmp_path: Path) -> None:
    """160 MB in row groups of 8 MB."""
    table = pa.table({"x": np.arange(2e7)})
    path = write(table, tmp_path / "t.parquet", 1_000_000)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 80
