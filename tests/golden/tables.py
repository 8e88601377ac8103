"""A dozen generated tables: whole and uniform numbers of PCG64 alone, the same in every version.

Labels lie in `label_range`, on a grid of 1/64.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp import Source, scan

Stream = np.random.Generator
Columns = dict[str, Any]


def stream(seed: int) -> Stream:
    return np.random.Generator(np.random.PCG64(seed))


def choice(rng: Stream, rows: int, levels: list[Any], skew: float = 1.0) -> list[Any]:
    """One level a row, later ones rarer the larger `skew` is."""
    places = (rng.random(rows) ** skew * len(levels)).astype(int)
    return [levels[place] for place in places]


def number(rng: Stream, rows: int, scale: float = 1.0) -> list[float]:
    """Uniform about zero, three decimals: nothing hangs on a last bit."""
    return [float(n) * scale / 1000 for n in rng.integers(-5000, 5001, rows)]


def heavy(rng: Stream, rows: int) -> list[float]:
    """A tail like 1/x: one in a thousand is a thousand times the median."""
    return [1000.0 / int(n) for n in rng.integers(1, 2001, rows)]


def with_gaps(rng: Stream, values: list[Any], share: int = 10) -> list[Any]:
    """One in `share` missing."""
    holes = rng.integers(0, share, len(values)) == 0
    return [None if hole else value for value, hole in zip(values, holes, strict=True)]


def text(rng: Stream, rows: int) -> Columns:
    towns = ["Bonn", "Köln", "Ulm", "", "New York", "東京"]
    return {"town": choice(rng, rows, towns), "size": choice(rng, rows, ["S", "M", "L"], 2.0)}


def codes(rng: Stream, rows: int) -> Columns:
    return {
        "few": choice(rng, rows, [3, 1, 4, -15]),
        "many": [int(n) for n in rng.integers(-(10**6), 10**6, rows)],
        "state": choice(rng, rows, [f"{n:02d}" for n in range(50)]),
    }


def booleans(rng: Stream, rows: int) -> Columns:
    flags = choice(rng, rows, [True, False], 0.5)
    return {"flag": flags, "gappy": with_gaps(rng, flags[::-1]), "x": number(rng, rows)}


def tails(rng: Stream, rows: int) -> Columns:
    return {"heavy": heavy(rng, rows), "huge": number(rng, rows, 1e12), "x": number(rng, rows)}


def gaps(rng: Stream, rows: int) -> Columns:
    return {
        "x": with_gaps(rng, number(rng, rows)),
        "rarely": with_gaps(rng, number(rng, rows), rows),
        "town": with_gaps(rng, choice(rng, rows, ["a", "b", "c"])),
        "code": with_gaps(rng, choice(rng, rows, [1, 2, 3, 4, 5]), 4),
        "never": [None] * rows,
    }


def wide(rng: Stream, rows: int) -> Columns:
    numbers = {f"x{k:02d}": number(rng, rows, 10.0 ** (k % 7 - 3)) for k in range(40)}
    levels = {f"c{k:02d}": choice(rng, rows, list("abcde"[: 2 + k % 4])) for k in range(20)}
    return numbers | levels


def one_level(rng: Stream, rows: int) -> Columns:
    return {"same": ["only"] * rows, "constant": [7.5] * rows, "x": number(rng, rows)}


def moments(rng: Stream, rows: int) -> Columns:
    days = rng.integers(0, 20_000, rows)
    born = [date(1950, 1, 1) + timedelta(days=int(day)) for day in days]
    seen = [datetime(2020, 1, 1) + timedelta(seconds=int(day) * 3607) for day in days[::-1]]
    return {"born": born, "seen": with_gaps(rng, seen), "x": number(rng, rows)}


def twins(rng: Stream, rows: int) -> Columns:
    x, y = number(rng, rows), number(rng, rows)
    town = choice(rng, rows, ["a", "b", "c"])
    both = [a + b for a, b in zip(x, y, strict=True)]
    return {"x": x, "again": x, "y": y, "sum": both, "zero": [0] * rows, "t": town, "u": town}


def rare(rng: Stream, rows: int) -> Columns:
    return {"level": choice(rng, rows, [f"L{n:03d}" for n in range(200)], 4.0), **tails(rng, rows)}


def mixed(rng: Stream, rows: int) -> Columns:
    """What plans and releases are made of: few columns, so that their records are short."""
    return {
        "x": number(rng, rows),
        "code": choice(rng, rows, [0, 1, 2]),
        "town": with_gaps(rng, choice(rng, rows, ["a", "b", "c"])),
        "mark": choice(rng, rows, [True, False]),
    }


def promised(rng: Stream, rows: int) -> Columns:
    """A weak feature and labels ±1: every eigenvalue of [X|y] is near the number of rows."""
    return {"x": choice(rng, rows, [0.0, 1.0]), "label": choice(rng, rows, [-1.0, 1.0])}


MADE: dict[str, tuple[Callable[[Stream, int], Columns], int]] = {
    "text": (text, 600),
    "codes": (codes, 700),
    "booleans": (booleans, 300),
    "heavy tails": (tails, 500),
    "missing values": (gaps, 800),
    "wide": (wide, 900),
    "one level": (one_level, 200),
    "dates and times": (moments, 400),
    "twins": (twins, 350),
    "rare levels": (rare, 2000),
    "tiny": (mixed, 15),
    "five thousand": (mixed, 5000),
    "promised": (promised, 30_000),
}


def table(name: str) -> pa.Table:
    """The table of this name."""
    make, rows = MADE[name]
    rng = stream(sum(name.encode()))
    columns = make(rng, rows)
    first = next(iter(columns.values()))
    pull = np.array([2.0 * (value == first[0]) for value in first])
    label = pull + rng.integers(0, 513, rows) / 64
    return pa.table({"label": label} | columns)


def label_range(name: str) -> tuple[float, float]:
    return (-1.0, 1.0) if name == "promised" else (0.0, 10.0)


def source(name: str) -> Source:
    """The same to be read; an empty text is a level, as it was when these were recorded."""
    return scan(table(name), label="label", label_range=label_range(name), na=[])


def digest(value: Any) -> str:
    """SHA-256 of a JSON text that has one form."""
    form = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(form.encode()).hexdigest()
