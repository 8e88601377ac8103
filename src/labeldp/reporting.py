"""What is told of a release or a plan: a report to sign, and descriptions for catalogues.

`report` is a dict, a pure function of a certificate (or of what a plan claims): everything on the
page stands there, so anyone can recompute it. Pages have no script and nothing from elsewhere, and
are readable in black and white. A description for a catalogue (Croissant, a registry of DP
deployments, a card) is a function of the certificate, the files and their digests; what the curator
did not say (`release --about`) is left out or called "not stated".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from typing import Any

from labeldp.accounting.privacy_profile import best_true_positive_rate
from labeldp.display import ROWS_LEFT_OUT, format_budget, left_out_words
from labeldp.errors import InputError, ReleaseError
from labeldp.mechanisms.registry import mechanism_named
from labeldp.planning import Plan
from labeldp.releases.certificate import ABOUT, best_guess, claimed_fields
from labeldp.releases.files import Release
from labeldp.releases.side_files import (
    SIGNATURES,
    Envelope,
    croissant_text,
    description_of,
    sha256_of,
    title_of,
)
from labeldp.verification import verify

_KEY_DIGITS = 16
PRIORS = (0.01, 0.1, 0.5, 0.9)
FALSE_ALARMS = (0.001, 0.05)
LIMITS = (
    "whoever holds the labels is trusted: the guarantee is about what was published, not about "
    "who else sees the table",
    "what can be learnt about a person from everybody else's labels, as in any study that the "
    "person took no part in",
)


def _verified(folder: Path) -> tuple[Release, str]:
    """Return a release and what was verified of it; refuse one that does not verify."""
    verification = verify(folder)
    if not verification.valid:
        raise ReleaseError(f"{folder} does not verify: {verification.problems[0]}")
    return Release.load(folder, verify=False), verification.summary


# ---- the report


def release_report(directory: str | Path) -> dict[str, Any]:
    """Return the report of a release that verifies; one that does not is refused."""
    folder = Path(directory)
    release, verified = _verified(folder)
    command = f"labeldp verify {folder.name}"
    signed = "no key has signed these files yet; labeldp sign does"
    if (envelope := Envelope.of(folder)) is not None:
        keys = [keyid[:_KEY_DIGITS] for keyid, _ in envelope.signatures]
        signed = (
            f"signatures in {SIGNATURES} by {len(keys)} key{'s' * (len(keys) > 1)} "
            f"({', '.join(keys)}…); whether one is of someone you know: {command} --key PUBLIC_KEY"
        )
    checks = [
        f"this report was made after the release was checked: {verified}",
        f"check it again: {command}; with the public features: {command} --data TABLE",
        signed,
    ]
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
    factor = format_upper_bound(math.exp(epsilon)) if epsilon < 700 else "an astronomical number of"
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
                "after": belief(prior, epsilon),
                "right": best_guess(curve, prior),
                "without": max(prior, 1 - prior),
            }
            for prior in PRIORS
        ],
        "exceeded": exceeded(curve, epsilon),
        "attacks": [
            {"false_alarms": rate, "found": best_true_positive_rate(curve, rate)}
            for rate in FALSE_ALARMS
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
    ends = f"between {low:,g} and {high:,g}"
    if "classes" in labels:
        ends = "{!r} (0) or {!r} (1)".format(*labels["classes"])
    facts = [
        ("numbers", f"{certificate['bags']:,} aggregates of {certificate['rows']:,} rows"),
        ("private label", f"{labels['column'] or 'as planned'}, {ends}"),
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
    cost = f"ε = {format_upper_bound(entry['epsilon'], 4)} at δ = {entry['delta']:g}"
    where = f"entry {entry['entry']} of ledger {entry['ledger']}"
    if entry["releases"] == 1:
        return f"the ledger counts no earlier release: {cost} ({where})"
    return (
        f"{entry['releases']} releases of this table or of its persons cost {cost}, "
        f"this one included ({where})"
    )


# ---- what a privacy curve means for a person, in chances
#
# The attacker knows everything but one label (or one person's labels) and two values that it may
# have.


def belief(prior: float, epsilon: float) -> tuple[float, float]:
    """Return the least and largest belief in one value afterwards: its odds move by e^±ε."""
    low, high = (math.exp(min(by, 700.0)) * prior for by in (-epsilon, epsilon))
    return low / (low + 1 - prior), high / (high + 1 - prior)


def exceeded(points: Sequence[tuple[float, float]], epsilon: float) -> float:
    """Return how often a release may move beliefs by more than e^ε, at most.

    With L the privacy loss, δ(e) = E[(1 − e^{e−L})₊] ≥ P[L > ε]·(1 − e^{e−ε}) for every e < ε.
    """
    if any(delta == 0.0 and e <= epsilon for e, delta in points):
        return 0.0
    below = [delta / -math.expm1(e - epsilon) for e, delta in points if e < epsilon]
    return min([1.0, *below])


def format_upper_bound(value: float, digits: int = 3) -> str:
    """Return an upper bound with so many digits, never rounded down."""
    return _rounded(value, Context(digits, ROUND_CEILING))


def _most(value: float) -> str:
    """Return an upper bound of a probability."""
    return f"{format_upper_bound(100 * value)}%"


def format_lower_bound(value: float, digits: int = 3) -> str:
    """Return a lower bound with so many digits, never rounded up."""
    return _rounded(value, Context(digits, ROUND_FLOOR))


def _rounded(value: float, context: Context) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{float(context.create_decimal(repr(value))):.{context.prec}g}"


# ---- pages


def report_page(document: Mapping[str, Any]) -> str:
    """Return the HTML page of a report."""
    exceeded, points = document["exceeded"], document["curve"]
    kind = "Plan" if document["release"] is None else f"Release {document['release']}"
    beliefs = [
        (
            f"{100 * each['before']:g}%",
            f"{format_lower_bound(100 * each['after'][0])}%",
            *map(_most, (each["after"][1], each["without"], each["right"])),
        )
        for each in document["beliefs"]
    ]
    attacks = [(f"{100 * e['false_alarms']:g}%", _most(e["found"])) for e in document["attacks"]]
    groups = []
    for group in document["groups"]:
        epsilon = group["epsilon"]
        bound = "no bound" if epsilon is None else format_upper_bound(epsilon, 4)
        groups.append((f"{group['rows']:,}", bound, f"{group['delta']:.3g}"))
    budget = format_budget(document["epsilon"], document["delta"])
    shown = {
        "subtitle": f"{kind}: label differential privacy, {budget}",
        "not_stated": ", ".join(document["not_stated"]),
        "exceeded": f"; more in at most {_most(exceeded)} of releases" if exceeded else "",
        "beliefs": beliefs,
        "attacks": attacks,
        "groups": groups,
        "epsilons": [f"{epsilon:.3g}" for epsilon, _ in points],
        "deltas": ("δ", *(format_upper_bound(delta, 2) for _, delta in points)),
    }
    return render("report.html", {**document, **shown})


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return a template with these values; a name that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("labeldp"),
        autoescape=template.endswith(".html"),  # texts come from anyone's files
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # also a value of YAML
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.get_template(template).render(values)


# ---- descriptions for catalogues

_TEMPLATES = {"card": "dataset_card.md", "registry": "registry.json"}
KINDS = ("card", "croissant", "registry")


def describe(directory: str | Path, kind: str) -> str:
    """Return one description of a release; refuse a release that does not verify."""
    if kind not in KINDS:
        raise InputError(f"`kind` must be {', '.join(KINDS)}, not {kind!r}")
    folder = Path(directory).resolve()  # "." has a name too
    release, _ = _verified(folder)
    certificate = release.certificate
    if kind == "croissant":
        return croissant_text(folder, certificate)
    about = certificate["about"] or {}
    low, high = certificate["label_range"]
    values = {
        "about": {name: about.get(name) or "not stated" for name in ABOUT},
        "certificate": certificate,
        "title": title_of(certificate),
        "description": description_of(certificate),
        "label_range": f"between {low:g} and {high:g}",
        "folder": folder.name,
        "files": [
            {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in sorted(folder.iterdir())
        ],
        "fit_command": release.fit_command(folder.name),
    }
    return render(_TEMPLATES[kind], values)
