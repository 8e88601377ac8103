"""Writing so that a reader sees the old state or the new one, never a half.

A directory is filled under a hidden name beside its target and renamed when complete;
a crash leaves at most the hidden one, which the next write of the same target removes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labeldp.errors import ReleaseError


def canonical_json(value: Any) -> str:
    """The one text of a JSON value: sorted keys, no spaces, exact floats, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )


def json_digest(value: Any) -> str:
    """SHA-256 of the canonical text."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def read_json(path: Path) -> Any:
    """Parse a JSON file, or say in one line why not."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReleaseError(f"{path} is missing; the release is incomplete") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise ReleaseError(f"{path} cannot be read as JSON: {problem}") from None


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """A directory to fill; it takes its name only when the block ends without an error."""
    refuse_existing(target)
    parent = target.absolute().parent
    if not parent.is_dir():
        raise ReleaseError(f"{parent} is not a directory; create it first")
    _remove_orphans(parent, target.name)
    partial = parent / f".{target.name}.partial-{os.getpid()}"
    try:
        partial.mkdir()
        yield partial
        for path in partial.iterdir():
            _sync(path)
        _sync(partial)
        refuse_existing(target)
        partial.rename(target)
        _sync(parent)
    except OSError as problem:
        raise ReleaseError(_why(target, problem)) from problem
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def refuse_existing(target: Path) -> None:
    """A release is never overwritten: it has been paid for."""
    if target.exists() or target.is_symlink():
        raise ReleaseError(f"{target} already exists; choose another name (nothing is overwritten)")


def _remove_orphans(parent: Path, name: str) -> None:
    for orphan in parent.glob(f".{name}.partial-*"):
        owner = orphan.name.rpartition("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc").exists():
            shutil.rmtree(orphan, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _why(target: Path, problem: OSError) -> str:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{target} was not written: the disk is full; free space and run again"
    return f"{target} was not written: {problem.strerror or problem}"


@contextmanager
def new_path(path: Path) -> Iterator[Path]:
    """A file to write; it takes its name only when the block ends without an error."""
    refuse_existing(path)
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        yield partial
        _sync(partial)
        partial.rename(path)
    except OSError as problem:
        raise ReleaseError(_why(path, problem)) from problem
    finally:
        partial.unlink(missing_ok=True)
