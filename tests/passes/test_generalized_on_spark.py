"""Logistic regression on a Spark data frame: the fit of one machine, but for the last bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labeldp import DataError, LogisticRegression, scan
from labeldp.sampling.streams import Randomness
from tests.learners.test_generalized import table
from tests.plans import plan


def test_it_is_the_fit_of_one_machine(spark: Any) -> None:
    data = table("logistic")
    frame = spark.createDataFrame(data.to_pandas()).repartition(3)
    source = scan(data, label="y", classes=("0", "1"))
    keys = Randomness.experiment(0)
    release = plan(source, 1, 1e-6, mechanism="shaped-flag").release(source, randomness=keys)
    here, there = LogisticRegression().fit(release, data), LogisticRegression().fit(release, frame)
    assert there.coef_ == pytest.approx(here.coef_, rel=1e-9)
    assert there.intercept_ == pytest.approx(here.intercept_, rel=1e-9)
    assert np.array_equal(there.predict(data), here.predict(data))
    with pytest.raises(DataError, match="feature sums"):
        LogisticRegression().fit(release, frame.limit(2000))
