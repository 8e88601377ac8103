"""How values show themselves, as text and, in notebooks, as tables."""

from __future__ import annotations

from pathlib import Path

import labeldp
from labeldp.display import html_table
from tests.plans import plan
from tests.tables import source


def test_names_from_files_cannot_become_markup() -> None:
    text = html_table("<i>", [("<b>", "1 < 2")], ("a&b", "c"))
    assert "<i>" not in text
    assert "<b>" not in text
    assert "1 &lt; 2" in text
    assert text.count("<tr>") == 2
    assert html_table("title", [("a", "b")]).count("<tr>") == 1


def test_text_and_table_show_the_same_facts(tmp_path: Path) -> None:
    rows = source(2000)
    planned = plan(rows, epsilon=2.0, delta=1e-6)
    release = planned.release(rows)
    ledger = labeldp.Ledger.create(tmp_path / "ledger", epsilon=3.0)
    planned.release(rows, ledger=ledger, dataset="census")
    shown = {
        "will be off by": planned,
        "shaped-flag": release,
        "one row&#x27;s label": labeldp.compose([release]),
        "1 releases: ε = 2 of ε = 3, δ = 1e-06": ledger,
        "label-DP with ε = 2": labeldp.verify(release),
        "from privacy": labeldp.LinearRegressor().fit(release).summary(),
        "number, ": labeldp.look({"x": [1.5, 2.5, 3.5]}),
    }
    for words, value in shown.items():
        table = value._repr_html_()
        assert table.startswith("<table><caption>")
        assert words in table
        assert words.replace("&#x27;", "'") in repr(value)
