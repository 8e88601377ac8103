"""What a fit says of itself: the dictionary, and its three forms; standard errors that are true."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from labeldp import LinearRegressor, Release, scan
from labeldp.learners.summary import Summary
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.drawn import draw_release, features_of, pay_table
from tests.plans import plan
from tests.tables import RANGE, source, table

ROWS = 1500


@cache
def released(epsilon: float, seed: int = 0, share: float = 0.05) -> Release:
    made = plan(
        source(ROWS),
        epsilon=epsilon,
        delta=1e-5,
        mechanism="shaped-flag",
        residual_share=share,
        noise="gaussian",
    )
    return made.release(source(ROWS), randomness=Randomness.experiment(seed))


def test_the_dictionary_has_what_a_statistician_asks_for() -> None:
    release = released(500.0)
    told = LinearRegressor(confidence=0.9).fit(release).summary().to_dict()
    (about,) = told["releases"]
    assert about == {
        "mechanism": "shaped-flag",
        "epsilon": 500.0,
        "delta": 1e-5,
        "rows": ROWS,
        "bags": release.bags,
    }
    assert told["rows"] == ROWS
    assert told["rule"]["rule"] == "posterior mean"
    assert told["clipped_to"] == list(RANGE)
    assert told["quality"]["r2"] == pytest.approx(0.12, abs=0.06)
    assert told["quality"]["residual_std"] == pytest.approx(1.0, abs=0.1)
    assert told["intervals_for"] == "the population"
    names = [entry["name"] for entry in told["coefficients"]]
    base = told["base_levels"]
    assert set(base) == {"colour", "town"}
    for column, (level,) in base.items():
        assert f"{column}={level}" not in names
    levels = {f"colour={level}" for level in ("red", "green", "blue")}
    assert levels - set(names) == {f"colour={base['colour'][0]}"}


def test_errors_add_up_and_the_interval_covers_both() -> None:
    model = LinearRegressor(confidence=0.9).fit(released(20.0))
    told = model.summary().to_dict()["coefficients"]
    for entry, own in zip(told, model.coefficients_, strict=True):
        assert own.total_error == pytest.approx(np.hypot(own.privacy_error, own.sampling_error))
        assert entry["high"] - entry["low"] == pytest.approx(2 * 1.6448536 * own.total_error)
        assert own.high - own.low == pytest.approx(2 * 1.6448536 * own.privacy_error)


def test_errors_from_sampling_are_those_of_the_fit_with_all_labels() -> None:
    model = LinearRegressor().fit(released(1e4))
    design = model.features_.design(table(ROWS))
    labels = table(ROWS)["label"].to_numpy()
    left = labels - design @ np.linalg.lstsq(design, labels)[0]
    variance = left @ left / (ROWS - design.shape[1]) * np.linalg.inv(design.T @ design)
    units = model.features_.to_original_units()[1]
    expected = np.sqrt(np.diag(units @ variance @ units.T))
    found = [entry.sampling_error for entry in model.coefficients_]
    assert found == pytest.approx(expected, rel=0.02)


def test_intervals_hold_the_coefficients_of_the_population() -> None:
    """80 % of 40 slopes, over tables and releases: fewer than 22 has probability 3e-4, and what
    covers privacy alone holds too few."""
    inside = alone = 0
    for seed in range(40):
        numbers = table(400, seed=seed).select(["height", "score", "label"])
        rows = scan(numbers, label="label", label_range=RANGE)
        made = plan(rows, epsilon=60, delta=1e-5, mechanism="shaped-flag", residual_share=0.3)
        release = made.release(rows, randomness=Randomness.experiment(seed))
        model = LinearRegressor(confidence=0.8, shrink=False).fit(release)
        entry = next(c for c in model.summary().to_dict()["coefficients"] if c["name"] == "height")
        own = next(c for c in model.coefficients_ if c.name == "height")
        inside += entry["low"] <= 0.03 <= entry["high"]
        alone += own.low <= 0.03 <= own.high
    assert inside >= 22
    assert alone < 22


def test_sketches_have_errors_too() -> None:
    independent = features_of(pay_table()).keep(range(5))
    release = draw_release(pay_table(), 4000, 3, independent)
    model = LinearRegressor().fit(release)
    for entry in model.coefficients_:
        width = entry.high - entry.low
        assert width == pytest.approx(2 * 1.96 * entry.privacy_error, rel=0.01)
        assert entry.sampling_error == pytest.approx(
            entry.privacy_error * np.sqrt(4000 / (400 - 5)), rel=0.05
        )


def test_without_a_residual_sampling_is_not_known_and_that_is_said() -> None:
    summary = LinearRegressor().fit(released(20.0, share=0.0)).summary()
    told = summary.to_dict()
    assert told["intervals_for"] == "the fit with all labels"
    assert {entry["sampling_error"] for entry in told["coefficients"]} == {None}
    assert any("it was not published" in note for note in told["notes"])
    drowned = LinearRegressor().fit(released(0.1)).coefficients_
    assert {entry.total_error for entry in drowned} == {None}
    ridge = LinearRegressor(penalty=3.0).fit(released(20.0)).summary().to_dict()
    assert ridge["intervals_for"] is None
    assert any("penalised" in note for note in ridge["notes"])


def test_predictions_that_do_not_beat_the_constant_are_told_plainly(tmp_path: Path) -> None:
    poor = LinearRegressor().fit(released(0.05)).summary()
    assert "hardly shows that predictions beat the mean" in str(poor)
    assert not [note for note in good().to_dict()["notes"] if "constant" in note]
    bad = LinearRegressor(shrink=False).fit(released(0.05)).summary()
    assert "are worse than a constant" in str(bad)
    released(0.05).save(tmp_path / "r")
    assert "hardly shows that predictions beat the mean" in labeldp("fit", tmp_path / "r").out


def good() -> Summary:
    return LinearRegressor().fit(released(20.0)).summary()


def test_text_is_short_if_asked() -> None:
    summary = good()
    lines = str(summary).splitlines()
    count = len(summary.to_dict()["coefficients"])
    assert sum(line.startswith(("town=", "colour=")) for line in lines) == count - 3
    short = summary.text(4).splitlines()
    assert f"… and {count - 4} more, nearer to their errors" in short
    assert any(line.startswith("height") for line in short), "which stands out most"
    assert "Levels count from colour=" in str(summary)


def test_html_and_latex_escape_names() -> None:
    model = LinearRegressor().fit(released(20.0))
    entries = (replace(model.coefficients_[0], name="<b>&a_b%</b>"), *model.coefficients_[1:])
    model.coefficients_ = entries
    html, latex = model.summary()._repr_html_(), model.summary().to_latex()
    assert "&lt;b&gt;&amp;a_b%&lt;/b&gt;" in html
    assert "<b>" not in html
    assert r"<b>\&a\_b\%</b>" in latex
    assert latex.count("&") - latex.count(r"\&") == 6 * (len(entries) + 1)
    assert html.count("<tr>") == len(entries) + 1 + len(model.summary()._facts())


def test_a_fit_on_plain_rows_has_one_too() -> None:
    random = np.random.default_rng(0)
    model = LinearRegressor().fit(random.normal(size=(30, 2)), random.normal(size=30))
    assert "plain rows" in str(model.summary())


def test_the_command_line_writes_it(tmp_path: Path) -> None:
    released(20.0).save(tmp_path / "r")
    model = LinearRegressor().fit(released(20.0))
    for suffix, text in (
        (".txt", str(model.summary())),
        (".html", model.summary().to_html()),
        (".tex", model.summary().to_latex()),
    ):
        target = tmp_path / f"summary{suffix}"
        assert labeldp("fit", tmp_path / "r", "--summary", target).code == 0
        assert target.read_text() == text + "\n"
    assert "as .txt, .html or .tex" in labeldp("fit", tmp_path / "r", "--summary", "s.pdf").error
    shown = labeldp("fit", tmp_path / "r", "--verbose").out
    assert shown == f"{model.summary()}\n"
