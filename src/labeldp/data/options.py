"""What can be said about the text of a table; the rest is inferred from its features."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.data.columns import NULL_WORDS
from labeldp.data.dates import is_date_format
from labeldp.errors import DataError, InputError, to_int, to_str

_MOST_LINES = 1000
_GONE = {"bound", "share", "measure", "mixed"}
"""Readings of earlier versions that there are no more (`column_formats`)."""


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Keywords of `scan` about text, which explains them."""

    delimiter: str | None = None
    encoding: str | None = None
    skip_lines: int | None = None
    skip_footer: int | None = None
    decimal: str | None = None
    na: tuple[str, ...] | None = None
    date_format: str | None = None
    column_formats: Mapping[str, Mapping[str, Any]] | None = None
    """How columns were read when features were fitted (`FeatureMap.spelt`); None: they were not."""

    def __post_init__(self) -> None:
        for name in ("delimiter", "encoding", "decimal", "date_format"):
            if getattr(self, name) is not None:
                to_str(name, getattr(self, name))
        sign = self.delimiter
        if sign is not None and (len(sign) != 1 or not sign.isascii() or sign in '\0\r\n"'):
            raise InputError(f"`delimiter` must be one ASCII character, not {sign!r}")
        for name in ("skip_lines", "skip_footer"):
            lines = getattr(self, name)
            if lines is not None and not 0 <= to_int(name, lines) <= _MOST_LINES:
                raise InputError(f"`{name}` must be 0 to {_MOST_LINES} lines, not {lines}")
        if self.decimal not in (None, ".", ","):
            raise InputError(f"`decimal` must be '.' or ',', not {self.decimal!r}")
        if self.date_format is not None and not is_date_format(self.date_format):
            raise InputError(
                f"`date_format` {self.date_format!r} is none; write it like %d.%m.%Y or %Y%m%d"
            )

    @property
    def said(self) -> dict[str, Any]:
        """Return what was said, as keywords of `scan` of the same table again."""
        names = [name for name in vars(self) if name != "column_formats"]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def format_of(self, column: str) -> Mapping[str, Any]:
        """Return how a column was read when features were fitted."""
        return (self.column_formats or {}).get(column, {})

    def missing_everywhere(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """Return the words of `na` that count in every column of a table; None for no word."""
        words = [word for word in self.na or () if _split_code(word, columns) is None]
        return tuple(words) if words or self.na in (None, ()) else None

    def missing_in_column(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the words of `na` that count in one column, such as age=999, by its name."""
        codes = [code for word in self.na or () if (code := _split_code(word, columns))]
        return {name: tuple(word for n, word in codes if n == name) for name, _ in codes}

    def unknown_columns(self, columns: Sequence[str]) -> list[str]:
        """Return names before an = in `na` that are no columns of a table."""
        words = [word for word in self.na or () if _split_code(word, columns) is None]
        return [word.partition("=")[0] for word in words if re.fullmatch("[^=]+=[^=]+", word)]

    def null_words(self, columns: Sequence[str], *, delimited: bool) -> tuple[str, ...]:
        """Return all texts that mean missing in every column; empty cells always do in CSV."""
        words = self.missing_everywhere(columns)
        if words is None or (words == () and self.na is None):
            return NULL_WORDS
        if not any(words):
            return ("",) if delimited or words else ()
        return tuple(dict.fromkeys((*NULL_WORDS, *words)))


def _split_code(word: str, columns: Sequence[str]) -> tuple[str, str] | None:
    """Return column and value of a word such as age=999, if there is such a column."""
    for sign in re.finditer("=", word):
        if word[: sign.start()] in columns:
            return word[: sign.start()], word[sign.end() :]
    return None


def is_column_formats(value: Any) -> bool:
    """Whether a value that was read from JSON is `column_formats`, of any version."""
    checks: dict[str, Callable[[Any], bool]] = {
        "decimal": lambda sign: sign in (".", ","),
        "date_format": lambda form: form is None or isinstance(form, str),
        "na": lambda words: isinstance(words, list) and all(isinstance(w, str) for w in words),
        "unit": lambda unit: isinstance(unit, str) and len(unit) <= 16,
        "dress": lambda kind: kind in _GONE or kind == "unit",
        "negative": lambda sign: isinstance(sign, str),
    }
    return isinstance(value, dict) and all(
        isinstance(told, dict) and all(n in checks and checks[n](told[n]) for n in told)
        for told in value.values()
    )


def check_column_formats(formats: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse formats of earlier versions in which texts are no longer read."""
    for name, told in formats.items():
        form = told.get("date_format")
        if told.get("dress") in _GONE or "negative" in told:
            what = "shares, bounds, units to convert or letters for signs"
        elif form is not None and not is_date_format(form):
            what = f"dates like {form!r}"
        else:
            continue
        raise DataError(
            f"column {name!r} was fitted by an earlier version that read {what}; this version does "
            "not: convert the column to plain numbers or ISO dates, and fit again"
        )
