"""What `look` says of what it found, and the options of a release that follow from it."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def findings(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what somebody should know before a release, a sentence each."""
    for facts in answer["columns"]:
        yield from _about_column(facts)
    if answer["duplicates"]:
        yield f"{answer['duplicates']:,} rows repeat another row in every feature"
    yield from _about_persons(answer["persons"])
    for pair in answer["twins"]:
        yield f"{' and '.join(pair['columns'])}: {pair['why']}; one of them would do"
    for total in answer["dependent"]:
        names = total["of"]
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        yield f"{total['column']}: made of {', '.join(names[:4])}{more}, and left out by itself"
    if answer["label"] is not None:
        yield from _about_label(answer["label"])


def _about_column(facts: Mapping[str, Any]) -> Iterator[str]:
    name = facts["name"]
    if facts["advice"] is not None or facts["kind"] == "constant":
        yield f"{name}: {facts['kind']}, {facts['why']}"
    yield from facts["levels"]
    if facts["no_answer"]:
        codes = ", ".join(map(str, facts["no_answer"]))
        words = join_list(f"{name}={code}" for code in facts["no_answer"])
        yield f"{name}: {codes} far from all other numbers; if that means missing, add `na={words}`"
    if facts["mend"] is not None:
        lines = "\n".join(facts["mend"]["lines"])
        yield (
            f"{name}: {facts['kind']} of texts that look like {facts['mend']['kind']}; if they are "
            f"that and no codes, in pandas:\n{lines}"
        )
    outlier = facts["outlier"]
    if outlier is not None:
        yield (
            f"{name}: {outlier['value']:g} is far from the usual {outlier['typical']:g}: its row "
            f"has leverage {outlier['leverage']:.2g}, winsorised "
            f"{outlier['leverage_winsorised']:.2g}"
        )


def _about_persons(persons: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in persons:
        name = each["column"]
        rows = f"{name}: {each['mean']:.1f} rows each on average, at most {each['most']:,}"
        if each["advised"]:
            yield f"{rows}; `person={name}` protects all rows of one together, not single rows"
        else:
            yield f"{rows}; if all rows of one are to be protected together, add `person={name}`"


def _about_label(label: Mapping[str, Any]) -> Iterator[str]:
    """Yield what only the curator may know."""
    public = "(for the curator only): features are published, and labels would be with them"
    for name, why in label["copies"].items():
        yield f"{name} {why} {public}; `drop={shlex.quote(join_list([name]))}`"
    if label["parts"]:
        names = join_list(label["parts"])
        yield f"the label follows from {names} and others {public}; `drop={shlex.quote(names)}`"
    for name in label["close"]:
        yield f"{name} follows the label closely (for the curator only): is it public? Features are"
    if label["missing"]:
        share = label["missing"] / label["rows"]
        yield (
            f"{label['missing']:,} of {label['rows']:,} rows ({share:.1%}) have no label (for the "
            "curator only): `drop_missing_labels` leaves them out, and who lacks one shows"
        )
    if label["unreadable"]:
        such = f" such as {', '.join(label['texts'])}" if label["texts"] else ""
        yield (
            f"{label['unreadable']:,} labels are texts{such} or no finite numbers (for the curator "
            "only), and a release refuses them: give each answer a number, or name those that "
            "mean missing (`na`); to leave an answer out shows who gave it"
        )


def release_options(
    answer: Mapping[str, Any], columns: Mapping[str, Sequence[str]], text: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the words to append to `labeldp release`, and what only the curator can choose.

    `columns` and `text` are what was said of the columns and of the text.
    """
    label, persons = answer["label"], [p["column"] for p in answer["persons"] if p["advised"]]
    lists = {
        kind: [*names, *(c["name"] for c in answer["columns"] if c["advice"] == kind)]
        for kind, names in columns.items()
    }
    if label is not None:
        lists["drop"] += [*label["copies"], *label["parts"]]
    gone = {*persons, *lists["drop"]}
    winsor = {c["name"]: c["winsor"] for c in answer["columns"] if c.get("winsor")}
    lists = {
        kind: [n for n in names if n not in (persons if kind == "drop" else gone)]
        for kind, names in lists.items()
    }
    lists["winsor"] = [f"{n}={share:g}" for n, share in winsor.items() if n not in gone]
    words = [] if label is None else ["--label", label["name"]]
    for name, value in {"person": persons, **lists, **text}.items():
        if value:
            words += ["--" + name.replace("_", "-"), join_list(value)]
    if label is not None and label["missing"]:
        words.append("--drop-missing-labels")
    needed = ["--label-range LO HI", "--out DIR"]
    if label is None:
        return {"options": words, "needed": ["--label COLUMN", *needed]}
    return {"options": [*words, "--clip"], "needed": needed}


def join_list(value: Any) -> str:
    """Return the value of an option as the command line takes it; names with commas in quotes."""
    if isinstance(value, str | int):
        return str(value)
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(dict.fromkeys(value))
    return text.getvalue()
