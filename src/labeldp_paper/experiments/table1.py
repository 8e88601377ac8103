"""Table 1: how many bags ε buys, as printed, by the theorem, and by the exact law."""

from __future__ import annotations

import math
from functools import partial

from labeldp import DatasetBounds
from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.sketch import SketchProfile
from labeldp.pictures import Curve, Picture
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.printed import CRITEO_BOUND_USED, PARAMETERS, TABLE1, Parameters
from labeldp_paper.experiments.result import Result, Row, Table, shown
from labeldp_paper.experiments.run import Run
from labeldp_paper.theory.earlier import theorem1_bags
from labeldp_paper.theory.tails import HANSON_WRIGHT

NAME = "table1"
_VERSION = 1
_TITLES = {"census": "US Census", "criteo": "Criteo Sponsored Search"}


def table1(run: Run) -> Result:
    """Every row of both columns."""
    data = {"parameters": "as printed"}
    cells = [
        Cell(
            {"dataset": name, "epsilon": epsilon, "facts": facts},
            partial(_row, name, epsilon, facts),
        )
        for name in TABLE1
        for facts in [run.given_facts(name)]
        for epsilon in TABLE1[name]
    ]
    rows = [_flat(row) for row in run.rows(NAME, _VERSION, data, cells)]
    return Result(
        NAME,
        "Table 1: bags against ε",
        "the parameters that the paper prints; no data are read"
        + ("" if all("exact" not in row for row in rows) else ", but for the column exact"),
        tuple(rows),
        tuple(_shown(name, [row for row in rows if row["dataset"] == name]) for name in TABLE1),
        (_picture(rows),),
        {NAME: _GLANCE},
        notes=_notes(rows),
    )


def _flat(row: Row) -> Row:
    facts = row.pop("facts")
    return row if facts else {k: v for k, v in row.items() if k != "exact"}


def _row(dataset: str, epsilon: int, facts: Row | None) -> Row:
    said, printed = PARAMETERS[dataset], TABLE1[dataset][epsilon]
    theorem, why = theorem1_bags(said.rows, said.label_range, said.residual_ms, epsilon, said.delta)
    floor = said.residual_ms * said.rows
    law = SketchProfile(DatasetBounds(said.rows, said.label_range), floor=floor)
    return {
        "paper_printed": printed,
        "theorem": theorem,
        "exact_worst_case": int(calibrate(law, "bags", epsilon, said.delta)),
        "exact": _exact(facts, epsilon, said.delta) if facts else None,
        "disagrees": theorem != printed,
        "reason": "" if theorem == printed else _reason(dataset, epsilon, theorem, why),
    }


def _exact(facts: Row, epsilon: int, delta: float) -> int:
    """With the public features of the table that was given."""
    known = DatasetBounds(
        facts["rows"], tuple(facts["label_range"]), facts["rank"], facts["max_leverage"]
    )
    floor = facts["residual_ms"] * facts["rows"]
    return int(calibrate(SketchProfile(known, floor=floor), "bags", epsilon, delta))


def _reason(dataset: str, epsilon: int, theorem: int, why: str) -> str:
    printed = TABLE1[dataset][epsilon]
    if dataset == "census":
        return f"a slip of one digit: the theorem gives {theorem:,} where {printed:,} is printed"
    said = PARAMETERS[dataset]
    used = _halved(epsilon)
    stated = f"with the stated B_Y = {said.label_bound:g} "
    stated += f"no bag: {why}" if why else f"the theorem gives {theorem:,}"
    return f"{stated}; B_Y = {CRITEO_BOUND_USED:g} gives {used:,}"


def _halved(epsilon: int) -> int:
    """Criteo's bags by the theorem with half the stated bound."""
    return _criteo_halved(epsilon)[0]


def _criteo_halved(epsilon: int) -> tuple[int, str]:
    said, halved = PARAMETERS["criteo"], (-CRITEO_BOUND_USED, CRITEO_BOUND_USED)
    return theorem1_bags(said.rows, halved, said.residual_ms, epsilon, said.delta)


