"""labeldp demo"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.cli.derived import told
from labeldp.cli.options import Budget, Json
from labeldp.cli.output import emit_facts, emit_json, emit_table, progress
from labeldp.errors import in_range, positive
from labeldp.io_util import check_target
from labeldp.mechanisms.protocol import REMARKS, number

if TYPE_CHECKING:
    from labeldp.data.source import Source


def demo(
    budget: Budget,
    rows: Annotated[int, told("Rows of the synthetic table.")] = 1_000_000,
    out: Annotated[Path | None, told("Keep the release here; default: a temporary place.")] = None,
    json: Json = False,
) -> None:
    """The whole story on a synthetic 1940-census-like table."""
    with tempfile.TemporaryDirectory() as folder:
        target = out or Path(folder) / "release"
        story = _story(Path(folder) / "census.parquet", target, rows, budget.epsilon, budget.delta)
    if json:
        emit_json(story)
    else:
        _show(story, out)


def _story(table: Path, target: Path, rows: int, epsilon: float, delta: float) -> dict[str, Any]:
    from labeldp.data.source import scan
    from labeldp.datasets import CENSUS_RANGE, write_census_like
    from labeldp.learners.api import LinearRegressor
    from labeldp.mechanisms.options import check_budget
    from labeldp.mechanisms.registry import mechanisms
    from labeldp.passes.engine import LocalEngine
    from labeldp.planning.verbs import plan
    from labeldp.profile.inspection import inspect
    from labeldp.signoff.verification import verify

    positive(rows=rows)
    in_range(0, 1, delta=delta)
    check_budget(epsilon, delta)
    check_target(target)
    with progress("synthetic table", rows) as advance:
        write_census_like(table, rows, advance=advance)
    source = scan(table, label="WKSWORK1", label_range=CENSUS_RANGE)
    engine = LocalEngine(progress=progress)
    seen = inspect(source, epsilon=epsilon, delta=delta, engine=engine)
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "engine": engine, "anyway": True}
    theirs = next(m.name for m in mechanisms() if m.closed_form and "paper" in m.accountants)
    paper = plan(source, mechanism=theirs, **budget).release(source, engine=engine)
    made = plan(source, **budget)
    released = made.release_to(target, source, engine=engine)
    checked = verify(target)
    added = paper.certificate["floor"]["added_variance"] / rows
    return {
        "data": "synthetic stand-in for the 1940 census; no person is in it",
        "rows": rows,
        "columns": seen["features"],
        "rank": seen["rank"],
        "epsilon": epsilon,
        "delta": delta,
        "max_bags": seen["accountants"],
        "bags": paper.bags,
        "floor_added": added,
        "mechanism": made.claim.mechanism,
        "aggregates": released.bags,
        "attack": released.certificate["attack_risk"]["in_words"],
        "verified": checked.valid,
        "mse_all_labels": seen["residual_ms"],
        "mse_private": _mse(LinearRegressor().fit(paper), source),
        "mse_default": _mse(LinearRegressor().fit(released), source),
        "expected_excess": paper.certificate["utility"]["excess_mean"]
        * (1 + added / seen["residual_ms"]),
        "expected_excess_default": made.forecast.added_ms / seen["residual_ms"],
    }


def _mse(model: Any, source: Source) -> float:
    total, count = 0.0, 0
    for batch, labels in source.labelled_batches():
        total += float(((labels - model.predict(batch)) ** 2).sum())
        count += len(labels)
    return total / count


def _show(story: dict[str, Any], out: Path | None) -> None:

    budget = f"ε = {story['epsilon']:g}, δ = {story['delta']:g}"
    emit_facts(
        "The table",
        [
            ("data", story["data"]),
            ("size", f"{number(story['rows'])} rows, {story['columns']} design columns"),
            ("private label", "weeks worked, 0 to 51"),
        ],
    )
    emit_table(
        f"How many noise-free aggregates may be published at {budget}?",
        ["accountant", "aggregates", REMARKS],
        [
            [name, number(answer["max_bags"]), answer.get("reason", "")]
            for name, answer in story["max_bags"].items()
        ],
    )
    added = story["floor_added"]
    emit_facts(
        "The paper's release, by the exact law",
        [
            ("published", f"{number(story['bags'])} sums of all rows, with secret weights"),
            (
                "noise added",
                f"variance {number(added)} per row" if added else "none: the data's own is enough",
            ),
        ],
    )
    emit_facts(
        f"The default release: {story['mechanism']}",
        [
            ("published", f"{number(story['aggregates'])} sums of all rows, weights in the open"),
            ("guarantee", f"label-DP, {budget}, whatever the labels are"),
            ("certificate", "verified" if story["verified"] else "NOT VALID"),
            ("best attack", story["attack"]),
        ],
    )
    emit_table(
        "A linear fit",
        ["", "mean squared error", "excess", "expected"],
        [
            ["with all labels", f"{story['mse_all_labels']:.4f}", "", ""],
            _fit(story, "the paper's release", "mse_private", "expected_excess"),
            _fit(story, "the default release", "mse_default", "expected_excess_default"),
        ],
    )
    print(f"The release is in {out}." if out else "Keep the release with: labeldp demo --out DIR")


def _fit(story: dict[str, Any], name: str, error: str, expected: str) -> list[str]:
    excess = story[error] / story["mse_all_labels"] - 1
    return [name, f"{story[error]:.4f}", f"{excess:.5%}", f"{story[expected]:.5%}"]
