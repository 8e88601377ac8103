"""Atomic files and directories, strict JSON and its schemas, checks of paths.

A file or directory is written under a hidden name beside its target, readable by its owner only,
and renamed when it is complete. A crash leaves at most the hidden one; the next write of the same
target removes it. Hidden ones of other targets in the same directory are named in a warning, not
removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import shutil
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from labeldp.errors import LabelDPWarning, ReleaseError

if TYPE_CHECKING:
    from jsonschema import ValidationError

_LONGEST_NAME = 220
"""Bytes; the hidden name is longer, and most file systems allow 255."""
_PARTIAL_NAME = re.compile(r"\..+\.partial-(\d+)", re.DOTALL)
"""A hidden name and the id of the process that wrote it."""
_SMALL_FILE = 1 << 20
_WRITE_ERRORS = {
    errno.ENOSPC: "the disk is full; free space and run again",
    errno.EDQUOT: "the disk is full; free space and run again",
    errno.EFBIG: "a file would be larger than this process may write; raise the limit (ulimit -f) "
    "and run again",
}

written: list[Path] = []
"""Targets written by this process; a command that is stopped reports them."""


def canonical_json(value: Any) -> str:
    """Return the canonical text of a JSON value: sorted keys, no spaces, exact floats, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )


def json_digest(value: Any) -> str:
    """Return the SHA-256 of the canonical text."""
    return hashlib.sha256(canonical_json(value).encode(errors="surrogatepass")).hexdigest()


def parse_json(text: str) -> Any:
    """Parse JSON strictly: no NaN, no number beyond doubles, no repeated name in an object."""

    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    def in_doubles(value: float, text: str) -> float:
        if abs(value) > sys.float_info.max:
            raise ValueError(f"{text[:20]}{'…' * (len(text) > 20)} is beyond all doubles")
        return value

    def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # Parsers take the last of two values of one name, people read the first.
        if len(document := dict(pairs)) < len(pairs):
            raise ValueError("an object has a name twice")
        return document

    return json.loads(
        text,
        parse_constant=constant,
        parse_float=lambda text: in_doubles(float(text), text),
        parse_int=lambda text: in_doubles(int(text), text),
        object_pairs_hook=unique_names,
    )


def path_problem(path: Path) -> str | None:
    """Return why a path cannot be used, or None; a path that does not exist can be used.

    Only ordinary files are opened, because a pipe or a device may never end, and only names in
    UTF-8, because Arrow opens no others.
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


def check_regular_file(path: Path) -> None:
    """Refuse a missing file of a release, and anything but a file: a link, a pipe, a device."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        raise ReleaseError(f"{path} is missing; the release is incomplete") from None
    if not stat.S_ISREG(mode):
        raise ReleaseError(f"{path} is no ordinary file; restore the original one")


def read_json(path: Path, most: float = math.inf) -> Any:
    """Parse a JSON file of at most `most` bytes; raise a ReleaseError of one line if that fails."""
    content = read_bytes(path, most)
    try:
        return parse_json(content.decode())
    except (ValueError, RecursionError) as problem:
        raise ReleaseError(f"{path} cannot be read as JSON: {problem}") from None


def read_bytes(path: Path, most: float = _SMALL_FILE) -> bytes:
    """Return a file of at most `most` bytes; raise a ReleaseError of one line if that fails."""
    reason = path_problem(path)
    if reason is not None:
        raise ReleaseError(f"{path}: {reason}")
    try:
        if path.stat().st_size > most:
            raise ReleaseError(f"{path} has more than {most:,} bytes; give another file")
        return path.read_bytes()
    except FileNotFoundError:
        raise ReleaseError(f"{path} is missing; check the path, or make it again") from None
    except OSError as problem:
        raise ReleaseError(f"{path} cannot be read: {problem.strerror}; check the path") from None


def schema_errors(schema: dict[str, Any], document: Any) -> Iterator[ValidationError]:
    """Yield where a document breaks a JSON schema.

    Three rules are stricter than JSON Schema: a number is a finite double, 60.0 is not an integer,
    and a pattern must match the whole text.
    """
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    def whole_match(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
        # `re.search` with $ would allow a line end after the text
        if isinstance(value, str) and not re.fullmatch(pattern, value):
            yield ValidationError(f"{value!r} does not match {pattern!r}")

    def is_integer(_: Any, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def is_number(_: Any, value: Any) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and abs(value) <= sys.float_info.max

    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": is_integer, "number": is_number}
    )
    strict = extend(Draft202012Validator, {"pattern": whole_match}, type_checker=types)
    yield from strict(schema).iter_errors(document)


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield a directory to fill; it gets its name only if the block ends without an error."""
    with _partial(target, Path.mkdir) as partial:
        yield partial
        for path in partial.iterdir():
            _sync(path)


@contextmanager
def new_path(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a file to write; it gets its name only if the block ends without an error.

    Until then only its owner can read it; if it is `private`, afterwards too.
    """
    with _partial(target, Path.touch, private) as partial:
        yield partial


@contextmanager
def _partial(target: Path, create: Callable[[Path], None], private: bool = False) -> Iterator[Path]:
    """Yield a hidden path beside the target, which is renamed at the end or removed on error."""
    check_target(target)
    parent = target.absolute().parent
    _remove_orphans(parent, target.name)
    partial = parent / f".{target.name}.partial-{os.getpid()}"
    try:
        create(partial)
        mode = stat.S_IMODE(partial.stat().st_mode)
        partial.chmod(mode & 0o700)
        yield partial
        if not private:
            partial.chmod(mode)
        _sync(partial)
        refuse_existing(target)
        written.append(target)  # readers check that it exists
        partial.rename(target)
        _sync(parent)
    except OSError as problem:
        reason = _WRITE_ERRORS.get(problem.errno or 0) or problem.strerror or str(problem)
        raise ReleaseError(f"{target} was not written: {reason}") from problem
    finally:
        _remove(partial)


def check_target(target: Path) -> None:
    """Refuse a target that cannot be written; call it before the work, not after it."""
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
    """Refuse to overwrite anything: a release has cost privacy budget."""
    if target.exists() or target.is_symlink():
        raise ReleaseError(f"{target} already exists; choose another name (nothing is overwritten)")


def _remove_orphans(parent: Path, name: str) -> None:
    """Remove what a dead process left of this target; warn of what it left of others."""
    processes = Path("/proc")
    for orphan in parent.iterdir():
        match = _PARTIAL_NAME.fullmatch(orphan.name)
        if match is None:
            continue
        # Our own id counts as dead, as in a restarted container. Without /proc nobody does.
        own = int(match[1]) == os.getpid()
        if not own and (not processes.exists() or (processes / match[1]).exists()):
            continue
        text = f"{orphan} was left by a run that was killed; remove it: what was drawn is in it"
        if orphan.name.startswith(f".{name}.partial-"):
            _remove(orphan)
            text = f"removed {orphan}, which a run that was killed had left"
        warnings.warn(text, LabelDPWarning, 6)


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
