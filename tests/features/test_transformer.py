"""The public encoding in a pipeline of scikit-learn, on the raw table."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from labeldp import LinearRegressor, plan
from labeldp.sampling.streams import Randomness
from tests.tables import source, table

ROWS = 1500
FEATURES = plan(source(ROWS), 1.0, 1e-5, force=True).features


def test_columns_are_those_of_the_design_without_the_constant() -> None:
    transformer = FEATURES.transformer()
    columns = transformer.fit_transform(table(ROWS))
    assert np.array_equal(columns, FEATURES.design(table(ROWS))[:, 1:])
    assert transformer.get_feature_names_out().tolist() == list(FEATURES.names[1:])
    without = FEATURES.keep(range(1, FEATURES.width)).transformer()
    assert len(without.get_feature_names_out()) == FEATURES.width - 1


def test_a_baseline_is_the_private_fit_without_noise() -> None:
    rows = table(ROWS)
    planned = plan(source(ROWS), 1e6, 1e-5, mechanism="shaped-flag")
    release = planned.release(source(ROWS), randomness=Randomness.experiment(0))
    baseline = make_pipeline(release.features.transformer(), LinearRegression())
    baseline.fit(rows, rows["label"].to_numpy())
    private = LinearRegressor(clip=False, shrink=False).fit(release)
    np.testing.assert_allclose(baseline.predict(rows), private.predict(rows), atol=0.01)


def test_a_pipeline_is_cross_validated_on_the_raw_table() -> None:
    pytest.importorskip("pandas")
    frame = table(ROWS).to_pandas()
    baseline = make_pipeline(FEATURES.transformer(), LinearRegression())
    scores = cross_val_score(baseline, frame, frame["label"], cv=3)
    assert 0.02 < scores.mean() < 0.3, "R² of the table is about 0.12"
    scrambled = np.random.default_rng(0).permutation(frame["label"])
    assert cross_val_score(baseline, frame, scrambled, cv=3).mean() < 0.02


def test_levels_that_were_not_fitted_count_as_the_base() -> None:
    rows = table(2).drop_columns(["town"]).append_column("town", pa.array(["nowhere"] * 2))
    names = FEATURES.transformer().get_feature_names_out()
    towns = [place for place, name in enumerate(names) if name.startswith("town=")]
    assert not FEATURES.transformer().transform(rows)[:, towns].any()


def test_a_pipeline_is_pickled() -> None:
    baseline = make_pipeline(FEATURES.transformer(), LinearRegression())
    baseline.fit(table(ROWS), table(ROWS)["label"].to_numpy())
    again = pickle.loads(pickle.dumps(baseline))
    assert np.array_equal(again.predict(table(50)), baseline.predict(table(50)))
