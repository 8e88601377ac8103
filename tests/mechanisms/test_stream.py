"""Aggregates drawn by threads: the same bytes as one after another, and no thread left behind."""

from __future__ import annotations

import math
import threading
import time
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from labeldp import LocalEngine, Release, ReleaseError, verify
from labeldp.mechanisms import wtd_flag as run
from labeldp.mechanisms.residual_floor import AggregateLabelSampler
from labeldp.mechanisms.wtd_flag import block_rows, draw_aggregates
from labeldp.passes.engine import Progress, quiet
from labeldp.releases import tables
from labeldp.releases.tables import table_digest
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from labeldp.threads import map_in_order
from tests.mechanisms.test_release_law import Sketcher, table
from tests.plans import plan
from tests.tables import source


@cache
def sketcher() -> Sketcher:
    return Sketcher(table(400, seed=1))


def drawn(bags: int, threads: int, seed: int = 7) -> tuple[bytes, bytes]:
    made = sketcher()
    blocks = list(
        draw_aggregates(
            made.factor,
            AggregateLabelSampler(made.residual, made.grid, 1.5, True),
            bags,
            math.floor(math.log2(made.sigma)) - 10,
            Randomness.experiment(seed),
            threads,
        )
    )
    assert all(features.flags.f_contiguous for features, _ in blocks)
    features, labels = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return features.tobytes(), labels.tobytes()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_MOST_ROWS", 64)
    monkeypatch.setattr(run, "_FEWEST_ROWS", 64)


@pytest.mark.usefixtures("small_blocks")
def test_threads_change_nothing() -> None:
    one = drawn(1000, 1)
    assert all(drawn(1000, threads) == one for threads in (2, 3, 64))
    assert drawn(1000, 2, seed=8) != one


@pytest.mark.usefixtures("small_blocks")
def test_threads_change_nothing_when_every_label_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Balls have one precision for all threads, and further bits come from the block's stream."""
    means = AggregateLabelSampler.means
    monkeypatch.setattr(
        AggregateLabelSampler, "means", lambda *a: (means(*a)[0], means(*a)[1] + 1e9)
    )
    monkeypatch.setattr(rounded_noise, "_FIRST_PRECISION", 8)  # so that most need more bits
    assert drawn(80, 2) == drawn(80, 1)


@pytest.mark.usefixtures("small_blocks")
def test_the_first_block_is_that_of_a_single_stream_and_no_block_repeats() -> None:
    made = sketcher()
    features = np.frombuffer(drawn(640, 2)[0]).reshape(640, -1)
    stream = Randomness.experiment(7).features
    first = stream.standard_normal((64, made.factor.rank)) @ made.factor.root()
    assert np.allclose(features[:64], first, rtol=1e-12, atol=1e-9)
    assert len({row.tobytes() for row in features}) == 640


@given(st.integers(1, 100_000))
def test_blocks_are_bounded(columns: int) -> None:
    rows = block_rows(columns)
    assert rows & (rows - 1) == 0
    assert 1024 <= rows <= 16384
    assert rows == 1024 or rows * columns <= 2**19


# --- in order -----------------------------------------------------------------------------


def working() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("labeldp")]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_answers_come_in_order_and_few_wait(threads: int) -> None:
    made: list[int] = []

    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        made.append(item)
        return item * item

    for seen, answer in enumerate(map_in_order(work, range(40), threads)):
        assert answer == seen * seen
        assert len(made) <= seen + 1 + threads
    assert not working()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_thread_is_raised_in_its_turn_and_ends_all(threads: int) -> None:
    def work(item: int) -> int:
        if item == 5:
            raise MemoryError("block 5")
        return item

    seen = []
    with pytest.raises(MemoryError, match="block 5"):
        seen.extend(map_in_order(work, range(1000), threads))
    assert not working()


def test_leaving_early_ends_all() -> None:
    with closing(map_in_order(lambda item: item, range(10**9), 3)) as answers:
        assert [next(answers) for _ in range(4)] == [0, 1, 2, 3]
        assert working()
    assert not working()


