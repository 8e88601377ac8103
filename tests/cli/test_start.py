"""Starting is fast because nothing heavy is imported; and the process ends as it should."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.cli.conftest import LABEL, QUICK
from tests.console import labeldp

HEAVY = {"numpy", "pyarrow", "scipy", "sklearn", "flint", "randomgen", "pandas", "torch"}
COMMANDS = ("demo", "look", "account", "plan", "release", "verify", "fit", "predict")


def imported(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running `code`."""
    script = f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return set(result.stdout.splitlines()[-1].split())


def command(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run `labeldp` in a process of its own."""
    start = "from labeldp.cli import main; main()"
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", start, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def test_help_names_every_command() -> None:
    result = command("--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert all(name in result.stdout for name in COMMANDS)


def test_the_command_line_imports_nothing_heavy() -> None:
    modules = imported(
        "sys.argv = ['labeldp', '--help']\n"
        "from labeldp.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass"
    )
    assert "labeldp" in modules
    assert not modules & HEAVY


def test_the_package_imports_nothing_heavy() -> None:
    modules = imported("import labeldp; labeldp.__all__; dir(labeldp)")
    assert not modules & (HEAVY | {"typer", "rich", "click"})


def test_no_arguments_show_the_help() -> None:
    assert labeldp() == labeldp("--help")


def test_version() -> None:
    result = labeldp("--version")
    assert (result.code, result.out, result.err) == (0, f"labeldp {version('labeldp')}\n", "")


def test_the_module_is_the_command() -> None:
    words = [sys.executable, "-m", "labeldp", "--version"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert told == labeldp("--version").out


def test_an_interruption_ends_in_one_line(data: Path, tmp_path: Path) -> None:
    with patch("labeldp.releases.pending.pq.ParquetWriter", side_effect=KeyboardInterrupt):
        result = labeldp("release", "--anyway", data, *LABEL, *QUICK, "--out", tmp_path / "r")
    assert (result.code, result.out) == (130, "")
    assert result.remarks.strip() == "labeldp: stopped; nothing was written"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    result = labeldp(name, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"labeldp {name}" in result.out
    assert "--json" in result.out


def test_a_wrong_request_as_a_process(tmp_path: Path) -> None:
    result = command("verify", "nowhere", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    told = "nowhere is not a release directory; name the one it was saved in"
    assert result.stderr == f"labeldp: {told}\n"


def test_a_reader_that_stops_listening_sees_no_traceback() -> None:
    facts = ("--rows", "1000", "--label-range", "0", "1", "--residual-ms", "1")
    read, write = os.pipe()
    os.close(read)
    start = "from labeldp.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", start, "account", "wtd-flag", *facts],
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert b"Traceback" not in err


def test_as_the_installed_script() -> None:
    script = Path(sys.executable).with_name("labeldp")
    if not script.exists():
        pytest.skip("labeldp is not installed beside this interpreter")
    result = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    assert result.stdout.startswith("Usage: labeldp")
