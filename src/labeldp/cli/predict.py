"""labeldp predict"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp import InputError
from labeldp.cli.options import Data, Json, raw_rows
from labeldp.cli.output import emit_json
from labeldp.files import check_target, new_path

if TYPE_CHECKING:
    import pyarrow as pa

    from labeldp import Source
    from labeldp.learners.protocol import Model


def predict(
    model: Annotated[Path, typer.Argument(help="A model written by `labeldp fit --out`.")],
    data: Data,
    out: Annotated[Path, typer.Option(help="Where to write predictions: .csv or .parquet.")],
    json: Json = False,
) -> None:
    """Predict labels of raw rows with a fitted model, one prediction a row, in row order."""
    from labeldp.learners import load_model

    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: predictions are written as .csv or .parquet; name one of them")
    check_target(out)
    fitted = load_model(model)
    if fitted.features is None:
        raise InputError(f"{model} was not fitted on a release; use it from Python")
    rows = _write(out, _predictions(fitted, raw_rows(data, fitted.features)))
    if json:
        emit_json({"predictions": str(out), "rows": rows})
    else:
        print(f"{rows:,} predictions in {out}")


def _predictions(model: Model, source: Source) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from labeldp._arrow import arrow_numbers

    for batch in source.feature_batches():
        yield pa.RecordBatch.from_pydict({"prediction": arrow_numbers(model.predict(batch))})


def _write(out: Path, batches: Iterator[pa.RecordBatch]) -> int:
    import pyarrow as pa
    from pyarrow import csv, parquet

    schema = pa.schema([("prediction", pa.float64())])
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
