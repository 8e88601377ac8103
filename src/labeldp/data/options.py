"""What can be said about the text of a table; the rest is inferred from its features."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
        try:
            b" ".decode(self.encoding or "utf-8", errors="ignore")
        except (LookupError, ValueError):  # ValueError: a zero byte in the name
            raise InputError(
                f"`encoding` {self.encoding!r} is unknown; try utf-8, cp1252 or utf-16"
            ) from None

    @property
    def said(self) -> dict[str, Any]:
        """Return what was said, as keywords of `scan` of the same table again."""
        names = [name for name in vars(self) if name != "column_formats"]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

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
        words = self.missing_everywhere(columns) or ()
        return [word.partition("=")[0] for word in words if re.fullmatch("[^=]+=[^=]+", word)]

    def null_words(self, columns: Sequence[str], *, delimited: bool) -> tuple[str, ...]:
        """Return all texts that mean missing in every column; empty cells always do in CSV."""
        words = self.missing_everywhere(columns)
        if words is None or self.na is None:
            return NULL_WORDS
        if not any(words):
            return ("",) if delimited or words else ()
        return tuple(dict.fromkeys((*NULL_WORDS, *words)))


@dataclass(frozen=True)
class ReadRequest:
    """The feature columns that are to be read, and what is said of them."""

    features: Sequence[str]
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    options: TextOptions = field(default_factory=TextOptions)


def _split_code(word: str, columns: Sequence[str]) -> tuple[str, str] | None:
    """Return column and value of a word such as age=999, if there is such a column."""
    for sign in re.finditer("=", word):
        if word[: sign.start()] in columns:
            return word[: sign.start()], word[sign.end() :]
    return None


def is_column_formats(value: Any) -> bool:
    """Whether a value that was read from JSON is `column_formats`, of any version."""
    return isinstance(value, dict) and all(
        isinstance(told, dict) and all(_is_format(*item) for item in told.items())
        for told in value.values()
    )


def _is_format(name: str, value: Any) -> bool:
    if name == "decimal":
        return value in (".", ",")
    if name == "na":
        return isinstance(value, list) and all(isinstance(word, str) for word in value)
    if name == "dress":
        return value in _GONE or value == "unit"
    is_known = name in ("date_format", "unit", "negative")
    return is_known and (isinstance(value, str) or (name == "date_format" and value is None))


def check_column_formats(formats: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse formats of earlier versions in which texts are no longer read."""
    for name, told in formats.items():
        form = told.get("date_format")
        old = told.get("dress") in _GONE or "negative" in told
        if old or (form is not None and not is_date_format(form)):
            what = "shares, bounds, units or letters for signs" if old else f"dates like {form!r}"
            raise DataError(
                f"column {name!r} was fitted by an earlier version that read {what}; this version "
                "does not: convert the column to plain numbers or ISO dates, and fit again"
            )
