"""A release in the words of catalogues: Croissant, Frictionless, a registry of deployments, a card.

Each is a pure function of what stands in the release: its certificate, its files, their digests
and columns. What the curator did not say (`release --about`) is left out or called "not stated".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.errors import InputError, ReleaseError
from labeldp.io_util import read_json
from labeldp.release.croissant import JSON, PARQUET, File, croissant_of, described, files_of, title
from labeldp.release.files import Release
from labeldp.release.pending import CERTIFICATE
from labeldp.signoff.verification import verify

NOT_STATED = "not stated"


@dataclass(frozen=True)
class Described:
    """What descriptions are made of."""

    certificate: dict[str, Any]
    files: tuple[File, ...]
    folder: Path

    @classmethod
    def of(cls, folder: Path) -> Described:
        """A release that verifies."""
        checked = verify(folder)
        if not checked.valid:
            raise ReleaseError(f"{folder} does not verify: {checked.problems[0]}")
        certificate = read_json(folder / CERTIFICATE)
        return cls(certificate, files_of(folder), folder.resolve())

    def said(self, name: str) -> str | None:
        """What the curator said."""
        return (self.certificate.get("about") or {}).get(name)

    @property
    def title(self) -> str:
        return title(self.certificate)

    @property
    def text(self) -> str:
        return described(self.certificate)


def datapackage(told: Described) -> dict[str, Any]:
    """A Frictionless data package."""
    licence = told.said("licence")
    return {
        "profile": "data-package",
        "name": _slug(told.title),
        "title": told.title,
        "description": told.text,
        **({} if licence is None else {"licenses": [{"name": licence}]}),
        "resources": [_resource(file) for file in told.files],
    }


def _slug(title: str) -> str:
    """Lower case letters, digits and dashes, as a package's name must be."""
    plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in title.lower())
    return "-".join(filter(None, plain.split("-"))) or "release"


def _resource(file: File) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name, kind in file.columns]
    return {
        "name": _slug(file.name),
        "path": file.name,
        "format": Path(file.name).suffix[1:],
        "mediatype": PARQUET if file.columns else JSON,
        "bytes": file.size,
        "hash": f"sha256:{file.sha256}",
        **({"schema": {"fields": fields}} if fields else {}),
    }


def registry(told: Described) -> dict[str, Any]:
    """An entry for the registry of deployments, all three tiers; what nobody said is said so."""
    return _first_tier(told) | _second_tier(told) | _third_tier(told)


def _first_tier(told: Described) -> dict[str, Any]:
    return {
        "name": told.title,
        "data_curators": told.said("curator") or NOT_STATED,
        "intended_use": told.said("purpose") or NOT_STATED,
        "data_product_type": "Dataset",
        "data_product_region": told.said("region") or NOT_STATED,
        "description": told.text,
        "publication_date": told.said("date") or NOT_STATED,
    }


def _second_tier(told: Described) -> dict[str, Any]:
    certificate = told.certificate
    return {
        "variant_name": told.folder.name,
        "privacy_unit": certificate["unit"],
        "privacy_parameters": {
            "epsilon": certificate["epsilon"],
            "delta": certificate["delta"],
        },
        "model_name": "central label differential privacy",
        "release_type": "one-time",
        "data_source_type": "a table with public features and a private label",
        "access_type": "static files",
    }


def _third_tier(told: Described) -> dict[str, Any]:
    certificate = told.certificate
    low, high = certificate["label_range"]
    software, numerics = certificate["software"], certificate["numerics"]
    ledger = certificate.get("ledger")
    return {
        "data_domain": f"labels between {low:g} and {high:g}; "
        f"why: {told.said('why_label_range') or NOT_STATED}",
        "unprotected_quantities": certificate["not_protected"],
        "privacy_unit_details": certificate["definition"],
        "privacy_parameters_details": {
            "accountant": certificate["accountant"],
            "curve": certificate["curve"],
            "groups": certificate["groups"],
            "why": told.said("why_epsilon") or NOT_STATED,
        },
        "actors": certificate["trust_model"],
        "post_processing": "none of what is published; fits on it cost no privacy",
        "composition": ledger or "this release alone; no ledger was kept",
        "preprocessing_and_hyperparameter_tuning": "chosen from public features and stated facts "
        f"alone; labels outside their range: {certificate['labels']['outside_range']}; missing "
        f"labels: {certificate['labels']['missing']}",
        "mechanisms": {
            "library": software,
            "mechanism": certificate["mechanism"],
            "timing_channels": "a run's duration is not part of what is published",
            "floating_point": numerics,
            "platform": certificate.get("environment") or NOT_STATED,
            "access_controls": "the curator's own",
            "code_version": software["version"],
        },
        "justification": certificate["accountant"]["basis"],
    }


def card(told: Described) -> str:
    """A dataset card: Markdown under a head of YAML."""
    certificate = told.certificate
    head = {"pretty_name": told.title, "tags": ["differential-privacy", "regression", "tabular"]}
    if licence := told.said("licence"):
        head["license"] = licence
    return "\n".join(["---", *_yaml(head), "---", "", *_body(told, certificate), ""])


def _yaml(head: dict[str, Any]) -> Iterator[str]:
    """JSON is YAML."""
    for name, value in head.items():
        yield f"{name}: {json.dumps(value, ensure_ascii=False)}"


def _body(told: Described, certificate: dict[str, Any]) -> Iterator[str]:
    low, high = certificate["label_range"]
    yield from (f"# {told.title}", "", f"{told.text}.", "")
    yield from ("## Who and why", "")
    for name in ("curator", "contact", "purpose", "region", "licence", "date"):
        yield f"- {name}: {told.said(name) or NOT_STATED}"
    yield from ("", "## Files", "", "| file | bytes | SHA-256 |", "|---|---|---|")
    for file in told.files:
        yield f"| `{file.name}` | {file.size:,} | `{file.sha256}` |"
    yield from ("", "## Privacy", "", f"- {certificate['definition']}")
    yield f"- unit: {certificate['unit']}"
    yield f"- {certificate['attack_risk']['in_words']}"
    yield f"- label `{certificate['labels']['column']}`, between {low:g} and {high:g}"
    yield f"- not protected: {', '.join(certificate['not_protected'])}"
    yield from (f"- weak: {reason}" for reason in certificate["weak"])
    yield from ("", "## Use", "", "```sh")
    fit = Release.load(told.folder, verify=False).fit_command(told.folder.name)
    yield from (f"labeldp verify {told.folder.name}", fit, "```")


def _document(make: Callable[[Described], dict[str, Any]]) -> Callable[[Described], str]:
    return lambda told: json.dumps(make(told), indent=2, ensure_ascii=False) + "\n"


KINDS: dict[str, Callable[[Described], str]] = {
    "croissant": lambda told: croissant_of(told.folder, told.certificate),
    "registry": _document(registry),
    "datapackage": _document(datapackage),
    "card": card,
}


def describe(directory: str | Path, kind: str) -> str:
    """The text of one description of a release that verifies."""
    if kind not in KINDS:
        raise InputError(f"`kind` must be {', '.join(KINDS)}, not {kind!r}")
    return KINDS[kind](Described.of(Path(directory)))
