"""labeldp demo"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.options import Budget, Json

if TYPE_CHECKING:
    from labeldp.source import Source


def demo(
    budget: Budget,
    rows: Annotated[int, typer.Option(help="Rows of the synthetic table.")] = 1_000_000,
    out: Annotated[
        Path | None, typer.Option(help="Keep the release here; default: a temporary place.")
    ] = None,
    json: Json = False,
) -> None:
    """The whole story on a synthetic 1940-census-like table."""
    from labeldp.cli.output import emit_json

    with tempfile.TemporaryDirectory() as folder:
        target = out or Path(folder) / "release"
        story = _story(Path(folder) / "census.parquet", target, rows, budget.epsilon, budget.delta)
    if json:
        emit_json(story)
    else:
        _show(story, out)


def _story(table: Path, target: Path, rows: int, epsilon: float, delta: float) -> dict[str, Any]:
    from labeldp.cli.output import progress
    from labeldp.datasets import CENSUS_RANGE, write_census_like
    from labeldp.engines import LocalEngine
    from labeldp.errors import in_range, positive
    from labeldp.files import check_target
    from labeldp.inspection import inspect
    from labeldp.learners import LinearRegressor
    from labeldp.planning import plan
    from labeldp.source import scan
    from labeldp.verification import verify

    positive(rows=rows, epsilon=epsilon)
    in_range(0, 1, delta=delta)
    check_target(target)
    with progress("synthetic table", rows) as advance:
        write_census_like(table, rows, advance=advance)
    source = scan(table, label="WKSWORK1", label_range=CENSUS_RANGE)
    engine = LocalEngine(progress=progress)
    seen = inspect(source, epsilon=epsilon, delta=delta, engine=engine)
    made = plan(source, epsilon=epsilon, delta=delta, engine=engine)
    released = made.release(source, engine=engine)
    released.save(target)
    checked = verify(target)
    model = LinearRegressor().fit(released)
    added = released.certificate["floor"]["added_variance"] / rows
    return {
        "data": "synthetic stand-in for the 1940 census; no person is in it",
        "rows": rows,
        "columns": seen["features"],
        "rank": seen["rank"],
        "epsilon": epsilon,
        "delta": delta,
        "max_bags": seen["accountants"],
        "bags": released.bags,
        "floor_added": added,
        "attack": released.certificate["attack_risk"]["in_words"],
        "verified": checked.valid,
        "mse_all_labels": seen["residual_ms"],
        "mse_private": _mse(model, source),
        "expected_excess": released.certificate["utility"]["excess_mean"]
        * (1 + added / seen["residual_ms"]),
    }


def _mse(model: Any, source: Source) -> float:
    total, count = 0.0, 0
    for batch, labels in source.labelled_batches():
        total += float(((labels - model.predict(batch)) ** 2).sum())
        count += len(labels)
    return total / count


def _show(story: dict[str, Any], out: Path | None) -> None:
    from labeldp.cli.output import REMARKS, emit_facts, emit_table, number

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
        "The release",
        [
            ("published", f"{number(story['bags'])} aggregates"),
            ("guarantee", f"label-DP, {budget}, whatever the labels are"),
            (
                "noise added",
                f"variance {number(added)} per row" if added else "none: the data's own is enough",
            ),
            ("certificate", "verified" if story["verified"] else "NOT VALID"),
            ("best attack", story["attack"]),
        ],
    )
    excess = story["mse_private"] / story["mse_all_labels"] - 1
    emit_facts(
        "A linear fit",
        [
            ("mean squared error with all labels", f"{story['mse_all_labels']:.4f}"),
            ("on the private aggregates", f"{story['mse_private']:.4f}"),
            ("excess", f"{excess:.3%} (expected {story['expected_excess']:.3%})"),
        ],
    )
    print(f"The release is in {out}." if out else "Keep the release with: labeldp demo --out DIR")
