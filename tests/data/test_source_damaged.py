"""Files that are damaged in their middle, small files that ask for much, numbers at the far end."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import DataError, look, plan, scan, verify
from tests.extras import extra
from tests.tables import RANGE, table

SAID = {"label": "label", "label_range": RANGE}


def test_packed_text_damaged_anywhere(tmp_path: Path) -> None:
    rows = "".join(f"{k},{k * k},{k % 7}\n" for k in range(400))
    packed = gzip.compress(f"a,b,label\n{rows}".encode())
    path = tmp_path / "t.csv.gz"
    for place in range(20, len(packed) - 8, 7):
        path.write_bytes(packed[:place] + bytes([packed[place] ^ 0x5A]) + packed[place + 1 :])
        with pytest.raises(DataError):
            plan(path, 1, force=True, **SAID).release(path)


def test_offsets_of_an_arrow_file_that_point_elsewhere(tmp_path: Path) -> None:
    """Arrow itself would follow them out of the file."""
    path, data = tmp_path / "t.arrow", table(50)
    with pa.ipc.new_file(path, data.schema) as file:
        file.write_table(data)
    content = path.read_bytes()
    offsets = data["colour"].chunk(0).buffers()[1].to_pybytes()
    place = content.index(offsets[:40])
    wrong = np.frombuffer(offsets[:40], np.int32) + 2**30
    path.write_bytes(content[:place] + wrong.tobytes() + content[place + 40 :])
    for act in (lambda: look(path, drop=["label"]), lambda: plan(path, 1, force=True, **SAID)):
        with pytest.raises(DataError, match="is not a complete Arrow IPC file"):
            act()


def test_a_lone_cell_at_the_end_of_a_sheet(tmp_path: Path) -> None:
    Workbook = extra("openpyxl").Workbook

    book = Workbook()
    for row in (["a", "label"], [1, 2], [3, 4], [4, 4], [7, 5]):
        book.active.append(row)
    book.active["XFD1048576"] = 1
    book.save(tmp_path / "t.xlsx")
    before = time.process_time()
    assert scan(tmp_path / "t.xlsx", **SAID).total_rows == 4
    assert time.process_time() - before < 10


def test_numbers_at_the_far_end_are_refused_by_look_too() -> None:
    with pytest.raises(DataError, match="column 'a' holds numbers beyond 1e290; rescale it"):
        look({"a": [1e308, -1e308] * 20, "b": list(range(40))})


def test_labels_at_the_far_end() -> None:
    told = look({"a": [0.5 * k for k in range(40)], "y": [1e300, np.inf, 3.0, 4.0] * 10}, label="y")
    assert told["label"]["unreadable"]


def test_half_floats(tmp_path: Path) -> None:
    data = {"a": (np.arange(400) % 37 / 2).astype(np.float16), "y": range(400)}
    pq.write_table(pa.table(data), tmp_path / "t.parquet")
    assert look(tmp_path / "t.parquet")["columns"][0]["kind"] == "number"


def test_a_table_of_other_sizes_is_not_that_of_a_release(tmp_path: Path) -> None:
    data = table(300)
    plan(data, 1, force=True, **SAID).release(data).save(tmp_path / "r")
    far = data.set_column(0, "height", pa.array(np.linspace(1e200, 2e200, 300)))
    report = verify(tmp_path / "r", far)
    assert not report.valid
    assert "far outside the range" in report.problems[0]
