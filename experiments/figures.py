"""What a comparison found, as plain values: JSON both ways, so that a page can be made again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Figure:
    """Squared errors of one way at one budget: an exact expectation, or several repetitions."""

    way: str
    ours: bool
    epsilon: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def spread(self) -> float | None:
        """The deviation of one repetition; None of an exact expectation."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Outcome:
    """All figures of a table, and the fits with all labels that they are compared with."""

    name: str
    rows: int
    columns: int
    label_range: str
    explained: float
    """R² of plain least squares with all labels on the raw features."""
    largest_leverage: float
    raw: float
    """Squared error of that fit."""
    encoded: float
    """The same on the features as labeldp encodes them by default, which all ways are given."""
    chosen: tuple[str, ...]
    """The mechanism that auto chose at each budget."""
    refused: tuple[float, ...]
    """The ε at which `plan` sees no gain over the mean of the labels and must be told to go on."""
    figures: tuple[Figure, ...]

    @property
    def epsilons(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys(figure.epsilon for figure in self.figures))

    @property
    def ways(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(figure.way for figure in self.figures))

    def figure(self, way: str, epsilon: float) -> Figure:
        return next(f for f in self.figures if (f.way, f.epsilon) == (way, epsilon))

    def excess(self, error: float) -> float:
        """By how much an error is above that of the raw fit, relative to it."""
        return error / self.raw - 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Outcome:
        figures = tuple(
            Figure(**{**each, "values": tuple(each["values"])}) for each in document["figures"]
        )
        lists = {name: tuple(document[name]) for name in ("chosen", "refused")}
        return cls(**{**document, **lists, "figures": figures})
