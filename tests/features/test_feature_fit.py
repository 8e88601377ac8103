"""What the fit decides, and what it says about it."""

from __future__ import annotations

import datetime
from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from labeldp.data.source import scan
from labeldp.errors import DataError, InputError
from labeldp.features import fit as module
from labeldp.features.column_stats import Levels, Sums
from labeldp.features.column_type import FEW
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.features.notes import foreign_notes
from labeldp.features.rare_levels import merge_levels
from labeldp.passes.accumulator import run_in_order


def fit(columns, scanning=None, **options):
    return fit_features(scan(pa.table(columns), **(scanning or {})), **options)


@pytest.mark.parametrize(
    ("distinct", "categorical"),
    [(FEW.start - 1, False), (FEW.start, True), (FEW.stop - 1, True), (FEW.stop, False)],
)
def test_integer_columns_with_few_values_are_categories(distinct, categorical):
    mapped = fit({"n": pa.array(list(range(distinct)) * 3 + [None])}, min_count=1)
    assert bool(mapped.categorical) is categorical
    said = any("n: " in note and "`numeric=['n']`" in note for note in mapped.notes)
    assert said is categorical


def test_declarations_win_over_inference():
    values = {"n": [1, 2, 3] * 5, "w": [1.0, 2.5, 4.0] * 5}
    mapped = fit(values, {"numeric": ["n"], "categorical": ["w"]})
    assert mapped.names == ("intercept", "n", "w=1", "w=2.5", "w=4")
    assert not mapped.notes


def test_design_column_order():
    mapped = fit(
        {
            "k": ["a", "b", "a", "b"],
            "x": [1.0, None, 3.0, 4.0],
            "flag": [True, False, None, True],
            "z": [1.0, 2.0, 3.0, 7.0],
        },
        min_count=1,
    )
    assert mapped.names == (
        "intercept", "x", "x is missing", "z", "k=a", "k=b",
        "flag=false", "flag=true", "flag=(missing)",
    )  # fmt: skip
    assert mapped.number_columns == (1, 2, 3)
    assert mapped.category_offsets == (4, 6)
    assert mapped.category_sizes == (2, 3)
    assert mapped.scales[[0, 2, 4, 5, 6, 7, 8]].tolist() == [1.0] * 7


def test_numeric_grid_is_the_finest_with_20_bits():
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000)
    column = fit({"x": values}, winsor=0).numeric[0]
    width = values.max() - values.min()
    assert 2**18 < width / column.step <= 2**19
    assert abs(column.imputed - values.mean()) <= column.step
    assert column.scale == pytest.approx(column.step / values.std(), rel=1e-6)
    plain = fit({"x": values}, standardise=False, winsor=0).numeric[0]
    assert plain.scale == plain.step
    bare = fit({"x": values}, intercept=False, winsor=0).numeric[0]
    assert bare.centre == 0
    assert bare.fill == round(values.mean() / bare.step)


def test_the_mean_code_rounds_half_to_even_whatever_the_base():
    for low in (-3.0, -2.0, 0.0, 1.0):
        column = fit({"x": [low, low + 1]}, standardise=False).numeric[0]
        assert column.centre * column.step == low + 0.5
    sums = Sums(NumericColumn("x", 0, -3, 0, 1.0, -3.0, -2.0, 0, False))
    sums.add(pa.array([-3.0, -2.0]))
    assert sums.mean_code == -2


def test_large_offsets_keep_exact_codes():
    """Timestamps in microseconds differ in the last bits of float64."""
    base = 2.0**52
    mapped = fit({"x": [base, base + 1, base + 2, base + 4]})
    column = mapped.numeric[0]
    assert abs(column.centre) <= 2**53
    codes = mapped.encode(pa.record_batch({"x": [base, base + 4]})).numbers[:, 0]
    assert (codes[1] - codes[0]) * column.step == 4