_GLANCE = (
    "The census's points and Criteo's with half the stated bound lie on the line, Criteo's with "
    "the stated bound below it."
)


def _picture(rows: list[Row]) -> Picture:
    """Every printed number of bags against the theorem's; where that allows none, no point."""
    points = {
        "census": [(r["paper_printed"], r["theorem"]) for r in rows if r["dataset"] == "census"],
        "Criteo, B_Y = 127 as stated": [
            (r["paper_printed"], r["theorem"]) for r in rows if r["dataset"] == "criteo"
        ],
        f"Criteo, B_Y = {CRITEO_BOUND_USED:g}": [
            (bags, _halved(epsilon)) for epsilon, bags in TABLE1["criteo"].items()
        ],
    }
    ends = tuple(float(end(b for c in TABLE1.values() for b in c.values())) for end in (min, max))
    curves = [Curve("equal", ends, ends, style="line", colour=5)]
    for colour, (label, pairs) in enumerate(points.items()):
        some = [(float(x), float(y)) for x, y in pairs if y]
        curves.append(
            Curve(label, tuple(x for x, _ in some), tuple(y for _, y in some), colour=colour)
        )
    title = "Table 1: paper against theorem, a point for each ε"
    return Picture(
        NAME, title, "bags, printed", "bags, theorem", tuple(curves), log_x=True, log_y=True
    )


def residual_interval(dataset: str, label_bound: float) -> tuple[float, float]:
    """The γ for which Theorem 1's bound on m gives the printed column: low ≤ γ < high.

    m = ⌊ε²·c·γ⌋ in every printed row, so each row confines γ.
    """
    said = PARAMETERS[dataset]
    log = math.log(2 / said.delta)
    lows, highs = [], []
    for epsilon, bags in TABLE1[dataset].items():
        factor = min(1.0, 2 * HANSON_WRIGHT * epsilon / (5 * log))
        rate = epsilon * said.rows * factor / (160 * label_bound**2)
        lows.append(bags / rate)
        highs.append((bags + 1) / rate)
    return max(lows), min(highs)


def _notes(rows: list[Row]) -> tuple[str, ...]:
    low, high = residual_interval("criteo", CRITEO_BOUND_USED)
    needs = min(r["epsilon"] for r in rows if r["dataset"] == "criteo" and r["theorem"] > 0)
    follows = (
        f"the whole column follows from B_Y = {CRITEO_BOUND_USED:g}, γ from "
        f"{math.ceil(low * 1e4) / 1e4:.4f} to {math.floor(high * 1e4) / 1e4:.4f}"
        if low < high
        else f"no γ gives the whole column even with B_Y = {CRITEO_BOUND_USED:g}"
    )
    return (
        "Census: every row but ε = 4 is the theorem's to the digit.",
        f"Criteo: no row follows from the stated B_Y = 127 (range 254). For ε below {needs} the "
        f"theorem's condition on n fails there, so it allows no bag; {follows} (printed: ≈ 195.5).",
        _start(),
        '"exact, any features" is the exact law under the theorem\'s own promise.',
    )


def _start() -> str:
    """Why the printed column starts where it does."""
    first = min(TABLE1["criteo"])
    (_, before), (at, _) = _criteo_halved(first - 1), _criteo_halved(first)
    return (
        f"With B_Y = {CRITEO_BOUND_USED:g} the condition on n fails at ε = {first - 1} "
        f"({before}) and holds at ε = {first} ({at} bags): there the "
        "printed column starts."
    )


def _shown(name: str, rows: list[Row]) -> Table:
    columns = {
        "epsilon": "ε",
        "paper_printed": "paper prints",
        "theorem": "theorem",
        "exact_worst_case": "exact, any features",
    }
    if "exact" in rows[0]:
        columns["exact"] = "exact, these features"
    said: Parameters = PARAMETERS[name]
    caption = (
        f"{_TITLES[name]}: n = {shown(said.rows)}, γ = {said.residual_ms:g}, "
        f"B_Y = {said.label_bound:g}, δ = {said.delta:g}"
    )
    return Table.of_rows(caption, {**columns, "reason": "disagrees because"}, rows)
