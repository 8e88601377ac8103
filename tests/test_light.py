"""What is installed but not needed is not imported: it would cost every command its start-up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from tests.tables import table

_PROGRAM = """
import json, sys
from labeldp.cli import main
try:
    main()
finally:
    print("imported", json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

BUDGET = ("--label", "label", "--label-range", "0", "10", "--epsilon", "1", "--delta", "1e-4")
COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("{data}", *BUDGET, "--anyway", "--out", "{folder}/plan.json"),
    "release": ("{data}", *BUDGET, "--anyway", "--out", "{folder}/release"),
    "verify": ("{folder}/release", "--data", "{data}"),
    "fit": ("{folder}/release", "--out", "{folder}/model.json"),
    "predict": ("{folder}/model.json", "{data}", "--out", "{folder}/predictions.csv"),
    "account": ("wtd-flag", "--rows", "100000", "--label-range", "0", "2", "--residual-ms", "1"),
    "release of text": (
        "{text}",
        *BUDGET,
        "--drop-missing-labels",
        "--out",
        "{folder}/from-text",
        "--anyway",
    ),
}

EXTRAS = {"pandas", "polars", "duckdb", "matplotlib", "torch", "pyspark", "cryptography"}
HEAVY = EXTRAS | {
    "sklearn",
    "scipy.stats",
    "pyarrow.dataset",
    "labeldp_paper",
}
"""None of the commands needs these on a small file here."""

BESIDES = {
    "plan": {"labeldp.learners"},
    "release": {"labeldp.learners.api"},
    "verify": {"labeldp.learners"},
    "fit": {"labeldp.planning", "flint", "scipy.optimize"},
    "predict": {"labeldp.mechanisms.registry", "flint", "scipy"},
    "release of text": {"labeldp.learners.api"},
    "account": {"labeldp.learners", "labeldp.planning"},
}
"""And this command does not need those either."""


def _lines() -> Iterator[str]:
    """A delimited table with every kind of column, each with missing values."""
    yield "number,code,day,truth,label\n"
    for row in range(1000):
        gap = row % 7
        cells = f"{row / 3}", "abc"[row % 3], f"2024-01-{row % 28 + 1:02}", "true", f"{row % 11}"
        yield ",".join("NA" if place == gap else cell for place, cell in enumerate(cells)) + "\n"


def run(command: str, *arguments: str) -> set[str]:
    """The modules that a command has imported when it ends well."""
    program = [sys.executable, "-c", _PROGRAM, command.split()[0], *arguments]
    done = subprocess.run(program, capture_output=True, text=True)
    said, _, modules = done.stderr.rpartition("imported ")
    assert done.returncode == 0, said
    return set(json.loads(modules))


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Of every command, run one after the other on one small table."""
    folder = tmp_path_factory.mktemp("light")
    pq.write_table(table(1000), folder / "rows.parquet")
    (folder / "rows.csv").write_text("".join(_lines()))
    names = {"data": folder / "rows.parquet", "text": folder / "rows.csv", "folder": folder}
    return {
        command: run(command, *(part.format(**names) for part in arguments))
        for command, arguments in COMMANDS.items()
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_no_more_than_it_needs(
    imported: dict[str, set[str]], command: str
) -> None:
    assert sorted((HEAVY | BESIDES[command]) & imported[command]) == []


def test_the_modules_named_here_are_there_to_be_imported(imported: dict[str, set[str]]) -> None:
    """A name with a slip in it would never be found."""
    assert {"pyarrow", "randomgen", "scipy"} <= imported["release"]
    assert {"labeldp.learners", "labeldp.releases"} <= imported["fit"]
    ours = {n for n in HEAVY | set().union(*BESIDES.values()) if n.startswith("labeldp")}
    for name in ours | {"flint", "sklearn", "scipy.optimize", "scipy.stats", "pyarrow.dataset"}:
        __import__(name)


@pytest.mark.parametrize(("said", "holds"), [(None, "10"), ("20", "20")])
def test_idle_threads_of_blas_sleep_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, said: str | None, holds: str
) -> None:
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    if said is not None:
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", said)
    program = (
        "import os, sys, click\nfrom labeldp.cli.options import Command\n"
        "assert 'numpy' not in sys.modules, 'it would come too late'\n"
        "command = Command('x', callback=lambda: None)\n"
        "command.main([], standalone_mode=False)\nprint(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == (holds, 0), done.stderr
