"""The report: what it says follows from the certificate, and the page shows no more and no less."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import labeldp
from labeldp import ReleaseError, scan
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.planning import forecast_curve
from labeldp.releases.certificate import ABOUT, best_guess
from labeldp.reporting import (
    belief,
    exceeded,
    format_lower_bound,
    format_upper_bound,
    look_page,
    plan_report,
    release_report,
    report,
    report_page,
)
from labeldp.signing import make_key, sign
from tests.console import labeldp as run
from tests.plans import plan
from tests.tables import RANGE, source, table

ROWS = 2000
CASES: list[dict[str, Any]] = [
    {"mechanism": "shaped-flag", "noise": "gaussian"},
    {"mechanism": "shaped-flag", "delta": 0.0},
    {"mechanism": "wtd-flag", "bags": 400},
    {"mechanism": "sampled-noisy-wtd-lag", "bags": 50},
    {"mechanism": "noisy-rows"},
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case.values())))
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = source(ROWS)
    made = plan(rows, **{"epsilon": 2.0, "delta": 1e-6} | request.param)
    place = tmp_path_factory.mktemp("report") / "published"
    made.release_to(place, rows)
    return place


def normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def gaussian_points(mu: float, epsilons: Any) -> list[tuple[float, float]]:
    return [(float(e), GaussianProfile(mu).delta(float(e)).upper) for e in epsilons]


@given(st.floats(0.05, 2.0), st.floats(0.01, 0.99))
def test_no_test_is_right_more_often_than_is_said(mu: float, prior: float) -> None:
    """Every threshold test on N(0, 1) against N(μ, 1), and with many points the best one nearly."""
    best = max(prior * normal(mu - t) + (1 - prior) * normal(t) for t in np.linspace(-60, 60, 4001))
    few = best_guess(gaussian_points(mu, (0.0, 0.5, 1.0, 2.0)), prior)
    many = best_guess(gaussian_points(mu, np.linspace(0, 6, 241)), prior)
    assert best <= many + 1e-9 <= few + 2e-9
    assert many - best < 0.02


@given(st.floats(0.05, 2.0), st.floats(0.1, 6.0))
def test_beliefs_move_further_no_more_often_than_is_said(mu: float, epsilon: float) -> None:
    """P[L > ε] of the Gaussian law, L ~ N(μ²/2, μ²)."""
    true = normal((mu**2 / 2 - epsilon) / mu)
    assert true <= exceeded(gaussian_points(mu, np.linspace(0, 8, 50)), epsilon) + 1e-12


def test_a_pure_guarantee_is_never_exceeded_and_a_useless_one_always() -> None:
    assert exceeded([(0.0, 0.3), (1.0, 0.0)], 1.0) == 0.0
    assert exceeded([(0.0, 0.3), (1.0, 0.0)], 0.5) == pytest.approx(0.3 / -math.expm1(-0.5))
    assert exceeded([(1.0, 0.9)], 1.0) == 1.0


@given(st.floats(0.001, 0.999), st.floats(0.0, 8.0))
def test_odds_move_by_the_factor_of_the_definition(prior: float, epsilon: float) -> None:
    low, high = belief(prior, epsilon)
    odds = prior / (1 - prior)
    assert high / (1 - high) == pytest.approx(odds * math.exp(epsilon), rel=1e-6)
    assert low / (1 - low) == pytest.approx(odds * math.exp(-epsilon), rel=1e-6)


def test_it_says_what_the_certificate_says(directory: Path) -> None:
    told = release_report(directory)
    certificate = labeldp.Release.load(directory).certificate
    assert (told["epsilon"], told["delta"]) == (certificate["epsilon"], certificate["delta"])
    assert told["seal"] == certificate["seal"]
    assert told["groups"][0]["epsilon"] == certificate["groups"][0]["epsilon"]
    assert set(certificate["not_protected"]) <= set(told["not_protected"])
    assert dict(told["technical"])["best attack"] == certificate["attack_risk"]["in_words"]
    assert "curator" in told["not_stated"]
    assert dict(told["facts"])["private column"].startswith("label: numbers between ")
    assert [name for name, _ in told["headline"]][:2] == ["guarantee", "error"]


class Reader(HTMLParser):
    """Tags, and whether they close in order."""

    VOID = ("meta", "br", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, _attributes: Any) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, _attributes: Any) -> None:
        assert tag in self.VOID

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_alone(directory: Path) -> None:
    text = report_page(release_report(directory))
    assert len(text.encode()) < 100_000
    assert not re.search(r"<script|https?:|url\(|@import|<link|<img|\son\w+=", text)
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    for word in ("In short", "How much risk", "Appendix", "What is not protected", "How to check"):
        assert word in reader.text
    certificate = labeldp.Release.load(directory).certificate
    assert certificate["seal"] in reader.text


def test_what_others_wrote_cannot_become_markup(directory: Path) -> None:
    told = release_report(directory) | {
        "title": "<b>x</b>",
        "about": [("name", "<script>")],
        "weak": ["a < b"],
    }
    text = report_page(told)
    assert "<b>" not in text
    assert "<script>" not in text
    assert "a &lt; b" in text


def test_a_plan_has_a_report_before_any_label_is_read() -> None:
    rows = source(ROWS)
    told = plan_report(plan(rows, epsilon=1.0, delta=1e-6))
    assert told["release"] is None
    assert "no label was read" in told["checked"][0]
    assert dict(told["facts"])["private column"].startswith("label: ")
    assert "will be off by" in dict(told["headline"])["error"]
    text = report_page(told)
    assert "Plan: label differential privacy" in text
    assert "the release will be able to" in text
    assert "at other ε" not in text


def test_the_report_of_a_plan_shows_the_error_at_other_budgets() -> None:
    rows = source(ROWS)
    planned = plan(rows, epsilon=1.0, delta=1e-6)
    points = forecast_curve(rows, planned, delta=1e-6)
    assert [each["epsilon"] for each in points] == [0.125, 0.25, 0.5, 1, 2, 4, 8]
    text = report_page(plan_report(planned, points))
    assert "at other ε" in text
    assert "1 (this plan)" in text


def test_the_page_of_look_shows_leaks_first() -> None:
    label = np.arange(400.0) % 37
    rows = {"euros": label * 2.5 + 1, "<b>": np.arange(400) % 7 + 0.5, "y": label}
    text = look_page(labeldp.look(pa.table(rows), label="y"))
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert "<b>" not in text
    parts = ("The label leaks", "euros is the label", "FOR THE CURATOR ONLY", "Public columns")
    places = [reader.text.index(part) for part in parts]
    assert places == sorted(places)
    harmless = look_page(labeldp.look(pa.table(rows).drop_columns("euros"), label="y"))
    assert "The label leaks" not in harmless
    assert harmless.count("<svg") == 1


def test_what_does_not_verify_is_not_signed(directory: Path, tmp_path: Path) -> None:
    altered = tmp_path / "altered"
    shutil.copytree(directory, altered)
    path = altered / "certificate.json"
    path.write_text(path.read_text().replace('"epsilon": 2.0', '"epsilon": 1.0', 1))
    with pytest.raises(ReleaseError, match="does not verify"):
        release_report(altered)


def test_the_command_writes_one_file(directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    done = run("report", directory, "--out", out)
    assert (done.code, out.exists()) == (0, True)
    assert run("report", directory, "--out", out).code == 2
    assert run("report", directory, "--json").json["epsilon"] == 2.0


def test_a_browser_finds_nothing_that_keeps_people_out(directory: Path, tmp_path: Path) -> None:
    """axe-core in Chromium; LABELDP_AXE names axe.min.js (npm install axe-core)."""
    browser, axe = shutil.which("chromium"), os.environ.get("LABELDP_AXE")
    if browser is None or axe is None:
        pytest.skip("needs chromium on the path and LABELDP_AXE=…/axe.min.js")
    check = (
        "axe.run().then(r => { document.title = 'done'; document.body.textContent = "
        "'AXE' + r.violations.map(v => v.id).join(',') + 'END'; })"
    )
    script = f"<script>{Path(axe).read_text()}</script><script>{check}</script>"
    place = tmp_path / "page.html"
    place.write_text(report_page(release_report(directory)).replace("</body>", f"{script}</body>"))
    options = ("--headless", "--no-sandbox", "--virtual-time-budget=20000", "--dump-dom")
    found = subprocess.run(
        [browser, *options, place.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    answer = re.search(r"AXE(.*?)END</body>", found.stdout)
    assert answer is not None, "axe did not run"
    assert answer[1] == ""


def test_it_prints_on_two_pages(directory: Path, tmp_path: Path) -> None:
    """With all that a curator, a ledger and two signers can add, in a few words each."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("needs chromium on the path")
    words = "some words of the curator, which fill most of a line"
    said = dict.fromkeys(ABOUT, words)
    spent = {"ledger": "0" * 16, "entry": 7, "digest": "f" * 64, "releases": 3}
    certificate = labeldp.Release.load(directory).certificate
    ledger = spent | {"epsilon": 1.455, "delta": 1e-6}
    told = release_report(directory) | report(certificate | {"about": said, "ledger": ledger})
    (tmp_path / "page.html").write_text(report_page(told), encoding="utf-8")
    out = tmp_path / "page.pdf"
    options = ("--headless", "--no-sandbox", f"--print-to-pdf={out}")
    where = (tmp_path / "page.html").as_uri()
    subprocess.run([browser, *options, where], capture_output=True, timeout=120, check=True)
    assert 1 <= len(re.findall(rb"/Type /Page\b", out.read_bytes())) <= 2


def test_signers_are_counted(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(directory, tmp_path / "signed")
    assert "no key has signed" in release_report(directory)["checked"][-1]
    for name in ("ann", "bob"):
        make_key(tmp_path / name)
        sign(tmp_path / "signed", tmp_path / name)
    assert "by 2 keys (" in release_report(tmp_path / "signed")["checked"][-1]


def test_the_total_of_a_ledger_is_told(directory: Path) -> None:
    certificate = labeldp.Release.load(directory).certificate
    spent = {"ledger": "0" * 16, "entry": 7, "digest": "f" * 64, "releases": 3}
    told = report(certificate | {"ledger": spent | {"epsilon": 1.455, "delta": 1e-6}})
    assert told["ledger"].startswith(
        "3 releases of this table or of its persons cost ε = 1.455 at δ = 1e-06"
    )
    assert "no ledger was kept" in report(certificate)["ledger"]


def test_what_the_curator_said_is_told_and_the_rest_is_listed(directory: Path) -> None:
    certificate = labeldp.Release.load(directory).certificate
    told = report(certificate | {"about": {"curator": "Office of Weeks", "contact": None}})
    assert told["about"] == [("curator", "Office of Weeks")]
    assert {"contact", "purpose", "why epsilon"} <= set(told["not_stated"])


def test_persons_are_told_of_persons() -> None:
    data = table(ROWS).append_column("who", pa.array(np.arange(ROWS) // 2))
    rows = scan(data, label="label", label_range=RANGE, person="who")
    told = plan_report(plan(rows, epsilon=1.0, delta=0.0, mechanism="shaped-flag"))
    assert "had all labels of one person been anything else" in told["promise"]
    text = report_page(told)
    assert "everything except all labels of one person" in text
    assert "Someone with more than 2 rows, or several persons together" in text


def test_when_and_by_what_is_told(directory: Path) -> None:
    certificate = labeldp.Release.load(directory).certificate
    told = dict(report(certificate)["technical"])
    assert told["drawn"].startswith(certificate["released_at"])
    assert certificate["software"]["version"] in told["drawn"]


@given(st.floats(1e-12, 1e6), st.integers(1, 5))
def test_bounds_are_never_rounded_to_the_better_side(value: float, digits: int) -> None:
    low, high = (
        float(format_lower_bound(value, digits)),
        float(format_upper_bound(value, digits)),
    )
    assert low <= value <= high
    assert high - low <= 10.0 ** (2 - digits) * value
    assert format_upper_bound(0.1) == format_lower_bound(0.1) == "0.1"


def test_the_page_rounds_bounds_up(directory: Path) -> None:
    text = report_page(release_report(directory))
    assert "88.1%" in text  # e²/(1 + e²) = 0.8808
    assert "11.9%" in text
    assert "e^ε = 7.39 times" in text
