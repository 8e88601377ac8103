"""The README's picture: ten private fits beside the fit with all labels, on the example table.

    python -m experiments.picture docs/plots/doctor_visits.svg

Lines are mean predictions over all rows with one column set to a value. The fit with all labels
reads raw labels, which are public here.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from experiments.study import Budget, Study

from labeldp import FeatureMap, scan

TABLE = Path(__file__).parents[1] / "examples" / "doctor_visits.parquet"
COLUMN, LABEL, RANGE = "chronic_diseases", "visits", (0, 80)
BUDGETS, RELEASES = (1.0, 4.0), 10


def designs(features: FeatureMap, rows: pa.Table, values: np.ndarray) -> np.ndarray:
    """Mean design rows with the column set to each value."""
    place = rows.column_names.index(COLUMN)
    columns = (pa.array(np.full(len(rows), value)) for value in values)
    changed = (rows.set_column(place, COLUMN, column) for column in columns)
    return np.array([features.design(each).mean(axis=0) for each in changed])


def main(target: str) -> None:
    study = Study(scan(TABLE, label=LABEL, label_range=RANGE))
    rows = pq.read_table(TABLE).drop_columns([LABEL])
    values = np.linspace(0, 40, 9)
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    for panel, epsilon in zip(panels, BUDGETS, strict=True):
        made = study.plan(Budget(epsilon, 1e-6))
        means = designs(made.features, rows, values)
        fits = study.fitted(study.releases(made, RELEASES))
        first, *_ = panel.plot(values, means @ fits, color="#0b57a4", lw=1)
        first.set_label(f"{RELEASES} private releases")
        full = study.full_fit(made)[1].coefficients
        panel.plot(values, means @ full, "k--", lw=2, label="fit with all labels")
        panel.set_title(f"ε = {epsilon:g}", fontsize=11)
        panel.set_xlabel("chronic diseases (index)")
    panels[0].set_ylabel("visits to a doctor a year")
    panels[0].legend(frameon=False)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
