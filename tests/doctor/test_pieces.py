"""Texts that are made of numbers and words: `look` takes them to pieces where that pays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from labeldp import look
from tests.console import labeldp as run

N = 3_000
RNG = np.random.default_rng(8)
A, B = RNG.integers(90, 180, N).tolist(), RNG.integers(50, 100, N).tolist()
PAIRS = list(zip(A, B, strict=True))


def _found(texts: list[Any]) -> list[str]:
    found = look({"x": texts, "y": [float(k % 7) for k in range(len(texts))]}, label="y")
    if "--text-parts" not in found["options"]:
        assert not any("text_parts" in note for note in found["notes"])
        return []
    words: str = found["options"][found["options"].index("--text-parts") + 1]
    parts = words.split(",")
    assert [facts["name"] for facts in found["columns"]] == parts
    assert any(note.startswith("x: in the place of its texts x:") for note in found["notes"])
    return parts


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        ([f"{a}/{b}" for a, b in PAIRS], ["number1", "number2"]),
        ([f"{a}/{b}" if a > 95 else "refused" for a, b in PAIRS], ["number1", "number2"]),
        ([f"{b // 12}'{a % 12}\"" for a, b in PAIRS], ["number1", "number2"]),
        ([f"Built in {1800 + a}" for a in A], ["number1"]),
        ([f"${a}/mo" if b > 70 else "No fee" for a, b in PAIRS], ["number1"]),
        ([f"{'WDL'[a % 3]} {a % 6}–{b % 6}" for a, b in PAIRS],
         ["number1", "number2", "word1"]),
        ([f"{('TOY', 'GARDEN')[a % 2]}-{a * b}" for a, b in PAIRS], ["word1"]),
        ([f"{a % 40}" if b % 20 else f"x{a % 40}" for a, b in PAIRS], ["number1"]),
        ([f"{a}-{b:03d}" for a, b in PAIRS], ["number1"]),
        ([f"{a + b / 1000:.3f}, {k / 7:.5f}" for k, (a, b) in enumerate(PAIRS)],
         ["number1", "number2"]),
    ],
)  # fmt: skip
def test_texts_of_one_make_are_taken_to_pieces(texts: list[str], parts: list[str]) -> None:
    assert _found(texts) == [f"x:{part}" for part in parts]


def test_what_means_missing_elsewhere_still_does(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = (f"{a}/{b},{'NA' if a % 20 == 1 else a / b}\n" for a, b in PAIRS)
    path.write_text("x,z\n" + "".join(rows))
    columns = {facts["name"]: facts for facts in look(path)["columns"]}
    missing = sum(a % 20 == 1 for a in A)
    assert [*columns] == ["z", "x:number1", "x:number2"]
    assert columns["z"]["missing"] == columns["z"]["blanks"]["NA"] == missing


@pytest.mark.parametrize(
    "texts",
    [
        [f"T-{k:06d}" for k in range(N)],  # ids
        [f"P{k % 700:05d}" for k in range(N)],  # names that repeat
        [f"{a % 9}. place" for a in A],  # few enough to be levels
        [f"{a} {'abcdefghijklmnopqrstuvwxyz'[b % 26]}{'uvwxyz'[a % 6]}" for a, b in PAIRS],
        [f"{a} km" if a % 2 else f"{a} km/h" for a in A],  # different units
        [f"{a}:{b}" if a % 5 else f"{a}" for a, b in PAIRS],  # one number or two
        [f"{'ab'[a % 2]}" for a in A],
        ["2021-03-05"] * N,
        [f"{('High Street', 'Am Markt')[b % 2]} {a}" for a, b in PAIRS],  # names
    ],
)  # fmt: skip
def test_others_are_left_as_they_are(texts: list[str]) -> None:
    assert _found(texts) == []


@pytest.mark.parametrize("kept", [pd.DataFrame, pl.DataFrame, pa.table])
def test_every_kind_of_frame(kept: Any) -> None:
    found = look(kept({"x": [f"{a}/{b}" for a, b in PAIRS], "z": A}))
    assert found["options"] == ["--text-parts", "x:number1,x:number2"]


def test_what_look_said_may_be_said_to_it() -> None:
    texts = [f"{a % 40}" if b % 20 else f"x{a % 40}" for a, b in PAIRS]
    table = {"x": texts, "y": A}
    options = look(table, label="y")["options"]
    assert "--categorical" not in options
    assert look(table, label="y", text_parts=["x:number1"])["options"] == options


def test_look_and_one_release(tmp_path: Path) -> None:
    """What labels are is in the second number alone."""
    y = np.clip(np.array(B) - 50 + RNG.normal(0, 5, N), 0, 60)
    columns = {"BP": [f"{a}/{b}" for a, b in PAIRS], "y": y.round(2)}
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    options = look(tmp_path / "t.csv", label="y")["options"]
    asked = ["--label-range", "0", "60", "--epsilon", "4", "--out", str(tmp_path / "r")]
    assert run("release", str(tmp_path / "t.csv"), *options, *asked).code == 0
    assert run("verify", str(tmp_path / "r"), "--data", str(tmp_path / "t.csv")).code == 0
    assert run("fit", str(tmp_path / "r"), "--out", str(tmp_path / "m.json")).code == 0
    rows = pd.DataFrame({"BP": ["120/95", "120/55"]})
    rows.to_parquet(tmp_path / "u.parquet")
    out = str(tmp_path / "p.csv")
    assert (
        run("predict", str(tmp_path / "m.json"), str(tmp_path / "u.parquet"), "--out", out).code
        == 0
    )
    high, low = pd.read_csv(out).iloc[:, -1]
    assert high - low == pytest.approx(40, abs=6)
