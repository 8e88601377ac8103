"""Old compact releases, d+1 rows with all that their aggregates carried, are read as before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp import LinearRegressor, PlanError, Release, verify
from tests.mechanisms.cases import FLAG, compacted, saved, small_plan
from tests.tables import source, table


def test_the_triangle_of_the_aggregates_says_what_they_say(tmp_path: Path) -> None:
    rows = source(400)
    made = small_plan(FLAG, bags=500)
    whole = made.release(rows)
    small = Release.load(saved(compacted(whole), tmp_path / "r"))
    columns = len(made.features.names)
    assert (small.table.num_rows, small.bags) == (columns + 1, 500)
    assert verify(tmp_path / "r", table(400)).problems == ()
    models = [LinearRegressor().fit(release) for release in (whole, small)]
    # the labels of the triangle are rounded to their grid once more
    np.testing.assert_allclose(models[1].coef_, models[0].coef_, rtol=0.05, atol=1e-3)


def test_none_are_drawn_any_more() -> None:
    made = small_plan(FLAG)
    old = replace(made, claim=replace(made.claim, compact=True))
    with pytest.raises(PlanError, match="compact releases are drawn no more; plan again"):
        old.release(source(400))
