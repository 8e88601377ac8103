"""The adapters: the only place here that knows names which a rebuild may move.

What is not on the front page of `labeldp` is imported here, and asked for in plain numbers: an
answer's arguments are what stands in the records. When code moves, these lines follow it; the
records, and everything else in this folder, stay.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from labeldp import DatasetBounds, LocalEngine, Plan, PlanError, Release, Source
from labeldp.accounting import gaussian
from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.neighbors import NeighborFamily, residual_cosine
from labeldp.accounting.privacy_profile import (
    Bounds,
    PrivacyProfile,
    SubsampledProfile,
    affordable_delta,
    best_true_positive_rate,
    group_delta,
    inclusion_probability,
    most_bags,
)
from labeldp.accounting.sketch import (
    Measurement,
    SketchProfile,
    added_variance,
    default_measurement,
    measurement_cost,
)
from labeldp.accounting.weighted_bags import RandomWeightsProfile, realised_mu
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.io_util import json_digest
from labeldp.mechanisms import bags as bags_module, registry
from labeldp.mechanisms.design_summary import summarize_design
from labeldp.mechanisms.options import Encoding
from labeldp.releases.certificate import claimed_fields, seal

# --- names inside the package -------------------------------------------------------------------
from labeldp.sampling.streams import Randomness
from labeldp_paper.theory.earlier import random_projection_max_bags, theorem1_bags
from labeldp_paper.theory.privacy import Theorem2, Theorem3
from labeldp_paper.theory.utility import theorem1_utility

# ------------------------------------------------------------------------------------------------
from tests.seeds import seeds_from

Range = tuple[float, float]
Answers = dict[str, Callable[..., Any]]


@contextmanager
def pinned_seeds(name: str) -> Iterator[None]:
    """Bags drawn from public seeds that follow from a name, not from the operating system."""
    with patch.object(bags_module, "fresh_seed", seeds_from(f"golden {name}")):
        yield


@contextmanager
def recorded_mechanisms() -> Iterator[None]:
    """Only those that there were when a comparison of all was recorded."""
    then = ("wtd-flag", "sampled-wtd-flag", "sampled-noisy-wtd-lag")
    recorded = tuple(registry.mechanism_named(name) for name in then)
    with patch.object(registry, "MECHANISMS", recorded):
        yield


LATER = {
    "": ("warnings", "anyway", "table"),
    "forecast": (
        "added_ms",
        "added_low",
        "added_high",
        "added_exact",
        "residual_source",
        "fitted_ms",
        "weighed_ms",
    ),
}
"""Names that plan files have had since they were recorded, by the part they stand in."""


SINCE = {
    "": ("weak", "anyway", "mu", "label_noise_std", "about", "released_at"),
    "utility": (
        "added_rms",
        "added_rms_low",
        "added_rms_high",
        "added_of_range",
        "excess_of_residual",
        "added_basis",
    ),
}
"""Names that certificates have had since, by the part they stand in."""


SAID = {
    r"`numeric=\['([^']*)'\]` to change": r"--numeric \1 to change",
}
"""Notes named options of the command line, to users of Python as well; now they name arguments."""


def said_as_recorded(value: Any) -> Any:
    """The same document with the notes as they were worded then."""
    if isinstance(value, dict):
        return {name: said_as_recorded(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [said_as_recorded(entry) for entry in value]
    if isinstance(value, str):
        for now, then in SAID.items():
            value = re.sub(now, then, value)
    return value


def certificate_as_recorded(fields: dict[str, Any]) -> dict[str, Any]:
    """A certificate, or what one claims, without the names that it has had since."""
    kept = {name: value for name, value in fields.items() if name not in SINCE[""]}
    utility = {n: value for n, value in kept["utility"].items() if n not in SINCE["utility"]}
    return kept | {"utility": utility}


def published_as_recorded(found: Release) -> dict[str, Any]:
    """A release's certificate, which has the digest of its features with their notes as then."""
    certificate = certificate_as_recorded(found.certificate)
    features, digests = found.features.to_json(), certificate["digests"]
    assert digests["features"] == json_digest(features)
    then = {"features": json_digest(said_as_recorded(features))}
    return certificate | {"digests": digests | then}


