"""Laws of the feature map: splits do not matter, the twin agrees, JSON is the identity."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from labeldp.data.source import scan
from labeldp.errors import DataError
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


@st.composite
def options(draw):
    flag = st.booleans()
    return {
        "intercept": draw(flag),
        "indicators": draw(flag),
        "standardise": draw(flag),
        "min_count": draw(st.integers(1, 12)),
        "winsor": draw(st.sampled_from([0, 0.001, 0.1, 0.3, 0.49])),
    }


def fitted(data, chosen, **scanning):
    try:
        return fit_features(scan(data, numeric=["n"], **scanning), **chosen)
    except DataError as error:
        return str(error)


@SETTINGS
@given(tables(), options(), st.data())
def test_same_bytes_for_any_split(tmp_path_factory, table, chosen, data):
    whole = fitted(table, chosen)
    rows = table.num_rows
    order = data.draw(st.permutations(range(rows)))
    shuffled = table.take(order)
    cut = data.draw(st.integers(0, rows))
    place = tmp_path_factory.mktemp("split")
    group = data.draw(st.integers(1, rows))
    pq.write_table(shuffled.slice(0, cut), place / "0.parquet", row_group_size=group)
    pq.write_table(shuffled.slice(cut), place / "1.parquet", use_dictionary=False)
    again = fitted(place, chosen, batch_rows=data.draw(st.integers(1, rows)))
    assert again == whole
    if isinstance(whole, FeatureMap):
        assert json.dumps(again.to_json()) == json.dumps(whole.to_json())


@SETTINGS
@given(tables(), options())
def test_design_equals_the_slow_twin(table, chosen):
    mapped = fitted(table, chosen)
    flags = {name: chosen[name] for name in ("intercept", "indicators", "standardise")}
    flags["winsor"] = str(chosen["winsor"])
    columns = [[1.0] * table.num_rows] if chosen["intercept"] else []
    blocks = [twin_numeric(table[name].to_pylist(), **flags) for name in ("x", "n", "z")]
    blocks.append(twin_categorical(table["k"].to_pylist(), chosen["min_count"]))
    if all(block is None for block in blocks):
        assert isinstance(mapped, str)
        assert "constant" in mapped
        return
    columns += [column for block in blocks for column in block or []]
    np.testing.assert_array_equal(mapped.design(table), np.array(columns).T)


@SETTINGS
@given(tables(), options())
def test_json_is_the_identity(table, chosen):
    mapped = fitted(table, chosen)
    if isinstance(mapped, FeatureMap):
        mapped = mapped.keep(range(0, mapped.width, 2))
        text = json.dumps(mapped.to_json(), allow_nan=False)
        again = FeatureMap.from_json(json.loads(text))
        assert again == mapped
        assert json.dumps(again.to_json()) == text


@SETTINGS
@given(tables(), options())
def test_encode_holds_small_exact_integers_and_agrees_with_design(table, chosen):
    mapped = fitted(table, chosen)
    if isinstance(mapped, str):
        return
    batch = table.combine_chunks().to_batches()[0]
    encoded = mapped.encode(batch)
    assert encoded.rows == table.num_rows
    assert encoded.numbers.shape == (table.num_rows, len(mapped.number_columns))
    assert (encoded.numbers == np.rint(encoded.numbers)).all()
    assert (np.abs(encoded.numbers) <= 2**19).all()
    dense = np.zeros((table.num_rows, mapped.width))
    if mapped.intercept:
        dense[:, 0] = 1
    dense[:, list(mapped.number_columns)] = encoded.numbers
    blocks = zip(mapped.category_offsets, mapped.category_sizes, encoded.categories, strict=True)
    for offset, size, codes in blocks:
        assert codes.dtype == np.int32
        assert ((codes >= 0) & (codes < size)).all()
        dense[np.arange(table.num_rows), offset + codes] = 1
    np.testing.assert_array_equal(dense * mapped.scales, mapped.design(table))
    kept = mapped.keep(range(0, mapped.width, 3))
    np.testing.assert_array_equal(kept.design(table), mapped.design(table)[:, ::3])
    assert kept.names == mapped.names[::3]
    assert len(set(mapped.all_names)) == mapped.width


@SETTINGS
@given(tables(), options())
def test_codes_are_within_half_a_step(table, chosen):
    mapped = fitted(table, chosen)
    if isinstance(mapped, str):
        return
    encoded = mapped.encode(table.combine_chunks().to_batches()[0])
    at = 0
    for column in mapped.numeric:
        values = table[column.name].to_numpy(zero_copy_only=False).astype(float)
        back = (encoded.numbers[:, at] + column.centre) * column.step
        known = ~np.isnan(values)
        if column.winsorised:
            values = np.clip(values, column.low, column.high)
        slack = 0.5 * column.step + 1e-15 * np.abs(values[known])
        assert (np.abs(back[known] - values[known]) <= slack).all()
        np.testing.assert_allclose(back[~known], column.imputed)
        at += len(column.design_columns)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("pruned", [False, True])
def test_original_units_predict_the_same(intercept, pruned):
    rng = np.random.default_rng(3)
    rows = 300
    table = pa.table(
        {
            "x": pa.array(rng.integers(1000, 9000, rows) / 8, mask=rng.random(rows) < 0.2),
            "z": rng.integers(-40, 900, rows),
            "k": rng.choice(["a", "b", "c"], rows),
        }
    )
    mapped = fit_features(scan(table), intercept=intercept)
    if pruned:
        mapped = mapped.keep(range(1, mapped.width))
    beta = rng.normal(size=len(mapped.names))
    names, matrix = mapped.to_original_units()
    raw = dict(zip(names, matrix @ beta, strict=True))
    x = table["x"].to_numpy(zero_copy_only=False)
    imputed = np.where(np.isnan(x), mapped.numeric[0].imputed, x)
    predicted = (
        raw.get("intercept", 0) + raw.get("x", 0) * imputed + raw["z"] * table["z"].to_numpy()
    )
    predicted += raw["x is missing"] * np.isnan(x)
    predicted += np.array([raw.get(f"k={k}", 0) for k in table["k"].to_pylist()])
    np.testing.assert_allclose(predicted, mapped.design(table) @ beta, rtol=1e-9, atol=1e-9)
