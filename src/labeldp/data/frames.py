"""Frames, and files of statistical programs, which pyreadstat makes data frames of.

A frame is anything that exports the Arrow C stream. It becomes an Arrow table when it is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.data.columns import check_unique_names
from labeldp.data.files import common_schema, reading_file
from labeldp.data.labels import label_texts
from labeldp.data.readers import TableReader
from labeldp.errors import DataError

_STATISTICAL = {
    "Stata": "read_dta",
    "SPSS": "read_sav",
    "SAS": "read_sas7bdat",
    "SAS transport": "read_xport",
}
"""Functions of pyreadstat."""
_KNOWN = (
    "pass a path, a directory or a glob, or a pandas, polars, pyarrow or duckdb table with named "
    "columns"
)
_DICTIONARY = "its values must be lists of one length, by column"


@dataclass(frozen=True, kw_only=True)
class FrameReader(TableReader):
    """A pandas, polars or pyarrow table, a duckdb relation, or the like."""

    frame: pa.Table = field(repr=False)

    @classmethod
    def open(cls, data: Any, label: str | None = None) -> FrameReader:
        """Read the schema of a frame; refuse what is none."""
        package = _package(data)
        name = type(data).__name__ if package == "builtins" else f"{package} {type(data).__name__}"
        is_table = hasattr(data, "__arrow_c_stream__") and not isinstance(data, type)
        if type(data).__name__ == "Series" or not (is_table or isinstance(data, Mapping)):
            remedy = "collect it first" if hasattr(data, "collect") else _KNOWN
            raise DataError(f"data of type {name} cannot be read as a table; {remedy}")
        try:
            frame = _with_label_texts(data, label)
            if isinstance(frame, Mapping):
                frame = pa.table(dict(frame))
            elif isinstance(frame, pa.RecordBatch):
                frame = pa.Table.from_batches([frame])
            # Not by the stream: older versions crash where views of strings are exported.
            if not isinstance(frame, pa.Table):
                frame = pa.RecordBatchReader.from_stream(frame).read_all()
        except MemoryError:
            raise
        except Exception as error:  # packages have errors of their own, which may quote values
            remedy = _DICTIONARY if isinstance(data, Mapping) else _KNOWN
            if column := re.search(r"for column (.+?) with type", str(error)):
                remedy = (
                    f"column {column[1]!r} mixes types; cast it to one, for example in pandas: "
                    f'table[{column[1]!r}] = table[{column[1]!r}].astype("string")'
                )
            if "uplicate" in str(error):
                remedy = "several columns have one name; rename them"
            raise DataError(f"the {name} does not convert to an Arrow table; {remedy}") from None
        check_unique_names(frame.schema.names, f"the {name}")
        schema = frame.schema.remove_metadata()
        return cls(frame=frame, stored_schema=schema, rows=frame.num_rows, format=name)

    def read(self, columns: list[str], _batch_rows: int, /) -> Iterator[pa.RecordBatch]:
        yield from self.frame.select(columns).to_batches()


def _with_label_texts(frame: Any, label: str | None) -> Any:
    """Return the frame with the label column as texts if its type would follow from its values.

    That is so of Python objects.
    """
    if isinstance(frame, Mapping):
        listed = label is not None and isinstance(frame.get(label), list | tuple)
        return {**frame, label: label_texts(frame[label])} if listed else frame
    package = _package(frame)
    is_frame = package in ("pandas", "polars") and type(frame).__name__ == "DataFrame"
    if not is_frame or list(frame.columns).count(label) != 1:
        return frame
    column = frame[label]
    kind = column.dtype
    if package == "pandas":
        kind = getattr(kind, "categories", column).dtype
    if str(kind) not in ("object", "Object"):
        return frame
    texts = label_texts(column.to_list())
    if package == "pandas":
        return frame.assign(**{str(label): texts.to_numpy(False)})
    return frame.with_columns(type(column)(label, texts))


def _package(frame: Any) -> str:
    """Return the package of a frame; duckdb's own types are of one with an underscore."""
    return type(frame).__module__.partition(".")[0].lstrip("_")


def open_statistical(paths: tuple[Path, ...], form: str, label: str | None) -> FrameReader:
    """Return the reader of one table in one or more files, which are read whole."""
    tables = []
    for path in paths:
        with reading_file(path, form, Exception, extra="tables"):
            import pyreadstat

            # Values, not their printed labels.
            frame, _ = getattr(pyreadstat, _STATISTICAL[form])(str(path))
        tables.append(FrameReader.open(frame, label).frame.replace_schema_metadata(None))
    common_schema(paths, [table.schema for table in tables])
    reader = FrameReader.open(pa.concat_tables(tables))
    return replace(reader, format=form, paths=paths)
