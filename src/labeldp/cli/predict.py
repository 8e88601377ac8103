"""labeldp predict"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.cli.derived import argument, told
from labeldp.cli.options import Data, Json, SpellingOptions, names, raw_rows
from labeldp.cli.output import emit_json, note
from labeldp.errors import InputError
from labeldp.io_util import check_target, new_path

if TYPE_CHECKING:
    import pyarrow as pa

    from labeldp.data.source import Source
    from labeldp.learners.models import Model


def predict(
    model: Annotated[Path, argument("A model written by `labeldp fit --out`.")],
    data: Data,
    spelling: SpellingOptions,
    out: Annotated[Path, told("Where to write predictions: .csv or .parquet.")],
    unknown: Annotated[
        str, told("A level not seen counts as base or missing, or is an error.")
    ] = "base",
    keep: Annotated[
        str | None,
        told("Columns of DATA to write beside the predictions.", metavar="A,B"),
    ] = None,
    json: Json = False,
) -> None:
    """Predict labels of raw rows with a fitted model, one prediction a row, in row order."""
    from labeldp.features.unseen import UnseenValueHandler
    from labeldp.learners.models import load_model

    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: predictions are written as .csv or .parquet; name one of them")
    check_target(out)
    fitted = load_model(model)
    if fitted.features is None:
        raise InputError(f"{model} was not fitted on a release; use it from Python")
    kept = names(keep)
    if "prediction" in kept:
        raise InputError("--keep prediction would be written twice; rename that column")
    tame = UnseenValueHandler(fitted.features, unknown)  # type: ignore[arg-type]  # which it checks
    source = raw_rows(data, fitted.features, kept=kept, **spelling.spelling_keywords())
    rows = _write(out, _schema(source, kept), _predictions(fitted, source, kept, tame))
    for text in tame.notes():
        note(text)
    if json:
        counts = {"unknown_levels": tame.unknown_levels, "outside_range": tame.outside_range}
        emit_json({"predictions": str(out), "rows": rows, **counts})
    else:
        print(f"{rows:,} predictions in {out}")


def _predictions(
    model: Model, source: Source, kept: tuple[str, ...], tame: Callable[[Any], Any]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from labeldp.arrow_util import arrow_numbers

    schema = _schema(source, kept)
    for batch in source.feature_batches():
        beside = [batch.column(name).cast(schema.field(name).type) for name in kept]
        made = arrow_numbers(model.predict(tame(batch)))
        yield pa.RecordBatch.from_arrays([*beside, made], schema=schema)


def _schema(source: Source, kept: tuple[str, ...]) -> pa.Schema:
    """Kept columns as they are, but for dictionaries, which a CSV file does not have."""
    import pyarrow as pa

    from labeldp.data.columns import value_type

    stored = source.reader.schema
    fields = [(name, value_type(stored.field(name).type)) for name in kept]
    return pa.schema([*fields, ("prediction", pa.float64())])


def _write(out: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    from pyarrow import csv, parquet

    rows = 0
    with new_path(out) as partial:
        writer: Any = (csv.CSVWriter if out.suffix == ".csv" else parquet.ParquetWriter)(
            partial, schema
        )
        with writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
    return rows
