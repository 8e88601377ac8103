"""Bases: the slow twin agrees, splits do not matter, JSON both ways, refusals."""

from __future__ import annotations

import copy
import hashlib
import json
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from labeldp.data.source import scan
from labeldp.errors import DataError, InputError
from labeldp.exact.gram import GramAccumulator
from labeldp.features import basis
from labeldp.features.basis import (
    COSINES,
    BasisCounter,
    Interaction,
    LinearSpline,
    RandomFourierFeatures,
    column_pairs,
    normals_and_phases,
)
from labeldp.features.columns import LARGEST_CODE
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.passes.engine import LocalEngine

SETTINGS = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])


def table(rows=400, seed=3):
    random = np.random.default_rng(seed)
    gaps = random.normal(size=rows)
    gaps[::7] = np.nan
    return pa.table(
        {
            "age": random.integers(18, 90, rows),
            "pay": np.exp(random.normal(10, 1, rows)),
            "gaps": gaps,
            "sex": random.choice(["F", "M"], rows),
            "edu": random.choice(["high", "low", "mid"], rows),
        }
    )


OPTIONS = {
    "basis": "splines:4+fourier:6",
    "interactions": ["age:pay", "sex:age", "edu:sex"],
    "min_count": 20,
}


def codes_of(features, rows):
    """The whole numbers of every column, by its name."""
    (batch,) = rows.to_batches()
    names = [features.all_names[position] for position in features.number_columns]
    return dict(zip(names, features.encode(batch).numbers.T.tolist(), strict=True))


def terms_of(features, kind):
    return [(term, columns) for term, columns in features.derived if isinstance(term, kind)]


def twin_part(part, rows, columns, features):
    values = rows[part.column].to_pylist()
    if part.level is None:
        column, step = columns[part.column], Fraction(columns[part.column].step)
        return [round(Fraction(value) / step) - column.centre for value in values]
    labels = features.by_name[part.column].labels
    return [int(value == labels[part.level]) for value in values]


def test_splines_and_interactions_are_those_of_the_slow_twin():
    rows = table()
    features = fit_features(scan(rows), **OPTIONS)
    codes, columns = codes_of(features, rows), features.by_name
    for term, derived in terms_of(features, LinearSpline):
        base = codes[columns[term.column].design_columns[0].name]
        for knot, column in zip(term.knots, derived, strict=True):
            assert codes[column.name] == [max(0, int(code) - knot) for code in base]
    shifts = set()
    for term, (column,) in terms_of(features, Interaction):
        sides = [twin_part(part, rows, columns, features) for part in (term.left, term.right)]
        product = [Fraction(a * b, 2**term.shift) for a, b in zip(*sides, strict=True)]
        assert codes[column.name] == [round(value) for value in product]  # half to even
        shifts.add(term.shift > 0)
    assert shifts == {True, False}


def twin_share(each, code):
    """How far a code lies between the quantiles it bends at, in units of 2**-16 of one."""
    code = min(max(code, each.bends[0]), each.bends[-1])
    pairs = zip(each.bends, each.levels, strict=True)
    for (low, level), (high, next_level) in pairwise(pairs):
        if low <= code <= high:
            return level * 2**16 + (code - low) * (next_level - level) * 2**16 // (high - low)
    raise AssertionError(code)


