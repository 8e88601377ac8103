"""Rows that were not fitted: they are changed to ones that could have been, and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from labeldp import InputError, LinearRegressor, plan, scan
from labeldp.errors import DataError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.features.raw_rows import UnseenValueHandler
from tests.console import labeldp as run

ROWS = 600


def table(towns: tuple[Any, ...] = ("a", "b", "c")) -> pa.Table:
    return pa.table(
        {
            "x": (np.arange(ROWS) % 91) / 4,
            "town": pa.array([towns[k % len(towns)] for k in range(ROWS)]),
            "code": np.arange(ROWS) % 5,
        }
    )


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def fitted(towns: tuple[Any, ...] = ("a", "b", "c"), kept: list[int] | None = None) -> FeatureMap:
    features = fit_features(scan(table(towns)))
    return features if kept is None else features.keep(kept)


def test_known_rows_are_left_alone() -> None:
    features = fitted()
    rows = table().to_batches()[0]
    tame = UnseenValueHandler(features)
    assert tame(rows) is rows
    assert not tame.unknown_levels + tame.outside_range


def test_numbers_outside_are_clipped_and_counted() -> None:
    features, tame = fitted(), UnseenValueHandler(fitted())
    rows = batch(x=[-5.0, 1.0, 1e9, None], town=["a"] * 4, code=[1] * 4)
    column = features.numeric[0]
    assert tame(rows).column("x").to_pylist()[:3] == [column.low, 1.0, column.high]
    assert np.isnan(tame(rows).column("x").to_numpy()[3])
    assert tame.outside_range == {"x": 4}


@pytest.mark.parametrize("town", [["z", "a", None], pa.array(["z", "a", None]).dictionary_encode()])
def test_an_unknown_level_is_the_pruned_one(town: Any) -> None:
    width = fitted().width
    names = fitted().all_names
    features = fitted(kept=[k for k in range(width) if names[k] not in ("town=b", "code=0")])
    rows = batch(x=[1.0] * 3, town=town, code=pa.array([9, 1, 2]))
    tame = UnseenValueHandler(features)
    design = features.design(tame(rows))
    like = batch(x=[1.0] * 3, town=["b", "a", "b"], code=[0, 1, 2])
    np.testing.assert_array_equal(design, features.design(like))
    assert tame.unknown_levels == {"town": 2, "code": 1}  # a missing town is unknown as well


def test_an_unknown_level_is_missing_where_that_was_seen() -> None:
    features = fitted(("a", "b", None))
    rows = batch(x=[1.0, 1.0], town=["z", "a"], code=[1, 1])
    design = features.design(UnseenValueHandler(features, "missing")(rows))
    like = batch(x=[1.0, 1.0], town=[None, "a"], code=[1, 1])
    np.testing.assert_array_equal(design, features.design(like))


def test_what_unknown_levels_are_taken_as_is_told_as_it_is() -> None:
    assert UnseenValueHandler(fitted(("a", "b", None)), "missing").taken_as("town") == "missing"
    assert UnseenValueHandler(fitted(), "missing").taken_as("town") == "base"
    assert UnseenValueHandler(fitted(("a", "b", None)), "base").taken_as("town") == "base"


def test_an_unknown_level_is_refused_if_asked() -> None:
    features = fitted()
    rows = batch(x=[1.0], town=["z"], code=[1])
    with pytest.raises(DataError, match="level 'z'"):
        features.design(UnseenValueHandler(features, "error")(rows))
    with pytest.raises(InputError, match="`unknown` must be base, missing, error"):
        UnseenValueHandler(features, "skip")  # type: ignore[arg-type]


def test_the_command_does_not_stop(tmp_path: Any) -> None:
    rows = table().append_column("y", pa.array(np.arange(ROWS) % 10 / 1.0))
    source = scan(rows, label="y", label_range=(0, 10))
    release = plan(source, epsilon=5, delta=1e-4).release(source)
    LinearRegressor().fit(release).save(tmp_path / "m.json")
    new = pa.table({"id": ["007", "008"], "x": [1.0, 1e7], "town": ["z", "a"], "code": [1, 2]})
    pa.csv.write_csv(new, tmp_path / "new.csv")
    asked = ["predict", tmp_path / "m.json", tmp_path / "new.csv", "--keep", "id"]
    done = run(*asked, "--out", tmp_path / "p.csv", "--json")
    assert done.code == 0, done.err
    assert done.json["unknown_levels"] == {"town": 1}
    assert done.json["outside_range"] == {"x": 1}
    written = (tmp_path / "p.csv").read_text().splitlines()
    assert written[0].replace('"', "") == "id,prediction"
    assert [line.split(",")[0].strip('"') for line in written[1:]] == ["007", "008"]
    refused = run(*asked, "--unknown", "error", "--out", tmp_path / "q.csv")
    assert "level 'z'" in refused.error
    assert not (tmp_path / "q.csv").exists()
