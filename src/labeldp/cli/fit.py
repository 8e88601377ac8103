"""labeldp fit"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.options import Json, ReleaseDirectory, raw_rows

if TYPE_CHECKING:
    from labeldp.learners import LinearRegressor
    from labeldp.source import Source


def fit(
    directory: ReleaseDirectory,
    ridge: Annotated[float, typer.Option(help="Ridge penalty, in units of rows.")] = 0.0,
    max_norm: Annotated[
        float | None, typer.Option(help="Bound on the norm of the coefficients (the paper's B_r).")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="Write the model here (JSON).")] = None,
    test: Annotated[
        str | None, typer.Option(help="Labelled rows to score on; for the curator only.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label column of --test.")] = None,
    json: Json = False,
) -> None:
    """Fit a linear regression on a release. Costs no privacy."""
    from labeldp._files import check_target
    from labeldp.cli.output import emit_json, emit_table, note, number
    from labeldp.errors import InputError
    from labeldp.learners import LinearRegressor
    from labeldp.release import Release

    if (test is None) != (label is None):
        raise InputError("--test and --label go together: give both or neither")
    if out is not None:
        check_target(out)
    model = LinearRegressor(penalty=ridge, max_norm=max_norm, confidence=confidence)
    released = Release.load(directory)
    model.fit(released)
    mse = None
    if test is not None and label is not None:
        mse = _score(model, test, raw_rows(test, released.features, label))
    if out is not None:
        model.save(out)
    document: dict[str, Any] = {
        "release": str(directory),
        "coefficients": [
            {"name": c.name, "value": c.value, "low": c.low, "high": c.high}
            for c in model.coefficients_
        ],
        "confidence": confidence,
        "test_mse": mse,
    }
    if mse is not None:
        note("test_mse was computed from raw labels: it is for the curator, not for publication")
    if json:
        emit_json(document)
        return
    emit_table(
        f"Coefficients per original unit, {confidence:.0%} intervals",
        ["column", "value", "low", "high"],
        [[c.name, *(number(v, 5) for v in (c.value, c.low, c.high))] for c in model.coefficients_],
    )
    if mse is not None:
        print(f"mean squared error on {test}: {mse:.6g}")


def _score(model: LinearRegressor, test: str, source: Source) -> float:
    import numpy as np

    from labeldp.errors import DataError

    total, count = 0.0, 0
    for batch, labels in source.labelled_batches():
        total += float(np.sum((labels - model.predict(batch)) ** 2))
        count += len(labels)
    if count == 0:
        raise DataError(f"{test}: no row has a label, so nothing can be scored")
    return total / count
