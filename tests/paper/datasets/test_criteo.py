"""The Criteo log: the paper's table as made by hand, and refusals with line and column."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from labeldp.errors import DataError, InputError
from labeldp_paper.datasets.criteo import COLUMNS, LARGEST_SALE, label_range, squared_log
from labeldp_paper.datasets.declaration import Options
from labeldp_paper.datasets.making import convert, generate, stream
from tests.paper.datasets.twins import criteo_table, rows_of, same
from tests.realdata import real


@pytest.mark.parametrize("base", [2.0, math.e])
def test_the_table_is_the_one_made_by_hand(base: float, criteo_file: Path) -> None:
    found = rows_of(stream("criteo", [criteo_file], Options(log_base=base)))
    assert len(found) == 3000
    same(found, criteo_table(criteo_file.read_text(), base))


def test_the_public_sample_is_read_as_by_hand(tmp_path: Path) -> None:
    path = real("CriteoSearchData_sample.tsv.gz")
    made = convert("criteo", [path], tmp_path / "t.parquet")
    assert (made.rows, made.dropped) == (100, 2722)
    with gzip.open(path, "rt") as file:
        same(rows_of(tmp_path / "t.parquet"), criteo_table(file.read(), 2.0))


def test_a_generated_log_is_read_back_as_the_generated_table(
    criteo_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate("synthetic-criteo", tmp_path / "direct.parquet", 3000, seed=3)
    monkeypatch.setattr("labeldp_paper.datasets.delimited._BLOCK", 1 << 15)
    made = convert("criteo", [criteo_file], tmp_path / "read.parquet")
    assert made.dropped == 3000 // 8
    assert rows_of(tmp_path / "read.parquet") == rows_of(tmp_path / "direct.parquet")


def test_the_transform() -> None:
    values = np.array([0.0, 1.5, 2.0, 2.000001, 4.0, 1024.0])
    np.testing.assert_allclose(squared_log(values, 2.0), [0, 1.5, 2, 1, 4, 100], rtol=2e-6)
    assert squared_log(np.array([math.e**3]), math.e)[0] == pytest.approx(9)
    assert pytest.approx(62_452.6, abs=0.1) == LARGEST_SALE
    assert label_range(Options()) == (0.0, 254.0)
    assert label_range(Options(log_base=math.e)) == (0.0, 122.0)


def cell(column: str, value: str) -> Callable[[list[str]], list[str]]:
    place = COLUMNS.index(column)
    return lambda cells: [*cells[:place], value, *cells[place + 1 :]]


FLAWS: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "a tab less": (lambda cells: cells[:-1], "line 40, column 22: 22 field(s)"),
    "a tab more": (lambda cells: [*cells, "x"], "line 40, column 23: 24 field(s)"),
    "empty": (lambda _: [], "line 40, column 1: 0 field(s)"),
    "shifted": (lambda cells: [cells[-1], *cells[:-1]], "line 40, column 1 (Sale)"),
    "not a number": (
        cell("SalesAmountInEuro", "1,5"),
        "line 40, column 2 (SalesAmountInEuro): not a number",
    ),
    "no number": (cell("nb_clicks_1week", ""), "line 40, column 5 (nb_clicks_1week)"),
    "infinite": (cell("product_price", "inf"), "line 40, column 6 (product_price)"),
    "negative": (cell("SalesAmountInEuro", "-77"), "line 40, column 2 (SalesAmountInEuro)"),
    "a third kind of sale": (cell("Sale", "2"), "line 40, column 1 (Sale): must be 0 or 1"),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_wrong_line_is_refused_where_it_stands(
    flaw: str, criteo_file: Path, tmp_path: Path
) -> None:
    edit, message = FLAWS[flaw]
    lines = criteo_file.read_text().splitlines()
    lines[39] = "\t".join(edit(lines[39].split("\t")))
    path = tmp_path / "flawed.tsv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError) as caught:
        convert("criteo", [path], tmp_path / "out.parquet")
    text = str(caught.value).removeprefix(f"{path}, ")
    assert text.startswith(message)
    assert "77" not in text
    assert list(tmp_path.iterdir()) == [path], "nothing is left behind"


def test_other_files_are_refused(criteo_file: Path, census_file: Path, tmp_path: Path) -> None:
    text = criteo_file.read_text()
    path = tmp_path / "log.tsv"
    path.write_text("\t".join(COLUMNS) + "\n" + text)
    with pytest.raises(DataError, match=r"line 1, column 1 \(Sale\): .* header"):
        rows_of(stream("criteo", [path]))
    with pytest.raises(DataError, match="line 1, column 1: 1 field"):
        rows_of(stream("criteo", [census_file]))
    path.write_bytes(gzip.compress(text.encode())[:-2000])
    with pytest.raises(DataError, match="damaged or cut short"):
        rows_of(stream("criteo", [path]))
    path.write_text("")
    with pytest.raises(DataError, match="is empty"):
        rows_of(stream("criteo", [path]))
    lines = [line for line in text.splitlines() if line.startswith("0")]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="no row has a sale amount"):
        rows_of(stream("criteo", [path]))
    wrong = cell("product_gender", "\xff")(text.splitlines()[0].split("\t"))
    path.write_bytes("\t".join(wrong).encode("latin-1"))
    with pytest.raises(DataError, match=r"line 1, column 10 \(product_gender\): not UTF-8 text"):
        rows_of(stream("criteo", [path]))


def test_a_column_of_identifiers_is_refused(
    criteo_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labeldp_paper.datasets.criteo._MOST_LEVELS", 1000)
    place = COLUMNS.index("product_gender")
    lines = [line.split("\t") for line in criteo_file.read_text().splitlines()]
    for number, cells in enumerate(lines):
        cells[place] = f"{number:032X}"
    path = tmp_path / "log.tsv"
    path.write_text("\n".join("\t".join(cells) for cells in lines) + "\n")
    with pytest.raises(DataError, match=r"column 10 \(product_gender\) has more than 1,000"):
        rows_of(stream("criteo", [path]))


@pytest.mark.parametrize("base", [1.0, 0.5, -2.0, math.nan, math.inf])
def test_bases_without_a_logarithm(base: float, criteo_file: Path) -> None:
    with pytest.raises(InputError, match="`log_base` must be above 1"):
        stream("criteo", [criteo_file], Options(log_base=base))
