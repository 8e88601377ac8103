"""Make a table: read original files or draw synthetic rows, and write them in one stream.

Nothing is left behind by a pass that fails, and nothing is overwritten.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import csv

from labeldp.errors import InputError, at_least, positive
from labeldp.files import check_target, new_path
from labeldp_paper.datasets import catalogue, census, synthetic_criteo
from labeldp_paper.datasets.catalogue import Dataset
from labeldp_paper.datasets.criteo import criteo, label_range
from labeldp_paper.datasets.flights import flights
from labeldp_paper.datasets.ipums import ipums
from labeldp_paper.datasets.projection import projected
from labeldp_paper.datasets.reading import Watch, nothing
from labeldp_paper.datasets.synthetic_census import census_coded, census_codes
from labeldp_paper.datasets.writing import categories, counted, reader, sink_for, write_parquet

ENCODINGS = ("levels", "projection")
Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Options:
    """How to read; each dataset has its own, and refuses the others."""

    codebook: Path | None = None
    columns: tuple[str, ...] = ()
    keep_zero_weeks: bool = False
    log_base: float = 2.0

    def check(self, dataset: Dataset) -> None:
        """Refuse an option that would change nothing."""
        for entry in fields(self):
            changed = getattr(self, entry.name) != entry.default
            if changed and entry.name not in dataset.options:
                option = entry.name.replace("_", "-")
                raise InputError(f"--{option} does not apply to {dataset.name}; leave it out")
        if not (math.isfinite(self.log_base) and self.log_base > 1):
            raise InputError(f"log_base must be above 1, not {self.log_base}")


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


@contextmanager
def quiet(_task: str, _total: int | None) -> Iterator[Callable[[int], None]]:
    """No progress bar."""
    yield nothing


def stream(
    name: str, inputs: Sequence[Path], options: Options | None = None, watch: Watch | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a dataset from its original files."""
    dataset, options, watch = catalogue.find(name), options or Options(), watch or Watch()
    if dataset.synthetic:
        raise InputError(f"{name} is not read from files; leave them out")
    if not inputs and name != "flights":
        raise InputError(f"{name} needs {dataset.needs}; name the files")
    options.check(dataset)
    return _READERS[name](inputs, options, watch)


def synthetic_stream(
    name: str, rows: int, seed: int = 0, options: Options | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a synthetic dataset."""
    dataset, options = catalogue.find(name), options or Options()
    if not dataset.synthetic:
        raise InputError(f"{name} is not synthetic: it needs {dataset.needs}; name the files")
    positive(rows=rows)
    at_least(0, seed=seed)
    options.check(dataset)
    return _GENERATORS[name](rows, seed, options)


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
    dataset, options, watch = catalogue.find(name), options or Options(), Watch()
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
    dataset, options = catalogue.find(name), options or Options()
    rows = dataset.rows if rows is None else rows
    batches = synthetic_stream(name, rows, seed, options)
    original = ".tsv" if name == "synthetic-criteo" else ".dat"
    _check_output(path, (".parquet", original, f"{original}.gz"), encoding)
    with progress(f"generating {name}", rows) as advance:
        if path.name.endswith(".parquet"):
            return _write(
                dataset, counted(batches, advance), path, encoding, seed, options, progress
            )
        if encoding != "levels" or options != Options():
            raise InputError(f"{path.name} holds original values; choose encodings when reading it")
        return _write_original(dataset, path, rows, seed, advance)


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
    limits = dataset.label_range if label else None
    if limits and options.keep_zero_weeks:
        limits = (0.0, limits[1])
    if "log_base" in dataset.options:
        limits = label_range(options.log_base)
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
    dataset: Dataset, path: Path, rows: int, seed: int, advance: Callable[[int], None]
) -> Made:
    done, schema = 0, None
    with new_path(path) as partial, sink_for(partial, path.name.endswith(".gz")) as sink:
        for batch in _RAW[dataset.name](rows, seed):
            _TEXTS[dataset.name](batch, done, sink)
            done, schema = done + batch.num_rows, batch.schema
            advance(batch.num_rows)
    return _made(dataset, path, done, schema, Options())


def _census_text(batch: pa.RecordBatch, done: int, sink: BinaryIO) -> None:
    sink.write(census.as_records(census_codes(batch), done))


def _criteo_text(batch: pa.RecordBatch, _done: int, sink: BinaryIO) -> None:
    style = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    csv.write_csv(synthetic_criteo.as_log(batch), sink, style)


_READERS: dict[str, Callable[[Sequence[Path], Options, Watch], Iterator[pa.RecordBatch]]] = {
    "census-1940": lambda paths, o, watch: census.census_1940(paths, o.keep_zero_weeks, watch),
    "ipums": lambda paths, o, watch: ipums(paths, o.codebook, o.columns, o.keep_zero_weeks, watch),
    "criteo": lambda paths, o, watch: criteo(paths, o.log_base, watch),
    "flights": lambda paths, _, watch: flights(paths, watch),
}
_RAW: dict[str, Callable[[int, int], Iterator[pa.RecordBatch]]] = {
    "synthetic-census": lambda rows, seed: census_coded(rows, seed, "all"),
    "synthetic-census-labelled": lambda rows, seed: census_coded(rows, seed, "labelled"),
    "synthetic-criteo": synthetic_criteo.criteo_sales,
}
_GENERATORS: dict[str, Callable[[int, int, Options], Iterator[pa.RecordBatch]]] = {
    "synthetic-census": lambda rows, seed, _: _RAW["synthetic-census"](rows, seed),
    "synthetic-census-labelled": lambda rows, seed, _: _RAW["synthetic-census-labelled"](
        rows, seed
    ),
    "synthetic-criteo": lambda rows, seed, o: synthetic_criteo.criteo_like(rows, seed, o.log_base),
}
_TEXTS: dict[str, Callable[[pa.RecordBatch, int, BinaryIO], None]] = {
    "synthetic-census": _census_text,
    "synthetic-census-labelled": _census_text,
    "synthetic-criteo": _criteo_text,
}
