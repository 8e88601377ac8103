"""What is installed but not needed is not imported: it would cost every command its start-up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tests.tables import table

_PROGRAM = """
import json, sys
from labeldp import plan, scan, verify
path, folder = sys.argv[1:]
source = scan(path, label="label", label_range=(0, 10))
made = plan(source, epsilon=1, delta=1e-4)
made.release_to(folder, source)
assert verify(folder, path).valid
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_a_release_of_a_parquet_file_imports_no_extra(tmp_path: Path) -> None:
    pq.write_table(table(2000), tmp_path / "rows.parquet")
    program = [sys.executable, "-c", _PROGRAM, str(tmp_path / "rows.parquet"), str(tmp_path / "r")]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    imported = set(json.loads(done.stdout))
    assert {"pyarrow", "randomgen"} <= imported
    heavy = {"pandas", "polars", "duckdb", "matplotlib", "torch", "pyspark", "numba", "sklearn"}
    assert not heavy & imported
