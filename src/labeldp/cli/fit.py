"""labeldp fit"""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp import DataError, InputError
from labeldp.cli.options import Json, ReleaseDirectory, raw_rows
from labeldp.cli.output import emit_json, emit_table, note, number, progress
from labeldp.files import check_target

if TYPE_CHECKING:
    from labeldp import Release, Source
    from labeldp.learners.protocol import Learner, Model


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
    from labeldp import Release
    from labeldp.learners import LEARNERS, find_learner

    if (test is None) != (label is None):
        raise InputError("--test and --label go together: give both or neither")
    if model not in LEARNERS:
        raise InputError(f"--model {model!r} is unknown; choose {' or '.join(LEARNERS)}")
    learner = find_learner(model)
    asked = {
        "penalty": ridge,
        "max_norm": max_norm,
        "confidence": confidence,
        "epochs": epochs,
        "seed": seed,
    }
    options = _options(learner, asked)
    if out is not None:
        check_target(out)
    released = Release.load(directory)
    fitted = learner.fit(released, _rows(learner, released, directory, data), options, progress)
    mse = None
    if test is not None and label is not None:
        mse = _score(fitted, test, raw_rows(test, released.features, label))
    if out is not None:
        fitted.save(out)
    coefficients = fitted.coefficients
    document: dict[str, Any] = {
        "release": str(directory),
        "model": model,
        "coefficients": [asdict(coefficient) for coefficient in coefficients],
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
        print(fitted.summary(released.bags))
    if mse is not None:
        print(f"mean squared error on {test}: {mse:.6g}")


def _options(learner: Learner, asked: dict[str, Any]) -> Any:
    """What was asked for, as far as the learner has it."""
    names = [each.name for each in fields(learner.options) if each.name in asked]
    if asked["penalty"] and "penalty" not in names:
        raise InputError("--ridge is for --model linear; leave it out")
    return learner.options(**{name: asked[name] for name in names})


def _rows(learner: Learner, released: Release, directory: Path, data: str | None) -> Source | None:
    """The table whose rows the bags name, where they name any."""
    from labeldp.release import public_rows

    if released.aggregates_features:
        if learner.reads_rows:
            raise InputError(
                "a network cannot be learnt from aggregated features; fit --model linear, or "
                "release with --mechanism sampled-noisy-wtd-lag"
            )
        return None
    if data is None:
        raise InputError(
            f"{directory} aggregates labels alone; give the table whose rows its bags name (--data)"
        )
    return public_rows(released, data)


def _score(model: Model, test: str, source: Source) -> float:
    import numpy as np

    total, count = 0.0, 0
    for batch, labels in source.labelled_batches():
        total += float(np.sum((labels - model.predict(batch)) ** 2))
        count += len(labels)
    if count == 0:
        raise DataError(f"{test}: no row has a label, so nothing can be scored")
    return total / count
