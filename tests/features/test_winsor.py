"""Winsorising at public quantiles, and logarithms: what enters, what is said, what is kept."""

from __future__ import annotations

import json
import math

import mpmath
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from labeldp import DataError, InputError, LocalEngine
from labeldp.data.source import scan
from labeldp.features import fit
from labeldp.features.column_stats import Tails
from labeldp.features.columns import signed_log
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.mechanisms.options import Encoding

ROWS = 4000


def table(rows: int = ROWS) -> pa.Table:
    """A heavy tail, a column that is nearly always 0, integers with gaps, a category."""
    rng = np.random.default_rng(5)
    whole = rng.integers(-50, 3000, rows)
    return pa.table(
        {
            "income": np.round(rng.pareto(1.2, rows) * 1000, 2),
            "rare": np.where(np.arange(rows) % 2000 == 7, rng.normal(size=rows), 0.0),
            "whole": pa.array(whole, mask=rng.random(rows) < 0.1),
            "town": rng.choice(["a", "b", "c"], rows),
        }
    )


def column(features: FeatureMap, name: str):
    return next(each for each in features.numeric if each.name == name)


def test_the_ends_are_order_statistics() -> None:
    data = table()
    features = fit_features(scan(data), winsor=0.01)
    income = np.sort(data["income"].to_numpy())
    found = column(features, "income")
    assert (found.low, found.high) == (income[40], income[-41])
    whole = np.sort([n for n in data["whole"].to_pylist() if n is not None])
    beyond = len(whole) // 100
    found = column(features, "whole")
    assert (found.low, found.high) == (whole[beyond], whole[-1 - beyond])
    found = column(features, "rare")  # nearly all rows have one number
    values = data["rare"].to_numpy()
    assert (found.low, found.high, found.winsorised) == (values.min(), values.max(), False)


@pytest.mark.parametrize("rows", [999, 1000])
def test_few_rows_have_no_tail(rows: int) -> None:
    assert column(fit_features(scan(table(rows)), winsor=0.001), "income").winsorised == (
        rows == 1000
    )


def test_tails_of_any_number_of_rows_take_bounded_memory(monkeypatch) -> None:
    """Unless a share is asked for: the limit is lowered here, so that 4,000 rows exceed it."""
    assert fit.numbers_beyond(None, 10**12) == 16384
    assert fit.numbers_beyond(0.01, 10**12) == 10**10
    monkeypatch.setattr(fit, "_DEEPEST", 2)
    data = pa.table({"x": [*np.arange(ROWS - 4.0), 1e4, 1e6, 1e8, 1e10]})
    assert column(fit_features(scan(data)), "x").high == 1e6
    assert column(fit_features(scan(data), winsor=0.001), "x").high == ROWS - 5


def test_shares_are_taken_as_they_are_written() -> None:
    assert math.floor(0.29 * 100) == 28  # in binary
    for share, rows, count in (
        (0.3, 10, 3),
        (0.001, 7000, 7),
        (0.0007, 10_000, 7),
        (0.29, 100, 29),
    ):
        assert fit.numbers_beyond(share, rows) == count


@pytest.mark.parametrize(("end", "moved"), [(4.0, False), (4.0 + 2**-20, True)])
@pytest.mark.parametrize("sign", [1, -1])
def test_by_default_only_ends_that_reach_far_are_moved(end: float, moved: bool, sign: int) -> None:
    """The quantiles are 0 and 1, so far begins at 4; the other end keeps its outliers."""
    values = sign * np.concatenate([[-2.0], np.linspace(0, 1, 1998), [end]])
    values[1:3], values[-3:-1] = values[1], values[-2]  # ⌊2000/1000⌋ beyond either quantile
    found = column(fit_features(scan(pa.table({"x": values}))), "x")
    assert found.winsorised == moved
    ends = sorted([-2.0 * sign, (1.0 if moved else end) * sign])
    assert [found.low, found.high] == ends


def test_shares_that_are_asked_for_hold_and_outliers_are_judged_as_they_enter() -> None:
    even = np.linspace(0, 1, 2001)
    assert not fit_features(scan(pa.table({"x": even}))).numeric[0].winsorised
    found = fit_features(scan(pa.table({"x": even})), winsor=0.001).numeric[0]
    assert (found.low, found.high) == (even[2], even[-3])
    values = np.append(np.linspace(1, 100, 4999), 1e5)
    data = scan(pa.table({"x": values}))
    assert fit_features(data).numeric[0].winsorised
    assert not fit_features(data, log=["x"]).numeric[0].winsorised


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"log": ["wage"]}, "'wage', which is no feature column or a category"),
        ({"log": ["town"]}, "'town', which is no feature column or a category"),
    ],
)
def test_what_is_refused(option: dict[str, object], message: str) -> None:
    with pytest.raises((InputError, DataError), match=message):
        fit_features(scan(table()), **option)


@pytest.mark.parametrize("share", [-0.1, 0.5, math.nan, {"income": 0.1}, "much"])
def test_what_is_no_share(share: object) -> None:
    with pytest.raises(InputError, match="`winsor`"):
        Encoding(winsor=share)


