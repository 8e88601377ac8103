"""`release` and `report`: what takes several calls, in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import InputError, Ledger, ReleaseError, verify
from labeldp.sampling.streams import Randomness
from tests.tables import RANGE, table

ROWS = 2000
SAID: dict[str, Any] = {"label": "label", "label_range": RANGE, "epsilon": 20}


def test_a_release_is_that_of_its_plan() -> None:
    options: dict[str, Any] = {"mechanism": "shaped-flag", "residual_share": 0.2}
    ours = labeldp.release(
        table(ROWS), **SAID, **options, drop=["town"], randomness=Randomness.experiment(0)
    )
    source = labeldp.scan(table(ROWS), label="label", label_range=RANGE, drop=["town"])
    theirs = labeldp.plan(source, 20, **options).release(
        source, randomness=Randomness.experiment(0)
    )
    assert np.array_equal(ours.labels, theirs.labels)
    assert ours.certificate == theirs.certificate


@pytest.mark.parametrize("kind", ["path", "pandas", "stream", "source", "formula"])
def test_tables_in_memory_and_on_disk_are_taken_alike(kind: str, tmp_path: Path) -> None:
    rows = table(ROWS)
    pq.write_table(rows, tmp_path / "rows.parquet")
    frames: dict[str, Any] = {
        "path": tmp_path / "rows.parquet",
        "pandas": rows.to_pandas(),
        "stream": pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()),
        "source": labeldp.scan(rows, label="label", label_range=RANGE),
        "formula": rows,
    }
    said = {"epsilon": 20} if kind == "source" else dict(SAID)
    if kind == "formula":
        said = SAID | {"formula": "label ~ height + town"}
        del said["label"]
    release = labeldp.release(frames[kind], **said)
    assert verify(release, rows).valid
    assert release.features.rows == ROWS


def test_it_writes_a_directory_and_keeps_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", epsilon=30, delta=1e-5)
    options: dict[str, Any] = {"ledger": ledger, "dataset": "people", "about": {"name": "People"}}
    release = labeldp.release(table(ROWS), **SAID, out=tmp_path / "published", **options)
    assert verify(tmp_path / "published", table(ROWS)).valid
    assert release.certificate["ledger"]["releases"] == 1
    assert release.certificate["about"]["name"] == "People"


def test_mistakes_are_refused_before_labels_are_read(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="already exists"):
        labeldp.release("nowhere.parquet", out=tmp_path)
    with pytest.raises(InputError, match="name it with `label`"):
        labeldp.release(table(ROWS))
    with pytest.raises(InputError, match="did you mean `residual_share`"):
        labeldp.release(table(ROWS), **SAID, residual_shar=0.2)


def test_a_report_is_written_of_all_that_has_one(tmp_path: Path) -> None:
    planned = labeldp.plan(table(ROWS), **SAID)
    release = labeldp.release(table(ROWS), **SAID, out=tmp_path / "published")
    in_memory = labeldp.release(table(ROWS), **SAID)
    pages = []
    for place, subject in enumerate((planned, release, tmp_path / "published", in_memory)):
        labeldp.report(subject, tmp_path / f"{place}.html")
        pages.append((tmp_path / f"{place}.html").read_text(encoding="utf-8"))
        assert "<html" in pages[-1]
    assert pages[1] == pages[2]
    assert "published" in pages[1]
    assert len(set(pages)) == 3
    with pytest.raises(ReleaseError, match="already exists"):
        labeldp.report(planned, tmp_path / "0.html")
    with pytest.raises(InputError, match="`subject`"):
        labeldp.report(3, tmp_path / "new.html")  # type: ignore[arg-type]


def test_a_release_that_does_not_verify_has_no_report(tmp_path: Path) -> None:
    release = labeldp.release(table(ROWS), **SAID)
    release.certificate["epsilon"] = 0.5
    with pytest.raises(ReleaseError, match="does not verify"):
        labeldp.report(release, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
