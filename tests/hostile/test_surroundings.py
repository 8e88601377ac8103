"""What surrounds a command: disks, caches, clocks, other users, kills, a hundred releases."""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from labeldp import verify
from labeldp.ledger import chain
from tests.cli.conftest import QUICK
from tests.console import labeldp
from tests.hostile.counting import Tried
from tests.hostile.world import LABEL, SECRET, World

PROGRAM = "from labeldp.cli import main; main()"


def command(*words: Any) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *map(str, words)]


def release(world: World, out: Path, bags: int = 40) -> list[str]:
    quick = (*QUICK[:-1], bags)
    return command(
        "release", "--anyway", world.place / "data.parquet", *LABEL, *quick, "--out", out
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KiB, where it may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk(world: World, small_disk: Path, tried: Tried) -> None:
    done = subprocess.run(
        release(world, small_disk / "r", 20_000), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2, done
    assert "the disk is full; free space and run again" in done.stderr.splitlines()[-1]
    assert not list(small_disk.iterdir())
    tried("a full disk", 1)


def test_no_home_and_no_cache(world: World, tmp_path: Path, tried: Tried) -> None:
    """Nothing but the release needs a place to write."""
    nowhere = {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "NUMBA_CACHE_DIR": "/proc/x"}
    done = subprocess.run(
        release(world, tmp_path / "r"),
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | nowhere,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    tried("no home, no cache directory", 1)


def test_clocks_that_jump(world: World, monkeypatch: pytest.MonkeyPatch, tried: Tried) -> None:
    """A ledger is a chain by its numbers, whatever the clock says."""
    years = iter([2100, 1970, 2026, 1999])

    class Clock:
        @staticmethod
        def now(zone: Any) -> datetime:
            assert zone is UTC
            return datetime(next(years), 1, 1, tzinfo=UTC)

    monkeypatch.setattr(chain, "datetime", Clock)
    book = world.place.parent / "clock"
    book.unlink(missing_ok=True)
    assert labeldp("ledger", "create", book, "--epsilon", 4).code == 0
    for _ in range(3):
        assert labeldp("ledger", "limit", book, "t", "--epsilon", 2).code == 0
    assert labeldp("ledger", "show", book).code == 0
    tried("a clock that jumps", 4)


def test_what_a_second_user_may_read(world: World, tried: Tried) -> None:
    """Private things are for their owner alone; releases and plans are as other files are."""
    private = {"key", "ledger"}
    plain = world.place / "data.csv"
    for path in world.place.rglob("*"):
        if path.is_file():
            others = stat.S_IMODE(path.stat().st_mode) & 0o077
            usual = stat.S_IMODE(plain.stat().st_mode) & 0o077
            assert others == (0 if path.name in private else usual), path
            tried("modes of files", 1)


@pytest.mark.hostile
def test_killed_at_random_moments(world: World, tmp_path: Path, tried: Tried) -> None:
    """The target is absent or whole; what is left is its owner's, holds no label, and goes."""
    seed = random.SystemRandom().randrange(10**9)
    print(f"kills with seed {seed}")
    draw, kills = random.Random(seed), 0
    for number in range(30):
        out = tmp_path / str(number) / "r"
        out.parent.mkdir()
        process = subprocess.Popen(
            release(world, out, 50_000), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        time.sleep(draw.uniform(0.2, 1.5))
        process.send_signal(draw.choice((signal.SIGKILL, signal.SIGTERM)))
        said = process.communicate(timeout=120)[1].decode()
        kills += process.returncode not in (0, 1)
        assert "Traceback" not in said, (seed, number, said)
        assert SECRET not in said
        left = [path for path in out.parent.iterdir() if path != out]
        assert not left or process.returncode == -signal.SIGKILL, (seed, left)
        assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in left)
        assert not out.exists() or verify(out).valid
    assert kills > 3
    tried("killed at a random moment", kills)


@pytest.mark.hostile
def test_a_hundred_releases_in_one_process(world: World, tmp_path: Path, tried: Tried) -> None:
    """Memory, open files and threads stay as they are after the first twenty."""
    sizes = []
    for number in range(100):
        at = world.place / "data.parquet"
        out = tmp_path / str(number)
        assert labeldp("release", "--anyway", at, *LABEL, *QUICK, "--out", out).code == 0
        if number in (20, 99):
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            files = len(os.listdir("/proc/self/fd"))
            sizes.append((pages * resource.getpagesize() >> 20, files))
    (before, files), (after, more) = sizes
    assert after - before < 40, sizes
    assert more <= files + 2, sizes
    tried("releases in one process, no growth", 100)
