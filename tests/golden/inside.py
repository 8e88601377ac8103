"""The adapters: the only place here that knows names which a rebuild may move.

What is not on the front page of `labeldp` is imported here, and asked for in plain numbers: an
answer's arguments are what stands in the records. When code moves, these lines follow it; the
records, and everything else in this folder, stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

import numpy as np

from labeldp import ACCOUNTANTS, Facts, LocalEngine, Plan, Release, Source

# --- names inside the package -------------------------------------------------------------------
from labeldp._random import Randomness
from labeldp.accounting import (
    Measurement,
    SketchFamily,
    added_variance,
    best_true_positive_rate,
    default_measurement,
    gaussian,
    noisy_wtd_lag,
    paper_bags,
    residual_cosine,
    sampled_wtd_flag,
    wtd_flag,
)
from labeldp.mechanisms import bags as bags_module
from labeldp.mechanisms.options import Encoding
from labeldp.mechanisms.survey import survey
from labeldp.release import claimed_fields
from labeldp.statistics import GramSum, MomentSum
from labeldp_paper import theory

# ------------------------------------------------------------------------------------------------
from tests.seeds import seeds_from

Range = tuple[float, float]
Answers = dict[str, Callable[..., Any]]


@contextmanager
def pinned_seeds(name: str) -> Iterator[None]:
    """Bags drawn from public seeds that follow from a name, not from the operating system."""
    with patch.object(bags_module, "fresh_seed", seeds_from(f"golden {name}")):
        yield


def release(made: Plan, source: Source, seed: int) -> Release:
    """Drawn with experiment randomness."""
    return made.release(source, randomness=Randomness.experiment(seed))


def claimed(made: Plan) -> dict[str, Any]:
    """The fields of a certificate that follow from its claim."""
    return claimed_fields(made.claim)


def statistics(source: Source, **encoding: Any) -> dict[str, Any]:
    """Exact sums of a table and what follows: integers as they are, rationals as fractions."""
    engine = LocalEngine(1)
    found = survey(source, engine=engine, encoding=Encoding(**encoding))
    gram, moments = engine.fold(
        "label sums",
        source,
        GramSum(found.features),
        MomentSum(found.features, found.labels),
    )
    assert gram.digest() == found.feature_sums
    return {
        "features": found.features.to_json(),
        "names": list(found.features.names),
        "gram": gram.exact(range(gram.width)).tolist(),
        "feature_sums": found.feature_sums,
        "labels": asdict(found.labels),
        "moments": [moments.rows, moments.total, moments.square, *moments.cross.tolist()],
        "rank": found.factor.rank,
        "kept": list(found.factor.kept),
        "max_leverage": found.leverage.maximum,
        "costliest": [[row.row, row.leverage, row.column] for row in found.leverage.costliest],
        "facts": asdict(found.facts),
        "notes": list(found.notes),
    }


def _measurement(price: tuple[float, float] | None) -> Measurement | None:
    return None if price is None else Measurement(*price)


def _facts(public: tuple[Any, ...]) -> Facts:
    return Facts(*public)


def _with(name: str) -> Answers:
    """Questions about wtd-flag under the accountant of this name."""
    method = ACCOUNTANTS[name]

    return {
        "delta": lambda public, bags, floor, epsilon, price=None, group=1: method.delta(
            _facts(public), bags, floor, epsilon, _measurement(price), group
        ),
        "epsilon": lambda public, bags, floor, delta, price=None, group=1: method.epsilon(
            _facts(public), bags, floor, delta, _measurement(price), group
        ),
        "max_bags": lambda public, floor, epsilon, delta, price=None: (
            method.max_bags(_facts(public), floor, epsilon, delta, _measurement(price)).bags
        ),
        "min_floor": lambda public, bags, epsilon, delta, price=None: method.min_floor(
            _facts(public), bags, epsilon, delta, _measurement(price)
        ),
    }


SAMPLED: Answers = {
    "delta": lambda public, floor, epsilon, price=(0.0, 0.0), group=1, chance=1.0: (
        sampled_wtd_flag.delta(_facts(public), floor, epsilon, *price, group, chance).upper
    ),
    "epsilon": lambda public, floor, delta, price=(0.0, 0.0), group=1, chance=1.0: (
        sampled_wtd_flag.epsilon(_facts(public), floor, delta, *price, group, chance)
    ),
    "max_bags": lambda public, rows, floor, epsilon, delta, price=(0.0, 0.0): (
        sampled_wtd_flag.max_bags(_facts(public), rows, floor, epsilon, delta, *price)
    ),
    "min_floor": lambda public, epsilon, delta, price=(0.0, 0.0), chance=1.0: (
        sampled_wtd_flag.min_floor(_facts(public), epsilon, delta, *price, chance)
    ),
    "min_bag_size": lambda labels, residual_ms, epsilon, delta, features=None, factor=None: (
        sampled_wtd_flag.min_bag_size(labels, residual_ms, epsilon, delta, features, factor)
    ),
}
"""Questions about one bag: `public` is (rows, label range, rank, largest leverage, centred)."""


def _noisy(public: tuple[Any, ...]) -> noisy_wtd_lag.Facts:
    return noisy_wtd_lag.Facts(*public)


NOISY: Answers = {
    "delta": lambda public, epsilon, chance=1.0: (
        noisy_wtd_lag.delta(_noisy(public), epsilon, chance).upper
    ),
    "epsilon": lambda public, delta, chance=1.0: noisy_wtd_lag.epsilon(
        _noisy(public), delta, chance
    ),
    "max_bags": lambda public, epsilon, delta: noisy_wtd_lag.max_bags(
        _noisy(public), epsilon, delta
    ),
    "min_noise_std": lambda public, epsilon, delta, chance=1.0: noisy_wtd_lag.min_noise_std(
        _noisy(public), epsilon, delta, chance
    ),
    "min_noisy_fraction": lambda public, epsilon, delta, chance=1.0: (
        noisy_wtd_lag.min_noisy_fraction(_noisy(public), epsilon, delta, chance)
    ),
    "min_bag_size": noisy_wtd_lag.min_bag_size,
    "target_mu": noisy_wtd_lag.target_mu,
    "realised_mu": lambda weights, noisy, width, std: noisy_wtd_lag.realised_mu(
        weights, np.asarray(noisy, bool), width, std
    ).tolist(),
    "realised_delta": noisy_wtd_lag.realised_delta,
    "realised_epsilon": noisy_wtd_lag.realised_epsilon,
}
"""`public` is (bag size, label range, noisy fraction, noise deviation, rows)."""

THEOREM2: Answers = {
    "delta": lambda *given: paper_bags.theorem2_delta(*given).value,
    "epsilon": lambda *given: paper_bags.theorem2_epsilon(*given).value,
    "min_bag_size": lambda *given: paper_bags.theorem2_min_bag_size(*given).value,
    "terms": paper_bags.theorem2_terms,
}
THEOREM3: Answers = {
    "delta": lambda *given: paper_bags.theorem3_delta(*given).value,
    "epsilon": lambda *given: paper_bags.theorem3_epsilon(*given).value,
    "min_bag_size": lambda *given: paper_bags.theorem3_min_bag_size(*given).value,
}
GAUSSIAN: Answers = {
    "delta": gaussian.delta,
    "upper": gaussian.upper,
    "epsilon": gaussian.epsilon,
    "mu": gaussian.mu,
}


def _bounds(bags: int, tau: float, leverage: float, cosine: float, epsilon: float) -> list[float]:
    found = SketchFamily(bags, tau, leverage, cosine).delta(epsilon)
    return [found.lower, found.estimate, found.upper]


def _lower_bound(price: tuple[float, float], measured: float, width: float) -> list[float]:
    measurement = Measurement(*price)
    return [measurement.noise(width), measurement.lower_bound(measured, 2.0**-20, width)]


OTHER: Answers = {
    "family bounds": _bounds,
    "residual_cosine": residual_cosine,
    "membership": sampled_wtd_flag.membership,
    "affordable_delta": sampled_wtd_flag.affordable_delta,
    "affordable_bags": sampled_wtd_flag.affordable_bags,
    "group_delta": wtd_flag.group_delta,
    "best_true_positive_rate": best_true_positive_rate,
    "default_measurement": lambda *budget: list(asdict(default_measurement(*budget)).values()),
    "added_variance": added_variance,
    "lower_bound": _lower_bound,
    "theorem 1 utility": lambda *given: theory.theorem1_utility(*given).log10_failure,
    "random projection": theory.random_projection_max_bags,
}

ANSWERS: dict[str, Answers] = {
    **{f"wtd-flag {name}": _with(name) for name in ("exact", "exact-worst-case", "paper")},
    "sampled-wtd-flag exact": SAMPLED,
    "sampled-wtd-flag paper": THEOREM2,
    "sampled-noisy-wtd-lag exact": NOISY,
    "sampled-noisy-wtd-lag paper": THEOREM3,
    "gaussian": GAUSSIAN,
    "other": OTHER,
}
