"""Notes of a feature map have fixed forms: what we write fits one, and other text fits none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from labeldp import FeatureMap, scan
from labeldp.features.fit import fit_features
from labeldp.features.notes import OUTLIERS, foreign_notes
from tests.tables import RANGE

ROWS = 900


@pytest.fixture(scope="module")
def noted() -> FeatureMap:
    """A table of which there is something to say in nearly every form."""
    rng = np.random.default_rng(3)
    far = rng.normal(size=ROWS)
    far[:3] = 1e7
    table = pa.table(
        {
            "far\nout": far,
            "flat": np.zeros(ROWS),
            "empty": pa.array([None] * ROWS, pa.float64()),
            "user_id": np.arange(ROWS),
            "grade": rng.integers(0, 5, ROWS),
            "town": ["Rome"] * 500 + ["rome "] * 20 + ["Oslo"] * 375 + ["x", "y", "z", "u", "v"],
            "word": [f"w{place}" for place in range(ROWS)],
            "same": ["a"] * ROWS,
            "{name}": rng.normal(size=ROWS),
            "label": rng.uniform(0, 10, ROWS),
        }
    )
    said = {"winsor": {"*": 0.01, "far\nout": 0.0}, "interactions": ["all"]}
    rows = scan(table, label="label", label_range=RANGE)
    return fit_features(rows, **said, interaction_columns=1)


def test_what_we_write_has_a_form(noted: FeatureMap) -> None:
    told = "\n".join(noted.notes)
    for words in (
        "constant, dropped",
        "every value is missing",
        "taken for an id",
        "treated as categorical",
        "differ only in capitals",
        "winsorised",
        "pairs of columns are left out",
        "one level",
    ):
        assert words in told, told
    rare = OUTLIERS.format(name="x", width=f"{1e9:.3g}", spread=f"{2.5e-7:.3g}")
    assert list(foreign_notes((*noted.notes, rare), noted.numeric)) == []


@pytest.mark.parametrize(
    "note",
    [
        "label of row 7 is 31337.25",
        "",
        "grade: constant, dropped; and the label of row 7 is 3",
        "grade: 5 integer values, treated as categorical; `numeric=['other']` to change",
        "grade: label 7 integer values, treated as categorical; `numeric=['grade']` to change",
        "x: 7.5 of 9 levels differ only in capitals, accents or spaces",
        "winsorised at public quantiles: {name} at 3 and 4 (18 rows); `winsor=0` to change that",
    ],
)
def test_other_text_has_none(note: str, noted: FeatureMap) -> None:
    forged = replace(noted, notes=(*noted.notes, note))
    assert list(foreign_notes(forged.notes, forged.numeric)) == [len(noted.notes)]
