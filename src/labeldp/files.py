"""Writing so that a reader sees the old state or the new one, never a half; JSON, read strictly.

A file or directory is filled under a hidden name beside its target and renamed when complete;
a crash leaves at most the hidden one, which the next write of the same target removes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from labeldp.errors import ReleaseError

Check = Callable[[Any], bool]

__all__ = [
    "Check",
    "canonical_json",
    "check_target",
    "is_count",
    "is_flag",
    "is_number",
    "is_positive",
    "is_text",
    "is_whole",
    "json_digest",
    "list_of",
    "new_directory",
    "new_path",
    "optional",
    "parse_json",
    "read_json",
    "refuse_existing",
]


def canonical_json(value: Any) -> str:
    """The one text of a JSON value: sorted keys, no spaces, exact floats, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )


def json_digest(value: Any) -> str:
    """SHA-256 of the canonical text."""
    return hashlib.sha256(canonical_json(value).encode(errors="surrogatepass")).hexdigest()


def parse_json(text: str) -> Any:
    """Parse strictly: NaN and infinities, which Python reads as well, are no JSON."""
    return json.loads(text, parse_constant=_no_constant)


def read_json(path: Path) -> Any:
    """Parse a JSON file, or say in one line why not."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReleaseError(f"{path} is missing; check the path, or make it again") from None
    except (OSError, ValueError, RecursionError) as problem:
        raise ReleaseError(f"{path} cannot be read as JSON: {problem}") from None


def is_text(value: Any) -> bool:
    """Text. This and those below tell what a value that was read from JSON is."""
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    """True or false."""
    return isinstance(value, bool)


def is_number(value: Any) -> bool:
    """A number that is a finite double."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max


def is_positive(value: Any) -> bool:
    """A finite number above zero."""
    return is_number(value) and value > 0


def is_whole(value: Any) -> bool:
    """A whole number that is a double as well."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53


def is_count(value: Any) -> bool:
    """A whole number, zero or more."""
    return is_whole(value) and value >= 0


def list_of(check: Check) -> Check:
    """A list of what passes `check`."""
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def optional(check: Check) -> Check:
    """Null, or what passes `check`."""
    return lambda value: value is None or check(value)


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """A directory to fill; it takes its name only when the block ends without an error."""
    with _partial(target) as partial:
        partial.mkdir()
        yield partial
        for path in partial.iterdir():
            _sync(path)


@contextmanager
def new_path(target: Path) -> Iterator[Path]:
    """A file to write; it takes its name only when the block ends without an error."""
    with _partial(target) as partial:
        yield partial


def check_target(target: Path) -> None:
    """Refuse a place that cannot be written to: ask before the work, not after it."""
    refuse_existing(target)
    parent = target.absolute().parent
    if not parent.is_dir():
        raise ReleaseError(f"{parent} is not a directory; create it first")
    if not os.access(parent, os.W_OK):
        raise ReleaseError(f"{parent} is not writable; choose another place")


def refuse_existing(target: Path) -> None:
    """A release is never overwritten: it has been paid for."""
    if target.exists() or target.is_symlink():
        raise ReleaseError(f"{target} already exists; choose another name (nothing is overwritten)")


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A hidden name beside the target, renamed to it at the end or removed."""
    check_target(target)
    parent = target.absolute().parent
    _remove_orphans(parent, target.name)
    partial = parent / f".{target.name}.partial-{os.getpid()}"
    try:
        yield partial
        _sync(partial)
        refuse_existing(target)
        partial.rename(target)
        _sync(parent)
    except OSError as problem:
        raise ReleaseError(_why(target, problem)) from problem
    finally:
        _remove(partial)


def _remove_orphans(parent: Path, name: str) -> None:
    """What a dead process left; our own number is one too, as in a restarted container."""
    prefix = f".{name}.partial-"
    for orphan in parent.iterdir():
        owner = orphan.name.removeprefix(prefix)
        if orphan.name.startswith(prefix) and owner.isdigit() and not _alive(int(owner)):
            _remove(orphan)


def _alive(process: int) -> bool:
    """Whether another process has this number; yes where that cannot be known."""
    here = Path("/proc")
    return process != os.getpid() and (not here.exists() or (here / str(process)).exists())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
