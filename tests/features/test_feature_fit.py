"""What the fit decides, and what it notes about it: notes have fixed forms."""

from __future__ import annotations

import datetime
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from labeldp.data.source import scan
from labeldp.errors import DataError, InputError
from labeldp.features import fit as module
from labeldp.features.categories import CategoricalColumn, merge_levels
from labeldp.features.column_stats import FEW, Levels
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features


def fit(columns, scanning=None, **options):
    return fit_features(scan(pa.table(columns), **(scanning or {})), **options)


@pytest.mark.parametrize(("distinct", "categorical"), [(2, 0), (3, 1), (12, 1), (13, 0)])
def test_integer_columns_with_few_values_are_categories(distinct, categorical):
    features = fit({"n": pa.array(list(range(distinct)) * 3 + [None])}, min_count=1)
    assert len(features.categorical) == categorical == (distinct in FEW)
    assert any("`numeric=['n']`" in note for note in features.notes) == categorical


def test_declarations_win_over_inference():
    values = {"n": [1, 2, 3] * 5, "w": [1.0, 2.5, 4.0] * 5}
    features = fit(values, {"numeric": ["n"], "categorical": ["w"]})
    assert features.names == ("intercept", "n", "w=1", "w=2.5", "w=4")
    assert not features.notes


def test_design_column_order():
    columns = {
        "k": ["a", "b", "a", "b"],
        "x": [1.0, None, 3.0, 4.0],
        "flag": [True, False, None, True],
        "z": [1.0, 2.0, 3.0, 7.0],
    }
    features = fit(columns, min_count=1)
    assert features.names == (
        "intercept", "x", "x is missing", "z", "k=a", "k=b",
        "flag=false", "flag=true", "flag=(missing)",
    )  # fmt: skip
    assert features.number_columns == range(1, 4)
    assert features.category_offsets == (4, 6)
    assert features.category_sizes == (2, 3)
    assert features.scales[[0, 2, 4, 5, 6, 7, 8]].tolist() == [1.0] * 7


def test_numeric_grid_is_the_finest_with_20_bits():
    values = np.random.default_rng(0).normal(size=1000)
    column = fit({"x": values}, winsor=0).numeric[0]
    assert 2**18 < (values.max() - values.min()) / column.step <= 2**19
    assert abs(column.imputed - values.mean()) <= column.step
    assert column.scale == pytest.approx(column.step / values.std(), rel=1e-6)
    plain = fit({"x": values}, standardise=False, winsor=0).numeric[0]
    assert plain.scale == plain.step
    bare = fit({"x": values}, intercept=False, winsor=0).numeric[0]
    assert bare.centre == 0
    assert bare.fill == round(values.mean() / bare.step)


def test_large_offsets_keep_exact_codes():
    """Timestamps in microseconds differ in the last bits of float64."""
    base = 2.0**52
    features = fit({"x": [base, base + 1, base + 2, base + 4]})
    codes = features.encode(pa.record_batch({"x": [base, base + 4]})).numbers[:, 0]
    assert (codes[1] - codes[0]) * features.numeric[0].step == 4
    with pytest.raises(DataError, match="1e290"):
        fit({"x": [1e300, -1e300]})


def test_dates_count_days():
    day, noon = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 12)
    days = [day + datetime.timedelta(days=i) for i in range(30)]
    moments = [noon + datetime.timedelta(days=i) for i in range(30)]
    columns = {
        "d": pa.array(days, pa.date32()),
        "t": pa.array(moments, pa.timestamp("ns")),
        "u": pa.array(moments, pa.timestamp("s")),
    }
    d, t, u = fit(columns).numeric
    assert d.low == (day - datetime.date(1970, 1, 1)).days
    assert t.low == d.low + 0.5
    assert (t.low, t.high, t.scale) == (u.low, u.high, u.scale)


def test_missing_levels_and_literal_names():
    levels = ["(other)"] * 5 + ["(missing)"] * 5 + [None] * 5 + ["rare", "seldom"] * 3
    features = fit({"k": levels}, min_count=5)
    assert features.all_names == (
        "intercept", 'k="(missing)"', 'k="(other)"', "k=(missing)", "k=(other)",
    )  # fmt: skip
    design = features.design(pa.table({"k": ["(other)", "(missing)", None, "rare", "new"]}))
    assert design[:, 1:].argmax(1).tolist() == [1, 0, 2, 3, 3]


