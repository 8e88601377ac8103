"""A release directory appears whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import LabelDPWarning, Release, ReleaseError, verify
from labeldp.io_util import canonical_json, json_digest, new_directory, new_path, read_json
from labeldp.releases.tables import StoredTable, table_digest
from tests.plans import plan
from tests.tables import source, table

START = "from labeldp.cli import main; main()"
REQUEST = ("--mechanism", "wtd-flag", "--anyway",
    "--label", "label", "--label-range", "0", "10", "--floor", "added",
)  # fmt: skip


@pytest.fixture(scope="module")
def release() -> Release:
    rows = source()
    made = plan(rows, epsilon=1, delta=1e-6, accountant="exact-worst-case", floor="added", bags=40)
    return made.release(rows)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory to write in."""
    made = tmp_path / "place"
    made.mkdir()
    return made


def names(place: Path) -> list[str]:
    """Everything in a directory, hidden or not."""
    return sorted(os.listdir(place))


# --- the writer ---------------------------------------------------------------------------


def fill(partial: Path) -> None:
    (partial / "x" if partial.is_dir() else partial).write_text("half")


@pytest.mark.parametrize("writer", [new_directory, new_path])
def test_a_failure_inside_leaves_nothing(writer: Any, place: Path) -> None:
    def fail() -> None:
        with writer(place / "r") as partial:
            fill(partial)
            assert names(place) == [partial.name]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert names(place) == []


@pytest.mark.parametrize("writer", [new_directory, new_path])
def test_the_target_may_not_appear_meanwhile(writer: Any, place: Path) -> None:
    """Two writers of one name: the first to finish has it, the second is told."""

    def meet() -> None:
        with writer(place / "r") as partial:
            fill(partial)
            (place / "r").write_text("first")

    with pytest.raises(ReleaseError, match="already exists"):
        meet()
    assert names(place) == ["r"]
    assert (place / "r").read_text() == "first"


