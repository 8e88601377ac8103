"""The README's table: R² at ε = 1 on real tables, computed from docs/peers.md.

    python -m experiments.digest docs/peers.md --write README.md

`python -m experiments.peers` measures; this command only picks lines of its page and turns the
excess of a squared error over least squares with all labels into an R².
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from experiments.peers_page import markdown
from experiments.real_data import put_between_marks

HEADER = ("table", "private", "all labels", "best alternative")
OURS = ("full labels, same design", "**labeldp, default**")
EPSILON = "ε = 1"


def number(cell: str) -> float:
    """Return the mean of a cell of the page: signs of typography, ± and marks are left out."""
    plain = cell.replace("*", "").replace("−", "-").replace(",", "").split("±")[0]
    return float(plain.strip(" †"))


def digest(page: str) -> str:
    """Return the table as Markdown, one line for each table of the page."""
    lines = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        explained = re.search(r"with all labels R² = (-?[\d.]+)\. ", section)
        if explained is None:
            continue
        title = section.splitlines()[0]
        rows = {r[0]: r[1:] for r in cells(section)}
        column = rows["excess, %"].index(EPSILON)
        excess = {way: number(r[column]) for way, r in rows.items() if column_has(r, column)}
        private = excess.pop(OURS[1])
        others = {
            way: value
            for way, value in excess.items()
            if way not in OURS and not way.endswith(", least squares")
        }
        best = min(others, key=others.__getitem__)
        full = float(explained.group(1))
        lines.append(
            (
                title,
                f"{r_squared(full, private):.3f}",
                f"{full:.3f}",
                f"{r_squared(full, others[best]):.3f}",
            )
        )
    return "\n".join(markdown(HEADER, lines))


def r_squared(full: float, excess: float) -> float:
    """Return R² of predictions whose squared error is so many percent above the best fit's."""
    return 1 - (1 - full) * (1 + excess / 100)


def cells(section: str) -> list[list[str]]:
    """Return the cells of the table of a section."""
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def column_has(row: list[str], column: int) -> bool:
    """Return whether a line of the table has a number there."""
    return bool(re.match(r"\**[−-]?\d", row[column]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", type=Path, help="put the table between its marks in this file")
    asked = parser.parse_args()
    text = digest(asked.page.read_text(encoding="utf-8"))
    if asked.write:
        put_between_marks(asked.write, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
