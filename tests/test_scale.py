"""Memory does not grow with rows; time grows in line with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labeldp.datasets import write_census_like

_PROGRAM = """
import json, resource, sys, time
from labeldp import plan, scan
source = scan(sys.argv[1], label="WKSWORK1", label_range=(0, 51))
started = time.perf_counter()
made = plan(source, epsilon=1, delta=1e-6, bags=500)
made.release(source)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": time.perf_counter() - started, "mebibytes": peak}))
"""

_BAGS = """
import json, resource, sys, tempfile
from pathlib import Path
from labeldp import plan, scan, verify
path, bags = sys.argv[1], int(sys.argv[2])
source = scan(path, label="WKSWORK1", label_range=(0, 51), features=["AGE", "SEX"])
made = plan(source, mechanism="sampled-wtd-flag", epsilon=4, delta=1e-5, bags=bags, bag_size=64)
with tempfile.TemporaryDirectory() as folder:
    made.release_to(Path(folder) / "r", source)
    assert verify(Path(folder) / "r", path).valid
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"mebibytes": peak}))
"""


def measured(folder: Path, rows: int) -> dict[str, float]:
    path = folder / f"{rows}.parquet"
    write_census_like(path, rows)
    return told(_PROGRAM, str(path))


def told(program: str, *arguments: str) -> dict[str, float]:
    """What a program says in a process of its own."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def test_memory_does_not_grow_with_rows(tmp_path: Path) -> None:
    small, large = measured(tmp_path, 400_000), measured(tmp_path, 1_600_000)
    assert large["mebibytes"] < small["mebibytes"] + 60


@pytest.mark.slow
def test_twenty_million_rows_stay_under_a_gibibyte(tmp_path: Path) -> None:
    small, large = measured(tmp_path, 5_000_000), measured(tmp_path, 20_000_000)
    print(small, large)
    assert large["mebibytes"] < 1024
    assert large["seconds"] < 6 * small["seconds"]


@pytest.mark.slow
def test_many_bags_take_the_memory_of_their_rows(tmp_path: Path) -> None:
    """40,000 bags more of 64 rows: 160 bytes a row at most, and under a gibibyte in all."""
    path = tmp_path / "table.parquet"
    write_census_like(path, 4_000_000)
    few, many = (told(_BAGS, str(path), str(bags))["mebibytes"] for bags in (10_000, 50_000))
    print(few, many)
    assert many < 1024
    assert many < few + 40_000 * 64 * 160 / 2**20
