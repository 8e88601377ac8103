"""labeldp fit"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.options import Json, ReleaseDirectory, raw_rows

if TYPE_CHECKING:
    from labeldp.release import Release
    from labeldp.source import Source


def fit(
    directory: ReleaseDirectory,
    model: Annotated[
        str, typer.Option(help="linear or neural (needs the extra torch).")
    ] = "linear",
    data: Annotated[
        str | None,
        typer.Option(
            help="The table whose rows the bags name, for its features; no label is read."
        ),
    ] = None,
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
    epochs: Annotated[int, typer.Option(help="Most passes over the bags (neural).")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of the first weights (neural).")] = 0,
    json: Json = False,
) -> None:
    """Fit a regression on a release. Costs no privacy."""
    from labeldp._files import check_target
    from labeldp.cli.output import emit_json, emit_table, note, number
    from labeldp.errors import InputError
    from labeldp.release import Release
    from labeldp.verification import public_rows

    if (test is None) != (label is None):
        raise InputError("--test and --label go together: give both or neither")
    if model not in ("linear", "neural"):
        raise InputError(f"--model {model!r} is unknown; choose linear or neural")
    if model == "neural" and ridge:
        raise InputError("--ridge is for --model linear; leave it out")
    if out is not None:
        check_target(out)
    released = Release.load(directory)
    if data is None and not released.aggregates_features:
        raise InputError(
            f"{directory} aggregates labels alone; give the table whose rows its bags name (--data)"
        )
    learner = (
        _linear(ridge, max_norm, confidence)
        if model == "linear"
        else _network(released, max_norm, epochs, seed)
    )
    if released.aggregates_features:
        learner.fit(released)
    else:
        learner.fit(released, public_rows(released, str(data)))
    mse = None
    if test is not None and label is not None:
        mse = _score(learner, test, raw_rows(test, released.features, label))
    if out is not None:
        learner.save(out)
    coefficients = getattr(learner, "coefficients_", ())
    document: dict[str, Any] = {
        "release": str(directory),
        "model": model,
        "coefficients": [
            {"name": c.name, "value": c.value, "low": c.low, "high": c.high} for c in coefficients
        ],
        "confidence": confidence,
        "test_mse": mse,
    }
    if mse is not None:
        note("test_mse was computed from raw labels: it is for the curator, not for publication")
    if json:
        emit_json(document)
        return
    if coefficients:
        emit_table(
            f"Coefficients per original unit, {confidence:.0%} intervals",
            ["column", "value", "low", "high"],
            [[c.name, *(number(v, 5) for v in (c.value, c.low, c.high))] for c in coefficients],
        )
    else:
        epochs_run = len(learner.losses_)
        print(f"a network was fitted on {released.bags:,} bags in {epochs_run} epochs")
    if mse is not None:
        print(f"mean squared error on {test}: {mse:.6g}")


def _linear(ridge: float, max_norm: float | None, confidence: float) -> Any:
    from labeldp.learners import LinearRegressor

    return LinearRegressor(penalty=ridge, max_norm=max_norm, confidence=confidence)


def _network(released: Release, max_norm: float | None, epochs: int, seed: int) -> Any:
    from labeldp.cli.output import progress
    from labeldp.errors import InputError
    from labeldp.learners import BagRegressor

    if released.aggregates_features:
        raise InputError(
            "a network cannot be learnt from aggregated features; fit --model linear, or release "
            "with --mechanism sampled-noisy-wtd-lag"
        )
    return BagRegressor(max_norm=max_norm, epochs=epochs, seed=seed, progress=progress)


def _score(model: Any, test: str, source: Source) -> float:
    import numpy as np

    from labeldp.errors import DataError

    total, count = 0.0, 0
    for batch, labels in source.labelled_batches():
        total += float(np.sum((labels - model.predict(batch)) ** 2))
        count += len(labels)
    if count == 0:
        raise DataError(f"{test}: no row has a label, so nothing can be scored")
    return total / count
