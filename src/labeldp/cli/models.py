"""Commands that use a release: fit, predict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import (
    Command,
    argument,
    column_list,
    data_argument,
    json_option,
    option,
    scan_rows,
    text_options,
)
from labeldp.cli.output import draw_pictures, emit_json, note, progress
from labeldp.errors import DataError, InputError
from labeldp.io_util import check_target, new_path

if TYPE_CHECKING:
    import pyarrow as pa

    from labeldp.data.source import Source
    from labeldp.learners.models import LinearOptions, Model, NetworkOptions
    from labeldp.learners.summary import Summary
    from labeldp.release.files import Release

_MOST_COEFFICIENTS = 12
"""Shown without --verbose."""
_LINEAR, _NEURAL = "Options of --model linear", "Options of --model neural"


@click.command(cls=Command)
@argument(
    "directories",
    "A release directory, or several of different rows.",
    type=Path,
    nargs=-1,
    required=True,
)
@option("--out", type=Path, help="Write the model to this new JSON file.")
@option(
    "--model",
    metavar="NAME",
    default="linear",
    help="linear (default), or neural, which needs the extra torch.",
)
@option(
    "--data",
    metavar="TABLE",
    help="The table that was released, for its features, where the release names its rows; no "
    "label is read.",
)
@option("--ridge", metavar="NUMBER|auto", default="0", help="Ridge penalty in units of rows.")
@option("--lasso", metavar="NUMBER|auto", default="0", group=_LINEAR, help="Lasso penalty.")
@option(
    "--max-norm",
    type=float,
    group=_LINEAR,
    help="Largest norm of the coefficients (B_r in the paper).",
)
@column_list("--columns", group=_LINEAR, help="Regress on these columns only (default: all).")
@option(
    "--confidence", type=float, default=0.95, help="Level of confidence intervals (default: 0.95)."
)
@option(
    "--shrink/--no-shrink",
    default=None,
    group=_LINEAR,
    help="Shrink predictions to a posterior mean (default: where the noise is known).",
)
@option(
    "--no-clip", is_flag=True, group=_LINEAR, help="Let predictions leave the public label range."
)
@option(
    "--epochs",
    type=int,
    default=200,
    group=_NEURAL,
    help="Most passes over the bags (default 200).",
)
@option(
    "--learning-rate",
    type=float,
    default=1e-3,
    group=_NEURAL,
    help="Step size at the start (default 0.001).",
)
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    group=_NEURAL,
    help="Seed of the initial weights (default 0).",
)
@option("--summary", type=Path, help="Write a summary to this new .txt, .html or .tex file.")
@option("--plots", type=Path, help="Draw into this new directory; needs the extra plots.")
@option("--test", metavar="TABLE", help="Labelled rows to score on; for the curator only.")
@option("--label", metavar="COLUMN", help="The label column of --test.")
@option("--no-verify", is_flag=True, group="Output options", help="Fit even if files were altered.")
@option("--verbose", is_flag=True, group="Output options", help="Show all coefficients.")
@json_option
def fit(
    directories: tuple[Path, ...],
    out: Path | None,
    model: str,
    data: str | None,
    summary: Path | None,
    plots: Path | None,
    test: str | None,
    label: str | None,
    no_verify: bool,
    verbose: bool,
    as_json: bool,
    **learning: Any,
) -> None:
    """Fit a regression on one or several releases; this costs no privacy."""
    from labeldp.learners import linear
    from labeldp.learners.plots import pictures
    from labeldp.learners.summary import Summary
    from labeldp.release.files import Release

    if (test is None) != (label is None):
        raise InputError("--test and --label go together: give both or neither")
    if model not in ("linear", "neural"):
        raise InputError(f"--model {model!r} is unknown; choose linear or neural")
    options = _linear_options(learning)
    network_options = None if model == "linear" else _network_options(learning, options)
    _check_targets(model, out, summary, plots)
    releases = [Release.load(directory, verify=not no_verify) for directory in directories]
    rows = _named_rows(model, releases, directories[0], data)
    fitted: Model
    table: Summary | None = None
    if network_options is None:
        fitted = linear_model = linear.fit_release(releases, rows, options)
        table = Summary.of(linear_model)
        text = table.text(None if verbose else _MOST_COEFFICIENTS)
    else:
        from labeldp.learners import network

        fitted = network.fit_release(releases[0], rows, network_options, progress)
        text = fitted.describe(releases[0].bags)
    score = Score(None, None, None)
    if test is not None and label is not None:
        score = _score(fitted, test, _labelled_rows(releases, test, label))
    if out is not None:
        fitted.save(out)
    if summary is not None and table is not None:
        _write_summary(summary, table)
    if plots is not None and network_options is None:
        draw_pictures(pictures(linear_model), plots)
    if test is not None:
        note("the score on --test comes from raw labels: for the curator, not for publication")
    if as_json:
        document = _document(directories, model, fitted, table, options)
        emit_json(document | asdict(score))
        return
    print(text)
    if test is not None:
        print(f"\n{score.describe(test)}")


def _document(
    directories: tuple[Path, ...],
    model: str,
    fitted: Model,
    table: Summary | None,
    options: LinearOptions,
) -> dict[str, Any]:
    quality = None if fitted.quality is None else asdict(fitted.quality)
    facts = {"quality": quality} if table is None else table.to_dict()
    names = ("rule", "clipped_to", "quality", "releases", "base_levels", "notes")
    return {
        "release": ", ".join(map(str, directories)),
        "model": model,
        "coefficients": [asdict(coefficient) for coefficient in fitted.coefficients],
        "confidence": options.confidence,
        **{name: facts.get(name) for name in names},
    }


def _check_targets(model: str, out: Path | None, summary: Path | None, plots: Path | None) -> None:
    """Refuse outputs that could not be written at the end."""
    for target in (out, summary, plots):
        if target is not None:
            check_target(target)
    if summary is not None and summary.suffix not in (".txt", ".html", ".tex"):
        raise InputError(f"{summary}: a summary is written as .txt, .html or .tex; name one")
    for name, target in (("--summary", summary), ("--plots", plots)):
        if target is not None and model != "linear":
            raise InputError(f"{name} is for --model linear; leave it out")
    if plots is not None:
        from labeldp.pictures import need_matplotlib

        need_matplotlib()


def _write_summary(target: Path, table: Summary) -> None:
    forms = {".txt": table.text, ".html": table.to_html, ".tex": table.to_latex}
    with new_path(target) as partial:
        partial.write_text(forms[target.suffix]() + "\n", encoding="utf-8")


def _linear_options(learning: dict[str, Any]) -> LinearOptions:
    from labeldp.learners.models import LinearOptions

    return LinearOptions(
        penalty=_penalty("ridge", learning["ridge"]),
        lasso=_penalty("lasso", learning["lasso"]),
        max_norm=learning["max_norm"],
        columns=learning["columns"],
        confidence=learning["confidence"],
        shrink=learning["shrink"],
        clip=not learning["no_clip"],
    )


def _network_options(learning: dict[str, Any], linear: LinearOptions) -> NetworkOptions:
    """Return the options of a network; refuse options that only a linear model has."""
    from labeldp.learners.models import LinearOptions, NetworkOptions

    for name in ("penalty", "lasso", "columns"):
        if getattr(linear, name) != getattr(LinearOptions(), name):
            raise InputError(f"`{name}` is for --model linear; leave it out")
    names = ("max_norm", "shrink", "epochs", "learning_rate", "seed")
    return NetworkOptions(clip=not learning["no_clip"], **{name: learning[name] for name in names})


def _penalty(name: str, text: str) -> Any:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise InputError(f"--{name} is a number or auto, not {text!r}") from None


def _named_rows(
    model: str, releases: list[Release], directory: Path, data: str | None
) -> Source | None:
    """Return the table whose rows a release names, if it names any."""
    from labeldp.release.files import WANTS_TABLE, table_rows

    if len(releases) > 1:
        if model != "linear":
            raise InputError("several releases are for --model linear; give one")
        return None
    (release,) = releases
    if release.aggregates_features and model == "neural":
        raise InputError(
            "a network cannot be learnt from aggregated features; fit --model linear, or "
            "release with --mechanism sampled-noisy-wtd-lag"
        )
    if release.aggregates_features or not release.needs_rows:
        return None
    if data is None:
        raise InputError(f"{directory}: {WANTS_TABLE}")
    return table_rows(release, data)


@dataclass(frozen=True)
class Score:
    """How well raw labels are predicted; None without labels."""

    test_mse: float | None
    test_r2: float | None
    test_constant_mse: float | None
    """Of the best constant prediction: the mean of the same labels."""

    def describe(self, test: str) -> str:
        share = "–" if self.test_r2 is None else f"{self.test_r2:.4g}"
        return (
            f"mean squared error on {test}: {self.test_mse:.6g}, R² {share}; "
            f"of the best constant there: {self.test_constant_mse:.6g}"
        )


def _labelled_rows(releases: list[Release], test: str, label: str) -> Source:
    """Scan the test rows; labels are clipped if those of a release were."""
    source = scan_rows(test, releases[0].features, label)
    if all(each.certificate["labels"]["outside_range"] != "clipped" for each in releases):
        return source
    ends = [each.certificate["label_range"] for each in releases]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return replace(source, label_range=(low, high), clip=True)


def _score(model: Model, test: str, source: Source) -> Score:
    import numpy as np

    errors, labels = [], []
    for batch, truth in source.labelled_batches():
        errors.append((truth - model.predict(batch)) ** 2)
        labels.append(truth)
    if not sum(map(len, labels)):
        raise DataError(f"{test}: no row has a label, so nothing can be scored")
    mse, constant = float(np.mean(np.concatenate(errors))), float(np.var(np.concatenate(labels)))
    return Score(mse, 1 - mse / constant if constant > 0 else None, constant)


@click.command(cls=Command)
@argument("model", "A model from `labeldp fit --out`.", type=Path)
@data_argument
@option("--out", type=Path, required=True, help="The new .csv or .parquet file of predictions.")
@option(
    "--unknown",
    metavar="RULE",
    default="base",
    help="A category level that the release lacks counts as base (default) or missing, or is an "
    "error.",
)
@column_list("--keep", help="Columns of DATA to write beside the predictions.")
@text_options
@json_option
def predict(
    model: Path,
    data: str,
    out: Path,
    unknown: str,
    keep: tuple[str, ...] | None,
    as_json: bool,
    **text: Any,
) -> None:
    """Predict the labels of new rows with a fitted model, one prediction for each row."""
    from labeldp.features.raw_rows import UnseenValueHandler
    from labeldp.learners.models import load_model

    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: predictions are written as .csv or .parquet; name one of them")
    check_target(out)
    fitted = load_model(model)
    if fitted.features is None:
        raise InputError(f"{model} was not fitted on a release; use it from Python")
    kept = keep or ()
    if "prediction" in kept:
        raise InputError("--keep prediction would be written twice; rename that column")
    handler = UnseenValueHandler(fitted.features, unknown)  # type: ignore[arg-type]  # it checks
    source = scan_rows(data, fitted.features, keep=kept, **text)
    rows = _write_predictions(out, fitted, source, kept, handler)
    for line in handler.notes():
        note(line)
    if as_json:
        counts = {"unknown_levels": handler.unknown_levels, "outside_range": handler.outside_range}
        emit_json({"predictions": str(out), "rows": rows, **counts})
    else:
        print(f"{rows:,} predictions in {out}")


def _write_predictions(
    out: Path,
    model: Model,
    source: Source,
    kept: tuple[str, ...],
    handler: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> int:
    """Write predictions beside the kept columns; return the number of rows."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from labeldp.arrow_util import arrow_numbers
    from labeldp.data.columns import value_type

    # dictionaries become plain values, because a CSV file has none
    types = [(name, value_type(source.reader.schema.field(name).type)) for name in kept]
    schema = pa.schema([*types, ("prediction", pa.float64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source.feature_batches():
            columns = [batch.column(name).cast(schema.field(name).type) for name in kept]
            predictions = arrow_numbers(model.predict(handler(batch)))
            yield pa.RecordBatch.from_arrays([*columns, predictions], schema=schema)

    rows = 0
    open_writer: Any = csv.CSVWriter if out.suffix == ".csv" else parquet.ParquetWriter
    with new_path(out) as partial, open_writer(partial, schema) as writer:
        for batch in batches():
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows
