"""The pass over the data against reading alone and against other ways to sum the same things.

    python benchmarks/pass.py [--rows 2000000] [--rounds 3] [--tables census,criteo,dense] [--json]

All tables are synthetic: one like the paper's census table (1 number, 7 categories, 401 levels),
one like its Criteo table (3 numbers, 5 categories, 68 levels), one of 16 dense numbers. Each way
sums XᵀX (and Xᵀy) over all design columns:

    read               pyarrow decodes the same columns, and nothing else (iter_batches)
    read whole         the same into one table in memory (read_table)
    ours               the statistics pass from Parquet, labels included; with and without numba
    ours, in memory    the same from features kept by an earlier pass
    release            plan and release of 500 aggregates, leverage pass included, in a process of
                       its own, with its peak memory
    dense              one-hot matrix in blocks of 8192 rows, B.T @ B
    scipy, tabmat      sparse and split matrices, built beforehand
    duckdb             GROUPING SETS over every pair of categories, straight from Parquet

"dense", "scipy" and "tabmat" see a part of the rows in memory (reading and encoding is not counted
for them) and are extrapolated in line. Trust ratios, not times. scipy comes with labeldp; the
others with the extra `bench`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import Timing, side_by_side

from labeldp import kernels
from labeldp.datasets import write_census_like
from labeldp.engines import LocalEngine
from labeldp.engines.memory import Memory
from labeldp.features import FeatureMap, fit_features
from labeldp.source import Source, scan
from labeldp.statistics import LabelGrid

CRITEO_LEVELS = (4, 8, 12, 20, 24)
RANGE = {"census": (0.0, 51.0), "criteo": (0.0, 400.0), "dense": (0.0, 400.0)}
LABEL = {"census": "WKSWORK1", "criteo": "value", "dense": "value"}
PART = {"dense": 50, "scipy": 10, "tabmat": 10}
"""These see one row in so many."""


def criteo_like(rows: int) -> Iterator[pa.RecordBatch]:
    """Synthetic: five categories with 68 levels, three numbers, a skewed label."""
    rng = np.random.default_rng(0)
    for start in range(0, rows, 1 << 17):
        size = min(1 << 17, rows - start)
        columns: dict[str, Any] = {
            "clicks": rng.poisson(3, size).astype(np.int16),
            "price": np.round(rng.lognormal(3, 1, size), 2),
            "delay": np.round(rng.exponential(100, size), 1),
        }
        for place, levels in enumerate(CRITEO_LEVELS):
            codes = (rng.random(size) ** 2 * levels).astype(np.int8)
            names = pa.array([f"{chr(65 + place)}{level}" for level in range(levels)])
            columns[f"c{place}"] = pa.DictionaryArray.from_arrays(pa.array(codes), names)
        columns["value"] = np.clip(np.round(rng.lognormal(3, 1, size), 2), 0, 400)
        yield pa.RecordBatch.from_pydict(columns)


def dense_numbers(rows: int) -> Iterator[pa.RecordBatch]:
    """Synthetic: sixteen correlated numbers and a label."""
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(16, 16))
    for start in range(0, rows, 1 << 17):
        values = rng.normal(size=(min(1 << 17, rows - start), 16)) @ mix
        columns = {f"x{k}": np.round(values[:, k], 3) for k in range(16)}
        columns["value"] = np.clip(200 + 20 * values[:, 0], 0, 400)
        yield pa.RecordBatch.from_pydict(columns)


def write(name: str, path: Path, rows: int) -> None:
    if name == "census":
        write_census_like(path, rows)
        return
    batches = (criteo_like if name == "criteo" else dense_numbers)(rows)
    first = next(batches)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def read(path: Path) -> None:
    for _ in pq.ParquetFile(path, memory_map=True).iter_batches(batch_size=65_536):
        pass


def read_whole(path: Path) -> None:
    pq.read_table(path)


def ours(source: Source, features: FeatureMap, grid: LabelGrid, numba: bool, memory: Memory) -> str:
    """The statistics pass; its digest shows that all ways sum the same."""
    available = kernels.available
    kernels.WORTH_COMPILING = 0
    if not numba:
        kernels.available = lambda: False
    try:
        memory.once = lambda _key, _columns, compute: compute()  # count what a first pass costs
        gram, _ = LocalEngine(memory=memory).labelled_sums(source, features, grid)
    finally:
        kernels.available = available
    return gram.digest()


def dense(numbers: np.ndarray, codes: list[np.ndarray], sizes: tuple[int, ...]) -> np.ndarray:
    """The obvious way: blocks of a one-hot matrix."""
    first = np.cumsum([numbers.shape[1], *sizes])
    total = np.zeros((first[-1], first[-1]))
    matrix = np.empty((8192, first[-1]))
    for start in range(0, len(numbers), 8192):
        part = slice(start, start + 8192)
        block = matrix[: len(numbers[part])]
        block[:] = 0.0
        block[:, : first[0]] = numbers[part]
        for code, column in zip(codes, first[:-1], strict=True):
            block[np.arange(len(block)), column + code[part]] = 1.0
        total += block.T @ block
    return total


def in_memory(source: Source, features: FeatureMap, rows: int) -> dict[str, Callable[[], Any]]:
    """The ways that start from encoded rows in memory."""
    import scipy.sparse as sp

    encoded, have = [], 0
    for batch in source.feature_batches():
        encoded.append(features.encode(batch))
        have += batch.num_rows
        if have >= rows // min(PART.values()):
            break
    numbers = np.concatenate([np.column_stack([np.ones(e.rows), e.numbers]) for e in encoded])
    sizes = features.category_sizes
    codes = [np.concatenate([e.categories[k] for e in encoded]) for k in range(len(sizes))]
    few = slice(0, rows // PART["dense"])
    one_hot = [
        sp.csr_matrix((np.ones(len(c)), c, np.arange(len(c) + 1)), (len(c), size))
        for c, size in zip(codes, sizes, strict=True)
    ]
    sparse = sp.hstack([sp.csr_matrix(numbers), *one_hot], format="csr")
    ways: dict[str, Callable[[], Any]] = {
        "dense": lambda: dense(numbers[few], [c[few] for c in codes], sizes),
        "scipy": lambda: sparse.T @ sparse,
    }
    try:
        import tabmat
    except ModuleNotFoundError:
        return ways
    parts = [tabmat.DenseMatrix(np.asfortranarray(numbers))]
    parts += [tabmat.CategoricalMatrix(c) for c in codes]
    split = tabmat.SplitMatrix(parts)
    weights = np.ones(len(numbers))
    return ways | {"tabmat": lambda: split.sandwich(weights)}


def duckdb_sums(path: Path, features: FeatureMap, label: str) -> Callable[[], Any] | None:
    """Counts and sums by every pair of categories, products of numbers, in one process."""
    try:
        import duckdb
    except ModuleNotFoundError:
        return None
    numbers = [column.name for column in features.numeric] + [label]
    names = [column.name for column in features.categorical]
    sums = ", ".join(f'sum("{name}")' for name in numbers)
    pairs = list(combinations(numbers, 2)) + [(name, name) for name in numbers]
    products = ", ".join(f'sum("{a}"::DOUBLE * "{b}"::DOUBLE)' for a, b in pairs)
    queries = [f"SELECT {sums}, {products} FROM '{path}'"]
    if names:
        sets = [f'("{a}", "{b}")' for a, b in combinations(names, 2)] + [f'("{a}")' for a in names]
        queries.append(
            f"SELECT {', '.join(f'{chr(34)}{n}{chr(34)}' for n in names)}, count(*), {sums} "
            f"FROM '{path}' GROUP BY GROUPING SETS ({', '.join(sets)})"
        )
    return lambda: [duckdb.sql(query).fetchall() for query in queries]


_RELEASE = """
import json, re, sys, time
import labeldp.planning, labeldp.engines, scipy.linalg, scipy.stats
from labeldp import plan, scan
from labeldp.kernels import available, with_numba
if available():
    with_numba()
