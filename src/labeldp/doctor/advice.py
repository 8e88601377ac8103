"""What `look` says of what it found, and the options of a release that follow from it."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labeldp.doctor.column import Traits


def findings(answer: Mapping[str, Any]) -> Iterator[str]:
    """What somebody should know before a release, a sentence each."""
    for facts in answer["columns"]:
        yield from _about(facts)
    if answer["duplicates"]:
        yield f"{answer['duplicates']:,} rows repeat another row in every feature"
    for person in answer["persons"]:
        yield (
            f"{person['column']}: {person['mean']:.1f} rows each on average, at most "
            f"{person['most']:,}; `person={person['column']}` protects a person's rows together"
        )
    for pair in answer["twins"]:
        yield f"{' and '.join(pair['columns'])}: {pair['why']}; one of them would do"
    for made in answer["dependent"]:
        yield f"{made['column']}: made of {_few(made['of'])}, and left out by itself"
    label = answer["label"]
    if label is not None:
        yield from _about_label(label)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _about(facts: Traits) -> Iterator[str]:
    name = facts["name"]
    if facts["advice"] is not None or facts["kind"] == "constant":
        yield f"{name}: {facts['kind']}, {facts['why']}"
    yield from facts["levels"]
    if facts["codes"]:
        numbers = ", ".join(map(str, facts["codes"]))
        yield f"{name}: {numbers} far from all other numbers, taken for missing; `na` says so"
    outlier = facts["outlier"]
    if outlier is not None:
        after = outlier["leverage_winsorised"]
        yield (
            f"{name}: {outlier['value']:g} is far from the usual {outlier['typical']:g}: its row "
            f"has leverage {outlier['leverage']:.2g}, winsorised {after:.2g}"
        )


def _about_label(label: Mapping[str, Any]) -> Iterator[str]:
    for name in label["alike"]:
        yield (
            f"{name} is the label in other units (for the curator only): features are public, so "
            f"are the labels then; add `drop={shlex.quote(_list([name]))}`"
        )
    if (label["r_squared"] or 0.0) > 0.999:
        yield "R² is near 1 (for the curator only): is the label among the features?"
    words = [word for word in label["words"] if not any(map(str.isdigit, word))]
    if words:
        yield (
            f"some labels are words (for the curator only), such as {_list(words)}: "
            f"`drop_missing_labels` takes them for missing"
        )
    others = [word for word in label["words"] if word not in words]
    if label["unreadable"] and (others or not words):
        yield (
            f"some labels are text that is no number (for the curator only): if that means "
            f"missing, add `na={shlex.quote(_list(others))}`, else correct it"
        )


def options(
    answer: Mapping[str, Any],
    known: Mapping[str, tuple[str, ...]],
    reading: Mapping[str, Any],
) -> dict[str, Any]:
    """The words to append to `labeldp release`, and what only the curator can choose."""
    advised = {
        kind: [c["name"] for c in answer["columns"] if c["advice"] == kind] for kind in known
    }
    asked = {kind: (*known[kind], *advised[kind]) for kind in known}
    shares = [f"{c['name']}={c['winsor']:g}" for c in answer["columns"] if c.get("winsor")]
    told = asked | {"winsor": shares} | dict(reading)
    label = answer["label"]
    words = [] if label is None else ["--label", label["name"]]
    for name, value in told.items():
        if value:
            words += ["--" + name.replace("_", "-"), _list(value)]
    if label is not None and label["missing"]:
        words.append("--drop-missing-labels")
    needed = ["--label-range LO HI", "--out DIR"]
    if label is None:
        return {"options": words, "needed": ["--label COLUMN", *needed]}
    return {"options": [*words, "--clip"], "needed": needed}


def _list(value: Any) -> str:
    """A value of an option as the command line takes it; names with commas in quotes."""
    if isinstance(value, str | int):
        return str(value)
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(dict.fromkeys(value))
    return text.getvalue()
