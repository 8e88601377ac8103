"""Make a table: read original files or draw synthetic rows, and write them in one stream.

Nothing is left behind by a pass that fails, and nothing is overwritten.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from labeldp.errors import InputError, at_least, positive
from labeldp.io_util import check_target, new_path
from labeldp_paper.datasets.catalogue import find
from labeldp_paper.datasets.declaration import Dataset, Model, Options
from labeldp_paper.datasets.projection import projected
from labeldp_paper.datasets.reading import Progress, Watch, quiet
from labeldp_paper.datasets.writing import categories, counted, reader, sink_for, write_parquet

ENCODINGS = ("levels", "projection")


@dataclass(frozen=True)
class Made:
    """A table that was written, and what other commands must be told about it."""

    dataset: str
    path: str
    synthetic: bool
    rows: int
    dropped: int
    label: str | None
    label_range: tuple[float, float] | None
    """None where other variables than the paper's were chosen."""
    clip: bool
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]


def stream(
    name: str, inputs: Sequence[Path], options: Options | None = None, watch: Watch | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a dataset from its original files."""
    dataset, options, watch = find(name), options or Options(), watch or Watch()
    if dataset.read is None:
        raise InputError(f"{name} is not read from files; leave them out")
    if dataset.needs_files and not inputs:
        raise InputError(f"{name} needs {dataset.needs}; name the files")
    options.check(dataset)
    return dataset.read(inputs, options, watch)


def synthetic_stream(
    name: str, rows: int, seed: int = 0, options: Options | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a synthetic dataset."""
    dataset, options = find(name), options or Options()
    model = _model(dataset)
    positive(rows=rows)
    at_least(0, seed=seed)
    options.check(dataset)
    return model.prepare(model.draw(rows, seed), options)


def _model(dataset: Dataset) -> Model:
    if dataset.model is None:
        raise InputError(
            f"{dataset.name} is not synthetic: it needs {dataset.needs}; name the files"
        )
    return dataset.model


def convert(
    name: str,
    inputs: Sequence[Path],
    path: Path,
    *,
    encoding: str = "levels",
    seed: int = 0,
    options: Options | None = None,
    progress: Progress = quiet,
) -> Made:
    """Write original files as one Parquet table; `seed` is of the public projection."""
    dataset, options, watch = find(name), options or Options(), Watch()
    _check_output(path, (".parquet",), encoding)
    batches = stream(name, inputs, options, watch)
    size = sum(file.stat().st_size for file in inputs if file.exists()) or None
    with progress(f"reading {name}", size) as advance:
        watch.advance = advance
        made = _write(dataset, batches, path, encoding, seed, options, progress)
    return replace(made, dropped=watch.dropped)


def generate(
    name: str,
    path: Path,
    rows: int | None = None,
    seed: int = 0,
    *,
    encoding: str = "levels",
    options: Options | None = None,
    progress: Progress = quiet,
) -> Made:
    """Write a synthetic dataset: Parquet, or as the original is written (.dat, .tsv, with .gz)."""
    dataset, options = find(name), options or Options()
    rows = dataset.rows if rows is None else rows
    batches = synthetic_stream(name, rows, seed, options)
    model = _model(dataset)
    _check_output(path, (".parquet", model.ending, f"{model.ending}.gz"), encoding)
    with progress(f"generating {name}", rows) as advance:
        if path.name.endswith(".parquet"):
            return _write(
                dataset, counted(batches, advance), path, encoding, seed, options, progress
            )
        if encoding != "levels" or options != Options():
            raise InputError(f"{path.name} holds original values; choose encodings when reading it")
        return _write_original(dataset, path, model.write, counted(model.draw(rows, seed), advance))


def _check_output(path: Path, endings: tuple[str, ...], encoding: str) -> None:
    if encoding not in ENCODINGS:
        raise InputError(f"encoding must be one of {', '.join(ENCODINGS)}, not {encoding!r}")
    if not path.name.endswith(endings):
        raise InputError(f"{path}: the name must end in {' or '.join(endings)}")
    check_target(path)


def _write(
    dataset: Dataset,
    batches: Iterable[pa.RecordBatch],
    path: Path,
    encoding: str,
    seed: int,
    options: Options,
    progress: Progress,
) -> Made:
    facts = {
        "labeldp.dataset": dataset.name,
        "labeldp.synthetic": str(dataset.synthetic).lower(),
        "labeldp.encoding": encoding,
        "labeldp.seed": str(seed),
    }
    with new_path(path) as partial:
        if encoding == "levels":
            rows, schema = write_parquet(batches, partial, facts)
        else:
            with tempfile.TemporaryDirectory(prefix="labeldp-") as folder:
                plain = Path(folder) / "plain.parquet"
                total, schema = write_parquet(batches, plain, {})
                with progress("projecting", total) as advance:
                    made = projected(reader(plain), categories(schema), seed)
                    rows, schema = write_parquet(counted(made, advance), partial, facts)
    return _made(dataset, path, rows, schema, options)


def _made(dataset: Dataset, path: Path, rows: int, schema: pa.Schema, options: Options) -> Made:
    label = dataset.label if dataset.label in schema.names else None
    limits = dataset.limits(options) if label else None
    levels = categories(schema)
    numeric = tuple(name for name in schema.names if name not in (*levels, label))
    return Made(
        dataset.name,
        str(path),
        dataset.synthetic,
        rows,
        0,
        label,
        limits,
        dataset.clip,
        numeric,
        levels,
    )


def _write_original(
    dataset: Dataset,
    path: Path,
    write: Callable[[pa.RecordBatch, int, BinaryIO], None],
    batches: Iterable[pa.RecordBatch],
) -> Made:
    done, schema = 0, None
    with new_path(path) as partial, sink_for(partial, path.name.endswith(".gz")) as sink:
        for batch in batches:
            write(batch, done, sink)
            done, schema = done + batch.num_rows, batch.schema
    return _made(dataset, path, done, schema, Options())
