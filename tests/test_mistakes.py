"""Typical mistakes in Python: each is one line that names the thing, the cause and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import labeldp
from labeldp import LinearRegressor, look, plan, scan, verify
from tests.tables import RANGE, table

TABLE = table(300)
ROWS = TABLE.drop_columns(["label"])
SAID: dict[str, Any] = {"label": "label", "label_range": RANGE}


def planned(data: Any = TABLE, epsilon: Any = 1, delta: Any = 1e-4, **choices: Any) -> Any:
    return plan(data, epsilon, delta, **SAID | {"force": True} | choices)


def replaced(**columns: Any) -> pa.Table:
    return pa.table({**TABLE.to_pydict(), **columns})


def fitted() -> LinearRegressor:
    return LinearRegressor().fit(planned().release(TABLE, label="label"))


def _written(place: Path, text: str) -> Path:
    (place / "t.csv").write_text(text)
    return place / "t.csv"


Act = Callable[[Path], Any]
MISTAKES: dict[str, tuple[Act, str]] = {
    "label misspelt": (lambda _: scan(TABLE, label="lable"), "no column 'lable'; did you mean"),
    "label missing": (
        lambda _: planned(label=None),
        "label column of the table is missing|name the label column",
    ),
    "range missing": (lambda _: planned(label_range=None), "range is missing; give `label_range`"),
    "range reversed": (lambda _: planned(label_range=(10, 0)), "the lower one first, not 10 0"),
    "range of one number": (lambda _: planned(label_range=10), "`label_range` must be two numbers"),
    "range as text": (lambda _: planned(label_range="0-10"), "`label_range` must be two numbers"),
    "label in features": (lambda _: planned(features=["label"]), "'label' is the label"),
    "label as a number": (lambda _: planned(label=4), "`label` must be text, not 4"),
    "label as a Series": (lambda _: planned(label=pd.Series([1.0])), "must be text, not a pandas"),
    "epsilon 0": (lambda _: planned(epsilon=0), "`epsilon` must be above 0"),
    "epsilon below 0": (lambda _: planned(epsilon=-1), "`epsilon` must be above 0"),
    "epsilon as text": (lambda _: planned(epsilon="one"), "`epsilon` must be a number, not the"),
    "epsilon infinite": (lambda _: planned(epsilon=np.inf), "`epsilon` must be a finite number"),
    "epsilon NaN": (lambda _: planned(epsilon=np.nan), "`epsilon` must be a finite number"),
    "epsilon None": (lambda _: planned(epsilon=None), "`epsilon` must be a number, not None"),
    "epsilon True": (lambda _: planned(epsilon=True), "`epsilon` must be a number, not True"),
    "numbers for blanks": (
        lambda _: labeldp.scan({"a": [1], "y": [1]}, label="y", na=[999]),  # type: ignore[list-item]
        "`na` must be a list of texts, not a list",
    ),
    "epsilon a list": (lambda _: planned(epsilon=[1]), "`epsilon` must be a number, not a list"),
    "delta 1": (lambda _: planned(delta=1), "`delta` must be at least 0 and below 1"),
    "bags of 5.5": (
        lambda _: planned(mechanism="wtd-flag", bags=5.5),
        "`bags` must be a whole number, not 5.5",
    ),
    "keyword misspelt": (lambda _: planned(bag=5), "has no argument `bag`; did you mean `bags`"),
    "mechanism misspelt": (lambda _: planned(mechanism="shaped"), "'shaped' is unknown; choose"),
    "bags for shaped-flag": (
        lambda _: planned(mechanism="shaped-flag", bags=5),
        "`bags` does not apply to shaped-flag; leave it out",
    ),
    "options of two mechanisms": (
        lambda _: planned(with_features=True, floor="added"),
        "does not apply to",
    ),
    "accountant misspelt": (lambda _: planned(accountant="papers"), "'papers'; plan with"),
    "engine by name": (lambda _: planned(engine="spark"), "`engine` must be of type Engine"),
    "no such file": (lambda place: scan(place / "t.csv"), "no such file or directory; check the"),
    "an empty directory": (lambda place: scan(place), "holds no data files"),
    "an address": (lambda _: scan("https://host/t.csv"), "only local files are read; download"),
    "list of lists": (lambda _: scan([[1, 2], [3, 4]]), "table with named columns"),
    "an array": (lambda _: scan(np.zeros((3, 2))), "table with named columns"),
    "a Series": (lambda _: scan(pd.Series([1.0])), "table with named columns"),
    "nothing": (lambda _: scan(None), "NoneType cannot be read as a table; pass a path"),
    "columns of two lengths": (lambda _: scan({"a": [1], "b": [1, 2]}), "lists of one length"),
    "no rows": (lambda _: planned(TABLE.slice(0, 0)), "have no rows"),
    "one row": (lambda _: planned(TABLE.slice(0, 1)), "constant|cannot protect"),
    "all labels blank": (
        lambda _: planned(replaced(label=pa.nulls(300, pa.float64()))).release(
            replaced(label=pa.nulls(300, pa.float64())), label="label"
        ),
        "missing",
    ),
    "text labels": (
        lambda _: planned(data := replaced(label=["a"] * 300)).release(data, label="label"),
        "label column 'label' holds text that is not a number",
    ),
    "labels outside": (
        lambda _: planned(label_range=(0, 1)).release(TABLE, label="label"),
        "outside the range 0 to 1",
    ),
    "categorical absent": (lambda _: planned(categorical=["zip"]), "there is no column 'zip'"),
    "categorical as text": (lambda _: planned(categorical="town"), "`categorical` must be a list"),
    "two columns of one name": (
        lambda _: scan(pa.Table.from_arrays([[1], [2]], names=["a", "a"])),
        "several columns",
    ),
    "scan of a source": (lambda _: scan(scan(TABLE)), "table with named columns"),
    "plan on other rows": (
        lambda _: planned().release(TABLE.slice(0, 200), label="label"),
        "plan again on this table",
    ),
    "release of another label": (
        lambda _: planned().release(TABLE, label=TABLE.column_names[0]),
        "is the label and cannot also stand in features",
    ),
    "save over something": (
        lambda place: planned().release(TABLE, label="label").save(place),
        "already exists; choose another name",
    ),
    "save to a number": (
        lambda _: planned().release(TABLE, label="label").save(5),
        "`directory` must be text or a path, not 5",
    ),
    "verify of nothing": (lambda place: verify(place / "none"), "is not a release directory"),
    "verify of a table": (
        lambda _: verify(TABLE),
        "`directory` must be text or a path, not",
    ),
    "load of a number": (lambda _: labeldp.Release.load(5), "`directory` must be text or a path"),
    "fit of rows alone": (lambda _: LinearRegressor().fit(ROWS.to_pandas()), "requires y"),
    "fit of a plan": (lambda _: LinearRegressor().fit(planned()), "pass the release|requires y"),
    "penalty as text": (
        lambda _: LinearRegressor(penalty="much").fit(planned().release(TABLE, label="label")),
        "`penalty` must be a number",
    ),
    "predict, columns missing": (
        lambda _: fitted().predict(ROWS.drop_columns(["town"])),
        "there is no column 'town'",
    ),
    "predict of an array": (
        lambda _: fitted().predict(np.zeros((2, 4))),
        "table with named columns",
    ),
    "model of no file": (lambda _: LinearRegressor.load(None), "`path` must be text or a path"),
    "training frame of sums": (
        lambda _: planned().release(TABLE, label="label").training_frame(),
        "a training frame is made of a release of noisy-rows",
    ),
    "too many lines above": (
        lambda place: scan(_written(place, "a,y\n1,31337\n2,5\n"), label="y", skip_lines=1),
        "no column 'y' in the line below `skip_lines`=1; correct `skip_lines`",
    ),
    "lines of a frame": (lambda _: scan(TABLE, skip_lines=2), "`skip_lines` is for text files"),
    "delimiter of a frame": (lambda _: scan(TABLE, delimiter=";"), "`delimiter` is for text files"),
    "unknown misspelt": (
        lambda _: fitted().predict(ROWS, unknown="skip"),
        "`unknown` must be 'base' or 'error', not the text 'skip'",
    ),
    "look for no column": (lambda _: look(TABLE, label="lable"), "there is no column 'lable'"),
    "threads as text": (lambda _: labeldp.LocalEngine("two"), "`threads` must be a whole number"),
    "label in capitals": (lambda _: scan(TABLE, label="LABEL"), "did you mean 'label'?"),
    "labels beside rows": (
        lambda _: plan(ROWS, TABLE["label"]),
        "`epsilon` must be a number, not a pyarrow ChunkedArray",
    ),
    "several paths": (
        lambda place: scan([place / "a.csv", place / "b.csv"]),
        "pass a path, a directory or a glob",
    ),
    "an open file": (lambda place: scan(_written(place, "a,y\n1,2\n").open()), "pass a path"),
    "range of three": (lambda _: planned(label_range=(0, 5, 10)), "`label_range` must be two"),
    "range of texts": (lambda _: planned(label_range=("0", "10")), "`label_range` must be two"),
    "range of all labels": (
        lambda _: planned(label_range=TABLE.to_pandas()["label"]),
        "`label_range` must be two numbers, the lower one first, not a pandas Series",
    ),
    "range half known": (lambda _: planned(label_range=(0, np.inf)), "two finite numbers"),
    "features by number": (lambda _: planned(features=[0, 1]), "`features` must be a list of text"),
    "no features": (lambda _: planned(features=[]), "no feature column is left"),
    "a column of lists": (
        lambda _: planned(replaced(more=[[1]] * 300)),
        "column 'more' has type list.*; drop it",
    ),
    "an infinite feature": (
        lambda _: planned(replaced(more=[np.inf] + [1.5] * 299)),
        "column 'more' holds an infinity at row 1; replace it",
    ),
    "clip as text": (lambda _: planned(clip="yes"), "`clip` must be True or False, not the text"),
    "winsor of two": (lambda _: planned(winsor=(0.01, 0.99)), "`winsor` must be a number"),
    "interactions as text": (
        lambda _: planned(interactions="height:town"),
        "`interactions` must be a list of texts",
    ),
    "fit of a list": (
        lambda _: LinearRegressor().fit([planned().release(TABLE, label="label"), None]),
        "a list of releases holds something else; give releases alone",
    ),
    "fit of a table's path": (
        lambda place: LinearRegressor().fit(_written(place, "a,y\n1,2\n")),
        "is not a release directory; name the one it was saved in",
    ),
    "predict of one row": (
        lambda _: fitted().predict(ROWS.to_pandas().iloc[0]),
        "pandas Series cannot be read as a table",
    ),
    "model of a release": (
        lambda place: LinearRegressor.load(place),
        "cannot be read: Is a directory; check the path",
    ),
    "na as text": (lambda _: scan(TABLE, na="-"), "`na` must be a list of texts, not the text '-'"),
    "a delimiter of two bytes": (
        lambda place: scan(_written(place, "a,y\n1,2\n"), delimiter="é"),
        "`delimiter` must be one ASCII character, not 'é'",
    ),
    "an encoding with a zero byte": (
        lambda place: scan(_written(place, "a,y\n1,2\n"), encoding="a\0b"),
        "`encoding` 'a\\\\x00b' is unknown; try utf-8",
    ),
    "a formula of parentheses": (
        lambda _: planned(formula="label ~ " + "(" * 5000 + "height" + ")" * 5000),
        r"it has '\(' where a column should stand",
    ),
    "a ridge without end": (
        lambda _: planned(shape_ridge=1e308),
        "`shape_ridge` must lie between 0 and 1e",
    ),
    "a share of nothing": (
        lambda _: planned(residual_share=1e-320),
        "`residual_share` must be 0 or lie between 1e-12 and 0.9",
    ),
    "basis an array": (lambda _: planned(basis=np.array([1, 2])), "`basis` must be"),
    "about a number": (
        lambda _: planned().release(TABLE, label="label", about=5),
        "`about` must be text or a path, not 5",
    ),
    "a class of frames": (lambda _: scan(pd.DataFrame), "data of type type cannot be read"),
    "integers without end": (
        lambda _: scan(pd.DataFrame({"a": pd.Series([10**30, 1], dtype=object), "y": [1, 2]})),
        "does not convert to an Arrow table",
    ),
    "a polars plan": (
        lambda _: scan(pl.LazyFrame({"y": [1]})),
        "data of type polars LazyFrame cannot be read as a table; collect it first",
    ),
    "levels of bytes": (
        lambda _: fitted().predict(ROWS.to_pandas().assign(town=b"\xff")),
        "neither a number nor a category; drop it, or turn it into plain columns first",
    ),
    "ledger as a path": (
        lambda _: planned().release(TABLE, label="label", ledger="book", dataset="t"),
        "`ledger` must be of type Ledger, not the text 'book'; open it",
    ),
    "model of a plan": (
        lambda place: (planned().save(place / "plan"), LinearRegressor.load(place / "plan")),
        "damaged one: its format is the text 'labeldp-plan/2'; name one",
    ),
    "ledger of a number": (lambda _: labeldp.Ledger(5), "`path` must be text or a path, not 5"),
    "compose of a number": (lambda _: labeldp.compose(5), "`releases` must be directories or rel"),
    "delta of a list": (
        lambda _: labeldp.compose(planned().release(TABLE, label="label")).delta([1]),
        "`epsilon` must be a number, not a list",
    ),
    "facts without a range": (
        lambda _: labeldp.DatasetBounds(rows=5, label_range=5),
        "`label_range` must be two numbers",
    ),
    "facts of texts": (
        lambda _: labeldp.DatasetBounds(rows=5, label_range=(0, 1), features="x", max_leverage=1),
        "`features` must be a whole number, not the text 'x'",
    ),
    "fit of text columns": (
        lambda _: LinearRegressor().fit(ROWS.to_pandas(), TABLE["label"].to_numpy()),
        "`X` and `y` must hold numbers alone.*; turn categories into columns of numbers",
    ),
    "fit of text labels": (
        lambda _: LinearRegressor().fit(np.ones((2, 1)), ["31337.5x", "2"]),
        "`X` and `y` must hold numbers alone",
    ),
    "fit of one column": (lambda _: LinearRegressor().fit(np.ones(3), np.ones(3)), "Reshape your"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(name: str, tmp_path: Path) -> None:
    act, said = MISTAKES[name]
    with pytest.raises(labeldp.LabelDPError, match=said) as refusal:
        act(tmp_path)
    text = str(refusal.value)
    assert "\n" not in text
    assert "31337" not in text
    assert 15 < len(text) < 600, text


def test_extra_columns_are_no_mistake() -> None:
    """Rows to predict may have more columns, in another order."""
    more = ROWS.append_column("more", pa.array(range(300))).select(
        ["more", *reversed(ROWS.column_names)]
    )
    assert np.array_equal(fitted_on(more), fitted_on(ROWS))


def test_unknown_levels_are_no_mistake() -> None:
    """They count as the base, as on the command line, and a warning says how many."""
    town = ROWS.column_names.index("town")
    odd = ROWS.slice(0, 3).set_column(town, "town", pa.array(["Atlantis"] * 3))
    with pytest.warns(labeldp.LabelDPWarning, match="town: 3 rows have a level not seen before"):
        assert np.isfinite(MODEL.predict(odd)).all()
    with pytest.raises(labeldp.DataError, match="level 'Atlantis'"):
        MODEL.predict(odd, unknown="error")


def fitted_on(rows: pa.Table) -> Any:
    return MODEL.predict(rows)


MODEL = fitted()


@pytest.mark.parametrize("mechanism", ["sampled-noisy-wtd-lag", "noisy-rows", "shaped-flag"])
def test_an_altered_certificate_is_one_line_to_a_learner(mechanism: str) -> None:
    """Whatever is missing or of another kind: a fit, or an InputError; never one from inside."""
    release = planned(mechanism=mechanism).release(TABLE, label="label")
    rows = scan(TABLE, **SAID) if release.needs_rows else None
    refusals = 0
    for name, value in release.certificate.items():
        for altered in ([], {}, None, "x", -1, [value, value]):
            wrong = replace(release, certificate={**release.certificate, name: altered})
            try:
                LinearRegressor().fit(wrong, rows)
            except labeldp.LabelDPError:
                refusals += 1
    assert refusals > 3
