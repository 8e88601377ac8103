"""What a report says, as a dict: everything on the page stands here.

It is a pure function of a certificate (or of what a plan claims) and of the answer of `verify`;
`page` shows it and adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labeldp.accounting.privacy_profile import best_true_positive_rate
from labeldp.errors import ReleaseError
from labeldp.mechanisms.description import ROWS_LEFT_OUT, left_out_words
from labeldp.mechanisms.registry import mechanism_named
from labeldp.planning import Plan
from labeldp.release.certificate import ABOUT, best_guess, claimed_fields
from labeldp.release.files import Release
from labeldp.release.side_files import SIGNATURES, Envelope
from labeldp.report import risk
from labeldp.verification import verify

_KEY_DIGITS = 16
LIMITS = (
    "whoever holds the labels is trusted: the guarantee is about what was published, not about "
    "who else sees the table",
    "what can be learnt about a person from everybody else's labels, as in any study that the "
    "person took no part in",
)


def release_report(directory: str | Path) -> dict[str, Any]:
    """Return the report of a release that verifies; one that does not is refused."""
    folder = Path(directory)
    verification = verify(folder)
    if not verification.valid:
        raise ReleaseError(
            f"{folder} does not verify, so there is nothing to sign: {verification.problems[0]}"
        )
    command = f"labeldp verify {folder.name}"
    checks = [
        f"this report was made after the release was checked: {verification.summary}",
        f"check it again: {command}; with the public features: {command} --data TABLE",
        "no key has signed these files yet; labeldp sign does",
    ]
    if (envelope := Envelope.of(folder)) is not None:
        keys = [keyid[:_KEY_DIGITS] for keyid, _ in envelope.signatures]
        checks[-1] = (
            f"signatures in {SIGNATURES} by {len(keys)} key{'s' * (len(keys) > 1)} "
            f"({', '.join(keys)}…); whether one is of someone you know: {command} --key PUBLIC_KEY"
        )
    release = Release.load(folder, verify=False)
    document = report(release.certificate, release.features.columns)
    return document | {"release": folder.name, "checked": checks}


def plan_report(plan: Plan) -> dict[str, Any]:
    """Return the report of a plan: nothing has been published, and no label was read."""
    claim = claimed_fields(plan.claim) | {"labels": {"column": None}, "seal": plan.feature_sums}
    left_out = [note for note in plan.notes if note.startswith(ROWS_LEFT_OUT)]
    read = "of the labels only which are missing was read" if left_out else "no label was read"
    checks = [f"nothing has been published yet, and {read}", *left_out]
    return report(claim, plan.features.columns) | {"release": None, "checked": checks}


def report(certificate: dict[str, Any], columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return all that follows from the certificate and the names of the public columns."""
    curve = [(float(e), float(d)) for e, d in certificate["curve"]]
    epsilon, delta = certificate["epsilon"], certificate["delta"]
    about, person = certificate.get("about") or {}, certificate.get("person")
    whose, beyond = "one label", "Someone with several rows"
    if person is not None:
        whose = "all labels of one person"
        beyond = f"Someone with more than {person['rows']:,} rows, or several persons together"
    factor = (
        risk.format_upper_bound(math.exp(epsilon)) if epsilon < 700 else "an astronomical number of"
    )
    unless = f", but for a probability of δ = {delta:g} on which this may not hold" if delta else ""
    stated = {name.replace("_", " "): about.get(name) for name in ABOUT}
    return {
        "title": about.get("name") or "A label-private release",
        "about": [(name, str(text)) for name, text in stated.items() if text],
        "not_stated": [name for name, text in stated.items() if not text],
        "published": _published(certificate, columns),
        "epsilon": epsilon,
        "delta": delta,
        "unit": certificate["unit"],
        "whose": whose,
        "promise": (
            f"Whatever was published would have come out nearly as likely, had {whose} "
            f"been anything else in the range: no outcome is more than e^ε = {factor} times "
            f"as likely{unless}. That holds against anyone, whatever they know already and "
            "whatever they compute."
        ),
        "weak": list(certificate["weak"]),
        "curve": curve,
        "beliefs": [
            {
                "before": prior,
                "after": risk.belief(prior, epsilon),
                "right": best_guess(curve, prior),
                "without": max(prior, 1 - prior),
            }
            for prior in risk.PRIORS
        ],
        "exceeded": risk.exceeded(curve, epsilon),
        "attacks": [
            {"false_alarms": rate, "found": best_true_positive_rate(curve, rate)}
            for rate in risk.FALSE_ALARMS
        ],
        "beyond": beyond,
        "groups": [
            {name: group[name] for name in ("rows", "epsilon", "delta")}
            for group in certificate["groups"]
        ],
        "error": _error(certificate["utility"]),
        "not_protected": [*certificate["not_protected"], *LIMITS],
        "trust_model": certificate["trust_model"],
        "ledger": _ledger(certificate.get("ledger")),
        "seal": certificate["seal"],
    }


def _published(certificate: dict[str, Any], columns: Sequence[str]) -> list[tuple[str, str]]:
    low, high = certificate["label_range"]
    labels = certificate["labels"]
    facts = [
        ("numbers", f"{certificate['bags']:,} aggregates of {certificate['rows']:,} rows"),
        ("private label", f"{labels['column'] or 'as planned'}, between {low:,g} and {high:,g}"),
    ]
    if columns:
        facts.append(("public columns", ", ".join(columns)))
    if labels.get("missing") == "rows dropped":
        words = "left out; how many was not recorded"  # by earlier versions
        if "rows_left_out" in labels:
            words = left_out_words(labels["rows_left_out"], certificate["rows"])
        facts.append(("rows without a label", words))
    facts.append(("mechanism", certificate["mechanism"]))
    facts += mechanism_named(certificate["mechanism"]).describe(certificate)
    if "software" in certificate:  # a plan has none of it, and an experiment no date
        software = certificate["software"]
        when = certificate["released_at"] or "as an experiment, without a date"
        facts.append(("drawn", f"{when}, by {software['name']} {software['version']}"))
    return facts


def _error(utility: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what privacy costs a least-squares fit, in label units."""
    rms, low, high = (utility[f"added_rms{end}"] for end in ("", "_low", "_high"))
    if rms is None and high is None:
        return [("added to a prediction", "not known in closed form")]
    facts = []
    if rms is not None:
        facts.append(("added to a prediction, root mean square", f"{rms:.4g}"))
        facts.append(("the same over the label range", f"{utility['added_of_range']:.2%}"))
    facts.append(("in nine of ten releases", f"{low:.4g} to {high:.4g}"))
    return [*facts, ("basis", utility["added_basis"])]


def _ledger(entry: dict[str, Any] | None) -> str:
    """Say what other releases of the table have spent."""
    if entry is None:
        return (
            "no ledger was kept: what other releases of this table have spent is for the curator "
            "to say"
        )
    cost = f"ε = {risk.format_upper_bound(entry['epsilon'], 4)} at δ = {entry['delta']:g}"
    where = f"entry {entry['entry']} of ledger {entry['ledger']}"
    if entry["releases"] == 1:
        return f"the ledger counts no earlier release: {cost} ({where})"
    return (
        f"{entry['releases']} releases of this table or of its persons cost {cost}, "
        f"this one included ({where})"
    )
