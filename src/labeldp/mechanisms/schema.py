"""The certificate's JSON schema: what all certificates have, and what mechanisms declare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labeldp.mechanisms.registry import mechanisms

_HERE = Path(__file__).parent


def read_schema(path: Path) -> dict[str, Any]:
    """A JSON schema that stands in a file."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


FLOOR = read_schema(_HERE / "floor.schema.json")
DRAW = read_schema(_HERE / "draw.schema.json")


def certificate_schema() -> dict[str, Any]:
    """The schema of a certificate of any mechanism that is known.

    `floor`, `draw` and `noise` stand in every certificate, null where a mechanism has none;
    other sections in those of their mechanism.
    """
    known = mechanisms()
    whole = read_schema(_HERE / "certificate.schema.json")
    parts = whole["properties"]
    for mechanism in known:
        parts |= mechanism.sections
    parts["mechanism"]["enum"] = [mechanism.name for mechanism in known]
    accountants = {name: None for mechanism in known for name in mechanism.accountants}
    parts["accountant"]["properties"]["name"]["enum"] = list(accountants)
    return whole