def test_dates_count_days():
    day = datetime.date(2020, 1, 1)
    days = [day + datetime.timedelta(days=i) for i in range(30)]
    moments = [datetime.datetime(2020, 1, 1, 12) + datetime.timedelta(days=i) for i in range(30)]
    mapped = fit(
        {
            "d": pa.array(days, pa.date32()),
            "t": pa.array(moments, pa.timestamp("ns")),
            "u": pa.array(moments, pa.timestamp("s")),
        }
    )
    d, t, u = mapped.numeric
    assert d.low == (day - datetime.date(1970, 1, 1)).days
    assert t.low == d.low + 0.5
    assert (t.low, t.high, t.scale) == (u.low, u.high, u.scale)


def test_missing_levels_and_literal_names():
    levels = ["(other)"] * 5 + ["(missing)"] * 5 + [None] * 5 + ["rare", "seldom"] * 3
    mapped = fit({"k": levels}, min_count=5)
    assert mapped.all_names == (
        "intercept", 'k="(missing)"', 'k="(other)"', "k=(missing)", "k=(other)",
    )  # fmt: skip
    design = mapped.design(pa.table({"k": ["(other)", "(missing)", None, "rare", "new"]}))
    assert design[:, 1:].argmax(1).tolist() == [1, 0, 2, 3, 3]


@pytest.mark.parametrize(
    ("counts", "levels", "missing", "other", "rest"),
    [
        ({"a": 50, "b": 60}, ("a", "b"), "none", False, None),
        ({"a": 50, "b": 60, "c": 4, "d": 6}, ("a", "b"), "none", True, None),
        ({"a": 50, "b": 60, "c": 4}, ("a", "b"), "none", False, "b"),
        ({"a": 50, "b": 60, None: 4}, ("a", "b"), "other", False, "b"),
        ({"a": 50, "b": 60, None: 10}, ("a", "b"), "own", False, None),
        ({"a": 50, "b": 60, None: 10, "c": 4}, ("a", "b"), "other", True, None),
        ({"a": 12, "b": 12, "c": 4}, ("a", "b"), "none", False, "a"),
        ({"a": 12, "c": 4}, ("a",), "none", False, "a"),
        ({"a": 1, "b": 2, "c": 3}, (), "none", True, None),
        ({"a": 50, "A ": 4, "b": 60}, ("a", "b"), "none", False, None),
        ({"a": 50, "A": 60, " a": 4}, ("A", "a"), "none", False, None),
        ({"a": 5, "A": 6, "b": 60}, ("A", "b"), "none", False, None),
        ({"a": 200, "A": 20, "b": 60}, ("a", "b"), "none", False, None),
        ({"a": 199, "A": 20, "b": 60}, ("A", "a", "b"), "none", False, None),
        (
            {"Sales": 30, "SALES": 30, " sales": 20, "IT": 9, "IT ": 9},
            ("IT", "SALES"),
            "none",
            False,
            None,
        ),
        ({"AA": 40, "Aa": 50, "aa": 60, "aa ": 3}, ("AA", "Aa", "aa"), "none", False, None),
        ({"Y": 30, "yes": 9, "YES": 40, "n": 8, "no": 7}, ("YES", "n"), "none", False, None),
        ({"yes": 90, "y": 30, "no": 2}, ("y", "yes"), "none", False, "yes"),
        ({"t": 50, "f": 50, "n": 50}, ("f", "n", "t"), "none", False, None),
        ({"yes": 50, "no": 50, "maybe": 50}, ("maybe", "no", "yes"), "none", False, None),
    ],
)
def test_merging(counts, levels, missing, other, rest):
    column = merge_levels("k", Counter(counts), 10, [])
    assert (column.levels, column.missing, column.other) == (levels, missing, other)
    assert column.rest == rest
    rows: Counter[str] = Counter()
    codes = column.table(pa.array(list(counts), pa.string()))
    for code, number in zip(codes, counts.values(), strict=False):
        rows[column.labels[code]] += number
    assert rows.total() == sum(counts.values())
    assert all(rows[level] >= 10 for level in levels)


