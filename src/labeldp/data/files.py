"""Files of a table: which a path means, their format, whether they fit together or changed."""

from __future__ import annotations

import difflib
import glob
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.data.columns import check_unique_names, quoted_names
from labeldp.errors import DataError, MissingExtraError
from labeldp.io_util import path_problem

_ENDINGS = {
    "Parquet": (".parquet", ".pq"),
    "CSV": (".csv", ".csv.gz", ".psv", ".txt", ".txt.gz", ".dat", ".data"),
    "TSV": (".tsv", ".tsv.gz", ".tab"),
    "Arrow": (".arrow", ".feather", ".ipc"),
    "Excel": (".xlsx", ".xlsm"),
    "Stata": (".dta",),
    "SPSS": (".sav", ".zsav"),
    "SAS": (".sas7bdat",),
    "SAS transport": (".xpt",),
}
FORMATS = {ending: form for form, endings in _ENDINGS.items() for ending in endings}
"""Data files are known by how their names end."""
DELIMITERS = {"CSV": ",", "TSV": "\t"}
_BY_NAME_ONLY = (".txt", ".txt.gz", ".dat", ".data")
"""Text that may be anything: no part of a directory's table, unless it is named."""
_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".inprogress", ".incomplete")

FileState = tuple[str, int, int, int, int]
"""Path, size, times of the last change of its content and of anything about it, in nanoseconds, and
the file's number on its disk. Programs may set the first time back, and not the second."""


def find_files(path: str | Path) -> tuple[tuple[Path, ...], str]:
    """Return the files a path, a directory or a glob means, sorted, and their format."""
    if "://" in str(path):
        raise DataError(f"{path}: only local files are read; download it first")
    place = Path(path).expanduser()
    _check_usable(place)
    is_folder = place.is_dir()
    if is_folder or (glob.has_magic(str(place)) and not place.exists()):
        pattern = f"{glob.escape(str(place))}/*" if is_folder else str(place)
        found = map(Path, sorted(glob.glob(pattern, recursive=True)))
        entries = [each for each in found if not each.name.startswith((".", "_"))]
        files = [each for each in entries if not each.is_dir()]
        if is_folder:
            if len(files) < len(entries):
                # Leaving a part of the rows out without a word would be worse than asking.
                raise DataError(
                    f"{place} has sub-directories; pass a glob such as '{place}/**/*.parquet'"
                )
            endings = tuple(end for end in (*FORMATS, *_UNFINISHED) if end not in _BY_NAME_ONLY)
            files = [each for each in files if each.name.lower().endswith(endings)]
        if not files:
            raise DataError(f"{place} holds no data files (names ending in {', '.join(FORMATS)})")
    elif place.exists():
        files = [place]
    else:
        names = [each.name for each in place.parent.iterdir()] if place.parent.is_dir() else []
        close = difflib.get_close_matches(place.name, names, n=1)
        hint = f"did you mean {place.parent / close[0]}?" if close else "check the path"
        raise DataError(f"{place}: no such file or directory; {hint}")
    formats = set()
    for file in files:
        _check_usable(file)
        name = file.name.lower()
        form = next((form for ending, form in FORMATS.items() if name.endswith(ending)), None)
        if form is None:
            raise DataError(
                f"{file}: unknown format, or half-written; its name must end in one of "
                + ", ".join(FORMATS)
            )
        formats.add(form)
    if len(formats) > 1:
        mixed = " and ".join(sorted(formats))
        raise DataError(f"{place} mixes {mixed} files; pass a glob for one format")
    return tuple(files), formats.pop()


def _check_usable(path: Path) -> None:
    reason = path_problem(path)
    if reason is not None:
        raise DataError(f"{path}: {reason}")


def state_of(paths: Sequence[Path]) -> tuple[FileState, ...] | None:
    """Return what changes when a file is written to; None for a frame, which may change unseen."""
    states = list[FileState]()
    for path in paths:
        with reading_file(path, "readable"):
            stat = path.stat()
        times = stat.st_mtime_ns, stat.st_ctime_ns
        states.append((str(path), stat.st_size, *times, stat.st_ino))
    return tuple(states) or None


_READING_ERRORS = (pa.ArrowException, OSError, EOFError, UnicodeError, zlib.error)


@contextmanager
def reading_file(
    path: Path | str, form: str, errors: Any = _READING_ERRORS, extra: str = ""
) -> Iterator[None]:
    """Turn any failure to read into one line about the file.

    What Arrow or another package says is left out because it may quote a row, and a row holds a
    label.
    """
    try:
        yield
    except MemoryError:
        raise
    except PermissionError:
        raise DataError(f"{path}: permission denied; make the file readable") from None
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; it was moved or removed") from None
    except errors as error:
        if extra and isinstance(error, ModuleNotFoundError):
            raise MissingExtraError(f"reading {form} files", extra) from None
        raise DataError(
            f"{path} is not a complete {form} file (damaged, encrypted, cut short or of another "
            "format); write it again or correct its name"
        ) from None


def common_schema(paths: Sequence[Path], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the schema of the files of one table; refuse repeated names and different schemas."""
    first = [(each.name, str(each.type)) for each in schemas[0]]
    for path, schema in zip(paths, schemas, strict=True):
        check_unique_names(schema.names, path)
        fields = [(each.name, str(each.type)) for each in schema]
        if fields != first:
            odd = sorted({name for name, _ in {*first} ^ {*fields}})
            what = f"columns or types of {quoted_names(odd)}" if odd else "the order of the columns"
            raise DataError(f"{paths[0]} and {path} differ in {what}; files need one schema")
    return schemas[0]
