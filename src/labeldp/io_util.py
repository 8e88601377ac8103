"""Writing so that a reader sees the old state or the new one, never a half; JSON, read strictly.

A file or directory is filled under a hidden name beside its target, for its owner alone, and is
renamed when complete; a crash leaves at most the hidden one, which the next write of the same
target removes. What other targets left in the same place is named, not touched.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from labeldp.errors import LabelDPWarning, ReleaseError

Check = Callable[[Any], bool]
_LONGEST_NAME = 220
"""Of a new file: its hidden name is longer, and most disks take 255 bytes."""

__all__ = [
    "Check",
    "canonical_json",
    "check_regular_file",
    "check_target",
    "is_count",
    "is_directory",
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
    "path_problem",
    "read_json",
    "read_small",
    "refuse_existing",
    "written",
]

_HALF = re.compile(r"\..+\.partial-(\d+)", re.DOTALL)
"""Hidden names and the process that each belongs to."""
_OTHERS = 0o077
_SMALL = 1 << 20

written: list[Path] = []
"""Targets that took their names in this process: what a command that is stopped has done."""


def canonical_json(value: Any) -> str:
    """The one text of a JSON value: sorted keys, no spaces, exact floats, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )


def json_digest(value: Any) -> str:
    """SHA-256 of the canonical text."""
    return hashlib.sha256(canonical_json(value).encode(errors="surrogatepass")).hexdigest()


def parse_json(text: str) -> Any:
    """Parse strictly: no NaN, no number beyond doubles, no name twice in an object."""
    return json.loads(
        text,
        parse_constant=_no_constant,
        parse_float=_finite(float),
        parse_int=_finite(int),
        object_pairs_hook=_once,
    )


def path_problem(path: Path) -> str | None:
    """Why a path cannot be used, if so; one that is not there can.

    Only ordinary files are opened, since a pipe or a device may never end; and Arrow opens only
    names that are UTF-8.
    """
    try:
        str(path).encode()
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeEncodeError:
        return "the path is not UTF-8 text; rename it"
    except ValueError:
        return "the path holds a zero byte; correct it"
    except OSError as problem:
        return f"{(problem.strerror or 'it cannot be opened').lower()}; give another path"
    ordinary = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return None if ordinary else "it is a pipe or a device; give an ordinary file"


def is_directory(path: Path) -> bool:
    """Whether it is one; a name that no file can have is none (`Path.is_dir` raises)."""
    return os.path.isdir(path)


def check_regular_file(path: Path) -> None:
    """Refuse a missing file of a release, and anything but a file: a link, a pipe, a device."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        raise ReleaseError(f"{path} is missing; the release is incomplete") from None
    if not stat.S_ISREG(mode):
        raise ReleaseError(f"{path} is no ordinary file; restore the original one")


def read_json(path: Path, most: int | None = None) -> Any:
    """Parse a JSON file, of at most so many bytes, or say in one line why not."""
    reason = path_problem(path)
    if reason is not None:
        raise ReleaseError(f"{path}: {reason}")
    try:
        if most is not None and path.stat().st_size > most:
            raise ValueError(f"it has more than {most:,} bytes")
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReleaseError(f"{path} is missing; check the path, or make it again") from None
    except OSError as problem:
        raise ReleaseError(f"{path} cannot be read: {problem.strerror}; check the path") from None
    except (ValueError, RecursionError) as problem:
        raise ReleaseError(f"{path} cannot be read as JSON: {problem}") from None


def read_small(path: Path) -> bytes:
    """A file of a page or two, such as a key; one line if it is no such file."""
    reason = path_problem(path)
    try:
        if reason is not None:
            raise ReleaseError(f"{path}: {reason}")
        if path.stat().st_size > _SMALL:
            raise ReleaseError(f"{path} has more than {_SMALL:,} bytes; give another file")
        return path.read_bytes()
    except OSError as problem:
        raise ReleaseError(f"{path} cannot be read: {problem.strerror}; check the path") from None


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
        with _hidden(partial):
            yield partial
            for path in partial.iterdir():
                _sync(path)


@contextmanager
def new_path(target: Path, *, private: bool = False) -> Iterator[Path]:
    """A file to write; it takes its name only when the block ends without an error.

    Its owner alone reads it until then and, if it is `private`, ever after.
    """
    with _partial(target) as partial:
        partial.touch()
        with _hidden(partial, private):
            yield partial


@contextmanager
def _hidden(partial: Path, private: bool = False) -> Iterator[None]:
    """What is not whole is nobody else's to read; the mode that is usual here comes at the end."""
    usual = stat.S_IMODE(partial.stat().st_mode)
    partial.chmod(usual & ~_OTHERS)
    yield
    if not private:
        partial.chmod(usual)


def check_target(target: Path) -> None:
    """Refuse a place that cannot be written to: ask before the work, not after it."""
    reason = path_problem(target.parent)
    if reason is None and len(os.fsencode(target.name)) > _LONGEST_NAME:
        reason = f"the name has more than {_LONGEST_NAME} bytes; choose a shorter one"
    if reason is not None:
        raise ReleaseError(f"{target}: {reason}")
    refuse_existing(target)
    if (reason := path_problem(target)) is not None:
        raise ReleaseError(f"{target}: {reason}")
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
        written.append(target)  # whoever is told of it looks whether it is there
        partial.rename(target)
        _sync(parent)
    except OSError as problem:
        raise ReleaseError(_why(target, problem)) from problem
    finally:
        _remove(partial)


def _remove_orphans(parent: Path, name: str) -> None:
    """What a dead process left; our own number is one too, as in a restarted container."""
    for orphan in parent.iterdir():
        half = _HALF.fullmatch(orphan.name)
        if half is None or _alive(int(half[1])):
            continue
        if orphan.name.startswith(f".{name}.partial-"):
            _remove(orphan)
            warnings.warn(
                f"removed {orphan}, which a run that was killed had left", LabelDPWarning, 6
            )
        else:
            warnings.warn(
                f"{orphan} was left by a run that was killed; remove it: what was drawn is in it",
                LabelDPWarning,
                6,
            )


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
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{target} was not written: the disk is full; free space and run again"
    if problem.errno == errno.EFBIG:
        return (
            f"{target} was not written: a file would be larger than this process may write; raise "
            "the limit (ulimit -f) and run again"
        )
    return f"{target} was not written: {problem.strerror or problem}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader of numbers that refuses those which are no doubles."""

    def number(text: str) -> Any:
        value = read(text)
        if abs(value) > sys.float_info.max:
            raise ValueError(f"{text[:20]}{'…' * (len(text) > 20)} is beyond all doubles")
        return value

    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; parsers take the last of two equal names, people read the first."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("an object has a name twice")
    return found
