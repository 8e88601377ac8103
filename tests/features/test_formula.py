"""Formulas: what they say, what they refuse, and that they are other words for the same design."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import LinearRegressor, plan, scan
from labeldp.errors import InputError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.features.formula import Formula
from labeldp.releases.files import Release
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.features.test_basis import table

NAMES = ("age", "pay", "gaps", "sex", "edu", "my col")


@pytest.mark.parametrize(
    ("text", "columns", "knots", "pairs"),
    [
        ("y ~ age", "age", {}, ""),
        ("y ~ sex + age", "age sex", {}, ""),  # in the order of the table
        ("y ~ spline(age) + sex*edu", "age sex edu", {"age": 10}, "sex:edu"),
        ("y ~ spline(age, 4) + age:sex + sex", "age sex", {"age": 4}, "age:sex"),
        ("y ~ age*sex + pay*sex", "age pay sex", {}, "age:sex pay:sex"),
        ("y ~ age*sex + pay*sex - sex:pay", "age pay sex", {}, "age:sex"),
        ("y ~ . - gaps - `my col`", "age pay sex edu", {}, ""),
        ("y ~ . - gaps + age:sex + spline(pay) - `my col`",
         "age pay sex edu", {"pay": 10}, "age:sex"),
        ("y ~ spline(age) + pay - age", "pay", {}, ""),
    ],
)  # fmt: skip
def test_what_formulas_say(text: str, columns: str, knots: Any, pairs: str) -> None:
    expected = {frozenset(pair.split(":")) for pair in pairs.split()}
    formula = Formula(text, NAMES)
    assert formula.columns == tuple(columns.split())
    assert formula.knots == knots
    assert set(map(frozenset, formula.pairs)) == expected


def test_the_constant_logs_categories_and_waves() -> None:
    assert Formula("y ~ age").intercept
    assert Formula("y ~ 1 + age").intercept
    for text in ("y ~ age - 1", "y ~ 0 + age", "y ~ -1 + age"):
        assert not Formula(text).intercept
    found = Formula("pay ~ . + spline(log(age), 3) + C(gaps) + fourier(7)", NAMES)
    assert (found.log, found.categorical, found.waves) == (("age",), {"gaps"}, 7)
    assert (found.label, found.knots) == ("pay", {"age": 3})
    assert found.columns == ("age", "gaps", "sex", "edu", "my col")
    assert Formula("~ age").label is None
    assert Formula("`my col` ~ age").label == "my col"
    names = ("class", "x.1", "_0", *(f"x{place}" for place in range(800)))  # as Python has them
    assert Formula("lambda ~\n class + x.1 + _0", names).columns == names[:3]
    assert Formula(f"y ~ {' + '.join(names)}", names).columns == names
    with pytest.raises(InputError, match=r"there is no log\(\) there"):
        Formula(f"y ~ {'log(' * 5000}age{')' * 5000}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("y", "has 'end of formula' where ~ should stand"),
        ("log(y) ~ age", r"has '\(' where ~ should stand"),
        ("", "has 'end of formula' where a label and ~ should stand"),
        ("y ~", "has 'end of formula' where a column should stand"),
        ("y ~ age +", "has 'end of formula' where a column should stand"),
        ("y ~ log(age", r"has 'end of formula' where \) should stand"),
        ("y ~ (age + pay)*sex", r"has '\(' where a column should stand"),
        ("y ~ age sex", "has 'sex' where end of formula should stand"),
        ("y ~ age^2", r"has '\^' where end of formula should stand"),
        ("y ~ 2*age", "has '2' where a column should stand"),
        ("y ~ poly(age)", r"there is no poly\(\) there; there are spline"),
        ("y ~ spline(age, x)", r"has 'x' where \) should stand"),
        ("y ~ spline(age, 0)", "take 1 to 1,000"),
        ("y ~ spline(age)*sex", "that are no splines"),
        ("y ~ age*sex*edu", "of two different columns"),
        ("y ~ 1:age", "has ':' where end of formula should stand"),
        ("y ~ .*age", r"has '\*' where end of formula should stand"),
        ("y ~ age:age", "two different columns"),
        ("y ~ age*C(age)", "two different columns"),
        ("y ~ C(age) + age", "'age' in two forms"),
        ("y ~ age:sex + age", "without sex; .*write age\\*sex"),
        ("y ~ age + log(age)", "'age' in two forms"),
        ("y ~ spline(age, 3) + spline(age, 4)", "'age' in two forms"),
        ("y ~ spline(age) + C(age)", "'age' in two forms"),
        ("y ~ other", "names 'other', which is no feature column"),
        ("y ~ C(log(age))", r"there is no log\(\) there"),
        ("y ~ 1", "leaves no column"),
        ("y ~ age - age", "leaves no column"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        Formula(text, NAMES)
    assert str(caught.value).startswith("`formula`")
    assert "\n" not in str(caught.value)


def test_a_formula_is_other_words_for_the_same_design() -> None:
    """Same bytes as by the options, whichever way it is written; JSON both ways."""
    rows = table()
    for text, options, columns in [
        ("~ .", {}, None),
        ("~ spline(age, 4) + spline(pay, 4) + spline(gaps, 4) + sex + edu + sex:edu",
         {"basis": "splines:4", "interactions": ["sex:edu"]}, None),
        ("~ log(pay) + edu*age + C(sex)", {"log": ["pay"], "interactions": ["age:edu"]},
         ["age", "pay", "sex", "edu"]),
        ("~ . + fourier(5) - 1", {"basis": "linear+fourier:5", "intercept": False}, None),
    ]:  # fmt: skip
        found = fit_features(scan(rows), formula=text, min_count=20)
        other = fit_features(scan(rows, features=columns), **options, min_count=20)
        assert found.to_json() == other.to_json()
        again = FeatureMap.from_json(found.to_json())
        np.testing.assert_array_equal(again.design(rows), other.design(rows))
    few = fit_features(scan(rows), formula="~ spline(age, 4) + pay")
    assert [(term.column, len(term.knots)) for term in few.basis] == [("age", 4)]
    assert few.columns == ("age", "pay")


def labelled(rows: int = 2000) -> pa.Table:
    made = table(rows)
    age = made["age"].to_numpy()
    return made.append_column("y", pa.array(np.abs(age - 50) / 4.0))


def test_a_formula_in_a_plan_and_a_release(tmp_path: Path) -> None:
    rows = labelled()
    words: dict[str, Any] = {"formula": "y ~ spline(age, 6) + sex", "label_range": (0, 10)}
    made = plan(rows, 8.0, 1e-6, **words)
    source = scan(rows, label="y", label_range=(0, 10))
    assert plan(source, 8.0, 1e-6, formula=words["formula"]).to_json() == made.to_json()
    release = made.release(source, randomness=Randomness.experiment(1))
    model = LinearRegressor().fit(release)
    assert model.score(rows.select(["sex", "age"]), rows["y"]) > 0.9
    one = [model.predict(rows.slice(place, 1))[0] for place in range(5)]
    np.testing.assert_allclose(one, model.predict(rows)[:5], rtol=1e-12)
    data = tmp_path / "t.parquet"
    pq.write_table(rows, data)
    asked = ("--label-range", 0, 10, "--epsilon", 8, "--formula", words["formula"])
    assert labeldp("plan", data, *asked, "--out", tmp_path / "p.json").code == 0
    released = labeldp("release", data, *asked, "--out", tmp_path / "r")
    assert released.code == 0, released
    assert Release.load(tmp_path / "r").features == release.features


def test_what_does_not_go_with_a_formula(tmp_path: Path) -> None:
    rows = labelled(200)
    for choice in ({"basis": "splines:3"}, {"basis": "splines"}, {"log": ["age"]},
                   {"interactions": ["all"]}, {"intercept": False}):  # fmt: skip
        with pytest.raises(InputError, match="settled by `formula`"):
            plan(rows, 1.0, label_range=(0, 10), formula="y ~ age", **choice)
    with pytest.raises(InputError, match="they must agree"):
        plan(rows, 1.0, label="y", label_range=(0, 10), formula="pay ~ age")
    with pytest.raises(InputError, match="bends 'sex', which is a category"):
        plan(rows, 1.0, label_range=(0, 10), formula="y ~ spline(sex)")
    with pytest.raises(InputError, match="names 'y', which is no feature"):
        plan(rows, 1.0, label="y", label_range=(0, 10), formula="~ y")
    data = tmp_path / "t.parquet"
    pq.write_table(rows, data)
    for formula, why in [("y ~ poly(age)", "--formula is"), ("~ age", "name it with --label")]:
        found = labeldp("plan", data, "--label-range", 0, 10, "--formula", formula)
        assert (found.code, found.out) == (2, "")
        assert why in found.err
