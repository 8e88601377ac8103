"""Laws of the feature map: splits do not matter, the twin agrees, JSON is the identity."""

from __future__ import annotations

import copy
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from labeldp.data.source import scan
from labeldp.errors import DataError, InputError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from tests.features.feature_twin import twin_categorical, twin_numeric

SETTINGS = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])

FLOATS = st.one_of(
    st.none(),
    st.just(float("nan")),
    st.floats(-1e12, 1e12),
    st.integers(-5, 5).map(float),
    st.sampled_from([0.0, -0.0, 1e-300, -1e-300, 5e-324, 1e200]),
)
LEVELS = st.one_of(st.none(), st.sampled_from(["a", "b", "c", "(other)", "(missing)", "", '"x']))
INTS = st.one_of(st.none(), st.integers(-3, 30))


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 40))
    column = lambda items: draw(st.lists(items, min_size=rows, max_size=rows))  # noqa: E731
    return pa.table(
        {
            "x": pa.array(column(FLOATS), pa.float64()),
            "k": pa.array(column(LEVELS), pa.string()),
            "n": pa.array(column(INTS), pa.int32()),
            "z": pa.array(column(FLOATS), pa.float64()),
        }
    )


OPTIONS = st.fixed_dictionaries(
    {
        "intercept": st.booleans(),
        "indicators": st.booleans(),
        "standardise": st.booleans(),
        "min_count": st.integers(1, 12),
        "winsor": st.sampled_from([0, 0.001, 0.1, 0.3, 0.49]),
    }
)


def fitted(data, options, **scanning):
    """The feature map, or why there is none."""
    try:
        return fit_features(scan(data, numeric=["n"], **scanning), **options)
    except DataError as error:
        return str(error)


@SETTINGS
@given(tables(), OPTIONS, st.data())
def test_same_bytes_for_any_split(tmp_path_factory, table, options, data):
    whole, rows = fitted(table, options), table.num_rows
    shuffled = table.take(data.draw(st.permutations(range(rows))))
    cut, group = data.draw(st.integers(0, rows)), data.draw(st.integers(1, rows))
    place = tmp_path_factory.mktemp("split")
    pq.write_table(shuffled.slice(0, cut), place / "0.parquet", row_group_size=group)
    pq.write_table(shuffled.slice(cut), place / "1.parquet", use_dictionary=False)
    again = fitted(place, options, batch_rows=data.draw(st.integers(1, rows)))
    assert again == whole
    if isinstance(whole, FeatureMap):
        assert json.dumps(again.to_json()) == json.dumps(whole.to_json())
        assert hash(again) == hash(whole)


@SETTINGS
@given(tables(), OPTIONS)
def test_design_equals_the_slow_twin(table, options):
    features = fitted(table, options)
    flags = {name: options[name] for name in ("intercept", "indicators", "standardise")}
    flags["winsor"] = str(options["winsor"])
    columns = [[1.0] * table.num_rows] if options["intercept"] else []
    blocks = [twin_numeric(table[name].to_pylist(), **flags) for name in ("x", "n", "z")]
    blocks.append(twin_categorical(table["k"].to_pylist(), options["min_count"]))
    if all(block is None for block in blocks):
        assert "constant" in features
        return
    columns += [column for block in blocks for column in block or []]
    np.testing.assert_array_equal(features.design(table), np.array(columns).T)


