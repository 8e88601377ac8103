"""Plans, engines, releases and models are copied and sent to other processes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from labeldp import LinearRegressor, LocalEngine, plan
from tests.tables import RANGE, table

TABLE = table(300)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_serves_as_the_first(copied: Callable[[Any], Any]) -> None:
    made = plan(TABLE, 1, 1e-4, label="label", label_range=RANGE, force=True, mechanism="auto")
    assert made.notes
    again = copied(made)
    assert again == made
    assert [getattr(each, "cost", 0) for each in again.notes] == [
        getattr(each, "cost", 0) for each in made.notes
    ]
    release = again.release(TABLE, label="label", engine=copied(LocalEngine(threads=1)))
    model = LinearRegressor().fit(copied(release))
    rows = TABLE.drop_columns(["label"])
    assert (copied(model).predict(rows) == model.predict(rows)).all()
