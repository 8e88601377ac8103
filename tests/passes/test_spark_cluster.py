"""Executors that are processes of their own: they are killed, run tasks twice, or lack packages."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.passes.conftest import REASON
from tests.test_docs import ROOT

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def run(master: str, place: Path, *scenes: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the program found, and Spark's log of events."""
    program = [sys.executable, "-m", "tests.passes.on_a_cluster", master, str(place), *scenes]
    done = subprocess.run(program, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (log,) = (place / "events").iterdir()
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return json.loads(done.stdout), events


def assert_alike(found: dict[str, Any], local: dict[str, Any]) -> None:
    assert found == {name: local[name] for name in found}


@pytest.mark.slow
def test_executors_of_their_own_give_the_same_bytes(tmp_path: Path) -> None:
    found, events = run("local-cluster[2,1,1024]", tmp_path, "layouts")
    assert len(found["layouts"]) == 4
    for answers in found["layouts"].values():
        assert_alike(answers, found["local"])
    workers = {event["Executor ID"] for event in events if "ExecutorAdded" in event["Event"]}
    assert len(workers) == 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone cluster of two workers that believe to be on two machines.

    Spark runs the duplicate of a task on another machine only, so that the workers of
    `local-cluster`, all of one address, never get one.
    """
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"

    def start(role: str, host: str, *options: str) -> subprocess.Popen[bytes]:
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{role}", "--host", host]
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": host}
        return subprocess.Popen(
            [*command, "--webui-port", "0", *options], env=environment, stderr=subprocess.DEVNULL
        )

    running = [start("master.Master", "127.0.0.1", "--port", str(port))]
    try:
        for host in ("127.0.0.1", "127.0.0.2"):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / host))
            running.append(start("worker.Worker", host, *size, master))
        for _ in range(600):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield master
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="uses /proc and 127.0.0.2")
def test_killed_executors_and_duplicate_tasks_count_once(cluster: str, tmp_path: Path) -> None:
    found, events = run(cluster, tmp_path, "killed", "speculated")
    assert_alike(found["killed"], found["local"])
    assert_alike(found["speculated"], found["local"])
    removed = [e["Removed Reason"] for e in events if e["Event"].endswith("ExecutorRemoved")]
    assert any("137" in reason for reason in removed), "SIGKILL ends a process with 128 + 9"
    ended = [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
    twice = [event for event in ended if event["Task Info"]["Speculative"]]
    assert any(event["Task End Reason"]["Reason"] == "Success" for event in twice)
    assert {path.name for path in tmp_path.iterdir()} >= {"killed", "duplicate"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands for a Python")
def test_executors_without_our_packages_are_one_line(tmp_path: Path) -> None:
    found, _ = run("local-cluster[2,1,1024]", tmp_path, "bare")
    for said, missing in zip(found["bare"], ("labeldp", "pyarrow"), strict=True):
        assert said.startswith(f"the Python of the Spark workers has no module '{missing}'; ")
        assert "\n" not in said
