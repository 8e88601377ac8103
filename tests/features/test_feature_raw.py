"""Raw columns in their public form: one form for all types, and the same codes."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa

from labeldp import scan
from labeldp.features.encoder import Encoder
from labeldp.features.fit import fit_features
from labeldp.features.raw_rows import raw_columns, raw_schema
from labeldp.release.tables import table_digest

ROWS = 300


def mixed() -> pa.Table:
    rng, some = np.random.default_rng(0), range(ROWS)
    return pa.table(
        {
            "few": pa.array(rng.integers(0, 3, ROWS), pa.int8()),
            "gaps": pa.array([None if k % 7 == 0 else float(k) for k in some]),
            "text": pa.array([None if k % 9 == 0 else f"t{k % 4}é" for k in some]),
            "flag": pa.array(rng.random(ROWS) < 0.5),
            "money": pa.array([decimal.Decimal(int(k)) / 4 for k in rng.integers(0, 99, ROWS)]),
            "day": pa.array([datetime.date(2020, 1, 1 + k % 20) for k in some]),
            "codes": pa.array([float("nan") if k % 11 == 0 else k % 3 + 0.5 for k in some]),
        }
    )


def digest(batch: pa.RecordBatch) -> str:
    return table_digest(pa.Table.from_batches([batch]))


def test_raw_columns_encode_as_the_table_does() -> None:
    data = mixed()
    narrow = data.set_column(2, "text", data["text"].dictionary_encode())
    digests = set()
    for table in (data, narrow):
        rows = scan(table, categorical=["codes"], batch_rows=64)
        features = fit_features(rows)
        shown = []
        for batch in rows.feature_batches(features.columns):
            raw = raw_columns(features, batch)
            here, there = (features.integers(Encoder(features)(b)) for b in (batch, raw))
            assert np.array_equal(here, there)
            assert digest(raw_columns(features, raw)) == digest(raw)
            shown.append(raw)
        whole = pa.Table.from_batches(shown, schema=raw_schema(features))
        digests.add(table_digest(whole))
    assert len(digests) == 1
    assert whole["flag"][0].as_py() in ("true", "false")
    assert whole["codes"].null_count == len(range(0, ROWS, 11))
    assert np.isnan(whole["gaps"].to_numpy()).sum() == len(range(0, ROWS, 7))
    assert whole["day"][1].as_py() == 18263.0


def test_a_digest_covers_texts_however_they_are_cut() -> None:
    texts = pa.array(["x", None, "", "yzé", "q"])
    table = pa.table({"a": texts, "b": [1.0, 2.0, 3.0, 4.0, 5.0]})
    whole = table_digest(table)
    assert (
        table_digest(pa.concat_tables([table.slice(0, 1), table.slice(1, 3), table.slice(4)]))
        == whole
    )
    others = (["x", "", None, "yzé", "q"], ["xy", None, "", "zé", "q"], ["x", None, "", "yze", "q"])
    for other in others:
        assert table_digest(table.set_column(0, "a", pa.array(other))) != whole
