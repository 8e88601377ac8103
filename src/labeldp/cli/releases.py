"""Commands on a finished release: verify, report, describe, fit, predict."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import (
    Command,
    argument,
    column_list,
    data_argument,
    engine_options,
    flag,
    help_all_option,
    json_option,
    make_engine,
    open_data,
    option,
    release_argument,
    text_options,
    together,
)
from labeldp.cli.output import (
    draw_pictures,
    emit_json,
    in_flags,
    note,
    progress,
    say,
    write_text,
)
from labeldp.errors import InputError
from labeldp.io_util import check_target, new_path
from labeldp.mechanisms.options import make_options
from labeldp.pictures import need_matplotlib

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.learners.models import LinearModel, Model, NetworkModel
    from labeldp.releases.files import Release

_MOST_COEFFICIENTS = 12
"""Shown without --verbose."""
_RELEASES = "A release directory, or several of different rows."


@click.command(cls=Command)
@release_argument
@option("--data", metavar="TABLE", help="The table that was released, to check its features too.")
@option("--key", "keys", type=Path, multiple=True, help="A public key that must have signed.")
@engine_options
@help_all_option
@json_option
def verify(
    directory: Path,
    data: str | None,
    keys: tuple[Path, ...],
    engine_name: str,
    threads: int | None,
    as_json: bool,
) -> int:
    """Recompute the certificate of a release from its public files.

    Exits with 1 if anything disagrees.
    """
    from labeldp.signing import PublicKey
    from labeldp.verification import verify as check

    engine = make_engine(engine_name, threads)
    table = None if data is None else open_data(data, engine_name)
    public_keys = [PublicKey.read(key) for key in keys]
    result = check(directory, table, engine, keys=public_keys)
    if as_json:
        lists = ("problems", "weak", "untested", "signed_by")
        emit_json({"valid": result.valid, **{name: list(getattr(result, name)) for name in lists}})
    elif result.valid:
        say(f"{directory} is valid{', but weak' if result.weak else ''}: {result.summary}")
        for reason in result.weak:
            say(f"  - {reason}", indent="    ")
        for name in result.signed_by:
            say(f"  signed by {name}")
        for reason in result.untested:
            say(f"  not checked: {in_flags(reason)}", indent="    ")
    else:
        say(f"{directory} is NOT valid:")
        for problem in result.problems:
            say(f"  - {problem}", indent="    ")
    return 0 if result.valid else 1


@click.command(cls=Command)
@release_argument
@option("--out", type=Path, help="The HTML file (default: DIRECTORY.html beside the release).")
@json_option
def report(directory: Path, out: Path | None, as_json: bool) -> None:
    """Write an HTML report of a release, to read, print and sign."""
    from labeldp.reporting import release_report, report_page

    place = directory.resolve()
    target = out or (None if as_json else place.with_name(f"{place.name}.html"))
    if target is not None:
        check_target(target)
    document = release_report(directory)
    if target is not None:
        write_text(target, report_page(document))
    if as_json:
        emit_json(document)
    else:
        print(f"{target}: open it in a browser, print it, sign it")


@click.command(cls=Command)
@release_argument
@option(
    "--as",
    "kind",
    type=click.Choice(["card", "croissant", "registry"]),
    default="card",
    help="Form of the description (default: card).",
)
def describe(directory: Path, kind: str) -> None:
    """Describe a release for a data catalogue, from its certificate and files."""
    from labeldp.reporting import describe as describe_release

    print(describe_release(directory, kind), end="")


@click.command(cls=Command)
@argument("directories", _RELEASES, type=Path, nargs=-1, required=True)
@option("--out", type=Path, help="Write the model to this new JSON file.")
@option(
    "--model",
    "kind",
    type=click.Choice(["linear", "neural"]),
    default="linear",
    help="Linear model (default) or neural network.",
)
@option(
    "--family",
    type=click.Choice(["linear", "logistic", "poisson"]),
    help="What labels are: numbers, two classes or counts; the last two need --data.",
)
@option(
    "--data",
    "tables",
    metavar="TABLE",
    multiple=True,
    help="The released table, where the fit reads features; one for each release.",
)
@option("--ridge", "penalty", type=float, help="Ridge penalty in units of rows.")
@option("--confidence", type=float, default=0.95, help="Level of intervals (default: 0.95).")
@together(
    option("--lasso", type=float, help="Lasso penalty."),
    option("--max-norm", type=float, help="Largest norm of the coefficients (B_r in the paper)."),
    column_list("--columns", help="Regress on these columns only (default: all)."),
    option("--shrink/--no-shrink", default=None, help="Shrink predictions to a posterior mean."),
    flag("--no-clip", "clip", flag_value=False, help="Let predictions leave the label range."),
    group="Options of --model linear",
)
@together(
    option("--epochs", type=int, help="Most passes over the bags (default: 200)."),
    option("--learning-rate", type=float, help="First step size (default: 0.001)."),
    option("--seed", type=click.IntRange(min=0), help="Seed of the first weights (default: 0)."),
    group="Options of --model neural",
)
@option("--plots", type=Path, help="Draw each column's effect here; needs the extra plots.")
@option("--no-verify", is_flag=True, group="Output options", help="Fit even if files were altered.")
@option("--verbose", is_flag=True, group="Output options", help="Show all coefficients.")
@help_all_option
@json_option
def fit(
    directories: tuple[Path, ...],
    out: Path | None,
    kind: str,
    family: str | None,
    tables: tuple[str, ...],
    plots: Path | None,
    no_verify: bool,
    verbose: bool,
    as_json: bool,
    **learning: Any,
) -> None:
    """Fit a regression on one or several releases; this costs no privacy."""
    from labeldp.learners.linear import fit_release
    from labeldp.learners.models import LinearOptions
    from labeldp.learners.summary import Summary, effect_picture
    from labeldp.releases.files import Release, table_rows

    for target in filter(None, (out, plots)):
        check_target(target)
    if plots is not None:
        need_matplotlib()
        if kind == "neural":
            raise InputError("--plots is for --model linear; leave it out")
    releases = [Release.load(directory, verify=not no_verify) for directory in directories]
    one_needs_rows = len(releases) == 1 and releases[0].needs_rows
    if len(tables) > len(releases):
        raise InputError("--data is given more often than there are releases; give one for each")
    rows = table_rows(releases[0], tables[0]) if one_needs_rows and tables else None
    if family is None and kind == "linear" and tables and _have_classes(releases):
        family = "logistic"
        note("labels are of two classes: a logistic fit; --family linear fits a line")
    model: Model
    if kind == "neural":
        model = network = _fit_network(releases, rows, learning)
        text = network.describe(releases[0].bags)
        facts: dict[str, Any] = {"quality": network.quality and asdict(network.quality)}
    else:
        if family in ("logistic", "poisson"):
            model = linear = _fit_generalized(releases, tables, family, learning)
        else:
            options = make_options(LinearOptions, learning).checked_options()
            model = linear = fit_release(releases, rows, options)
        if plots is not None:
            pictures = [effect_picture(linear, effect.column) for effect in linear.effects]
            draw_pictures(pictures, plots)
        table = Summary.of(linear)
        text, facts = table.text(None if verbose else _MOST_COEFFICIENTS), table.to_dict()
    if out is not None:
        model.save(out)
    if as_json:
        names = ("rule", "clipped_to", "quality", "releases", "base_levels", "notes")
        document = {
            "release": ", ".join(map(str, directories)),
            "model": kind if family in (None, "linear") else family,
            "coefficients": [asdict(coefficient) for coefficient in model.coefficients],
            "confidence": learning["confidence"],
        }
        emit_json(document | {name: facts.get(name) for name in names})
        return
    print(text)


def _have_classes(releases: list[Release]) -> bool:
    return all("classes" in release.certificate["labels"] for release in releases)


def _fit_generalized(
    releases: list[Release], tables: tuple[str, ...], family: str, learning: dict[str, Any]
) -> LinearModel:
    from labeldp.learners.generalized import fit_release
    from labeldp.learners.models import GeneralizedOptions
    from labeldp.passes.engine import LocalEngine

    for name in ("penalty", "lasso", "max_norm", "clip"):
        if learning[name] is not None:
            raise InputError(f"`{name}` is for --family linear; leave it out")
    if len(tables) != len(releases) and any(not each.holds_rows for each in releases):
        raise InputError(
            f"--family {family} reads the features of the released table; give it (--data TABLE)"
            + ", once for each release" * (len(releases) > 1)
        )
    options = make_options(GeneralizedOptions, learning).checked_options()
    data = tables or [None] * len(releases)
    return fit_release(releases, data, family, options, LocalEngine(progress=progress))


def _fit_network(
    releases: list[Release], rows: Source | None, learning: dict[str, Any]
) -> NetworkModel:
    from labeldp.learners.bags import fit_release
    from labeldp.learners.models import NetworkOptions

    if len(releases) > 1:
        raise InputError("several releases are for --model linear; give one")
    for name in ("penalty", "lasso", "max_norm", "columns"):
        if learning[name]:
            raise InputError(f"`{name}` is for --model linear; leave it out")
    options = make_options(NetworkOptions, learning).checked_options()
    return fit_release(releases[0], rows, options, progress)


@click.command(cls=Command)
@argument("model", "A model from `labeldp fit --out`.", type=Path)
@data_argument
@option("--out", type=Path, required=True, help="The new .csv or .parquet file of predictions.")
@option("--unknown", metavar="RULE", default="base", help="Unseen levels: base or error.")
@column_list("--keep", help="Columns of DATA to write beside the predictions.")
@text_options
@help_all_option
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
    import pyarrow as pa
    from pyarrow import csv, parquet

    from labeldp.arrow_util import arrow_numbers
    from labeldp.data.columns import value_type
    from labeldp.data.source import scan
    from labeldp.features.encoder import UnseenValues
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
    unseen = UnseenValues(unknown)
    # Other columns may hold labels, and messages about features quote their values.
    reading = dict(fitted.features.reading)
    beside = tuple(name for name in kept if name not in fitted.features.columns)
    for name in ("features", "categorical"):
        reading[name] = (*reading[name], *beside)
    reading |= {name: each for name, each in text.items() if each is not None}
    source = scan(data, **reading)
    # dictionaries become plain values, because a CSV file has none
    types = [(name, value_type(source.reader.schema.field(name).type)) for name in kept]
    schema = pa.schema([*types, ("prediction", pa.float64())])
    rows = 0
    open_writer: Any = csv.CSVWriter if out.suffix == ".csv" else parquet.ParquetWriter
    with new_path(out) as partial, open_writer(partial, schema) as writer:
        for batch in source.feature_batches():
            columns = [batch.column(name).cast(schema.field(name).type) for name in kept]
            predictions = arrow_numbers(fitted.predict(batch, unseen))
            writer.write_batch(pa.RecordBatch.from_arrays([*columns, predictions], schema=schema))
            rows += batch.num_rows
    for line in unseen.notes():
        note(line)
    if as_json:
        counts = {"unknown_levels": unseen.unknown_levels, "outside_range": unseen.outside_range}
        emit_json({"predictions": str(out), "rows": rows, **counts})
    else:
        print(f"{rows:,} predictions in {out}")
