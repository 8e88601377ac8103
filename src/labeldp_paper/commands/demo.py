"""The command demo: two releases of a synthetic table, from data to fitted models."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import Command, json_option, option
from labeldp.cli.output import REMARKS, emit_facts, emit_json, emit_table, progress
from labeldp.display import format_budget, number
from labeldp.errors import in_range, positive
from labeldp.io_util import check_target

if TYPE_CHECKING:
    from labeldp.data.source import Source


@click.command(cls=Command)
@option("--epsilon", type=float, default=1.0, help="Privacy budget ε (default: 1).")
@option("--delta", type=float, default=1e-6, help="Privacy budget δ (default: 1e-6).")
@option("--rows", type=int, default=1_000_000, help="Rows of the table (default: 1,000,000).")
@option("--out", type=Path, help="Keep the release in this new directory.")
@json_option
def demo(epsilon: float, delta: float, rows: int, out: Path | None, as_json: bool) -> None:
    """Publish, check and fit a synthetic table that resembles the 1940 census."""
    with tempfile.TemporaryDirectory() as folder:
        target = out or Path(folder) / "release"
        results = _run(Path(folder) / "census.parquet", target, rows, epsilon, delta)
    if as_json:
        emit_json(results)
    else:
        _show(results, out)


def _run(table: Path, target: Path, rows: int, epsilon: float, delta: float) -> dict[str, Any]:
    from labeldp.data.source import scan
    from labeldp.learners.api import LinearRegressor
    from labeldp.mechanisms.design_summary import summarize_design
    from labeldp.mechanisms.options import AccountQuestion, Encoding, check_budget
    from labeldp.mechanisms.wtd_flag import WtdFlag
    from labeldp.passes.engine import LocalEngine
    from labeldp.planning import plan
    from labeldp.verification import verify
    from labeldp_paper.datasets.demo_table import CENSUS_RANGE, write_census_like
    from labeldp_paper.experiments.run import private_residual_ms
    from labeldp_paper.theory.earlier import theorem1_bags

    positive(rows=rows)
    in_range(0, 1, delta=delta)
    check_budget(epsilon, delta)
    check_target(target)
    with progress("synthetic table", rows) as advance:
        write_census_like(table, rows, advance=advance)
    source = scan(table, label="WKSWORK1", label_range=CENSUS_RANGE)
    engine = LocalEngine(progress=progress)
    # the labels are synthetic, so that the demo may fit all of them
    design = summarize_design(source, engine=engine, encoding=Encoding())
    residual_ms = private_residual_ms(design, source, engine)
    question = AccountQuestion(
        rows=design.facts.rows,
        label_range=design.facts.label_range,
        epsilon=epsilon,
        delta=delta,
        residual_ms=residual_ms,
        max_leverage=design.facts.max_leverage,
        features=design.factor.rank,
    )
    most, reason = theorem1_bags(rows, CENSUS_RANGE, residual_ms, epsilon, delta)
    theorem = {"max_bags": most} | ({"reason": reason} if reason else {})
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "engine": engine, "force": True}
    paper = plan(source, mechanism="wtd-flag", **budget).release(source, engine=engine)
    planned = plan(source, **budget)
    released = planned.release_to(target, source, engine=engine)
    added = paper.certificate["floor"]["added_variance"] / rows
    return {
        "data": "synthetic stand-in for the 1940 census; no person is in it",
        "rows": rows,
        "columns": len(design.features.all_names),
        "rank": design.factor.rank,
        "epsilon": epsilon,
        "delta": delta,
        "max_bags": {"paper": theorem, **WtdFlag().account(question)["accountants"]},
        "bags": paper.bags,
        "floor_added": added,
        "mechanism": planned.claim.mechanism,
        "aggregates": released.bags,
        "attack": released.certificate["attack_risk"]["in_words"],
        "verified": verify(target).valid,
        "mse_all_labels": residual_ms,
        "mse_private": _mse(LinearRegressor().fit(paper), source),
        "mse_default": _mse(LinearRegressor().fit(released, source), source),
        "expected_excess": paper.certificate["utility"]["excess_mean"] * (1 + added / residual_ms),
        "expected_excess_default": planned.forecast.added_mse / residual_ms,
    }


def _mse(model: Any, source: Source) -> float:
    total, count = 0.0, 0
    for batch, labels in source.labelled_batches():
        total += float(((labels - model.predict(batch)) ** 2).sum())
        count += len(labels)
    return total / count


def _show(results: dict[str, Any], out: Path | None) -> None:
    budget = format_budget(results["epsilon"], results["delta"])
    facts = [
        ("data", results["data"]),
        ("size", f"{number(results['rows'])} rows, {results['columns']} design columns"),
        ("private label", "weeks worked, 0 to 51"),
    ]
    emit_facts("The table", facts)
    title = f"How many aggregates may be published without noise at {budget}?"
    accountants = results["max_bags"].items()
    rows = [[name, answer["max_bags"], answer.get("reason", "")] for name, answer in accountants]
    emit_table(title, ["accountant", "aggregates", REMARKS], rows)
    added = results["floor_added"]
    facts = [
        ("published", f"{number(results['bags'])} sums of all rows, with secret weights"),
        ("noise added", f"variance {number(added)} per row" if added else "none is needed"),
    ]
    emit_facts("The paper's mechanism wtd-flag, with exact accounting", facts)
    facts = [
        ("published", f"{number(results['aggregates'])} sums of all rows, with public weights"),
        ("guarantee", f"label-DP, {budget}, for any labels"),
        ("certificate", "verified" if results["verified"] else "NOT VALID"),
        ("best attack", results["attack"]),
    ]
    emit_facts(f"The default mechanism: {results['mechanism']}", facts)
    exact = results["mse_all_labels"]
    rows = [["with all labels", f"{exact:.4f}", "", ""]]
    for name, which in (("wtd-flag", "private"), (results["mechanism"], "default")):
        error = results[f"mse_{which}"]
        expected = results["expected_excess" + "_default" * (which == "default")]
        rows.append([f"with {name}", f"{error:.4f}", f"{error / exact - 1:.5%}", f"{expected:.5%}"])
    emit_table("A linear fit", ["", "mean squared error", "excess", "expected"], rows)
    print(f"The release is in {out}." if out else "Keep the release with: labeldp demo --out DIR")
