"""Commands that use a release: fit, predict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
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
    text_options,
    together,
)
from labeldp.cli.output import draw_pictures, emit_json, note, progress
from labeldp.errors import DataError, InputError, UnknownColumnError
from labeldp.io_util import check_target, new_path
from labeldp.pictures import need_matplotlib

if TYPE_CHECKING:
    import pyarrow as pa

    from labeldp.data.source import Source
    from labeldp.features.feature_map import FeatureMap
    from labeldp.learners.models import LinearModel, Model, NetworkModel
    from labeldp.release.files import Release

_MOST_COEFFICIENTS = 12
"""Shown without --verbose."""
_linear_options = together(
    option("--lasso", metavar="NUMBER|auto", default="0", help="Lasso penalty."),
    option("--max-norm", type=float, help="Largest norm of the coefficients (B_r in the paper)."),
    column_list("--columns", help="Regress on these columns only (default: all)."),
    option("--shrink/--no-shrink", default=None, help="Shrink predictions to a posterior mean."),
    option("--no-clip", is_flag=True, help="Let predictions leave the public label range."),
    group="Options of --model linear",
)
_neural_options = together(
    option("--epochs", type=int, default=200, help="Most passes over the bags (default: 200)."),
    option("--learning-rate", type=float, default=1e-3, help="First step size (default: 0.001)."),
    option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the first weights."),
    group="Options of --model neural",
)


@click.command(cls=Command)
@argument(
    "directories",
    "A release directory, or several of different rows.",
    type=Path,
    nargs=-1,
    required=True,
)
@option("--out", type=Path, help="Write the model to this new JSON file.")
@option("--model", metavar="NAME", default="linear", help="linear (default) or neural.")
@option("--data", metavar="TABLE", help="The released table, where the release names its rows.")
@option("--ridge", metavar="NUMBER|auto", default="0", help="Ridge penalty in units of rows.")
@option("--confidence", type=float, default=0.95, help="Level of intervals (default: 0.95).")
@_linear_options
@_neural_options
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
    from labeldp.learners.summary import Summary, pictures
    from labeldp.release.files import Release

    if (test is None) != (label is None):
        raise InputError("--test and --label go together: give both or neither")
    if model not in ("linear", "neural"):
        raise InputError(f"--model {model!r} is unknown; choose linear or neural")
    for target in filter(None, (out, summary, plots)):
        check_target(target)
    if summary is not None and summary.suffix not in (".txt", ".html", ".tex"):
        raise InputError(f"{summary}: a summary is written as .txt, .html or .tex; name one")
    if plots is not None:
        need_matplotlib()
    releases = [Release.load(directory, verify=not no_verify) for directory in directories]
    rows = _named_rows(model, releases, directories[0], data)
    fitted: Model
    if model == "neural":
        if summary is not None or plots is not None:
            raise InputError("--summary and --plots are for --model linear; leave them out")
        fitted = network = _fit_network(releases[0], rows, learning)
        text = network.describe(releases[0].bags)
        facts: dict[str, Any] = {"quality": fitted.quality and asdict(fitted.quality)}
    else:
        fitted = linear_model = _fit_linear(releases, rows, learning)
        table = Summary.of(linear_model)
        text, facts = table.text(None if verbose else _MOST_COEFFICIENTS), table.to_dict()
    score: dict[str, Any] = dict.fromkeys(("test_mse", "test_r2", "test_constant_mse"))
    if test is not None and label is not None:
        score = _score(fitted, test, _labelled_rows(releases, test, label))
        note("the score on --test comes from raw labels: for the curator, not for publication")
    if summary is not None:
        forms = {".txt": table.text, ".html": table.to_html, ".tex": table.to_latex}
        with new_path(summary) as partial:
            partial.write_text(forms[summary.suffix]() + "\n", encoding="utf-8")
    if plots is not None:
        draw_pictures(pictures(linear_model), plots)
    if out is not None:
        fitted.save(out)
    if as_json:
        names = ("rule", "clipped_to", "quality", "releases", "base_levels", "notes")
        emit_json(
            {
                "release": ", ".join(map(str, directories)),
                "model": model,
                "coefficients": [asdict(coefficient) for coefficient in fitted.coefficients],
                "confidence": learning["confidence"],
                **{name: facts.get(name) for name in names},
                **score,
            }
        )
        return
    print(text)
    if test is not None:
        r2 = "–" if score["test_r2"] is None else f"{score['test_r2']:.4g}"
        print(
            f"\nmean squared error on {test}: {score['test_mse']:.6g}, R² {r2}; "
            f"of the best constant there: {score['test_constant_mse']:.6g}"
        )


def _fit_linear(
    releases: list[Release], rows: Source | None, learning: dict[str, Any]
) -> LinearModel:
    from labeldp.learners import linear
    from labeldp.learners.models import LinearOptions

    options = LinearOptions(
        penalty=_penalty("ridge", learning["ridge"]),
        lasso=_penalty("lasso", learning["lasso"]),
        clip=not learning["no_clip"],
        **{name: learning[name] for name in ("max_norm", "columns", "confidence", "shrink")},
    )
    return linear.fit_release(releases, rows, options.checked_options())


def _fit_network(release: Release, rows: Source | None, learning: dict[str, Any]) -> NetworkModel:
    from labeldp.learners import bags
    from labeldp.learners.models import NetworkOptions

    for name, default in (("ridge", "0"), ("lasso", "0"), ("columns", None)):
        if learning[name] != default:
            raise InputError(f"`{name}` is for --model linear; leave it out")
    names = ("max_norm", "shrink", "epochs", "learning_rate", "seed")
    options = {name: learning[name] for name in names} | {"clip": not learning["no_clip"]}
    return bags.fit_release(release, rows, NetworkOptions(**options).checked_options(), progress)


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


def _scan_rows(
    data: str,
    features: FeatureMap,
    label: str | None = None,
    keep: tuple[str, ...] = (),
    **text: Any,
) -> Source:
    """Scan rows to predict or to score; read only the columns of the feature map and `keep`.

    Other columns may hold labels, and messages about features quote their values.
    """
    from labeldp.data.source import scan

    more = tuple(name for name in keep if name not in features.columns)
    keywords = features.reading | {name: each for name, each in text.items() if each is not None}
    for name in ("features", "categorical"):
        keywords[name] = (*keywords[name], *more)
    if label is not None:
        keywords |= {"label_range": (-1e150, 1e150), "drop_missing_labels": True}
    try:
        return scan(data, label=label, **keywords)
    except UnknownColumnError as problem:
        if problem.column in more:
            raise UnknownColumnError("--keep", problem.column, problem.reason) from None
        raise


def _labelled_rows(releases: list[Release], test: str, label: str) -> Source:
    """Scan the test rows; labels are clipped if those of a release were."""
    source = _scan_rows(test, releases[0].features, label)
    if all(each.certificate["labels"]["outside_range"] != "clipped" for each in releases):
        return source
    ends = [each.certificate["label_range"] for each in releases]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return replace(source, label_range=(low, high), clip=True)


def _score(model: Model, test: str, source: Source) -> dict[str, Any]:
    """Return the errors of the model and of the best constant, the mean of the same labels."""
    import numpy as np

    errors, labels = [], []
    for batch, truth in source.labelled_batches():
        errors.append((truth - model.predict(batch)) ** 2)
        labels.append(truth)
    if not sum(map(len, labels)):
        raise DataError(f"{test}: no row has a label, so nothing can be scored")
    mse, constant = float(np.mean(np.concatenate(errors))), float(np.var(np.concatenate(labels)))
    r2 = 1 - mse / constant if constant > 0 else None
    return {"test_mse": mse, "test_r2": r2, "test_constant_mse": constant}


@click.command(cls=Command)
@argument("model", "A model from `labeldp fit --out`.", type=Path)
@data_argument
@option("--out", type=Path, required=True, help="The new .csv or .parquet file of predictions.")
@option("--unknown", metavar="RULE", default="base", help="New levels: base, missing or error.")
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
    from labeldp.features.feature_map import UnseenValueHandler
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
    source = _scan_rows(data, fitted.features, keep=kept, **text)
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
    rows = 0
    open_writer: Any = csv.CSVWriter if out.suffix == ".csv" else parquet.ParquetWriter
    with new_path(out) as partial, open_writer(partial, schema) as writer:
        for batch in source.feature_batches():
            columns = [batch.column(name).cast(schema.field(name).type) for name in kept]
            predictions = arrow_numbers(model.predict(handler(batch)))
            writer.write_batch(pa.RecordBatch.from_arrays([*columns, predictions], schema=schema))
            rows += batch.num_rows
    return rows
