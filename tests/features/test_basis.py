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
from labeldp.features.basis import quantile_cells
from labeldp.features.columns import LARGEST_CODE
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.features.random_fourier import AMPLITUDE, _random, column_pairs, cosines
from labeldp.passes.engine import LocalEngine

SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


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


ASKED = {
    "basis": "splines:4+fourier:6",
    "interactions": ["age:pay", "sex:age", "edu:sex"],
    "min_count": 20,
}


def codes_of(features, rows):
    """The whole numbers of every column, by its name."""
    (batch,) = rows.to_batches()
    encoded = features.encode(batch)
    names = [features.all_names[position] for position in features.number_columns]
    return dict(zip(names, encoded.numbers.T.tolist(), strict=True))


def test_columns_are_those_of_the_slow_twin():
    rows = table()
    features = fit_features(scan(rows), **ASKED)
    codes = codes_of(features, rows)
    columns = {column.name: column for column in features.numeric}
    derived = list(features.derived)
    for term, made in derived[: len(features.basis.splines)]:
        base = codes[columns[term.column].design_columns[0].name]
        for knot, column in zip(term.knots, made, strict=True):
            assert codes[column.name] == [max(0, int(code) - knot) for code in base]
    for term, (column,) in derived[len(features.basis.splines) : -1]:
        sides = [twin_part(part, rows, columns, features) for part in (term.left, term.right)]
        product = [Fraction(a * b, 2**term.shift) for a, b in zip(*sides, strict=True)]
        assert codes[column.name] == [round(value) for value in product]  # half to even
    assert {term.shift > 0 for term in features.basis.interactions} == {True, False}


def twin_part(part, rows, columns, features):
    if part.level is None:
        column, step = columns[part.column], Fraction(columns[part.column].step)
        values = rows[part.column].to_pylist()
        return [round(Fraction(value) / step) - column.centre for value in values]
    (column,) = [c for c in features.categorical if c.name == part.column]
    return [int(value == column.labels[part.level]) for value in rows[part.column].to_pylist()]


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
    features = fit_features(scan(rows), **ASKED)
    codes, ((waves, made),) = codes_of(features, rows), features.derived[-1:]
    columns = {column.name: column for column in features.numeric}
    (batch,) = rows.to_batches()
    levels = dict(zip(("sex", "edu"), features.encode(batch).categories, strict=True))
    for number, (first, found) in enumerate(waves.draws(features.fitted)):
        turns = [first] * rows.num_rows
        for each, by in zip(waves.inputs, found, strict=True):
            for row in range(rows.num_rows):
                if each.column in columns:
                    code = int(codes[columns[each.column].design_columns[0].name][row])
                    turns[row] += twin_share(each, code) * by[0]
                else:
                    turns[row] += by[levels[each.column][row]]
        table_at = [turn % 2**64 // 2**52 for turn in turns]
        assert codes[made[number].name] == [cosines()[place] for place in table_at]


def test_phases_are_spread_as_they_should():
    """A wave is √2·cos of a direction through two evenly spread numbers, of length about 2."""
    random = np.random.default_rng(2)
    rows = pa.table({f"x{place}": random.permutation(4000).astype(float) for place in range(6)})
    features = fit_features(scan(rows), basis="fourier:200")
    waves = features.design(rows)[:, 7:]
    assert abs(np.square(waves).mean() - 1) < 0.02
    shares = np.array([rows[f"x{place}"].to_numpy() for place in range(6)]).T / 3999
    ((term, _),) = features.derived
    drawn = list(term.draws(features.fitted))
    turns = np.array([[by[0] - 2**64 * (by[0] >= 2**63) for by in found] for _, found in drawn])
    turns = turns.astype(float) * 2.0**-44  # 2**20 shares are the whole range
    first = np.array([phase for phase, _ in drawn]).astype(float) * 2.0**-64
    near = np.sqrt(2) * np.cos(2 * np.pi * (shares @ turns.T + first))
    assert np.abs(waves - near).max() < 1e-2  # of quantiles and of the table's step
    lengths = 2 * np.pi * np.linalg.norm(turns, axis=1) / np.sqrt(12)
    assert np.all(np.count_nonzero(turns, axis=1) == 2)
    assert abs(np.square(lengths).mean() - 2**2) < 5 * 2**2 * np.sqrt(2 / (2 * 200))


@pytest.mark.parametrize("columns", [2, 3, 6, 9])
def test_every_column_meets_every_other_before_two_meet_again(columns):
    pairs = list(column_pairs(columns))
    assert sorted(pairs) == list(combinations(range(columns), 2))
    together = columns // 2
    for start in range(0, len(pairs), together):
        taken = [place for pair in pairs[start : start + together] for place in pair]
        assert len(set(taken)) == 2 * together


def test_a_column_alone_has_waves_of_its_own():
    rows = pa.table({"x": np.arange(100.0)})
    design = fit_features(scan(rows), basis="fourier:5").design(rows)
    assert design.shape[1] == 7
    assert np.linalg.matrix_rank(design) == 7


def test_the_table_of_cosines():
    table, turns = cosines(), np.arange(4096) / 4096
    assert np.array_equal(table, np.rint(AMPLITUDE * np.cos(2 * np.pi * turns)) + 0.0)
    digest = hashlib.sha256(table.astype("<i4").tobytes()).hexdigest()
    assert digest == "a9e75b5263c94d3620a516cd7641ba61804afdf98698ede73ca1fcecaf4e8ff6"


def test_random_numbers_are_all_but_normal():
    """Mean, variance and fourth moment of 40,000; five deviations of each."""
    drawn = np.array([normals for normals, _ in _random("seed", 400, 100)]).ravel() / 2**16
    assert abs(drawn.mean()) < 5 / 200
    assert abs(np.square(drawn).mean() - 1) < 5 * np.sqrt(2) / 200
    assert abs((drawn**4).mean() - 2.9) < 5 * np.sqrt(96) / 200


def test_waves_are_still_beyond_the_fitted_range():
    rows = pa.table({"x": np.arange(100.0)})
    features = fit_features(scan(rows), basis="fourier:5")
    far = features.design(pa.table({"x": [99.0, 1e6, 1e300]}))
    assert np.array_equal(far[1:, 2:], far[[0, 0], 2:])


def test_codes_stay_where_sums_are_exact():
    rows = table(3000)
    features = fit_features(scan(rows), basis="splines:20", interactions=["all"])
    codes = np.array(list(codes_of(features, rows).values())).T
    assert np.all(np.abs(codes) <= features.reach)
    assert features.reach.max() <= 2 * LARGEST_CODE
    assert np.array_equal(codes, np.rint(codes))


def test_knots_are_quantiles():
    rows = pa.table({"x": np.arange(1001.0), "y": [0.0, 1.0] * 500 + [0.0]})
    features = fit_features(scan(rows), basis="splines:3")
    (hinges,) = features.basis.splines  # two numbers have none in between
    column = features.numeric[0]
    knots = [(knot + column.centre) * column.step for knot in hinges.knots]
    assert np.allclose(knots, [250, 500, 750], atol=2.0**4 * column.step)
    assert features.all_names[2:6] == ("y", *(f"max(0, x - {knot:.6g})" for knot in knots))


def test_missing_numbers_move_no_knot():
    full = pa.table({"x": np.arange(100.0)})
    gaps = pa.table({"x": [*np.arange(100.0), *[None] * 500]})
    ours, theirs = (fit_features(scan(t), basis="splines:4").basis for t in (full, gaps))
    assert ours == theirs


@SETTINGS
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30).filter(any), st.integers(1, 12))
def test_quantile_cells_by_sorting(counts, count):
    cells = [cell for cell, times in enumerate(counts) for _ in range(times)]
    wanted = {cells[-(-j * len(cells) // (count + 1)) - 1] for j in range(1, count + 1)}
    inner = sorted(wanted - {cells[0], cells[-1]})
    assert quantile_cells(np.array(counts), count) == inner


@SETTINGS
@given(st.permutations(range(60)), st.integers(1, 60), st.integers(1, 3))
def test_same_bytes_for_any_order_batches_and_threads(order, batch_rows, threads):
    rows = table(60)
    asked = {**ASKED, "min_count": 5}
    engine = LocalEngine(threads=threads)
    source = scan(rows.take(order), batch_rows=batch_rows)
    again = fit_features(source, run_pass=engine.run_pass, **asked)
    whole = fit_features(scan(rows), **asked)
    assert json.dumps(again.to_json()) == json.dumps(whole.to_json())
    digests = {
        LocalEngine().run_pass("sums", scan(rows), GramAccumulator(whole)).digest(),
        engine.run_pass("sums", source, GramAccumulator(again)).digest(),
    }
    assert len(digests) == 1


def test_one_row_is_as_among_many():
    rows = table(500)
    features = fit_features(scan(rows), **ASKED)
    many = features.design(rows)
    for place in (0, 7, 499):
        assert np.array_equal(features.design(rows.slice(place, 1))[0], many[place])


def test_json_both_ways_and_strict():
    features = fit_features(scan(table()), **ASKED)
    document = json.loads(json.dumps(features.to_json()))
    assert FeatureMap.from_json(document) == features
    for change in (
        lambda d: d.update(basis=[]),
        lambda d: d["basis"].update(more=[]),
        lambda d: d["basis"]["hinges"][0].update(column="none"),
        lambda d: d["basis"]["hinges"][0].update(knots=[3, 1]),
        lambda d: d["basis"]["hinges"][0].update(knots=[]),
        lambda d: d["basis"]["waves"][0].update(count=0),
        lambda d: d["basis"]["waves"][0].update(inputs=[]),
        lambda d: d["basis"]["waves"][0].update(inputs=[{"column": "none"}]),
        lambda d: d["basis"]["waves"][0].update(inputs=[{"column": "age"}]),
        lambda d: d["basis"]["waves"][0]["inputs"][0].update(bends=[1, 2, 3]),
        lambda d: d["basis"]["waves"][0]["inputs"][0].update(levels=[0, 99]),
        lambda d: d["basis"]["waves"][0].update(turns=float("inf")),
        lambda d: d["basis"]["waves"][0].update(span=3),
        lambda d: d["basis"]["waves"][0].pop("span"),  # of all columns, as they were once
        lambda d: d["basis"]["products"][0].update(shift=-1),
        lambda d: d["basis"]["products"][0].update(of=[["age", None]]),
        lambda d: d["basis"]["products"][0].update(of=[["age", None], ["sex", 9]]),
        lambda d: d["basis"]["products"][0].update(of=[["age", 1], ["sex", 1]]),
    ):
        broken = copy.deepcopy(document)
        change(broken)
        with pytest.raises(DataError, match="features"):
            FeatureMap.from_json(broken)


def test_linear_map_is_as_it_was():
    plain, said = fit_features(scan(table())), fit_features(scan(table()), basis="linear")
    assert plain == said
    assert "basis" not in plain.to_json()


def test_selected_columns_keep_their_terms():
    rows = table()
    features = fit_features(scan(rows), **ASKED)
    small, mask = features.select(["age", "sex"])
    assert set(small.basis.terms) == {
        term for term in features.basis.terms if term.owners <= {"age", "sex"}
    }
    assert np.array_equal(small.design(rows), features.design(rows)[:, mask])


def test_original_units():
    rows = table()
    features = fit_features(scan(rows), **ASKED)
    names, matrix = features.to_original_units()
    age = rows["age"].to_numpy().astype(float)
    pay = rows["pay"].to_numpy()
    design = features.design(rows)
    for term, made in features.derived:
        place = names.index(made[0].name)
        mean = {c.name: c.centre * c.step for c in features.numeric}
        if term.owners == {"age"}:
            column = features.numeric[0]
            values = np.maximum(0, age - (term.knots[0] + column.centre) * column.step)
        elif term.owners == {"age", "pay"}:
            values = (age - mean["age"]) * (pay - mean["pay"])
        else:
            continue
        near = np.allclose(design[:, place], values * matrix[place, place], rtol=1e-3, atol=1e-3)
        assert near, made[0].name


def test_rare_column_pairs_are_left_out():
    rows = pa.table({"a": ["x"] * 50 + ["y"] * 50, "b": ["p"] * 47 + ["q"] * 53})
    few = fit_features(scan(rows), interactions=["a:b"], min_count=10)
    assert [term.left.level for term in few.basis.interactions] == [1]
    rows = pa.table({"a": ["x"] * 50 + ["y"] * 50, "b": ["q"] * 50 + ["p"] * 45 + ["q"] * 5})
    assert not fit_features(scan(rows), interactions=["a:b"], min_count=10).basis.interactions


def test_all_pairs_within_a_budget():
    rows = table()
    features = fit_features(scan(rows), interactions=["all"], interaction_columns=5, min_count=20)
    assert len(features.basis.interactions) <= 5
    assert any("left out: 5 columns are allowed" in note for note in features.notes)
    with pytest.raises(DataError, match="`interactions` makes 2 columns, more than 1"):
        fit_features(scan(rows), interactions=["edu:age"], interaction_columns=1)


@pytest.mark.parametrize(
    "basis", ["curves", "splines:0", "splines:x", "splines+splines", "", "fourier:-3"]
)
def test_unknown_bases(basis):
    with pytest.raises(InputError, match="`basis`"):
        fit_features(scan(table()), basis=basis)


@pytest.mark.parametrize("pair", ["age", "age:", ":age", "age:age"])
def test_no_pair(pair):
    with pytest.raises(InputError, match="`interactions` holds"):
        fit_features(scan(table()), interactions=[pair])


def test_pair_of_an_unknown_column():
    with pytest.raises(DataError, match="`interactions` names 'none'"):
        fit_features(scan(table()), interactions=["age:none"])
