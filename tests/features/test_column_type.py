"""Numbers, categories or ids: what a column is taken for, the notes on it, and declarations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp.data.source import scan
from labeldp.errors import DataError
from labeldp.features.column_stats import name_hints
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features

ROWS = 4000
RNG = np.random.default_rng(7)
MIXED = RNG.permutation(ROWS)
GAPPY = pa.array([None if k % 9 == 4 else float(10**6 + k) for k in MIXED])
MANY = 9000


def fit(columns: dict[str, Any], **scanning: Any) -> FeatureMap:
    rows = len(next(iter(columns.values())))
    return fit_features(scan(pa.table({"x": RNG.normal(size=rows), **columns}), **scanning))


def kind(name: str, values: Any, **scanning: Any) -> str:
    """What became of a column."""
    features = fit({name: values}, **scanning)
    if name in {column.name for column in features.numeric}:
        return "number"
    if name in features.columns:
        return "category"
    assert any(n.startswith(f"{name}: ") and "taken for an id" in n for n in features.notes)
    return "id"


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("customer_id", MIXED + 10**6, "id"),
        ("customer_id", GAPPY, "id"),
        ("customer_id", MIXED + 0.5, "number"),
        ("customer_id", MIXED // 4, "id"),
        ("store_id", MIXED % 30, "category"),
        ("store_id", MIXED % 40, "id"),
        ("store_id", MIXED % 5, "category"),
        ("paid", MIXED, "number"),
        ("order_no", MIXED * 7, "id"),
        ("order_no", MIXED % 900, "number"),
        ("Unnamed: 0", np.arange(ROWS), "id"),
        ("heat_index", MIXED % 50, "number"),
        ("income", MIXED * 13, "number"),
        ("zip", 10_000 + MIXED % 30, "category"),
        ("zip", 10_000 + MIXED % 2000, "number"),
        ("StoreType", MIXED % 20, "category"),
        ("class_size", MIXED % 20, "number"),
        ("type", MIXED % 20 + 0.5, "number"),
        ("reference", 2**60 + MIXED, "id"),
        ("who", [f"p{k}" for k in MIXED], "id"),
        ("who", [None if k % 3 else f"p{k}" for k in MIXED], "id"),
        ("who", [f"p{k % 30}" for k in MIXED], "category"),
        ("last_name", [f"p{k % 60}" for k in MIXED], "id"),
        ("flag", np.where(MIXED == 5, 99_999, MIXED % 200 == 0), "number"),
        ("few", np.where(MIXED == 5, 99_999, MIXED % 3), "category"),
        # More than are counted.
        ("row", RNG.permutation(MANY) + 1, "id"),
        ("row", RNG.permutation(2 * MANY)[:MANY], "id"),
        ("row", RNG.permutation(MANY) * 3, "number"),
        ("x1", RNG.permutation(MANY) + 1, "number"),
    ],
)
def test_types(name: str, values: Any, expected: str) -> None:
    assert kind(name, values) == expected


def test_what_is_declared_stays() -> None:
    ids = {"customer_id": MIXED + 10**6, "who": [f"p{k}" for k in MIXED]}
    kept = fit(ids, features=["x", "customer_id", "who"])
    assert [column.name for column in kept.numeric] == ["x", "customer_id"]
    assert not any("taken for an id" in note for note in kept.notes)
    assert kind("customer_id", MIXED, numeric=["customer_id"]) == "number"
    assert kind("zip", 10_000 + MIXED % 30, numeric=["zip"]) == "number"
    assert kind("store_id", MIXED % 30, features=["x", "store_id"]) == "category"
    with pytest.raises(DataError, match=r"beyond 2\*\*53"):
        kind("hash", 2**60 + MIXED, features=["x", "hash"])


def test_the_decision_is_noted() -> None:
    assert fit({"zip": 10_000 + MIXED % 30, "uid": MIXED}).notes == (
        "zip: 30 integer values, named like a code, treated as categorical; `numeric=['zip']` "
        "to change",
        "uid: named like an id, taken for an id and left out; `numeric=['uid']` to keep it",
    )


@pytest.mark.parametrize("batch_rows", [1, 37])
def test_batches_and_order_do_not_matter(batch_rows: int) -> None:
    data = pa.table({"row": MIXED, "zip": MIXED % 30, "who": [f"p{k}" for k in MIXED], "x": MIXED})
    data = data.slice(0, 600 if batch_rows == 1 else ROWS)
    turned = data.take(pa.array(np.argsort(data["x"].to_numpy())))
    assert fit_features(scan(turned, batch_rows=batch_rows)) == fit_features(scan(data))


@pytest.mark.parametrize(
    ("name", "surely", "maybe", "code"),
    [("id", 1, 1, 0), ("userId", 1, 1, 0), ("order_no", 0, 1, 0), ("idle", 0, 0, 0),
     ("paid", 0, 0, 0), ("ZipCode", 0, 0, 1), ("zip_code_2", 0, 0, 1), ("class size", 0, 0, 0),
     ("Region", 0, 0, 1), ("id_client", 1, 1, 0), ("", 0, 0, 0), ("2020", 0, 0, 0),
     ("E-Mail", 1, 1, 0), ("NationalID", 1, 1, 0), ("width", 0, 0, 0)],
)  # fmt: skip
def test_names(name: str, surely: int, maybe: int, code: int) -> None:
    answers = {"id": surely, "like an id": maybe, "code": code}
    assert name_hints(name) & {*answers} == {hint for hint, held in answers.items() if held}
