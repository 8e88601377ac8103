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


def measured(folder: Path, rows: int) -> dict[str, float]:
    path = folder / f"{rows}.parquet"
    write_census_like(path, rows)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(path)], capture_output=True, text=True, check=True
    )
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
