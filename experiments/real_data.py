"""docs/real-data.md: what the defaults give on real tables, and whether the forecast was right.

    python -m experiments.real_data --data DIR [--write docs/real-data.md]

DIR (or the environment variable LABELDP_REAL_DATA) holds the Parquet tables of `tables.py`, which
are not part of this repository. Each is planned once with default settings and released ten times;
errors are measured with raw labels, for this table only.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from experiments.alternatives import Budget
from experiments.least_squares import errors
from experiments.peers_page import markdown, percent
from experiments.study import DELTA, REPEATS, Study
from experiments.tables import LARGE, WHOLE_FLIGHTS, WHOLE_SCHEDULE, Table

BUDGET = Budget(1.0, DELTA)
TABLES = (*LARGE, WHOLE_SCHEDULE, WHOLE_FLIGHTS)
HEADER = (
    "table",
    "rows",
    "columns",
    "label range",
    "mechanism",
    "error privacy adds, forecast",
    "measured",
    "excess, %",
    "constant's excess, %",
    "R² private",
    "R² full labels",
)


def measure(table: Table, folder: Path) -> tuple[str, ...]:
    """One line of the table."""
    study = Study(table.source(folder))
    made = study.plan(BUDGET)
    blocks, full = study.full_fit(made)
    _, raw = study.raw_fit(BUDGET)
    releases = study.releases(made, REPEATS)
    added = float(full.distance(study.fitted(releases, shrink=False)).mean())
    error = float(errors(blocks, study.fitted(releases), table.label_range).mean())
    return (
        table.name,
        f"{full.rows:,}",
        str(full.columns),
        table.range_text,
        made.claim.mechanism,
        f"{math.sqrt(made.forecast.added_mse):.3g}",
        f"{math.sqrt(added / full.rows):.3g}",
        percent(error / raw.residual_ss - 1),
        percent(raw.constant_ss / raw.residual_ss - 1),
        f"{1 - error / raw.constant_ss:.4f}",
        f"{1 - raw.residual_ss / raw.constant_ss:.4f}",
    )


def report(folder: Path) -> str:
    """The table as Markdown."""
    rows = []
    for table in TABLES:
        rows.append(measure(table, folder))
        print(" | ".join(rows[-1]), flush=True)
    return "\n".join(markdown(HEADER, rows))


def put_between_marks(page: Path, text: str, name: str = "real data") -> None:
    """Replace what stands between the marks of a page."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    after = rest.split(end)[1]
    page.write_text(before + start + text + end + after, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LABELDP_REAL_DATA"))
    parser.add_argument("--write", type=Path, help="put the table between its marks in this file")
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("say where the tables are: --data DIR or LABELDP_REAL_DATA")
    text = report(Path(asked.data))
    if asked.write:
        put_between_marks(asked.write, text)


if __name__ == "__main__":
    main()