def as_recorded(document: dict[str, Any]) -> dict[str, Any]:
    """A plan file without the names that it has had since, sealed again."""
    kept = {name: value for name, value in document.items() if name not in LATER[""]}
    later = LATER["forecast"]
    forecast = {name: value for name, value in kept["forecast"].items() if name not in later}
    return seal(said_as_recorded(kept | {"forecast": forecast, "format": "labeldp-plan/1"}))


def offer_as_recorded(plan: dict[str, Any]) -> dict[str, Any]:
    """What was recorded of a mechanism's plan beside those of others."""
    forecast, names = plan["forecast"], ("mechanism", "bags", "bag_size")
    said = {name: plan[name] for name in names} | {"reason": None}
    return said | {"mean_mse": forecast["mean_mse"], "excess": forecast["excess_mean"]}


def release(made: Plan, source: Source, seed: int) -> Release:
    """Drawn with experiment randomness."""
    return made.release(source, randomness=Randomness.experiment(seed))


def claimed(made: Plan) -> dict[str, Any]:
    """The fields of a certificate that follow from its claim."""
    return certificate_as_recorded(claimed_fields(made.claim))


def statistics(source: Source, **encoding: Any) -> dict[str, Any]:
    """Exact sums of a table and what follows: integers as they are, rationals as fractions."""
    engine = LocalEngine(1)
    found = summarize_design(source, engine=engine, encoding=Encoding(**encoding))
    gram, moments = engine.run_pass(
        "label sums",
        source,
        GramAccumulator(found.features),
        LabelCrossProducts(found.features, found.labels),
    )
    assert gram.digest() == found.feature_sums
    return {
        "features": said_as_recorded(found.features.to_json()),
        "names": list(found.features.names),
        "gram": gram.exact(range(gram.width)).tolist(),
        "feature_sums": found.feature_sums,
        "labels": asdict(found.labels),
        "moments": [moments.rows, moments.total, moments.square, *moments.cross.tolist()],
        "rank": found.factor.rank,
        "kept": list(found.factor.kept),
        "max_leverage": found.leverage.maximum,
        "costliest": [found.leverage.row, found.leverage.column],
        "facts": asdict(found.facts),
        "notes": said_as_recorded(found.notes),
    }


def _measurement(price: tuple[float, float] | None) -> Measurement | None:
    return None if price is None else Measurement(*price)


def _facts(public: tuple[Any, ...]) -> DatasetBounds:
    return DatasetBounds(*public)