@pytest.mark.parametrize(
    ("counts", "levels", "missing", "rest"),
    [
        ({"1": 50, "2": 60, "3": 4, "7": 2}, ("1", "2"), "none", None),
        ({"1": 50, "2": 60, "9": 4, "10": 5, "11": 6}, ("1", "10", "2"), "none", None),
        ({"1": 50, "2": 60, "-3": 4, "4": 1, None: 3}, ("1", "2"), "other", "2"),
        ({"1": 50, "2": 60, "3": 4, "4": 1, None: 10}, ("1", "2"), "own", None),
        ({str(k): 6 for k in range(8)}, ("0", "2", "4", "6"), "none", None),
        ({"1": 50, "2": 60, "45": 3, "80": 9}, ("1", "2", "80"), "none", None),
    ],
)
def test_rare_whole_numbers_join_their_neighbours(counts, levels, missing, rest):
    column = merge_levels("k", Counter(counts), 10, [])
    assert (column.levels, column.missing, column.rest) == (levels, missing, rest)
    assert column.nearest
    assert not column.other
    rows = Counter()
    for level, count in counts.items():
        rows[int(column.table(pa.array([level]))[0])] += count
    assert min(rows.values()) >= 10
    assert CategoricalColumn.from_json(column.to_json()) == column


def test_the_rarest_number_counts_as_the_nearest_here_and_in_predictions():
    children = [0] * 300 + [1] * 200 + [2] * 100 + [5, 6, 9]
    mapped = fit({"children": children})
    assert mapped.names == ("intercept", "children=0", "children=1", "children=2")
    assert any("3 of 6 whole numbers are rare and join" in note for note in mapped.notes)
    assert not list(foreign_notes(mapped.notes, mapped.numeric))
    for rows in ([9, 0, 40, -1], ["9", "0", "40.0", "-1"]):
        design = mapped.design(pa.table({"children": rows}))
        assert design[:, 1:].argmax(1).tolist() == [2, 0, 2, 0]
    assert FeatureMap.from_json(mapped.to_json()) == mapped


def test_three_stray_rows_do_not_swallow_all_men():
    genders = ["m"] * 500 + ["f"] * 490 + ["x"] * 3
    mapped = fit({"gender": genders})
    assert mapped.names == ("intercept", "gender=f", "gender=m")
    assert mapped.notes == (
        "gender: 1 of 3 levels too few to be told apart, taken as m, 3 rows; a level needs 31 rows",
    )
    design = mapped.design(pa.table({"gender": ["x", "M", "f", None]}))
    assert design[:, 1:].argmax(1).tolist() == [1, 1, 0, 1]
    assert FeatureMap.from_json(mapped.to_json()) == mapped


def test_defaults_are_the_documented_ones():
    """Public rules: a level needs √rows rows; 3 to 12 integers are a category."""
    levels = ["a"] * 80 + ["b"] * 10 + ["c"] * 10
    assert fit({"k": levels}).categorical[0].levels == ("a", "b", "c")
    merged = fit({"k": levels + ["d"] * 9 + ["e"] * 9}).categorical[0]  # √118 is 10.9
    assert merged.levels == ("a", "b", "c")
    assert merged.other
    assert (FEW.start, FEW.stop - 1) == (3, 12)


def test_constant_columns_are_dropped_and_reported():
    mapped = fit(
        {
            "x": [1.0, 2.0],
            "c": [5.0, 5.0],
            "k": ["one", "one"],
            "none": pa.array([None, None], pa.float64()),
            "null": pa.nulls(2),
        }
    )
    assert mapped.names == ("intercept", "x")
    for name in ("c", "k", "none", "null"):
        assert any(note.startswith(f"{name}: ") and "dropped" in note for note in mapped.notes)