# --- failures while a release is written --------------------------------------------------


class BrokenError(Exception):
    pass


def fail_at(count: int, problem: BaseException, then: Any) -> Any:
    calls: list[int] = []

    def outer(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == count:
            raise problem
        return then(*arguments, **options)

    return outer


BREAKS = {
    "a draw": (rounded_noise, "sample_rounded", BrokenError("in a thread")),
    "a full disk": (pq.ParquetWriter, "write_table", OSError(28, "No space left on device")),
    "an interrupt": (pq.ParquetWriter, "write_table", KeyboardInterrupt()),
    "a hash": (tables, "_hash_column", BrokenError("in a hash")),
}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("where", BREAKS)
def test_nothing_is_left_of_a_release_that_failed(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = source()
    made = plan(
        rows, epsilon=1, delta=1e-6, accountant="exact-worst-case", floor="added", bags=2000
    )
    owner, name, problem = BREAKS[where]
    monkeypatch.setattr("labeldp.releases.pending._GROUP_ROWS", 100)
    monkeypatch.setattr("labeldp.releases.pending._GROUP_NUMBERS", 100)
    monkeypatch.setattr(owner, name, fail_at(3, problem, getattr(owner, name)))
    expected = ReleaseError if isinstance(problem, OSError) else type(problem)
    with pytest.raises(expected) as error:
        made.release_to(tmp_path / "r", rows, engine=LocalEngine(threads=3))
    if expected is ReleaseError:
        assert "the disk is full" in str(error.value)
    assert list(tmp_path.iterdir()) == []
    assert not working()
    monkeypatch.undo()
    made.release_to(tmp_path / "r", rows)
    assert verify(tmp_path / "r").valid


@pytest.mark.usefixtures("small_blocks")
def test_a_release_is_the_same_file_for_any_threads(tmp_path: Path) -> None:
    """And its bar reaches the end, in the caller's thread, step by step."""
    rows = source()
    made = plan(
        rows, epsilon=1, delta=1e-6, accountant="exact-worst-case", floor="added", bags=1000
    )
    files = []
    for threads in (1, 4):
        steps: list[int] = []
        engine = LocalEngine(threads, bar(steps))
        made.release_to(
            tmp_path / str(threads), rows, engine=engine, randomness=Randomness.experiment(2)
        )
        assert (sum(steps), max(steps)) == (1000, 64)
        release = Release.load(tmp_path / str(threads))
        assert table_digest(release.table) == release.certificate["digests"]["aggregates"]
        files.append((tmp_path / str(threads) / "aggregates.parquet").read_bytes())
    assert files[0] == files[1]
    memory = made.release(rows, randomness=Randomness.experiment(2))
    assert memory.table.equals(Release.load(tmp_path / "4").table.read())
    memory.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "aggregates.parquet").read_bytes() == files[0]


def bar(steps: list[int]) -> Progress:
    """A progress that keeps the steps of the bar of aggregates, if this thread makes them."""
    mine = threading.current_thread()

    def step(rows: int) -> None:
        assert threading.current_thread() is mine
        steps.append(rows)

    return lambda task, rows: nullcontext(step) if task == "aggregates" else quiet(task, rows)


def test_a_row_group_is_worth_its_place_and_fits_memory() -> None:
    from labeldp.releases.pending import _row_groups

    def rows_of(columns: int, sizes: list[int]) -> list[int]:
        batches = (
            pa.record_batch([pa.nulls(size, pa.null())] * columns, [str(k) for k in range(columns)])
            for size in sizes
        )
        return [group.num_rows for group in _row_groups(batches, columns)]

    assert rows_of(10, [16384] * 15) == [7 * 16384, 7 * 16384, 16384]
    assert rows_of(400, [1024] * 33) == [16384, 16384, 1024]
    assert rows_of(5000, [1024] * 5) == [2048, 2048, 1024]
    assert rows_of(3, []) == []
