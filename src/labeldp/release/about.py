"""What only the curator knows of a release, in the curator's words; what is not said is listed.

A TOML file with some of these lines, each a text:

    name = "…"              what the release is called
    curator = "…"           who answers for it
    contact = "…"
    purpose = "…"
    region = "…"
    licence = "…"
    date = 2026-01-31       of publication
    why_label_range = "…"   on what public knowledge it rests
    why_epsilon = "…"
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
    """The words of the curator; None where nothing was said."""

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
        """What was not said."""
        return [name for name, text in asdict(self).items() if text is None]

    def to_json(self) -> dict[str, Any]:
        """For the certificate: every field, and which of them are missing."""
        return {**asdict(self), "missing": self.missing}


def read_about(said: Mapping[str, Any] | str | Path | None) -> About | None:
    """From a TOML file or a mapping; unknown fields and anything but short text are refused."""
    if said is None:
        return None
    told = said if isinstance(said, Mapping) else _file(to_path("about", said))
    known = [each.name for each in fields(About)]
    for name in told:
        if name not in known:
            raise InputError(f"`about` has no field {name!r}; choose {', '.join(known)}")
    return About(**{name: _text(name, value) for name, value in told.items()})


def _file(path: Path) -> dict[str, Any]:
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
