"""Files that are not what they should be: how each is made, and what is said of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

Write = Callable[[Path], object]


def _bytes(content: bytes) -> Write:
    return lambda path: path.write_bytes(content)


ODDITIES: dict[str, tuple[Write, tuple[str, ...]]] = {
    "a pipe": (lambda path: os.mkfifo(path, 0o600), ("ordinary file",)),
    "a device": (lambda path: path.symlink_to("/dev/zero"), ("ordinary file",)),
    "a loop of links": (lambda path: path.symlink_to(path), ("symbolic links", "ordinary file")),
    "a directory": (
        lambda path: path.mkdir(),
        ("holds no data files", "s a directory", "ordinary file"),
    ),
    "nothing": (_bytes(b""), ()),
    "noise": (_bytes(bytes(range(256)) * 4), ()),
    "zeros": (_bytes(bytes(4096)), ()),
    "a list": (_bytes(b"[1, 2, 3]\n"), ()),
    "deep": (_bytes(b"[" * 100_000), ()),
    "a number": (_bytes(b"1e999\n"), ()),
    "Latin-1": (_bytes(b'{"caf\xe9": 1}\n'), ()),
    "half a sign": (_bytes(b"\xff\xfe"), ()),
    "a page": (_bytes(b"<!doctype html>\n<p>404</p>\n"), ()),
}
"""How a file is made, and words of which some are in the answer; () where those of the file are."""

_JSON = ("cannot be read as JSON", "holds no JSON object")
_SAID: dict[str, tuple[str, ...]] = {
    "data.csv": (
        "is empty",
        "there is no column 'label'",
        "not utf-16",
        "have no rows",
        "404",
        "correct the quoting, name the --delimiter",
    ),
    "data.parquet": ("is not a complete Parquet file",),
    "plan.json": ("cannot be read as JSON", "this is not a plan of format"),
    "plan.json.released": ("was released before",),
    "model.json": ("is not a model file",),
    "about.toml": ("cannot be read as TOML",),
    "ledger": ("is not a ledger", "file is not a database"),
    "key": ("does not hold a private key",),
    "key.pub": ("does not hold a public key",),
    "release/certificate.json": _JSON,
    "release/features.json": _JSON,
    "release/aggregates.parquet": ("is damaged",),
    "release/release.intoto.json": (
        "cannot be read as JSON",
        "does not hold an envelope of signatures",
        "does not hold signatures as labeldp writes",
    ),
}
"""What is said of a file that holds something else."""
HARMLESS = {("about.toml", "nothing"), ("data.csv", "a page")}
"""Nothing said about a release, a table of one text to look at."""


def expected(name: str, odd: str) -> tuple[str, ...]:
    """Words of which some are in what a command says of such a file."""
    if name == "plan.json.released":  # whatever has this name says that the plan was released
        return _SAID[name]
    return ODDITIES[odd][1] or _SAID[name]


def put(odd: str, path: Path) -> None:
    """Make the file odd, with the mode of a key."""
    ODDITIES[odd][0](path)
    if path.is_file() and not path.is_symlink():
        path.chmod(0o600)
