"""A certificate: the JSON document that it is, and what people ask of it under typed names."""

from __future__ import annotations

from typing import Any

from labeldp.io_util import json_digest


class Certificate(dict[str, Any]):
    """What a release promises; every field is public, and the registry fixes its layout."""

    @property
    def mechanism(self) -> str:
        """By its name."""
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
        """Rows of the table."""
        return int(self["rows"])

    @property
    def bags(self) -> int:
        """How many aggregates were drawn."""
        return int(self["bags"])

    @property
    def label(self) -> str:
        """The private column."""
        return str(self["labels"]["column"])

    @property
    def label_range(self) -> tuple[float, float]:
        """Public, of the labels."""
        low, high = self["label_range"]
        return float(low), float(high)

    @property
    def unit(self) -> str:
        """Whose labels are covered together, in words."""
        return str(self["unit"])

    @property
    def mu(self) -> float | None:
        """μ of the Gaussian mechanism that it is; None if it is not one."""
        mu = self["mu"]
        return None if mu is None else float(mu)

    @property
    def attack(self) -> str:
        """What the best attack finds, in words."""
        return str(self["attack_risk"]["in_words"])

    @property
    def weak(self) -> tuple[str, ...]:
        """Why the guarantee protects little; empty if it protects."""
        return tuple(map(str, self["weak"]))

    @property
    def private(self) -> bool:
        """False if it was drawn from a seed, for a test or an experiment."""
        return bool(self["randomness"]["private"])


def seal(document: dict[str, Any]) -> dict[str, Any]:
    """Add (or renew) the digest of all other fields."""
    body = {name: value for name, value in document.items() if name != "seal"}
    return {**body, "seal": json_digest(body)}
