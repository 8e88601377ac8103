"""What there is to sign, as a dict: everything that the report says stands here.

It is a pure function of a certificate (or of what a plan claims) and of the answer of `verify`;
`report_page` shows it and adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labeldp.errors import ReleaseError
from labeldp.io_util import read_json
from labeldp.mechanisms.notes import ROWS_LEFT_OUT, left_out_words
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.registry import mechanism_named
from labeldp.release.claim import claimed_fields
from labeldp.release.files import Release
from labeldp.release.pending import CERTIFICATE
from labeldp.release.statement import SIGNATURES, Envelope
from labeldp.signoff import risk
from labeldp.signoff.verification import Verification, verify

_ABOUT = (
    "name",
    "curator",
    "contact",
    "purpose",
    "region",
    "licence",
    "date",
    "why_label_range",
    "why_epsilon",
)
_SHOWN = 16
"""Digits of a key id."""
LIMITS = (
    "whoever holds the labels is trusted: the guarantee is about what was published, not about "
    "who else sees the table",
    "what can be learnt about a person from everybody else's labels, as in any study that the "
    "person took no part in",
)


def release_report(directory: str | Path) -> dict[str, Any]:
    """Of a release that verifies; one that does not is refused."""
    folder = Path(directory)
    checked = verify(folder)
    if not checked.valid:
        raise ReleaseError(
            f"{folder} does not verify, so there is nothing to sign: {checked.problems[0]}"
        )
    certificate = read_json(folder / CERTIFICATE)
    columns = Release.load(folder).features.columns
    told = {"release": folder.name, "checked": _checked(folder, checked)}
    return report(certificate, columns) | told


def plan_report(made: Plan) -> dict[str, Any]:
    """Of a plan: nothing has been published, and no label was read."""
    claimed = claimed_fields(made.claim) | {"labels": {"column": None}, "seal": made.feature_sums}
    left_out = [note for note in made.notes if note.startswith(ROWS_LEFT_OUT)]
    read = "of the labels only which are missing was read" if left_out else "no label was read"
    said = [f"nothing has been published yet, and {read}", *left_out]
    return report(claimed, made.features.columns) | {"release": None, "checked": said}


def _checked(folder: Path, checked: Verification) -> list[str]:
    command = f"labeldp verify {folder.name}"
    return [
        f"this report was made after the release was checked: {checked.summary}",
        f"check it again: {command}; with the public features: {command} --data TABLE",
        *_signed(folder, command),
    ]


def _signed(folder: Path, command: str) -> list[str]:
    """By which keys; whose these are, only the reader can know."""
    envelope = Envelope.of(folder)
    if envelope is None:
        return ["no key has signed these files yet; labeldp sign does"]
    keys = [each.keyid[:_SHOWN] for each in envelope.signatures]
    return [
        f"signatures in {SIGNATURES} by {len(keys)} key{'s' * (len(keys) > 1)} ({', '.join(keys)}…)"
        f"; whether one is of someone you know: {command} --key PUBLIC_KEY"
    ]


def report(certificate: dict[str, Any], columns: Sequence[str] = ()) -> dict[str, Any]:
    """All that follows from the certificate, and from the names of the public columns."""
    curve = [(float(e), float(d)) for e, d in certificate["curve"]]
    epsilon, delta = certificate["epsilon"], certificate["delta"]
    return {
        "title": (certificate.get("about") or {}).get("name") or "A label-private release",
        **_about(certificate.get("about") or {}),
        "published": _published(certificate, columns),
        "epsilon": epsilon,
        "delta": delta,
        "unit": certificate["unit"],
        "whose": _whose(certificate),
        "promise": _promise(certificate),
        "weak": list(certificate["weak"]),
        "curve": curve,
        "beliefs": [
            {
                "before": prior,
                "after": risk.belief(prior, epsilon),
                "right": risk.right_guesses(curve, prior),
                "without": max(prior, 1 - prior),
            }
            for prior in risk.PRIORS
        ],
        "exceeded": risk.exceeded(curve, epsilon),
        "attacks": [
            {"false_alarms": rate, "found": risk.found(curve, rate)} for rate in risk.FALSE_ALARMS
        ],
        "beyond": _beyond(certificate),
        "groups": [
            {"rows": group["rows"], "epsilon": group["epsilon"], "delta": group["delta"]}
            for group in certificate["groups"]
        ],
        "error": _error(certificate),
        "not_protected": [*certificate["not_protected"], *LIMITS],
        "trust_model": certificate["trust_model"],
        "ledger": _ledger(certificate.get("ledger")),
        "seal": certificate["seal"],
    }


def _about(told: dict[str, Any]) -> dict[str, Any]:
    """What the curator said; what was not said is listed, not invented."""
    said = [(name, told[name]) for name in _ABOUT if told.get(name)]
    return {
        "about": [(name.replace("_", " "), str(text)) for name, text in said],
        "not_stated": [name.replace("_", " ") for name in _ABOUT if not told.get(name)],
    }


def _published(certificate: dict[str, Any], columns: Sequence[str]) -> list[tuple[str, str]]:
    low, high = certificate["label_range"]
    column = certificate["labels"]["column"]
    described = mechanism_named(certificate["mechanism"]).describe(certificate)
    return [
        ("numbers", f"{certificate['bags']:,} aggregates of {certificate['rows']:,} rows"),
        ("private label", f"{column or 'as planned'}, between {low:,g} and {high:,g}"),
        *([("public columns", ", ".join(columns))] if columns else []),
        *_left_out(certificate),
        ("mechanism", certificate["mechanism"]),
        *described.plan,
        *_drawn(certificate),
    ]


def _left_out(certificate: dict[str, Any]) -> list[tuple[str, str]]:
    """How many rows have no label; a certificate of earlier versions does not say."""
    labels = certificate["labels"]
    if labels.get("missing") != "rows dropped":
        return []
    if "rows_left_out" not in labels:
        return [("rows without a label", "left out; how many was not recorded")]
    words = left_out_words(labels["rows_left_out"], certificate["rows"])
    return [("rows without a label", words)]


def _drawn(certificate: dict[str, Any]) -> list[tuple[str, str]]:
    """When, and by what; a plan has nothing of it, and an experiment no date."""
    if "software" not in certificate:
        return []
    software = certificate["software"]
    when = certificate["released_at"] or "as an experiment, without a date"
    return [("drawn", f"{when}, by {software['name']} {software['version']}")]


def _whose(certificate: dict[str, Any]) -> str:
    """What one neighbour has another of."""
    return "one label" if certificate.get("person") is None else "all labels of one person"


def _beyond(certificate: dict[str, Any]) -> str:
    """Whom the table of groups is about."""
    person = certificate.get("person")
    if person is None:
        return "Someone with several rows"
    return f"Someone with more than {person['rows']:,} rows, or several persons together"


def _promise(certificate: dict[str, Any]) -> str:
    epsilon, delta = certificate["epsilon"], certificate["delta"]
    rest = (
        "" if delta == 0 else f", but for a probability of δ = {delta:g} on which this may not hold"
    )
    return (
        f"Whatever was published would have come out nearly as likely, had {_whose(certificate)} "
        f"been anything else in the range: no outcome is more than e^ε = {_factor(epsilon)} times "
        f"as likely{rest}. "
        "That holds against anyone, whatever they know already and whatever they compute."
    )


def _factor(epsilon: float) -> str:
    return risk.at_most(math.exp(epsilon)) if epsilon < 700 else "an astronomical number of"


def _error(certificate: dict[str, Any]) -> list[tuple[str, str]]:
    """What privacy costs a least-squares fit, in label units."""
    utility = certificate["utility"]
    rms, low, high = (utility[f"added_rms{end}"] for end in ("", "_low", "_high"))
    if rms is None and high is None:
        return [("added to a prediction", "not known in closed form")]
    told = []
    if rms is not None:
        told.append(("added to a prediction, root mean square", f"{rms:.4g}"))
        told.append(("the same over the label range", f"{utility['added_of_range']:.2%}"))
    told.append(("in nine of ten releases", f"{low:.4g} to {high:.4g}"))
    return [*told, ("basis", utility["added_basis"])]


def _ledger(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return (
            "no ledger was kept: what other releases of this table have spent is for the curator "
            "to say"
        )
    spent = risk.at_most(entry["epsilon"], 4)
    where = f"entry {entry['entry']} of ledger {entry['ledger']}"
    if entry["releases"] == 1:
        cost = f"ε = {spent} at δ = {entry['delta']:g}"
        return f"the ledger counts no earlier release: {cost} ({where})"
    return (
        f"{entry['releases']} releases of this table or of its persons cost ε = {spent} at "
        f"δ = {entry['delta']:g}, this one included ({where})"
    )
