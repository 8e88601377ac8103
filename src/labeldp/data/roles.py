"""Which columns of a table play which part: label, person, features; names that are none."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence

from labeldp.data.parts import of_text, part_names, split_part
from labeldp.data.safe_names import LONG, NO_NAMES, short, tellable, told
from labeldp.errors import DataError, InputError

_INDEX = re.compile(r"(__index_level_\d+__| \(\d+\))?")


class UnknownColumnError(DataError):
    """A name that is no column of the table, where it stands, and what may be meant."""

    def __init__(self, part: str, column: str, hint: str) -> None:
        super().__init__(f"{part}: there is no column {short(column)!r}; {hint}")
        self.column, self._hint = column, hint

    def standing_in(self, part: str) -> UnknownColumnError:
        """The same of what whoever named it calls that part."""
        return UnknownColumnError(part, self.column, self._hint)


def check_names(
    known: Sequence[str],
    taken: dict[str, str | None],
    features: Sequence[str] | None,
    categorical: Sequence[str],
    numeric: Sequence[str],
    drop: Sequence[str],
    date_parts: Sequence[str],
    text_parts: Sequence[str] = (),
) -> None:
    """Refuse names that are not columns, and columns that play two parts."""
    parts = {"features": features or (), "categorical": categorical, "numeric": numeric}
    parts |= {"drop": drop, "date_parts": date_parts, "text_parts": [*map(_of_text, text_parts)]}
    there = set(known)
    for part, names in parts.items():
        for name in names:
            if name not in there:
                _known(name, part, known)
        for role, column in taken.items():
            if column in names and (role, part) != ("person", "drop"):  # no feature anyway
                raise InputError(f"column {column!r} is the {role} and cannot also stand in {part}")
    for role, column in taken.items():
        if column is not None:
            _known(column, role, known)
    if taken["person"] is not None and taken["person"] == taken["label"]:
        raise InputError(f"column {taken['label']!r} is the label and cannot also be the person")
    both = sorted(set(categorical) & set(numeric))
    if both:
        raise InputError(f"column {both[0]!r} is declared both categorical and numeric; choose one")
    twice = sorted(name for name, times in Counter(parts["features"]).items() if times > 1)
    if twice:
        raise InputError(f"features names column {twice[0]!r} twice; once is enough")


def check_codes(known: Sequence[str], strange: Sequence[str]) -> None:
    """Refuse codes for missing values (`na`) of columns that are not there."""
    for name in strange:
        _known(name, "na", known)


def _of_text(name: str) -> str:
    column, part = split_part(name)
    if not of_text(part):
        raise InputError(
            f"`text_parts` takes names such as 'x:number1' and 'x:word2', not {short(name)!r}"
        )
    return column


def check_once(taken: dict[str, str | None], repeated: Sequence[str]) -> None:
    """The label under another name would be a public feature."""
    for role, column in taken.items():
        if column in repeated:
            raise DataError(
                f"several columns are named {column!r}, the {role}; rename or remove all but one"
            )


def with_parts(
    known: Sequence[str], taken: Sequence[str | None], named: Sequence[str]
) -> list[str]:
    """The columns of a table, and the parts of those that may be features; of texts, if named."""
    open_ = {name for name in known if name not in taken}
    texts = [name for name in named if name not in open_ and split_part(name)[0] in open_]
    return [*known, *(part for name in known if name in open_ for part in part_names(name)), *texts]


def _known(name: str, part: str, known: Sequence[str]) -> None:
    if name in known:
        return
    whole = [each for each in known if not split_part(each)[1]]
    known = tellable(whole)
    close = [each for each in known if each.strip().casefold() == name.strip().casefold()]
    close = close or difflib.get_close_matches(name[:LONG], known, n=3, cutoff=0.5)
    if len(whole) == 1 and name in re.split(r'[,;|\s"]+', whole[0]):
        alone = f"the only one is {short(known[0])!r}" if known else "there is one alone"
        hint = f"{alone}; name another `delimiter`"
    elif close:
        hint = f"did you mean {' or '.join(map(repr, map(short, close)))}?"
    else:
        hint = f"the columns are {told(whole, 8) or NO_NAMES}"
    longer = next((each for each in known if name in map(str.strip, each.split(","))), None)
    if longer is not None and len(known) > 1:  # else the delimiter is another
        hint = f"a name that has a comma stands in double quotes: '\"{longer}\"'"
    raise UnknownColumnError(part, name, hint)


def chosen(
    known: Sequence[str],
    taken: Sequence[str | None],
    features: Sequence[str] | None,
    drop: Sequence[str],
    date_parts: Sequence[str],
    text_parts: Sequence[str] = (),
) -> list[str]:
    if features is None:
        taken = (*taken, *map(_of_text, text_parts))
        features = [name for name in known if name not in taken and not _INDEX.fullmatch(name)]
    parts = [*(part for name in date_parts for part in part_names(name)), *text_parts]
    features = list(dict.fromkeys([*features, *parts]))
    left_out = set(drop)
    names = [name for name in features if name not in left_out]
    if not names:
        raise InputError("no feature column is left; name fewer in drop or more in features")
    return names