AB = {"a": 50, "b": 60}


@pytest.mark.parametrize(
    ("counts", "levels", "missing", "other", "rest"),
    [
        (AB, ("a", "b"), "none", False, None),
        ({**AB, "c": 4, "d": 6}, ("a", "b"), "none", True, None),
        ({**AB, "c": 4}, ("a", "b"), "none", False, "b"),
        ({**AB, None: 4}, ("a", "b"), "other", False, "b"),
        ({**AB, None: 10}, ("a", "b"), "own", False, None),
        ({**AB, None: 10, "c": 4}, ("a", "b"), "other", True, None),
        ({"a": 12, "b": 12, "c": 4}, ("a", "b"), "none", False, "a"),
        ({"a": 12, "c": 4}, ("a",), "none", False, "a"),
        ({"a": 1, "b": 2, "c": 3}, (), "none", True, None),
        # Spellings.
        ({**AB, "A ": 4}, ("a", "b"), "none", False, None),
        ({"a": 50, "A": 60, " a": 4}, ("A", "a"), "none", False, None),
        ({"a": 5, "A": 60, "b": 60}, ("A", "b"), "none", False, None),
        ({"a": 5, "A": 6, "b": 60}, ("b",), "none", True, None),
        ({"a": 200, "A": 20, "b": 60}, ("A", "a", "b"), "none", False, None),
        ({"Sales": 30, "SALES": 30, " sales": 20, "IT": 9, "IT ": 9}, ("IT", "SALES"), "none",
         False, None),
        ({"AA": 40, "Aa": 50, "aa": 60, "aa ": 3}, ("AA", "Aa", "aa"), "none", False, None),
        ({"y": 3, "yes": 60, "n": 2, "no": 70}, ("no", "yes"), "none", False, "no"),
        # Whole numbers join their neighbours.
        ({"1": 50, "2": 60, "3": 4, "7": 2}, ("1", "2"), "none", "nearest", None),
        ({"1": 50, "2": 60, "9": 4, "10": 5, "11": 6}, ("1", "10", "2"), "none", "nearest", None),
        ({"1": 50, "2": 60, "-3": 4, "4": 1, None: 3}, ("1", "2"), "other", "nearest", "2"),
        ({"1": 50, "2": 60, "3": 4, "4": 1, None: 10}, ("1", "2"), "own", "nearest", None),
        ({str(k): 6 for k in range(8)}, ("0", "2", "4", "6"), "none", "nearest", None),
        ({"1": 50, "2": 60, "45": 3, "80": 9}, ("1", "2", "80"), "none", "nearest", None),
        ({str(k): 1 for k in range(5)}, (), "none", True, None),
    ],
)  # fmt: skip
def test_merging(counts, levels, missing, other, rest):
    column = merge_levels("k", Counter(counts), 10, [])
    assert (column.levels, column.missing, column.rest) == (levels, missing, rest)
    assert (column.other, column.nearest) == (other is True, other == "nearest")
    rows: Counter[str] = Counter()
    for code, number in zip(
        column.table(pa.array(list(counts), pa.string())), counts.values(), strict=False
    ):
        rows[column.labels[code]] += number
    assert rows.total() == sum(counts.values())
    assert all(rows[level] >= 10 for level in levels)
    assert CategoricalColumn.from_json(column.to_json()) == column


def test_rare_levels_here_and_in_predictions():
    features = fit({"children": [0] * 300 + [1] * 200 + [2] * 100 + [5, 6, 9]})
    assert features.names == ("intercept", "children=0", "children=1", "children=2")
    assert any("3 of 6 whole numbers are rare and join" in note for note in features.notes)
    for rows in ([9, 0, 40, -1], ["9", "0", "40.0", "-1"]):
        design = features.design(pa.table({"children": rows}))
        assert design[:, 1:].argmax(1).tolist() == [2, 0, 2, 0]
    features = fit({"gender": ["m"] * 500 + ["f"] * 490 + ["x"] * 3})
    assert features.names == ("intercept", "gender=f", "gender=m")
    assert features.notes == (
        "gender: 1 of 3 levels too few to be told apart, taken as m, 3 rows; a level needs 31 rows",
    )
    design = features.design(pa.table({"gender": ["x", "M", "f", None]}))
    assert design[:, 1:].argmax(1).tolist() == [1, 1, 0, 1]


