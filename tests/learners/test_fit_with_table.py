"""`fit(release, table)` is right for every mechanism, whether or not the table is needed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labeldp import BagRegressor, InputError, LinearRegressor, Release, plan, scan
from labeldp.mechanisms.registry import mechanism_names

N = 600
RNG = np.random.default_rng(5)
X = RNG.normal(size=N).round(3)
TABLE = pd.DataFrame({"x": X, "k": RNG.choice(["a", "b"], N), "y": np.clip(5 + X, 0, 10)})
OPTIONS: dict[str, dict[str, Any]] = {"sampled-wtd-flag": {"floor": "added", "bag_size": 30}}


@cache
def released(mechanism: str) -> Release:
    source = scan(TABLE, label="y", label_range=(0, 10))
    options = OPTIONS.get(mechanism, {})
    return plan(source, 4, 1e-6, mechanism=mechanism, force=True, **options).release(source)


@pytest.mark.filterwarnings("ignore::labeldp.errors.LabelDPWarning")
@pytest.mark.parametrize("mechanism", mechanism_names())
def test_linear(mechanism: str, tmp_path: Path) -> None:
    release, path = released(mechanism), tmp_path / "t.parquet"
    TABLE.to_parquet(path)
    tables = TABLE, str(path), scan(TABLE, label="y", label_range=(0, 10))
    fits = [LinearRegressor().fit(release, table).predict(TABLE) for table in tables]
    assert np.array_equal(fits[0], fits[1])
    assert np.array_equal(fits[0], fits[2])
    if not release.needs_rows:
        assert np.array_equal(fits[0], LinearRegressor().fit(release).predict(TABLE))


@pytest.mark.filterwarnings("ignore::labeldp.errors.LabelDPWarning")
@pytest.mark.parametrize("mechanism", mechanism_names())
def test_network(mechanism: str) -> None:
    """Aggregated features teach linear networks alone, which have no hidden layer."""
    release = released(mechanism)
    fitted = BagRegressor(hidden=(), epochs=2).fit(release, TABLE)
    assert np.isfinite(fitted.predict(TABLE)).all()


def test_a_list_of_one_release() -> None:
    release = released("sampled-noisy-wtd-lag")
    expected = LinearRegressor().fit(release, TABLE).predict(TABLE)
    assert np.array_equal(LinearRegressor().fit([release], TABLE).predict(TABLE), expected)


@pytest.mark.filterwarnings("ignore::labeldp.errors.LabelDPWarning")
def test_of_several_releases_none_needs_the_table() -> None:
    half = TABLE.iloc[: N // 2].assign(x=TABLE["x"][: N // 2] + 1)
    source = scan(half, label="y", label_range=(0, 10))
    other = plan(source, 4, 1e-6, mechanism="shaped-flag").release(source)
    both = [released("shaped-flag"), other]
    expected = LinearRegressor().fit(both).predict(TABLE)
    assert np.array_equal(LinearRegressor().fit(both, TABLE).predict(TABLE), expected)


@pytest.mark.parametrize("labels", [TABLE["y"], TABLE["y"].to_numpy(), TABLE["y"].to_list()])
def test_labels_are_no_table(labels: Any) -> None:
    with pytest.raises(InputError, match="carries its own labels; leave `y` out"):
        LinearRegressor().fit(released("shaped-flag"), labels)
