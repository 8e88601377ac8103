"""Files of a table: which a path means, their format, whether they fit together or changed."""

from __future__ import annotations

import difflib
import glob
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.data.columns import NO_NAMES, printable_names, quoted_names
from labeldp.errors import DataError
from labeldp.io_util import path_problem

FORMATS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".csv.gz": "CSV",
    ".tsv": "TSV",
    ".tsv.gz": "TSV",
    ".tab": "TSV",
    ".psv": "CSV",
    ".txt": "CSV",
    ".txt.gz": "CSV",
    ".dat": "CSV",
    ".data": "CSV",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
    ".xlsx": "Excel",
    ".xlsm": "Excel",
    ".dta": "Stata",
    ".sav": "SPSS",
    ".zsav": "SPSS",
    ".sas7bdat": "SAS",
    ".xpt": "SAS transport",
}
"""Data files are known by how their names end."""
DELIMITERS = {"CSV": ",", "TSV": "\t"}
_BY_NAME_ONLY = (".txt", ".txt.gz", ".dat", ".data")
"""Text that may be anything: no part of a directory's table, unless it is named."""

_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".inprogress", ".incomplete")


FileState = tuple[str, int, int, int, int]
"""Path, size, times of the last change of its content and of anything about it, in nanoseconds, and
the file's number on its disk. Programs may set the first time back, and not the second."""


def find(path: str | Path) -> tuple[tuple[Path, ...], str]:
    """Return the files a path, a directory or a glob means, sorted, and their format."""
    if "://" in str(path):
        raise DataError(f"{path}: only local files are read; download it first")
    place = Path(path).expanduser()
    _usable(place)
    if place.is_dir():
        files = _inside(place)
    elif place.exists():
        files = (place,)
    elif glob.has_magic(str(place)):
        files = _matching(place)
    else:
        raise DataError(f"{place}: no such file or directory{_near(place)}")
    for file in files:
        _usable(file)
    formats = sorted({format_of(file) for file in files})
    if len(formats) > 1:
        raise DataError(f"{place} mixes {' and '.join(formats)} files; pass a glob for one format")
    return files, formats[0]


def _usable(path: Path) -> None:
    reason = path_problem(path)
    if reason is not None:
        raise DataError(f"{path}: {reason}")


def format_of(path: Path) -> str:
    """Return the format that a file's name announces."""
    for ending, name in FORMATS.items():
        if path.name.lower().endswith(ending):
            return name
    if path.name.lower().endswith(_UNFINISHED):
        raise DataError(f"{path} looks half-written; wait until its writer has renamed it")
    raise DataError(f"{path}: unknown format; the name must end in one of {', '.join(FORMATS)}")


def state_of(paths: Sequence[Path]) -> tuple[FileState, ...] | None:
    """What changes when a file is written to; None for a frame, which may change unseen."""
    if not paths:
        return None
    states = []
    for path in paths:
        with reading_file(path, "readable"):
            found = path.stat()
        times = found.st_mtime_ns, found.st_ctime_ns
        states.append((str(path), found.st_size, *times, found.st_ino))
    return tuple(states)


@contextmanager
def reading_file(path: Path | str, form: str) -> Iterator[None]:
    """Turn any failure to read into one line about the file.

    Arrow's own message is left out because it may quote a row, and a row holds a label.
    """
    try:
        yield
    except MemoryError:
        raise
    except PermissionError:
        raise DataError(f"{path}: permission denied; make the file readable") from None
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; it was moved or removed") from None
    except (pa.ArrowException, OSError, EOFError, UnicodeError, zlib.error):
        raise DataError(
            f"{path} is not a complete {form} file (damaged, cut short or of another format); "
            f"write it again or correct its name"
        ) from None


def same_schema(first: pa.Schema, other: pa.Schema, paths: tuple[Path, Path]) -> None:
    """Refuse two files of one table whose columns differ."""
    if first.names != other.names:
        odd = sorted(set(first.names) ^ set(other.names))
        what = (
            f"columns {quoted_names(odd, 5)}"
            if printable_names(odd)
            else f"columns, which are {NO_NAMES}"
        )
        what = what if odd else "the order of the columns"
        raise DataError(f"{paths[0]} and {paths[1]} differ in {what}; files need one schema")
    for a, b in zip(first, other, strict=True):
        if a.type != b.type:
            raise DataError(
                f"{paths[0]} and {paths[1]} differ in the type of column {a.name!r}: {a.type} and "
                f"{b.type}; files need one schema"
            )


def check_unique_names(names: Sequence[str], where: Any) -> None:
    """Refuse a table in which a name stands for two columns."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        same = f"named {quoted_names(twice, 5)}" if printable_names(twice) else "of one name"
        raise DataError(
            f"{where} has several columns {same}; rename them, or add a header line if the file "
            f"has none"
        )


def _visible(path: Path) -> bool:
    return not path.name.startswith((".", "_"))


def _inside(place: Path) -> tuple[Path, ...]:
    entries = sorted(entry for entry in place.iterdir() if _visible(entry))
    if any(entry.is_dir() for entry in entries):
        # Leaving a part of the rows out without a word would be worse than asking.
        raise DataError(f"{place} has sub-directories; pass a glob such as '{place}/**/*.parquet'")
    wanted = tuple(end for end in (*FORMATS, *_UNFINISHED) if end not in _BY_NAME_ONLY)
    files = tuple(entry for entry in entries if entry.name.lower().endswith(wanted))
    if not files:
        raise DataError(f"{place} holds no data files (names ending in {', '.join(FORMATS)})")
    return files


def _matching(pattern: Path) -> tuple[Path, ...]:
    found = sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))
    files = tuple(path for path in found if path.is_file() and _visible(path))
    if not files:
        raise DataError(f"{pattern} matches no files; check the pattern")
    return files


def _near(place: Path) -> str:
    try:
        names = [entry.name for entry in place.parent.iterdir()]
    except OSError:
        return "; check the path"
    close = difflib.get_close_matches(place.name, names, n=1)
    return f"; did you mean {place.parent / close[0]}?" if close else "; check the path"
