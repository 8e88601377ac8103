"""A plan: mechanism + public facts + budget → what will be published and what it promises.

Here the data road (source → features → statistics) and the privacy road (accounting) meet. A plan
is made from features and no labels: it fixes what will be published and with it the whole privacy
curve. `Plan.release` then reads the labels once and can change nothing of what was promised
(theory §6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from labeldp._random import Randomness
from labeldp.engines import Engine, engine_for
from labeldp.errors import InputError, PlanError
from labeldp.features import FeatureMap
from labeldp.files import check_target, json_digest
from labeldp.mechanisms.forecast import Forecast, explained_ms
from labeldp.mechanisms.protocol import number
from labeldp.mechanisms.registry import mechanism_named, read_claim
from labeldp.release import (
    Claim,
    Drawing,
    FloorOutcome,
    Release,
    certify,
    drawn_fields,
    seal,
)
from labeldp.source import Source
from labeldp.statistics import Factor, LabelGrid

FORMAT = "labeldp-plan/2"
OTHER_FEATURES = "the features are not those of the plan; plan again on this table"
CONTRADICTION = "the plan contradicts itself; plan again"
LEAST_KEPT, ENOUGH_KEPT = 0.1, 0.5
"""Of what features explain: below the first a plan is refused, below the second it is warned of."""
MOST_NUMBERS = 500_000_000
"""A release drawn in memory: four gigabytes of it."""


class Part(Protocol):
    """Something public that a plan holds for its mechanism."""

    def to_json(self) -> Any: ...


@dataclass(frozen=True)
class Plan:
    """What will be published and what it promises; every field is public."""

    claim: Claim
    features: FeatureMap = field(repr=False)
    labels: LabelGrid
    feature_sums: str
    """SHA-256 of the exact feature sums (of the bags' rows, if rows are drawn): the release must
    see the same features."""
    forecast: Forecast
    notes: tuple[str, ...] = ()
    factor: Factor | None = field(default=None, repr=False, compare=False)
    """Of those feature sums, where planning has just made it; it is not written to plan files."""
    parts: Mapping[str, Part] = field(default_factory=dict, repr=False, compare=False)
    """What only this mechanism's plans hold, by the names that it declares."""
    anyway: bool = False
    """Whether it was asked for although it cannot beat the constant predictor (`worth.py`)."""

    @property
    def explained_ms(self) -> float:
        """What features are taken to explain: half of labels spread evenly over their range."""
        low, high = self.labels.range
        stated = self.forecast.residual_source == "stated"
        return explained_ms(high - low, self.forecast.residual_ms if stated else 0.0)

    @property
    def kept(self) -> float:
        """The share of that which is left to predictions; below 0 the constant one is better."""
        explained = self.explained_ms
        return 1 - self.forecast.fitted_ms / explained if explained else -math.inf

    @property
    def worthwhile(self) -> bool:
        """Whether predictions may beat the constant one, by the forecast."""
        return self.kept >= LEAST_KEPT

    @property
    def verdict(self) -> str:
        """What privacy does to predictions, in words."""
        low, high = self.labels.range
        error, kept = math.sqrt(self.forecast.added_ms), max(0.0, self.kept)
        size = (
            f"adds {number(error, 3)} to a prediction (root mean square, "
            f"{error / (high - low):.2g} of the label range)"
            if math.isfinite(error)
            else "adds errors without bound"
        )
        return (
            f"privacy {size} and leaves {kept:.0%} of what features may explain: a fit "
            f"{'may not be' if kept else 'is not'} better than the mean of the labels"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever plans must read: weak budgets, and little left to predictions."""
        weak = self.claim.weaknesses(self.claim.curve())
        poor = [self.verdict] if self.kept < ENOUGH_KEPT else []
        return (*poor, *weak)

    def release(
        self,
        source: Source,
        *,
        engine: Engine | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Read the labels once and draw the release, in memory."""
        columns = len(self.features.names)
        compact = self.claim.to_json().get("form") == "compact"
        check_memory(columns + 1 if compact else self.claim.bags, columns)
        return self._draw(source, engine, randomness).collect()

    def release_to(
        self,
        directory: str | Path,
        source: Source,
        *,
        engine: Engine | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Read the labels once and draw the release into a new directory, in bounded memory."""
        check_target(Path(directory))
        self._draw(source, engine, randomness).write(directory)
        return Release.load(directory)

    def _draw(
        self, source: Source, engine: Engine | None, randomness: Randomness | None
    ) -> Drawing:
        mechanism = mechanism_named(self.claim.mechanism)
        return mechanism.run(
            self, source, engine or engine_for(source), randomness or Randomness.from_os()
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values, sealed; an infinite forecast is null."""
        return seal(
            {
                "format": FORMAT,
                **self.claim.to_json(),
                "curve": self.claim.curve(),
                "forecast": {
                    name: None if value == math.inf else value
                    for name, value in asdict(self.forecast).items()
                },
                "labels": asdict(self.labels),
                "features": self.features.to_json(),
                "feature_sums": self.feature_sums,
                "notes": list(self.notes),
                "warnings": list(self.warnings),
                **({"anyway": True} if self.anyway else {}),
                **{name: part.to_json() for name, part in self.parts.items()},
            }
        )

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Plan:
        """Read a plan back; the inverse of `to_json`. One that was altered since is refused."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InputError(f"this is not a plan of format {FORMAT}; make one with labeldp plan")
        if seal(document)["seal"] != document.get("seal"):
            raise InputError("the plan was altered since it was made; make a new one")
        parts = mechanism_named(document["mechanism"]).parts
        forecasts: dict[str, Any] = {
            name: math.inf if value is None else value
            for name, value in document["forecast"].items()
        }
        return cls(
            read_claim(document),
            FeatureMap.from_json(document["features"]),
            LabelGrid(**document["labels"]),
            document["feature_sums"],
            Forecast(**forecasts),
            tuple(document["notes"]),
            parts={name: read(document[name]) for name, read in parts.items() if name in document},
            anyway=bool(document.get("anyway", False)),
        )

    def bind(self, source: Source, *sound: bool) -> None:
        """What must hold before a label is read: the plan is sound and is for these labels.

        `sound` is what must hold between the fields of the mechanism's own claim.
        """
        labels, claim, features = self.labels, self.claim, self.features
        if source.label_range != (labels.low, labels.high):
            raise PlanError(
                f"the plan is for labels from {labels.low:g} to {labels.high:g}; "
                "scan the table with that label range"
            )
        person = None if claim.person is None else claim.person.column
        if source.person != person:
            raise PlanError(
                f"the plan is for {_whose(person)}; scan the table with that, or plan again"
            )
        grid = LabelGrid.for_range((labels.low, labels.high), intercept=features.intercept)
        said = claim.to_json()
        agrees = (
            labels == grid
            and said["label_range"] == list(labels.range)
            and said["rows"] == features.rows
            and all(sound)
        )
        if not agrees or not claim.delta_at(claim.epsilon) <= claim.delta:
            raise PlanError(CONTRADICTION)

    def check_sums(self, digest: str) -> None:
        """That the features of a run are those of the plan."""
        if digest != self.feature_sums:
            raise PlanError(OTHER_FEATURES)

    def certifier(
        self,
        outcome: FloorOutcome | None,
        source: Source,
        grid: int,
        randomness: Randomness,
    ) -> Callable[[dict[str, str]], dict[str, Any]]:
        """What makes the certificate of a run once the digests of its tables are known."""

        def certificate(digests: dict[str, str]) -> dict[str, Any]:
            return certify(
                self.claim,
                outcome,
                **_run_fields(self.claim.drawn, source, self.labels, grid, randomness),
                anyway=self.anyway,
                digests={
                    "bags": None,
                    "features": json_digest(self.features.to_json()),
                    "feature_sums": self.feature_sums,
                    **digests,
                },
            )

        return certificate


def _whose(person: str | None) -> str:
    return "single rows (no `person`)" if person is None else f"persons (`person={person!r}`)"


def check_memory(bags: int, columns: int) -> None:
    """Refuse to draw in memory what does not fit an ordinary machine's."""
    if bags * (columns + 1) > MOST_NUMBERS:
        raise PlanError(
            f"{bags:,} bags of {columns} columns are too many to hold in memory; write them to a "
            "directory as they are drawn (plan.release_to, labeldp release)"
        )


def _run_fields(
    drawn: str, source: Source, labels: LabelGrid, grid: int, randomness: Randomness
) -> dict[str, Any]:
    """How numbers were rounded, drawn and read: all of it public, fixed before labels are read."""
    return {
        "numerics": {
            "aggregate_labels": drawn,
            "grid_exponent": grid,
            "label_exponent": labels.exponent,
            "feature_sums": "exact integers",
            "residual": "rigorous enclosure",
        },
        "randomness": drawn_fields(randomness.private),
        "labels": {
            "column": source.label,
            "outside_range": "clipped" if source.clip else "refused",
            "missing": "rows dropped" if source.drop_missing_labels else "refused",
        },
        "ledger": None,
    }
