"""Paper against ours: every printed cell as a point, with the diagonal on which both are equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from labeldp.pictures import Curve, Picture
from labeldp_paper.experiments.result import Row

_MARGIN = 1.03


def against(
    name: str, title: str, rows: Sequence[Row], label: Callable[[Row], str], *, log: bool = False
) -> Picture:
    """Rows with `paper_mse` across and `mse` up, bars of a standard deviation, a mark a label."""
    curves = [_diagonal(rows)]
    for colour, kind in enumerate(dict.fromkeys(label(row) for row in rows)):
        mine = [row for row in rows if label(row) == kind]
        y = tuple(row["mse"] for row in mine)
        wide = [row["mse_std"] or 0.0 for row in mine]
        curves.append(
            Curve(
                kind,
                tuple(row["paper_mse"] for row in mine),
                y,
                tuple(a - b for a, b in zip(y, wide, strict=True)),
                tuple(a + b for a, b in zip(y, wide, strict=True)),
                colour=colour,
                reach=tuple(row["paper_mse_std"] for row in mine),
            )
        )
    return Picture(
        name, title, "test MSE, the paper's", "test MSE, ours", tuple(curves), log_x=log, log_y=log
    )


def _diagonal(rows: Sequence[Row]) -> Curve:
    seen = [row[key] for row in rows for key in ("paper_mse", "mse")]
    ends = (min(seen) / _MARGIN, max(seen) * _MARGIN)
    return Curve("equal", ends, ends, style="line", colour=5)


def nearness(rows: Sequence[Row]) -> str:
    """How far the cells are from the paper's, in a sentence."""
    ratios = sorted(row["mse"] / row["paper_mse"] for row in rows)
    within = sum(abs(row["mse"] - row["paper_mse"]) <= 2 * row["paper_mse_std"] for row in rows)
    return (
        f"ours are {ratios[0]:.2f} to {ratios[-1]:.2f} times the paper's, {near(rows)} "
        f"within 10 %, {within} within two of its standard deviations"
    )


def near(rows: Sequence[Row]) -> str:
    """How many of how many cells are within 10 % of the paper's."""
    count = sum(abs(row["mse"] / row["paper_mse"] - 1) <= 0.1 for row in rows)
    return f"{count} of {len(rows)}"


def falls(rows: Sequence[Row], along: str, across: str) -> str:
    """How many steps along a line or column of the table go down, and how far others rise."""
    rises, steps = [], 0
    for place in {row[across] for row in rows}:
        line = sorted((row for row in rows if row[across] == place), key=lambda row: row[along])
        for before, after in pairwise(line):
            steps += 1
            if after["mse"] >= before["mse"]:
                rises.append((after["mse"] - before["mse"], after["mse_std"]))
    text = f"{steps - len(rises)} of {steps}"
    if rises:
        most, deviation = max(rises)
        text += f" (a rise of {most:.2f} at most, with a standard deviation of {deviation:.2f})"
    return text
