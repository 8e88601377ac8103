"""Descriptions of a release for catalogues: Croissant, a registry of DP deployments, a card.

Each is a function of what stands in the release: its certificate, its files, their digests and
columns. What the curator did not say (`release --about`) is left out or called "not stated".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labeldp.errors import InputError, ReleaseError
from labeldp.release.certificate import ABOUT
from labeldp.release.files import Release
from labeldp.release.side_files import croissant_text, description_of, sha256_of, title_of
from labeldp.verification import verify

_TEMPLATES = {"registry": "registry.json", "card": "dataset_card.md"}
KINDS = ("croissant", *_TEMPLATES)


def describe(directory: str | Path, kind: str) -> str:
    """Return one description of a release; refuse a release that does not verify."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    if kind not in KINDS:
        raise InputError(f"`kind` must be {', '.join(KINDS)}, not {kind!r}")
    verification = verify(directory)
    if not verification.valid:
        raise ReleaseError(f"{directory} does not verify: {verification.problems[0]}")
    folder = Path(directory).resolve()  # "." has a name too
    release = Release.load(folder, verify=False)
    if kind == "croissant":
        return croissant_text(folder, release.certificate)
    environment = Environment(
        loader=PackageLoader("labeldp"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["json"] = _json
    about = release.certificate["about"] or {}
    low, high = release.certificate["label_range"]
    return environment.get_template(_TEMPLATES[kind]).render(
        about={name: about.get(name) or "not stated" for name in ABOUT},
        certificate=release.certificate,
        title=title_of(release.certificate),
        description=description_of(release.certificate),
        label_range=f"between {low:g} and {high:g}",
        folder=folder.name,
        files=[
            {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in sorted(folder.iterdir())
        ],
        fit_command=release.fit_command(folder.name),
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # also a value of YAML