def test_orphans_of_dead_processes_are_removed_and_others_left(place: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    parent = os.getppid()
    for number in (dead.pid, os.getpid(), parent):
        folder = place / f".a[b]*.partial-{number}"
        folder.mkdir()
        (folder / "half").write_text("half")
    (place / f".file.partial-{dead.pid}").write_text("half")
    kept = (f".a[b]*.partial-{parent}", ".a[b]*.partial-mine", f".other.partial-{dead.pid}")
    for name in kept[1:]:
        (place / name).mkdir()
    with new_directory(place / "a[b]*") as partial:
        (partial / "whole").write_text("whole")
    with new_path(place / "file") as partial:
        partial.write_text("whole")
    assert names(place) == sorted([*kept, "a[b]*", "file"])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("writer", [new_directory, new_path])
def test_what_is_not_whole_is_for_its_owner_alone(writer: Any, place: Path) -> None:
    """A killed run leaves what it drew, so nobody else may ever have been able to read it."""
    (place / "usual").mkdir() if writer is new_directory else (place / "usual").touch()
    with writer(place / "r") as partial:
        assert mode(partial) & 0o077 == 0
        fill(partial)
        assert mode(partial) & 0o077 == 0
    assert mode(place / "r") == mode(place / "usual")


def test_a_private_file_stays_private(place: Path) -> None:
    with new_path(place / "r", private=True) as partial:
        fill(partial)
    assert mode(place / "r") == 0o600


def test_what_a_killed_run_left_is_said(place: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    mine, other = place / f".r.partial-{dead.pid}", place / f".other.partial-{dead.pid}"
    mine.mkdir()
    other.mkdir()
    with pytest.warns(LabelDPWarning) as said, new_directory(place / "r"):
        pass
    told = sorted(str(each.message) for each in said)
    assert told == [
        f"{other} was left by a run that was killed; remove it: what was drawn is in it",
        f"removed {mine}, which a run that was killed had left",
    ]
    assert names(place) == [other.name, "r"]


def test_a_place_without_permission_is_refused(place: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    place.chmod(0o500)
    with pytest.raises(ReleaseError, match="not writable"), new_directory(place / "r"):
        pass


def test_a_relative_name_and_a_deep_one(
    release: Release, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    release.save("r")
    assert verify("r").valid
    (place / "year=2024").mkdir()
    release.save(place / "year=2024" / "r")
    assert verify(place / "year=2024" / "r").valid


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{", "", "9" * 5000, "[" * 100_000, "\xff"])
def test_what_is_not_json_is_refused_in_one_line(place: Path, text: str) -> None:
    (place / "x.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ReleaseError, match=r"x\.json cannot be read as JSON") as error:
        read_json(place / "x.json")
    assert "\n" not in str(error.value)


def test_digests_depend_on_the_value_alone() -> None:
    assert json_digest({"a": 1, "b": [0.1, "é"]}) == json_digest({"b": [0.1, "é"], "a": 1})
    assert json_digest({"a": 1}) != json_digest({"a": 1.0})
    assert json_digest("\ud800") != json_digest("\ud801")
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(float("nan"))


def test_what_is_saved_is_what_is_loaded(release: Release, place: Path) -> None:
    release.save(place / "r")
    loaded = Release.load(place / "r")
    assert loaded.certificate == release.certificate
    assert loaded.features == release.features
    assert loaded.table.read().equals(release.table)
    loaded.save(place / "again")
    for name in ("certificate.json", "features.json", "aggregates.parquet"):
        assert (place / "r" / name).read_bytes() == (place / "again" / name).read_bytes()


def test_some_columns_of_a_stored_table(tmp_path: Path) -> None:
    """Dots in names are dots, and not paths into nested columns."""
    rows = pa.table({"x": [1.0, 2.0], "x.y": [3.0, 4.0], "label:x": [5.0, 6.0]})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=1)
    stored = StoredTable.open(tmp_path / "t.parquet")
    for names in (["label:x"], ["x"], ["x.y", "x"], ["x", "x.y", "label:x"]):
        chosen = stored.select(names)
        assert chosen.column_names == names
        assert pa.Table.from_batches(chosen.to_batches()).equals(rows.select(names))
    assert pa.Table.from_batches(stored.to_batches()).equals(rows)


# --- crashes ------------------------------------------------------------------------------

MOMENTS = {
    "the directory is made": ("pathlib.Path", "write_text", 1, "before"),
    "the certificate is half written": ("pathlib.Path", "write_text", 1, "half"),
    "the certificate is written": ("pathlib.Path", "write_text", 1, "after"),
    "the feature map is written": ("pathlib.Path", "write_text", 2, "after"),
    "the aggregates are half written": (
        "labeldp.releases.pending.pq.ParquetWriter",
        "write_table",
        1,
        "after",
    ),
    "the aggregates are written": (
        "labeldp.releases.pending.pq.ParquetWriter",
        "close",
        1,
        "after",
    ),
    "one file is on the disk": ("labeldp.io_util", "_sync", 1, "after"),
    "every file is on the disk": ("labeldp.io_util", "_sync", 4, "after"),
    "it is about to be renamed": ("pathlib.Path", "rename", 1, "before"),
    "it has just been renamed": ("pathlib.Path", "rename", 1, "after"),
}

CRASH = """
import os, pathlib, pkgutil, signal, sys
from labeldp.releases.files import Release

def crash(owner, name, count, when, release, target):
    owner = pkgutil.resolve_name(owner.replace(".Path", ":Path"))
    inner, calls = getattr(owner, name), []
    def outer(*arguments, **options):
        calls.append(1)
        if len(calls) == count and when == "half":
            arguments[0].write_bytes(b"half of a file")
        if len(calls) == count and when != "after":
            os.kill(os.getpid(), signal.SIGKILL)
        result = inner(*arguments, **options)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, outer)
    Release.load(release, verify=False).save(target)

release, moments = sys.argv[1], eval(sys.argv[2])
for target, moment in moments.items():
    child = os.fork()
    if child == 0:
        crash(*moment, release, target)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, moment
"""


def test_killed_at_every_moment(release: Release, tmp_path: Path) -> None:
    """After kill -9 the target does not exist or is whole; the next write cleans up."""
    release.save(tmp_path / "good")
    places = {moment: tmp_path / str(k) for k, moment in enumerate(MOMENTS)}
    for place in places.values():
        place.mkdir()
    plans = {str(places[moment] / "r"): how for moment, how in MOMENTS.items()}
    subprocess.run(
        [sys.executable, "-c", CRASH, str(tmp_path / "good"), repr(plans)], check=True, timeout=60
    )
    for moment, place in places.items():
        done = moment == "it has just been renamed"
        left = names(place)
        assert len(left) == 1, moment
        assert (left == ["r"]) is done, moment
        if done:
            assert verify(place / "r").valid
        else:
            release.save(place / "r")
            assert names(place) == ["r"], f"{moment}: the orphan is gone"
            assert table_digest(Release.load(place / "r").table) == table_digest(release.table)


# --- a full disk --------------------------------------------------------------------------


def limited(size: int) -> Any:
    """Let no file grow beyond `size` bytes, with an error and not a signal."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


LIMITED = "was not written: a file would be larger than this process may write; raise the limit"


def test_a_limit_of_file_sizes(tmp_path: Path, place: Path) -> None:
    """Whichever file no longer fits: exit code 2, one line, nothing left."""
    pq.write_table(table(), tmp_path / "t.parquet")
    request = ("release", str(tmp_path / "t.parquet"), *REQUEST, "--out", str(place / "r"))
    for bags, size in (("40", 100), ("5000", 20_000)):  # the certificate; the aggregates
        result = subprocess.run(
            [sys.executable, "-c", START, *request, "--bags", bags],
            preexec_fn=limited(size),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (result.returncode, result.stdout) == (2, "")
        *warnings, last = result.stderr.splitlines()
        assert all(line.startswith("WARNING: privacy adds") for line in warnings)
        assert last == f"labeldp: {place / 'r'} {LIMITED} (ulimit -f) and run again"
        assert names(place) == []
