"""What R's `write.table` writes: spaces between fields, and rows with a name that has no header."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from labeldp import DataError, look, scan

ROWS = 40


def _lines(label: str = "{}", bare: bool = True, names: bool = True, sign: str = " ") -> list[str]:
    mass = "{}" if bare else '"{}"'
    head = sign.join(f'"{name}"' for name in ("mass g", "species", "y", "tagged"))
    rows = [
        (f'"{k}"', mass.format(3000 + k * 7 % 90), f'"{("Adelie P.", "Gentoo")[k % 2]}"',
         label.format(k % 5), ("TRUE", "FALSE", "NA")[k % 3])
        for k in range(1, ROWS + 1)
    ]  # fmt: skip
    return [head, *(sign.join(row if names else row[1:]) for row in rows)]


def _write(folder: Path, lines: list[str]) -> Path:
    path = folder / "t.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("sign", [" ", "\t", ","])
@pytest.mark.parametrize("label", ["y", None])
def test_names_of_rows_are_left_out(sign: str, label: str | None, tmp_path: Path) -> None:
    source = scan(_write(tmp_path, _lines(sign=sign)), label=label)
    assert [n for n in source.names if n != "y"] == ["mass g", "species", "tagged"]
    table = pa.Table.from_batches(source.feature_batches())
    assert table["mass g"].to_pylist() == [3000 + k * 7 % 90 for k in range(1, ROWS + 1)]
    assert any("row names" in note for note in source.notes)


def test_spaces_divide_where_nothing_else_does(tmp_path: Path) -> None:
    source = scan(_write(tmp_path, _lines(names=False)), label="y")
    assert source.names == ("mass g", "species", "tagged")
    assert "fields are divided by 'space'; `delimiter` to change" in source.notes
    assert not any("row names" in note for note in source.notes)


def test_labels_are_read_beside_names_of_rows(tmp_path: Path) -> None:
    path = _write(tmp_path, _lines())
    source = scan(path, label="y", label_range=(0, 5))
    labels = np.concatenate([labels for _, labels in source.labelled_batches()])
    assert labels.tolist() == [k % 5 for k in range(1, ROWS + 1)]
    assert look(path, label="y")["label"]["missing"] == 0


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("label", ["{0} {0}", '"', "", "x y z", '"1" {}'])
def test_labels_have_no_say(label: str, names: bool, tmp_path: Path) -> None:
    """Notes, names and rows are those of a table with other labels."""
    (tmp_path / "a").mkdir()
    other = scan(_write(tmp_path, _lines(names=names)), label="y")
    source = scan(_write(tmp_path / "a", _lines(label, names=names)), label="y")
    assert (source.names, source.notes) == (other.names, other.notes)
    assert sum(b.num_rows for b in source.feature_batches()) == ROWS


def test_a_column_of_counts_in_a_file_of_quotes_is_a_column(tmp_path: Path) -> None:
    lines = [f'"{k}","{k % 7}","{k % 3}"' for k in range(1, ROWS)]
    path = _write(tmp_path, ['"nr","age","y"', *lines])
    assert scan(path, label="y").names == ("nr", "age")


def test_names_before_a_label_that_comes_first_are_refused(tmp_path: Path) -> None:
    """Nothing public would show them."""
    lines = [f'"{k}" {k % 3} {k % 7}' for k in range(1, ROWS)]
    source = scan(_write(tmp_path, ['"y" "age"', *lines]), label="y", label_range=(0, 9))
    with pytest.raises(DataError, match="not a number"):
        list(source.labelled_batches())
