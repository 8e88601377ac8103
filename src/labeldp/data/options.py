"""What can be said of a table: names and roles of its columns, and options about its text.

Where a file has no header, or another delimiter than was said, its first row stands in the place of
the names, and one of its values is a label. Such a line has a word that begins with a digit; then
messages hold only names without a digit.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.data.dates import is_date_format
from labeldp.errors import DataError, InputError, UnknownColumnError, one_of, to_int, to_str

_INDEX = re.compile(r"(__index_level_\d+__| \(\d+\))?")
"""Names of a stored pandas index and of columns without a name."""
_LONGEST = 80
"""Characters of a name that are shown, or compared: a table may have been given for a name."""
_MOST_LINES = 1000


def short_name(name: str) -> str:
    """Return as much of a name as identifies it."""
    return name if len(name) <= _LONGEST else name[:_LONGEST] + "…"


def _printable(names: Iterable[str]) -> list[str]:
    """Return the names that messages may hold."""
    names = list(names)
    begins_with_digit = any(re.search(r"(?<![\w.])[\d.]*\d", name) for name in names)
    return [n for n in names if n and not re.search(r"\d", n)] if begins_with_digit else names


def quoted_names(names: Iterable[str]) -> str:
    """Return some of the names in quotes; a remark where none may be shown."""
    quoted = [repr(short_name(name)) for name in _printable(names)]
    return ", ".join(quoted[:8] + ["..."] * (len(quoted) > 8)) or (
        "numbers: is there a line with their names?"
    )


def unknown_column(name: str, option: str, columns: Sequence[str]) -> UnknownColumnError:
    """Return the refusal of a name, with the columns that may be meant."""
    printable = _printable(columns)
    close = [each for each in printable if each.strip().casefold() == name.strip().casefold()]
    close = close or difflib.get_close_matches(name[:_LONGEST], printable, n=3, cutoff=0.5)
    if len(columns) == 1 and name in re.split(r'[,;|\s"]+', columns[0]):
        hint = f"the only one is {quoted_names(columns)}; name another `delimiter`"
    elif close:
        hint = f"did you mean {' or '.join(repr(short_name(each)) for each in close)}?"
    else:
        hint = f"the columns are {quoted_names(columns)}"
    return UnknownColumnError(option, name, f"there is no column {short_name(name)!r}; {hint}")


def check_unique_names(names: Sequence[str], where: object) -> None:
    """Refuse a table in which a name stands for two columns.

    One of them may be the label, which would be a public feature under another name.
    """
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise DataError(
            f"{where} has several columns of one name, {quoted_names(twice)}; rename them, or "
            "add a header line if the file has none"
        )


def choose_features(
    columns: Sequence[str],
    roles: Mapping[str, str | None],
    lists: Mapping[str, Sequence[str] | None],
) -> list[str]:
    """Return the feature columns, in order: those named, or all but index columns.

    `roles` are label and person, `lists` features, categorical, numeric and drop. Names that are no
    columns and columns with two roles are refused.
    """
    existing = set(columns)
    named = {option: names or () for option, names in lists.items()}
    single = {role: (column,) for role, column in roles.items() if column is not None}
    for option, names in {**named, **single}.items():
        for name in names:
            if name not in existing:
                raise unknown_column(name, option, columns)
            for role, column in roles.items():
                # A person's column is no feature anyway.
                if column == name and (role, option) not in ((option, role), ("person", "drop")):
                    raise InputError(
                        f"column {column!r} is the {role} and cannot also stand in {option}"
                    )
    for name in sorted({*named["categorical"]} & {*named["numeric"]}):
        raise InputError(f"column {name!r} is declared both categorical and numeric; choose one")
    for name, times in Counter(named["features"]).items():
        if times > 1:
            raise InputError(f"features names column {name!r} twice; once is enough")
    features = named["features"]
    if lists["features"] is None:
        features = [n for n in columns if n not in roles.values() and not _INDEX.fullmatch(n)]
    left_out = set(named["drop"])
    remaining = [name for name in features if name not in left_out]
    if not remaining:
        raise InputError("no feature column is left; name fewer in drop or more in features")
    return remaining


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
    """`FeatureMap.column_formats`: how columns were read when features were fitted; None before."""

    def __post_init__(self) -> None:
        for name in ("delimiter", "encoding", "date_format"):
            if getattr(self, name) is not None:
                to_str(name, getattr(self, name))
        sign = self.delimiter
        if sign is not None and (len(sign) != 1 or not sign.isascii() or sign in '\0\r\n"'):
            raise InputError(f"`delimiter` must be one ASCII character, not {sign!r}")
        for name in ("skip_lines", "skip_footer"):
            lines = getattr(self, name)
            if lines is not None and not 0 <= to_int(name, lines) <= _MOST_LINES:
                raise InputError(f"`{name}` must be 0 to {_MOST_LINES} lines, not {lines}")
        one_of("decimal", self.decimal, (None, ".", ","))
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
        for name, form in (self.column_formats or {}).items():
            date = form.get("date_format")
            unit_alone = form.get("dress", "unit") == "unit" and "negative" not in form
            if not unit_alone or (date is not None and not is_date_format(date)):
                raise DataError(
                    f"column {name!r} was fitted by an earlier version that read texts which this "
                    "version does not; convert the column to plain numbers or ISO dates, and fit "
                    "again"
                )

    @property
    def keywords(self) -> dict[str, Any]:
        """The options that are not None, as keywords of `scan` of the same table again."""
        options = {name: value for name, value in vars(self).items() if value is not None}
        options.pop("column_formats", None)
        return options

    def codes(self, column: str) -> list[str]:
        """Return what `na` says of one column alone: 999 where it has age=999."""
        start = f"{column}="
        return [word.removeprefix(start) for word in self.na or () if word.startswith(start)]

    def words(self, columns: Iterable[str]) -> list[str]:
        """Return what `na` says of every column."""
        starts = tuple(f"{column}=" for column in columns)
        return [word for word in self.na or () if not word.startswith(starts)]
