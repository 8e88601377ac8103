"""What `fit` was given: releases, maybe by their directories, and the rows that they name."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from labeldp.errors import InputError
from labeldp.release import Release, table_rows
from labeldp.source import Source


def released(data: Any) -> Any:
    """A release, or a list of them, given as such or by their directories; None if it is none."""
    if isinstance(data, str | PathLike):
        return Release.load(Path(data))
    several = isinstance(data, list | tuple)
    if several and any(isinstance(each, Release | str | PathLike) for each in data):
        found = [released(each) for each in data]
        if None in found:
            raise InputError("a list of releases holds something else; give releases alone")
        return found
    return data if isinstance(data, Release) else None


def rows_of(release: Any, data: Any) -> Source | None:
    """The table whose rows a release names."""
    if data is None or isinstance(data, Source):
        return data
    if not isinstance(release, Release) or not release.needs_rows:
        raise InputError("a release carries its own labels and features; leave `y` out")
    return table_rows(release, data)