def _with(name: str) -> Answers:
    """Questions about wtd-flag under the accountant of this name."""

    def grouped(law: PrivacyProfile, group: int) -> PrivacyProfile:
        return law.group(group) if group > 1 else law

    def law(public: tuple[Any, ...], bags: int, floor: float, price: Price) -> PrivacyProfile:
        facts = _facts(public)
        if name == "exact-worst-case":
            facts = replace(facts, max_leverage=None)
        return SketchProfile(facts, bags, floor, *measurement_cost(_measurement(price)))

    return {
        "delta": lambda public, bags, floor, epsilon, price=None, group=1: (
            law(public, bags, floor, price).group(group).delta(epsilon).upper
        ),
        "epsilon": lambda public, bags, floor, delta, price=None, group=1: _finite(
            epsilon_at(grouped(law(public, bags, floor, price), group), delta)
        ),
        "max_bags": lambda public, floor, epsilon, delta, price=None: calibrate(
            law(public, 1, floor, price), "bags", epsilon, delta
        ),
        "min_floor": lambda public, bags, epsilon, delta, price=None: calibrate(
            law(public, bags, 1.0, price), "floor", epsilon, delta
        ),
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


Price = tuple[float, float] | None


def _one_bag(
    public: tuple[Any, ...], floor: float, price: tuple[float, float] = (0.0, 0.0)
) -> SketchProfile:
    return SketchProfile(_facts(public), 1, floor, *price, disjoint=True)


def smallest(
    law: Callable[[int], PrivacyProfile], budget: tuple[float, float], first: int = 1
) -> int:
    """The fewest rows of a private bag: all with more are private as well."""
    epsilon, delta = budget
    sizes = range(first, 10**7)
    return sizes[bisect_left(sizes, True, key=lambda k: law(k).delta(epsilon).upper <= delta)]


def _bag_of_size(
    size: int,
    labels: tuple[float, float],
    residual_ms: float,
    features: int | None,
    factor: float | None,
) -> SketchProfile:
    leverage = None if factor is None or features is None else min(1.0, factor * features / size)
    facts = DatasetBounds(size, labels, features, leverage)
    return SketchProfile(facts, 1, residual_ms * size * (1.0 - 1e-15))


SAMPLED: Answers = {
    "delta": lambda public, floor, epsilon, price=(0.0, 0.0), group=1, chance=1.0: (
        SubsampledProfile(_one_bag(public, floor, price), chance).group(group).delta(epsilon).upper
    ),
    "epsilon": lambda public, floor, delta, price=(0.0, 0.0), group=1, chance=1.0: epsilon_at(
        SubsampledProfile(_one_bag(public, floor, price), chance).group(group), delta
    ),
    "max_bags": lambda public, rows, floor, epsilon, delta, price=(0.0, 0.0): most_bags(
        _one_bag(public, floor, price), rows, public[0], epsilon, delta
    ),
    "min_floor": lambda public, epsilon, delta, price=(0.0, 0.0), chance=1.0: calibrate(
        SubsampledProfile(_one_bag(public, 1.0, price), chance), "floor", epsilon, delta
    ),
    "min_bag_size": lambda labels, residual_ms, epsilon, delta, features=None, factor=None: (
        smallest(
            lambda size: _bag_of_size(size, labels, residual_ms, features, factor),
            (epsilon, delta),
            (features or 0) + 1,
        )
    ),
}
"""Questions about one bag: `public` is (rows, label range, rank, largest leverage, centred)."""


def _largest(mu: Any) -> GaussianProfile:
    return GaussianProfile(float(np.max(np.asarray(mu, float))))


def _weights(public: tuple[Any, ...]) -> RandomWeightsProfile:
    return RandomWeightsProfile(*public[:4])


def _drawn(public: tuple[Any, ...], chance: float) -> SubsampledProfile:
    return SubsampledProfile(_weights(public), chance)


NOISY: Answers = {
    "delta": lambda public, epsilon, chance=1.0: _drawn(public, chance).delta(epsilon).upper,
    "epsilon": lambda public, delta, chance=1.0: epsilon_at(_drawn(public, chance), delta),
    "max_bags": lambda public, epsilon, delta: most_bags(
        _weights(public), public[4] or 0, public[0], epsilon, delta
    ),
    "min_noise_std": lambda public, epsilon, delta, chance=1.0: calibrate(
        _drawn(public, chance), "noise_std", epsilon, delta
    ),
    "min_bag_size": lambda labels, fraction, epsilon, delta, std=1.0, _=None: smallest(
        lambda size: RandomWeightsProfile(size, labels, fraction, std), (epsilon, delta)
    ),
    "target_mu": lambda epsilon, delta, chance=1.0: calibrate(
        SubsampledProfile(GaussianProfile(1.0), chance), "mu", epsilon, delta
    ),
    "realised_mu": lambda weights, noisy, width, std: realised_mu(
        weights, np.asarray(noisy, bool), width, std
    ).tolist(),
    "realised_delta": lambda mu, epsilon, chance=1.0: (
        SubsampledProfile(_largest(mu), chance).delta(epsilon).upper
    ),
    "realised_epsilon": lambda mu, delta, chance=1.0: epsilon_at(
        SubsampledProfile(_largest(mu), chance), delta
    ),
}
"""`public` is (bag size, label range, noisy fraction, noise deviation, rows of the table)."""


def _theorem2(rows: int, labels: Range, *promise: Any) -> Theorem2:
    return Theorem2(rows, (labels[0], labels[1]), *promise)


def _refused(question: Any, *numbers: float) -> Any:
    """None where the theorem has no answer."""
    try:
        return question(*numbers)
    except PlanError:
        return None


def _delta(theorem: Theorem2 | Theorem3, bag_size: int, epsilon: float) -> float | None:
    value = theorem.least_delta(bag_size, epsilon)
    return value if value < 1.0 else None


THEOREM2: Answers = {
    "delta": lambda *given: _delta(_theorem2(*given[:5]), *given[5:]),
    "epsilon": lambda *given: _finite(_theorem2(*given[:5]).least_epsilon(*given[5:])),
    "min_bag_size": lambda *given: _refused(_theorem2(*given[:5]).min_bag_size, *given[5:]),
    "terms": lambda *given: list(
        map(float, _refused(_theorem2(*given[:5]).terms, *given[5:]) or [])
    ),
}
THEOREM3: Answers = {
    "delta": lambda labels, fraction, size, epsilon, *more: _delta(
        Theorem3(labels, fraction, *more), size, epsilon
    ),
    "epsilon": lambda labels, fraction, size, delta, *more: _finite(
        Theorem3(labels, fraction, *more).least_epsilon(size, delta)
    ),
    "min_bag_size": lambda labels, fraction, epsilon, delta, *more: _refused(
        Theorem3(labels, fraction, *more).min_bag_size, epsilon, delta
    ),
}
GAUSSIAN: Answers = {
    "delta": gaussian.delta,
    "upper": gaussian.upper,
    "epsilon": lambda delta, mu: epsilon_at(GaussianProfile(mu), delta),
    "mu": lambda epsilon, delta: calibrate(GaussianProfile(1.0), "mu", epsilon, delta),
}


@dataclass(frozen=True)
class Flat(PrivacyProfile):
    """The same δ at every ε."""

    value: float

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:  # noqa: ARG002
        return Bounds(self.value, self.value, self.value)


def _affordable_bags(rows: int, bag_size: int, given: float, delta: float) -> float:
    return most_bags(Flat(given), rows, bag_size, 1.0, delta)


def _bounds(bags: int, tau: float, leverage: float, cosine: float, epsilon: float) -> list[float]:
    found = NeighborFamily(bags, tau, leverage, cosine).delta(epsilon)
    return [found.lower, found.estimate, found.upper]


def _lower_bound(price: tuple[float, float], measured: float, width: float) -> list[float]:
    measurement = Measurement(*price)
    return [measurement.noise(width), measurement.lower_bound(measured, 2.0**-20, width)]


OTHER: Answers = {
    "family bounds": _bounds,
    "residual_cosine": residual_cosine,
    "membership": inclusion_probability,
    "affordable_delta": affordable_delta,
    "affordable_bags": _affordable_bags,
    "group_delta": group_delta,
    "best_true_positive_rate": best_true_positive_rate,
    "default_measurement": lambda *budget: list(asdict(default_measurement(*budget)).values()),
    "added_variance": added_variance,
    "lower_bound": _lower_bound,
    "theorem 1 utility": lambda *given: theorem1_utility(*given).log10_failure,
    "random projection": random_projection_max_bags,
}

ANSWERS: dict[str, Answers] = {
    **{f"wtd-flag {name}": _with(name) for name in ("exact", "exact-worst-case")},
    "wtd-flag paper": {
        "max_bags": lambda public, floor, epsilon, delta, _: theorem1_bags(
            *public[:2], floor / public[0], epsilon, delta
        )[0]
    },
    "sampled-wtd-flag exact": SAMPLED,
    "sampled-wtd-flag paper": THEOREM2,
    "sampled-noisy-wtd-lag exact": NOISY,
    "sampled-noisy-wtd-lag paper": THEOREM3,
    "gaussian": GAUSSIAN,
    "other": OTHER,
}
