"""Any terminal will do: other encodings, closed, full and broken streams."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labeldp.cli.output import emit_table, say
from tests.cli.conftest import LABEL, QUICK
from tests.console import labeldp

FULL = Path("/dev/full")
PROGRAM = "import sys; sys.argv[0] = 'labeldp'; from labeldp.cli import main; main()"
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


def run(*arguments: Any, shell: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A process of its own, whose streams may be redirected by the shell."""
    line = f'exec "$0" "$@" {shell}'
    command = ["sh", "-c", line, sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=os.environ | environment, timeout=60)


def test_answers_are_utf8_whatever_the_terminal_says(published: Path) -> None:
    for encoding in ("cp1252", "ascii"):
        result = run("verify", published, PYTHONIOENCODING=encoding)
        assert result.returncode == 0, result.stderr
        assert "ε = 1" in result.stdout.decode()
        assert result.stderr == b""


@pytest.mark.parametrize("shell", ["| true", ">&- 2>&-"])
def test_closed_streams_change_no_answer(published: Path, shell: str) -> None:
    result = run("verify", published, shell=shell)
    assert result.returncode == 0, result.stderr
    assert b"Traceback" not in result.stderr
    assert b"Exception ignored" not in result.stderr


@needs_full
def test_a_full_disk_under_the_answer(published: Path, data: Path, tmp_path: Path) -> None:
    checked = run("verify", published, shell=f"> {FULL}")
    assert checked.returncode == 0
    assert b"the answer was not printed: No space left" in checked.stderr
    made = ("release", "--anyway", data, *LABEL, *QUICK, "--out", tmp_path / "out")
    released = run(*made, shell=f"> {FULL} 2> {FULL}")
    assert released.returncode == 0
    assert labeldp("verify", tmp_path / "out").code == 0
    told = run("--help", shell=f"> {FULL}")
    assert told.returncode == 2, "nothing was done but to print"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_text_is_broken_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = "  - one two three four five six"
    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setattr("sys.stdout", stream)
        say(text, indent="    ")
        lines = stream.getvalue().rstrip("\n").split("\n")
        assert " ".join(" ".join(lines).split()) == text.strip()
        if stream.isatty():
            assert all(len(line) <= 20 for line in lines)
            assert lines[1].startswith("    ")
        else:
            assert lines == [text]


def test_no_word_of_a_wide_table_is_cut_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"accountant{place}" for place in range(12)]
    emit_table("wide", ["", *names], [["row", *(["1234567.89"] * 12)]])
    told = capsys.readouterr().out
    assert set(names) <= set(told.split())
    assert told.split().count("1234567.89") == 12


def test_nothing_is_padded_when_piped(published: Path, data: Path) -> None:
    for command in (
        ("account", "wtd-flag", "--rows", 1000, "--label-range", 0, 1, "--residual-ms", 0.1),
        ("plan", "--anyway", data, *LABEL, *QUICK),
        ("look", data),
        ("fit", published),
    ):
        result = labeldp(*command)
        assert result.code == 0, result
        padded = [line for line in result.out.splitlines() if line != line.rstrip()]
        assert not padded, padded


def test_help_shows_few_options_and_help_all_the_rest_in_groups() -> None:
    short, whole = (labeldp("release", flag).out for flag in ("--help", "--help-all"))
    assert 10 <= sum(line.startswith("  --") for line in short.splitlines()) <= 16
    assert "labeldp release --help-all shows 4" in short
    assert "--bag-seed" not in short
    for title in ("Text file options:", "shaped-flag options:", "Design options:"):
        assert f"\n{title}\n" in whole
    assert whole.index("shaped-flag options:") < whole.index("--shape-ridge")
    assert whole.count("--epsilon") == 1
    assert "--help-all" not in labeldp("report", "--help").out


def test_help_lists_commands_in_groups_with_whole_sentences() -> None:
    shown = labeldp("--help").out
    for title in ("Publish and use:", "Budget and signatures:", "Demonstrations and experiments:"):
        assert f"\n{title}\n" in shown
    assert "..." not in shown.partition("[ARGS]...")[2]
