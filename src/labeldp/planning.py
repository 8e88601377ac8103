"""A plan: mechanism + public facts + budget → what will be published and what it promises.

Here the data road (source → features → statistics) and the privacy road (accounting) meet.
`plan` reads features and no labels: it fixes what will be published and with it the whole
privacy curve. `Plan.release` then reads the labels once and can change nothing of what was
promised (theory §6).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labeldp._random import Randomness
from labeldp.engines import Engine, engine_for
from labeldp.errors import InputError, PlanError
from labeldp.features import FeatureMap
from labeldp.files import check_target
from labeldp.mechanisms import MECHANISMS, Draft, Request, mechanism_named, read_claim
from labeldp.mechanisms.forecast import Forecast
from labeldp.mechanisms.survey import Encoding
from labeldp.release import Drawing, Release, seal
from labeldp.source import Source
from labeldp.statistics import LabelGrid

FORMAT = "labeldp-plan/1"


@dataclass(frozen=True)
class Plan(Draft):
    """What will be published and what it promises; every field is public."""

    def release(
        self,
        source: Source,
        *,
        engine: Engine | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Read the labels once and draw the release, in memory."""
        check_memory(self.claim.bags, len(self.features.names))
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
        mechanism = MECHANISMS[self.claim.mechanism]
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
            read_claim(document),
            FeatureMap.from_json(document["features"]),
            LabelGrid(**document["labels"]),
            document["feature_sums"],
            Forecast(**{k: math.inf if v is None else v for k, v in forecasts}),
            tuple(document["notes"]),
        )


MOST_NUMBERS = 500_000_000
"""A release drawn in memory: four gigabytes of it."""


def check_memory(bags: int, columns: int) -> None:
    """Refuse to draw in memory what does not fit an ordinary machine's."""
    if bags * (columns + 1) > MOST_NUMBERS:
        raise PlanError(
            f"{bags:,} bags of {columns} columns are too many to hold in memory; write them to a "
            "directory as they are drawn (plan.release_to, labeldp release)"
        )


def plan(
    source: Source,
    *,
    epsilon: float,
    delta: float,
    mechanism: str = "wtd-flag",
    accountant: str = "exact",
    floor: str | None = None,
    residual_ms: float | None = None,
    residual_guess: float | None = None,
    bags: int | None = None,
    bag_size: int | None = None,
    over_draw: bool = False,
    min_eigenvalue: float | None = None,
    noise_std: float | None = None,
    noisy_fraction: float | None = None,
    noisy_column: str | None = None,
    bag_seed: int | None = None,
    compact: bool = False,
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

    mechanism: "wtd-flag", "sampled-wtd-flag", "sampled-noisy-wtd-lag"; `compare` weighs them.
    floor: "measured+added" (default), "measured", "added", or "declared", which needs
        `residual_ms`, a promise from public knowledge that the residual mean square (of every
        bag, if bags are drawn) is at least that. Mechanisms that aggregate features only.
    residual_guess: a guess of the residual mean square for choosing `bags` and for the
        forecast; it affects utility, never privacy. Default: a tenth of the label range, squared.
    bags: their number; default: where more stop paying, within `max_megabytes`.
    bag_size: rows in each bag, for mechanisms that draw bags; default: the best forecast.
    over_draw: claim the guarantee over the draw of the bags instead of given the bags.
    min_eigenvalue: Theorem 2's promise, for sampled-wtd-flag with the accountant "paper".
    noise_std: noise deviation in label units, for sampled-noisy-wtd-lag; default: what the
        budget needs.
    noisy_fraction, noisy_column: which rows' labels carry noise, each by its own coin (default
        1: all), or those that a public column of the table marks.
    bag_seed: for experiments: bags that can be repeated.
    compact: publish wtd-flag's aggregates as d+1 rows that carry the same information.
    max_leverage: leave out design columns that give some row a higher leverage than this.
    strict: refuse constant and dependent columns instead of leaving them out.
    """
    given = {name: value for name, value in locals().items() if name in _ASKED}
    return plan_request(mechanism, make_request(**given), source, engine or engine_for(source))


_ENCODING = tuple(Encoding.__dataclass_fields__)
_ASKED = (*Request.__dataclass_fields__, *_ENCODING)


def make_request(**choices: Any) -> Request:
    """A request from the keywords of `plan`."""
    encoding = {name: choices.pop(name) for name in _ENCODING if name in choices}
    return Request(**choices, encoding=Encoding(**encoding))


def plan_request(mechanism: str, request: Request, source: Source, engine: Engine) -> Plan:
    """Plan what was asked."""
    draft = mechanism_named(mechanism).draft(request, source, engine)
    return Plan(**{name: getattr(draft, name) for name in Draft.__dataclass_fields__})