def test_waves_are_those_of_the_slow_twin():
    rows = table(50)
    features = fit_features(scan(rows), **OPTIONS)
    codes, ((waves, derived),) = codes_of(features, rows), terms_of(features, RandomFourierFeatures)
    columns = features.by_name
    (batch,) = rows.to_batches()
    levels = dict(zip(("sex", "edu"), features.encode(batch).categories, strict=True))
    for number, (first, multipliers) in enumerate(waves.draws(waves.sizes(features.by_name))):
        turns = [int(first)] * rows.num_rows
        for each, by in zip(waves.inputs, multipliers, strict=True):
            for row in range(rows.num_rows):
                if each.bends:
                    code = int(codes[columns[each.column].design_columns[0].name][row])
                    turns[row] += twin_share(each, code) * int(by[0])
                else:
                    turns[row] += int(by[levels[each.column][row]])
        places = [turn % 2**64 // 2**52 for turn in turns]
        assert codes[derived[number].name] == [COSINES[place] for place in places]


def test_phases_are_spread_as_they_should():
    """A wave is √2·cos of a direction through two evenly spread numbers, of length about 2."""
    random = np.random.default_rng(2)
    rows = pa.table({f"x{place}": random.permutation(4000).astype(float) for place in range(6)})
    features = fit_features(scan(rows), basis="fourier:200")
    waves = features.design(rows)[:, 7:]
    assert abs(np.square(waves).mean() - 1) < 0.02
    shares = np.array([rows[f"x{place}"].to_numpy() for place in range(6)]).T / 3999
    ((term, _),) = features.derived
    drawn = list(term.draws(term.sizes(features.by_name)))
    turns = np.array([[by.view(np.int64)[0] for by in each] for _, each in drawn])
    turns = turns.astype(float) * 2.0**-44  # 2**20 shares are the whole range
    first = np.array([int(phase) for phase, _ in drawn]).astype(float) * 2.0**-64
    near = np.sqrt(2) * np.cos(2 * np.pi * (shares @ turns.T + first))
    assert np.abs(waves - near).max() < 1e-2  # of quantiles and of the table's step
    lengths = 2 * np.pi * np.linalg.norm(turns, axis=1) / np.sqrt(12)
    assert np.all(np.count_nonzero(turns, axis=1) == 2)
    assert abs(np.square(lengths).mean() - 2**2) < 5 * 2**2 * np.sqrt(2 / (2 * 200))


@pytest.mark.parametrize("columns", [2, 3, 6, 9])
def test_every_column_meets_every_other_before_two_meet_again(columns):
    pairs, together = list(column_pairs(columns)), columns // 2
    assert sorted(pairs) == list(combinations(range(columns), 2))
    for start in range(0, len(pairs), together):
        taken = [place for pair in pairs[start : start + together] for place in pair]
        assert len(set(taken)) == 2 * together


def test_the_table_of_cosines():
    digest = hashlib.sha256(COSINES.astype("<i4").tobytes()).hexdigest()
    assert digest == "a9e75b5263c94d3620a516cd7641ba61804afdf98698ede73ca1fcecaf4e8ff6"
    halves = np.abs(2**14 * np.cos(2 * np.pi * np.arange(4096) / 4096) % 1 - 0.5)
    assert halves.min() > 2e-4  # no cosine is near enough to be rounded the other way


def test_random_numbers_are_all_but_normal():
    """Mean, variance and fourth moment of 40,000; five deviations of each."""
    drawn = [normals for normals, _ in normals_and_phases("seed", 400, 100)]
    drawn = np.ravel(drawn) / 2**16
    assert abs(drawn.mean()) < 5 / 200
    assert abs(np.square(drawn).mean() - 1) < 5 * np.sqrt(2) / 200
    assert abs((drawn**4).mean() - 2.9) < 5 * np.sqrt(96) / 200


def test_waves_of_one_column_are_flat_beyond_the_fitted_range():
    rows = pa.table({"x": np.arange(100.0)})
    features = fit_features(scan(rows), basis="fourier:5")
    assert np.linalg.matrix_rank(features.design(rows)) == 7
    far = features.design(pa.table({"x": [99.0, 1e6, 1e300]}))
    assert np.array_equal(far[1:, 2:], far[[0, 0], 2:])


def test_codes_stay_where_sums_are_exact():
    rows = table(3000)
    features = fit_features(scan(rows), basis="splines:20", interactions=["all"])
    codes = np.array(list(codes_of(features, rows).values())).T
    assert np.all(np.abs(codes) <= features.reach)
    assert features.reach.max() <= 2 * LARGEST_CODE
    assert np.array_equal(codes, np.rint(codes))


def test_knots_are_quantiles_and_missing_numbers_move_none():
    rows = pa.table({"x": np.arange(1001.0), "y": [0.0, 1.0] * 500 + [0.0]})
    features = fit_features(scan(rows), basis="splines:3")
    (spline,) = features.basis  # two numbers have none in between
    column = features.numeric[0]
    knots = [(knot + column.centre) * column.step for knot in spline.knots]
    assert np.allclose(knots, [250, 500, 750], atol=2.0**4 * column.step)
    assert features.all_names[2:6] == ("y", *(f"max(0, x - {knot:.6g})" for knot in knots))
    gaps = pa.table({"x": [*np.arange(1001.0), *[None] * 500]})
    assert fit_features(scan(gaps), basis="splines:3").basis == features.basis


@SETTINGS
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30).filter(any), st.integers(1, 12))
def test_quantiles_by_sorting(counts, parts):
    cells = [cell for cell, times in enumerate(counts) for _ in range(times)]
    wanted = [cells[max(0, -(-j * len(cells) // parts) - 1)] for j in range(parts + 1)]
    counter = BasisCounter(fit_features(scan({"x": [0.0, 1.0]})), [])
    counter.cells["x"], lowest = np.array(counts), -(2**18) // 8
    assert counter.quantile_codes("x", parts) == [8 * (lowest + cell) for cell in wanted]


@SETTINGS
@given(st.permutations(range(60)), st.integers(1, 60), st.integers(1, 3))
def test_same_bytes_for_any_order_batches_and_threads(order, batch_rows, threads):
    rows, options = table(60), {**OPTIONS, "min_count": 5}
    engine, source = LocalEngine(threads=threads), scan(rows.take(order), batch_rows=batch_rows)
    again = fit_features(source, run_pass=engine.run_pass, **options)
    whole = fit_features(scan(rows), **options)
    assert json.dumps(again.to_json()) == json.dumps(whole.to_json())
    theirs = LocalEngine().run_pass("sums", scan(rows), GramAccumulator(whole)).digest()
    assert engine.run_pass("sums", source, GramAccumulator(again)).digest() == theirs


def test_one_row_is_as_among_many():
    rows = table(500)
    features = fit_features(scan(rows), **OPTIONS)
    many = features.design(rows)
    for place in (0, 7, 499):
        assert np.array_equal(features.design(rows.slice(place, 1))[0], many[place])


def test_json_both_ways_and_strict():
    features = fit_features(scan(table()), **OPTIONS)
    document = json.loads(json.dumps(features.to_json()))
    assert FeatureMap.from_json(document) == features
    assert "basis" not in fit_features(scan(table()), basis="linear").to_json()
    damage = [
        ("hinges", {"column": "none"}, {"column": "sex"}, {"knots": [3, 1]}, {"knots": []}),
        ("waves", {"count": 0}, {"inputs": []}, {"inputs": [{"column": "none"}]},
         {"inputs": [{"column": "age"}]}, {"turns": float("inf")}, {"span": 3},
         {"inputs": [{"column": "age", "bends": [1, 2, 3], "levels": [0, 1]}]},
         {"inputs": [{"column": "age", "bends": [1, 2], "levels": [0, 99]}]}),
        ("products", {"shift": -1}, {"of": [["age", None]]}, {"of": [["age", None], ["sex", 9]]},
         {"of": [["age", 1], ["sex", 1]]}),
        ("more", {}),
    ]  # fmt: skip
    for kind, *changes in damage:
        for change in changes:
            broken = copy.deepcopy(document)
            broken["basis"].setdefault(kind, [{}])[0].update(change)
            with pytest.raises(DataError, match="features"):
                FeatureMap.from_json(broken)


def test_selected_columns_keep_their_terms():
    rows = table()
    features = fit_features(scan(rows), **OPTIONS)
    small, mask = features.select(["age", "sex"])
    names = {"age", "sex"}
    assert set(small.basis) == {
        term for term, derived in features.derived if derived[0].owners <= names
    }
    assert np.array_equal(small.design(rows), features.design(rows)[:, mask])


def test_original_units():
    rows = table()
    features = fit_features(scan(rows), **OPTIONS)
    names, matrix = features.to_original_units()
    age, pay = (rows[name].to_numpy().astype(float) for name in ("age", "pay"))
    mean, design = {c.name: c.centre * c.step for c in features.numeric}, features.design(rows)
    checked = 0
    for term, derived in features.derived:
        if derived[0].owners == {"age"}:
            column = features.numeric[0]
            values = np.maximum(0, age - (term.knots[0] + column.centre) * column.step)
        elif derived[0].owners == {"age", "pay"}:
            values = (age - mean["age"]) * (pay - mean["pay"])
        else:
            continue
        place = names.index(derived[0].name)
        np.testing.assert_allclose(
            design[:, place], values * matrix[place, place], rtol=1e-3, atol=1e-3
        )
        checked += 1
    assert checked == 2


def test_rare_pairs_of_levels_are_left_out():
    rows = pa.table({"a": ["x"] * 50 + ["y"] * 50, "b": ["p"] * 47 + ["q"] * 53})
    few = fit_features(scan(rows), interactions=["a:b"], min_count=10)
    assert [term.left.level for term in few.basis] == [1]
    rows = pa.table({"a": ["x"] * 50 + ["y"] * 50, "b": ["q"] * 50 + ["p"] * 45 + ["q"] * 5})
    assert not fit_features(scan(rows), interactions=["a:b"], min_count=10).basis


def test_all_pairs(monkeypatch):
    rows = scan(table())
    features = fit_features(rows, interactions=["all"], min_count=20)
    pairs = {derived[0].owners for _, derived in features.derived}
    assert pairs == set(map(frozenset, combinations(features.columns, 2)))
    monkeypatch.setattr(basis, "MOST_COLUMNS", 5)
    with pytest.raises(DataError, match="`interactions` makes more than 5 columns"):
        fit_features(rows, interactions=["all"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *[({"basis": basis}, "`basis`")
          for basis in ("curves", "splines:0", "splines:x", "splines+splines", "", "fourier:-3")],
        *[({"interactions": [pair]}, "`interactions` holds")
          for pair in ("age", "age:", ":age", "age:age")],
        ({"interactions": ["age:none"]}, "a product names 'none'.*`interactions`"),
    ],
)  # fmt: skip
def test_what_is_refused(options, message):
    with pytest.raises((InputError, DataError), match=message):
        fit_features(scan(table()), **options)
