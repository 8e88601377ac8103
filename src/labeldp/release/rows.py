"""Rows behind a release: of noisy labels with their features, and of the table it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import column_numbers, numpy_numbers
from labeldp.data.batches import take_numbered
from labeldp.data.source import Source, scan
from labeldp.errors import InputError, MissingExtraError, ReleaseError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.raw_rows import raw_columns, raw_schema
from labeldp.release.files import WANTS_TABLE, Release
from labeldp.release.pending import ROW

if TYPE_CHECKING:
    import pandas as pd


def labelled_rows(
    release: Release, source: Source | None = None
) -> Iterator[tuple[pa.RecordBatch, NDArray[np.float64]]]:
    """Yield raw features, from the release or the source, and noisy labels, batch by batch."""
    features = release.features
    if not release.needs_rows:
        for batch in release.table.to_batches():
            labels = numpy_numbers(batch.column(batch.num_columns - 1))
            yield batch.select(list(features.columns)), labels
        return
    if source is None:
        raise InputError(WANTS_TABLE)
    labels, wanted = release.labels, column_numbers(release.table.column(ROW))
    whole = release.certificate["labels"]["missing"] == "refused"
    for places, batch in take_numbered(source, features.columns, wanted, whole=whole):
        yield batch, labels[places]


def training_frame(release: Release, data: Any) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return X and y; see `Release.training_frame`."""
    if not release.holds_rows:
        raise ReleaseError(
            f"{release.certificate['mechanism']} publishes aggregates, of which no single row has "
            "a label; a training frame is made of a release of noisy-rows"
        )
    pd = _pandas()
    source = table_rows(release, data)
    parts = [raw_columns(release.features, batch) for batch, _ in labelled_rows(release, source)]
    table = pa.Table.from_batches(parts, schema=raw_schema(release.features))
    index = pd.Index(column_numbers(release.table.column(ROW)), name=ROW)
    frame = table.to_pandas().set_index(index)
    labels = release.labels
    return frame, pd.Series(labels, index, name=release.certificate["labels"]["column"])


def feature_frame(features: FeatureMap, rows: Any) -> pd.DataFrame:
    """Return raw columns of any rows in the form of X; see `Release.feature_frame`."""
    _pandas()
    source = rows if isinstance(rows, Source) else feature_rows(features, rows)
    parts = [raw_columns(features, batch) for batch in source.feature_batches(features.columns)]
    frame: pd.DataFrame = pa.Table.from_batches(parts, schema=raw_schema(features)).to_pandas()
    return frame


def feature_rows(features: FeatureMap, data: Any) -> Source:
    """Return all rows of a table, its feature columns only."""
    return scan(data, **features.reading)


def public_rows(release: Release, data: Any) -> Source:
    """Return the rows that a release was made from: feature columns and person ids only.

    If rows without a label were dropped, the label column is read to drop them again, and only
    for that.
    """
    labels, person = release.certificate["labels"], release.certificate.get("person")
    dropped = labels["missing"] == "rows dropped"
    options = release.features.reading
    if dropped and "na" in labels:
        words = ("",) if options["na"] == () else options["na"] or ()
        options["na"] = (*words, *labels["na"])
    return scan(
        data,
        label=labels["column"] if dropped else None,
        person=None if person is None else person["column"],
        drop_missing_labels=dropped,
        **options,
    )


def table_rows(release: Release, data: Any) -> Source | None:
    """Return the table that a release was made from as a source (a source stays as it is)."""
    if data is None or isinstance(data, Source):
        return data
    if release.holds_rows:  # rows are chosen by number, so labels need not tell which were dropped
        return feature_rows(release.features, data)
    return public_rows(release, data)


def _pandas() -> Any:
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise MissingExtraError("a training frame", "interop") from None
    return pd