def test_prediction_moves_new_numbers_to_the_same_ends() -> None:
    features = FeatureMap.from_json(
        json.loads(json.dumps(fit_features(scan(table()), winsor=0.01).to_json()))
    )
    found, place = column(features, "income"), features.names.index("income")
    new = pa.table(
        {
            "income": [found.low, -1e300, found.high, 1e300, None],
            "rare": [0.0] * 5,
            "whole": pa.array([0] * 5),
            "town": ["a"] * 5,
        }
    )
    low, below, high, above, missing = features.design(new)[:, place]
    assert (below, above) == (low, high)
    assert low < missing < high


def test_the_note_names_the_column_that_shrank_most() -> None:
    bulk = np.linspace(0, 1, 1999)
    wild = {f"x{k}": np.append(bulk, 10.0 ** (k + 3)) for k in range(5)}
    (note,) = fit_features(scan(pa.table({**wild, "tame": np.linspace(0, 1, 2000)}))).notes
    most = f"x4 at 0 and {bulk[-2]:.7g} (2 rows)"
    assert note == (
        f"winsorised at public quantiles: {most}, 4 more columns; `winsor=0` to change that"
    )


def test_one_stray_number_leaves_the_grid_fine() -> None:
    values = np.append(np.linspace(0, 1, 5000), 1e300)
    found = column(fit_features(scan(pa.table({"x": values}))), "x")
    assert found.step <= 2.0**-18
    with pytest.raises(DataError, match="1e290"):
        fit_features(scan(pa.table({"x": values})), winsor=0)


def test_csv_parquet_frames_and_threads_give_the_same_bytes(tmp_path) -> None:
    data = table()
    pa.csv.write_csv(data, tmp_path / "t.csv")
    pq.write_table(data, tmp_path / "t.parquet", row_group_size=333)
    want = json.dumps(fit_features(scan(data), log=["income"]).to_json())
    for name, threads in (("t.csv", 3), ("t.parquet", 3), ("t.parquet", 1)):
        source, engine = scan(tmp_path / name, batch_rows=271), LocalEngine(threads)
        features = fit_features(source, log=["income"], run_pass=engine.run_pass)
        assert json.dumps(features.to_json()) == want, (name, threads)
    pa.feather.write_feather(data, tmp_path / "t.arrow")  # whose rows have to be counted
    source = scan(tmp_path / "t.arrow")
    assert source.total_rows is None
    assert json.dumps(fit_features(source, log=["income"]).to_json()) == want


@given(
    st.lists(st.lists(st.integers(-4, 4) | st.floats(-3, 3) | st.just(math.nan), max_size=9)),
    st.integers(1, 6),
)
@settings(max_examples=100)
def test_tails_are_those_of_the_sorted_numbers(parts: list[list[float]], depth: int) -> None:
    tails = Tails("x", depth)
    for part in parts:
        whole = all(isinstance(number, int) for number in part)
        tails.add(pa.array(np.array(part, np.int16 if whole else np.float64)))
    every = sorted(n for part in parts for n in part if not math.isnan(n))
    least, most = tails.sorted()
    assert least.tolist() == every[:depth]
    assert most.tolist() == every[::-1][:depth]


def test_the_logarithm_is_right_to_the_last_bits() -> None:
    rng = np.random.default_rng(2)
    values = np.concatenate(
        [10.0 ** rng.uniform(-9, 300, 400), rng.uniform(0, 3, 400), [0.0, 1e308]]
    )
    with mpmath.workdps(40):
        exact = [mpmath.log1p(mpmath.mpf(value)) for value in values]
        far = [
            abs(mpmath.mpf(got) - want) / max(1, want)
            for got, want in zip(signed_log(values), exact, strict=True)
        ]
    assert max(far) < 2.0**-50
    np.testing.assert_array_equal(signed_log(-values), -signed_log(values))
    assert np.isnan(signed_log(np.array([np.nan]))[0])


def test_a_logarithm_that_was_computed_once_and_for_all() -> None:
    """Any machine must give these very bits."""
    found = signed_log(np.array([1.0, 0.1, 12345.678, -2.5e6, 1e300]))
    assert [number.hex() for number in found.tolist()] == [
        "0x1.62e42fefa39efp-1",
        "0x1.8663f793c46ccp-4",
        "0x1.2d79ff745b2fdp+3",
        "-0x1.d76aeb60a06c8p+3",
        "0x1.5963447f87fb5p+9",
    ]


def test_columns_enter_as_their_logarithms() -> None:
    data = table()
    features = fit_features(scan(data), log=["income"], winsor=0, standardise=False)
    found = column(features, "income")
    assert found.log
    design = features.design(data)[:, features.names.index("log(income)")]
    want = np.log1p(data["income"].to_numpy())
    np.testing.assert_allclose(design + found.centre * found.step, want, atol=found.step)
    assert np.abs(design / found.step).max() <= found.design_columns[0].reach
    assert FeatureMap.from_json(json.loads(json.dumps(features.to_json()))) == features
    plain, log = (
        column(fit_features(scan(data), log=names, winsor=0.01), "income")
        for names in ((), ["income"])
    )
    assert (plain.low, plain.high) == (log.low, log.high)  # the same quantiles
    assert log.winsorised
    few = pa.table({"n": pa.array([1, 10, 100] * 10)})
    assert fit_features(scan(few)).categorical
    assert fit_features(scan(few), log=["n"]).numeric[0].log
