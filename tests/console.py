"""The command line inside the test process: what it prints and how it ends."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from labeldp.cli import main


@dataclass(frozen=True)
class Result:
    """Exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def remarks(self) -> str:
        """Standard error without the warnings that a small table brings."""
        lines = self.err.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("WARNING: "))

    @property
    def error(self) -> str:
        """The one line of a refusal, checked to be one: last, named, without a traceback."""
        assert self.code == 2, self
        assert "Traceback" not in self.err, self.err
        assert self.out == "", "a refusal prints nothing on standard output"
        *notes, line = self.err.rstrip("\n").split("\n")
        assert not any(note.startswith("labeldp: ") for note in notes), self.err
        assert line.startswith("labeldp: "), self.err
        return line.removeprefix("labeldp: ")


def labeldp(*arguments: Any) -> Result:
    """Run `labeldp ARGUMENTS` as the console script does."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["labeldp", *map(str, arguments)]
    with (
        patch("sys.argv", argv),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", RuntimeWarning)  # it would be a line on standard error
        try:
            main()
        except SystemExit as stop:
            return Result(int(stop.code or 0), out.getvalue(), err.getvalue())
    raise AssertionError("main() must end in sys.exit")


def replaced(*arguments: Any) -> list[str]:
    """Arguments in which an option that comes again replaces the earlier one and its values."""
    words: list[str] = []
    for argument in map(str, arguments):
        if argument.startswith("--") and argument in words:
            start = words.index(argument)
            rest = (k for k in range(start + 1, len(words)) if words[k].startswith("--"))
            del words[start : next(rest, len(words))]
        words.append(argument)
    return words
