"""Same rows, any format, one digest: for every kind of column, with blanks and without."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from labeldp.data.source import scan
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.io_util import json_digest

ROWS = 240
_START = datetime.datetime(2019, 12, 30, 22)


def _gap(row: int, every: int) -> bool:
    return every > 0 and row % every == 1


KINDS: dict[str, Callable[[int], Any]] = {
    "integers": lambda k: k * 7 % 101,
    "few integers": lambda k: k % 5,
    "floats": lambda k: k / 8 - 3,
    "whole floats": lambda k: float(k % 4),
    "text": lambda k: ("Köln", "a b", "東京")[k % 3],
    "codes with zeros": lambda k: f"{k % 6:03d}",
    "truth": lambda k: k % 3 == 0,
    "dates": lambda k: (_START + datetime.timedelta(days=k)).date(),
    "times": lambda k: _START + datetime.timedelta(seconds=k * 3601),
    "zip": lambda k: 10_115 + k * k % 17,
    "customer_id": lambda k: 900_000 + k * 7919 % ROWS,
    "who": lambda k: f"person {k}",
    "spelt": lambda k: "NORTH " if k % 40 == 7 else ("north", "South")[k % 2],
    "stray": lambda k: 10**9 if k == 77 else k % 2,
    "rare": lambda k: "odd" if k == 60 else "ab"[k % 2],
}
SPELT: dict[str, Callable[[int], Any]] = {
    "money": lambda k: f"${1000 + k * 37 % 5000:,}.50",
    "share": lambda k: f"{k % 83} %",
    "weight": lambda k: f"{k / 8} kg",
    "german": lambda k: f"{k % 28 + 1:02d}.{k % 12 + 1:02d}.2020",
    "words": lambda k: f"{['Jan', 'Feb', 'Mar'][k % 3]} {k % 28 + 1}, 2020",
    "month": lambda k: f"{2015 + k % 7}-{1 + k % 12:02d}",
}


def columns(every: int, *, spelt: bool = False) -> dict[str, list[Any]]:
    """One column of each kind, one in `every` values missing; `spelt`: numbers in text as well."""
    kinds = KINDS | SPELT if spelt else KINDS
    made = {
        name: [None if _gap(row + place, every) else value(row) for row in range(ROWS)]
        for place, (name, value) in enumerate(kinds.items())
    }
    return made | {"y": [float(row % 10) for row in range(ROWS)]}


def table(every: int, *, spelt: bool = False) -> pa.Table:
    return pa.table(columns(every, spelt=spelt))


def frame(data: pa.Table) -> pd.DataFrame:
    return pd.DataFrame({name: data[name].to_pylist() for name in data.column_names})


def _path(write: Callable[[Any], None], path: Path) -> Path:
    write(path)
    return path


def _excel(data: pa.Table, folder: Path) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(data.column_names)
    for row in zip(*(data[name].to_pylist() for name in data.column_names), strict=True):
        book.active.append(row)
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


def texts(data: pa.Table) -> pa.Table:
    """All as text, as whoever stores what a CSV file says has it."""
    return pa.table(
        {n: data[n] if n == "y" else data[n].cast(pa.string()) for n in KINDS | {"y": 0}}
    )


FORMS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv of arrow": lambda t, d: _path(lambda p: pa.csv.write_csv(t, p), d / "t.csv"),
    "csv of pandas": lambda t, d: _path(lambda p: frame(t).to_csv(p, index=False), d / "t.csv"),
    "csv of polars": lambda t, d: _path(pl.from_arrow(t).write_csv, d / "t.csv"),
    "semicolons": lambda t, d: _path(
        lambda p: frame(t).to_csv(p, index=False, sep=";", encoding="utf-16"), d / "t.csv"
    ),
    "parquet": lambda t, d: _path(lambda p: pq.write_table(t, p), d / "t.parquet"),
    "parquet of pandas": lambda t, d: _path(frame(t).to_parquet, d / "t.parquet"),
    "arrow file": lambda t, d: _path(lambda p: pa.feather.write_feather(t, p), d / "t.arrow"),
    "arrow": lambda t, _: t,
    "pandas": lambda t, _: frame(t),
    "polars": lambda t, _: pl.from_arrow(t),
    "excel": _excel,
}


def seen(data: Any) -> tuple[FeatureMap, str]:
    """The feature map, and a digest of it and of every entry of the design."""
    source = scan(data, label="y", label_range=(0, 10))
    features = fit_features(source)
    found = hashlib.sha256(json_digest(features.to_json()).encode())
    for batch in source.feature_batches():
        found.update(features.design(batch).tobytes())
    return features, found.hexdigest()


@cache
def whole(every: int) -> tuple[FeatureMap, str]:
    """What the other formats are compared with."""
    return seen(table(every))


@pytest.mark.parametrize("every", [0, 7])
@pytest.mark.parametrize("form", FORMS)
def test_one_model_and_one_digest(form: str, every: int, tmp_path: Path) -> None:
    assert seen(FORMS[form](table(every), tmp_path)) == whole(every)


@pytest.mark.parametrize("form", ["csv of pandas", "csv of polars", "semicolons", "excel"])
def test_numbers_in_text_are_the_same_in_every_text_file(form: str, tmp_path: Path) -> None:
    data = table(7, spelt=True)
    expected = seen(FORMS["csv of arrow"](data, tmp_path))
    assert seen(FORMS[form](data, tmp_path)) == expected
    assert {each.name for each in expected[0].numeric} > {*SPELT} - {"month"}


@pytest.mark.parametrize("rows", [frame, pl.from_arrow, texts])
def test_the_model_takes_rows_of_any_format(rows: Callable[[pa.Table], Any]) -> None:
    """That of one format is that of all."""
    features, data = whole(7)[0], table(7)
    assert (features.design(rows(data)) == features.design(data)).all()


def test_the_digest_is_not_blind() -> None:
    moved = columns(7)
    moved["dates"][5] = datetime.date(2020, 1, 1)
    assert seen(pa.table(moved))[1] != whole(7)[1]


@pytest.mark.parametrize(
    ("ending", "writer"), [("dta", "write_dta"), ("sav", "write_sav"), ("xpt", "write_xport")]
)
def test_files_of_other_programs(ending: str, writer: str, tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    made = {"n": [float(k) for k in range(60)], "k": ["ab"[k % 2] for k in range(60)]}
    data = pd.DataFrame(made | {"y": [1.0] * 60})
    getattr(pyreadstat, writer)(data, str(tmp_path / f"t.{ending}"))
    assert seen(tmp_path / f"t.{ending}") == seen(data)
