"""As if there were a trillion rows: sums stay exact, plans are sound, and the page says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Program = Callable[[str], Any]
FAR = 10**12


@pytest.fixture(scope="module")
def record(program: Program) -> dict[str, Any]:
    (found,) = program("far").run(1 << 11, FAR, ["dense-3"])["records"]
    return dict(found)


def test_a_trillion_rows_are_summed_planned_released_and_verified(record: dict[str, Any]) -> None:
    assert FAR <= record["rows"] < 2 * FAR
    assert record["exact"]
    assert record["one_digest"]
    assert record["largest_bits"] <= 62
    assert record["delta"] <= 1e-13
    assert 1.0 <= record["gap"] < 1.2
    assert record["valid"]


def test_a_merge_that_is_left_out_is_seen(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page calls exact is compared with something."""
    far = program("far")
    table = far.table_named("dense-3")
    data = far.pa.Table.from_batches(table.batches(500))
    source = far.scan(data, label=table.label, label_range=table.label_range)
    made = far.plan(source, **far.ASKED)
    assert far.exact_times(source, made, 3)[0]
    monkeypatch.setattr(far, "doubled", lambda total, _: total)
    assert not far.exact_times(source, made, 3)[0]


def test_the_tables_of_the_page_keep_what_was_measured_apart(
    program: Program, record: dict[str, Any], tmp_path: Path
) -> None:
    far, page = program("far"), tmp_path / "page.md"
    page.write_text(f"before\n{far.BEGIN}\nold\n{far.END}\nafter\n", encoding="utf-8")
    far.write(page, [record])
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{far.BEGIN}\n")
    assert text.endswith(f"{far.END}\nafter\n")
    assert "old" not in text
    measured, computed = text.index("**measured**"), text.index("**computed**")
    assert measured < text.index("| dense-3 |") < computed
