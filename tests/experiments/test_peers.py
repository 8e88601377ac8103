"""The peers page: figures of a small table, and what the page makes of figures."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.alternatives import PEERS, Budget, gaussian_variance
from experiments.figures import Figure, Outcome
from experiments.real_data import HEADER, measure, put_between_marks
from experiments.study import Study
from experiments.tables import DIABETES

from experiments import peers, peers_page
from labeldp import LinearRegressor, scan
from labeldp.mechanisms.registry import mechanism_named, mechanisms
from labeldp_paper.datasets.demo_table import write_census_like

FEW = (Budget(0.5, 1e-6), Budget(1.0, 1e-6))


@pytest.fixture(scope="module")
def diabetes() -> Outcome:
    """All ways but the slowest on a table that scikit-learn has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "BUDGETS", FEW)
        patch.setattr(peers, "REPEATS", 3)
        patch.setattr(
            peers, "mechanisms", lambda: [m for m in mechanisms() if m.name != "wtd-flag"]
        )
        return peers.compare(DIABETES, Path())


def test_every_way_has_a_figure_at_every_budget(diabetes: Outcome) -> None:
    wanted = {peers_page.DEFAULT, peers_page.SHRUNKEN, *(peer.name for peer in PEERS)}
    assert wanted <= set(diabetes.ways)
    assert "shaped-flag, least squares" in diabetes.ways
    for way in diabetes.ways:
        for epsilon in diabetes.epsilons:
            figure = diabetes.figure(way, epsilon)
            assert np.isfinite(figure.mean)
            assert (figure.spread is None) == (len(figure.values) == 1)


def test_more_budget_is_better_by_exact_expectations(diabetes: Outcome) -> None:
    exact = [way for way in diabetes.ways if diabetes.figure(way, 1.0).spread is None]
    assert len(exact) >= 5
    for way in exact:
        assert diabetes.figure(way, 1.0).mean < diabetes.figure(way, 0.5).mean
        assert diabetes.figure(way, 1.0).mean > diabetes.encoded


def test_wtd_flag_comes_near_the_isotropic_noise_that_is_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Theory §8: infinitely many compact aggregates are Gaussian noise, alike in all directions.

    With an added floor: to measure one takes a share of the budget, and 12 % more noise here.
    """
    monkeypatch.setattr(peers, "mechanisms", lambda: [mechanism_named("wtd-flag")])
    monkeypatch.setattr(peers, "_BEST", {"wtd-flag": {"bags": 100_000, "floor": "added"}})
    study, found = Study(DIABETES.source(Path())), peers.Gathering()
    _, full = study.full_fit(study.plan(FEW[1], mechanism="shaped-flag"))
    peers.add_mechanisms(found, study, full, FEW[1])
    ((figure, _),) = found.found
    limit = full.columns * full.largest_leverage * gaussian_variance(full, FEW[1])
    assert 1 < (figure.mean - full.residual_ss) / limit < 1.005


def test_an_outcome_comes_back_from_json(diabetes: Outcome) -> None:
    assert Outcome.from_json(json.loads(json.dumps(diabetes.to_json()))) == diabetes


def outcome(ours: float, theirs: float, **changes: object) -> Outcome:
    figures = (
        Figure(peers_page.DEFAULT, True, 1.0, (ours - 1, ours + 1)),
        Figure("other", False, 1.0, (theirs,)),
    )
    facts = Outcome("some table", 60_000, 3, "0 to 1", 0.5, 0.1, 100.0, 98.0, ("m",), (), figures)
    return replace(facts, **changes)  # type: ignore[arg-type]


def line(text: str, start: str) -> str:
    return next(each for each in text.splitlines() if each.startswith(f"| {start}"))


def test_a_peer_that_is_better_is_bold_and_listed() -> None:
    lost, won = outcome(110.0, 105.0), outcome(110.0, 115.0)
    assert [loss.peer for loss in peers_page.losses(lost)] == ["other"]
    assert not peers_page.losses(won)
    text = peers_page.page([lost], lost)
    assert "| other | **5** |" in text
    assert "In 1 of 1 cells a peer is better" in text
    assert line(text, "some table | 1") == "| some table | 1 | other | 5 | 10 ± 1.41 |"
    text = peers_page.page([won], won)
    assert "| other | 15 |" in text
    assert "in none of 1 cells" in text


def test_the_page_says_where_a_plan_refuses() -> None:
    refused = outcome(110.0, 105.0, refused=(1.0,))
    text = peers_page.page([refused], refused)
    assert line(text, "**labeldp, default**").endswith("| 10 ± 1.41 † |")
    assert line(text, "some table | 1").endswith("| 5 | 10 ± 1.41 † |")
    assert text.count("†") == 5  # also where the aim is, the published way, and what it means


def test_the_page_says_where_privacy_costs_nothing() -> None:
    good, bad = outcome(99.0, 200.0), outcome(101.0, 200.0)
    assert line(peers_page.page([good], good), "some table").endswith("| −2 | −1 ± 1.41 | yes |")
    assert line(peers_page.page([bad], bad), "some table").endswith("| −2 | 1 ± 1.41 | no |")
    small = replace(bad, rows=100)
    assert "| no |" not in peers_page.page([small], small)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0123456, "1.23"), (-0.137, "−13.7"), (12.345, "1,234"), (3.2e-7, "3.2e−5"), (0.0, "0")],
)
def test_percent(share: float, text: str) -> None:
    assert peers_page.percent(share) == text


def test_coefficients_predict_as_the_model_does(tmp_path: Path) -> None:
    """Errors are judged by coefficients, which must be those of `predict`."""
    path = tmp_path / "t.parquet"
    write_census_like(path, 3000)
    source = scan(path, label="WKSWORK1", label_range=(0, 52), features=("AGE", "SEX"))
    study = Study(source)
    made = study.plan(FEW[1])
    (release,) = study.releases(made, 1)
    batch = next(iter(source.feature_batches()))
    by_hand = np.clip(made.features.design(batch) @ study.fitted([release]), 0, 52)[:, 0]
    assert LinearRegressor().fit(release).predict(batch) == pytest.approx(by_hand)


def test_the_readmes_table_goes_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- real data -->\nold\n<!-- end of real data -->\nb\n")
    put_between_marks(page, "new\n")
    assert page.read_text() == "a\n<!-- real data -->\nnew\n<!-- end of real data -->\nb\n"


def test_a_line_of_the_readmes_table() -> None:
    found = dict(zip(HEADER, measure(DIABETES, Path()), strict=True))
    assert (found["rows"], found["label range"]) == ("442", "25 to 346")
    forecast, measured = (float(found[n]) for n in ("error privacy adds, forecast", "measured"))
    assert 0.5 < measured / forecast < 1.6  # ten releases of some dozen directions
    assert float(found["R² full labels"]) == pytest.approx(0.518, abs=0.01)
    assert re.fullmatch(r"−?[\d.,]+", found["excess, %"])
