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

from labeldp.display import ROWS_LEFT_OUT, format_budget, headline, left_out_words, number
from labeldp.errors import InputError, ReleaseError
from labeldp.learners.linear import release_quality
from labeldp.learners.models import Quality
from labeldp.mechanisms.registry import mechanism_named
from labeldp.planning import Plan
from labeldp.profile import LEAK, Look, command, summary
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
    document = report(release.certificate, release.features.columns, release_quality(release))
    return document | {"release": folder.name, "checked": checks}


def plan_report(plan: Plan, curve: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the report of a plan: nothing has been published, and no label was read.

    `curve` is what `forecast_curve` returns.
    """
    claim = claimed_fields(plan.claim) | {"seal": plan.feature_sums}
    claim["labels"] = plan.expected["labels"]
    left_out = [note for note in plan.notes if note.startswith(ROWS_LEFT_OUT)]
    read = "of the labels only which are missing was read" if left_out else "no label was read"
    document = report(claim, plan.features.columns)
    facts = [*document["facts"], *(tuple(note.split(": ", 1)) for note in left_out)]
    return document | {
        "release": None,
        "checked": [f"nothing has been published yet, and {read}"],
        "facts": facts,
        "headline": plan.headline,
        "forecast_curve": list(curve),
    }


def report(
    certificate: dict[str, Any], columns: Sequence[str] = (), quality: Quality | None = None
) -> dict[str, Any]:
    """Return all that follows from the certificate, the public columns and what a fit shows."""
    planned = "software" not in certificate
    curve = [(float(e), float(d)) for e, d in certificate["curve"]]
    epsilon, delta = certificate["epsilon"], certificate["delta"]
    about, person = certificate.get("about") or {}, certificate.get("person")
    whose = "one label" if person is None else "all labels of one person"
    factor = format_upper_bound(math.exp(epsilon)) if epsilon < 700 else "an astronomical number of"
    unless = f", except with a probability of δ = {delta:g}" if delta else ""
    stated = {name.replace("_", " "): about.get(name) for name in ABOUT}
    label = certificate["labels"]["column"] or "the label"
    what, came = ("Plan", "will come") if planned else ("Release", "came")
    return {
        "label": label,
        "title": about.get("name") or f"{what} of {label}, with private labels",
        "planned": planned,
        "about": [(name, str(text)) for name, text in stated.items() if text],
        "not_stated": [name for name, text in stated.items() if not text],
        "facts": _facts(certificate, columns),
        "headline": [*headline(certificate), *([("gain", quality.in_words)] if quality else [])],
        "technical": _technical(certificate),
        "epsilon": epsilon,
        "delta": delta,
        "unit": certificate["unit"],
        "whose": whose,
        "promise": (
            f"What is published {came} out nearly as likely as it would, had {whose} "
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
        "person_rows": None if person is None else person["rows"],
        "groups": [
            {name: group[name] for name in ("rows", "epsilon", "delta")}
            for group in certificate["groups"]
        ],
        "not_protected": [*certificate["not_protected"], *LIMITS],
        "trust_model": certificate["trust_model"],
        "ledger": _ledger(certificate.get("ledger")),
        "seal": certificate["seal"],
        "forecast_curve": [],
    }


def _facts(certificate: dict[str, Any], columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return what a reader must know first: the label, what is public, what is published."""
    low, high = certificate["label_range"]
    labels, rows, size = (certificate[name] for name in ("labels", "rows", "bag_size"))
    values = f"numbers between {low:,g} and {high:,g}; errors below are in the same unit"
    if "classes" in labels:
        values = "{!r} (0) or {!r} (1)".format(*labels["classes"])
    numbers = f"{certificate['bags']:,} sums (aggregates) of {size:,} rows each, with noise"
    if size == 1:
        numbers = "the label of each row, with noise"
    facts = [
        ("private column", f"{labels['column'] or 'the label'}: {values}"),
        ("treated as public", ", ".join(columns) or "all other columns"),
        ("rows of the table", f"{rows:,}"),
        ("what is published", numbers),
    ]
    if labels.get("missing") == "rows dropped":
        words = "left out; how many was not recorded"  # by earlier versions
        if "rows_left_out" in labels:
            words = left_out_words(labels["rows_left_out"], rows)
        facts.append(("rows without a label", words))
    return facts


def _technical(certificate: dict[str, Any]) -> list[tuple[str, str]]:
    """Return facts about the mechanism and the error, and when and by what was drawn."""
    facts = [("mechanism", certificate["mechanism"])]
    facts += mechanism_named(certificate["mechanism"]).describe(certificate)
    facts.append(("best attack", certificate["attack_risk"]["in_words"]))
    utility = certificate["utility"]
    if (high := utility["added_rms_high"]) is not None:
        ends = f"{utility['added_rms_low']:.4g} to {high:.4g}"
        facts.append(("error in nine of ten releases", f"{ends} ({utility['added_basis']})"))
    if "software" in certificate:  # a plan has none of it, and an experiment no date
        software = certificate["software"]
        when = certificate["released_at"] or "as an experiment, without a date"
        facts.append(("drawn", f"{when}, by {software['name']} {software['version']}"))
    return facts


def _ledger(entry: dict[str, Any] | None) -> str:
    """Say what other releases of the table have spent."""
    if entry is None:
        return (
            "no ledger was kept: what other releases of this table have spent is for the curator "
            "to say"
        )
    cost = f"ε = {format_upper_bound(entry['epsilon'], 4)} at δ = {entry['delta']:g}"
    where = f"entry {entry['entry']} of ledger {entry['ledger']}"
    count = "the first release" if entry["releases"] == 1 else f"{entry['releases']} releases"
    return f"{count} of this table or of its persons cost {cost}, this one included ({where})"


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
    beliefs, guesses = [], []
    for each in document["beliefs"]:
        before, (least, most) = 100 * each["before"], each["after"]
        ends = f"{format_lower_bound(100 * least)}% to {_most(most)}"
        beliefs.append((f"{before:g}%", 100 * least, 100 * (most - least), before, ends))
        guesses.append((f"{before:g}%", *map(_most, (each["without"], each["right"]))))
    groups = []
    for group in document["groups"]:
        epsilon = group["epsilon"]
        bound = "no bound" if epsilon is None else format_upper_bound(epsilon, 4)
        groups.append((f"{group['rows']:,}", bound, f"{group['delta']:.3g}"))
    budget = format_budget(document["epsilon"], document["delta"])
    largest, forecasts = max((e["error"] for e in document["forecast_curve"]), default=1.0), []
    for epsilon, error in (each.values() for each in document["forecast_curve"]):
        name = f"{epsilon:g}{' (this plan)' * (epsilon == document['epsilon'])}"
        forecasts.append((name, 0, 100 * error / largest, None, number(error, 3)))
    shown = {
        "subtitle": f"{kind}: label differential privacy, {budget}",
        "not_stated": ", ".join(document["not_stated"]),
        "exceeded": _most(exceeded) if exceeded else "",
        "beliefs": beliefs,
        "guesses": guesses,
        "groups": groups,
        "points": [(f"{epsilon:.3g}", format_upper_bound(delta, 2)) for epsilon, delta in points],
        "forecasts": forecasts,
        "largest": number(largest, 3),
    }
    return render("report.html", {**document, **shown})


def look_page(found: Look) -> str:
    """Return the HTML page of what `look` found."""
    leaks = [text for text in found["findings"] if text.startswith(LEAK)]
    shown = {"found": found, "leaks": leaks, "summary": summary(found)}
    return render("look.html", shown | {"command": command(found)})


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
