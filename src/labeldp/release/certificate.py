"""A certificate as a dictionary with typed properties for its main fields."""

from __future__ import annotations

from typing import Any

from labeldp.io_util import json_digest


class Certificate(dict[str, Any]):
    """The JSON document that states what a release promises; every field is public."""

    @property
    def mechanism(self) -> str:
        """Name of the mechanism."""
        return str(self["mechanism"])

    @property
    def epsilon(self) -> float:
        """The privacy budget ε."""
        return float(self["epsilon"])

    @property
    def delta(self) -> float:
        """The privacy budget δ."""
        return float(self["delta"])

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return int(self["rows"])

    @property
    def bags(self) -> int:
        """Number of aggregates drawn."""
        return int(self["bags"])

    @property
    def label(self) -> str:
        """Name of the private column."""
        return str(self["labels"]["column"])

    @property
    def label_range(self) -> tuple[float, float]:
        """Public bounds of the labels."""
        low, high = self["label_range"]
        return float(low), float(high)

    @property
    def unit(self) -> str:
        """Unit of privacy, in words."""
        return str(self["unit"])

    @property
    def mu(self) -> float | None:
        """μ if the release is a Gaussian mechanism; else None."""
        mu = self["mu"]
        return None if mu is None else float(mu)

    @property
    def attack(self) -> str:
        """Success of the best attack, in words."""
        return str(self["attack_risk"]["in_words"])

    @property
    def weak(self) -> tuple[str, ...]:
        """Reasons why the guarantee protects little; empty if it protects."""
        return tuple(map(str, self["weak"]))

    @property
    def private(self) -> bool:
        """False if random numbers came from a seed, for a test or an experiment."""
        return bool(self["randomness"]["private"])


def seal(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the digest of all other fields, added or renewed."""
    body = {name: value for name, value in document.items() if name != "seal"}
    return {**body, "seal": json_digest(body)}
