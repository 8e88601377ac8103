"""Spark Connect: a data frame of a remote session is read like any other."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.passes.conftest import REASON
from tests.test_docs import ROOT

PROGRAM = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from labeldp import scan
from labeldp.sampling.streams import Randomness
from tests.plans import plan
from tests.tables import RANGE, table

builder = SparkSession.builder.remote("local[2]")
for name in ("spark.driver.host", "spark.driver.bindAddress"):
    builder = builder.config(name, "127.0.0.1")
spark = builder.config("spark.log.level", "OFF").getOrCreate()
here, there = table(300), spark.createDataFrame(table(300))
options = dict(epsilon=2, delta=1e-3, accountant="exact-worst-case", floor="added", bags=20)
releases = []
for data in (here, there):
    source = scan(data, label="label", label_range=RANGE)
    made = plan(source, **options)
    releases.append(made.release(source, randomness=Randomness.experiment(3)))
ours, theirs = releases
print(json.dumps({
    "type": type(there).__module__, "table": ours.table.equals(theirs.table),
    "certificate": ours.certificate == theirs.certificate,
}))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.skipif(REASON is not None, reason=str(REASON))
def test_a_remote_data_frame_is_released_to_the_same_bytes() -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pip install 'pyspark[connect]'")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"type": "pyspark.sql.connect.dataframe", "table": True, "certificate": True}
