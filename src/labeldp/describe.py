"""Descriptions of a release for catalogues: Croissant, a registry of DP deployments, a card.

Each is a function of what stands in the release: its certificate, its files, their digests and
columns. What the curator did not say (`release --about`) is left out or called "not stated".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labeldp.errors import InputError, ReleaseError
from labeldp.io_util import read_json
from labeldp.release.files import Release
from labeldp.release.pending import CERTIFICATE
from labeldp.release.side_files import croissant_text, description_of, sha256_of, title_of
from labeldp.verification import verify

KINDS = ("croissant", "registry", "card")
NOT_STATED = "not stated"


def describe(directory: str | Path, kind: str) -> str:
    """Return one description of a release; refuse a release that does not verify."""
    if kind not in KINDS:
        raise InputError(f"`kind` must be {', '.join(KINDS)}, not {kind!r}")
    folder = Path(directory)
    verification = verify(folder)
    if not verification.valid:
        raise ReleaseError(f"{folder} does not verify: {verification.problems[0]}")
    certificate = read_json(folder / CERTIFICATE)
    if kind == "croissant":
        return croissant_text(folder, certificate)
    if kind == "registry":
        entry = registry_entry(certificate, folder.resolve().name)
        return json.dumps(entry, indent=2, ensure_ascii=False) + "\n"
    return dataset_card(certificate, folder.resolve())


def registry_entry(certificate: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an entry for the registry of DP deployments, all three tiers."""
    about = certificate.get("about") or {}
    low, high = certificate["label_range"]
    labels, software = certificate["labels"], certificate["software"]
    basics = {
        "name": title_of(certificate),
        "data_curators": about.get("curator") or NOT_STATED,
        "intended_use": about.get("purpose") or NOT_STATED,
        "data_product_type": "Dataset",
        "data_product_region": about.get("region") or NOT_STATED,
        "description": description_of(certificate),
        "publication_date": about.get("date") or NOT_STATED,
    }
    guarantee = {
        "variant_name": name,
        "privacy_unit": certificate["unit"],
        "privacy_parameters": {"epsilon": certificate["epsilon"], "delta": certificate["delta"]},
        "model_name": "central label differential privacy",
        "release_type": "one-time",
        "data_source_type": "a table with public features and a private label",
        "access_type": "static files",
    }
    details = {
        "data_domain": f"labels between {low:g} and {high:g}; "
        f"why: {about.get('why_label_range') or NOT_STATED}",
        "unprotected_quantities": certificate["not_protected"],
        "privacy_unit_details": certificate["definition"],
        "privacy_parameters_details": {
            "accountant": certificate["accountant"],
            "curve": certificate["curve"],
            "groups": certificate["groups"],
            "why": about.get("why_epsilon") or NOT_STATED,
        },
        "actors": certificate["trust_model"],
        "post_processing": "none of what is published; fits on it cost no privacy",
        "composition": certificate.get("ledger") or "this release alone; no ledger was kept",
        "preprocessing_and_hyperparameter_tuning": "chosen from public features and stated facts "
        f"alone; labels outside their range: {labels['outside_range']}; missing labels: "
        f"{labels['missing']}",
        "mechanisms": {
            "library": software,
            "mechanism": certificate["mechanism"],
            "timing_channels": "a run's duration is not part of what is published",
            "floating_point": certificate["numerics"],
            "platform": certificate.get("environment") or NOT_STATED,
            "access_controls": "the curator's own",
            "code_version": software["version"],
        },
        "justification": certificate["accountant"]["basis"],
    }
    return basics | guarantee | details


_CARD = """\
---
{head}
---

# {title}

{description}.

## Who and why

{about}

## Files

| file | bytes | SHA-256 |
|---|---|---|
{files}

## Privacy

{privacy}

## Use

```sh
labeldp verify {folder}
{fit}
```
"""


def dataset_card(certificate: dict[str, Any], folder: Path) -> str:
    """Return a dataset card: Markdown under a YAML header."""
    about, title = certificate.get("about") or {}, title_of(certificate)
    low, high = certificate["label_range"]
    head = {"pretty_name": title, "tags": ["differential-privacy", "regression", "tabular"]}
    if licence := about.get("licence"):
        head["license"] = licence
    privacy = [
        certificate["definition"],
        f"unit: {certificate['unit']}",
        certificate["attack_risk"]["in_words"],
        f"label `{certificate['labels']['column']}`, between {low:g} and {high:g}",
        f"not protected: {', '.join(certificate['not_protected'])}",
        *(f"weak: {reason}" for reason in certificate["weak"]),
    ]
    names = ("curator", "contact", "purpose", "region", "licence", "date")
    return _CARD.format(
        # every JSON value is a YAML value
        head="\n".join(f"{key}: {json.dumps(v, ensure_ascii=False)}" for key, v in head.items()),
        title=title,
        description=description_of(certificate),
        about="\n".join(f"- {name}: {about.get(name) or NOT_STATED}" for name in names),
        files="\n".join(
            f"| `{path.name}` | {path.stat().st_size:,} | `{sha256_of(path)}` |"
            for path in sorted(folder.iterdir())
        ),
        privacy="\n".join(f"- {line}" for line in privacy),
        folder=folder.name,
        fit=Release.load(folder, verify=False).fit_command(folder.name),
    )