def test_a_constant_matters_without_an_intercept():
    assert fit({"c": [5.0, 5.0]}, intercept=False).design(pa.table({"c": [5.0]})) == [[1.0]]


def test_constant_with_gaps_keeps_its_indicator():
    mapped = fit({"c": [5.0, None, 5.0]})
    assert mapped.design(pa.table({"c": [5.0, None]})).tolist() == [[1, 0, 0], [1, 0, 1]]
    with pytest.raises(DataError, match="constant"):
        fit({"c": [5.0, None, 5.0]}, indicators=False)


def test_nothing_left():
    with pytest.raises(DataError, match="every feature column is constant"):
        fit({"c": [5.0, 5.0], "k": ["a", "a"]})


def test_too_many_columns_names_the_biggest(monkeypatch):
    monkeypatch.setattr(module, "MOST_COLUMNS", 20)
    columns = {"id": [f"u{i}" for i in range(50)], "k": ["a", "b"] * 25}
    with pytest.raises(DataError, match=r"53 design columns, more than 20.*'id' \(50\).*min_count"):
        fit(columns, {"categorical": ["id"]}, min_count=1)


def test_identifiers_are_refused():
    """Counting levels is the one thing that takes memory, so it is bounded."""
    levels = Levels("id", limit=10)
    for start in range(0, 50, 7):
        levels.add(pa.array([f"u{i}" for i in range(start, start + 7)]))
    levels.flush()
    assert len(levels.counts) < 50, "counting stopped"
    with pytest.raises(DataError, match="'id' has more than 10 distinct values; drop it"):
        levels.check_limit()


def test_outliers_that_take_the_resolution_are_reported(monkeypatch):
    monkeypatch.setattr("labeldp.features.columns.LARGEST_CODE", 2**6)
    notes = fit({"x": np.concatenate([np.linspace(0, 1, 999), [1e6]])}, winsor=0).notes
    assert len(notes) == 1
    assert notes[0].startswith("x: the range is 1e+06 but the spread only")


def test_numbers_too_large():
    with pytest.raises(DataError, match="1e290"):
        fit({"x": [1e300, -1e300]})


def test_arguments_are_checked():
    with pytest.raises(InputError, match="min_count"):
        fit({"x": [1.0, 2.0]}, min_count=0)


def test_progress_counts_rows():
    seen = []
    table = pa.table({"x": np.arange(100.0), "k": ["a", "b"] * 50})
    fit_features(scan(table, batch_rows=30), run_pass=partial(run_in_order, progress=seen.append))
    assert seen == [30, 30, 30, 10] * 2


def test_design_names_are_unique_even_when_built_to_collide():
    mapped = fit({"a": ["b=c", "x"], "a=b": ["c", "y"], "intercept": [1.0, 2.0]})
    assert len(set(mapped.all_names)) == mapped.width
    assert "a=b=c #2" in mapped.all_names


def test_all_columns_are_kept_unless_some_are_left_out():
    every = fit_features(scan(pa.table({"x": [1.0, 2.0, 5.0], "k": ["a", "b", None]})))
    assert every.kept_columns == tuple(range(every.width))
    assert (every.kept_scales == every.scales).all()
    some = every.keep([0, 1, 3])
    assert some.kept_columns == (0, 1, 3)
    assert (some.kept_scales == every.scales[[0, 1, 3]]).all()


def test_the_constant_is_the_first_kept_column_if_it_is_kept():
    table = scan(pa.table({"intercept": [1.0, 2.0, 5.0], "k": ["a", "b", "c"]}))
    features = fit_features(table)
    assert features.constant == features.names.index("intercept") == 0
    assert features.keep([0, 2]).constant == 0
    assert features.keep([1, 2]).constant is None
    assert fit_features(table, intercept=False).constant is None  # a column may have its name


def test_equal_maps_are_equal():
    first, second = (fit({"x": [1.0, 2.0], "k": ["a", "b"]}) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert isinstance(first, FeatureMap)
