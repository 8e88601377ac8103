"""Budgets that are kept and mean little: noted where they are published and verified."""

from __future__ import annotations

from pathlib import Path

from labeldp import verify
from tests.console import labeldp
from tests.plans import plan
from tests.tables import source


def test_a_weak_release_is_valid_but_weak(tmp_path: Path) -> None:
    rows = source(500)
    for name, epsilon in (("weak", 30.0), ("sound", 5.0)):
        made = plan(rows, epsilon=epsilon, delta=1e-6, mechanism="shaped-flag")
        made.release_to(tmp_path / name, rows)
    report = verify(tmp_path / "weak")
    assert report.valid
    assert len(report.weak) == 2
    assert verify(tmp_path / "sound").weak == ()
    shown = labeldp("verify", tmp_path / "weak")
    assert shown.code == 0
    assert "is valid, but weak:" in shown.out
    assert "ε = 30 is above 10" in shown.out
    assert labeldp("verify", tmp_path / "weak", "--json").json["weak"] == list(report.weak)
    assert "is valid: " in labeldp("verify", tmp_path / "sound").out
