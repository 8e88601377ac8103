"""Bytes of a file in whole lines, and refusals that say where in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar, cast

import pyarrow as pa

from labeldp.errors import DataError

T = TypeVar("T")
Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""progress(task, size or None) opens a bar; what it yields is told of what is done."""

_BLOCK = 1 << 24
_LONGEST_LINE = 1 << 20
_GZIP = b"\x1f\x8b"


def nothing(_count: int) -> None:
    """A follower who does not care."""


def quiet(_task: str, _size: int | None) -> AbstractContextManager[Callable[[int], None]]:
    """No progress bar."""
    return nullcontext(nothing)


@dataclass
class Watch:
    """What a pass tells whoever follows it: bytes read as it goes, rows left out in the end."""

    advance: Callable[[int], None] = nothing
    dropped: int = 0


@dataclass(frozen=True)
class Opened:
    """A file being read, unzipped on the way."""

    stream: pa.NativeFile
    place: Callable[[], int]
    """How far the file itself, zipped or not, has been read."""


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open a file for reading; gzip is known by its first bytes, not by the name."""
    with _explained(path), pa.OSFile(str(path)) as raw:
        zipped = raw.read(2) == _GZIP
        raw.seek(0)
        if not zipped:
            yield Opened(raw, raw.tell)
            return
        with pa.CompressedInputStream(raw, "gzip") as stream:
            yield Opened(stream, raw.tell)


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items, the next one already being made by another thread."""
    with ThreadPoolExecutor(1) as pool:
        end = object()
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield cast(T, item)


def line_blocks(path: Path, watch: Watch) -> Iterator[bytes]:
    """Yield the bytes of whole lines, many at a time."""
    empty, rest, done = True, b"", 0
    with opened(path) as file:
        for chunk in ahead(iter(lambda: file.stream.read(_BLOCK), b"")):
            cut = chunk.rfind(b"\n") + 1
            if not cut and len(rest) + len(chunk) > _LONGEST_LINE:
                raise DataError(f"{path} has a line without an end; this is not a file of records")
            if cut:
                block, rest = rest + chunk[:cut], chunk[cut:]
                yield block
                empty = False
            else:
                rest += chunk
            watch.advance(file.place() - done)
            done = file.place()
    if rest:
        yield rest
    elif empty:
        raise DataError(f"{path} is empty; download or write it again")


def refuse(path: Path, line: int, cause: str, column: str = "") -> NoReturn:
    """Say where a file is not what it says. Cells are not quoted: one may be a label."""
    where = f"line {line:,}" + (f", {column}" if column else "")
    raise DataError(f"{path}, {where}: {cause}")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a directory; name the file in it") from None
    except PermissionError:
        raise DataError(f"{path}: permission denied; make the file readable") from None
    except OSError as problem:
        if "directory" in str(problem):
            raise DataError(f"{path} is a directory; name the file in it") from None
        raise DataError(
            f"{path} is damaged or cut short (gzip cannot be unpacked); download it again"
        ) from None
