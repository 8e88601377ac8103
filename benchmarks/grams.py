"""Ways to XᵀX: ours, dense blocks, scipy.sparse, tabmat, and GROUPING SETS of duckdb."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap

Gram = NDArray[np.float64]
BLOCK_ROWS = 8192
BATCH_ROWS = 131_072
REMEDY = "is not installed; pip install 'labeldp[bench]'"


@dataclass(frozen=True)
class Rows:
    """Encoded rows in memory: the constant and the numbers, and a code per category."""

    numbers: NDArray[np.float64]
    codes: tuple[NDArray[np.int32], ...]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def width(self) -> int:
        return self.numbers.shape[1] + sum(self.sizes)

    def first(self, rows: int) -> Rows:
        return Rows(self.numbers[:rows], tuple(code[:rows] for code in self.codes), self.sizes)

    def fill(self, start: int, block: NDArray[np.float64]) -> None:
        """Write the rows from `start` on into a dense block."""
        part = slice(start, start + len(block))
        at = self.numbers.shape[1]
        block[:] = 0.0
        block[:, :at] = self.numbers[part]
        for code, size in zip(self.codes, self.sizes, strict=True):
            block[np.arange(len(block)), at + code[part]] = 1.0
            at += size


def encoded_rows(source: Source, features: FeatureMap, rows: int) -> Rows:
    """The first rows of a table, at least so many if there are, as our own pass encodes them."""
    seen, have = [], 0
    for batch in source.feature_batches():
        seen.append(features.encode(batch))
        have += batch.num_rows
        if have >= rows:
            break
    numbers = np.concatenate([np.column_stack([np.ones(e.rows), e.numbers]) for e in seen])
    sizes = features.category_sizes
    codes = tuple(np.concatenate([e.categories[k] for e in seen]) for k in range(len(sizes)))
    return Rows(numbers, codes, sizes).first(rows)


def our_gram(rows: Rows, features: FeatureMap) -> Callable[[], FeatureGram]:
    """Our sums on all cores; compound codes are made beforehand, as an earlier pass would."""
    batches = []
    for start in range(0, len(rows), BATCH_ROWS):
        part = slice(start, min(len(rows), start + BATCH_ROWS))
        codes = features.joint_codes.join([code[part] for code in rows.codes])
        numbers = np.asfortranarray(rows.numbers[part, 1:])  # the constant is counted anyway
        batches.append(Encoded(len(numbers), numbers, codes, features.joint_codes))
    threads = os.cpu_count() or 1

    def run() -> FeatureGram:
        def share(first: int) -> dict[str, Any]:
            sums = GramAccumulator(features)
            for batch in batches[first::threads]:
                sums.add(batch)
            return sums.state()

        total = GramAccumulator(features)
        with ThreadPoolExecutor(threads) as pool:
            for each in pool.map(share, range(threads)):
                total.merge(each)
        return total.result()

    return run


def dense_gram(rows: Rows) -> Gram:
    """The obvious way: blocks of a one-hot matrix."""
    total = np.zeros((rows.width, rows.width))
    matrix = np.empty((BLOCK_ROWS, rows.width))
    for start in range(0, len(rows), BLOCK_ROWS):
        block = matrix[: len(rows) - start]
        rows.fill(start, block)
        total += block.T @ block
    return total


def scipy_gram(rows: Rows) -> Callable[[], Any]:
    """A sparse product; the matrix is built beforehand."""
    import scipy.sparse as sp

    pointers = np.arange(len(rows) + 1)
    one_hot = [
        sp.csr_matrix((np.ones(len(code)), code, pointers), (len(code), size))
        for code, size in zip(rows.codes, rows.sizes, strict=True)
    ]
    matrix = sp.hstack([sp.csr_matrix(rows.numbers), *one_hot], format="csr")
    return lambda: matrix.T @ matrix


def tabmat_gram(rows: Rows) -> Callable[[], Any] | None:
    """tabmat's split matrix, built beforehand; None if tabmat is not installed."""
    try:
        import tabmat
    except ModuleNotFoundError:
        return None
    parts = [tabmat.DenseMatrix(np.asfortranarray(rows.numbers))]
    for code, size in zip(rows.codes, rows.sizes, strict=True):
        parts.append(tabmat.CategoricalMatrix(code, categories=np.arange(size)))
    matrix, weights = tabmat.SplitMatrix(parts), np.ones(len(rows))
    return lambda: matrix.sandwich(weights)


def tabmat_sums(path: Path, features: FeatureMap, label: str) -> Callable[[], Any] | None:
    """XᵀX and Xᵀy by tabmat from Parquet, rare levels unmerged; None if it is not installed."""
    try:
        import tabmat
    except ModuleNotFoundError:
        return None

    def run() -> tuple[Gram, NDArray[np.float64]]:
        table = pq.read_table(path)
        numbers = [table.column(column.name).to_numpy() for column in features.numeric]
        design = np.empty((table.num_rows, 1 + len(numbers)), order="F")
        design[:, 0] = 1.0
        for place, values in enumerate(numbers, start=1):
            design[:, place] = np.nan_to_num(values)
        parts = [tabmat.DenseMatrix(design)]
        for column in features.categorical:
            coded = table.column(column.name).combine_chunks().dictionary_encode()
            parts.append(tabmat.CategoricalMatrix(coded.to_pandas()))  # takes its codes as they are
        matrix = tabmat.SplitMatrix(parts)
        labels = table.column(label).to_numpy().astype(np.float64)
        return matrix.sandwich(np.ones(table.num_rows)), matrix.transpose_matvec(labels)

    return run


def duckdb_sums(path: Path, features: FeatureMap, label: str) -> Callable[[], Any] | None:
    """Products of numbers, and counts and sums by every pair of categories, from Parquet.

    The answer has the moments of the numbers (label last) as its first query and the groups
    as its second. None if duckdb is not installed.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        return None
    numbers = [f'"{column.name}"' for column in features.numeric] + [f'"{label}"']
    names = [f'"{column.name}"' for column in features.categorical]
    sums = ", ".join(f"sum({name})" for name in numbers)
    pairs = [*combinations(numbers, 2), *((name, name) for name in numbers)]
    products = ", ".join(f"sum({a}::DOUBLE * {b}::DOUBLE)" for a, b in pairs)
    queries = [f"SELECT {sums}, {products} FROM '{path}'"]
    if names:
        sets = [f"({a}, {b})" for a, b in combinations(names, 2)] + [f"({a})" for a in names]
        queries.append(
            f"SELECT {', '.join(names)}, count(*), {sums} FROM '{path}' "
            f"GROUP BY GROUPING SETS ({', '.join(sets)})"
        )
    return lambda: [duckdb.sql(query).fetchall() for query in queries]
