"""A plan: mechanism + public facts + budget → what will be published and what it promises.

Here the data road (source → features → statistics) and the privacy road (accounting) meet.
`plan` reads features and no labels: it fixes the number of bags, the residual floor that
number needs, and with them the whole privacy curve. `Plan.release` then reads the labels
once and can change nothing of what was promised (theory §6).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from labeldp._check import in_range, positive
from labeldp._random import Randomness
from labeldp.accounting import ACCOUNTANTS, FloorMode, default_measurement
from labeldp.certificate import Claim, seal
from labeldp.engines import Engine, engine_for
from labeldp.errors import InputError, PlanError
from labeldp.features import FeatureMap
from labeldp.mechanisms import WTD_FLAG, check_mechanism
from labeldp.release import Release
from labeldp.run import run
from labeldp.sizing import Terms, cap_from_size, check_size, choose_bags
from labeldp.source import Source
from labeldp.statistics import LabelGrid
from labeldp.survey import survey
from labeldp.utility import Forecast, forecast

FORMAT = "labeldp-plan/1"


@dataclass(frozen=True)
class Plan:
    """What will be published and what it promises; every field is public."""

    claim: Claim
    features: FeatureMap = field(repr=False)
    labels: LabelGrid
    feature_sums: str
    """SHA-256 of the exact feature sums: the release must see the same features."""
    forecast: Forecast
    notes: tuple[str, ...] = ()

    def release(
        self,
        source: Source,
        *,
        engine: Engine | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Read the labels once and draw the release."""
        return run(
            self.claim,
            self.features,
            self.labels,
            self.feature_sums,
            source,
            engine or engine_for(source),
            randomness or Randomness.from_os(),
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values, sealed; an infinite forecast is null."""
        return seal(
            {
                "format": FORMAT,
                **self.claim.to_json(),
                "curve": self.claim.curve(),
                "forecast": {
                    name: value if math.isfinite(value) else None
                    for name, value in asdict(self.forecast).items()
                },
                "labels": asdict(self.labels),
                "features": self.features.to_json(),
                "feature_sums": self.feature_sums,
                "notes": list(self.notes),
            }
        )

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Plan:
        """Read a plan back; the inverse of `to_json`. One that was altered since is refused."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InputError(f"this is not a plan of format {FORMAT}; make one with labeldp plan")
        if seal(document)["seal"] != document.get("seal"):
            raise InputError("the plan was altered since it was made; make a new one")
        forecasts = document["forecast"].items()
        return cls(
            Claim.from_json(document),
            FeatureMap.from_json(document["features"]),
            LabelGrid(**document["labels"]),
            document["feature_sums"],
            Forecast(**{k: math.inf if v is None else v for k, v in forecasts}),
            tuple(document["notes"]),
        )


def plan(
    source: Source,
    *,
    epsilon: float,
    delta: float,
    mechanism: str = WTD_FLAG,
    accountant: str = "exact",
    floor: str = FloorMode.MEASURED_ADDED.value,
    residual_ms: float | None = None,
    residual_guess: float | None = None,
    bags: int | None = None,
    max_megabytes: float = 128.0,
    min_count: int | None = None,
    intercept: bool = True,
    standardise: bool = True,
    indicators: bool = True,
    max_leverage: float | None = None,
    strict: bool = False,
    engine: Engine | None = None,
) -> Plan:
    """Plan a release from features and public facts; labels are not read.

    floor: "measured+added" (default), "measured", "added", or "declared", which needs
        `residual_ms`, a promise from public knowledge that the residual mean square is at
        least that.
    residual_guess: a guess of the residual mean square for choosing `bags` and for the
        forecast; it affects utility, never privacy. Default: a tenth of the label range, squared.
    bags: their number; default: where more stop paying, within `max_megabytes`.
    max_leverage: leave out design columns that give some row a higher leverage than this.
    strict: refuse constant and dependent columns instead of leaving them out.
    """
    positive(epsilon=epsilon, max_megabytes=max_megabytes)
    in_range(0, 1, delta=delta)
    check_mechanism(mechanism)
    if accountant not in ACCOUNTANTS:
        raise InputError(f"accountant {accountant!r} is unknown; choose {', '.join(ACCOUNTANTS)}")
    mode = _floor_mode(floor, residual_ms, accountant)
    engine = engine or engine_for(source)
    found = survey(
        source,
        min_count=min_count,
        intercept=intercept,
        standardise=standardise,
        indicators=indicators,
        max_leverage=max_leverage,
        strict=strict,
        engine=engine,
    )
    terms = Terms(
        facts=found.facts,
        epsilon=epsilon,
        delta=delta,
        accountant=ACCOUNTANTS[accountant],
        mode=mode,
        measurement=default_measurement(epsilon, delta) if mode.measures else None,
    )
    guess = _residual(residual_ms, residual_guess, found.facts.width)
    if bags is None:
        bags = choose_bags(terms, guess, cap_from_size(max_megabytes, terms.rank))
    positive(bags=bags)
    check_size(bags, terms.rank)
    floor_ss = _floor(terms, bags, residual_ms)
    return Plan(
        Claim(
            mechanism,
            accountant,
            epsilon,
            delta,
            bags,
            floor_ss,
            mode,
            terms.measurement,
            found.facts,
        ),
        found.features,
        found.labels,
        found.feature_sums,
        forecast(
            rows=found.facts.rows,
            rank=terms.rank,
            bags=bags,
            residual_ms=guess,
            added_variance=terms.expected_noise(floor_ss, guess),
        ),
        found.notes,
    )


def _residual(declared: float | None, guessed: float | None, width: float) -> float:
    """The residual mean square to plan with: the promise, the guess, or the default guess."""
    if declared is not None:
        positive(residual_ms=declared)
        return declared
    if guessed is not None:
        positive(residual_guess=guessed)
        return guessed
    return (width / 10) ** 2


def _floor(terms: Terms, bags: int, residual_ms: float | None) -> float:
    """The floor the claim rests on: what the bags need, or the whole of what was promised."""
    needed = terms.needed_floor(bags)
    if residual_ms is None:
        return needed
    promised = residual_ms * terms.facts.rows
    if not needed <= promised:
        raise PlanError(
            f"{bags} bags need a residual mean square of {needed / terms.facts.rows:.6g}, more "
            f"than the declared {residual_ms:.6g}; ask for fewer bags or use --floor measured+added"
        )
    return promised


def _floor_mode(floor: str, residual_ms: float | None, accountant: str) -> FloorMode:
    try:
        mode = FloorMode(floor)
    except ValueError:
        known = ", ".join(mode.value for mode in FloorMode)
        raise InputError(f"floor {floor!r} is unknown; choose {known}") from None
    if (mode is FloorMode.DECLARED) != (residual_ms is not None):
        raise InputError("a declared floor and --residual-ms go together: give both or neither")
    if mode.measures and accountant == "paper":
        raise InputError(
            "the paper's theorem does not price a measured floor; use --floor declared or added"
        )
    return mode
