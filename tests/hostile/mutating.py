"""Files changed at random: bytes of any file, and values of JSON documents."""

from __future__ import annotations

import json
import random
from typing import Any

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, 1e308, -1e-320, 2**63, 10**30, "", "x", "\ud800", "\u0000",
    "x" * 5000, [], {}, [None], {"a": {}}, [[]], "1", "NaN", [1, 2, 3], {"": 0},
)  # fmt: skip
JUNK = (
    b"",
    b"\0",
    b"\xff",
    b'"',
    b",",
    b"\n",
    b"\r",
    b"{",
    b"[",
    b"9" * 400,
    b"-",
    b"1e999",
    b"PAR1",
)


def bytes_of(content: bytes, draw: random.Random) -> bytes:
    """One to three changes: a flip, a cut, a copy, junk, or an end that is missing."""
    for _ in range(draw.randint(1, 3)):
        size = max(1, len(content))
        place, span = draw.randrange(size), draw.choice((1, 2, 8, 100))
        before, after = content[:place], content[place:]
        content = draw.choice(
            (
                before + bytes([draw.randrange(256)]) + after[1:],
                before + after[span:],
                before + after[:span] * 2 + after[span:],
                before + draw.choice(JUNK) + after,
                before,
            )
        )
    return content


def json_of(content: bytes, draw: random.Random) -> bytes:
    """A value somewhere in a document is another one, or gone, or there is one more."""
    document = json.loads(content)
    places = list(_places(document))
    owner, key = draw.choice(places)
    how = draw.randrange(4)
    if how == 0:
        del owner[key]
    elif how == 1 and isinstance(owner, dict):
        owner["another"] = draw.choice(VALUES)
    elif how == 2 and isinstance(owner[key], int | float) and not isinstance(owner[key], bool):
        owner[key] *= draw.choice((-1, 0, 2, 0.999, 1e-300, 1e300))
    else:
        owner[key] = draw.choice(VALUES)
    return json.dumps(document, indent=draw.choice((None, 1, 2))).encode()


def _places(value: Any) -> Any:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in list(inner):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)
