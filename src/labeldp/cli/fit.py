"""labeldp fit"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp import DataError, InputError
from labeldp.cli.options import Json, ReleaseDirectory, names, raw_rows
from labeldp.cli.output import emit_json, emit_table, note, number, progress
from labeldp.files import check_target

if TYPE_CHECKING:
    from labeldp import Release, Source
    from labeldp.learners.protocol import Learner, Model


def _option(default: Any, words: str, **told: Any) -> Any:
    return field(default=default, metadata={"help": words, **told})


@dataclass(frozen=True, kw_only=True)
class LearningOptions:
    """How to learn: each learner takes what it has."""

    ridge: str = _option("0", "Ridge penalty, in units of rows, or auto.", metavar="NUMBER|auto")
    lasso: str = _option("0", "Lasso penalty, or auto.", metavar="NUMBER|auto")
    max_norm: float | None = _option(
        None, "Bound on the norm of the coefficients (the paper's B_r)."
    )
    columns: str | None = _option(
        None, "Regress on these columns alone; default: all.", metavar="A,B"
    )
    confidence: float = _option(0.95, "Level of the intervals.")
    shrink: bool | None = _option(
        None,
        "Shrink predictions by empirical Bayes; default: where noise is known.",
        flag="--shrink/--no-shrink",
    )
    clip: bool = _option(True, "Let predictions leave the public label range.", flag="--no-clip")
    epochs: int = _option(200, "Most passes over the bags (neural).")
    seed: int = _option(0, "Of the first weights (neural).", min=0)


_DEFAULT = LearningOptions()


def fit(
    directory: ReleaseDirectory,
    model: Annotated[
        str, typer.Option(help="linear or neural (needs the extra torch).")
    ] = "linear",
    data: Annotated[
        str | None,
        typer.Option(
            help="The table whose rows the release names, for its features; no label is read."
        ),
    ] = None,
    learning: LearningOptions = _DEFAULT,
    out: Annotated[Path | None, typer.Option(help="Write the model here (JSON).")] = None,
    test: Annotated[
        str | None, typer.Option(help="Labelled rows to score on; for the curator only.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label column of --test.")] = None,
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
    options = _options(learner, learning)
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
        "confidence": learning.confidence,
        "test_mse": mse,
    }
    if mse is not None:
        note("test_mse was computed from raw labels: it is for the curator, not for publication")
    if json:
        emit_json(document)
        return
    if coefficients:
        emit_table(
            f"Coefficients per original unit, {learning.confidence:.0%} intervals",
            ["column", "value", "low", "high"],
            [[c.name, *(number(v, 5) for v in (c.value, c.low, c.high))] for c in coefficients],
        )
    else:
        print(fitted.summary(released.bags))
    if mse is not None:
        print(f"mean squared error on {test}: {mse:.6g}")


def _options(learner: Learner, learning: LearningOptions) -> Any:
    """What was asked for, as far as the learner has it."""
    from labeldp.learners import find_learner

    asked = {
        **vars(learning),
        "penalty": _penalty("ridge", learning.ridge),
        "lasso": _penalty("lasso", learning.lasso),
        "columns": names(learning.columns) if learning.columns is not None else None,
    }
    known = {each.name: each.default for each in fields(find_learner("linear").options)}
    taken = [each.name for each in fields(learner.options) if each.name in asked]
    for name in known.keys() & asked.keys() - set(taken):
        if asked[name] != known[name] and name != "confidence":
            raise InputError(f"`{name}` is for --model linear; leave it out")
    return learner.options(**{name: asked[name] for name in taken})


def _penalty(name: str, text: str) -> Any:
    """A number, or "auto"."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise InputError(f"--{name} is a number or auto, not {text!r}") from None


def _rows(learner: Learner, released: Release, directory: Path, data: str | None) -> Source | None:
    """The table whose rows the bags name, where they name any."""
    from labeldp.release import feature_rows, public_rows

    if released.aggregates_features:
        if learner.reads_rows:
            raise InputError(
                "a network cannot be learnt from aggregated features; fit --model linear, or "
                "release with --mechanism sampled-noisy-wtd-lag"
            )
        return None
    if not released.needs_rows:
        return None
    if data is None:
        raise InputError(
            f"{directory} holds labels alone; give the table whose rows it names (--data)"
        )
    if released.holds_rows:  # by their numbers, so that no label tells which were dropped
        return feature_rows(released.features, data)
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