path, label, low, high = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
wall, cpu = time.perf_counter(), time.process_time()
engine = labeldp.engines.LocalEngine()
source = scan(path, label=label, label_range=(low, high))
plan(source, epsilon=1, delta=1e-6, bags=500, engine=engine).release(source, engine=engine)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
status = open("/proc/self/status").read()  # ru_maxrss would count the process that started this one
peak = int(re.search(r"VmHWM:\\s*(\\d+)", status).group(1)) / 1024
print(json.dumps({"wall": wall, "cpu": cpu, "peak_mib": peak}))
"""


def release(name: str, path: Path) -> dict[str, float]:
    """A whole release in a process of its own; imports are not counted."""
    low, high = map(str, RANGE[name])
    command = [sys.executable, "-c", _RELEASE, str(path), LABEL[name], low, high]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(name: str, path: Path, rows: int, rounds: int) -> dict[str, Any]:
    """All ways on one table, as times of the bare read."""
    source = scan(path, label=LABEL[name], label_range=RANGE[name])
    kept = LocalEngine()
    features = fit_features(source, fold=kept.fold)
    grid = LabelGrid.for_range(RANGE[name], intercept=True)
    ways: dict[str, Callable[[], Any]] = {
        "read": partial(read, path),
        "read whole": partial(read_whole, path),
        "ours, NumPy": lambda: ours(source, features, grid, False, Memory(0)),
        "ours, NumPy, in memory": lambda: ours(source, features, grid, False, kept.memory),
    }
    if kernels.available():
        ways["ours, numba"] = lambda: ours(source, features, grid, True, Memory(0))
        ways["ours, numba, in memory"] = lambda: ours(source, features, grid, True, kept.memory)
    by_duckdb = duckdb_sums(path, features, LABEL[name])
    if by_duckdb is not None:
        ways["duckdb"] = by_duckdb
    ways |= in_memory(source, features, rows)
    times, answers = side_by_side(ways, rounds)
    assert len({answer for way, answer in answers.items() if way.startswith("ours")}) == 1
    times = {way: time.scaled(PART.get(way, 1)) for way, time in times.items()}
    releases = [release(name, path) for _ in range(rounds)]
    times["release"] = Timing(
        min(done["wall"] for done in releases), min(done["cpu"] for done in releases)
    )
    bare = times["read"]
    return {
        "rows": rows,
        "design_columns": features.width,
        "release_peak_mib": round(max(done["peak_mib"] for done in releases)),
        "ways": {
            way: {
                "seconds": round(time.wall, 3),
                "cpu_seconds": round(time.cpu, 3),
                "times_read": round(time.wall / bare.wall, 2),
                "times_read_cpu": round(time.cpu / bare.cpu, 2),
                "million_rows_per_second": round(rows / time.wall / 1e6, 2),
                "extrapolated_from_rows": rows // PART[way] if way in PART else None,
            }
            for way, time in times.items()
        },
    }


def show(name: str, found: dict[str, Any]) -> None:
    print(f"\n{name}-like, {found['rows']:,} rows, {found['design_columns']} design columns")
    print(f"{'':24}{'seconds':>9}{'× read':>9}{'× cpu':>9}{'Mrow/s':>9}")
    for way, row in found["ways"].items():
        part = row["extrapolated_from_rows"]
        print(
            f"{way:24}{row['seconds']:9.2f}{row['times_read']:9.2f}{row['times_read_cpu']:9.2f}"
            f"{row['million_rows_per_second']:9.2f}"
            + (f"  extrapolated from {part:,} rows" if part else "")
        )
    print(f"peak memory of the release: {found['release_peak_mib']} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", default="census,criteo,dense")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.tables.split(","):
            path = Path(folder) / f"{name}.parquet"
            write(name, path, chosen.rows)
            found[name] = measure(name, path, chosen.rows, chosen.rounds)
            path.unlink()
            if not chosen.json:
                show(name, found[name])
    if chosen.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
