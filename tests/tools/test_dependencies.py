"""Licences off the list are named; a database that is not reached is no all-clear."""

from __future__ import annotations

import json
import sys
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from tools import dependencies


class Package(Distribution):
    """One that is not installed."""

    def __init__(self, **fields: str) -> None:
        self._fields = fields

    @property
    def metadata(self) -> Message:  # type: ignore[override]
        told = Message()
        told["Name"], told["Version"] = "some", "1.0"
        for name, value in self._fields.items():
            told[name.replace("_", "-")] = value
        return told

    def read_text(self, filename: str) -> None: ...

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


@pytest.mark.parametrize(
    ("fields", "fine"),
    [
        ({"License_Expression": "MIT"}, True),
        ({"License_Expression": "GPL-3.0-only OR MIT"}, True),
        ({"License_Expression": "MIT AND GPL-3.0-only"}, False),
        ({"License_Expression": "(Apache-2.0 WITH LLVM-exception) AND MIT"}, True),
        ({"License": "BSD License"}, True),
        ({"License": "Proprietary"}, False),
        ({"Classifier": "License :: OSI Approved :: Apache Software License"}, True),
        ({"Classifier": "License :: OSI Approved :: GNU Affero General Public License v3"}, False),
        ({}, False),
    ],
)
def test_a_licence_is_on_the_list_or_is_named(fields: dict[str, str], fine: bool) -> None:
    found = list(dependencies.unlicensed([Package(**fields)]))
    assert [line.partition(":")[0] for line in found] == ([] if fine else ["some 1.0"])


def test_what_is_installed_here_is_on_the_list() -> None:
    ours = [each for each in distributions() if each.name in ("labeldp", "numpy", "pyarrow")]
    assert len(ours) >= 2
    assert not list(dependencies.unlicensed(ours))


def test_vulnerabilities_are_reported_with_their_remedy() -> None:
    hole = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    answer = {"dependencies": [{"name": "a", "version": "1", "vulns": [hole]}, {"name": "b"}]}
    assert dependencies.vulnerable(json.dumps(answer)) == ["a 1: PYSEC-1, mended in 2.0"]


_UNHEARD = {"dependencies": [{"name": "numpy", "skip_reason": "not found"}]}
_HEARD = {
    "dependencies": [
        {"name": "labeldp", "skip_reason": "not found"},
        {"name": "numpy", "version": "9", "vulns": []},
    ]
}


@pytest.mark.parametrize(
    ("out", "err", "code", "said"),
    [
        ("", "connection refused", 2, "NOT CHECKED\n  the database was not reached: connection"),
        (json.dumps(_UNHEARD), "", 2, "NOT CHECKED\n  numpy: not found"),
        (json.dumps(_HEARD), "", 0, "none to look at"),
    ],
)
def test_a_package_that_was_not_asked_about_is_said_and_is_no_success(
    out: str,
    err: str,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    auditor = tmp_path / "python"
    auditor.write_text(f"#!/bin/sh\necho '{out}'\necho '{err}' >&2\nexit 1\n")
    auditor.chmod(0o755)
    monkeypatch.setattr(sys, "argv", ["dependencies", "--auditor", str(auditor)])
    monkeypatch.setattr(dependencies, "distributions", list)
    with pytest.raises(SystemExit) as ended:
        dependencies.main()
    assert ended.value.code == code
    assert said in capsys.readouterr().out
