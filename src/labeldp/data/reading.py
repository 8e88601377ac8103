"""What is said about the text of a table, by whoever has it: the rest is found out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from labeldp.data.columns import NULL_WORDS
from labeldp.data.dates import in_digits
from labeldp.errors import InputError

_MOST_LINES = 1000
_MOST_FORMS = 8


class Text(TypedDict, total=False):
    """What can be said about the text of a table: keywords of `scan`, which explains them."""

    delimiter: str | None
    encoding: str | None
    skip_lines: int | None
    skip_footer: int | None
    decimal: str | None
    thousands: str | None
    na: Sequence[str] | None
    date_format: str | None
    date_parts: Sequence[str] | None
    text_parts: Sequence[str] | None


class Told(Text, total=False):
    """And what was found out when features were fitted (`FeatureMap.spelt`)."""

    spelt: Mapping[str, Mapping[str, Any]] | None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is said about the text of a table; the rest is found out from its features."""

    delimiter: str | None = None
    encoding: str | None = None
    skip_lines: int | None = None
    skip_footer: int | None = None
    decimal: str | None = None
    thousands: str | None = None
    na: tuple[str, ...] | None = None
    date_format: str | None = None
    date_parts: tuple[str, ...] = ()
    text_parts: tuple[str, ...] = ()
    private: str | None = None
    """The column whose bytes may not decide how the others are read."""
    named: tuple[str, ...] = ()
    """Columns that the table must have: those that somebody named."""
    columns: tuple[str, ...] = ()
    """Those of the table: `na` may be said of one of them, income=999."""
    known: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How columns were spelt when features were fitted (`FeatureMap.spelt`)."""

    def __post_init__(self) -> None:
        for name in ("delimiter", "decimal", "thousands"):
            sign = getattr(self, name)
            if sign is not None and len(sign) != 1:
                raise InputError(f"`{name}` must be one character, not {sign!r}")
        if self.delimiter and (not self.delimiter.isascii() or self.delimiter in "\0\r\n"):
            raise InputError(
                f"`delimiter` must be a sign of ASCII that ends no line, not {self.delimiter!r}"
            )
        for name in ("skip_lines", "skip_footer"):
            if not 0 <= (getattr(self, name) or 0) <= _MOST_LINES:
                raise InputError(
                    f"`{name}` must be 0 to {_MOST_LINES} lines, not {getattr(self, name)}"
                )
        if self.decimal not in (None, ".", ","):
            raise InputError(f"`decimal` must be '.' or ',', not {self.decimal!r}")
        if self.date_format is not None and not is_format(self.date_format):
            raise InputError(
                f"`date_format` {self.date_format!r} is none; write it like %d.%m.%Y or %Y%m%d"
            )
        if self.decimal is not None and self.decimal == self.thousands:
            raise InputError("`decimal` and `thousands` are the same sign; they must differ")

    @classmethod
    def of(cls, text: Mapping[str, Any], **others: Any) -> Reading:
        """What was said as keywords (`Told`), and what else is known."""
        said = {name: value for name, value in text.items() if value is not None}
        known = said.pop("spelt", {})
        return cls(**said, known=known, **others)

    @property
    def said(self) -> dict[str, Any]:
        """What was said, as plain values; which columns there are, a table says itself."""
        names = [name for name in Text.__annotations__ if not name.endswith("_parts")]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def nulls(self, text: bool) -> tuple[str, ...]:
        """Texts that mean missing; in a text file an empty cell always does."""
        na = self.everywhere
        if na is None:
            return NULL_WORDS
        if not na or na == ("",):
            return ("",) if text or na else ()
        return tuple(dict.fromkeys((*NULL_WORDS, *na)))

    @property
    def everywhere(self) -> tuple[str, ...] | None:
        """What means missing in every column."""
        if not self.codes:
            return self.na
        return tuple(word for word in self.na or () if self._code(word) is None) or None

    @property
    def codes(self) -> dict[str, tuple[str, ...]]:
        """What means missing in one column alone, by its name."""
        found = [code for code in map(self._code, self.na or ()) if code is not None]
        return {name: tuple(word for n, word in found if n == name) for name, _ in found}

    @property
    def strange(self) -> list[str]:
        """What `na` says of columns that are not there, by their names."""
        words = (word for word in self.na or () if self._code(word) is None)
        return [word.partition("=")[0] for word in words if re.fullmatch(r"[^=]+=[^=]+", word)]

    def _code(self, word: str) -> tuple[str, str] | None:
        ends = (found.start() for found in re.finditer("=", word))
        return next(((word[:k], word[k + 1 :]) for k in ends if word[:k] in self.columns), None)

    def dated_in_digits(self, name: str) -> bool:
        """Whether whole numbers of a column may be dates, since their format is known."""
        known = self.known.get(name, {}).get("date_format")
        return in_digits(known) or in_digits(self.date_format)

    def decimals(self, name: str | None = None) -> tuple[str, ...]:
        """The decimal signs that come into question, for all columns or for one."""
        known = self.known.get(name or "", {}).get("decimal") or self.decimal
        if known is not None:
            return (known,)
        return tuple(sign for sign in ".," if sign != self.thousands)


def is_format(value: Any) -> bool:
    """A short format of dates: no place for anything else that would then be published."""
    return isinstance(value, str) and all(
        re.fullmatch(r"(%[A-Za-z]|[-/., :T]){1,16}", form) for form in value.split("|", _MOST_FORMS)
    )