def test_a_level_needs_as_many_rows_as_the_root_of_all():
    levels = ["a"] * 80 + ["b"] * 10 + ["c"] * 10
    assert fit({"k": levels}).categorical[0].levels == ("a", "b", "c")
    merged = fit({"k": levels + ["d"] * 9 + ["e"] * 9}).categorical[0]  # √118 is 10.9
    assert (merged.levels, merged.other) == (("a", "b", "c"), True)


def test_constant_columns():
    columns = {
        "x": [1.0, 2.0],
        "c": [5.0, 5.0],
        "k": ["one", "one"],
        "none": pa.array([None, None], pa.float64()),
        "null": pa.nulls(2),
    }
    features = fit(columns)
    assert features.names == ("intercept", "x")
    for name in ("c", "k", "none", "null"):
        assert any(note.startswith(f"{name}: ") and "dropped" in note for note in features.notes)
    # Without an intercept a constant matters, and with gaps its indicator does.
    assert fit({"c": [5.0, 5.0]}, intercept=False).design(pa.table({"c": [5.0]})) == [[1.0]]
    gaps = fit({"c": [5.0, None, 5.0]})
    assert gaps.design(pa.table({"c": [5.0, None]})).tolist() == [[1, 0, 0], [1, 0, 1]]
    with pytest.raises(DataError, match="constant"):
        fit({"c": [5.0, None, 5.0]}, indicators=False)
    with pytest.raises(DataError, match="every feature column is constant"):
        fit({"c": [5.0, 5.0], "k": ["a", "a"]})


def test_too_many_columns_names_the_biggest(monkeypatch):
    monkeypatch.setattr(module, "MOST_COLUMNS", 20)
    columns = {"id": [f"u{i}" for i in range(50)], "k": ["a", "b"] * 25}
    with pytest.raises(DataError, match=r"53 design columns, more than 20.*'id' \(50\).*min_count"):
        fit(columns, {"categorical": ["id"]}, min_count=1)
    with pytest.raises(InputError, match="min_count"):
        fit({"x": [1.0, 2.0]}, min_count=0)


def test_identifiers_are_refused():
    """Counting levels is the one thing that takes memory, so it is bounded."""
    levels = Levels(limit=10)
    for start in range(0, 50, 7):
        levels.add(pa.array([f"u{i}" for i in range(start, start + 7)]))
    assert levels.too_many
    assert len(levels.counts) < 50, "counting stopped"


def test_names_and_kept_columns():
    features = fit({"a": ["b=c", "x"], "a=b": ["c", "y"], "intercept": [1.0, 2.0]})
    assert len(set(features.all_names)) == features.width
    assert "a=b=c #2" in features.all_names
    assert features.kept_columns == tuple(range(features.width))
    assert (features.kept_scales == features.scales).all()
    some = features.keep([0, 1, 3])
    assert some.kept_columns == (0, 1, 3)
    assert (some.kept_scales == features.scales[[0, 1, 3]]).all()
    assert (features.constant, some.constant, features.keep([1, 2]).constant) == (0, 0, None)
    bare = fit({"intercept": [1.0, 2.0, 5.0]}, intercept=False)
    assert bare.constant is None  # a column may have its name


def test_what_is_noted():
    """There is something to say of nearly every column; names are any text, but notes are short."""
    rng, rows = np.random.default_rng(3), 900
    far = rng.normal(size=rows)
    far[:3] = 1e7
    columns = {
        "far\nout": far,
        "flat" * 500: np.zeros(rows),
        "empty": pa.array([None] * rows, pa.float64()),
        "user_id": np.arange(rows),
        "grade": rng.integers(0, 5, rows),
        "town": ["Rome"] * 500 + ["rome "] * 20 + ["Oslo"] * 375 + ["x", "y", "z", "u", "v"],
        "word": [f"w{place}" for place in range(rows)],
        "same": ["a"] * rows,
        "{name}": rng.normal(size=rows),
    }
    noted = fit(columns, winsor=0.01)
    every = "\n".join(noted.notes)
    for words in (
        "flatflat", "every value is missing", "taken for an id", "treated as categorical",
        "differ only in capitals", "winsorised", "one level",
    ):  # fmt: skip
        assert words in every, every
    assert FeatureMap.from_json(noted.to_json()) == noted
    for wrong in (["a" * 1001], [""] * 13_000, [7]):
        with pytest.raises(DataError, match="malformed 'notes'"):
            FeatureMap.from_json(noted.to_json() | {"notes": wrong})
