"""What the curator states about a release (`release --about FILE`).

The file is TOML with some of these lines, each a text; the certificate lists what is missing.

    name = "…"              title of the release
    curator = "…"           who is responsible for it
    contact = "…"
    purpose = "…"
    region = "…"
    licence = "…"
    date = 2026-01-31       date of publication
    why_label_range = "…"   public knowledge from which the label range follows
    why_epsilon = "…"       reason for the choice of ε
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from labeldp.errors import InputError, to_path
from labeldp.io_util import read_small

MOST_LETTERS = 2000


@dataclass(frozen=True)
class About:
    """Statements of the curator; None where there is none."""

    name: str | None = None
    curator: str | None = None
    contact: str | None = None
    purpose: str | None = None
    region: str | None = None
    licence: str | None = None
    date: str | None = None
    why_label_range: str | None = None
    why_epsilon: str | None = None

    @property
    def missing(self) -> list[str]:
        """Return the names of fields that are not stated."""
        return [name for name, text in asdict(self).items() if text is None]

    def to_json(self) -> dict[str, Any]:
        """Return every field, and which of them are missing, for the certificate."""
        return {**asdict(self), "missing": self.missing}


def read_about(about: Mapping[str, Any] | str | Path | None) -> About | None:
    """Read a TOML file or a mapping; refuse unknown fields and anything but short text."""
    if about is None:
        return None
    document = about if isinstance(about, Mapping) else _read_toml(to_path("about", about))
    names = [each.name for each in fields(About)]
    for name in document:
        if name not in names:
            raise InputError(f"`about` has no field {name!r}; choose {', '.join(names)}")
    return About(**{name: _text(name, value) for name, value in document.items()})


def _read_toml(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        raise InputError(f"{path} is missing; check the path of `about`")
    try:
        return tomllib.loads(read_small(path).decode())
    except InputError:
        raise
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path} cannot be read as TOML: {problem}") from None


def _text(name: str, value: Any) -> str | None:
    text = value.isoformat() if isinstance(value, date) else value
    if not isinstance(text, str) or len(text) > MOST_LETTERS:
        raise InputError(f"`about`: {name} must be a text of {MOST_LETTERS:,} letters at most")
    if any(not (letter.isprintable() or letter == "\n") for letter in text):
        raise InputError(f"`about`: {name} has signs that cannot be printed; leave them out")
    return text.strip() or None
