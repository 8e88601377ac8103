"""Naive LAg and FLAg: plain sums over bags. Never private; kept as the warning example.

Each bag's labels are summed without weights or noise, so whoever knows all labels of a bag but
one knows that one too: `recover`. No ε holds, and δ is at least the chance mk/n that a row is in
a bag (theory §4). These sums pass no sampler and carry no certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp import InputError
from labeldp.data.source import Source
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import new_directory
from labeldp.mechanisms.bags import BAGS, BagRows, Draw
from labeldp.mechanisms.design_summary import summarize_design
from labeldp.mechanisms.options import Encoding
from labeldp.passes.engine import Engine
from labeldp.releases.files import WARNING
from labeldp.releases.pending import AGGREGATES, FEATURES, features_text, label_column
from labeldp.spark.engine import engine_for

NAIVE_FLAG, NAIVE_LAG = NAIVE = "naive-flag", "naive-lag"
_TEXT = (
    "NOT PRIVATE. These are plain sums of labels over bags, made on request to show why weights "
    "and noise are needed.\nWhoever knows all labels of a bag but one can compute the last one "
    "exactly. There is no certificate, and there can be none. Do not publish.\n"
)


@dataclass(frozen=True)
class NaiveSums:
    """Plain sums over bags: a function of raw labels, so not public."""

    table: pa.Table
    bag_table: pa.Table
    features: FeatureMap

    def __repr__(self) -> str:
        return "NaiveSums(not private)"

    @property
    def labels(self) -> NDArray[np.float64]:
        """Σ y of every bag."""
        return np.asarray(self.table.column(self.table.num_columns - 1))

    def save(self, directory: str | Path) -> None:
        """Write the sums with a warning in place of a certificate."""
        with new_directory(Path(directory)) as partial:
            (partial / WARNING).write_text(_TEXT, encoding="utf-8")
            (partial / FEATURES).write_text(features_text(self.features), encoding="utf-8")
            stamp = {b"labeldp.warning": _TEXT.encode()}
            pq.write_table(self.table.replace_schema_metadata(stamp), partial / AGGREGATES)
            pq.write_table(self.bag_table.replace_schema_metadata(stamp), partial / BAGS)


def naive_sums(
    source: Source,
    *,
    mechanism: str,
    bags: int,
    bag_size: int,
    not_private: bool,
    bag_seed: int | None = None,
    encoding: Encoding | None = None,
    engine: Engine | None = None,
) -> NaiveSums:
    """Sum labels (naive-lag), or labels and features (naive-flag), over random bags."""
    if mechanism not in NAIVE:
        raise InputError(f"mechanism {mechanism!r} is not naive; choose {' or '.join(NAIVE)}")
    if not not_private:
        raise InputError(
            f"{mechanism} is never private: it publishes plain sums of labels; "
            "use wtd-flag, or say `not_private=True` if this is a demonstration"
        )
    if source.reader.on_cluster:
        raise InputError("bags name rows by number; read the table without Spark, which has none")
    engine = engine or engine_for(source)
    found = summarize_design(source, engine=engine, encoding=encoding or Encoding(winsor=0))
    draw = Draw.new(found.facts.rows, bags, bag_size, over_draw=False, seed=bag_seed)
    rows = BagRows(found.features, draw)
    labels = rows.read_labelled(source, engine).sum(axis=1)
    columns = {}
    if mechanism == NAIVE_FLAG:
        scales = found.features.kept_scales
        sums = scales * np.concatenate(
            [
                found.features.integers(block).reshape(-1, bag_size, len(scales)).sum(axis=1)
                for _, block in rows.blocks()
            ]
        )
        columns = dict(zip(found.features.names, sums.T, strict=True))
    table = pa.table({**columns, label_column(source.label or "label"): labels})
    return NaiveSums(table, draw.table(), found.features)


def recover(total: float, known: NDArray[np.float64]) -> float:
    """The differencing attack: a bag's last label, from its sum and all the others."""
    return float(total - known.sum())