@SETTINGS
@given(tables(), OPTIONS)
def test_codes_are_small_integers_that_agree_with_the_design(table, options):
    features = fitted(table, options)
    if isinstance(features, str):
        return
    design, encoded = features.design(table), features.encode(table.to_batches()[0])
    assert (encoded.numbers == np.rint(encoded.numbers)).all()
    assert (np.abs(encoded.numbers) <= 2**19).all()
    dense = np.zeros((table.num_rows, features.width))
    if features.intercept:
        dense[:, 0] = 1
    dense[:, list(features.number_columns)] = encoded.numbers
    for block, codes in zip(features.category_blocks, encoded.categories, strict=True):
        assert ((codes >= 0) & (codes < block.stop - block.start)).all()
        dense[np.arange(table.num_rows), block.start + codes] = 1
    np.testing.assert_array_equal(dense * features.scales, design)
    at = 0
    for column in features.numeric:
        values = table[column.name].to_numpy(zero_copy_only=False).astype(float)
        if column.winsorised:
            values = np.clip(values, column.low, column.high)
        back = (encoded.numbers[:, at] + column.centre) * column.step
        known = ~np.isnan(values)
        slack = 0.5 * column.step + 1e-15 * np.abs(values[known])
        assert (np.abs(back[known] - values[known]) <= slack).all()
        np.testing.assert_allclose(back[~known], column.imputed)
        at += len(column.design_columns)
    kept = features.keep(range(0, features.width, 3))
    np.testing.assert_array_equal(kept.design(table), design[:, ::3])
    assert kept.names == features.names[::3]
    assert len(set(features.all_names)) == features.width
    text = json.dumps(kept.to_json(), allow_nan=False)
    again = FeatureMap.from_json(json.loads(text))
    assert again == kept
    assert json.dumps(again.to_json()) == text


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("pruned", [False, True])
def test_original_units_predict_the_same(intercept, pruned):
    rng, rows = np.random.default_rng(3), 300
    table = pa.table(
        {
            "x": pa.array(rng.integers(1000, 9000, rows) / 8, mask=rng.random(rows) < 0.2),
            "z": rng.integers(-40, 900, rows),
            "k": rng.choice(["a", "b", "c"], rows),
        }
    )
    features = fit_features(scan(table), intercept=intercept)
    if pruned:
        features = features.keep(range(1, features.width))
    beta = rng.normal(size=len(features.names))
    names, matrix = features.to_original_units()
    raw = dict(zip(names, matrix @ beta, strict=True))
    x = table["x"].to_numpy(zero_copy_only=False)
    imputed = np.where(np.isnan(x), features.numeric[0].imputed, x)
    predicted = raw.get("intercept", 0) + raw.get("x", 0) * imputed
    predicted += raw["z"] * table["z"].to_numpy() + raw["x is missing"] * np.isnan(x)
    predicted += np.array([raw.get(f"k={k}", 0) for k in table["k"].to_pylist()])
    np.testing.assert_allclose(predicted, features.design(table) @ beta, rtol=1e-9, atol=1e-9)


@pytest.fixture
def document():
    table = pa.table({"x": [1.0, None, 3.0], "k": ["a", "b", None]})
    return fit_features(scan(table)).keep([0, 1, 3]).to_json()


@pytest.mark.parametrize("wrong", [None, [], "text", {}, {"format": "labeldp-features/99"}])
def test_other_documents(wrong):
    with pytest.raises(DataError, match="labeldp-features/1"):
        FeatureMap.from_json(wrong)


def _paths(value, path=()):
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in entries:
        if isinstance(value, dict):
            yield (*path, key)
        if isinstance(item, dict | list):
            yield from _paths(item, (*path, key))


def test_every_damaged_field_is_refused(document):
    for *above, last in _paths(document):
        for damage in ("delete", object, float("nan"), -1.5, {"a": 1}, [[]]):
            if damage == -1.5 and last in ("low", "high"):
                continue
            parent = broken = copy.deepcopy(document)
            for key in above:
                parent = parent[key]
            if damage == "delete":
                del parent[last]
            else:
                parent[last] = damage
            with pytest.raises(DataError, match="features"):
                FeatureMap.from_json(broken)


def test_unknown_fields_and_bad_positions(document):
    assert FeatureMap.from_json(document).kept == (0, 1, 3)
    with pytest.raises(DataError):
        FeatureMap.from_json({**document, "extra": 1})
    for kept in ([1, 0], [0, 0], [0, 99]):
        with pytest.raises(InputError):
            FeatureMap.from_json({**document, "kept": kept})
    with pytest.raises(InputError, match="keep"):
        FeatureMap.from_json({**document, "kept": None}).keep([])
